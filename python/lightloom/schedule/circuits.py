"""Demand to circuits: the Python interface of the allocators in ``crates/schedule``.

Matrices are servers x servers of one region, row = source, column = destination; the diagonal
never leaves its server and is ignored. Circuits are duplex, so their matrix is symmetric. Times
are at line rate over one hop; latency, relaying and copies inside a server are not in them.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import DemandError, InputError, echo
from lightloom.inputs.arguments import instance
from lightloom.optional import need
from lightloom.schedule.arrays import (
    as_array,
    is_number,
    one_of,
    span_text,
    square_matrix,
    whole_matrix,
    whole_number,
)
from lightloom.schedule.core_requests import CircuitRequest
from lightloom.schedule.failures import check_demand, working_nics
from lightloom.schedule.named_sets import ALLOCATION_METHODS, ALLOCATORS
from lightloom.schedule.records import Failures, Region
from lightloom.schedule.results import Result, ResultTable, matrix_table, summary
from lightloom.shown import views
from lightloom.units import show_bytes, show_things, show_time

if TYPE_CHECKING:
    from lightloom.report.figure import Figure
    from lightloom.schedule import exact

_MAX_PORTS = 65_535
_MAX_NODES = 1_024
_MAX_SERVERS = 4_096
#: seconds to look for circuits that change fewest: beyond 16 servers it seldom ends in ten
_STICKY_S = 1.0


@dataclass(frozen=True, eq=False)
class Allocation(Result):
    """Circuits, and how the demand is divided between them and the EPS.

    Attributes
    ----------
    circuits
        Parallel circuits of each pair, ``(n, n)``, symmetric.
    eps_bytes
        Bytes of each ordered pair that go over the EPS, ``(n, n)``; the rest of the demand goes
        over the pair's circuits.
    makespan_s
        Seconds until the last byte at line rate; infinite if a pair has no way at all.
    port_bound_s
        Seconds that no circuits can beat, see :func:`port_bound_s`.
    chosen
        The allocator whose circuits these are; ``best`` may settle on another's.
    bound_s
        Seconds that no circuits can beat, as far as is proved: by :func:`line_bound_s`, or by
        ``exact``.

    Examples
    --------
    >>> import lightloom
    >>> demand = [[0, 8_000, 1_000], [2_000, 0, 5_000], [3_000, 4_000, 0]]
    >>> allocation = lightloom.allocate(demand, ports=2, circuit_gbps=100, eps_gbps=100)
    >>> allocation.circuit_count
    3
    """

    circuits: npt.NDArray[np.uint16]
    eps_bytes: npt.NDArray[np.uint64]
    makespan_s: float
    port_bound_s: float
    chosen: str
    bound_s: float

    @property
    def circuit_count(self) -> int:
        """Number of circuits in all."""
        return int(np.triu(self.circuits).sum(dtype=np.int64))

    @property
    def over_bound(self) -> float:
        """Makespan over the port bound; 1 is optimal (and 1 if there is nothing to send)."""
        return self.makespan_s / self.port_bound_s if self.port_bound_s > 0 else 1.0

    def tables(self) -> list[ResultTable]:
        """Return the tables that are printed: a summary, and the circuits."""
        return [
            summary(
                "Allocation",
                allocator=self.chosen,
                circuits=f"{self.circuit_count:,}",
                makespan=show_time(self.makespan_s),
                over_port_bound=f"{self.over_bound:.3f}",
                no_circuits_beat=show_time(self.bound_s),
                over_the_EPS=show_bytes(float(self.eps_bytes.sum(dtype=np.float64))),
            ),
            matrix_table("Circuits between servers", self.circuits),
        ]

    def plot(self) -> Figure:
        """Draw the circuits as a matrix."""
        return views().draw(self)


def allocate(
    demand: npt.ArrayLike,
    *,
    ports: int | npt.ArrayLike,
    circuit_gbps: float,
    eps_gbps: float,
    method: str = "best",
    split: bool = True,
    previous: npt.ArrayLike | None = None,
) -> Allocation:
    """Turn the demand of one region into circuits.

    Parameters
    ----------
    demand
        Bytes from source to destination, ``(n, n)``, whole numbers.
    ports, circuit_gbps, eps_gbps, split
        See :class:`Region`.
    method
        One of :data:`ALLOCATION_METHODS`, which says what each does; for ``exact`` see
        :func:`allocate_exactly`.
    previous
        Circuits that are there now, ``(n, n)``. ``greedy``, ``parametric`` and ``best`` start
        from them and, where others are no faster, keep them; ``paper`` and ``reference`` prefer
        them among pairs of equal need.

    Returns
    -------
    Allocation
        Circuits, what goes over them, the makespan and a bound. O(n^2 log n) for ``greedy`` and
        Algorithm 1 of MixNet (SIGCOMM 2025), ``paper``; the others search. All but ``paper`` and
        ``reference`` are ours: ``docs/explanation/circuits.md``.

    Raises
    ------
    DemandError
        If the demand is not a square matrix of whole numbers from 0 to 2^64 - 1.
    InputError
        If another argument cannot be used.

    Examples
    --------
    >>> import lightloom
    >>> demand = [[0, 8_000, 1_000], [2_000, 0, 5_000], [3_000, 4_000, 0]]
    >>> lightloom.allocate(demand, ports=2, circuit_gbps=100, eps_gbps=100).circuits.tolist()
    [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    """
    region = Region(ports, circuit_gbps, eps_gbps, split)
    return allocate_region(demand, region, method=method, previous=previous)


def allocate_region(
    demand: npt.ArrayLike,
    region: Region,
    *,
    method: str = "best",
    previous: npt.ArrayLike | None = None,
    tolerance: float = 0.0,
) -> Allocation:
    """As :func:`allocate`, with the ports described by a :class:`Region`.

    Parameters
    ----------
    demand, method, previous
        As :func:`allocate`.
    region
        The ports and how they may be used.
    tolerance
        Hysteresis: the makespan may be longer by this part if fewer of the previous circuits
        change. Where those are within it of a bound already, nothing else is looked for. Not for
        ``exact``.

    Returns
    -------
    Allocation
        As :func:`allocate`, as fast. With a tolerance, which is ours, O(n^2) where the previous
        circuits stay.

    Examples
    --------
    >>> from lightloom.schedule import Region, allocate_region, changed_pairs
    >>> region = Region(ports=2, circuit_gbps=100, eps_gbps=100)
    >>> built = allocate_region([[0, 9, 1], [1, 0, 1], [1, 1, 0]], region).circuits
    >>> drifted = [[0, 9, 2], [1, 0, 1], [2, 1, 0]]
    >>> allocation = allocate_region(drifted, region, previous=built, tolerance=0.5)
    >>> changed_pairs(built, allocation.circuits)
    0

    Raises
    ------
    DemandError, InputError
        As :func:`allocate`.
    """
    check_method(method, ALLOCATION_METHODS)
    if not is_number(tolerance, 0):
        raise InputError(f"tolerance: expected a number from 0, got {echo(tolerance)}")
    if method == "exact":
        if tolerance:
            raise InputError("tolerance: exact has none; see its gap")
        return allocate_exactly(demand, region, previous=previous)
    request = request_of(demand, region, previous)
    return Allocation(**_core.schedule_allocate(method, request, tolerance))


def allocate_each(
    demands: npt.ArrayLike,
    region: Region,
    *,
    method: str = "best",
    previous: npt.ArrayLike | None = None,
) -> list[Allocation]:
    """Turn each of several demands of one region into circuits, in one call.

    For studies of many samples: the region is checked once, and the interpreter lock is released
    once.

    Parameters
    ----------
    demands
        Bytes from source to destination, ``(k, n, n)``, whole numbers.
    region, previous
        As :func:`allocate_region`; ``previous`` are held before each demand.
    method
        One of ``ALLOCATORS``.

    Returns
    -------
    list of Allocation
        In order of the demands, each as :func:`allocate_region` returns it: O(k n^2 log n) for
        ``greedy`` and ``paper``. Sources: ``docs/explanation/circuits.md``.

    Raises
    ------
    DemandError, InputError
        As :func:`allocate`.

    Examples
    --------
    >>> from lightloom.schedule import Region, allocate_each
    >>> allocations = allocate_each([[[0, 5], [7, 0]], [[0, 1], [0, 0]]], Region(3, 100, 100))
    >>> [a.circuit_count for a in allocations]
    [3, 3]
    """
    check_method(method)
    array = as_array(demands, "demands", DemandError)
    if array.ndim != 3 or array.shape[1] != array.shape[2]:
        raise DemandError(f"demands: expected several square matrices, got shape {array.shape}")
    count, n, _ = array.shape
    instance(region, Region, "region", "a Region")
    rows = whole_matrix(array.reshape(count * n, n), "demands", 2**64 - 1, DemandError)
    if region.failed is not None:
        for matrix in rows.reshape(array.shape):
            check_demand(matrix, region.failed)
    request = request_of(np.zeros((n, n), np.uint64), region, previous)
    allocations = _core.schedule_allocate_each(method, request, rows.reshape(array.shape))
    return [Allocation(**fields) for fields in allocations]


def allocate_exactly(
    demand: npt.ArrayLike,
    region: Region,
    *,
    previous: npt.ArrayLike | None = None,
    gap: float = 0.003,
    time_limit_s: float = 10.0,
) -> Allocation:
    """Prove how fast circuits can be, and return such circuits.

    Parameters
    ----------
    demand, region, previous
        As :func:`allocate`.
    gap
        Ends when the makespan is within this part of ``bound_s``.
    time_limit_s
        Seconds after which the best circuits and bound so far are returned; only then does the
        answer depend on the machine. A third of it, but at most a second, is kept for finding,
        among circuits as fast as these, those that change fewest of the previous ones; if that does
        not end, the circuits stay as they were found.

    Returns
    -------
    Allocation
        With ``bound_s`` proved by integer programming (HiGHS): nothing finishes before it.
        With p ports O((p + 1)^pairs) at worst, which is why there is a time limit. The programs
        are ours: ``docs/decisions/0005-exact-circuits-by-highs.md``.

    Examples
    --------
    >>> from lightloom.schedule import Region, allocate_exactly
    >>> region = Region(ports=1, circuit_gbps=100, eps_gbps=100)
    >>> allocation = allocate_exactly([[0, 9000, 1000], [1000, 0, 1000], [1000, 1000, 0]], region)
    >>> allocation.circuits.tolist(), allocation.makespan_s == allocation.bound_s
    ([[0, 1, 0], [1, 0, 0], [0, 0, 0]], True)

    Raises
    ------
    DemandError, InputError
        As :func:`allocate`.
    """
    for name, value in (("gap", gap), ("time_limit_s", time_limit_s)):
        if not is_number(value, 0) or value == 0:
            raise InputError(f"{name}: expected a number above 0, got {echo(value)}")
    request = request_of(demand, region, previous)
    need("scipy", "exact circuits")
    from lightloom.schedule import exact

    started = time.monotonic()
    lines = _lines(request)
    best = Allocation(**_core.schedule_allocate("best", request, 0.0))

    def rate(circuits: npt.NDArray[np.uint16]) -> float:
        return _core.schedule_makespan(request, circuits)

    start = exact.Found(best.circuits, best.makespan_s, best.bound_s)
    share = 1.0 if previous is None else 2 / 3
    solved = exact.closest(start, lines, rate, gap, started + share * time_limit_s)
    circuits, before = solved.circuits, request.previous
    if before is not None and np.isfinite(solved.time_s) and changed_pairs(before, circuits):
        # Nothing to send takes no time: any other will do to ask for the circuits.
        by = solved.time_s or 1.0
        until = min(started + time_limit_s, time.monotonic() + _STICKY_S)
        near = exact.nearest(lines, by, before, until)
        if near is not None and rate(near) <= solved.time_s * (1 + 1e-9):
            circuits = near
    routed = Allocation(**_core.schedule_route(request, circuits))
    return dataclasses.replace(routed, chosen="exact", bound_s=solved.bound_s)


def _lines(request: CircuitRequest) -> exact.Lines:
    from lightloom.schedule import exact

    sizes = request.demand.astype(np.float64)
    np.fill_diagonal(sizes, 0.0)
    every = np.ones(sizes.shape, dtype=bool)
    return exact.Lines(
        bytes_=sizes,
        ports=request.ports.astype(np.int64),
        allowed=every if request.allowed is None else request.allowed,
        circuit=request.circuit_bps / 8,
        eps=request.eps_bps / 8,
        split=request.split,
    )


def route(demand: npt.ArrayLike, circuits: npt.ArrayLike, region: Region) -> Allocation:
    """Divide the demand between circuits that are there and the EPS, as well as it can be done.

    Without split a pair with circuits uses only these and all others the EPS (MixNet section
    5.3); with split the excess of a pair is spilled so that the makespan is least.

    Returns
    -------
    Allocation
        These circuits with what goes over them, and the makespan; O(n^2) for each step of Newton's
        method (Dinkelbach, Management Science 13(7), 1967), few of which are needed.

    Raises
    ------
    DemandError, InputError
        As :func:`allocate`; also if the circuits take more ports than a server has.

    Examples
    --------
    >>> from lightloom.schedule import Region, route
    >>> region = Region(ports=1, circuit_gbps=6, eps_gbps=2)
    >>> route([[0, 10**9], [0, 0]], [[0, 1], [1, 0]], region).makespan_s
    1.0
    """
    request = request_of(demand, region, None)
    checked = check_circuits(circuits, request.ports)
    return Allocation(**_core.schedule_route(request, checked))


def changed_pairs(previous: npt.ArrayLike, following: npt.ArrayLike) -> int:
    """Return the port pairs that a switch touches, from circuits to others, ``(n, n)`` each.

    Returns
    -------
    int
        The larger of circuits made and circuits torn down; O(n^2).

    Raises
    ------
    InputError
        If these are no circuits, or of different numbers of servers.

    Examples
    --------
    >>> from lightloom.schedule import changed_pairs
    >>> changed_pairs([[0, 2], [2, 0]], [[0, 1], [1, 0]])
    1
    """
    sizes = [square_matrix(x, "circuits", _MAX_PORTS, InputError) for x in (previous, following)]
    if sizes[0].shape != sizes[1].shape:
        raise InputError(
            f"circuits of {len(sizes[0])} and of {len(sizes[1])} servers cannot be compared"
        )
    old, new = (x.astype(np.uint16) for x in sizes)
    return _core.schedule_changed_pairs(old, new)


def map_nics(
    circuits: npt.ArrayLike,
    *,
    ports: int | npt.ArrayLike,
    numa_nodes: int = 2,
    previous: npt.ArrayLike | None = None,
    failed: Failures | None = None,
) -> npt.NDArray[np.uint32]:
    """Pick the NICs that end each circuit; several circuits of one pair land on different nodes.

    For one circuit switch that joins any two NICs; with one switch per NIC use
    :func:`assign_planes`.

    Parameters
    ----------
    circuits
        Parallel circuits of each pair, ``(n, n)``, symmetric.
    ports
        Optical NICs per server; NIC k of p sits on NUMA node ``k * numa_nodes // p``.
    numa_nodes
        NUMA nodes of a server.
    previous
        An earlier result: circuits that are still wanted keep their NICs, as far as these work.
    failed
        NICs and servers that must not be used; a failed plane is NIC i of every server.

    Returns
    -------
    numpy.ndarray
        ``(circuits, 4)``: server, NIC, server, NIC; sorted. O(n^2 + c log c + c p) for c circuits
        and p NICs per server. Step 4 of MixNet's Algorithm 1 (SIGCOMM 2025), for several circuits
        of a pair on all nodes.

    Raises
    ------
    InputError
        If an argument cannot be used, or a server has fewer working NICs than circuits.

    Examples
    --------
    >>> from lightloom.schedule import Failures, map_nics
    >>> map_nics([[0, 1], [1, 0]], ports=2, failed=Failures(nics=[(0, 0)])).tolist()
    [[0, 1, 1, 0]]
    """
    checked = check_circuits(circuits, None)
    available = whole_ports(ports, len(checked))
    checked = check_circuits(checked, available)
    working = working_nics(available, failed)
    _expect_nics(checked, working)
    nodes = whole_number(numa_nodes, "numa_nodes", 1, _MAX_NODES)
    old = np.zeros((0, 4), dtype=np.uint32)
    if previous is not None:
        old = nic_rows(previous, "previous NICs")
    return _core.schedule_map_nics(checked, available, working, nodes, old)


def nic_rows(values: npt.ArrayLike, name: str) -> npt.NDArray[np.uint32]:
    """Return circuits on NICs, rows of server, NIC, server, NIC; InputError if they are not."""
    rows = as_array(values, name, InputError)
    if rows.size == 0:
        return np.zeros((0, 4), dtype=np.uint32)
    if rows.ndim != 2 or rows.shape[1] != 4 or rows.dtype.kind not in "iu":
        raise InputError(
            f"{name}: expected rows of 4 whole numbers, got {rows.dtype} of shape {rows.shape}"
        )
    if rows.min() < 0 or rows.max() >= 2**32:
        raise InputError(f"{name}: expected 0 to {2**32 - 1}, got {span_text(rows)}")
    return rows.astype(np.uint32)


def _expect_nics(circuits: npt.NDArray[np.uint16], working: npt.NDArray[np.bool_]) -> None:
    """Raise InputError where a server has fewer working NICs than circuits."""
    there = working.sum(axis=1)
    used = circuits.sum(axis=1, dtype=np.int64)
    for server in np.flatnonzero(used > there):
        raise InputError(
            f"circuits: server {server} has {there[server]} working NICs but {used[server]} "
            "circuits; allocate them with the same failures"
        )


def check_method(method: str, known: Iterable[str] = ALLOCATORS) -> None:
    """Raise InputError unless an allocator (by default: of the core) is called so."""
    one_of(method, "circuits", tuple(known))


def request_of(
    demand: npt.ArrayLike, region: Region, previous: npt.ArrayLike | None
) -> CircuitRequest:
    """Check a demand and a region and return them as the core takes them."""
    instance(region, Region, "region", "a Region")
    matrix = square_matrix(demand, "demand", 2**64 - 1, DemandError)
    n = len(matrix)
    if n > _MAX_SERVERS:
        raise DemandError(f"demand of {n} servers: a region has at most {_MAX_SERVERS}")
    try:
        working = _core.schedule_working_region(n, vars(region))
    except ValueError as error:
        raise InputError(str(error)) from None
    if region.failed is not None:
        check_demand(matrix, region.failed)
    before = None
    if previous is not None:
        before = check_circuits(previous, None)
        if len(before) != n:
            raise InputError(f"previous: expected {n} x {n} circuits, got {before.shape}")
    return CircuitRequest(demand=matrix, previous=before, **working)


def check_circuits(
    circuits: npt.ArrayLike, ports: npt.NDArray[np.uint32] | None
) -> npt.NDArray[np.uint16]:
    """Return circuits as a symmetric matrix without diagonal that takes no more than ``ports``."""
    matrix = square_matrix(circuits, "circuits", _MAX_PORTS, InputError).astype(np.uint16)
    if not np.array_equal(matrix, matrix.T) or np.diagonal(matrix).any():
        raise InputError("circuits: expected a symmetric matrix with zeros on the diagonal")
    if ports is not None:
        if len(ports) != len(matrix):
            raise InputError(f"circuits: expected {len(ports)} servers, got {len(matrix)}")
        used = matrix.sum(axis=1, dtype=np.int64)
        for server in np.flatnonzero(used > ports):
            raise InputError(
                f"circuits: server {server} has {show_things(int(ports[server]), 'port')} but "
                f"{show_things(int(used[server]), 'circuit')}"
            )
    return matrix


def whole_ports(ports: int | npt.ArrayLike, servers: int) -> npt.NDArray[np.uint32]:
    """Return the ports of each server, ``(n,)``; InputError if these cannot be."""
    array = as_array(ports, "ports", InputError)
    if array.ndim == 0:
        array = np.full(servers, array)
    if array.shape != (servers,):
        raise InputError(f"ports: expected one number or {servers}, got shape {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"ports: expected whole numbers, got {array.dtype}")
    if array.size and (array.min() < 0 or array.max() > _MAX_PORTS):
        raise InputError(f"ports: expected 0 to {_MAX_PORTS}, got {span_text(array)}")
    return array.astype(np.uint32)
