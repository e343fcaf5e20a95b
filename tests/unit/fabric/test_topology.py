"""Topology files: trees against the built-in fabrics, graphs by hand, bills, wrong input."""

import dataclasses

import numpy as np
import pytest
from tests.simulate_graphs import Steps, graph

from lightloom.cost import PartsCostModel
from lightloom.errors import FabricError
from lightloom.fabric import Cluster, Counting, FatTree, MixNet, Rail, load_fabric
from lightloom.fabric.alone import network_alone
from lightloom.fabric.context import FabricContext
from lightloom.fabric.infragraph import infragraph_of
from lightloom.fabric.network import Ocs, SwitchGraph
from lightloom.fabric.topology import Topology
from lightloom.fabric.topology_graph import joined_pairs, topology_graph
from lightloom.fabric.topology_options import LinkRule, SwitchTier
from lightloom.hardware import load_power, load_prices
from lightloom.output.topology_file import topology_toml
from lightloom.samples import SAMPLES, read_sample
from lightloom.schedule import Failures
from lightloom.simulate import Packets, record_decisions, simulate
from lightloom.workload import Block
from lightloom.workload.task_graph import Layout

LEAF_SPINE = """
kind = "topology"
[switches.leaf]
servers = 4
ports = 64
[switches.spine]
count = 32
ports = 64
[[links]]
ends = ["servers", "leaf"]
count = 8
[[links]]
ends = ["leaf", "spine"]
"""
RAILS = """
kind = "topology"
[switches.leaf]
count = 8
servers = 4
[switches.spine]
count = 4
[[links]]
ends = ["servers", "leaf"]
[[links]]
ends = ["leaf", "spine"]
"""


def cluster_of(servers, rate_gbps=400):
    return Cluster.of(gpus=8 * servers, rate_gbps=rate_gbps, gpu="a100", gpus_per_server=8)


@pytest.fixture
def topology(tmp_path):
    def load(text):
        path = tmp_path / "my.toml"
        path.write_text(text)
        return load_fabric(path)

    return load


def all_to_all(servers, scale):
    rng = np.random.default_rng(3)
    tokens = rng.integers(0, scale, (1, servers, servers))
    tokens[0, range(servers), range(servers)] = 0
    return graph([Steps().all_to_all(first=True)], members=servers, tokens=tokens)


@pytest.mark.parametrize(
    ("text", "built_in"),
    [
        (LEAF_SPINE, FatTree(switch_ports=64, servers_per_tor=4)),
        (RAILS, Rail(switch_ports=64, servers_per_tor=4)),
    ],
)
@pytest.mark.parametrize("servers", [8, 16])
def test_a_tree_as_a_file_is_the_built_in_fabric(topology, text, built_in, servers):
    cluster = cluster_of(servers)
    mine, theirs = topology(text).network(cluster), built_in.network(cluster)
    job = all_to_all(servers, 50_000_000)
    as_file, as_tree = simulate(job, mine), simulate(job, theirs)
    assert as_file.step_time_s == as_tree.step_time_s
    assert as_file.purpose_bytes == as_tree.purpose_bytes
    packets = Packets(transport="ideal", full=True)
    job = all_to_all(servers, 200_000)
    as_file, as_tree = (simulate(job, net, network_model=packets) for net in (mine, theirs))
    assert (as_file.step_time_s, as_file.packet_hops) == (as_tree.step_time_s, as_tree.packet_hops)


def test_a_tree_as_a_file_costs_what_the_built_in_fabric_does(topology):
    cluster = cluster_of(16)
    for counting in (Counting(), Counting(host_links="dac"), Counting(include_nics=False)):
        mine = topology(LEAF_SPINE).bill_of_materials(cluster, counting)
        theirs = FatTree(switch_ports=64).bill_of_materials(cluster, counting)
        assert mine.lines == theirs.lines
    assert sum(box.used for box in mine.switches) == theirs.switches[0].used


def pairs(switches, **rule):
    tiers = {name: SwitchTier(**tier) for name, tier in switches.items()}
    return joined_pairs(LinkRule(**rule), 4, tiers).tolist()


def test_which_switches_a_rule_joins():
    leaf, two = {"servers": 1}, {"count": 2, "servers": 2}
    # four leaves, and a pod of two switches for every two servers
    assert pairs({"leaf": leaf, "agg": two}, ends=("leaf", "agg")) == [
        *[[0, 0], [0, 1], [1, 0], [1, 1]],
        *[[2, 2], [2, 3], [3, 2], [3, 3]],
    ]
    # rails: those in the same place of the two sets share half of the spines
    rails = {"leaf": two, "spine": {"count": 4}}
    assert pairs(rails, ends=("leaf", "spine"), join="position") == [
        *[[0, 0], [0, 1], [1, 2], [1, 3]],
        *[[2, 0], [2, 1], [3, 2], [3, 3]],
    ]
    # a mesh of those of a set, of those in the same place, and of all four
    for join, expected in (("shared", [[0, 1], [2, 3]]), ("position", [[0, 2], [1, 3]])):
        assert pairs({"leaf": two}, ends=("leaf", "leaf"), join=join) == expected
    assert len(pairs({"leaf": two}, ends=("leaf", "leaf"), join="all")) == 6
    # a set that is filled in part, and sets that overlap
    uneven = {"a": {"servers": 3}, "b": {"servers": 2}}
    assert pairs(uneven, ends=("a", "b")) == [[0, 0], [0, 1], [1, 1]]
    assert pairs(uneven, ends=("servers", "a")) == [[0, 0], [1, 0], [2, 0], [3, 1]]


def test_sets_grow_with_the_cluster(topology):
    for servers, leaves in ((4, 1), (5, 2), (16, 4)):
        bill = topology(LEAF_SPINE).bill_of_materials(cluster_of(servers))
        assert bill.switches[0].count == leaves


def test_nics_of_several_links_are_on_all_planes():
    text = read_sample("eight-planes").decode()
    eight = load_text(text)
    cluster = eight.adapt(cluster_of(32))
    assert (cluster.rate_gbps, cluster.nics_per_server) == (800, 8)
    part = eight.network(cluster_of(32)).part(SwitchGraph)
    ports = np.asarray(part.switch_of_port).reshape(32, 8, 8)
    first_plane = part.switches // 8
    # link i of every NIC is on plane i
    assert (ports // first_plane == np.arange(8)).all()
    # as with the measured share of a NIC's rate, to whole bits
    assert part.port_rate_bps == cluster.effective_nic_bps(100)
    assert part.reached == 1.0
    whole = eight.bill_of_materials(Cluster.of(gpus=131_072, rate_gbps=400, gpu="a100"))
    assert [(box.count, box.used) for box in whole.switches] == [
        (4096, 4096 * 64),
        (2048, 2048 * 64),
    ]


def load_text(text):
    import tomllib

    options = tomllib.loads(text)
    del options["kind"]
    return Topology(**options)


def test_optics_in_the_package_change_price_and_power():
    cluster = cluster_of(128)
    bills = [
        load_text(read_sample(name).decode()).bill_of_materials(cluster)
        for name in ("eight-planes", "eight-planes-cpo")
    ]
    model = PartsCostModel()
    prices, powers = load_prices(), load_power()
    usd = [model.capital_cost(bill, prices).total_usd for bill in bills]
    watts = [model.power(bill, powers).total_w for bill in bills]
    assert usd[0] == usd[1]
    # 1,024 ends at leaves, 2,048 between switches: 15 W of a module become 4.5 W
    assert watts[0] - watts[1] == pytest.approx(3072 * (15 - 4.5))
    assert bills[1].count("co_packaged") == 3072
    listed = load_text(read_sample("eight-planes-cpo").decode()).replace(prices_usd={})
    # the price list has the pluggable module's price for it
    assert model.capital_cost(listed.bill_of_materials(cluster), prices).total_usd == usd[0]


FABRIC_FILES = list(SAMPLES)[list(SAMPLES).index("leaf-spine") :]


@pytest.mark.parametrize("name", FABRIC_FILES)
def test_every_sample_of_a_fabric_is_priced_and_joins_servers(name, tmp_path):
    path = tmp_path / SAMPLES[name].file
    path.write_bytes(read_sample(name))
    fabric = load_fabric(path)
    cluster = Cluster.of(gpus=2048, rate_gbps=800, gpu="h100")
    assert fabric.name == path.stem
    assert PartsCostModel().capital_cost(fabric.bill_of_materials(cluster), load_prices())
    if isinstance(fabric, Topology):
        assert network_alone(fabric, cluster).parts


def test_what_is_written_is_read_again(tmp_path):
    for name in ("leaf-spine", "eight-planes-cpo", "scale-up-576-cpo", "circuit-rack"):
        fabric = load_text(read_sample(name).decode()).replace(label='a "b" c', servers=4)
        path = tmp_path / "again.toml"
        path.write_text(topology_toml(fabric))
        assert load_fabric(path) == fabric


def test_equal_files_are_equal_and_serve_as_keys(topology):
    first, second = topology(LEAF_SPINE), topology(LEAF_SPINE)
    first.network(cluster_of(4))
    assert len({first, second, first.replace(planes=2)}) == 2


def test_a_rate_of_links_is_that_of_nics(topology):
    text = LEAF_SPINE.replace('"leaf"]\ncount = 8', '"leaf"]\ncount = 8\nrate_gbps = 200')
    fabric = topology(text)
    assert fabric.adapt(cluster_of(4)).rate_gbps == 200
    assert fabric.adapt(fabric.adapt(cluster_of(4))) == fabric.adapt(cluster_of(4))
    assert fabric.effective(cluster_of(4), fabric.network(cluster_of(4)))["rate_gbps"] == 200


SWITCHES = "[switches.leaf]\nservers = 4\n[switches.spine]\ncount = 2\n"
SERVERS = '[[links]]\nends = ["servers", "leaf"]\ncount = 8\n'
UP = '[[links]]\nends = ["leaf", "spine"]\ncount = 4\n'
WHOLE = f'kind = "topology"\n{SWITCHES}{SERVERS}{UP}'
WRONG = [
    (WHOLE.replace('"leaf", "spine"', '"leef", "spine"'),
     "links.1.ends: unknown switch 'leef'; did you mean 'leaf'?; known: servers, leaf, spine"),
    (WHOLE.replace(UP, ""), "links: none leads to spine 0"),
    (WHOLE.replace(UP, "").replace("[switches.spine]\ncount = 2\n", ""),
     "links: servers 0 and 4 are not joined: no links lead from the switches of one to those of"
     " the other"),
    (WHOLE.replace(SERVERS, ""), "links: server 0 has none: expected servers as an end of some"),
    (WHOLE + '[[links]]\nends = ["spine", "spine"]\npairs = [[1, 1]]\n',
     "links.2.pairs: spine 1 to itself is a loop: expected two switches"),
    (WHOLE + '[[links]]\nends = ["spine", "spine"]\npairs = [[0, 2]]\n',
     "links.2.pairs: spine 2: there are 2, from 0 on"),
    (WHOLE.replace("count = 4\n", "count = 4\nrate_gbps = -1\n"),
     "links.1.rate_gbps = -1.0: expected more than 0"),
    (WHOLE.replace("count = 4\n", "count = 4000\n"),
     "links.1.count = 4000: expected at most 1,024"),
    (WHOLE + UP, "links.1 and links.2: leaf and spine are joined twice by links of one rate; raise"
     " count instead"),
    (WHOLE.replace('"leaf", "spine"', '"servers", "servers"'),
     "links.1.ends: servers and servers: expected a switch at one end"),
    (WHOLE.replace('["leaf", "spine"]', '["leaf"]'),
     'links.1.ends = [\'leaf\']: expected two names, such as ["servers", "leaf"]'),
    (WHOLE + '[[links]]\nends = ["leaf", "leaf"]\n',
     "links.2: joins nothing: no two leaf have servers in common; say join or pairs"),
    (WHOLE.replace("servers = 4", "servers = 4\ncount = 3").replace(
        '"leaf", "spine"]', '"leaf", "spine"]\njoin = "position"'),
     "links.1: 2 spine cannot be divided evenly among 3 positions of leaf"),
    (WHOLE.replace("count = 2", "count = 999_999\n"),
     "links.1: 7,999,992 links: expected at most 4,194,304"),
    (WHOLE.replace("count = 8", "count = 12"),
     "a server has 12 links for 8 NICs: expected as many for each; set nics_per_server, such as"
     " 12"),
    (WHOLE.replace("count = 4\n", 'count = 4\noptic = "dac"\n'),
     "unknown key 'links.1.optic'; did you mean 'optics'?"),
    (WHOLE + "[prices_usd]\nspoon = 1\n", "prices_usd = {'spoon': 1}: unknown part 'spoon'"),
    (f"servers = 4\n{WHOLE}", "describes 4 servers, the cluster has 8"),
    ('kind = "topology"\n' + SWITCHES, "links is missing; add it"),
    (WHOLE.replace("[switches.spine]", "[switches.leaf]"), "Cannot declare"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_wrong_files_are_refused_in_one_line(topology, text, message):
    with pytest.raises(FabricError) as refusal:
        topology(text).network(cluster_of(8))
    said = str(refusal.value)
    assert message in said
    assert said.startswith(("my: ", str(refusal.value).split(":")[0]))
    assert "\n" not in said


def test_servers_with_other_links_are_refused():
    tiers = {"leaf": SwitchTier()}
    rule = LinkRule(ends=("servers", "leaf"), pairs=[[0, 0], [1, 0]])
    message = "links: server 2 has none"
    with pytest.raises(FabricError, match=message):
        topology_graph(3, 1, tiers, [rule])
    uneven = [rule, LinkRule(ends=("servers", "leaf"), pairs=[[0, 0]], rate_gbps=1)]
    with pytest.raises(FabricError, match="server 1 has 1, server 0 has 2: expected equally many"):
        topology_graph(2, 1, tiers, uneven)


def test_more_links_than_ports_are_refused_when_it_is_priced(topology):
    fabric = topology(LEAF_SPINE.replace("servers = 4\nports = 64", "servers = 4\nports = 32"))
    message = "my: leaf 0 needs 64 ports of 400 Gb/s, a switch has 32; set switches.leaf.ports"
    with pytest.raises(FabricError, match=message):
        fabric.bill_of_materials(cluster_of(8))


def test_a_job_of_the_first_servers_uses_these_alone():
    listed = LinkRule(ends=("servers", "leaf"), pairs=[[server, 0] for server in range(9)])
    built = topology_graph(4, 1, {"leaf": SwitchTier()}, [listed])
    assert built.server_links.shape == (4, 1)


def test_the_core_refuses_what_python_does_not_see():
    network = load_text(read_sample("leaf-spine").decode()).network(cluster_of(8))
    part = network.part(SwitchGraph)
    bundles = part.bundles.copy()
    bundles[0, 0] = 99
    wrong = dataclasses.replace(network, parts=(dataclasses.replace(part, bundles=bundles),))
    with pytest.raises(FabricError, match="switches: 99 - "):
        simulate(all_to_all(8, 100), wrong)


CIRCUITS = """
kind = "topology"
[switches.leaf]
ports = 32
[[links]]
ends = ["servers", "leaf"]
count = 2
[circuits]
ports = 6
"""
OPTIONS = [
    {"when": "always", "fixed_s": "1 ms", "link_up_s": 0.0},
    {"when": "always", "fixed_s": 0.0, "link_up_s": 0.0, "relay": True, "planes": "duplex"},
    {"when": "break-even", "fixed_s": "10 us", "link_up_s": 0.0, "split": False},
]


PACKETS = Packets(transport="ideal", full=True)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    ("failed", "packets"),
    [
        ((), None),
        ((), PACKETS),
        (("nic:0/1", "nic:3/5"), None),
        (("nic:0/1", "nic:3/5"), PACKETS),
        (("eps:2/0", "nic:1/0", "nic:1/1"), None),
        (("plane:2",), None),
    ],
)
def test_circuits_beside_one_switch_are_those_of_mixnet(topology, options, failed, packets):
    """As flows and as packets, decision by decision, and part by part of the bill."""
    if any(part.startswith("plane") for part in failed):
        options = {**options, "planes": "duplex"}
    cluster = cluster_of(6)
    given = {"ports": 6, **options}
    ours = topology(CIRCUITS).replace(circuits=given, failed=failed)
    mixnet = MixNet(switch_ports=32, failed=failed, **given)
    rng = np.random.default_rng(3)
    steps = Steps()
    steps.compute(1e-3)
    for block in range(3):
        steps.add("all_to_all", 0, Block(0, block, 40, False, block == 0), "ep", layer=block)
    most = 1e6 if packets is None else 1e3
    tokens = (most * rng.random((3, 6, 6)) ** 6).astype(np.uint32)
    made = graph([steps], members=6, tokens=tokens, gpus_per_worker=8)
    context = FabricContext(made.layout)
    networks = [fabric.network(cluster, context) for fabric in (ours, mixnet)]
    if packets is None:
        runs = [record_decisions(made, network) for network in networks]
        assert runs[0].decisions.records == runs[1].decisions.records
        assert runs[0].circuits == runs[1].circuits
        assert runs[0].circuits.decisions
    else:
        runs = [simulate(made, network, network_model=packets) for network in networks]
    assert runs[0].step_time_s == runs[1].step_time_s
    assert runs[0].carried_bytes == runs[1].carried_bytes
    assert runs[0].carried_bytes["ocs"] > 0
    bills = [
        fabric.bill_of_materials(cluster, network=network)
        for fabric, network in zip((ours, mixnet), networks, strict=True)
    ]
    model, prices = PartsCostModel(), load_prices()
    usd = [model.capital_cost(bill, prices).total_usd for bill in bills]
    assert usd[0] == pytest.approx(usd[1])
    assert [bill.count("ocs_port") for bill in bills] == [36, 36]
    assert bills[0].switches[-1] == bills[1].switches[-1]


def test_what_of_circuits_is_left_open_is_tried(topology):
    rack, cluster = topology(CIRCUITS), cluster_of(8)
    layout = Layout.grid(
        stages=1,
        replicas=1,
        members=8,
        gpus_per_worker=8,
        worker_server=np.arange(8, dtype=np.uint32),
    )
    context = FabricContext(layout)
    found = rack.candidates(cluster, context)
    splits = {str(name): fabric.circuits.split for name, fabric in found.items()}
    assert splits == {"split=on": True, "split=off": False}
    assert not rack.replace(circuits={"ports": 6, "split": True}).candidates(cluster, context)
    follows = rack.reconfiguration()
    assert follows.when == "break-even"
    assert follows.other_policies["always"].circuits.when == "always"
    assert follows.other_policies["always"].circuits.ports == 6
    assert follows.link_up.other.circuits.link_up_s == 0
    assert topology(LEAF_SPINE).reconfiguration() is None
    network = rack.network(cluster, context)
    shown = rack.effective(cluster, network)["circuits"]
    assert (shown["split"], shown["region_servers"], shown["fixed_s"]) == (True, 8, 0.025)
    assert rack.without(Failures(nics=[(0, 1)])).failed == ("nic:0/1",)
    assert rack.replace(failed=["eps:3/1"]).without(Failures(servers=[2])).failed == (
        "eps:3/1",
        "server:2",
    )


def _alone(rack, servers):
    """The network of a job of one EP group on so many servers."""
    layout = Layout.grid(
        stages=1,
        replicas=1,
        members=servers,
        gpus_per_worker=8,
        worker_server=np.arange(servers, dtype=np.uint32),
    )
    return rack.network(cluster_of(servers), FabricContext(layout))


def test_a_failed_server_has_circuits_only_where_a_spare_one_has(topology):
    failed = topology(CIRCUITS).replace(failed=["server:1"])
    assert _alone(failed, 4).part(Ocs).failures == Failures(servers=[1])
    spared = failed.replace(circuits={"ports": 6, "spare_servers": 1})
    assert _alone(spared, 4).part(Ocs).failures == Failures()
    two = spared.replace(failed=["server:1", "server:2"])
    assert _alone(two, 4).part(Ocs).failures == Failures(servers=[2])
    assert "failed, and not used: server 1" in _alone(spared, 4).notes


def test_spare_servers_are_charged_as_those_of_mixnet(topology):
    given = {"ports": 6, "spare_servers": 2}
    fabrics = topology(CIRCUITS).replace(circuits=given), MixNet(switch_ports=32, **given)
    bills = [f.bill_of_materials(cluster_of(6), network=_alone(f, 6)) for f in fabrics]
    for part in ("nic", "eps_port", "ocs_port", "transceiver", "fiber"):
        assert bills[0].count(part) == bills[1].count(part), part
    assert bills[0].count("nic") == 8 * (6 + 2)
    assert bills[0].conventions["spare"] == "NICs and ports of 2 servers"
    few = topology(f"servers = 6\n{CIRCUITS}").replace(circuits=given)
    with pytest.raises(FabricError, match=r"circuits.spare_servers = 2: describes 6 servers"):
        few.bill_of_materials(cluster_of(6))
    # regions that no switch has together: each of two switches has as many as the file says
    many = topology(f"servers = 12\n{CIRCUITS}").replace(circuits=given | {"spare_servers": 90})
    with pytest.raises(FabricError, match=r"circuits.spare_servers = 90: describes 12 servers"):
        many.bill_of_materials(cluster_of(12))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("ports = 6", "ports = 8", "ports = 8: a server has 8 NICs and one at least must stay"),
        ("ports = 6", "ports = 5", "a server has 2 links for 3 NICs beside those of circuits"),
        ("ports = 6", "port = 6", "unknown key 'circuits.port'; did you mean 'ports'?"),
        ("ports = 6", 'when = "allways"', "circuits.when = allways: expected one of never, always"),
        ("ports = 6", "ports = 6\nrelay = true\nsplit = false", "relay = true divides the bytes"),
        (
            "[switches",
            'failed = ["nick:0/1"]\n[switches',
            "failed 'nick:0/1': expected of server:3",
        ),
    ],
)
def test_circuits_that_cannot_be_are_one_line(topology, before, after, message):
    with pytest.raises(FabricError, match=message):
        topology(CIRCUITS.replace(before, after, 1)).adapt(cluster_of(4))


@pytest.mark.parametrize(
    ("failed", "message"),
    [
        ("nic:0/6", "failed: NIC 0/6: expected parts of 4 servers with 6 optical NICs"),
        ("nic:4/0", "failed: NIC 4/0: expected parts of 4 servers with 6 optical NICs"),
        ("eps:0/2", "expected parts of 4 servers with 2 NICs of 1 link beside those of circuits"),
        ("server:4", "failed: server 4: expected parts of 4 servers"),
        ("plane:0", "failed: plane 0: expected one of several planes, there is 1"),
        ("eps:1/0,eps:1/1", "all links of server 1 (2) have failed; lightloom control relays"),
    ],
)
def test_parts_that_no_region_can_lack_are_one_line(topology, failed, message):
    with pytest.raises(FabricError) as refusal:
        _alone(topology(CIRCUITS).replace(failed=failed), 4)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_planes_are_those_of_circuits_where_there_are_such(topology):
    text = CIRCUITS.replace("[switches", "planes = 2\n[switches", 1).replace(
        "count = 2", "count = 1"
    )
    both = topology(text).replace(circuits={"ports": 6, "planes": "duplex"}, failed=["plane:1"])
    assert _alone(both, 4).part(Ocs).failures == Failures(planes=[1])
    links = both.replace(circuits={"ports": 6})
    assert _alone(links, 4).part(Ocs).failures == Failures(eps_nics=[(s, 1) for s in range(4)])


def test_circuits_are_not_in_infragraph(topology):
    with pytest.raises(FabricError, match=r"InfraGraph cannot say circuits: write a \.toml"):
        infragraph_of(topology(CIRCUITS), cluster_of(4))
