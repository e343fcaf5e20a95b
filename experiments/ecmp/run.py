"""What hashing costs when EP groups run at once: packets against flows with a loss on uplinks.

    python experiments/ecmp/run.py [--write | --check]

Servers of 8 NICs under ToRs of four, 1:1. All EP groups begin an all-to-all at the same time and
share the uplinks. Each is simulated whole as packets, with a transport whose flows keep the path
that their hash chose (``roce``) and with one that sprays packets (``ndp``), and as fluid flows. The
*efficiency* is the share of the uplinks' rate with which flows take as long as packets.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

from lightloom.fabric.network import Eps, Network, NvSwitch
from lightloom.simulate import Packets, simulate
from lightloom.workload import Block, TaskGraphBuilder
from lightloom.workload.categories import step_categories
from lightloom.workload.task_graph import TaskGraph

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from results import run_table  # noqa: E402

TABLE = HERE / "table.md"
GBPS = 10**9
NICS, SERVERS_PER_TOR = 8, 4
#: ToRs, members of a group on each of them, ranks of each member, bytes from rank to rank
CASES = (
    (4, 1, 1, 8_000_000),
    (8, 1, 1, 8_000_000),
    (4, 2, 1, 8_000_000),
    (2, 2, 8, 1_000_000),
    (4, 1, 8, 1_000_000),
    (4, 2, 8, 1_000_000),
    (4, 4, 8, 1_000_000),
)
TRANSPORTS = ("roce", "ndp")
#: what the documentation suggests for hashed flows
HASHED = 0.6


def all_to_alls(tors: int, members: int, ranks: int, size: int) -> TaskGraph:
    """One all-to-all of every group; group ``g`` has the same servers of each ToR."""
    groups = SERVERS_PER_TOR // members
    places = np.arange(tors * SERVERS_PER_TOR).reshape(tors, groups, members)
    lists = places.transpose(1, 0, 2).reshape(groups, tors * members)
    total = tors * members
    by_rank = np.full((total * ranks, total * ranks), size, np.uint32)
    by_rank[np.arange(total * ranks), np.arange(total * ranks)] = 0
    folded = by_rank.reshape(total, ranks, total, ranks).sum(axis=(1, 3))
    built = TaskGraphBuilder(np.arange(places.size), 8, step_categories())
    built.family("ep", lists)
    built.demand(
        "tokens",
        0,
        np.broadcast_to(folded, (groups, 1, *folded.shape)),
        ranks_per_member=ranks if ranks > 1 else 0,
        rank_counts=np.broadcast_to(by_rank, (groups, 1, *by_rank.shape)) if ranks > 1 else None,
    )
    program = built.role("all", np.arange(places.size, dtype=np.uint32))
    program.all_to_all(0, Block(0, 0, 1, False, False), "ep")
    return built.build()


def network(tors: int, efficiency: float) -> Network:
    """A 1:1 tree of one pod, its uplinks at a share of their rate."""
    rate = 400 * GBPS
    eps = Eps(
        nics=NICS,
        nic_rate_bps=rate,
        link_delay_ps=1_000_000,
        servers_per_tor=SERVERS_PER_TOR,
        servers_per_pod=tors * SERVERS_PER_TOR,
        tor_uplink_reached_bps=round(efficiency * NICS * SERVERS_PER_TOR * rate),
    )
    switch = NvSwitch(gpu_rate_bps=3600 * GBPS, latency_ps=0)
    return Network(tors * SERVERS_PER_TOR, 8, switch, "flat", (eps,))


def efficiency(graph: TaskGraph, tors: int, seconds: float) -> float:
    """The share of the uplinks' rate at which flows take as long; 1 if no share is needed."""
    low, high = 0.05, 1.0
    if simulate(graph, network(tors, 1.0)).step_time_s >= seconds:
        return 1.0
    for _ in range(12):
        middle = (low + high) / 2
        slower = simulate(graph, network(tors, middle)).step_time_s > seconds
        low, high = (middle, high) if slower else (low, middle)
    return high


def busiest(flows: float, links: int) -> float:
    """Mean over maximum load of hashed links, for so many flows on each in the mean.

    Normal approximation of the maximum of Poisson loads.
    """
    return flows / (flows + math.sqrt(2 * flows * math.log(links)))


def render() -> str:
    """Measure all cases and show them."""
    lines = [
        "# What hashing costs when EP groups run at once",
        "",
        "Efficiency of the uplinks of a 1:1 tree, 400 Gb/s NICs, 8 on each of 4 servers per ToR.",
        "Estimate: mean over maximum load of links by the number of flows that share each. Last:"
        f" time as flows with an efficiency of {HASHED} over that as packets of roce.",
        "",
        "| ToRs | members of a group per ToR | ranks of each | flows per uplink | roce (hashed) |"
        " ndp (sprayed) | hashed, estimate | flows over packets |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for tors, members, ranks, size in CASES:
        graph = all_to_alls(tors, members, ranks, size)
        # each NIC sends one flow to the NIC of its index, or one to each rank
        flows = (tors - 1) * members * ranks
        runs = [
            simulate(graph, network(tors, 1.0), network_model=Packets(transport))
            for transport in TRANSPORTS
        ]
        times = [run.step_time_s for run in runs]
        found = [efficiency(graph, tors, seconds) for seconds in times]
        estimate = busiest(flows, NICS * SERVERS_PER_TOR)
        hashed = simulate(graph, network(tors, HASHED)).step_time_s / times[0]
        values = " | ".join(f"{value:.2f}" for value in (*found, estimate, hashed))
        lines.append(f"| {tors} | {members} | {ranks} | {flows} | {values} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(run_table(__doc__, TABLE, render))
