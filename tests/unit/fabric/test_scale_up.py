"""Networks and bills of rail-only, dual-plane and nvl72."""

import dataclasses

import numpy as np
import pytest
from tests.closed_form.test_all_to_all_strategies import all_to_all

from lightloom.errors import FabricError
from lightloom.fabric import Cluster, Counting, DualPlane, FatTree, Nvl72, Rail, RailOnly
from lightloom.fabric.interconnect import Interconnect
from lightloom.fabric.network import Eps
from lightloom.simulate import simulate
from lightloom.study.compare.racks import installed
from lightloom.study.compare.scenario import ClusterOptions
from lightloom.workload import TaskGraphBuilder
from lightloom.workload.categories import step_categories


def small(gpus=16):
    ideal = Interconnect.named("ideal", "h100")
    return Cluster.of(gpus=gpus, rate_gbps=400, gpu="h100", interconnect=ideal)


def seconds(fabric, cluster=None, **demand):
    graph = all_to_all(**({"copies": 2, "deduplicated": False} | demand))
    return simulate(graph, fabric.network(cluster or small())).step_time_s


def counts(fabric, cluster, **counting):
    bill = fabric.bill_of_materials(cluster, Counting(**counting))
    return {line.component: line.count for line in bill.lines}


# ---- rail-only


def test_rail_only_is_a_network_for_each_nic(cluster, job):
    context = job(128, 8, ranks_per_worker=8)
    own, planes = RailOnly(), Rail(planes=8)
    network, other = own.network(cluster, context), planes.network(cluster, context)
    assert network.part(Eps) == other.part(Eps)
    assert own.bill_of_materials(cluster).lines == planes.bill_of_materials(cluster).lines
    assert network.notes == ("8 rails without a spine: bytes for another one cross an NVSwitch",)
    assert network.all_to_all == "rail"
    names = {str(name) for name in own.candidates(cluster, context)}
    assert names == {"all_to_all=rail", "all_to_all=hierarchical"}
    assert RailOnly(nics_per_server=4).network(cluster).part(Eps).planes == 4


def test_rails_without_a_spine_are_one_tier_up_to_a_switch(cluster):
    # a port, two transceivers and a fiber for each NIC: arXiv 2307.12169, figure 5
    one = {"nic": 1024, "eps_port": 1024, "transceiver": 2048, "fiber": 1024}
    assert counts(RailOnly(), cluster) == one
    assert RailOnly().bill_of_materials(cluster).switches[0].count == 8
    two = counts(RailOnly(switch_ports=64), cluster)
    assert (two["eps_port"], two["fiber"]) == (3 * 1024, 2 * 1024)


def test_what_is_for_another_rail_crosses_the_nvswitch_of_its_sender():
    found = simulate(
        all_to_all(copies=2, deduplicated=False), RailOnly(all_to_all="rail").network(small())
    )
    # of two copies of 16 ranks' 1,000 tokens one is for the rank in the sender's place
    carried = found.purpose_bytes["ep"]
    assert (carried["eps"], carried["nvswitch"]) == (2 * 16 * 10**7, 16 * 10**7)


@pytest.mark.parametrize("hot", [False, True])
def test_rail_only_is_as_fast_as_a_rail_that_stays_on_it(hot):
    pair = [kind(all_to_all="rail") for kind in (Rail, RailOnly)]
    rail, rail_only = (seconds(fabric, hot=hot) for fabric in pair)
    assert rail_only == pytest.approx(rail, rel=1e-9)


def halves(sends=(), size=0, ring=None):
    """Workers of four GPUs, two on each of two servers; messages by sender, or a ring."""
    built = TaskGraphBuilder(np.array([0, 0, 1, 1], np.uint32), 4, step_categories())
    family = built.family("ep", np.arange(4).reshape(1, 4))
    ranks = {"ranks_per_member": 4, "rank_counts": np.zeros((1, 1, 16, 16), np.uint32)}
    built.demand("tokens", family, np.zeros((1, 1, 4, 4), np.uint32), **ranks)
    if ring is not None:
        family = built.family("dp", [ring])
    for worker in range(4):
        program = built.role(f"worker {worker}", [worker])
        if worker in sends:
            program.send(sends[worker], worker, size, "pp")
        for sender, receiver in dict(sends).items():
            if receiver == worker:
                program.receive(sender, sender, "pp")
        if ring is not None and worker in ring:
            program.all_reduce(family, size, "dp")
    return built.build()


@pytest.mark.parametrize(
    ("sends", "copied"),
    [({0: 2}, 0), ({0: 3}, 1), ({0: 2, 1: 3}, 0), ({0: 3, 1: 2}, 2)],
)
def test_messages_between_rails_leave_over_the_rail_of_their_receiver(sends, copied):
    size = 10**9
    found = simulate(halves(sends, size), RailOnly(all_to_all="rail").network(small()))
    carried = found.purpose_bytes["pp"]
    assert (carried["eps"], carried.get("nvswitch", 0)) == (len(sends) * size, copied * size)
    # four NICs each; four GPUs copy chunks while others cross the network
    assert found.step_time_s == pytest.approx(size / (4 * 50e9), abs=5e-6)


def test_messages_to_one_rail_share_its_nics_at_the_sender():
    size = 10**9
    network = RailOnly(all_to_all="rail").network(small())
    alone, both = (
        simulate(halves(sends, size), network).step_time_s for sends in ({1: 3}, {0: 3, 1: 3})
    )
    assert both == pytest.approx(2 * alone, rel=1e-3)


@pytest.mark.parametrize(("ring", "crosses"), [([0, 2], False), ([0, 3], True)])
def test_rings_between_rails_cross_the_nvswitch_as_well(ring, crosses):
    network = RailOnly(all_to_all="rail").network(small())
    carried = simulate(halves(size=10**9, ring=ring), network).purpose_bytes["dp"]
    assert carried.get("nvswitch", 0) == (carried["eps"] if crosses else 0)


# ---- dual-plane


@pytest.mark.parametrize("planes", [2, 4, 8])
@pytest.mark.parametrize("strategy", ["flat", "rail", "hierarchical"])
def test_planes_that_share_a_nic_evenly_are_a_fat_tree(planes, strategy):
    usual = seconds(FatTree(all_to_all=strategy, ecmp=1.0))
    assert seconds(DualPlane(all_to_all=strategy, planes=planes, ecmp=1.0)) == usual


def test_a_lost_plane_takes_its_part_of_every_nic():
    whole, half, quarter = (
        seconds(DualPlane(all_to_all="flat", planes=planes, failed=lost)) - 2e-6
        for planes, lost in ((2, ()), (2, ("plane:1",)), (4, ("plane:0", "plane:1", "plane:3")))
    )
    assert half == pytest.approx(2 * whole)
    assert quarter == pytest.approx(4 * whole)
    nic = seconds(DualPlane(failed=("nic:0/1",), all_to_all="hierarchical"))
    assert nic == seconds(FatTree(failed=("nic:0/1",), all_to_all="hierarchical"))
    with pytest.raises(FabricError, match="plane 2: expected some of the 2 planes"):
        DualPlane(failed=("plane:2",)).network(small())
    with pytest.raises(FabricError, match="expected some of the 2 planes"):
        DualPlane(failed=("plane:0", "plane:1")).network(small())
    # a port is a plane of a NIC: those of plane 1 of every NIC of server 0
    ports = tuple(f"eps:0/{2 * nic + 1}" for nic in range(8))
    one_tor = seconds(DualPlane(failed=ports, all_to_all="flat")) - 2e-6
    assert one_tor == pytest.approx(2 * whole)
    both = (*ports, *(f"eps:1/{2 * nic + 1}" for nic in range(8)))
    assert seconds(DualPlane(failed=both, all_to_all="flat")) - 2e-6 == pytest.approx(half)
    with pytest.raises(FabricError, match="expected ports of 2 servers with 8 NICs on 2 planes"):
        DualPlane(failed=("eps:0/16",)).network(small())
    with pytest.raises(FabricError, match="planes = 3: expected"):
        DualPlane(planes=3)


def test_ports_are_broken_out_and_charged_whole(cluster):
    tree, planes = (counts(kind(), cluster) for kind in (FatTree, DualPlane))
    assert planes == tree | {"fiber": 2 * tree["fiber"]}
    copper = counts(DualPlane(), cluster, host_links="dac")
    assert copper["dac"] == 1024


def test_planes_reach_as_far_in_fewer_tiers():
    # 128 ports: 8,192 NICs in two tiers; 256 of half the rate: 32,768
    large = Cluster.of(gpus=16_384, rate_gbps=400, gpu="h100")
    tiers = [kind().bill_of_materials(large).switches[0].tiers for kind in (FatTree, DualPlane)]
    assert tiers == [3, 2]
    switches = DualPlane().bill_of_materials(large).switches[0]
    # 128 ToRs and 64 spines of each plane, a port of 400 Gb/s for two halves
    assert (switches.ports, switches.count, switches.planes) == (128, 2 * (128 + 64), 2)
    assert (switches.used, switches.spare) == (3 * 16_384, 0)


# ---- nvl72


def test_a_rack_has_64_gpus_and_a_nic_for_each(cluster):
    network = Nvl72().network(cluster)
    assert (network.servers, network.gpus_per_server) == (16, 64)
    eps = network.part(Eps)
    assert (eps.nics, eps.nic_rate_bps) == (64, 400_000_000_000)
    assert network.nvswitch.gpu_rate_bps == 7_200_000_000_000
    assert network.notes[-1:] == ("racks of 64 GPUs and 8 spare ones, which are bought and idle",)
    assert Nvl72().adapt(Nvl72().adapt(cluster)) == Nvl72().adapt(cluster)


def test_spare_gpus_are_bought_and_wired(cluster):
    assert Nvl72().adapt(cluster).installed_gpus == 16 * 72
    assert counts(Nvl72(), cluster)["nic"] == 16 * 72
    alone = counts(Nvl72(spare_gpus=0), cluster)
    assert alone == counts(FatTree(), cluster)


def test_racks_that_are_bought_whole_are_the_same_racks():
    options = ClusterOptions(
        gpu="gb200", rate_gbps=400, gpus_per_server=72, nics_per_server=72, spare_gpus_per_server=8
    )
    used = Cluster.of(
        gpus=256,
        rate_gbps=400,
        gpu="gb200",
        gpus_per_server=64,
        nics_per_server=64,
        idle_gpus_per_server=8,
    )
    bought = installed(used, options)
    assert (bought.gpus, bought.installed_gpus) == (288, 288)
    fabric = Nvl72()
    assert fabric.adapt(bought).installed_gpus == 288
    assert counts(fabric, bought) == counts(fabric, used)
    two_tiers = {"nic": 288, "eps_port": 3 * 288, "transceiver": 4 * 288, "fiber": 2 * 288}
    assert counts(fabric, used) == two_tiers


@pytest.mark.parametrize(("given", "text"), [
    ({"nvlink_gbps": 800}, "nvlink_gbps = 800: expected"),
    ({"nvlink_gbps": "20 Tb/s"}, "nvlink_gbps"),
    ({"gpus_per_server": 0}, "gpus_per_server = 0: expected"),
    ({"spare_gpus": -1}, "spare_gpus = -1: expected"),
])  # fmt: skip
def test_what_is_no_rack_is_refused(given, text):
    with pytest.raises(FabricError) as error:
        Nvl72(**given)
    assert str(error.value).startswith(f"nvl72: {text}")
    assert "\n" not in str(error.value)


def test_a_rack_at_equal_rates_is_a_larger_server(cluster):
    rates = {"gpus_per_server": 8, "nvlink_gbps": 3600.0, "spare_gpus": 0}
    rack, server = Nvl72(**rates).network(cluster), FatTree().network(cluster)
    assert dataclasses.replace(rack, notes=()) == dataclasses.replace(server, notes=())
    assert np.array_equal(rack.part(Eps).failed, server.part(Eps).failed)
