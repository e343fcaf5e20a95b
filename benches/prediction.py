"""Time one step of a layer with each predictor: predict its loads, then observe them.

Best and median processor time of many steps once windows of 32 are full. Prints the table of
benches/RESULTS.md. With arguments, times one predictor alone (for instruction counts under
callgrind: the difference of two numbers of steps).

    python benches/prediction.py [NAME STEPS EXPERTS]
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

from lightloom.demand.predictors import MAX_EXPERTS, PREDICTORS, make_predictor

SIZES = (8, 16, 64, 256)
STEPS = {"copilot": 20, "copilot-gradient": 20}
WARM = 40
TOPICS = 16
#: steps after which loads repeat, so that drawing them does not grow with the steps timed
PERIOD = 64
#: experts from which a step takes a second or more: fewer steps
SLOW = {"copilot": 16, "copilot-gradient": 256}
FEW = 4


def tied_layers(experts: int) -> np.ndarray:
    """Loads of two layers that share their topics, ``(PERIOD, 2, experts)``."""
    rng = np.random.default_rng(0)
    mix = rng.dirichlet(np.full(TOPICS, 4.0), size=PERIOD)
    topics = rng.dirichlet(np.full(experts, 2.0), size=(2, TOPICS))
    counts = [rng.multinomial(2**18, row) for layer in topics for row in mix @ layer]
    return np.array(counts, dtype=float).reshape(2, PERIOD, experts).swapaxes(0, 1)


def times_ms(name: str, experts: int, steps: int) -> list[float]:
    """Processor milliseconds of the second layer's steps, after warming up."""
    predictor = make_predictor(name, experts, window=32)
    spent = []
    trace = tied_layers(experts)
    for step in range(WARM + steps):
        before, after = trace[step % PERIOD]
        predictor.observe(step, 0, before)
        started = time.process_time_ns()
        if step >= WARM or name not in STEPS:  # slow ones fit only where they are timed
            predictor.predict(step, 1)
        predictor.observe(step, 1, after)
        if step >= WARM:
            spent.append((time.process_time_ns() - started) * 1e-6)
    return spent


def main() -> None:
    """Print the table, or time one predictor."""
    if len(sys.argv) > 1:
        name, steps, experts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
        print(f"{min(times_ms(name, experts, steps)):.4f} ms at best")
        return
    print("| predictor | " + " | ".join(f"{size} experts" for size in SIZES) + " |")
    print("|---|" + "---:|" * len(SIZES))
    for name in PREDICTORS:
        cells = []
        for experts in SIZES:
            solver = {"copilot": "slsqp", "copilot-gradient": "gradient"}.get(name, "")
            if experts > MAX_EXPERTS.get(solver, experts):
                cells.append("-")
                continue
            steps = STEPS.get(name, 2000)
            slow = name in STEPS and experts >= SLOW[name]
            found = times_ms(name, experts, FEW if slow else steps)
            cells.append(f"{min(found):.3g} ({statistics.median(found):.3g})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
