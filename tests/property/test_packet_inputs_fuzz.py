"""Whatever a table of flows or a scenario holds: it is read, or one line says why not."""

import contextlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.errors import InputError, StuckError
from lightloom.inputs.formats import parse_toml
from lightloom.inputs.strict import check
from lightloom.packets import (
    TRANSPORTS,
    NetworkTable,
    PacketScenario,
    ScenarioFile,
    check_flows,
    flows_of,
    make_flows,
    profile_of,
    simulate_flows,
)
from lightloom.packets.flows import parse_flows
from lightloom.packets.goal import parse_goal
from lightloom.packets.operations import COLUMNS, parse_operations
from lightloom.packets.programs import programs_of
from lightloom.packets.settings import resolve, topology_of

HOSTS = 8
cells = st.one_of(
    st.integers(-2, HOSTS + 1).map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(str),
    st.text(max_size=4),
    st.sampled_from(["src", "dst", "bytes", "start_us", "flow", "fct_us", "", '"', "1_0", "0x1"]),
)
lines = st.lists(st.lists(cells, max_size=5).map(",".join), max_size=6)
heads = st.sampled_from(["src,dst,bytes,start_us\n", "dst;src;bytes\n", "src\tdst\tbytes\n", ""])


def good_or_one_line(read):
    line = "x"
    found = None
    try:
        found = read()
    except InputError as error:
        line = str(error)
    assert line
    assert "\n" not in line
    return found


@given(heads, st.one_of(lines.map("\n".join), st.text()))
def test_any_table(head, text):
    content = (head + text).encode(errors="replace")
    flows = good_or_one_line(lambda: parse_flows(content, "x"))
    if flows is not None:
        good_or_one_line(lambda: check_flows(flows, HOSTS))


@given(st.binary(max_size=80))
def test_any_bytes_as_a_table(content):
    good_or_one_line(lambda: parse_flows(content, "x"))


words = st.one_of(
    st.sampled_from(
        ["rank 0 {", "rank 1 {", "}", "{", "a: send 8b to 1", "recv 8b from 0", "b: calc 10",
         "a requires b", "b irequires a", "send 8b to 1 tag 3", "r: recv 8b from 1", "//", "/*"]
    ),
    st.text(max_size=12),
)  # fmt: skip


@given(st.integers(-1, 3), st.lists(words, max_size=10))
def test_any_text_as_programs(ranks, given_lines):
    text = f"num_ranks {ranks}\n" + "\n".join(given_lines)
    flows = good_or_one_line(lambda: parse_goal(text.encode(errors="replace"), "x"))
    if flows is not None:
        network = NetworkTable(hosts=2, rate_gbps=1.0, topology="star")
        run = simulate_flows(flows, PacketScenario(network=network, transport="roce", seed=1))
        assert not len(run.unfinished)
        assert run.operations is not None
        assert np.isfinite(run.operations.end_s).all()


own_cells = st.sampled_from(["", "0", "1", "send", "compute", "0 1", "2", "-1", "8.5", "1e9"])
own_rows = st.lists(st.one_of(own_cells, cells), max_size=10).map(",".join)


@given(st.lists(own_rows, max_size=6))
def test_any_cells_as_a_table_of_operations(given_rows):
    text = "\n".join([",".join(COLUMNS.known), *given_rows])
    flows = good_or_one_line(lambda: parse_operations(text.encode(errors="replace"), "x"))
    if flows is not None:
        good_or_one_line(lambda: check_flows(flows, HOSTS))


steps = st.lists(
    st.tuples(st.booleans(), st.integers(0, 3), st.integers(1, 3), st.sets(st.integers(0, 9))),
    min_size=1,
    max_size=10,
)


@given(steps)
def test_operations_begin_when_those_before_them_are_over(given_steps):
    rows, waits = [], []
    for number, (sends, rank, away, after) in enumerate(given_steps):
        earlier = sorted(other for other in after if other < number)
        waits.append(earlier)
        what = f"send,{(rank + away) % 4},{1000 * away},,,,"
        what = what if sends else f"compute,,,,,,{away}"
        rows.append(f"{rank},{what},{' '.join(map(str, earlier))}")
    text = "\n".join([",".join(COLUMNS.known), *rows])
    flows = good_or_one_line(lambda: parse_operations(text.encode(), "x"))
    if flows is None:
        assert not any(sends for sends, *_ in given_steps)
        return
    network = NetworkTable(hosts=4, rate_gbps=1.0, topology="star")
    run = simulate_flows(flows, PacketScenario(network=network, transport="ideal", seed=1))
    begins, ends = run.operations.begin_s, run.operations.end_s
    for number, earlier in enumerate(waits):
        # a send is over before its sender knows that
        over = [begins[other] if given_steps[other][0] else ends[other] for other in earlier]
        assert begins[number] >= max(over, default=0.0) - 1e-12
        if not earlier:
            assert begins[number] == 0


@given(st.lists(st.text(alphabet="0123 x", max_size=4), min_size=3, max_size=3))
def test_any_cells_that_name_what_flows_wait_for(after):
    flows = make_flows([0, 1, 2], [1, 2, 0], 1000).waiting(after)
    good_or_one_line(lambda: programs_of(flows))


rows = st.lists(
    st.tuples(
        st.integers(0, HOSTS - 1),
        st.integers(0, HOSTS - 1),
        st.integers(1, 2**42),
        st.integers(0, 10**9),
    ),
    min_size=1,
    max_size=20,
)


@given(rows)
def test_a_table_of_numbers_is_read_exactly(given_rows):
    text = "src,dst,bytes,start_us\n" + "".join(
        f"{source},{destination},{size},{start // 10**6}.{start % 10**6:06}\n"
        for source, destination, size, start in given_rows
    )
    flows = parse_flows(text.encode(), "x")
    found = zip(
        flows.source.tolist(),
        flows.destination.tolist(),
        flows.size_bytes.tolist(),
        flows.start_ps.tolist(),
        strict=True,
    )
    assert list(found) == given_rows


values = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**65), 2**65),
        st.floats(),
        st.text(max_size=6),
        st.sampled_from(
            ["2 MB", "1 us", "ndp", "roce", "fat-tree", "trim", "permutation", "unlimited", "auto"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=6), inner, max_size=2)
    ),
    max_leaves=4,
)
KEYS = {
    "": ("seed", "until_s", "network", "transport", "queue", "traffic"),
    "network.": ("hosts", "rate_gbps", "topology", "radix", "spines", "oversubscription"),
    "transport.": ("name", "window", "timeout_s", "gain", "subflows"),
    "packet.": ("mtu_bytes", "header_bytes", "full_tail"),
    "queue.": (
        *("size_bytes", "overflow", "ecn", "ecn.on", "ecn.min_bytes", "pfc.pause_bytes"),
        *("early_drop", "early_drop.on", "early_drop.share"),
    ),
    "traffic.": ("pattern", "size_bytes", "fan_in", "group"),
}
keys = st.sampled_from([table + key for table, names in KEYS.items() for key in names])


def changed(changes):
    tables = {
        "seed": 1,
        "transport": "ndp",
        "network": {"hosts": HOSTS, "rate_gbps": 100},
        "traffic": {"pattern": "permutation", "size_bytes": 1000},
    }
    for key, value in changes.items():
        *above, last = key.split(".")
        table = tables
        for name in above:
            if not isinstance(table.get(name), dict):
                table[name] = {}
            table = table[name]
        table[last] = value
    return tables


@settings(max_examples=300)
@given(st.dictionaries(keys, values, max_size=3))
def test_any_description(changes):
    def read():
        described = check(ScenarioFile, changed(changes), "x")
        return resolve(described), topology_of(described.network), flows_of(described)

    good_or_one_line(read)


@given(st.one_of(st.text(max_size=60), st.sampled_from(["[", "seed = 1\n", "[network]\nhosts=1"])))
def test_any_text_as_a_scenario(text):
    good_or_one_line(
        lambda: check(ScenarioFile, parse_toml(text.encode(errors="replace"), "x"), "x")
    )


@given(st.binary(max_size=60))
def test_any_bytes_as_a_scenario(content):
    good_or_one_line(lambda: check(ScenarioFile, parse_toml(content, "x"), "x"))


@settings(max_examples=60)
@given(
    st.sampled_from(TRANSPORTS),
    st.sampled_from(["fat-tree", "leaf-spine", "star"]),
    st.lists(
        st.tuples(
            st.integers(0, HOSTS - 1),
            st.integers(1, HOSTS - 1),
            st.integers(1, 100_000),
            st.floats(0, 1e-5),
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 2**63 - 1),
)
def test_small_networks_finish_every_flow(name, topology, given_flows, seed):
    source, offset, size, start = (np.array(column) for column in zip(*given_flows, strict=True))
    flows = make_flows(source, (source + offset) % HOSTS, size, start)
    network = NetworkTable(hosts=HOSTS, rate_gbps=100, topology=topology)
    run = simulate_flows(flows, PacketScenario(network=network, transport=name, seed=seed))
    assert not len(run.unfinished)
    profile = profile_of(name, 100.0)
    if "paths" not in profile["transport"]:  # a short tail on another path overtakes
        assert (run.slowdown >= 1 - 1e-9).all()
    assert (run.fct_s > size * 8 / 100e9).all()
    mtu = profile["packet"]["mtu_bytes"]
    # each packet crosses at least two links
    assert run.data_hops >= 2 * (-(-size // mtu)).sum()


nodes = st.sampled_from(["0", "1", "2", "5", "north", "east", "west", "-1", "a b", "", '"'])
quantities = st.one_of(st.sampled_from(["", "1", "100", "0", "nan"]), st.floats().map(str))


def table(head, *columns):
    lines = st.lists(st.tuples(*columns).map(",".join), max_size=6)
    return lines.map(lambda rows: "\n".join([head, *rows]))


@given(
    links=table("a,b,rate_gbps,delay_us", nodes, nodes, quantities, quantities),
    circuits=table("a,b,dark_us,up_us", nodes, nodes, quantities, quantities),
    routes=st.lists(st.lists(nodes, max_size=5).map(" ".join), min_size=2, max_size=2),
)
@settings(deadline=None)
def test_any_links_circuits_and_routes(tmp_path_factory, links, circuits, routes):
    folder = tmp_path_factory.mktemp("links")
    (folder / "links.csv").write_text(links)
    (folder / "circuits.csv").write_text(circuits)
    flows = make_flows([0, 1], [1, 2], 5000, routes=routes)

    def simulate(**network):
        network = NetworkTable(hosts=3, rate_gbps=100, links=folder / "links.csv", **network)
        scenario = PacketScenario(network=network, transport="ideal", seed=1, until_s=1e-3)
        with contextlib.suppress(StuckError):  # what stays dark
            return simulate_flows(flows, scenario)

    good_or_one_line(simulate)
    good_or_one_line(lambda: simulate(circuits=folder / "circuits.csv"))


@given(
    rows=st.lists(st.tuples(*[st.sampled_from(["0", "1", "2", "n", "e"])] * 2), min_size=1),
    routes=st.lists(st.sampled_from(["", "0 n 1", "1 n 2", "1 e 2", "0 n e 1"]), min_size=2,
                    max_size=2),
)  # fmt: skip
@settings(deadline=None)
def test_small_networks_carry_their_flows_or_say_why_not(tmp_path_factory, rows, routes):
    folder = tmp_path_factory.mktemp("links")
    (folder / "links.csv").write_text("a,b\n" + "\n".join(map(",".join, rows)))
    network = NetworkTable(hosts=3, rate_gbps=100, links=folder / "links.csv")
    routes = [
        route if route[:1] == first else "" for first, route in zip("01", routes, strict=True)
    ]
    flows = make_flows([0, 1], [1, 2], 5000, routes=routes)
    scenario = PacketScenario(network=network, transport="roce", seed=1)
    run = good_or_one_line(lambda: simulate_flows(flows, scenario))
    if run is not None:
        assert not len(run.unfinished)
        assert (run.slowdown >= 1 - 1e-9).all()
