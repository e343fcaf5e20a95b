"""Chronos: its slots, what it takes to decide, its parts, and what may fail."""

import numpy as np
import pytest

from lightloom import Scenario, compare
from lightloom.cost import PartsCostModel
from lightloom.errors import FabricError
from lightloom.fabric import Chronos, Counting, Rail, load_fabric
from lightloom.fabric.chronos import METHODS
from lightloom.fabric.network import Crossbars, Eps
from lightloom.hardware import decision_times, load_power, load_prices
from lightloom.schedule import Failures

QUICK = [name for name in METHODS if name != "critical"]


def part_of(cluster, context=None, **options):
    return Chronos(**options).network(cluster, context).part(Crossbars)


def names(crossbars):
    return [name for name, _ in crossbars.methods]


def decisions(crossbars):
    """Times of the only method."""
    ((_, times),) = crossbars.methods
    return times


def test_circuits_are_all_there_is(cluster, job):
    network = Chronos().network(cluster, job(128, 8))
    assert network.part(Eps) is None
    crossbars = network.part(Crossbars)
    assert (crossbars.nics, crossbars.nic_rate_bps) == (8, 400_000_000_000)
    assert (crossbars.guard_ps, crossbars.slot_ps, crossbars.lateness) == (10_000, None, None)
    # 128 servers in planes of 64 ports: two tiers, four links of 1 us
    assert crossbars.latency_ps == 4_000_000
    assert network.all_to_all == "hierarchical"
    assert "8 planes of 2 tiers of crossbars" in network.notes[0]


def test_the_technology_sets_ports_and_guard_time(cluster):
    mems = part_of(cluster, technology="mems")
    assert (mems.guard_ps, mems.latency_ps) == (10**9, 2_000_000)
    assert names(mems) == list(METHODS)
    assert names(part_of(cluster)) == names(part_of(cluster, guard_s="1 us")) == QUICK
    assert names(part_of(cluster, technology="mems", method="bvn")) == ["bvn"]
    assert part_of(cluster, guard_s="3 us", latency_s="5 us").guard_ps == 3_000_000
    assert part_of(cluster, latency_s="5 us").latency_ps == 5_000_000
    # three tiers of 8 ports
    assert part_of(cluster, crossbar_ports=8).latency_ps == 6_000_000


def test_the_time_to_decide_is_that_of_the_method_and_the_group(cluster, job):
    found = decisions(part_of(cluster, job(128, 8), method="bvn"))
    times = decision_times("bvn")
    assert found.tolist() == [round(times.time_s(count) * 1e12) for count in range(9)]
    each = part_of(cluster, job(128, 16)).methods
    measured = [round(decision_times(name).time_s(16) * 1e12) for name in QUICK]
    assert [int(times[-1]) for _, times in each] == measured
    # whoever else decides takes as long by any method
    for decision, time_ps in (("paper", 500_000_000), ("asic", 1_000_000)):
        found = part_of(cluster, job(128, 16), decision=decision).methods
        assert [int(times[-1]) for _, times in found] == [time_ps] * len(QUICK)
    given = decisions(part_of(cluster, job(128, 16), decision_s="7 us", method="auto"))
    assert np.unique(given).tolist() == [7_000_000]
    with pytest.raises(FabricError, match="up to 64 ports, not for 128: give a time, such as dec"):
        part_of(cluster, job(128, 128), decision="asic")


def test_slots_that_are_over_before_data_arrives_are_refused(cluster):
    assert part_of(cluster, slot_s="50 us").slot_ps == 50_000_000
    with pytest.raises(FabricError, match="slot_s = 4 us is over before data arrives: expected mo"):
        part_of(cluster, slot_s="4 us")
    with pytest.raises(FabricError, match="held is for slots as long as what they carry"):
        Chronos(slot_s="50 us", held=True)
    with pytest.raises(FabricError, match="kept is for slots as long as what they carry"):
        Chronos(slot_s="50 us", kept="ahead")


def test_circuits_that_are_kept_are_held(cluster):
    for kept, is_held in (("no", False), ("needed", True), ("ahead", True)):
        part = part_of(cluster, kept=kept)
        assert (part.kept, part.held) == (kept, is_held)
    assert part_of(cluster, held=True).kept == "no"
    assert Chronos(held=False, kept="no").kept == "no"
    for kept in ("needed", "ahead"):
        with pytest.raises(FabricError) as refusal:
            Chronos(held=False, kept=kept)
        assert str(refusal.value) == (
            f"chronos: held = off: kept = {kept} holds circuits of rings as well: expected held ="
            " on, or kept = no"
        )


def test_a_step_is_never_shorter_where_ports_turn_more_often():
    """A pipeline and gradients of a dense model: less is lost the longer circuits are kept."""
    scenario = Scenario(
        model="llama-3-8b",
        gpus=32,
        cluster={"gpu": "h100", "rate_gbps": 400},
        plan={"tp": 8, "pp": 2, "micro_batches": 8},
        fabrics=("chronos",),
        seeds=1,
        compute_spread=0.0,
        policies=False,
        imbalances=False,
    )
    steps = []
    for guard_s, kept in ((0.0, "no"), (0.01, "ahead"), (0.01, "needed"), (0.01, "no")):
        options = {"chronos": {"held": True, "kept": kept, "guard_s": guard_s}}
        found = compare(scenario.model_copy(update={"fabric_options": options}))
        steps.append(found.results[0].step_time_s)
    assert steps == sorted(steps)
    assert steps[-1] > 1.1 * steps[-2]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"technology": "optical"}, "technology = optical|crossbar technology 'optical'"),
        ({"method": "previous"}, "method"),
        ({"decision": "guess"}, "decision"),
        ({"failed": "eps:0/1"}, "there are no EPS NICs"),
        ({"failed": "server:3"}, "1 servers, and 0 spare ones: expected spare_servers = 1"),
        ({"failed": "rail:3"}, "expected of server:3"),
        ({"straggler_s": -1}, "straggler_s"),
        ({"spare_planes": -1}, "spare_planes"),
        ({"kept": "always"}, "kept"),
    ],
)
def test_wrong_options_are_one_line(options, text):
    with pytest.raises(FabricError, match=text) as error:
        Chronos(**options)
    assert "\n" not in str(error.value)


def test_stragglers_are_a_mean_and_a_seed(cluster):
    assert part_of(cluster, straggler_s="20 us", straggler_seed=5).lateness == (20_000_000, 5)


def test_what_fails_is_replaced_while_there_are_spare_parts(cluster):
    assert part_of(cluster, failed="nic:3/1").failed == ((3, 1),)
    lost = part_of(cluster, failed="plane:2").failed
    assert lost == tuple((server, 2) for server in range(128))
    assert part_of(cluster, failed="plane:2", spare_planes=1).failed == ()
    both = part_of(cluster, failed="plane:2,plane:5", spare_planes=1).failed
    assert both == tuple((server, 5) for server in range(128))
    # the NIC of a server that is replaced does not matter
    assert part_of(cluster, failed="server:3,nic:3/1", spare_servers=1).failed == ()
    more = Chronos(failed=("nic:1/1",)).without(Failures(nics=[(0, 0)]))
    assert (more.failed, more.name) == (("nic:1/1", "nic:0/0"), "chronos")
    for missing in ("nic:128/0", "nic:0/8", "plane:8"):
        with pytest.raises(FabricError, match="expected parts of 128 servers and 8 planes"):
            part_of(cluster, failed=missing)


def counts(cluster, **options):
    return {
        line.component: line.count for line in Chronos(**options).bill_of_materials(cluster).lines
    }


def test_parts_by_hand(cluster):
    # 1,024 NICs; two tiers of 64 ports for 128 servers: a link at the NIC and one above it
    electronic = counts(cluster)
    assert electronic == {"nic": 1024, "crossbar_port": 3072, "transceiver": 4096, "fiber": 2048}
    # one MEMS switch of 320 ports for each plane: light passes
    assert counts(cluster, technology="mems") == {
        "nic": 1024,
        "ocs_port": 1024,
        "transceiver": 1024,
        "fiber": 1024,
    }
    folded = counts(cluster, technology="mems", crossbar_ports=64)
    assert (folded["long_reach_transceiver"], folded["ocs_port"]) == (1024, 3072)
    lasers = counts(cluster, technology="tunable-laser", crossbar_ports=128)
    assert (lasers["tunable_transceiver"], lasers["patch_port"]) == (1024, 1024)
    twice = Chronos(technology="mems").bill_of_materials(cluster, Counting(ocs_ports_per_nic=2))
    assert twice.count("ocs_port") == 2048


def test_a_plane_needs_the_ports_of_a_rail(cluster):
    """128 servers in planes of crossbars, or 32 of them under 8 ToRs of 64 ports and spines."""
    rails, own = Rail().bill_of_materials(cluster), Chronos().bill_of_materials(cluster)
    assert own.count("crossbar_port") == rails.count("eps_port") == 3 * 1024
    assert own.conventions["tiers of crossbars"] == "2 (as simulated)"
    assert own.conventions["tiers of packet switches"] == "none"


def test_spare_parts_are_charged(cluster):
    plain, spare = counts(cluster), counts(cluster, spare_planes=1)
    assert spare["crossbar_port"] == plain["crossbar_port"] * 9 // 8
    assert spare["switch_1x2"] == 1024
    servers = counts(cluster, spare_servers=2)
    assert (servers["nic"], servers["crossbar_port"]) == (1040, 3120)


def test_half_of_the_power_of_packet_switches_is_assumed(cluster):
    power = PartsCostModel().power(Chronos().bill_of_materials(cluster), load_power())
    assert power.by_component_w["crossbar_port"] == 3072 * 6
    cost = PartsCostModel().capital_cost(Chronos().bill_of_materials(cluster), load_prices())
    assert cost.by_component_usd["crossbar_port"] == 3072 * 1090
    found = load_power().provenance()["links.400.crossbar_port_w"]
    assert found.assumed


def test_it_is_known_by_its_kind():
    assert load_fabric("chronos", {"technology": "mems"}).parameters()["technology"] == "mems"
