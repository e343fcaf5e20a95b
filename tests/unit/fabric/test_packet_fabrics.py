"""Networks and bills of fat-tree, oversub and rail."""

import dataclasses

import numpy as np
import pytest
from tests.closed_form.test_all_to_all_strategies import all_to_all

from lightloom.errors import FabricError
from lightloom.fabric import Cluster, Counting, FabricContext, FatTree, Oversub, Rail
from lightloom.fabric.interconnect import Interconnect, uplink_efficiency
from lightloom.fabric.network import Direct, Eps, Ocs
from lightloom.simulate import simulate
from lightloom.workload.task_graph import Layout


def test_fat_tree_network(cluster):
    network = FatTree(switch_ports=64).network(cluster)
    assert (network.servers, network.gpus_per_server) == (128, 8)
    assert network.part(Ocs) is None
    assert network.part(Direct) is None
    eps = network.part(Eps)
    assert (eps.nics, eps.nic_rate_bps, eps.link_delay_ps) == (8, 400_000_000_000, 1_000_000)
    assert (eps.servers_per_tor, eps.servers_per_pod) == (4, 128)
    assert eps.tor_uplink_bps is None
    assert eps.rails == 1


def test_oversub_network_has_a_third_of_the_rate_up():
    cluster = Cluster.of(gpus=1008, rate_gbps=400, gpu="h100")
    eps = Oversub(switch_ports=64).network(cluster).part(Eps)
    assert eps.tor_uplink_bps * 3 == eps.servers_per_tor * 8 * eps.nic_rate_bps
    assert (
        Oversub(ratio=2, switch_ports=64).network(cluster).part(Eps).tor_uplink_bps
        == 20 * eps.nic_rate_bps
    )


def test_oversub_of_one_is_a_fat_tree(cluster):
    networks = [
        fabric.network(cluster)
        for fabric in (Oversub(ratio=1, switch_ports=64), FatTree(switch_ports=64))
    ]
    even, tree = (dataclasses.replace(network, notes=()) for network in networks)
    assert even == tree
    assert "each ToR has 32 ports to its 4 servers and 32 to the spine" in networks[0].notes[-1]
    bill = Oversub(ratio=1).bill_of_materials(cluster)
    assert bill.lines == FatTree().bill_of_materials(cluster).lines


def test_rail_network(cluster):
    eps = Rail(switch_ports=64).network(cluster).part(Eps)
    assert eps.rails == 8
    assert (eps.servers_per_tor, eps.servers_per_pod) == (32, 128)
    assert eps.tor_uplink_bps is None


def test_two_tiers_are_charged_where_two_are_simulated(cluster):
    bill = FatTree().bill_of_materials(cluster)
    found = {line.component: line.count for line in bill.lines}
    assert found == {"nic": 1024, "eps_port": 3 * 1024, "transceiver": 4 * 1024, "fiber": 2 * 1024}
    assert bill.conventions["tiers of packet switches"] == "2 (as simulated)"


def test_bill_of_a_fat_tree(cluster):
    bill = FatTree().bill_of_materials(cluster, Counting(tiers=3))
    found = {line.component: (line.rate_gbps, line.count) for line in bill.lines}
    assert found == {
        "nic": (400, 1024),
        "eps_port": (400, 5 * 1024),
        "transceiver": (400, 6 * 1024),
        "fiber": (400, 3 * 1024),
    }
    assert (bill.gpus, bill.servers) == (1024, 128)


@pytest.mark.parametrize("kind", ["dac", "aoc"])
def test_host_cables_replace_two_transceivers_and_a_fiber_each(cluster, kind):
    bill = FatTree().bill_of_materials(cluster, Counting(tiers=3, host_links=kind))
    assert bill.count(kind) == 1024
    assert bill.count("transceiver") == 4 * 1024
    assert bill.count("fiber") == 2 * 1024
    assert bill.count("eps_port") == 5 * 1024


def test_nics_may_be_left_out(cluster):
    bill = FatTree().bill_of_materials(cluster, Counting(include_nics=False))
    assert bill.count("nic") == 0
    assert bill.conventions["NICs"] == "left out"


def test_servers_bought_for_a_part_are_counted_whole():
    bill = FatTree().bill_of_materials(Cluster.of(gpus=9, rate_gbps=400, gpu="h100"))
    assert (bill.gpus, bill.servers, bill.count("nic")) == (9, 2, 16)


def test_a_fabric_may_have_servers_of_its_own(cluster):
    fabric = FatTree(gpus_per_server=4, nics_per_server=2, rate_gbps="800 Gb/s", nvlink_gbps=900)
    network = fabric.network(cluster)
    assert (network.servers, network.gpus_per_server) == (256, 4)
    assert (network.part(Eps).nics, network.part(Eps).nic_rate_bps) == (2, 800_000_000_000)
    assert network.nvswitch.gpu_rate_bps == 900_000_000_000
    assert fabric.adapt(fabric.adapt(cluster)) == fabric.adapt(cluster)
    assert fabric.bill_of_materials(cluster).count("nic") == 512


def test_a_job_laid_out_for_other_servers_is_refused(cluster, job):
    with pytest.raises(FabricError) as error:
        FatTree(gpus_per_server=16).network(cluster, job(128, 8))
    assert str(error.value) == (
        "the job is laid out on 128 servers, the cluster has 64 (1024 GPUs, 16 per server)"
    )
    small = Layout.grid(1, 1, 2, 8, np.arange(2, dtype=np.uint32))
    with pytest.raises(FabricError, match="workers of 8 GPUs, servers have 4"):
        FatTree(gpus_per_server=4).network(cluster, FabricContext(small))


@pytest.mark.parametrize("kind", [FatTree, Oversub, Rail])
def test_flows_reach_a_share_of_the_uplinks(cluster, kind):
    found = {ecmp: kind(ecmp=ecmp).network(cluster).part(Eps) for ecmp in (None, 0.5, 1.0)}
    uplinks = kind().network(cluster).part(Eps).tor_uplink_reached_bps / uplink_efficiency()
    assert found[None].tor_uplink_reached_bps == pytest.approx(uplinks * uplink_efficiency())
    assert found[0.5].tor_uplink_reached_bps == pytest.approx(uplinks / 2)
    assert found[1.0].tor_uplink_reached_bps is None
    assert len({part.tor_uplink_bps for part in found.values()}) == 1


def test_hashing_costs_what_crosses_tors_but_not_what_stays_on_a_rail():
    graph = all_to_all(1, deduplicated=False)

    def seconds(kind, **options):
        ideal = Interconnect.named("ideal", "h100")
        cluster = Cluster.of(gpus=16, rate_gbps=400, gpu="h100", interconnect=ideal)
        options = {"all_to_all": "flat", "servers_per_tor": 1, **options}
        return simulate(graph, kind(**options).network(cluster)).step_time_s

    even, hashed = seconds(FatTree, ecmp=1.0), seconds(FatTree, ecmp=0.5)
    assert hashed == pytest.approx(2 * even, rel=0.05)
    rails = {"servers_per_tor": 2}
    assert seconds(Rail, ecmp=0.5, **rails) == seconds(Rail, ecmp=1.0, **rails)
    assert seconds(Rail, ecmp=0.5, **rails) <= seconds(FatTree, ecmp=0.98) <= hashed


def test_planes_take_equal_parts_of_the_nics(cluster):
    eps = FatTree(planes=8, switch_ports=64).network(cluster).part(Eps)
    assert (eps.nics, eps.rails, eps.planes) == (8, 8, 8)
    assert (eps.servers_per_tor, eps.servers_per_pod) == (32, 1024)
    with pytest.raises(FabricError, match="planes = 3: expected a divisor of the 8 NICs"):
        FatTree(planes=3).network(cluster)


def test_flat_all_to_alls_do_not_cross_planes(cluster, job):
    context = job(128, 8, ranks_per_worker=8)
    network = FatTree(planes=8).network(cluster, context)
    assert network.all_to_all == "rail"
    names = FatTree(planes=8).candidates(cluster, context)
    assert {str(name) for name in names} == {"all_to_all=rail", "all_to_all=hierarchical"}
    refused = FatTree(planes=8, all_to_all="flat").network(cluster, context)
    assert (refused.all_to_all, "does not apply" in refused.all_to_all_reason) == ("rail", True)


@pytest.mark.parametrize("strategy", ["rail", "hierarchical"])
def test_what_stays_on_its_rail_takes_as_long_over_planes(strategy):
    graph = all_to_all(1, deduplicated=False)
    ideal = Interconnect.named("ideal", "h100")
    cluster = Cluster.of(gpus=16, rate_gbps=400, gpu="h100", interconnect=ideal)
    joined, apart = (
        simulate(graph, FatTree(all_to_all=strategy, planes=planes).network(cluster)).step_time_s
        for planes in (1, 8)
    )
    assert apart == pytest.approx(joined, rel=1e-6)
