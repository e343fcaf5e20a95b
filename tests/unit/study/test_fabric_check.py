"""The laws of a topology: kept by what the core does, broken by what it does not."""

import dataclasses

import pytest

from lightloom.errors import FabricError
from lightloom.fabric import Cluster, load_fabric
from lightloom.fabric.network import Ocs
from lightloom.fabric.topology import Topology
from lightloom.study import fabric_check
from lightloom.study.fabric_check import LAWS, check_fabric, laws_of, topology_of

RING = Topology(
    switches={"tor": {"servers": 1, "ports": 32}},
    links=[
        {"ends": ["servers", "tor"], "count": 8},
        {"ends": ["tor", "tor"], "pairs": [[0, 1], [1, 2], [2, 3], [0, 3]], "count": 4},
    ],
)
POD = Topology(
    switches={"tor": {"servers": 2}, "spine": {"count": 2}},
    links=[{"ends": ["servers", "tor"], "count": 8}, {"ends": ["tor", "spine"], "count": 3}],
)
RACK = POD.replace(
    switches={"tor": {}},
    links=[{"ends": ["servers", "tor"], "count": 6}],
    circuits={"ports": 2, "fixed_s": "25 ms", "link_up_s": 0},
)


def cluster_of(servers):
    return Cluster.of(gpus=8 * servers, rate_gbps=400, gpu="a100", gpus_per_server=8)


@pytest.mark.parametrize("topology", [RING, POD, POD.replace(failed="nic:1/2,server:0,eps:2/3")])
def test_laws_are_kept(topology):
    laws = check_fabric(topology, cluster_of(4), seed=1)
    assert [law.name for law in laws] == [name for name in LAWS if "circuit" not in name]
    assert not [law for law in laws if law.broken]
    alike = next(law for law in laws if "change places" in law.name)
    assert alike.tried == (0 if topology is RING else 0 if topology.failed else 2)
    assert {law.name: law.tried for law in laws if "part" in law.name} == {
        "parts that fail lose no bytes": 5,
        "nothing is shorter without a part, in the mean": 1,
    }


TWO_PLANES = Topology(
    planes=2,
    switches={"tor": {"servers": 2}, "spine": {"count": 2}},
    links=[{"ends": ["servers", "tor"], "count": 4}, {"ends": ["tor", "spine"], "count": 3}],
)


def _nics(server, numbers):
    return [f"nic:{server}/{number}" for number in numbers]


def test_links_that_are_left_lead_to_the_plane_of_the_other():
    """NICs 0 to 3 are on the first plane: no NIC works at both servers, but two of each plane."""
    failed = [*_nics(0, range(0, 8, 2)), *_nics(1, range(1, 8, 2))]
    laws = check_fabric(TWO_PLANES.replace(failed=failed), cluster_of(4), seed=1)
    assert not [law for law in laws if law.broken]


def test_servers_on_planes_apart_are_refused():
    failed = [*_nics(0, range(4, 8)), *_nics(1, range(4))]
    with pytest.raises(FabricError, match="none that works joins server 0 to server 1"):
        check_fabric(TWO_PLANES.replace(failed=failed), cluster_of(4), seed=1)


@pytest.mark.parametrize(
    "circuits",
    [
        {},
        {"when": "always", "allocator": "greedy", "split": False},
        {"when": "per-layer", "relay": True},
        {"when": "oracle", "planes": "crossed", "region_servers": 4, "link_up_s": "measured"},
        {"spare_servers": 1},
    ],
)
@pytest.mark.parametrize("failed", [(), ("nic:1/1", "eps:2/3", "server:3")])
def test_laws_are_kept_with_circuits(circuits, failed):
    options = RACK.circuits.model_dump(exclude_unset=True) | circuits
    rack = RACK.replace(circuits=options, failed=failed)
    laws = check_fabric(rack, cluster_of(6), seed=1)
    assert [law.name for law in laws] == list(laws_of(rack))
    assert not [law for law in laws if law.broken]
    assert laws[-1].name == "a controller decides on the circuits of a run"
    assert laws[-1].tried == (10 if "relay" in circuits else 30)
    assert not any("places" in law.name for law in laws)


@pytest.mark.parametrize(("links", "tried"), [((2,), 0), ((2, 3), 30)])
def test_a_controller_is_told_of_whole_nics_alone(links, tried):
    """NICs of two links each: what has lost one of them is none that a controller knows of."""
    doubled = [{"ends": ["servers", "tor"], "count": 12}]
    rack = RACK.replace(links=doubled, failed=[f"eps:3/{link}" for link in links])
    *_, law = check_fabric(rack, cluster_of(6), seed=1)
    assert law.name == "a controller decides on the circuits of a run"
    assert (law.broken, law.tried) == (None, tried)


def test_a_controller_that_decides_otherwise_is_said(monkeypatch):
    """A file of which the controller takes another rate than the simulation does."""
    real = Topology.circuit_region

    def bent(topology, cluster):
        region = real(topology, cluster)
        rules = dataclasses.replace(region.rules, circuit_gbps=region.rules.circuit_gbps / 9)
        return dataclasses.replace(region, rules=rules)

    monkeypatch.setattr(Topology, "circuit_region", bent)
    *_, law = check_fabric(RACK, cluster_of(6), seed=1)
    assert law.name == "a controller decides on the circuits of a run"
    assert "a run " in law.broken
    assert ", a controller " in law.broken


def test_what_breaks_a_law_is_said(monkeypatch):
    real = fabric_check.simulate

    def bent(graph, network, **options):
        run = real(graph, network, **options)
        return dataclasses.replace(run, step_time_s=run.step_time_s / 1e6)

    monkeypatch.setattr(fabric_check, "simulate", bent)
    laws = {law.name: law.broken for law in check_fabric(POD, cluster_of(4), seed=1)}
    assert "NICs need" in laws["nothing is faster than the NICs"]
    # times that are all as wrong keep the others
    assert laws["a pair takes as long one way as the other"] is None


@pytest.mark.parametrize(
    ("bent", "name", "says"),
    [
        ("bytes", "parts that fail lose no bytes", " bytes sent, ("),
        ("circuits", "no circuit ends at a part that has failed", "circuits end at (server, NIC) "),
        ("times", "nothing is shorter without a part, in the mean", " times as long"),
    ],
)
def test_what_breaks_a_law_of_failures_is_said(monkeypatch, bent, name, says):
    """A core that ignores what has failed, or carries less where something has."""
    real, decisions = fabric_check.simulate, fabric_check.record_decisions

    def lacks(network):
        failures = network.part(Ocs).failures
        return failures is not None and bool(failures.names)

    def less(graph, network, **options):
        run = real(graph, network, **options)
        if not lacks(network):
            return run
        if bent == "times":
            return dataclasses.replace(run, step_time_s=run.step_time_s / 2)
        links = [dataclasses.replace(use, carried_bytes=0) for use in run.links]
        return dataclasses.replace(run, links=tuple(links))

    def whole(graph, network):
        parts = [
            dataclasses.replace(part, failures=None) if isinstance(part, Ocs) else part
            for part in network.parts
        ]
        return decisions(graph, dataclasses.replace(network, parts=tuple(parts)))

    if bent == "circuits":
        monkeypatch.setattr(fabric_check, "record_decisions", whole)
    else:
        monkeypatch.setattr(fabric_check, "simulate", less)
    laws = {law.name: law.broken for law in check_fabric(RACK, cluster_of(6), seed=1)}
    assert says in laws[name]


def test_other_fabrics_and_one_server_are_refused():
    with pytest.raises(FabricError, match="fat-tree: expected a topology file, got fat-tree"):
        topology_of(load_fabric("fat-tree"))
    with pytest.raises(FabricError, match="one server: expected two or more"):
        check_fabric(RING.replace(links=RING.links[:1]), cluster_of(1), seed=1)


def test_circuits_need_two_servers():
    with pytest.raises(FabricError, match="regions of one server: expected two or more"):
        check_fabric(RACK.replace(circuits={"ports": 2, "ocs_ports": 3}), cluster_of(4), seed=1)


def test_it_can_be_stopped():
    with pytest.raises(KeyboardInterrupt):
        check_fabric(POD, cluster_of(4), seed=1, progress=lambda *_: False)
