"""MixNet's network, regions, delays and bill."""

import numpy as np
import pytest

from lightloom.errors import FabricError, HardwareError
from lightloom.fabric import Cluster, MixNet
from lightloom.fabric.network import Eps, Ocs
from lightloom.fabric.regions import NO_REGION
from lightloom.hardware import measured_turnaround, nic_activation, switch_technology
from lightloom.schedule import Failures


def test_nics_are_divided(cluster, job):
    network = MixNet(switch_ports=64).network(cluster, job(128, 8))
    assert (network.part(Eps).nics, network.part(Ocs).ports) == (2, 6)
    assert network.part(Eps).servers_per_tor == 16
    assert network.part(Ocs).nic_rate_bps == network.part(Eps).nic_rate_bps == 400_000_000_000
    assert network.part(Ocs).circuit_delay_ps == 1_000_000
    assert network.part(Ocs).region_of_server.dtype == np.uint32
    assert network.part(Ocs).region_of_server.tolist() == [server // 8 for server in range(128)]
    assert network.notes[0] == "16 regions of up to 8 servers, 6 circuits each"


def test_packet_nics_may_be_slower(cluster, job):
    fabric = MixNet(ports=4, eps_nic_gbps=200)
    network = fabric.network(cluster, job(128, 8))
    assert network.part(Eps).nic_rate_bps == 200_000_000_000
    assert network.part(Ocs).nic_rate_bps == 400_000_000_000
    rates = {
        (line.component, line.rate_gbps): line.count
        for line in fabric.bill_of_materials(cluster).lines
    }
    assert rates["nic", 200] == rates["nic", 400] == 512
    assert rates["eps_port", 200] == 3 * 512
    assert rates["transceiver", 200] == 4 * 512
    assert rates["transceiver", 400] == rates["ocs_port", 400] == 512


def test_policy_goes_to_the_core_as_given(cluster, job):
    ocs = MixNet(
        allocator="reference", split=False, when="never", first="block",
        keep_unchanged=False,
    ).network(cluster, job(128, 8)).part(Ocs)  # fmt: skip
    assert (ocs.allocator, ocs.split, ocs.when) == ("reference", False, "never")
    assert (ocs.first, ocs.timing.keep_unchanged) == ("block", False)
    ocs = MixNet().network(cluster, job(128, 8)).part(Ocs)
    assert (ocs.allocator, ocs.split, ocs.when) == ("best", True, "break-even")
    assert (ocs.first, ocs.timing.keep_unchanged) == ("predict", True)


def test_split_is_on_unless_a_comparison_finds_otherwise(cluster, job):
    found = MixNet().candidates(cluster, job(128, 8))
    assert {str(name): fabric.split for name, fabric in found.items()} == {
        "split=on": True, "split=off": False
    }  # fmt: skip
    assert [fabric.name for fabric in found.values()] == ["mixnet", "mixnet"]
    network = MixNet().network(cluster, job(128, 8))
    assert any(note.startswith("split on: an estimate") for note in network.notes)
    assert MixNet().effective(cluster, network)["split"] is True
    for fabric in found.values():
        network = fabric.network(cluster, job(128, 8))
        assert not any("split" in note for note in network.notes)
        assert network.part(Ocs).split is fabric.split
        assert fabric.candidates(cluster, job(128, 8)) == {}


def test_split_is_not_open_where_it_makes_no_difference(cluster, job):
    assert MixNet(relay=True).candidates(cluster, job(128, 8)) == {}
    inside = job(128, 1, ranks_per_worker=8)
    assert MixNet().candidates(cluster, inside) == {}
    assert not any("split" in note for note in MixNet().network(cluster, inside).notes)


@pytest.mark.parametrize(("options", "fixed_s"), [
    ({}, 0.025),
    ({"technology": "mems-3d"}, 0.015),
    ({"fixed_s": "25 us"}, 25e-6),
    ({"fixed_s": 0}, 0),
    ({"technology": "palomar", "fixed_s": 0.01}, 0.01),
])  # fmt: skip
def test_switching_time(cluster, job, options, fixed_s):
    ocs = MixNet(**options).network(cluster, job(128, 8)).part(Ocs)
    assert (ocs.timing.fixed_s, ocs.timing.per_pair_s) == (fixed_s, 0)


@pytest.mark.parametrize("fixed_s", ["1 ms", "measured"])
def test_a_time_for_each_pair_may_be_given(cluster, job, fixed_s):
    fabric = MixNet(fixed_s=fixed_s, per_pair_s="3 us")
    network = fabric.network(cluster, job(128, 8))
    assert network.part(Ocs).timing.per_pair_s == 3e-6
    assert fabric.effective(cluster, network)["per_pair_s"] == 3e-6


@pytest.mark.parametrize("pairs", [1, 4, 16])
def test_measured_switching_time_grows_with_the_pairs(cluster, job, pairs):
    for name, attribute in (("measured", "mean_s"), ("measured-p99", "p99_s")):
        ocs = MixNet(fixed_s=name).network(cluster, job(128, 8)).part(Ocs)
        expected = getattr(measured_turnaround(pairs), attribute)
        switching_s = ocs.timing.expected_s(pairs) - ocs.timing.link_up_s
        assert switching_s == pytest.approx(expected)


def test_control_and_bring_up_are_parts_of_the_delay(cluster, job):
    ocs = MixNet(link_up_s=0).network(cluster, job(128, 8)).part(Ocs)
    assert (ocs.timing.control_s, ocs.timing.link_up_s) == (0, 0)
    # links take as long as was measured unless they are said to be faster
    ocs = MixNet(control_s="2 ms").network(cluster, job(128, 8)).part(Ocs)
    assert ocs.timing.control_s == 0.002
    assert ocs.timing.link_up_s == round(nic_activation().mean_s * 1e12) / 1e12
    assert MixNet(link_up_s="5.67 s").bring_up_s() == 5.67


@pytest.mark.parametrize(("degree", "servers"), [(2, 288), (6, 96)])
def test_largest_region_of_a_piezo_switch(degree, servers):
    assert MixNet(ports=degree).largest_region() == servers
    assert switch_technology("piezo").ports // degree == servers


@pytest.mark.parametrize(("degree", "servers"), [(2, 250), (6, 83)])
def test_largest_region_of_500_ports(degree, servers):
    # paper section 4.2: 80 to 250 servers
    assert MixNet(ports=degree, ocs_ports=500).largest_region() == servers


def test_a_region_that_exceeds_the_switch(cluster, job):
    with pytest.raises(FabricError) as error:
        MixNet(technology="silicon-photonics").network(cluster, job(128, 8))
    assert str(error.value).startswith(
        "mixnet: an EP group spans 8 servers, one switch has ports for 5; use fewer optical ports"
    )
    MixNet(technology="silicon-photonics", ports=4).network(cluster, job(128, 8))
    with pytest.raises(FabricError, match="region_servers = 128 servers, one switch has ports"):
        MixNet(region_servers=128).network(cluster, job(128, 8))


def test_regions_of_several_groups(cluster, job):
    ocs = MixNet(region_servers=96).network(cluster, job(128, 8)).part(Ocs)
    assert np.bincount(ocs.region_of_server).tolist() == [96, 32]


def test_groups_inside_servers_have_no_region(cluster, job):
    network = MixNet().network(cluster, job(128, 1))
    assert set(network.part(Ocs).region_of_server.tolist()) == {NO_REGION}
    assert network.notes[0] == "no region: every EP group is inside one server"


def test_all_nics_cannot_be_optical(cluster, job):
    with pytest.raises(FabricError) as error:
        MixNet(ports=8).network(cluster, job(128, 8))
    assert str(error.value) == (
        "mixnet: ports = 8: a server has 8 NICs and one at least must stay on the packet fabric"
    )
    with pytest.raises(FabricError, match="ports = 6: a server has 4 NICs"):
        MixNet().bill_of_materials(Cluster.of(gpus=8, rate_gbps=400, gpu="h100", nics_per_server=4))


def test_the_layout_is_needed(cluster):
    with pytest.raises(FabricError, match="mixnet: the layout of the job is needed"):
        MixNet().network(cluster)


def test_a_technology_must_be_known_and_have_a_delay():
    with pytest.raises(HardwareError, match="unknown switch technology 'pieso'; did you mean"):
        MixNet(technology="pieso")
    with pytest.raises(HardwareError, match="'palomar': no reconfiguration delay was reported"):
        MixNet(technology="palomar")


def test_bill(cluster):
    found = {line.component: line.count for line in MixNet().bill_of_materials(cluster).lines}
    # its packet NICs are joined by two tiers
    assert found == {
        "nic": 1024,
        "eps_port": 3 * 256,
        "ocs_port": 768,
        "transceiver": 4 * 256 + 768,
        "fiber": 2 * 256 + 768,
    }


def test_relays_cost_what_their_data_file_or_the_user_says(cluster, job):
    def network(**options):
        return MixNet(**options).network(cluster, job(128, 8))

    assert network(relay=True).part(Ocs).relaying == (524_288, 10_000_000)
    own = network(relay=True, relay_delay_s="3 us", relay_chunk_bytes=65_536)
    assert own.part(Ocs).relaying == (65_536, 3_000_000)
    assert network().part(Ocs).relaying is None
    note = (
        "servers of a region pass bytes of others on where that is faster, in chunks of "
        "65,536 bytes and 3 us each"
    )
    assert note in own.notes
    assert not any(note[:20] in other for other in network().notes)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"relay": True, "split": False}, "relay = true divides the bytes of a pair"),
        ({"relay_delay_s": 1e-6}, "relay_delay_s is for relays: expected relay = true as well"),
        ({"relay_chunk_bytes": 5}, "relay_chunk_bytes is for relays"),
    ],
)
def test_options_of_relays_that_make_no_sense_are_refused(options, text):
    with pytest.raises(FabricError, match=f"^mixnet: {text}"):
        MixNet(**options)


def test_what_has_failed_goes_to_the_core(cluster, job):
    network = MixNet(failed=["nic:2/1", "plane:0"]).network(cluster, job(128, 8))
    assert network.part(Ocs).failures == Failures([(2, 1)], [], [], [0])
    assert network.notes[-1] == "failed, and not used: NIC 2/1, plane 0"
    assert MixNet(failed="eps:0/1, server:3").failures().parts == "server 3, EPS NIC 0/1"
    assert MixNet().network(cluster, job(128, 8)).part(Ocs).failures is None
    message = r"^mixnet: all EPS NICs of server 1 \(2\) have failed; .* leave one of them, or name "
    with pytest.raises(FabricError, match=message):
        MixNet(failed="eps:1/0,eps:1/1,eps:1/1").network(cluster, job(128, 8))
    assert MixNet(failed="eps:1/0,eps:2/1").network(cluster, job(128, 8))
    with pytest.raises(FabricError, match=r"^mixnet: failed 'nik:2/1': expected of server:3"):
        MixNet(failed=["nik:2/1"])


def test_planes_are_switches_of_their_own(cluster, job):
    network = MixNet(planes="duplex", ocs_ports=8).network(cluster, job(128, 8))
    assert network.part(Ocs).planes == "duplex"
    assert MixNet(planes="crossed", ocs_ports=320).largest_region() == 320
    with pytest.raises(FabricError, match=r"planes"):
        MixNet(planes="round")


@pytest.mark.parametrize(("ports", "chassis"), [(320, 11), (576, 6)])
def test_regions_share_circuit_switches_as_their_ports_fit(job, ports, chassis):
    # 64 regions of 48 ports: six to a switch of 320 ports, twelve to one of 576
    cluster = Cluster.of(gpus=4096, rate_gbps=400, gpu="h200")
    fabric = MixNet(ocs_ports=ports)
    network = fabric.network(cluster, job(512, 8))
    ocs = fabric.bill_of_materials(cluster, network=network).switches[1]
    assert (ocs.count, ocs.used) == (chassis, 3072)
