"""TopoOpt's topology for a job: fixed circuits and multi-hop routes (``crates/schedule``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import DemandError, FabricError, echo
from lightloom.inputs.arguments import instance
from lightloom.schedule.arrays import one_of, whole_list, whole_number
from lightloom.schedule.comparable import Comparable
from lightloom.schedule.named_sets import choices
from lightloom.schedule.results import MAX_SHOWN, Result, ResultTable, summary

_MAX_SERVERS = 1_000_000


@dataclass(frozen=True)
class Ring:
    """Servers that all-reduce among each other, in ring order.

    ``edge_bytes`` cross each edge one way: ``2 (n - 1) / n`` of the buffer. Rings of one ``phase``
    run at the same time, those of different phases one after another.
    """

    members: Sequence[int]
    edge_bytes: int
    phase: int = 0


@dataclass(frozen=True, eq=False)
class TopoOptTopology(Result):
    """Fixed circuits and the routes over them.

    Attributes
    ----------
    circuits
        ``(m, 3)``: server, server, number of parallel duplex circuits; sorted.
    cycles
        ``(k, 2)``: ring group and stride. Member ``i`` of the group is joined to ``i + stride``,
        so the ring may run in that order, too. A stride that occurs twice is a cycle of two
        parallel circuits.
    routed_edges
        ``(m, 3)``: index of a cycle, server, server. The circuits of these edges were given to
        other pairs; the ring runs along routes there. All other edges have separate circuits.
    route_offsets, route_servers
        Route ``r`` crosses ``route_servers[route_offsets[r]:route_offsets[r + 1]]``, source and
        destination included; several routes of one ordered pair share its bytes, in proportion to
        the circuits of their narrowest hops.
    busiest_bytes
        Bytes that the busiest circuit carries in one direction, as predicted, in each phase of the
        demand, then in each phase of the rings, ``(phases,)``. Their sum, sent at the rate of a
        circuit, is what the topology was chosen for.
    """

    circuits: npt.NDArray[np.uint32]
    cycles: npt.NDArray[np.uint32]
    routed_edges: npt.NDArray[np.uint32]
    route_offsets: npt.NDArray[np.uint32]
    route_servers: npt.NDArray[np.uint32]
    busiest_bytes: npt.NDArray[np.float64]

    @property
    def hops(self) -> npt.NDArray[np.uint32]:
        """Circuits that each route crosses, ``(routes,)``."""
        return np.diff(self.route_offsets) - np.uint32(1)

    @property
    def ends(self) -> npt.NDArray[np.uint32]:
        """Source and destination of each route, ``(routes, 2)``."""
        starts, stops = self.route_offsets[:-1], self.route_offsets[1:]
        return np.stack([self.route_servers[starts], self.route_servers[stops - 1]], axis=1)

    def tables(self) -> list[ResultTable]:
        """Return the tables that are printed: a summary, and the first bundles."""
        hops = self.hops
        rows = [tuple(map(str, circuit)) for circuit in self.circuits[:MAX_SHOWN].tolist()]
        more = len(self.circuits) - len(rows)
        return [
            summary(
                "TopoOptTopology",
                circuits=f"{int(self.circuits[:, 2].sum(dtype=np.int64)):,}",
                ring_cycles=f"{len(self.cycles):,}",
                without_a_circuit=f"{len(self.routed_edges):,} edges of cycles",
                routes=f"{len(hops):,}",
                longest_route=f"{int(hops.max(initial=0))} hops",
            ),
            ResultTable(
                "Circuits",
                ("server", "server", "parallel"),
                rows,
                f"{more:,} more pairs." if more else "",
            ),
        ]


@dataclass(frozen=True, eq=False)
class Cycles(Comparable):
    """Rings through servers.

    Hops have separate circuits, but for the ``routed_edges`` of the topology. Cycle ``c`` visits
    ``servers[offsets[c]:offsets[c + 1]]`` and returns to the first, over ``counts[c]`` parallel
    circuits per hop.
    """

    offsets: npt.NDArray[np.uint32]
    servers: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint32]


def cycles_in_order(topology: TopoOptTopology, rings: Sequence[Ring]) -> Cycles:
    """Return the cycles of a topology as the servers that they visit, one after another.

    Parameters
    ----------
    topology
        As :func:`topoopt_topology` found it.
    rings
        The ring groups that it was found for.

    Returns
    -------
    Cycles
        Servers of all cycles, where each begins, and how often it is there; O(servers) for each
        cycle of TopoOpt (Wang et al., NSDI 2023).

    Examples
    --------
    >>> from lightloom.schedule import Ring, cycles_in_order, topoopt_topology
    >>> rings = [Ring(range(4), 1_000)]
    >>> cycles_in_order(topoopt_topology(4, 2, rings=rings), rings).servers.tolist()
    [0, 1, 2, 3]
    """
    instance(topology, TopoOptTopology, "topology", "what topoopt_topology returns")
    kinds, counts = np.unique(topology.cycles, axis=0, return_counts=True)
    are_rings = isinstance(rings, Sequence) and all(isinstance(ring, Ring) for ring in rings)
    if not are_rings or len(rings) <= max(kinds[:, 0].tolist(), default=-1):
        raise DemandError(
            f"rings: expected the list of Ring that the topology was found for, got {echo(rings)}"
        )
    orders = []
    for group, stride in kinds.tolist():
        members = np.asarray(rings[group].members, dtype=np.uint32)
        orders.append(members[np.arange(len(members)) * stride % len(members)])
    return Cycles(
        offsets=np.cumsum([0, *map(len, orders)]).astype(np.uint32),
        servers=np.concatenate([np.zeros(0, np.uint32), *orders]),
        counts=counts.astype(np.uint32),
    )


def topoopt_topology(
    servers: int,
    ports: int,
    *,
    rings: Sequence[Ring] = (),
    demand: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike] = ((), (), ()),
    phases: npt.ArrayLike = (),
    max_routes: int = 4,
    strides: str = "geometric",
) -> TopoOptTopology:
    """Find circuits for a whole job after TopoOpt (Wang et al., NSDI 2023, section 4).

    Phases follow each other; the sum of what their busiest circuits carry is to be least.

    Parameters
    ----------
    servers, ports
        Number of servers, and of ports (NICs) at each.
    rings
        Ring all-reduces; a server may be in several.
    demand
        All other traffic averaged over the job: sources, destinations, bytes, equally long.
    phases
        The phase of each entry of ``demand``; by default all are of one. Rings have others.
    max_routes
        Maximum number of shortest paths of one ordered pair.
    strides
        The cycles of a ring group with several. ``"geometric"``: as TopoOpt, with growing strides
        for short paths, among which an all-reduce is divided. ``"one"``: all in ring order.

    Returns
    -------
    TopoOptTopology
        Circuits, cycles and routes; O(n^3) for each of a matching per port.

    Examples
    --------
    >>> from lightloom.schedule import Ring, topoopt_topology
    >>> topology = topoopt_topology(6, 4, rings=[Ring(range(6), 1_000)])
    >>> topology.cycles.tolist(), len(topology.routed_edges)
    ([[0, 1], [0, 1]], 0)

    Raises
    ------
    DemandError
        If rings or demand name servers that are not there, or bytes that are no whole numbers.
    FabricError
        If sizes are not above 0, or the ports cannot connect the servers that talk.
    """
    servers, ports, max_routes = (
        whole_number(value, name, 1, _MAX_SERVERS, FabricError)
        for name, value in (("servers", servers), ("ports", ports), ("max_routes", max_routes))
    )
    one_of(strides, "strides", tuple(choices("strides")), FabricError)
    columns = _checked_demand(demand, servers)
    numbers = _checked_phases(phases, len(columns[2]))
    groups = _checked_rings(rings, servers)
    try:
        topology = _core.schedule_topoopt(
            servers, ports, max_routes, groups, strides, columns, numbers
        )
    except ValueError as error:
        raise FabricError(f"topoopt: {error}") from None
    return TopoOptTopology(**topology)


def _checked_demand(
    demand: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike], servers: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint64]]:
    if not isinstance(demand, Sequence | np.ndarray) or len(demand) != 3:
        raise DemandError(f"demand: expected sources, destinations and bytes, got {echo(demand)}")
    sources, destinations = (
        whole_list(values, name, servers - 1, DemandError).astype(np.uint32)
        for values, name in zip(demand[:2], ("sources", "destinations"), strict=True)
    )
    volumes = whole_list(demand[2], "bytes", 2**64 - 1, DemandError)
    if not len(sources) == len(destinations) == len(volumes):
        raise DemandError(
            f"demand: {len(sources)} sources, {len(destinations)} destinations and "
            f"{len(volumes)} byte counts; expected equally many"
        )
    return sources, destinations, volumes


def _checked_phases(phases: npt.ArrayLike, entries: int) -> npt.NDArray[np.uint32]:
    numbers = whole_list(phases, "phases", 2**32 - 1, DemandError).astype(np.uint32)
    if len(numbers) not in (0, entries):
        raise DemandError(f"phases: {len(numbers)} for {entries} entries of demand")
    return numbers


def _checked_rings(rings: Sequence[Ring], servers: int) -> list[Ring]:
    if not isinstance(rings, Sequence):
        raise DemandError(f"rings: expected a list of Ring, got {echo(rings)}")
    groups = []
    for index, ring in enumerate(rings):
        if not isinstance(ring, Ring):
            raise DemandError(
                f"ring {index}: expected a Ring of members and edge_bytes, got {echo(ring)}"
            )
        members = whole_list(ring.members, f"ring {index}", servers - 1, DemandError)
        if len(np.unique(members)) < len(members):
            raise DemandError(f"ring {index}: a server is in it twice")
        edge_bytes = whole_list(
            [ring.edge_bytes], f"ring {index} edge_bytes", 2**64 - 1, DemandError
        )
        phase = whole_list([ring.phase], f"ring {index} phase", 2**32 - 1, DemandError)
        groups.append(Ring(members.tolist(), int(edge_bytes[0]), int(phase[0])))
    return groups
