"""Bills of materials against sums made by hand: switches, ports, optics, fibers, dollars.

The trees are worked out below from the number of ports alone, and not with the product's planner;
sums for 1,024 and 4,096 GPUs are those of an architect who filled a price list by hand.
"""

import math

import pytest

from lightloom.cost import PartsCostModel, unused_ports_usd
from lightloom.fabric import Chronos, Cluster, Counting, FatTree, MixNet, Oversub, Rail, TopoOpt
from lightloom.hardware import load_power, load_prices, packet_switches

#: transceiver, NIC, switch port, OCS port, patch port, fiber (USD), MixNet (SIGCOMM 2025), Table 4
PRICES = {400: (659, 1499, 1090, 520, 100, 150), 800: (1399, 2248, 1400, 520, 100, 150)}


def bill_of(fabric, gpus, rate=400, **counting):
    cluster = Cluster.of(gpus=gpus, rate_gbps=rate, gpu="h100")
    return fabric.bill_of_materials(cluster, Counting(**counting))


def dollars(fabric, gpus, rate=400, **counting):
    bill = bill_of(fabric, gpus, rate, **counting)
    return PartsCostModel().capital_cost(bill, load_prices()).total_usd


def boxes(fabric, gpus, rate=400):
    switches = bill_of(fabric, gpus, rate).switches[0]
    return switches.count, switches.ports, switches.tiers


@pytest.mark.parametrize(("fabric", "gpus", "rate", "usd"), [
    (FatTree(switch_ports=64), 1024, 400, 7_889_920),
    (FatTree(switch_ports=64), 1024, 800, 12_640_256),
    (FatTree(switch_ports=64), 4096, 400, 46_501_888),
    (FatTree(switch_ports=64), 4096, 800, 74_104_832),
    (Rail(switch_ports=64), 4096, 400, 46_501_888),
    (FatTree(switch_ports=128), 4096, 400, 31_559_680),
    (FatTree(switch_ports=64, planes=8), 4096, 400, 31_559_680),
    (Rail(switch_ports=64, planes=8), 4096, 400, 31_559_680),
    (MixNet(switch_ports=64), 1024, 400, 4_144_384),
    (MixNet(switch_ports=64), 1024, 800, 6_475_520),
    (MixNet(switch_ports=64), 4096, 400, 16_577_536),
    (MixNet(switch_ports=64), 4096, 800, 25_902_080),
    (TopoOpt(panel="folded"), 4096, 400, 14_610_432),
    # beyond a panel's 1,008 ports: NIC i of every server on panel i, $2,408 per NIC
    (TopoOpt(), 1008, 400, 2_427_264),
    (TopoOpt(), 1024, 400, 2_465_792),
    (TopoOpt(), 4096, 400, 9_863_168),
    (TopoOpt(panel="planes", panel_ports=512), 4096, 400, 9_863_168),
    (Chronos(), 4096, 400, 31_559_680),
])  # fmt: skip
def test_dollars_are_those_of_a_hand_made_bill(fabric, gpus, rate, usd):
    assert dollars(fabric, gpus, rate) == pytest.approx(usd)


@pytest.mark.parametrize(("fabric", "gpus", "expected"), [
    (FatTree(switch_ports=64), 1024, (48, 64, 2)),
    (FatTree(switch_ports=64), 4096, (320, 64, 3)),
    (FatTree(switch_ports=128), 4096, (96, 128, 2)),
    (Rail(switch_ports=64), 4096, (320, 64, 3)),
    # 22 ToRs, of which one has two servers and 6 uplinks; 342 uplinks on 6 spines
    (Oversub(switch_ports=64), 1024, (28, 64, 2)),
    # 86 ToRs, 1,366 uplinks: 43 aggregation switches of 32 down, 22 cores
    (Oversub(switch_ports=64), 4096, (86 + 43 + 22, 64, 3)),
    (MixNet(switch_ports=64), 1024, (12, 64, 2)),
    (MixNet(switch_ports=64), 4096, (48, 64, 2)),
    (FatTree(switch_ports=64, planes=8), 4096, (8 * 24, 64, 2)),
    (FatTree(switch_ports=128, planes=8), 1024, (8, 128, 1)),
])  # fmt: skip
def test_switches_are_bought_whole(fabric, gpus, expected):
    assert boxes(fabric, gpus) == expected


@pytest.mark.parametrize("rate", [400, 800, 1600])
@pytest.mark.parametrize("gpus", [1024, 2304, 4096])
@pytest.mark.parametrize("planes", [1, 8])
def test_a_tree_of_any_size_by_hand(gpus, rate, planes):
    ports = packet_switches(rate)[0].ports
    nics, down = gpus // planes, ports // 2
    tors = math.ceil(gpus // 8 / (down // (8 // planes)))
    tiers = 1 if nics <= ports else 2 if tors <= ports else 3
    bill = bill_of(FatTree(planes=planes), gpus, rate)
    assert bill.switches[0].tiers == tiers
    assert bill.count("eps_port") == gpus * (2 * tiers - 1)
    assert bill.count("transceiver") == 2 * gpus * tiers
    assert bill.count("fiber") == gpus * tiers


def test_the_cliff_of_a_third_tier():
    below, above = (dollars(FatTree(switch_ports=64), gpus) / gpus for gpus in (2048, 2056))
    assert (below, above) == pytest.approx((7705, 11353), abs=1)
    switches = bill_of(FatTree(switch_ports=64), 2048).switches[0]
    assert switches.widest * 8 == 2048


@pytest.mark.parametrize(("ports", "chassis", "unused"), [(576, 6, 384), (320, 10, 128)])
def test_circuit_switches_are_bought_whole(ports, chassis, unused):
    ocs = bill_of(MixNet(ocs_ports=ports), 4096).switches[1]
    assert (ocs.component, ocs.count, ocs.spare) == ("ocs_port", chassis, unused)


def test_ports_that_nobody_uses_have_a_price():
    bill = bill_of(Oversub(switch_ports=64), 1024)
    spare = 28 * 64 - 1708
    assert unused_ports_usd(bill, load_prices()) == spare * PRICES[400][2]


@pytest.mark.parametrize(("options", "gpus", "panels"), [
    ({}, 1008, 1),
    # seven planes of 128 servers fit a panel of 1,008 ports
    ({}, 1024, 2),
    ({"panel_ports": 128}, 1024, 8),
    ({}, 4096, 8),
    ({"panel": "folded"}, 4096, 13),
])  # fmt: skip
def test_patch_panels_are_bought_whole(options, gpus, panels):
    switches = bill_of(TopoOpt(**options), gpus).switches[0]
    assert (switches.component, switches.count) == ("patch_port", panels)


#: dollars and watts of an OCS port by kind: of the price file, by hand
KINDS = {
    "robotic": (100, 0), "piezo": (520, 0.8), "mems-3d": (500, 0.24), "rotornet": (60, 0.1),
    "silicon-photonics": (520, 0.8), "plzt": (1040, 0.8),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_port_of_each_kind_of_circuit_switch_has_its_own_price(kind):
    usd, watts = KINDS[kind]
    fabric = MixNet(switch_ports=64, technology=kind, ports=6)
    found = dollars(fabric, 1024) - dollars(MixNet(switch_ports=64), 1024)
    assert found == pytest.approx(768 * (usd - 520))
    power = PartsCostModel().power(bill_of(fabric, 1024), load_power())
    assert power.by_component_w["ocs_port"] == pytest.approx(768 * watts)


def test_mirrors_of_chronos_are_a_mems_switch():
    cost = PartsCostModel().capital_cost(bill_of(Chronos(technology="mems"), 1024), load_prices())
    # eight planes of 128 servers, one crossbar of 320 ports each
    assert cost.by_component_usd["ocs_port"] == 1024 * 500


def test_optics_of_one_hall():
    """Fibers of 45 m at $0.30; single-mode transceivers, twice the price, only behind switches."""
    paper, hall = (dollars(FatTree(), 1024, optics=optics) for optics in ("paper", "hall"))
    fibers = bill_of(FatTree(), 1024).count("fiber")
    assert paper - hall == pytest.approx(fibers * (500 - 45) * 0.30)
    bill = bill_of(MixNet(), 1024, optics="hall")
    assert bill.count("long_reach_transceiver") == 768
    assert bill.conventions["optics"].startswith("for one hall")
    extra = dollars(MixNet(), 1024, optics="hall", fiber_length_m=500) - dollars(MixNet(), 1024)
    assert extra == pytest.approx(768 * 659)
    assert bill_of(TopoOpt(), 1024, optics="hall").count("transceiver") == 0


SIZES = pytest.mark.parametrize("gpus", [1024, 2304, 4096])
SPEEDS = pytest.mark.parametrize("rate", [400, 800, 1600])


def counts(fabric, gpus, rate):
    bill = bill_of(fabric, gpus, rate)
    return {line.component: line.count for line in bill.lines}


@SIZES
@SPEEDS
def test_mixnet_of_any_size_by_hand(gpus, rate):
    ports, packet, optical = packet_switches(rate)[0].ports, gpus // 4, gpus * 3 // 4
    tors = math.ceil(gpus // 8 / (ports // 2 // 2))
    tiers = 1 if packet <= ports else 2 if tors <= ports else 3
    assert counts(MixNet(), gpus, rate) == {
        "nic": gpus,
        "eps_port": packet * (2 * tiers - 1),
        "ocs_port": optical,
        "transceiver": 2 * tiers * packet + optical,
        "fiber": tiers * packet + optical,
    }


@SIZES
@SPEEDS
def test_an_oversubscribed_tree_of_any_size_by_hand(gpus, rate):
    ports, servers = packet_switches(rate)[0].ports, gpus // 8
    tors = math.ceil(servers / (ports * 3 // 4 // 8))
    full = math.ceil(servers / tors)
    uplinks, rest = math.ceil(8 * full / 3), servers % full
    tiers = 2 if math.ceil(servers / full) <= ports else 3
    above = (tiers - 1) * (servers // full * uplinks + math.ceil(uplinks * rest / full))
    assert counts(Oversub(), gpus, rate) == {
        "nic": gpus,
        "eps_port": gpus + 2 * above,
        "transceiver": 2 * (gpus + above),
        "fiber": gpus + above,
    }


@SIZES
@SPEEDS
def test_panels_and_crossbars_of_any_size_by_hand(gpus, rate):
    # a panel of 1,008 ports has one for NIC i of every server
    flat = {"nic": gpus, "patch_port": gpus, "transceiver": gpus, "fiber": gpus}
    assert counts(TopoOpt(), gpus, rate) == flat
    # eight planes of 64-port crossbars, each of two tiers from 65 servers on
    assert counts(Chronos(), gpus, rate) == {
        "nic": gpus,
        "crossbar_port": 3 * gpus,
        "transceiver": 4 * gpus,
        "fiber": 2 * gpus,
    }


@SIZES
@SPEEDS
def test_rails_by_hand(gpus, rate):
    ports, servers = packet_switches(rate)[0].ports, gpus // 8
    tors = 8 * math.ceil(servers / (ports // 2))
    tiers = 2 if tors <= ports else 3
    found = counts(Rail(), gpus, rate)
    assert found["eps_port"] == gpus * (2 * tiers - 1)
    assert counts(Rail(planes=8), gpus, rate) == counts(FatTree(planes=8), gpus, rate)
