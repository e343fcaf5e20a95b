"""Failures in a comparison: what each part is on each fabric, what it adds, what is refused."""

import functools

import pytest

import lightloom
from lightloom.errors import InputError
from lightloom.fabric import FABRICS
from lightloom.samples import read_sample
from lightloom.study.compare.failed_parts import (
    Failure,
    backup_circuits,
    failures_note,
    named_parts,
)
from lightloom.study.compare.lost_parts import UNKNOWN
from lightloom.study.compare.results import FailureResult
from lightloom.workload.backup_gpu import BackupTraffic

#: NICs of a server here
NICS = 8
#: how much longer a step may be, where only rounding and the order of events differ
NOISE = 1e-3
#: options of a comparison of one sample each
ONE_SAMPLE = {"seeds": 1, "policies": False, "imbalances": False, "compute_spread": 0.0}
OPTIONS = {
    "mixnet": {"link_up_s": 0.0},
    "oversub": {"servers_per_tor": 2},
    "rail": {"servers_per_tor": 4},
}


@functools.cache
def compared(fabrics, fail, **more):
    options = {name: OPTIONS.get(name, {}) | more.get(name, {}) for name in fabrics}
    return lightloom.compare(
        "mixtral-8x7b",
        gpus=64,
        rate=400,
        **ONE_SAMPLE,
        plan={"tp": 4, "pp": 2, "ep": 8, "micro_batches": 2},
        fabrics=list(fabrics),
        fabric_options=options,
        fail=list(fail),
    )


class Frozen(dict):
    """Options that a cached call can be known by."""

    def __hash__(self):
        return hash(tuple(sorted(self.items())))


ALONE = "a spare server on packet switches alone"
#: without racks of 64 GPUs, of which the job is one
ALL = tuple(kind for kind in FABRICS if kind not in ("nvl72", "mixnet-optical-io"))
PARTS = (
    *("nic:1/3", "server:1", "gpu:8", "tor:0", "ocs:0", "plane:0", "eps:0/1", "link:2/7"),
    "port:1/2",
)
#: those whose circuits follow what was measured, which may be better without a part by chance
BY_CHANCE = ("helios", "x-nest-plus")


@pytest.fixture(scope="module")
def found():
    return {result.fabric: result for result in compared(ALL, PARTS).results}


@pytest.mark.parametrize("fabric", ALL)
def test_every_part_has_an_answer_on_every_fabric(found, fabric):
    result = found[fabric]
    assert [one.part for one in result.failures] == list(PARTS)
    own = result.sample_step_times_s[0]
    for one in result.failures:
        assert one.response
        if one.step_time_s is None:
            assert one.longer_share is None
            continue
        assert one.longer_share == pytest.approx(one.step_time_s / own - 1)
        # nothing is faster without a part
        assert one.longer_share > (-0.05 if fabric in BY_CHANCE else -NOISE), one
        if one.is_unaffected:
            assert one.step_time_s == own
    assert any(note.startswith("failures: ") for note in result.notes)


def outcome(found, fabric, part):
    return next(one for one in found[fabric].failures if one.part == part)


@pytest.mark.parametrize(
    ("fabric", "part", "words"),
    [
        ("fat-tree", "nic:1/3", "7 of 8 NICs left"),
        ("mixnet", "nic:1/3", "5 of 6 circuits left"),
        ("mixnet", "link:2/7", "1 of 2 NICs on packet switches left"),
        ("topoopt", "nic:1/3", "7 of 8 circuits left"),
        ("chronos", "nic:1/3", "7 of 8 NICs of a worker left"),
        ("fat-tree", "server:1", "a spare server under another ToR"),
        ("mixnet", "server:1", f"{ALONE} (spare_servers = 1 joins one to the circuit switch)"),
        ("fat-tree", "gpu:8", "a spare server under another ToR"),
        ("fat-tree", "tor:0", "it joins all servers"),
        ("oversub", "tor:0", "2 spare servers under another ToR"),
        ("rail", "tor:0", "4 servers with 7 of 8 NICs left"),
        ("topoopt", "tor:0", "unaffected: it has no packet switch"),
        ("mixnet", "ocs:0", "2 regions, 8 servers with 0 of 6 circuits left"),
        ("fat-tree", "ocs:0", "unaffected: it has no circuit switch that could lose a region"),
        ("chronos", "plane:0", "7 of 8 planes left"),
        ("rail", "plane:0", "unaffected: it is one network, not planes"),
        ("mixnet", "eps:0/1", "1 of 2 NICs on packet switches left"),
        ("topoopt", "eps:0/1", "unaffected: its NICs are of one kind: name nic:2/1"),
        ("dual-plane", "tor:0", "8 servers with 1 of 2 planes left"),
        ("dual-plane", "plane:0", "1 of 2 planes left"),
        ("rotornet", "tor:0", "a spare rack in its place"),
        ("rotornet", "ocs:0", "3 of 4 circuit switches left"),
        (
            "rotornet",
            "port:1/2",
            "3 of 4 circuit switches left, so that all pairs keep a slot",
        ),
        ("opera", "ocs:0", "3 of 4 circuit switches left"),
        ("helios", "ocs:0", "5 of 6 circuit switches left"),
        ("helios", "port:1/2", "5 of 6 circuits of its rack left"),
        ("x-nest-plus", "port:1/2", "3 of 4 circuits of its rack left"),
        ("x-nest-plus", "server:1", "a spare server in its place"),
        ("fat-tree", "port:1/2", "unaffected: it has no circuit switch between racks"),
        ("torus", "nic:1/3", "23 of 24 circuits left"),
    ],
)
def test_what_is_left_without_a_part(found, fabric, part, words):
    assert outcome(found, fabric, part).response == words


def test_what_failures_cost_on_average(found):
    tree, mixnet = found["fat-tree"], found["mixnet"]
    gpus, servers = 64 * 0.1106 / 365.25, 8 * 0.1518 / 365.25
    for result in (tree, mixnet):
        assert outcome(found, result.fabric, "gpu:8").mean_out == pytest.approx(gpus)
        assert outcome(found, result.fabric, "server:1").mean_out == pytest.approx(servers)
    assert outcome(found, "fat-tree", "ocs:0").mean_out == 0
    assert outcome(found, "chronos", "plane:0").mean_out is None
    by_hand = sum(
        one.mean_out * (1 if one.longer_share is None else 1 - 1 / (1 + one.longer_share))
        for one in mixnet.failures
        if one.mean_out is not None
    )
    assert mixnet.lost_to_failures == pytest.approx(by_hand)
    # its only switch stops the job
    assert tree.lost_to_failures > 0


def test_a_dead_circuit_switch_costs_more_than_a_server_and_that_more_than_a_nic(found):
    nic, server, ocs = (
        outcome(found, "mixnet", part).step_time_s for part in ("nic:1/3", "server:1", "ocs:0")
    )
    assert found["mixnet"].sample_step_times_s[0] <= nic * (1 + NOISE)
    assert nic < server < ocs


def test_a_server_of_a_tree_has_a_hot_spare(found):
    assert outcome(found, "fat-tree", "server:1").longer_share == pytest.approx(0.0, abs=0.002)


@pytest.mark.parametrize("strategy", ["flat", "rail", "hierarchical"])
@pytest.mark.parametrize("part", ["nic:1/3", "plane:0"])
def test_a_nic_of_many_costs_at_most_its_share_of_communication(strategy, part):
    tree = Frozen(all_to_all=strategy, planes=1 if strategy == "flat" else NICS)
    (result,) = compared(("fat-tree",), (part,), **{"fat-tree": tree}).results
    (one,) = result.failures
    moved_s = sum(result.critical_path_s.get(name, 0.0) for name in ("ep", "dp", "pp"))
    own = result.sample_step_times_s[0]
    # a straggler of the critical path may have been hidden behind others
    limit_s = own + moved_s / (NICS - 1) + NOISE * own
    assert own * (1 - NOISE) <= one.step_time_s <= limit_s


def test_planes_of_circuit_switches_lose_a_circuit_each():
    mixnet = Frozen(planes="duplex")
    (result,) = compared(("mixnet",), ("ocs:5", "plane:5", "server:1"), mixnet=mixnet).results
    ocs, plane, server = result.failures
    assert ocs.response == "2 regions, 8 servers with 5 of 6 circuits left"
    assert plane.response == "5 of 6 planes left"
    # one switch of each plane has all regions
    assert ocs.step_time_s == pytest.approx(plane.step_time_s)
    assert ocs.step_time_s < server.step_time_s


def test_what_fails_in_flows_only_names_its_fabric_before_anything_runs(tmp_path):
    path = tmp_path / "rack.toml"
    path.write_bytes(b'failed = ["eps:1/3"]\n' + read_sample("circuit-rack.toml"))
    with pytest.raises(InputError, match=r"^rack: failed: NICs of packet switches fail in flows"):
        on_racks(path, network="packet")


def test_one_region_is_one(tmp_path):
    path = tmp_path / "rack.toml"
    path.write_bytes(read_sample("circuit-rack.toml"))
    (result,) = on_racks(path, fail=["ocs:0"]).results
    assert result.failures[0].response == "1 region, 4 servers with 0 of 2 circuits left"


def on_racks(path, **more):
    return lightloom.compare(
        "olmoe-1b-7b",
        gpus=32,
        rate=400,
        **ONE_SAMPLE,
        plan={"tp": 1, "pp": 1, "ep": 32, "micro_batches": 1},
        fabrics=[str(path)],
        **more,
    )


def test_a_spare_server_on_the_circuit_switch_keeps_the_step():
    mixnet = Frozen(spare_servers=1)
    spare, plain = (
        compared(("mixnet",), ("server:1",), **more).results[0] for more in ({"mixnet": mixnet}, {})
    )
    (one,) = spare.failures
    assert one.response == "a spare server on the same circuit switch"
    assert one.longer_share == pytest.approx(0.0, abs=0.002)
    assert plain.failures[0].longer_share > 0.005
    assert spare.network_cost_usd > plain.network_cost_usd


def test_a_spare_plane_replaces_one_of_crossbars():
    chronos = Frozen(spare_planes=1)
    (result,) = compared(("chronos",), ("plane:0",), chronos=chronos).results
    (one,) = result.failures
    assert one.response == "a spare plane"
    assert one.longer_share == pytest.approx(0.0, abs=NOISE)


def test_parts_are_named_by_server_or_by_their_index_among_all():
    (result,) = compared(("mixnet",), ("nic:11", "nic:1/3", "gpu:8", "gpu:1/0")).results
    one, same, gpu, same_gpu = (failure.step_time_s for failure in result.failures)
    assert one == same
    assert gpu == same_gpu


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("server:8", "fat-tree, mixnet have server:0 to server:7"),
        ("gpu:64", "fat-tree, mixnet have gpu:0/0 to gpu:7/7"),
        ("gpu:3/8", "fat-tree, mixnet have gpu:0/0 to gpu:7/7"),
        ("nic:64", "fat-tree, mixnet have nic:0/0 to nic:7/7"),
        ("link:0/8", "fat-tree, mixnet have link:0/0 to link:7/7"),
        ("eps:0/2", "mixnet has eps:0/0 to eps:7/1"),
        ("tor:1", "fat-tree, mixnet have tor:0"),
        ("ocs:1", "mixnet has ocs:0"),
        ("port:ocs/1/2", "the failure of a port is not simulated; expected of server:3"),
        ("port:ocs/3", "the failure of a port is not simulated; expected of server:3"),
        ("switch:ocs", "the failure of a switch is not simulated; expected of server:3"),
    ],
)
def test_a_part_that_no_fabric_has_is_refused_before_anything_runs(text, message):
    with pytest.raises(InputError) as refusal:
        compared(("fat-tree", "mixnet"), (text,))
    assert str(refusal.value).startswith(f"fail {text}: {message}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("fabric", "text", "message"),
    [
        ("oversub", "tor:9", "oversub has tor:0 to tor:3"),
        ("rotornet", "tor:8", "rotornet has tor:0 to tor:7"),
        ("rotornet", "ocs:4", "rotornet has ocs:0 to ocs:3"),
        ("helios", "port:6/0", "helios has port:0/0 to port:5/7"),
        ("dual-plane", "tor:2", "dual-plane has tor:0 to tor:1"),
        ("dual-plane", "plane:2", "dual-plane has plane:0 to plane:1"),
    ],
)
def test_switches_that_are_not_there_are_refused_before_a_step_is_built(
    monkeypatch, fabric, text, message
):
    monkeypatch.setattr("lightloom.study.compare.job.Job.samples", None)
    with pytest.raises(InputError) as refusal:
        compared((fabric,), (text,))
    assert str(refusal.value) == f"fail {text}: {message}"


def test_one_tor_of_a_plane_takes_as_much_as_the_plane_where_it_joins_all():
    (result,) = compared(("dual-plane",), ("tor:1", "plane:1", "nic:1/3")).results
    tor, plane, nic = result.failures
    assert tor.step_time_s == pytest.approx(plane.step_time_s, rel=0.01)
    assert nic.step_time_s < tor.step_time_s


def test_optical_ports_of_racks_are_circuits_that_are_lost():
    options = Frozen(gpus_per_server=16, nics_per_server=16, spare_gpus=0)
    (result,) = compared(
        ("mixnet-optical-io",), ("port:0/1", "nic:0/3", "gpu:3"), **{"mixnet-optical-io": options}
    ).results
    port, nic, gpu = result.failures
    assert port.response == "18 of 19 circuits of each GPU of the rack left"
    assert nic.response == "15 of 16 NICs left"
    assert gpu.response == "a spare GPU of its rack"
    assert port.longer_share > -NOISE
    assert gpu.longer_share == pytest.approx(0.0, abs=NOISE)


def test_a_part_that_another_fabric_has_is_skipped():
    tree, oversub = compared(("fat-tree", "oversub"), ("tor:3",)).results
    assert tree.failures[0].response == "unaffected: it has tor:0"
    assert not oversub.failures[0].is_unaffected


def test_what_failures_add_in_words():
    failures = [
        FailureResult("nic:3/0", "nic", "7 of 8 NICs left", 10.1, 0.01),
        FailureResult("tor:0", "tor", "it joins all servers", None, None),
        FailureResult(
            "ocs:0", "ocs", "unaffected: it has no circuit switch", 10.0, 0.0, is_unaffected=True
        ),
    ]
    assert failures_note(10.0, failures) == (
        "failures: 10 s with all parts, without nic:3/0 10.1 s (+1.0 %; 7 of 8 NICs left), without "
        "tor:0 the job stops (it joins all servers), without ocs:0 unaffected: it has no circuit "
        "switch"
    )
    assert failures_note(10.0, []) is None


def test_circuits_of_a_backup_balance_it_against_all_to_alls():
    def circuits(crossing, all_to_all, eps_gbps=2):
        return backup_circuits(BackupTraffic(crossing, all_to_all), 6, 10**9, eps_gbps * 10**9)

    # all for the backup but one, where there are no all-to-alls
    assert circuits(1000, 0) == 5
    # the EPS, where it is as fast as the circuits, or where all-to-alls need all of them
    assert circuits(1000, 0, eps_gbps=5) == 0
    assert circuits(1, 1000) == 0
    # 1000 / c + 1000 / (6 - c + 2) is least at c = 4
    assert circuits(1000, 1000) == 4


def of_file(name, tmp_path, fail, gpus=64):
    path = tmp_path / f"{name}.toml"
    path.write_bytes(read_sample(name))
    found = lightloom.compare(
        "mixtral-8x7b",
        gpus=gpus,
        rate=400,
        **ONE_SAMPLE,
        plan={"tp": 4, "pp": 2, "ep": 8, "micro_batches": 2},
        fabrics=["fat-tree", str(path)],
        fabric_options={"fat-tree": {"servers_per_tor": 4}},
        fail=fail,
    )
    return {
        result.fabric: {failure.part: failure for failure in result.failures}
        for result in found.results
    }


def test_parts_of_a_topology_file_fail_as_those_of_the_tree_that_it_is(tmp_path):
    parts = ["nic:1/3", "link:2/7", "server:1", "gpu:2/0", "tor:0", "plane:0"]
    found = of_file("leaf-spine", tmp_path, parts)
    tree, graph = found["fat-tree"], found["leaf-spine"]
    for part in ("nic:1/3", "link:2/7"):
        assert graph[part].response == tree[part].response == "7 of 8 NICs left"
        assert graph[part].longer_share == pytest.approx(tree[part].longer_share, abs=1e-3)
        assert graph[part].longer_share > 0
    assert graph["server:1"].longer_share == 0
    assert graph["gpu:2/0"].response == "a spare server in its place"
    # its servers have no other links, and where spare ones would be is not described
    assert graph["tor:0"].response == "nothing else joins 4 servers"
    assert graph["tor:0"].step_time_s is None
    assert graph["plane:0"].is_unaffected


def test_planes_and_leaves_of_a_topology_file_fail(tmp_path):
    found = of_file("eight-planes", tmp_path, ["plane:3", "tor:0", "nic:0/0"])["eight-planes"]
    assert found["plane:3"].response == "7 of 8 planes left"
    assert 0 < found["plane:3"].longer_share < 1 / 7
    assert found["tor:0"].response.endswith("links left")
    assert 0 <= found["tor:0"].longer_share <= found["plane:3"].longer_share + NOISE
    assert found["nic:0/0"].response == "7 of 8 NICs left"


def test_a_fabric_that_cannot_lack_parts_is_not_called_unaffected():
    unknown = Failure(named_parts(["nic:1/3"])[0], UNKNOWN, mean_out=0.1)
    result = unknown.result(2.0, {})
    assert result.response == "not simulated: what it is without parts is not known"
    # nothing is known of what such failures cost
    assert result.lost_share is None
    assert FailureResult.from_json(result.to_json()) == result
    absent = Failure(named_parts(["tor:0"])[0], "it has no packet switch", mean_out=0.1)
    assert absent.result(2.0, {}).lost_share == 0


RACK = """
kind = "topology"
[switches.leaf]
servers = 4
ports = 64
[switches.spine]
count = 2
[[links]]
ends = ["servers", "leaf"]
count = 2
[[links]]
ends = ["leaf", "spine"]
count = 4
[circuits]
ports = 6
link_up_s = 0
"""


def test_a_topology_with_circuits_fails_as_mixnet_does(tmp_path):
    """On a tree without a bottleneck, where spare servers are as near as those they replace."""
    path = tmp_path / "rack.toml"
    path.write_text(RACK)
    parts = ("nic:0/1", "nic:2/7", "eps:1/0", "gpu:1/1", "server:0", "tor:0", "ocs:0", "plane:0")
    rack, mixnet = compared((str(path), "mixnet"), parts).results
    ours, theirs = ({f.part: f for f in result.failures} for result in (rack, mixnet))
    for part in ("nic:0/1", "nic:2/7", "eps:1/0", "gpu:1/1", "server:0", "ocs:0"):
        assert ours[part].response == theirs[part].response
        assert ours[part].longer_share == pytest.approx(theirs[part].longer_share, abs=0.01)
    assert ours["nic:0/1"].longer_share > 0
    assert ours["server:0"].response.startswith(ALONE)
    # where spare servers would be is not described: those below have no other links
    assert ours["tor:0"].response == "nothing else joins 4 servers"
    assert "it is one network, not planes" in ours["plane:0"].response
    path.write_text(RACK + "spare_servers = 1\n")
    (spared,) = compared((str(path),), ("server:1", "nic:7/0")).results
    assert spared.failures[0].response == "a spare server on the same circuit switch"
    assert spared.failures[0].longer_share == 0
