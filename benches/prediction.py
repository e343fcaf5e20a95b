"""Time one step of a layer with each predictor: predict its loads, then observe them.

Best and median processor time of many steps once windows of 32 are full. Prints the table of
benches/RESULTS.md. With arguments, times one predictor alone (for instruction counts under
callgrind: the difference of two numbers of steps). With ``regions``, predictions per second of a
predictor that the simulator calls in Python, as it calls a user's, for regions of 8 members; the
example ``regions`` of crates/predict times the same predictions in the core.

    python benches/prediction.py [NAME STEPS EXPERTS | regions NAME]
"""

from __future__ import annotations

import statistics
import sys
import time
from types import SimpleNamespace

import numpy as np

from lightloom.demand.predictors import PREDICTORS, make_predictor
from lightloom.errors import DemandError
from lightloom.simulate.predictor import PredictorCallback

SIZES = (8, 16, 64, 256)
STEPS = {"copilot": 20, "copilot-gradient": 20}
WARM = 40
TOPICS = 16
#: steps after which loads repeat, so that drawing them does not grow with the steps timed
PERIOD = 64
#: experts from which a step takes a second or more: fewer steps
SLOW = {"copilot-gradient": 256}
FEW = 4
#: members of a region, and decisions that are timed
MEMBERS = 8
ROUNDS = 100


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


def counts(group: int, layer: int, index: int) -> np.ndarray:
    """Token copies between the members of a region, flat."""
    place = np.arange(MEMBERS**2) + layer * 31 + group
    return (1000 + (place * 7919 + index * 104_729) % 997).astype(np.uint64)


def request(group: int, layer: int, index: int, *places: tuple[int, int]) -> SimpleNamespace:
    """A ``PredictionRequest`` of the core, with what was seen at (layer, index) places."""
    seen = [
        SimpleNamespace(layer=one, index=other, tokens=counts(group, one, other))
        for one, other in places
    ]
    return SimpleNamespace(group=group, layer=layer, index=index, seen=seen)


def best_s(name: str, regions: int) -> float:
    """Seconds of one decision for many regions, whose predictors are called in Python."""
    callback = PredictorCallback(lambda members: make_predictor(name, members))
    groups, best = range(regions), float("inf")
    for step in range(1, 2 * WARM + ROUNDS):
        callback([request(group, 0, step) for group in groups])
        places = ((0, step), (1, step - 1))
        requests = [request(group, 1, step, *places) for group in groups]
        started = time.perf_counter()
        callback(requests)
        if step >= 2 * WARM:
            best = min(best, time.perf_counter() - started)
    return best


def main() -> None:
    """Print the table, or time one predictor."""
    if sys.argv[1:2] == ["regions"]:
        for regions in (1, 8, 64):
            found = regions / best_s(sys.argv[2], regions)
            print(f"{sys.argv[2]}, {regions} regions of {MEMBERS}: {found:.0f} predictions/s")
        return
    if len(sys.argv) > 1:
        name, steps, experts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
        print(f"{min(times_ms(name, experts, steps)):.4f} ms at best")
        return
    print("| predictor | " + " | ".join(f"{size} experts" for size in SIZES) + " |")
    print("|---|" + "---:|" * len(SIZES))
    for name in PREDICTORS:
        cells = []
        for experts in SIZES:
            try:
                make_predictor(name, experts)
            except DemandError:  # too many experts for it
                cells.append("-")
                continue
            steps = STEPS.get(name, 2000)
            slow = name in STEPS and experts >= SLOW.get(name, experts + 1)
            found = times_ms(name, experts, FEW if slow else steps)
            cells.append(f"{min(found):.3g} ({statistics.median(found):.3g})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
