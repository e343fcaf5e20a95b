"""InfraGraph: what topologies are written as, what is read of it, and what is refused."""

import copy
import json

import pytest
from tests.simulate_graphs import Steps, graph

from lightloom.errors import FabricError
from lightloom.fabric import Cluster, load_fabric
from lightloom.fabric.infragraph import infragraph_of, options_of_infragraph
from lightloom.fabric.topology import Topology
from lightloom.simulate import simulate

GBPS = {"rate_gbps": 400.0, "delay_s": 1e-6}
LEAF_SPINE = {
    "switches": {"leaf": {"servers": 2, "ports": 32}, "spine": {"count": 16, "ports": 64}},
    "links": [
        {"ends": ("servers", "leaf"), "count": 8, **GBPS},
        {"ends": ("leaf", "spine"), **GBPS},
    ],
}
RAILS = {
    "switches": {
        "leaf": {"count": 8, "servers": 4, "ports": 64},
        "spine": {"count": 8, "ports": 64},
    },
    "links": [
        {"ends": ("servers", "leaf"), **GBPS},
        {"ends": ("leaf", "spine"), "join": "position", "count": 4, **GBPS},
    ],
}
PODS = {
    "switches": {
        "leaf": {"servers": 2, "ports": 32},
        "agg": {"count": 4, "servers": 4, "ports": 32},
        "core": {"count": 8, "ports": 16},
    },
    "links": [
        {"ends": ("servers", "leaf"), "count": 8, **GBPS},
        {"ends": ("leaf", "agg"), "count": 4, **GBPS},
        {"ends": ("agg", "core"), "join": "position", "count": 4, **GBPS},
    ],
}
UNEVEN = {
    "switches": {"a": {"ports": 32}, "b": {"ports": 32}, "c": {"ports": 32}},
    "links": [
        {"ends": ("servers", "a"), "pairs": ((0, 0), (1, 0), (2, 0)), "count": 8, **GBPS},
        {"ends": ("servers", "b"), "pairs": ((3, 0), (4, 0), (5, 0), (6, 0), (7, 0)), "count": 8,
         **GBPS},
        {"ends": ("a", "c"), "count": 2, **GBPS},
        {"ends": ("b", "c"), "count": 3, "rate_gbps": 800.0, "delay_s": 2e-6},
    ],
}  # fmt: skip
CLUSTER = Cluster.of(gpus=64, rate_gbps=400, gpu="a100")
OWN = {"label": "mine", "servers": 8, "gpus_per_server": 8, "nics_per_server": 8}


@pytest.mark.parametrize("text", [LEAF_SPINE, RAILS, PODS, UNEVEN])
def test_what_both_can_say_is_the_same_after_a_round_trip(text, tmp_path):
    written = Topology(**text, **OWN)
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(infragraph_of(written, CLUSTER)))
    again = load_fabric(path)
    ports = {name: tier.ports for name, tier in again.switches.items()}
    if text is UNEVEN:
        # three servers of 8 links and more do not fit 32 ports: as many as are used
        assert ports == {"a": 32, "b": 43, "c": 32}
        again = again.replace(
            switches={n: {**t.model_dump(), "ports": 32} for n, t in again.switches.items()}
        )
    assert again == written


def test_planes_are_written_as_switches_of_their_own():
    planes = Topology(**LEAF_SPINE, planes=2, **OWN, rate_gbps=800)
    content = infragraph_of(planes, CLUSTER)
    names = [instance["name"] for instance in content["instances"]]
    assert names == ["servers", *(f"{n}-plane-{p}" for p in (0, 1) for n in ("leaf", "spine"))]
    again = Topology(**{k: v for k, v in options_of_infragraph(content, "x").items()
                        if k != "kind"})  # fmt: skip
    tokens = [[[0 if a == b else 1_000_000 * (1 + (a + b) % 3) for b in range(8)]
               for a in range(8)]]  # fmt: skip
    job = graph([Steps().all_to_all(first=True)], members=8, tokens=tokens)
    times = [simulate(job, fabric.network(CLUSTER)).step_time_s for fabric in (planes, again)]
    assert times[0] == pytest.approx(times[1], rel=1e-9)


def small():
    """Two servers of two NICs at one switch, as InfraGraph's examples are written."""
    port = {"name": "port", "count": 4, "choice": "port"}
    return {
        "name": "small",
        "devices": [
            {
                "name": "host",
                "components": [
                    {"name": "gpu", "count": 4, "choice": "xpu"},
                    {"name": "cx", "count": 2, "choice": "device"},
                ],
                "links": [],
                "edges": [],
            },
            {"name": "cx", "components": [{"name": "nic", "count": 1, "choice": "nic"}, port],
             "links": [], "edges": []},
            {"name": "box", "components": [port], "links": [], "edges": []},
        ],
        "links": [{"name": "eth", "physical": {"bandwidth": {"gigabytes_per_second": 50}}}],
        "instances": [
            {"name": "h", "device": "host", "count": 2},
            {"name": "leaf", "device": "box", "count": 1},
        ],
        "edges": [
            {"ep1": {"instance": "h[:]", "component": "cx.port[0]"},
             "ep2": {"instance": "leaf", "component": "port"}, "scheme": "one2one", "link": "eth"},
        ],
    }  # fmt: skip


def test_devices_within_devices_slices_and_bytes():
    options = options_of_infragraph(small(), "small.json")
    assert options == {
        "kind": "topology",
        "label": "small",
        "servers": 2,
        "gpus_per_server": 4,
        "nics_per_server": 2,
        "switches": {"leaf": {"ports": 4}},
        "links": [{"ends": ["servers", "leaf"], "count": 2, "rate_gbps": 400.0}],
    }


def changed(path, value):
    content = copy.deepcopy(small())
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return content


EDGE = ("edges", 0)
WRONG = [
    (changed(("edge",), []), "unknown key 'edge'; did you mean 'edges'?"),
    (changed((*EDGE, "link"), "ib"), "edges.0.link: no link 'ib'"),
    (changed((*EDGE, "scheme"), "ring"), "edges.0.scheme: ring: expected one2one or many2many"),
    (changed((*EDGE, "ep1", "instance"), "g[0]"), "edges.0.ep1: no instance 'g'"),
    (changed((*EDGE, "ep1", "instance"), "h[0:3]"), "edges.0.ep1: h[0:3]: there are 2"),
    (changed((*EDGE, "ep1", "instance"), "h[a]"),
     "edges.0.ep1: 'h[a]': expected a name and a slice, as in leaf[0:4]"),
    (changed((*EDGE, "ep1", "component"), "nic"), "edges.0.ep1: host has no component 'nic'"),
    (changed((*EDGE, "ep1", "component"), "gpu"),
     "edges.0.ep1: ends at an xpu: what joins GPUs without NICs is inside a server here"),
    (changed((*EDGE, "ep2"), {"instance": "h[1]", "component": "cx.port[1]"}),
     "edges.0: joins two servers: expected a switch at one end"),
    (changed(("instances", 1, "device"), "bix"), "instances: leaf: no device 'bix'"),
    (changed(("instances", 1, "name"), "h"), "instances: two of the name 'h'"),
    (changed(("links",), [{"name": "eth"}, {"name": "eth"}]), "links: two of the name 'eth'"),
    (changed(("instances",), [{"name": "leaf", "device": "box", "count": 1}]),
     "instances: none is of a device with an xpu: no servers"),
    (changed(("devices", 1, "components"), [{"name": "cx", "count": 1, "choice": "device"}]),
     "devices: cx is a part of itself"),
    (changed(("links", 0, "physical"), {"bandwidth": {"choice": "gigatransfers_per_second"}}),
     "links.eth: gigatransfers_per_second: expected one of gigabits_per_second,"
     " gigabytes_per_second"),
    ([], "expected an InfraGraph infrastructure, got []"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), WRONG)
def test_wrong_files_are_refused_in_one_line(content, message):
    with pytest.raises(FabricError) as refusal:
        options_of_infragraph(content, "small.json")
    assert str(refusal.value) == f"small.json: {message}"


def test_what_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "my.json"
    path.write_text("{")
    with pytest.raises(FabricError, match="not valid JSON"):
        load_fabric(path)
