"""Demand to circuits: the Python face of the allocators in ``crates/schedule``.

Matrices are servers x servers of one region, row = source, column = destination; the diagonal
never leaves its server and is ignored. Circuits are duplex, so their matrix is symmetric. Times
are at line rate over one hop; latency, relaying and copies inside a server are not in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import DemandError, InputError, did_you_mean
from lightloom.schedule.arrays import as_array, rate_bps, square_matrix

Method = Literal["paper", "reference", "static", "greedy", "parametric", "best"]

_MOST_PORTS = 65_535
_MOST_SERVERS = 4_096


@dataclass(frozen=True)
class Allocation:
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
        Seconds that no circuits can beat: the largest row or column sum over the line rate of all
        ports of that server.
    chosen
        The allocator whose circuits these are; ``best`` may settle on another's.
    """

    circuits: npt.NDArray[np.uint16]
    eps_bytes: npt.NDArray[np.uint64]
    makespan_s: float
    port_bound_s: float
    chosen: Method

    @property
    def circuit_count(self) -> int:
        """Number of circuits in all."""
        return int(np.triu(self.circuits).sum(dtype=np.int64))

    @property
    def over_bound(self) -> float:
        """Makespan over the port bound; 1 is optimal (and 1 if there is nothing to send)."""
        return self.makespan_s / self.port_bound_s if self.port_bound_s > 0 else 1.0


@dataclass(frozen=True)
class Region:
    """The ports of one region and how they may be used.

    Attributes
    ----------
    ports
        Optical ports per server: one number for all, or one per server.
    circuit_gbps
        Rate of one circuit, per direction.
    eps_gbps
        Rate of one server into, and out of, the EPS (the sum of its EPS NICs); 0 for none.
    split
        Whether a pair with circuits may send its excess over the EPS.
    allowed
        Pairs that may have circuits, ``(n, n)`` booleans, symmetric; all by default.
    """

    ports: int | npt.ArrayLike
    circuit_gbps: float
    eps_gbps: float
    split: bool = True
    allowed: npt.ArrayLike | None = None


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
        ``paper`` (Algorithm 1 of MixNet as printed), ``reference`` (as its authors' simulator has
        it), ``static`` (a demand-blind circulant), ``greedy`` (the neediest pair first),
        ``parametric`` (bisection on the time), ``best`` (never slower than any of these).
    previous
        Circuits that are there now, ``(n, n)``. ``greedy``, ``parametric`` and ``best`` start
        from them and, where others are no faster, keep them; ``paper`` and ``reference`` prefer
        them among pairs of equal need.

    Raises
    ------
    DemandError
        If the demand is not a square matrix of whole numbers from 0 to 2^64 - 1.
    InputError
        If another argument cannot be used.
    """
    region = Region(ports, circuit_gbps, eps_gbps, split)
    return allocate_region(demand, region, method=method, previous=previous)


def allocate_region(
    demand: npt.ArrayLike,
    region: Region,
    *,
    method: str = "best",
    previous: npt.ArrayLike | None = None,
) -> Allocation:
    """As :func:`allocate`, with the ports described by a :class:`Region`."""
    check_method(method)
    request = request_of(demand, region, previous)
    return _answer(request, _core.schedule_allocate(method, request))


def route(demand: npt.ArrayLike, circuits: npt.ArrayLike, region: Region) -> Allocation:
    """Divide the demand between circuits that are there and the EPS, as well as it can be done.

    Without split a pair with circuits uses only these and all others the EPS (MixNet section
    5.3); with split the excess of a pair is spilled so that the makespan is least.

    Raises
    ------
    DemandError, InputError
        As :func:`allocate`; also if the circuits take more ports than a server has.
    """
    request = request_of(demand, region, None)
    given = check_circuits(circuits, request[1])
    return _answer(request, _core.schedule_route(request, given))


def port_bound_s(demand: npt.ArrayLike, region: Region) -> float:
    """Seconds that no circuits can beat, see :class:`Allocation`."""
    return _core.schedule_port_bound(request_of(demand, region, None))


def changed_pairs(previous: npt.ArrayLike, following: npt.ArrayLike) -> int:
    """Port pairs that a switch touches: the larger of circuits made and circuits torn down."""
    sizes = [square_matrix(x, "circuits", _MOST_PORTS, InputError) for x in (previous, following)]
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
) -> npt.NDArray[np.uint32]:
    """Pick the NICs that end each circuit; several circuits of one pair land on different nodes.

    Parameters
    ----------
    circuits
        Parallel circuits of each pair, ``(n, n)``, symmetric.
    ports
        Optical NICs per server; NIC k of p sits on NUMA node ``k * numa_nodes // p``.
    numa_nodes
        NUMA nodes of a server.
    previous
        An earlier answer: circuits that are still wanted keep their NICs.

    Returns
    -------
    numpy.ndarray
        ``(circuits, 4)``: server, NIC, server, NIC; sorted.
    """
    given = check_circuits(circuits, None)
    available = _ports(ports, len(given))
    given = check_circuits(given, available)
    if isinstance(numa_nodes, bool) or not isinstance(numa_nodes, int) or numa_nodes < 1:
        raise InputError(f"numa_nodes: expected a whole number above 0, got {numa_nodes!r}")
    old = np.zeros((0, 4), dtype=np.uint32)
    if previous is not None:
        rows = as_array(previous, "previous NICs", InputError)
        if rows.ndim != 2 or rows.shape[1] != 4 or rows.dtype.kind not in "iu":
            raise InputError(
                f"previous NICs: expected rows of 4 whole numbers, got {rows.dtype} of shape "
                f"{rows.shape}"
            )
        old = rows.astype(np.uint32)
    return _core.schedule_map_nics(given, available, numa_nodes, old)


def check_method(method: str) -> None:
    """Raise InputError unless an allocator is called so."""
    if method not in get_args(Method):
        known = ", ".join(get_args(Method))
        hint = did_you_mean(str(method), get_args(Method))
        raise InputError(f"circuits {method!r}: expected one of {known}{hint}")


def request_of(
    demand: npt.ArrayLike, region: Region, previous: npt.ArrayLike | None
) -> _core.ScheduleRequest:
    """Check a demand and a region and return them as the core takes them."""
    matrix = square_matrix(demand, "demand", 2**64 - 1, DemandError)
    n = len(matrix)
    if n > _MOST_SERVERS:
        raise DemandError(f"demand of {n} servers: a region has at most {_MOST_SERVERS}")
    rates = (
        rate_bps(region.circuit_gbps, "circuit_gbps", least=1e-9),
        rate_bps(region.eps_gbps, "eps_gbps", least=0.0),
    )
    ports = _ports(region.ports, n)
    allowed = None
    if region.allowed is not None:
        allowed = np.ascontiguousarray(as_array(region.allowed, "allowed", InputError), dtype=bool)
        if allowed.shape != (n, n) or not np.array_equal(allowed, allowed.T):
            raise InputError(
                f"allowed: expected a symmetric {n} x {n} matrix, got shape {allowed.shape}"
            )
    before = None
    if previous is not None:
        before = check_circuits(previous, None)
        if len(before) != n:
            raise InputError(f"previous: expected {n} x {n} circuits, got {before.shape}")
    return matrix, ports, allowed, before, rates, bool(region.split)


def _answer(request: _core.ScheduleRequest, found: _core.ScheduleAnswer) -> Allocation:
    circuits, eps_bytes, makespan_s, chosen = found
    bound = _core.schedule_port_bound(request)
    return Allocation(circuits, eps_bytes, makespan_s, bound, chosen)


def check_circuits(
    circuits: npt.ArrayLike, ports: npt.NDArray[np.uint32] | None
) -> npt.NDArray[np.uint16]:
    """Return circuits as a symmetric matrix without diagonal that takes no more than ``ports``."""
    matrix = square_matrix(circuits, "circuits", _MOST_PORTS, InputError).astype(np.uint16)
    if not np.array_equal(matrix, matrix.T) or np.diagonal(matrix).any():
        raise InputError("circuits: expected a symmetric matrix with zeros on the diagonal")
    if ports is not None:
        if len(ports) != len(matrix):
            raise InputError(f"circuits: expected {len(ports)} servers, got {len(matrix)}")
        used = matrix.sum(axis=1, dtype=np.int64)
        for server in np.flatnonzero(used > ports):
            raise InputError(
                f"circuits: server {server} has {ports[server]} ports but {used[server]} circuits"
            )
    return matrix


def _ports(ports: int | npt.ArrayLike, servers: int) -> npt.NDArray[np.uint32]:
    given = as_array(ports, "ports", InputError)
    if given.ndim == 0:
        given = np.full(servers, given)
    if given.shape != (servers,):
        raise InputError(f"ports: expected one number or {servers}, got shape {given.shape}")
    if given.size and given.dtype.kind not in "iu":
        raise InputError(f"ports: expected whole numbers, got {given.dtype}")
    if given.size and (given.min() < 0 or given.max() > _MOST_PORTS):
        raise InputError(f"ports: expected 0 to {_MOST_PORTS}, got {given.min()} to {given.max()}")
    return given.astype(np.uint32)
