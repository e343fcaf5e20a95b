"""One demand under the schedulers of other systems: RotorNet, Helios, X-NEST+.

They set each of several switches to one matching at a time and send nothing over packet switches.
A system that works in epochs gets the best of a few lengths of epochs, so that it is not judged by
a bad setting. Their bound is the largest line at the rate of all its ports, without any delay.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from lightloom import schedule

Bytes = npt.NDArray[np.uint64]
#: epochs that are tried, as shares of the time that the largest line takes over all its ports
_EPOCHS = (1.0, 0.5, 0.25, 0.125, 0.0625)


@dataclass(frozen=True)
class SystemRow:
    """How long a system takes.

    Attributes
    ----------
    length_s
        Seconds until the last byte, delays included.
    over_bound
        Length over the time of the largest line over all its ports.
    slots
        Slots or epochs.
    epoch_s
        Length of an epoch; ``None`` for systems without.
    relayed_bytes
        Bytes that took two hops.
    """

    length_s: float
    over_bound: float
    slots: int
    epoch_s: float | None
    relayed_bytes: int
    time_spent_s: float


@dataclass(frozen=True)
class SystemFabric:
    """Switches that every node has a port at."""

    switches: int
    rate_gbps: float
    delay_s: float


def other_system(name: str, demand: Bytes, fabric: SystemFabric) -> SystemRow:
    """Serve a square demand as the system of a name in :data:`SYSTEMS` does.

    Raises
    ------
    DemandError
        If it takes more slots than a schedule may have.
    """
    return SYSTEMS[name](demand, fabric)


def _rotornet(demand: Bytes, fabric: SystemFabric, *, held: bool, relay: bool) -> SystemRow:
    started = time.perf_counter()
    turns = schedule.rotornet_schedule(
        demand,
        switches=fabric.switches,
        delay_s=fabric.delay_s,
        rate_gbps=fabric.rate_gbps,
        held=held,
        relay=relay,
    )
    took = time.perf_counter() - started
    slots = len(turns.holds_bytes)
    return SystemRow(turns.length_s, turns.over_bound, slots, None, turns.relayed_bytes, took)


def _epochs(
    demand: Bytes, fabric: SystemFabric, run: Callable[..., schedule.EpochRun]
) -> SystemRow:
    line_s = schedule.line_time_s(demand, switches=fabric.switches, rate_gbps=fabric.rate_gbps)
    rows = []
    for share in _EPOCHS:
        epoch_s = max(share * line_s, 1e-9)
        started = time.perf_counter()
        epochs = run(
            demand,
            epoch_s=epoch_s,
            switches=fabric.switches,
            delay_s=fabric.delay_s,
            rate_gbps=fabric.rate_gbps,
        )
        took = time.perf_counter() - started
        rows.append(
            SystemRow(epochs.length_s, epochs.over_bound, len(epochs.matchings), epoch_s, 0, took)
        )
    return min(rows, key=lambda row: row.length_s)


def _by_hops(demand: Bytes, fabric: SystemFabric) -> SystemRow:
    """Plans that are held until all bytes that have a way have taken the shortest ones."""
    started = time.perf_counter()
    left = demand.copy()
    np.fill_diagonal(left, 0)
    line_s = schedule.line_time_s(demand, switches=fabric.switches, rate_gbps=fabric.rate_gbps)
    length_s, relayed, plans = 0.0, 0.0, 0
    while left.any():
        plan = schedule.xnest_plan(left, switches=fabric.switches, rule="hops")
        length_s += fabric.delay_s + 8e-9 * plan.busiest_bytes / fabric.rate_gbps
        relayed += plan.crossed_bytes - (int(left.sum()) - plan.stranded_bytes)
        plans += 1
        left = np.where(_joined(plan, len(left)), 0, left).astype(np.uint64)
    took = time.perf_counter() - started
    over = length_s / line_s if line_s else 1.0
    return SystemRow(length_s, over, plans, None, round(max(0.0, relayed)), took)


def _joined(plan: schedule.XnestPlan, nodes: int) -> npt.NDArray[np.bool_]:
    """Which nodes have a way to which, ``(nodes, nodes)``."""
    parts = schedule.xnest_sub_matrices(nodes)
    joined = np.eye(nodes, dtype=np.bool_)
    for part, which in set(plan.settings):
        to = parts[part][which]
        joined[np.flatnonzero(to >= 0), to[to >= 0]] = True
    for _ in range(nodes.bit_length()):
        joined = joined @ joined
    return joined


#: each system, by its name in tables
SYSTEMS: dict[str, Callable[[Bytes, SystemFabric], SystemRow]] = {
    "RotorNet, equal slots": partial(_rotornet, held=False, relay=False),
    "RotorNet, held to demand": partial(_rotornet, held=True, relay=False),
    "RotorNet, relaying": partial(_rotornet, held=False, relay=True),
    "Helios": partial(_epochs, run=schedule.helios_epochs),
    "X-NEST+": partial(_epochs, run=schedule.xnest_epochs),
    "X-NEST+, by hops": _by_hops,
}
