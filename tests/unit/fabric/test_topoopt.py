"""TopoOpt's circuits, routes and parts."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from lightloom.errors import FabricError
from lightloom.fabric import Cluster, FabricContext, MeanDemand, RingDemand, TopoOpt
from lightloom.fabric.interconnect import Interconnect, cluster_defaults
from lightloom.fabric.network import Direct, Eps, Ocs
from lightloom.fabric.topoopt import all_pairs
from lightloom.workload.task_graph import Layout


@pytest.fixture
def small():
    ideal = Interconnect.named("ideal", "h100")
    return Cluster.of(gpus=64, rate_gbps=400, gpu="h100", interconnect=ideal)


def paths(direct):
    ends = zip(direct.route_offsets[:-1], direct.route_offsets[1:], strict=True)
    return [direct.route_servers[a:b].tolist() for a, b in ends]


def demand(*pairs):
    src, dst, size = zip(*pairs, strict=True)
    return {
        "demand_src": np.array(src, np.uint32),
        "demand_dst": np.array(dst, np.uint32),
        "demand_bytes": np.array(size, float),
        "demand_phase": np.zeros(len(pairs), np.uint32),
    }


def test_all_nics_are_circuits(small, job):
    network = TopoOpt().network(small, job(8, 8))
    assert network.part(Eps) is None
    assert network.part(Ocs) is None
    direct = network.part(Direct)
    used = np.zeros(8, int)
    for a, b, count in direct.circuits.tolist():
        used[a] += count
        used[b] += count
    assert used.max() <= 8
    assert used.min() >= 7
    assert direct.nic_rate_bps == 400_000_000_000
    assert direct.link_delay_ps == 1_000_000
    assert network.all_to_all == "hierarchical"


def test_every_pair_of_an_ep_group_has_a_route(small, job):
    """Also a pair that sent nothing in the steps looked at may send in the next."""
    found = {
        (path[0], path[-1])
        for path in paths(TopoOpt().network(small, job(8, 4, **demand((0, 1, 5e9)))).part(Direct))
    }
    groups = [range(4), range(4, 8)]
    wanted = {(a, b) for group in groups for a in group for b in group if a != b}
    assert wanted <= found


def test_routes_follow_circuits(small, job):
    rings = (RingDemand(np.arange(8, dtype=np.uint32), 1e9),)
    context = job(8, 4, rings=rings, **demand((0, 7, 4e9), (3, 4, 1e9)))
    direct = TopoOpt().network(small, context).part(Direct)
    joined = {frozenset((a, b)) for a, b, _ in direct.circuits.tolist()}
    for path in paths(direct):
        assert all(frozenset(hop) in joined for hop in itertools.pairwise(path))


def test_cycles_have_circuits_for_every_hop(small, job):
    rings = (RingDemand(np.arange(8, dtype=np.uint32), 1e9),)
    direct = TopoOpt().network(small, job(8, 1, rings=rings)).part(Direct)
    joined = {(a, b): count for a, b, count in direct.circuits.tolist()}
    ends = itertools.pairwise(direct.cycle_offsets.tolist())
    cycles = [direct.cycle_servers[a:b].tolist() for a, b in ends]
    assert cycles == [[0, 1, 2, 3, 4, 5, 6, 7], [0, 3, 6, 1, 4, 7, 2, 5]]
    for cycle, count in zip(cycles, direct.cycle_counts.tolist(), strict=True):
        for a, b in itertools.pairwise([*cycle, cycle[0]]):
            assert joined[min(a, b), max(a, b)] >= count > 0
    assert direct.cycle_counts.sum() == 4


def test_the_topology_follows_the_demand(small, job):
    def circuits(a, b):
        context = job(8, 8, **demand((a, b, 9e9), (b, a, 9e9)))
        found = TopoOpt().network(small, context).part(Direct).circuits.tolist()
        return {(x, y): count for x, y, count in found}

    assert circuits(0, 5)[0, 5] > circuits(1, 2).get((0, 5), 0)


def pipeline(servers, stages, **mean):
    layout = Layout.grid(
        stages=stages,
        replicas=1,
        members=servers // stages,
        gpus_per_worker=8,
        worker_server=np.arange(servers, dtype=np.uint32),
    )
    return FabricContext(layout=layout, mean=lambda: MeanDemand(**mean))


def test_phases_share_ports_so_that_their_times_are_least():
    """Two stages of four servers: three peers and a neighbor have two of eight ports each."""
    groups = (range(4), range(4, 8))
    pairs = [(a, b, 90e9) for group in groups for a, b in itertools.permutations(group, 2)]
    sends = [(a, a + 4, 8e9) for a in range(4)] + [(a + 4, a, 8e9) for a in range(4)]
    mean = demand(*pairs, *sends)
    mean["demand_phase"] = np.repeat(np.uint32([2, 0, 1]), [24, 4, 4])
    cluster = Cluster.of(gpus=64, rate_gbps=400, gpu="h100")
    direct = TopoOpt().network(cluster, pipeline(8, 2, **mean)).part(Direct)
    assert direct.circuits[:, 2].tolist() == [2] * 16


def test_every_pair_of_a_group_sends_a_byte_in_the_last_phase():
    mean = demand((0, 1, 3.2), (0, 2, 5.0))
    mean["demand_phase"] = np.uint32([0, 4])
    (src, dst, size), phases = all_pairs(pipeline(4, 2, **mean))
    assert list(zip(src.tolist(), dst.tolist(), size.tolist(), phases.tolist(), strict=True)) == [
        (0, 1, 4, 0),
        (0, 2, 5, 4),
        (0, 1, 1, 4),
        (1, 0, 1, 4),
        (2, 3, 1, 4),
        (3, 2, 1, 4),
    ]


def test_a_pair_may_have_few_routes(job):
    # far more pairs than circuits, so that many need relays
    context = job(64, 32)
    cluster = Cluster.of(gpus=512, rate_gbps=400, gpu="h100")
    for maximum in (1, 3):
        direct = TopoOpt(max_routes=maximum).network(cluster, context).part(Direct)
        ends = [(path[0], path[-1]) for path in paths(direct)]
        assert max(ends.count(pair) for pair in set(ends)) <= maximum
        assert max(len(path) for path in paths(direct)) > 2


def test_relay_delay(small, job):
    direct = TopoOpt().network(small, job(8, 8)).part(Direct)
    assert direct.relay_delay_ps == round(cluster_defaults()["relay_delay_s"].value * 1e12)
    direct = TopoOpt(relay_delay_s="3 us").network(small, job(8, 8)).part(Direct)
    assert direct.relay_delay_ps == 3_000_000
    assert TopoOpt(relay_delay_s=0).relay_s() == 0


def test_one_nic_cannot_connect_eight_servers(job):
    cluster = Cluster.of(gpus=64, rate_gbps=400, gpu="h100", nics_per_server=1)
    with pytest.raises(FabricError, match="topoopt: "):
        TopoOpt().network(cluster, job(8, 8))


def test_the_demand_is_needed(small, job):
    with pytest.raises(FabricError, match="topoopt: the demand of the job is needed"):
        TopoOpt().network(small)
    with pytest.raises(FabricError, match="laid out on 8 servers, the cluster has 4"):
        TopoOpt().network(replace(small, gpus=32), job(8, 8))


def test_bill_of_a_flat_panel(cluster):
    found = {
        line.component: line.count
        for line in TopoOpt(panel="flat").bill_of_materials(cluster).lines
    }
    assert found == {"nic": 1024, "transceiver": 1024, "patch_port": 1024, "fiber": 1024}


def test_bill_with_look_ahead(cluster):
    bill = TopoOpt(panel="flat", look_ahead=True).bill_of_materials(cluster)
    assert (bill.count("patch_port"), bill.count("switch_1x2")) == (2048, 1024)
    assert bill.conventions["look-ahead"] == "a second port and a 1x2 switch per NIC"


@pytest.mark.parametrize(("options", "gpus", "folded"), [
    ({"panel": "flat"}, 1024, False),
    ({}, 1008, False),
    ({}, 1008 * 8 + 1, True),
    ({"panel": "fit", "panel_ports": 64}, 64 * 8 + 1, True),
    ({"panel": "folded"}, 8, True),
])  # fmt: skip
def test_a_panel_too_small_is_folded(options, gpus, folded):
    cluster = Cluster.of(gpus=gpus, rate_gbps=400, gpu="h100")
    bill = TopoOpt(**options).bill_of_materials(cluster)
    passes = 3 if folded else 1
    assert bill.count("patch_port") == bill.count("fiber") == passes * cluster.nics
    assert bill.count("long_reach_transceiver") == (cluster.nics if folded else 0)
    assert bill.count("transceiver") == (0 if folded else cluster.nics)
    assert bill.conventions["patch panel"] == ("two tiers" if folded else "flat")


@pytest.mark.parametrize(("options", "gpus"), [
    ({}, 1009), ({}, 8064), ({"panel_ports": 64}, 65), ({"panel": "planes"}, 8),
])  # fmt: skip
def test_panels_are_planes_where_servers_fit_one(options, gpus):
    cluster = Cluster.of(gpus=gpus, rate_gbps=400, gpu="h100")
    bill = TopoOpt(**options).bill_of_materials(cluster)
    assert bill.count("patch_port") == bill.count("transceiver") == cluster.nics
    assert bill.conventions["patch panel"] == "one per NIC of a server"
    assert bill.switches[0].planes == 8


def test_a_plane_has_a_port_for_every_server():
    cluster = Cluster.of(gpus=1024, rate_gbps=400, gpu="h100")
    with pytest.raises(FabricError, match="100 ports for 128 servers"):
        TopoOpt(panel="planes", panel_ports=100).bill_of_materials(cluster)


def on_planes(ends, planes):
    """Color directed edges so that no two of a sender or of a receiver are alike (König)."""
    sends, receives = {}, {}
    for source, target in ends:
        a = next(c for c in range(planes) if (source, c) not in sends)
        b = next(c for c in range(planes) if (target, c) not in receives)
        if a != b:  # swap both colors along the path that begins with a at the receiver
            path, at, color, is_receiver = [], target, a, True
            while (at, color) in (receives if is_receiver else sends):
                other = (receives if is_receiver else sends)[at, color]
                path.append((other, at, color) if is_receiver else (at, other, color))
                at, color, is_receiver = other, b if color == a else a, not is_receiver
            for one, other, color in path:
                del sends[one, color], receives[other, color]
            for one, other, color in path:
                swapped = b if color == a else a
                sends[one, swapped], receives[other, swapped] = other, one
        sends[source, a], receives[target, a] = target, source
    return sends


def test_planes_take_any_topology_with_fibers_patched_apart(small, job):
    circuits = TopoOpt().network(small, job(8, 8)).part(Direct).circuits.tolist()
    triangle = [(0, 1, 1), (1, 2, 1), (2, 0, 1)]  # of duplex fibers, it would take three planes
    for rows, planes in ((circuits, 8), (triangle, 2)):
        ends = [pair for a, b, n in rows for pair in [(a, b), (b, a)] * n]
        assert len(on_planes(ends, planes)) == len(ends)
