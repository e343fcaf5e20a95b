"""What planes can build is decided once: `allocate_on_planes` and a `Decider` give the same."""

import numpy as np
import pytest

from lightloom.schedule import (
    Decider,
    Failures,
    Policy,
    Region,
    allocate_on_planes,
    allocate_region,
    assign_planes,
)
from lightloom.schedule.planes import PlanePlan, _working

REGIONS = 200


def world(seed):
    """A demand, a region that often cannot build everything, and how its fibers are laid."""
    rng = np.random.default_rng(seed)
    n, ports = int(rng.integers(3, 17)), int(rng.integers(2, 9))
    demand = (1e9 * rng.random((n, n)) ** int(rng.integers(1, 7))).astype(np.uint64)
    np.fill_diagonal(demand, 0)
    failed = allowed = None
    if rng.random() < 0.4:
        nics = np.stack([rng.integers(n, size=3), rng.integers(ports, size=3)], axis=1)
        failed = Failures(
            nics=[tuple(nic) for nic in nics.tolist()], planes=[0] if rng.random() < 0.3 else []
        )
    if rng.random() < 0.3:
        allowed = rng.random((n, n)) < 0.7
        allowed |= allowed.T
    region = Region(
        ports=ports,
        circuit_gbps=400,
        eps_gbps=float(rng.choice([100, 800])),
        split=bool(rng.random() < 0.8),
        allowed=allowed,
        failed=failed,
    )
    return demand, region, bool(rng.integers(2)), str(rng.choice(["greedy", "parametric"]))


def test_a_schedule_and_a_decider_build_the_same_circuits():
    repaired = 0
    for seed in range(REGIONS):
        demand, region, duplex, method = world(seed)
        n = len(demand)
        none = np.zeros((n, n), dtype=np.uint16)
        found, nics = allocate_on_planes(
            demand, region, method=method, previous=none, duplex=duplex
        )
        decider = Decider(
            n,
            region,
            policy=Policy(method, "always"),
            timing=0.0,
            planes="duplex" if duplex else "crossed",
        )
        decision = decider.decide(decider.hold(none), demand)
        assert np.array_equal(found.circuits, decision.circuits), seed
        assert np.array_equal(nics, decision.nics), seed
        assert found.makespan_s == pytest.approx(decision.makespan_s, rel=1e-12)
        working = _working(n, region.ports, region.failed)
        PlanePlan("assigned", nics, "", working, duplex).check(found.circuits)
        wanted = allocate_region(demand, region, method=method, previous=none)
        if np.array_equal(wanted.circuits, found.circuits):
            continue
        # only what was not found in a long search either is given up
        repaired += 1
        plan = assign_planes(
            wanted.circuits, planes=region.ports, duplex=duplex, failed=region.failed
        )
        assert plan.verdict != "assigned", seed
    assert repaired > REGIONS // 20
