"""A thousand decisions of regions drawn from a seed, a line each."""

from __future__ import annotations

import sys
from itertools import count, islice

import numpy as np

from lightloom.schedule import (
    ALLOCATORS,
    WHEN_POLICIES,
    Decider,
    Failures,
    Policy,
    Region,
    RelayCost,
    SwitchTiming,
)

DECISIONS = 1_000
STEPS = 10


def lines(seed: int):
    """Decisions of one region after another, each keeping the circuits of the one before."""
    for case in count():
        rng = np.random.default_rng([seed, case])
        servers, ports = int(rng.integers(3, 9)), int(rng.integers(1, 7))
        region = Region(
            ports,
            100.0,
            float(rng.choice([10, 50, 100, 200])),
            split=bool(rng.random() < 0.8),
            failed=Failures(nics=[(1, 0)]) if rng.random() < 0.1 else None,
        )
        policy = Policy(
            allocator=str(rng.choice(list(ALLOCATORS))),
            when=str(rng.choice(list(WHEN_POLICIES))),
            relaying=RelayCost() if rng.random() < 0.2 else None,
        )
        timing = SwitchTiming(
            float(rng.choice([0, 1e-5, 1e-3])),
            float(rng.choice([0, 1e-6])),
            keep_unchanged=bool(rng.random() < 0.7),
        )
        decider = Decider(
            servers, region, policy=policy, timing=timing,
            planes="duplex" if rng.random() < 0.2 else None,
        )  # fmt: skip
        held = decider.start()
        for _ in range(STEPS):
            demand = rng.exponential(10 ** rng.uniform(5, 9), (servers, servers))
            hidden_s = float(rng.choice([0, 1e-4]))
            decision = decider.decide(held, demand.astype(np.uint64), hidden_s=hidden_s)
            yield f"{case}: {decision.to_json()}"
            held = decision.held


if __name__ == "__main__":
    print(*islice(lines(int(sys.argv[1])), DECISIONS), sep="\n")
