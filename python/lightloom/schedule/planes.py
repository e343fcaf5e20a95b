"""Circuits over several circuit switches: NIC i of every server is on plane i.

The Python interface of ``crates/schedule/src/allocation/planes.rs``, which names the theorems. A
circuit ends at NICs that a plane can join, and each NIC ends one circuit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import InputError
from lightloom.schedule.arrays import flag, whole_number
from lightloom.schedule.circuits import (
    Allocation,
    allocate_region,
    check_circuits,
    nic_rows,
    request_of,
    route,
    whole_ports,
)
from lightloom.schedule.failures import working_nics
from lightloom.schedule.records import Failures, Region
from lightloom.schedule.results import MAX_SHOWN, Result, ResultTable, summary

_MAX_PLANES = 4_096
#: steps of the search that decide in well under a second up to 64 servers of 8 NICs
EFFORT = 20_000


@dataclass(frozen=True, eq=False)
class PlanePlan(Result):
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
    working
        NICs that may be used, ``(n, planes)`` booleans.
    duplex
        Whether a circuit has the same NIC at both ends, see :func:`assign_planes`.
    moves
        Previous circuits that are still wanted, but are on other NICs now.
    is_fewest
        Whether it is proved that no assignment moves fewer.
    """

    verdict: Literal["assigned", "infeasible", "not found"]
    nics: npt.NDArray[np.uint32]
    reason: str
    working: npt.NDArray[np.bool_]
    duplex: bool
    moves: int = 0
    is_fewest: bool = True

    def tables(self) -> list[ResultTable]:
        """Return the tables that are printed: the verdict, and the first circuits."""
        rows = [tuple(map(str, circuit)) for circuit in self.nics[:MAX_SHOWN].tolist()]
        more = len(self.nics) - len(rows)
        verdict = summary("Circuits on planes", verdict=self.verdict, reason=self.reason or "-")
        headers = ("server", "NIC", "server", "NIC")
        nics = ResultTable("NICs", headers, rows, f"{more:,} more circuits." if more else "")
        return [verdict, nics] if rows else [verdict]

    def check(self, circuits: npt.ArrayLike) -> None:
        """Check, without trusting how they were found, that the NICs build these circuits.

        Parameters
        ----------
        circuits
            Parallel circuits of each pair, ``(n, n)``, symmetric.

        Raises
        ------
        InputError
            If a NIC does not work or ends two circuits, if two joined NICs are on no common plane,
            or if a pair has other circuits than stated.
        """
        checked = check_circuits(circuits, None)
        if len(checked) != len(self.working):
            raise InputError(
                f"circuits of {len(checked)} servers, but the plan is for {len(self.working)}"
            )
        try:
            _core.schedule_check_planes(checked, self.working, self.duplex, self.nics)
        except ValueError as error:
            raise InputError(f"planes: {error}") from None


def assign_planes(
    circuits: npt.ArrayLike,
    *,
    planes: int,
    duplex: bool = True,
    failed: Failures | None = None,
    previous: npt.ArrayLike | None = None,
    effort: int = EFFORT,
) -> PlanePlan:
    """Put circuits on planes.

    For regions whose NIC i is on circuit switch i; :func:`map_nics` is for one switch that joins
    any two NICs.

    Parameters
    ----------
    circuits
        Parallel circuits of each pair, ``(n, n)``, symmetric.
    planes
        Circuit switches, and NICs of every server.
    duplex
        Whether a plane joins both directions of its NICs, so that a circuit has the same NIC at
        both ends. Else NICs 2j and 2j + 1 are crossed: each sends where the other receives, and
        with an even number of planes an assignment always exists. The last of an odd number is
        duplex.
    failed
        NICs, servers and planes not to use.
    previous
        NICs of circuits that are there now, an earlier result: as few as possible of those that
        are still wanted move to other NICs.
    effort
        Bound of the search, in steps.

    Returns
    -------
    PlanePlan
        The NICs of the circuits, and what is known of them. If all p NICs work, crossed and even,
        O(c log p) as :func:`color_edges` (Petersen, 1891; König, 1916) for c circuits; else a
        search of O(effort) steps, as an edge coloring need not exist (Shannon, 1949).

    Raises
    ------
    InputError
        If an argument cannot be used.

    Examples
    --------
    >>> from lightloom.schedule import assign_planes
    >>> before = assign_planes([[0, 1, 0], [1, 0, 1], [0, 1, 0]], planes=2)
    >>> wanted = [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    >>> assign_planes(wanted, planes=2, previous=before.nics).moves
    0
    """
    checked = check_circuits(circuits, None)
    working = _working(len(checked), planes, failed)
    duplex = flag(duplex, "duplex")
    steps = whole_number(effort, "effort", 1, 2**32 - 1)
    try:
        old = None if previous is None else nic_rows(previous, "previous NICs")
        plan = _core.schedule_assign_planes(checked, working, duplex, steps, old)
    except ValueError as error:
        raise InputError(str(error)) from None
    return PlanePlan(working=working, duplex=duplex, **plan)


def allocate_on_planes(
    demand: npt.ArrayLike,
    region: Region,
    *,
    method: str = "best",
    previous: npt.ArrayLike | None = None,
    duplex: bool = True,
) -> tuple[Allocation, npt.NDArray[np.uint32]]:
    """Allocate circuits that planes can build.

    As a :class:`Decider` with planes does: those that find no plane are given up, and NICs that are
    then free are joined where a plane can and nothing ends later for it, the neediest pair first.
    Every server has one NIC per plane, ``region.ports`` of them.

    Returns
    -------
    tuple of Allocation and numpy.ndarray
        The allocation, and the NICs of its circuits, ``(circuits, 4)``: server, NIC, server, NIC.
        As :func:`allocate_region`, then at most 50 steps for the planes per circuit, and O(n^2) for
        each circuit that is joined anew. The search is ours: ``docs/explanation/circuits.md``.

    Examples
    --------
    >>> from lightloom.schedule import Region, allocate_on_planes
    >>> region = Region(ports=2, circuit_gbps=100, eps_gbps=100)
    >>> demand = [[0, 9, 1], [1, 0, 1], [1, 1, 0]]
    >>> allocation, nics = allocate_on_planes(demand, region, method="greedy")
    >>> nics.tolist()
    [[0, 0, 1, 0], [0, 1, 2, 1]]

    Raises
    ------
    DemandError, InputError
        As :func:`allocate_region`; also if servers differ in ports.
    """
    allocation = allocate_region(demand, region, method=method, previous=previous)
    n = len(allocation.circuits)
    ports = whole_ports(region.ports, n)
    if (ports != ports.max(initial=0)).any():
        raise InputError("ports: planes expect one NIC per plane at every server; name failed NICs")
    planes = int(ports.max(initial=0))
    if not planes:
        return allocation, np.zeros((0, 4), dtype=np.uint32)
    built, nics = _core.schedule_build_on_planes(
        request_of(demand, region, None),
        allocation.circuits,
        _working(n, planes, region.failed),
        flag(duplex, "duplex"),
    )
    if np.array_equal(built, allocation.circuits):
        return allocation, nics
    return route(demand, built, region), nics


def _working(servers: int, planes: int, failed: Failures | None) -> npt.NDArray[np.bool_]:
    count = whole_number(planes, "planes", 1, _MAX_PLANES)
    working = working_nics(np.full(servers, count, dtype=np.uint32), failed)
    return np.ascontiguousarray(working.reshape(servers, -1))
