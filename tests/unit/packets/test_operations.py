"""Programs as a table of operations, which may wait across ranks."""

import pytest

from lightloom.errors import InputError
from lightloom.packets import NetworkTable, PacketScenario, goal_text, simulate_flows
from lightloom.packets.goal import read_programs
from lightloom.packets.operations import parse_operations

HEAD = "rank,kind,peer,bytes,nic,peer_nic,priority,span_us,after\n"


def scenario(**keys):
    network = NetworkTable(hosts=4, rate_gbps=100.0, topology="star", **keys)
    return PacketScenario(network=network, transport="ideal", seed=1)


def alone_s(packets):
    """A flow of so many packets on an idle star, until its receiver has it."""
    return 2e-6 + (packets + 1) * 4160 * 8 / 100e9


def test_operations_wait_for_those_of_other_ranks_and_join_them(tmp_path):
    path = tmp_path / "step.csv"
    rows = [
        "0,send,1,40960,,,,,",
        "2,send,3,4096,,,,,",
        "1,compute,,,,,,2.5,0",
        # only joins
        "3,compute,,,,,,,1 2",
        "3,send,0,4096,,,,,3",
    ]
    path.write_text(HEAD + "\n".join(rows) + "\n")
    flows = read_programs(path)
    assert flows.size_bytes.tolist() == [40_960, 4096, 4096]
    assert flows.lines.tolist() == [2, 3, 6]
    run = simulate_flows(flows, scenario())
    begin = alone_s(10) + 2.5e-6
    assert run.began_s == pytest.approx([0, 0, begin], abs=1e-12)
    assert run.operations.makespan_s == pytest.approx(begin + alone_s(1), abs=1e-12)


def test_computations_of_a_rank_do_not_take_turns():
    rows = ["0,compute,,,,,,5,", "0,compute,,,,,,5,", "0,send,1,4096,,,,,0 1"]
    flows = parse_operations((HEAD + "\n".join(rows)).encode(), "x")
    assert simulate_flows(flows, scenario()).began_s == pytest.approx([5e-6], abs=1e-12)


def test_nics_of_hosts_are_numbered(tmp_path):
    links = tmp_path / "links.csv"
    links.write_text("a,b,rate_gbps\n0,hub,100\n0,hub,100\n1,hub,100\n1,hub,100\n")
    network = NetworkTable(hosts=2, rate_gbps=100.0, links=links)
    run_s = {}
    for nics in ("0,0", "1,0", "1,1"):
        text = f"{HEAD}0,send,1,40960,0,0,,,\n0,send,1,40960,{nics},,,\n"
        flows = parse_operations(text.encode(), "x")
        taken = PacketScenario(network=network, transport="ideal", seed=1)
        run_s[nics] = simulate_flows(flows, taken).operations.makespan_s
    # the second flow takes another uplink, then other links throughout
    assert run_s["1,1"] < run_s["1,0"] == run_s["0,0"]
    wrong = parse_operations(f"{HEAD}0,send,1,4096,2,0,,,\n".encode(), "x")
    with pytest.raises(InputError, match=r"^x, line 2: host 0 has no NIC 2; they are"):
        simulate_flows(wrong, PacketScenario(network=network, transport="ideal", seed=1))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0,receive,1,8,,,,,", "line 2: kind 'receive': expected send or compute"),
        ("0,compute,,,,,,5,", "0 sends; expected 1 to"),
        ("0,send,,8,,,,,", "line 2: a send has no peer; add it"),
        ("0,send,1,,,,,,", "line 2: a send has no bytes; add it"),
        ("0,send,1,8,,,,,3", "line 2: after '3': expected numbers of operations from 0 to 0"),
        ("0,send,1,8,,,,,x", "line 2: after 'x': expected numbers of operations"),
        ("0,send,1,8,,,,4,", "line 2: span_us: expected 0 to 1e+09, and none of a send"),
        ("0,send,1,8,,,,,\n0,compute,,,,,,-1,", "line 3: span_us: expected 0 to 1e\\+09"),
        ("0,send,1,8.5,,,,,", r"line 2: bytes: expected a whole number from 0 to 2\^53"),
        ("-1,send,1,8,,,,,", r"line 2: rank: expected a whole number from 0 to 2\^53"),
        ("0,send,1,8,70000,,,,", "line 2: expected NICs from 0 to 65,535"),
        ("0,send,1,8,,,,,1\n0,send,1,8,,,,,0", "wait for one another; none can ever begin"),
        ("0,send,1,8,,,,", "line 2: 8 cells, expected 9 as in the header"),
    ],
)
def test_wrong_tables_are_refused_in_one_line(rows, message):
    with pytest.raises(InputError, match=message.replace("1e+09", r"1e\+09")) as caught:
        parse_operations((HEAD + rows).encode(), "x")
    assert "\n" not in str(caught.value)


def test_hosts_that_are_not_there_and_empty_priorities_are_refused():
    for rows, message in (
        ("0,send,9,8,,,,,", "line 2: dst 9: expected a host from 0 to 3"),
        ("1,send,1,8,,,,,", "line 2: host 1 sends to itself"),
        ("0,send,1,8,,,9,,", "line 2: priority 9: expected 0 to 7"),
    ):
        flows = parse_operations((HEAD + rows).encode(), "x")
        with pytest.raises(InputError, match=message):
            simulate_flows(flows, scenario())


def test_paths_are_drawn_by_the_ends_where_that_is_asked_for():
    # six flows of one pair, one after another
    after = ["", *map(str, range(5))]
    rows = "\n".join(f"0,send,1,40960,,,,,{other}" for other in after)
    flows = parse_operations((HEAD + rows).encode(), "x")
    used = {}
    for hashing in ("ends", "flow"):
        sizes = {"topology": "leaf-spine", "hosts_per_leaf": 1, "spines": 8}
        network = NetworkTable(hosts=16, rate_gbps=100.0, hashing=hashing, **sizes)
        run = simulate_flows(flows, PacketScenario(network=network, transport="roce", seed=1))
        ends = zip(run.links.source, run.links.destination, run.links.sent_bytes, strict=True)
        used[hashing] = {
            run.nodes[b] for a, b, sent in ends if run.nodes[a] == "leaf-0" and sent >= 40_960
        } - {"0"}
    assert len(used["ends"]) == 1 < len(used["flow"])


def test_a_table_may_have_its_cells_in_quotes(tmp_path):
    path = tmp_path / "step.csv"
    path.write_text('"rank","kind","peer","bytes"\n"0","send","1","4096"\n')
    assert read_programs(path).size_bytes.tolist() == [4096]


def test_joins_that_wait_for_one_another_are_named():
    rows = "0,send,1,8,,,,,\n1,compute,,,,,,,2\n1,compute,,,,,,,1\n"
    message = r"x: operation 1 of rank 1, operation 2 of rank 1 wait for one another"
    with pytest.raises(InputError, match=message):
        parse_operations((HEAD + rows).encode(), "x")


def test_operations_that_wait_across_ranks_are_not_written_in_goal():
    flows = parse_operations((HEAD + "0,send,1,8,,,,,\n1,send,2,8,,,,,0\n").encode(), "x")
    with pytest.raises(InputError, match=r"x: operations that wait across ranks are none of GOAL"):
        goal_text(flows, 3)
