"""Small task graphs and networks, built by hand."""

import numpy as np

from lightloom.fabric.network import Direct, Eps, Network, NvSwitch, Ocs
from lightloom.workload.task_graph import (
    FIRST,
    TRANSPOSED,
    Category,
    Kind,
    Layout,
    Program,
    Ring,
    Scope,
    TaskGraph,
    TokenBlocks,
)

GBPS = 1_000_000_000
#: seconds of one link, and of the start of a local collective
LINK_S, LOCAL_S = 1e-6, 2e-6
#: bytes per second of one NIC, and of one GPU into the NVSwitch
NIC, GPU = 50e9, 450e9


def graph(programs, *, replicas=1, members=1, tokens=None, scopes=(), gpus_per_worker=8):
    """One server per worker; ``tokens`` is (blocks, members, members), the same for all groups."""
    stages = len(programs)
    blocks = np.zeros((0, members, members)) if tokens is None else np.asarray(tokens)
    shared = np.broadcast_to(blocks, (stages * replicas, *blocks.shape)).astype(np.uint32)
    experts = np.zeros(shared.shape[:3], np.uint64)
    servers = np.arange(stages * replicas * members, dtype=np.uint32)
    return TaskGraph(
        Layout(stages, replicas, members, gpus_per_worker, servers),
        programs,
        list(scopes),
        TokenBlocks(shared, experts, experts),
    )


class Steps(Program):
    """A program that reads like a list."""

    def compute(self, seconds, category=Category.ATTENTION):
        self.add(Kind.COMPUTE, category, duration_ps=round(seconds * 1e12))
        return self

    def send(self, peer, tag, size):
        self.add(Kind.SEND, Category.PP, peer=peer, tag=tag, bytes=size)
        return self

    def receive(self, peer, tag):
        self.add(Kind.RECEIVE, Category.PP, peer=peer, tag=tag)
        return self

    def exchange(self, block=0, *, first=False, transposed=False, size=1):
        flags = FIRST * first | TRANSPOSED * transposed
        self.add(Kind.ALL_TO_ALL, Category.EP, block=block, flags=flags, bytes=size)
        return self

    def ring(self, handle, size, kind=Ring.ALL_REDUCE, local=0):
        self.add(Kind.RING, Category.DP, tag=handle, bytes=size, flags=kind, local_bytes=local)
        return self

    def wait(self, handle):
        self.add(Kind.WAIT, Category.DP, tag=handle)
        return self


def one_ring(workers):
    """All workers in one ring."""
    ends = np.array([0, workers], np.uint32)
    return Scope("dp", ends, np.arange(workers, dtype=np.uint32))


def eps(servers, nics=8, rate_bps=400 * GBPS, **others):
    """A packet fabric, all servers under one ToR unless said otherwise."""
    values = {"servers_per_tor": servers, "servers_per_pod": servers, **others}
    return Eps(nics=nics, nic_rate_bps=rate_bps, link_delay_ps=1_000_000, **values)


def packet(servers, all_to_all="flat", **options):
    """A packet fabric and nothing else."""
    switch = NvSwitch(gpu_rate_bps=3600 * GBPS, latency_ps=2_000_000)
    return Network(servers, 8, switch, all_to_all, eps=eps(servers, **options))


def mixnet(servers, rate_bps=400 * GBPS, **options):
    """Two NICs on the packet fabric, six on circuits of one region."""
    values = {
        "degree": 6,
        "nic_rate_bps": rate_bps,
        "circuit_delay_ps": 1_000_000,
        "region_of_server": np.zeros(servers, np.uint32),
        "allocator": "best",
        "split": True,
        "reconfigure": "always",
        "first": "reuse",
        "fixed_ps": 25_000_000_000,
        **options,
    }
    base = packet(servers, "hierarchical", nics=2, rate_bps=rate_bps)
    return Network(servers, 8, base.nvswitch, "hierarchical", eps=base.eps, ocs=Ocs(**values))


def direct(servers, circuits, routes):
    """Fixed circuits at 400 Gb/s, 3 us per relay."""
    offsets = np.cumsum([0, *(len(route) for route in routes)])
    links = Direct(
        link_rate_bps=400 * GBPS,
        link_delay_ps=1_000_000,
        relay_delay_ps=3_000_000,
        circuits=np.array(circuits, np.uint32).reshape(-1, 3),
        route_offsets=offsets.astype(np.uint32),
        route_servers=np.array([s for route in routes for s in route], np.uint32),
    )
    switch = NvSwitch(gpu_rate_bps=3600 * GBPS, latency_ps=2_000_000)
    return Network(servers, 8, switch, "hierarchical", direct=links)
