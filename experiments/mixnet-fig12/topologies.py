"""Other ways to plan TopoOpt's circuits, to see which of them the published times look like.

Each uses our topology finder (``lightloom.schedule.topoopt_topology``) with other inputs; what the
published evaluation did is not in the paper.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from cells import Model

from lightloom.fabric import load_fabric
from lightloom.fabric.network import Direct, Network
from lightloom.fabric.topoopt import all_pairs
from lightloom.schedule import Cycles, Ring, TopoOptTopology, cycles_in_order, topoopt_topology
from lightloom.simulate import simulate

#: bytes that make a ring outweigh all else
HEAVY = 10**18


def plan(model: Model, rings: str, demand: str, max_routes: int) -> TopoOptTopology:
    """Plan circuits and routes of one row of ``[[topologies]]``."""
    cluster = model.job.cluster
    # Every pair of an EP group gets a route, also one that never sends.
    (src, dst, sizes), phases = all_pairs(model.context)
    if demand == "equal":
        src, dst = np.unique(np.stack([src, dst]), axis=1)
        sizes = np.ones(len(src), np.uint64)
    # By bytes: as if all traffic were one phase.
    phases = phases[:0] if demand in ("equal", "bytes") else phases
    return topoopt_topology(
        cluster.servers,
        cluster.nics_per_server,
        rings=list(_rings(model, rings)),
        demand=(src, dst, sizes),
        phases=phases,
        max_routes=max_routes,
    )


def _rings(model: Model, kind: str) -> Iterator[Ring]:
    if kind == "global":
        yield Ring(range(model.job.cluster.servers), HEAVY)
    for ring in model.context.mean().rings:
        size = {"share": max(1, round(ring.size_bytes)), "first": HEAVY, "global": 1}[kind]
        yield Ring(ring.servers.tolist(), size, ring.phase)


def cycles(model: Model, rings: str, topology: TopoOptTopology) -> Cycles:
    """Return the cycles of a topology that was planned for these rings."""
    return cycles_in_order(topology, list(_rings(model, rings)))


def network(model: Model, topology: TopoOptTopology, cycles: Cycles, rate_gbps: float) -> Network:
    """TopoOpt's network with these circuits, over which rings run in these cycles."""
    cluster = dataclasses.replace(model.job.cluster, rate_gbps=float(rate_gbps))
    fabric = load_fabric("topoopt", model.assumptions.options("topoopt"))
    given = fabric.network(cluster, model.context)
    planned = given.part(Direct)
    assert planned is not None
    direct = dataclasses.replace(
        planned,
        circuits=topology.circuits,
        route_offsets=topology.route_offsets,
        route_servers=topology.route_servers,
        cycle_offsets=cycles.offsets,
        cycle_servers=cycles.servers,
        cycle_counts=cycles.counts,
    )
    return dataclasses.replace(given, parts=(direct,))


def step_times(model: Model, row: dict[str, Any]) -> tuple[float, list[float]]:
    """Mean hops of a route, and step time by rate, s."""
    topology = plan(model, row["rings"], row["demand"], row["max_routes"])
    graph = model.graph(0)
    rates = model.experiment.rates
    found = cycles(model, row["rings"], topology)
    times = [simulate(graph, network(model, topology, found, rate)).step_time_s for rate in rates]
    return float(topology.hops.mean()), times
