"""Two-hop relaying: demand over circuits, the EPS, and third servers that pass bytes on.

Where a region has more servers than a server has circuits, most pairs have no direct
circuit. A third server may then take bytes in over a circuit (or the EPS) and pass them on over the
EPS or a circuit. Matrices are servers x servers, row = source, column = destination; circuits are
duplex. Times are at line rate, flow is fluid; what relaying costs is charged as
:class:`RelayCost` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import InputError, echo
from lightloom.inputs.arguments import instance
from lightloom.optional import need
from lightloom.schedule.arrays import one_of
from lightloom.schedule.circuits import check_circuits, request_of
from lightloom.schedule.comparable import Comparable
from lightloom.schedule.core_requests import RoutingRequest
from lightloom.schedule.named_sets import choices
from lightloom.schedule.records import Region, RelayCost
from lightloom.schedule.results import Result, ResultTable, matrix_table, summary
from lightloom.shown import views
from lightloom.units import show_bytes, show_time

if TYPE_CHECKING:
    from lightloom.report.figure import Figure

RelayMethod = Literal["fast", "lp"]

#: names of the kinds of paths; the number of a kind is its place here
RELAY_KINDS = tuple(choices("relay kind"))

_MAX_SERVERS = 1_024
_MAX_EVALUATIONS = 2**31


@dataclass(frozen=True, eq=False)
class RelayLoads(Comparable):
    """Bytes over everything that limits a routing, as a check of its paths finds them.

    Attributes
    ----------
    circuit_bytes
        Over the circuits from server to server, ``(n, n)``.
    eps_out_bytes, eps_in_bytes
        Into and out of the EPS per server, ``(n,)``.
    staging_bytes
        Passed on by each server, ``(n,)``: also the memory that it needs if all of it may arrive
        before any leaves.
    makespan_s
        Seconds until the last byte at line rate.
    """

    circuit_bytes: npt.NDArray[np.uint64]
    eps_out_bytes: npt.NDArray[np.uint64]
    eps_in_bytes: npt.NDArray[np.uint64]
    staging_bytes: npt.NDArray[np.uint64]
    makespan_s: float


@dataclass(frozen=True, eq=False)
class Relayed(Result):
    """How the bytes of every pair are divided among its one-hop and two-hop paths.

    Attributes
    ----------
    source, relay, destination, kind, size_bytes
        One entry per path, sorted by source, destination, kind and relay; ``relay`` is -1 for one
        hop; ``kind`` is a place in :data:`RELAY_KINDS`.
    makespan_s
        Seconds until the last byte at line rate, without latency; infinite if a pair has no path.
    latency_s
        Seconds that relaying adds; 0 if nothing is relayed.
    one_hop_s
        Seconds until the last byte of the best routing over one hop.
    with_relays_s
        Seconds with relays, their latency included, whether that pays or not.
    lower_bound_s
        Seconds that no routing of one or two hops over these circuits can beat.
    pays
        Whether relaying is faster than one hop; if not, this is the routing over one hop.
    reason
        Why it pays or does not.
    loads
        Bytes over circuits, EPS and relays.
    """

    source: npt.NDArray[np.int32]
    relay: npt.NDArray[np.int32]
    destination: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int32]
    size_bytes: npt.NDArray[np.uint64]
    makespan_s: float
    latency_s: float
    one_hop_s: float
    with_relays_s: float
    lower_bound_s: float
    pays: bool
    reason: str
    loads: RelayLoads

    def tables(self) -> list[ResultTable]:
        """Return the table that is printed."""
        relayed = self.size_bytes[self.relay >= 0].sum(dtype=np.float64)
        return [
            summary(
                "Relaying",
                pays="yes" if self.pays else "no",
                why=self.reason,
                over_one_hop=show_time(self.one_hop_s),
                with_relays=show_time(self.with_relays_s),
                no_routing_beats=show_time(self.lower_bound_s),
                relayed=show_bytes(float(relayed)),
            )
        ]

    @property
    def time_s(self) -> float:
        """Seconds until the last byte, relay latency included."""
        return self.makespan_s + self.latency_s

    @property
    def relayed_bytes(self) -> int:
        """Bytes that some server passes on."""
        return int(self.loads.staging_bytes.sum(dtype=np.uint64))

    @property
    def over_bound(self) -> float:
        """Makespan over the lower bound; 1 is optimal (and 1 if there is nothing to send)."""
        return self.makespan_s / self.lower_bound_s if self.lower_bound_s > 0 else 1.0


def relay(
    demand: npt.ArrayLike,
    circuits: npt.ArrayLike,
    region: Region,
    *,
    method: str = "fast",
    cost: RelayCost | None = None,
) -> Relayed:
    """Divide the demand among circuits, the EPS and relays such that the last byte arrives early.

    Parameters
    ----------
    demand
        Bytes from source to destination, ``(n, n)``, whole numbers that add up to 2^63 at most.
    circuits
        Parallel duplex circuits of each pair, ``(n, n)``, symmetric.
    region
        Ports and rates. Relaying divides the bytes of a pair, so ``split`` must be true.
    method
        ``fast`` (descent on the p-norm of the loads, in Rust) or ``lp`` (the exact linear
        program, solved by HiGHS; its dual certifies the lower bound).
    cost
        What relaying costs; by default the values of ``data/relay.toml``.

    Returns
    -------
    Relayed
        The paths, their loads and a lower bound. ``fast`` takes O(n^3) per step, as each pair has
        n - 2 relays; ``lp`` is exact and slower. Relaying in two hops: Valiant (1982).

    Examples
    --------
    >>> from lightloom.schedule import Region, relay
    >>> region = Region(ports=[2, 1, 1], circuit_gbps=100, eps_gbps=1)
    >>> star = [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    >>> relayed = relay([[0, 9000, 9000], [0, 0, 9000], [0, 0, 0]], star, region)
    >>> relayed.pays, relayed.makespan_s < relayed.one_hop_s
    (True, True)

    Raises
    ------
    DemandError
        If the demand is not a square matrix of whole numbers.
    InputError
        If another argument cannot be used.
    """
    one_of(method, "relay method", get_args(RelayMethod))
    request = relay_request(demand, circuits, region, cost)
    if method == "fast":
        routing = _core.schedule_relay(request)
    else:
        need("scipy", "relay method 'lp'")
        from lightloom.schedule.relay_program import solve_program

        solved = solve_program(request)
        bound = _core.schedule_relay_bound(request, solved.arc_prices, solved.server_prices)
        routing = _core.schedule_relay_as(request, solved.paths, solved.size_bytes, bound)
    return Relayed(**{**routing, "loads": RelayLoads(**routing["loads"])})


@dataclass(frozen=True, eq=False)
class RelayedAllocation(Result):
    """Circuits for a demand that may be relayed, and the routing over them.

    Attributes
    ----------
    circuits
        Parallel circuits of each pair, ``(n, n)``, symmetric.
    routing
        How the demand is divided among circuits, EPS and relays.
    origin
        Whose circuits these are: ``held``, an allocator's, ``expander`` or ``search``.
    evaluations
        Routings that were looked at.
    port_bound_s
        Seconds that no circuits can beat.
    """

    circuits: npt.NDArray[np.uint16]
    routing: Relayed
    origin: str
    evaluations: int
    port_bound_s: float

    @property
    def over_bound(self) -> float:
        """Makespan over the port bound; 1 is optimal (and 1 if there is nothing to send)."""
        bound_s = self.port_bound_s
        return self.routing.makespan_s / bound_s if bound_s > 0 else 1.0

    def tables(self) -> list[ResultTable]:
        """Return the tables that are printed: a summary, the routing, and the circuits."""
        return [
            summary(
                "Circuits for relaying",
                origin=self.origin,
                routings_evaluated=f"{self.evaluations:,}",
                over_port_bound=f"{self.over_bound:.3f}",
            ),
            *self.routing.tables(),
            matrix_table("Circuits between servers", self.circuits),
        ]

    def plot(self) -> Figure:
        """Draw the circuits as a matrix."""
        return views().draw(self)


def allocate_relayed(
    demand: npt.ArrayLike,
    region: Region,
    *,
    previous: npt.ArrayLike | None = None,
    cost: RelayCost | None = None,
    evaluations: int = 100,
) -> RelayedAllocation:
    """Find circuits that serve a demand fast when servers may relay.

    Candidates are the circuits that are there, ``static``, a circulant of geometric strides,
    ``best`` and ``reference``; then the ends of two circuits are exchanged as long as that helps.
    Each is judged by its relayed makespan and latency, and replaced only by what is 0.1 % faster.
    The first that is within 1 % of the port bound is taken.

    Parameters
    ----------
    demand, region, cost
        See :func:`relay`.
    previous
        Circuits that are there now, ``(n, n)``: looked at first.
    evaluations
        Most routings to look at beyond those of the candidates.

    Returns
    -------
    RelayedAllocation
        Circuits, the routing over them and whose they are. O(n^3) per step of each evaluation, as
        :func:`relay`; the search is ours: ``docs/explanation/relay.md``.

    Examples
    --------
    >>> from lightloom.schedule import Region, allocate_relayed
    >>> region = Region(ports=[2, 1, 1], circuit_gbps=100, eps_gbps=1)
    >>> plan = allocate_relayed([[0, 9000, 9000], [0, 0, 9000], [0, 0, 0]], region)
    >>> plan.circuits.tolist()
    [[0, 1, 1], [1, 0, 0], [1, 0, 0]]

    Raises
    ------
    DemandError, InputError
        As :func:`relay`.
    """
    if isinstance(evaluations, bool) or not isinstance(evaluations, int) or evaluations < 0:
        raise InputError(f"evaluations: expected a whole number from 0, got {echo(evaluations)}")
    request = request_of(demand, region, previous)
    servers = len(request.demand)
    none = np.zeros((servers, servers), dtype=np.uint16)
    routing = relay_request(demand, none, region, cost)
    if servers > _MAX_SERVERS:
        raise InputError(f"demand of {servers} servers: at most {_MAX_SERVERS} can relay")
    plan = _core.schedule_allocate_relayed(
        request._replace(demand=routing.demand),
        routing.charges,
        min(evaluations, _MAX_EVALUATIONS),
    )
    routed = plan["routing"]
    routed = Relayed(**{**routed, "loads": RelayLoads(**routed["loads"])})
    return RelayedAllocation(**{**plan, "routing": routed})


def relay_loads(
    demand: npt.ArrayLike,
    circuits: npt.ArrayLike,
    region: Region,
    relayed: Relayed,
    *,
    cost: RelayCost | None = None,
) -> RelayLoads:
    """Check a routing and recompute its loads from its paths alone.

    Returns
    -------
    RelayLoads
        Bytes on each circuit, on the EPS and in memory; O(paths + n^2).

    Examples
    --------
    >>> from lightloom.schedule import Region, relay, relay_loads
    >>> region = Region(ports=[2, 1, 1], circuit_gbps=100, eps_gbps=1)
    >>> demand, star = [[0, 9, 9], [0, 0, 9], [0, 0, 0]], [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    >>> relayed = relay(demand, star, region)
    >>> relay_loads(demand, star, region, relayed).makespan_s == relayed.makespan_s
    True

    Raises
    ------
    InputError
        If the paths do not carry exactly the demand, use circuits that are not there, or exceed
        the memory of a relay.
    """
    request = relay_request(demand, circuits, region, cost)
    instance(relayed, Relayed, "relayed", "what relay returns")
    columns = (relayed.source, relayed.relay, relayed.destination, relayed.kind)
    paths = np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.int32)
    size_bytes = np.ascontiguousarray(relayed.size_bytes, dtype=np.uint64)
    try:
        return RelayLoads(**_core.schedule_relay_loads(request, paths, size_bytes))
    except ValueError as error:
        raise InputError(str(error)) from None


def relay_request(
    demand: npt.ArrayLike, circuits: npt.ArrayLike, region: Region, cost: RelayCost | None
) -> RoutingRequest:
    """Check a demand, circuits and a region and return them for the core."""
    if not instance(region, Region, "region", "a Region").split:
        raise InputError("split: relaying divides the bytes of a pair, expected split=True")
    request = request_of(demand, region, None)
    matrix, eps_bps = request.demand, int(request.eps_bps.max(initial=0))
    if (request.eps_bps != eps_bps).any():
        raise InputError("eps_gbps: relaying expects one EPS rate for all servers")
    checked = check_circuits(circuits, request.ports)
    total = int(matrix.sum(dtype=object)) - int(np.trace(matrix.astype(object)))
    if total > 2**63:
        raise InputError(f"demand: {total} bytes in all, expected at most 2^63")
    np.fill_diagonal(matrix, 0)
    cost = RelayCost() if cost is None else instance(cost, RelayCost, "cost", "a RelayCost")
    return RoutingRequest(matrix, checked, request.circuit_bps, eps_bps, cost)
