"""Small task graphs and networks, built by hand."""

import dataclasses

import numpy as np

from lightloom.fabric.network import Direct, Eps, Network, NvSwitch, Ocs
from lightloom.schedule import SwitchTiming
from lightloom.workload import Block, TaskGraphBuilder
from lightloom.workload.categories import step_categories
from lightloom.workload.task_graph import Collective, GroupFamily

GBPS = 1_000_000_000
#: seconds of one link, and of the start of a local collective
LINK_S, LOCAL_S = 1e-6, 2e-6
#: bytes per second of one NIC, and of one GPU into the NVSwitch
NIC, GPU = 50e9, 450e9


#: the family of the groups of the all-to-alls, and that of a ring which a test adds
EXPERTS, RING = 0, 1


def graph(programs, *, replicas=1, members=1, tokens=None, rings=(), gpus_per_worker=8):
    """One server per worker; ``tokens`` is (blocks, members, members), the same for all groups."""
    stages = len(programs)
    workers = np.arange(stages * replicas * members)
    built = TaskGraphBuilder(workers, gpus_per_worker, step_categories())
    built.family("ep", workers.reshape(-1, members))
    for ring in rings:
        built.add_family(ring)
    blocks = np.zeros((0, members, members)) if tokens is None else np.asarray(tokens)
    built.demand("tokens", EXPERTS, np.broadcast_to(blocks, (stages * replicas, *blocks.shape)))
    for stage, own in enumerate(workers.reshape(stages, -1)):
        programs[stage].write(built.role(f"stage {stage}", own))
    return built.build()


class Steps:
    """A program that reads like a list."""

    def __init__(self):
        self.calls = []

    def write(self, program):
        """Write it for a role."""
        for name, arguments, keywords in self.calls:
            getattr(program, name)(*arguments, **keywords)

    def add(self, name, *arguments, **keywords):
        """Append a call of the builder."""
        self.calls.append((name, arguments, keywords))
        return self

    def compute(self, seconds, category="attention"):
        return self.add("compute", category, duration_ps=round(seconds * 1e12))

    def send(self, peer, tag, size):
        return self.add("send", peer, tag, size, "pp")

    def receive(self, peer, tag):
        return self.add("receive", peer, tag, "pp")

    def all_to_all(self, block=0, *, first=False, transposed=False, size=1):
        demand = Block(0, block, size, transposed, first)
        return self.add("all_to_all", EXPERTS, demand, "ep")

    def ring(self, handle, size, kind=Collective.ALL_REDUCE, inside=0):
        named = {"handle": handle, "asynchronous": True, "inside": inside}
        return self.add("ring", kind, RING, size, "dp", **named)

    def wait(self, handle):
        return self.add("wait", handle, "dp")


def one_ring(workers):
    """All workers in one ring."""
    return GroupFamily.of("dp", [range(workers)])


def eps(servers, nics=8, rate_bps=400 * GBPS, **others):
    """A packet fabric, all servers under one ToR unless said otherwise."""
    values = {"servers_per_tor": servers, "servers_per_pod": servers, **others}
    return Eps(nics=nics, nic_rate_bps=rate_bps, link_delay_ps=1_000_000, **values)


def packet(servers, all_to_all="flat", **options):
    """A packet fabric and nothing else."""
    switch = NvSwitch(gpu_rate_bps=3600 * GBPS, latency_ps=2_000_000)
    return Network(servers, 8, switch, all_to_all, (eps(servers, **options),))


def mixnet(servers, rate_bps=400 * GBPS, **options):
    """Two NICs on the packet fabric, six on circuits of one region."""
    parts = [field.name for field in dataclasses.fields(SwitchTiming)]
    timing = {name: options.pop(name) for name in parts if name in options}
    values = {
        "ports": 6,
        "nic_rate_bps": rate_bps,
        "circuit_delay_ps": 1_000_000,
        "region_of_server": np.zeros(servers, np.uint32),
        "allocator": "best",
        "split": True,
        "when": "always",
        "first": "reuse",
        "timing": SwitchTiming(**{"fixed_s": 0.025, **timing}),
        **options,
    }
    base = packet(servers, "hierarchical", nics=2, rate_bps=rate_bps)
    return Network(servers, 8, base.nvswitch, "hierarchical", (*base.parts, Ocs(**values)))


def direct(servers, circuits, routes):
    """Fixed circuits at 400 Gb/s, 3 us per relay."""
    offsets = np.cumsum([0, *(len(route) for route in routes)])
    links = Direct(
        nic_rate_bps=400 * GBPS,
        link_delay_ps=1_000_000,
        relay_delay_ps=3_000_000,
        circuits=np.array(circuits, np.uint32).reshape(-1, 3),
        route_offsets=offsets.astype(np.uint32),
        route_servers=np.array([s for route in routes for s in route], np.uint32),
    )
    switch = NvSwitch(gpu_rate_bps=3600 * GBPS, latency_ps=2_000_000)
    return Network(servers, 8, switch, "hierarchical", (links,))
