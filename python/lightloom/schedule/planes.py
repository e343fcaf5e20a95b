"""Circuits over several circuit switches: NIC i of every server is on plane i.

The Python face of ``crates/schedule/src/allocation/planes.rs``, which names the theorems. A circuit
ends at NICs that a plane can join, and each NIC ends one circuit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import InputError
from lightloom.schedule.arrays import whole_number
from lightloom.schedule.circuits import (
    Allocation,
    Region,
    allocate_region,
    check_circuits,
    route,
    whole_ports,
)
from lightloom.schedule.failures import Failures, working_nics

_MOST_PLANES = 4_096
#: steps of the search that decide in well under a second up to 64 servers of 8 NICs
EFFORT = 20_000


@dataclass(frozen=True)
class PlanePlan:
    """What became of circuits on planes.

    Attributes
    ----------
    verdict
        ``assigned``; ``infeasible``: there is no assignment; ``not found``: none was found within
        the effort, nor was it proved that there is none.
    nics
        ``(circuits, 4)``: server, NIC, server, NIC, sorted, as of :func:`map_nics`; empty unless
        assigned.
    reason
        Why it is infeasible, or how many circuits are left; empty if assigned.
    """

    verdict: Literal["assigned", "infeasible", "not found"]
    nics: npt.NDArray[np.uint32]
    reason: str


def assign_planes(
    circuits: npt.ArrayLike,
    *,
    planes: int,
    duplex: bool = True,
    failed: Failures | None = None,
    effort: int = EFFORT,
) -> PlanePlan:
    """Put circuits on planes.

    Parameters
    ----------
    circuits
        Parallel circuits of each pair, ``(n, n)``, symmetric.
    planes
        Circuit switches, and NICs of every server.
    duplex
        Whether a plane joins both directions of its NICs, so that a circuit has the same NIC at
        both ends. Else NICs 2j and 2j + 1 are crossed: each sends where the other receives, and
        with an even number of planes an assignment always exists.
    failed
        NICs, servers and planes not to use.
    effort
        Bound of the search, in steps.

    Raises
    ------
    InputError
        If an argument cannot be used.
    """
    given = check_circuits(circuits, None)
    working = _working(len(given), planes, failed)
    steps = whole_number(effort, "effort", 1, 2**32 - 1)
    rows, reason, left = _core.schedule_assign_planes(given, working, bool(duplex), steps)
    none = np.zeros((0, 4), dtype=np.uint32)
    if rows is None:
        return PlanePlan("infeasible", none, reason or "")
    if left:
        return PlanePlan("not found", none, f"{len(left)} circuits left after {steps} steps")
    return PlanePlan("assigned", rows, "")


def allocate_on_planes(
    demand: npt.ArrayLike,
    region: Region,
    *,
    method: str = "best",
    previous: npt.ArrayLike | None = None,
    duplex: bool = True,
) -> tuple[Allocation, npt.NDArray[np.uint32]]:
    """Allocate circuits that planes can build: those that find no plane are given up.

    Every server has one NIC per plane, ``region.ports`` of them. Returns the allocation and the
    NICs of its circuits, ``(circuits, 4)``.

    Raises
    ------
    DemandError, InputError
        As :func:`allocate_region`; also if servers differ in ports.
    """
    found = allocate_region(demand, region, method=method, previous=previous)
    n = len(found.circuits)
    ports = whole_ports(region.ports, n)
    if (ports != ports.max(initial=0)).any():
        raise InputError("ports: planes expect one NIC per plane at every server; name failed NICs")
    planes = int(ports.max(initial=0))
    if not planes:
        return found, np.zeros((0, 4), dtype=np.uint32)
    plan = assign_planes(found.circuits, planes=planes, duplex=duplex, failed=region.failed)
    if plan.verdict == "assigned":
        return found, plan.nics
    working = _working(n, planes, region.failed)
    rows = _core.schedule_assign_most(found.circuits, working, bool(duplex), EFFORT)
    built = np.zeros_like(found.circuits)
    np.add.at(built, (rows[:, 0], rows[:, 2]), np.uint16(1))
    routed = route(demand, built + built.T, region)
    return routed, rows


def _working(servers: int, planes: int, failed: Failures | None) -> npt.NDArray[np.bool_]:
    count = whole_number(planes, "planes", 1, _MOST_PLANES)
    working = working_nics(np.full(servers, count, dtype=np.uint32), failed)
    return np.ascontiguousarray(working.reshape(servers, -1))
