"""Flows that wait for others, by the column ``after`` and by programs in GOAL."""

from dataclasses import replace

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.packets import (
    Milestone,
    NetworkTable,
    OperationBuilder,
    PacketScenario,
    goal_text,
    make_flows,
    read_flows,
    simulate_flows,
)
from lightloom.packets.columns import as_json, completion_columns
from lightloom.packets.flows import check_flows
from lightloom.packets.goal import parse_goal
from lightloom.packets.programs import critical_rows, operation_rows, programs_of
from lightloom.packets.results import Finished

US = 1e-6


def scenario(hosts=8, transport="ideal", **keys):
    network = NetworkTable(hosts=hosts, rate_gbps=100.0, topology="star")
    return PacketScenario(network=network, transport=transport, seed=1, **keys)


def alone_s(packets):
    """A flow of so many packets on an idle star, until its receiver has it."""
    return 2e-6 + (packets + 1) * 4160 * 8 / 100e9


ACK_S = 64 * 8 / 100e9


def goal(*blocks):
    """Programs of ranks from lists of lines."""
    parts = [f"rank {rank} {{\n" + "\n".join(lines) + "\n}" for rank, lines in enumerate(blocks)]
    return f"num_ranks {len(blocks)}\n" + "\n".join(parts) + "\n"


def parsed(*blocks):
    return parse_goal(goal(*blocks).encode(), "x")


def test_flows_begin_when_others_have_been_received_and_their_delay_has_passed():
    flows = make_flows([0, 1, 2], [1, 2, 3], 40_960, [0, 0, 60e-6])
    flows = flows.waiting(["", "0", "0 1"], [0, 3e-6, 0])
    run = simulate_flows(flows, scenario())
    first = alone_s(10)
    expected = [0.0, first + 3e-6, 60e-6]
    assert run.began_s == pytest.approx(expected, abs=1e-12)
    assert run.slowdown == pytest.approx([1, 1, 1]), "3 us leave the uplink to an acknowledgment"
    assert run.operations.makespan_s == pytest.approx(60e-6 + first, abs=1e-12)
    early = make_flows([0, 1], [1, 2], 40_960, [0, 1e-6]).waiting(["", "0"])
    assert simulate_flows(early, scenario()).began_s[1] == pytest.approx(first)


def test_a_table_names_what_flows_wait_for_and_a_result_can_be_simulated_again(tmp_path):
    table = tmp_path / "flows.csv"
    table.write_text("src,dst,bytes,after,delay_us\n0,1,5000,,\n1,2,5000,0,2.5\n2,3,5000,0 1,0\n")
    flows = read_flows(table)
    assert flows.after == ("", "0", "0 1")
    run = simulate_flows(flows, scenario())
    every = np.arange(3, dtype=np.uint32)
    done = Finished(every, run.fct_s, run.slowdown, run.began_s)
    columns = completion_columns(flows, done)
    assert list(columns) == [
        "flow", "src", "dst", "bytes", "start_us", "after", "delay_us", "began_us", "fct_us",
        "slowdown",
    ]  # fmt: skip
    rows = zip(*columns.values(), strict=True)
    again = tmp_path / "again.csv"
    again.write_text("\n".join(",".join(map(str, row)) for row in [list(columns), *rows]))
    assert simulate_flows(read_flows(again), scenario()).run_hash == run.run_hash


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"after": ["1", "0"]}, "flows: flow 0 of rank 0, flow 1 of rank 1 wait for one another; "
         "none can ever begin"),
        ({"after": ["0", ""]}, "flows: flow 0 of rank 0 waits for itself; expected another one"),
        ({"after": ["", "2"]}, "flows: flow 1: after '2': expected numbers of flows from 0 to 1, "
         "parted by spaces"),
        ({"after": ["", "x"]}, "flows: flow 1: after 'x': expected numbers of flows"),
        ({"after": ["", "-1"]}, "flows: flow 1: after '-1': expected numbers of flows"),
        ({"after": ["", "9" * 30]}, "expected numbers of flows from 0 to 1"),
        ({"after": ["", "²"]}, "expected numbers of flows from 0 to 1"),
        ({"after": ["", ""], "delay_s": [1e-6, 0]}, "flows: flow 0: delay_us is for flows that "
         "wait; name others in 'after', or use start_us"),
        ({"after": ["", "0"], "delay_s": [0, -1e-6]}, "flows: flow 1: waits -1 us more: expected 0 "
         "to 1e+09 us"),
        ({"after": ["", "0"], "delay_s": [0, np.nan]}, "flows: flow 1: waits nan us more"),
    ],
)  # fmt: skip
def test_what_flows_cannot_wait_for_is_refused_in_one_line(keys, message):
    with pytest.raises(InputError) as caught:
        programs_of(make_flows([0, 1], [1, 0], 1000).waiting(**keys))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keys", [{"after": [""]}, {"after": "01"}, {"after": [0, 1]},
                                  {"after": ["", ""], "delay_s": [1, 2, 3]}])  # fmt: skip
def test_as_many_cells_as_flows_are_expected(keys):
    with pytest.raises(InputError, match="for each of 2 flows"):
        make_flows([0, 1], [1, 0], 1000).waiting(**keys)


def test_programs_in_goal_are_read_with_comments_cpus_and_any_order():
    text = """/* two ranks
    of a job */ num_ranks 2   // here
    rank 1
    {
      recv 8192b from 0 tag 7
      r2: recv 4096b from 0
    }
    rank 0 {
      b: send 4096b to 1
      b requires c
      a: send 8192b to 1 tag 7 cpu 0 nic 0
      c : calc 5000 cpu 1
      c requires a
      d: calc 10
    }"""
    flows = parse_goal(text.encode(), "x")
    assert (flows.source.tolist(), flows.destination.tolist()) == ([0, 0], [1, 1])
    assert flows.size_bytes.tolist() == [4096, 8192]
    assert flows.place(1) == "x, line 11"
    programs = flows.programs
    assert programs.kind == ("receive", "receive", "send", "send", "compute", "compute")
    assert programs.label == ("line 5", "r2", "b", "a", "c", "d")
    assert programs.flow.tolist() == [1, 0, 0, 1, -1, -1]
    assert programs.span_ps.tolist() == [0, 0, 0, 0, 5_000_000, 10_000]
    assert programs.unit.tolist() == [-1, -1, -1, -1, 0, 1], "processors 1 and 0 of rank 0"


def test_a_message_is_passed_on_when_it_has_arrived():
    chain = [[f"r: recv 40960b from {rank - 1}", f"s: send 40960b to {rank + 1}", "s requires r"]
             for rank in range(1, 5)]  # fmt: skip
    flows = parsed(["s: send 40960b to 1"], *chain, ["r: recv 40960b from 4"])
    run = simulate_flows(flows, scenario())
    assert run.operations.makespan_s == pytest.approx(5 * alone_s(10) + 4 * ACK_S, abs=1e-12)
    path = critical_rows(flows, run.operations)
    assert [f"{label}{rank}" for label, rank in zip(path["label"], path["rank"], strict=True)] == [
        "s0", "r1", "s1", "r2", "s2", "r3", "s3", "r4", "s4",
    ]  # fmt: skip


def test_requires_waits_for_the_end_and_irequires_for_the_begin():
    def begins(word):
        flows = parsed(
            ["a: send 4096b to 1", "b: calc 1000", f"b {word} a"],
            ["r: recv 4096b from 0", "c: calc 500", f"c {word} r"],
        )
        run = simulate_flows(flows, scenario())
        rows = operation_rows(flows, run.operations)
        found = dict(zip(rows["label"].tolist(), rows["begin_us"].tolist(), strict=True))
        return found["b"] * US, found["c"] * US

    arrival = alone_s(1)
    assert begins("requires") == pytest.approx((arrival + 2e-6 + 2 * ACK_S, arrival), abs=1e-12)
    assert begins("irequires") == (0, 0), "a receive begins when it may, before anything arrives"


def test_a_receive_that_waits_ends_no_sooner():
    flows = parsed(
        ["send 4096b to 1"],
        ["c: calc 9000", "r: recv 4096b from 0", "r requires c", "d: calc 1", "d requires r"],
    )
    run = simulate_flows(flows, scenario())
    assert run.operations.makespan_s == pytest.approx(9.001e-6)


def test_computations_of_a_processor_take_turns_and_are_on_the_critical_path():
    flows = parsed(["a: calc 3000", "b: calc 4000", "c: calc 5000 cpu 1", "s: send 0b to 1",
                    "s requires b"], ["recv 0b from 0"])  # fmt: skip
    run = simulate_flows(flows, scenario())
    # a message without content is a header, over two links
    expected = 7e-6 + 2e-6 + 2 * 64 * 8 / 100e9
    assert run.operations.makespan_s == pytest.approx(expected, abs=1e-12)
    path = critical_rows(flows, run.operations)
    assert path["label"].tolist() == ["a", "b", "s"]
    found = as_json(run, scenario())["operations"]
    assert (found["count"], len(found["critical_path"]["rank"])) == (5, 3)
    assert found["makespan_s"] == run.operations.makespan_s


def test_messages_of_two_ranks_and_a_tag_belong_together_in_their_order():
    sends = ["send 1b to 1 tag 3", "send 2b to 1 tag 4", "send 3b to 1 tag 3"]
    receives = ["recv 2b from 0 tag 4", "recv 1b from 0 tag 3", "recv 9b from 0 tag 3"]
    flows = parsed(sends, receives)
    receiver = dict(zip(flows.programs.label, flows.programs.flow.tolist(), strict=True))
    sizes = [int(flows.size_bytes[receiver[f"line {line}"]]) for line in (8, 9, 10)]
    assert sizes == [2, 1, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x: the file is empty; expected 'num_ranks N' and programs"),
        ("rank 0 {", "x, line 1: 'rank 0 {': expected 'num_ranks N' first, N from 1 to 16,384"),
        ("num_ranks 0", "N from 1 to 16,384"),
        ("num_ranks 2\nrank 2 {", "x, line 2: rank 2 of 2 ranks, from 0 on"),
        ("num_ranks 2\nrank 0 {\n}\nrank 0 {", "x, line 4: rank 0 is there twice"),
        ("num_ranks 2\nsend 1b to 1", "x, line 2: 'send 1b to 1': expected 'rank N {'"),
        ("num_ranks 2\nrank 0\nsend 1b to 1", "x, line 3: 'send 1b to 1': expected '{'"),
        ("num_ranks 2\nrank 0 {\n", "x: rank 0 has no end; expected '}'"),
        ("num_ranks 2\nrank 0 {\n}", "x: there is no send; expected at least one"),
        (goal(["send 1 to 1"], []), "x, line 3: 'send 1 to 1': expected 'send 8b to 1 tag 0'"),
        (goal(["send 1b from 1"], []), "expected 'send ... to', 'recv ... from'"),
        (goal(["recv 1b from -1"], []), "x, line 3: from -1, any rank: expected the number of a"),
        (goal(["send 1b to 0"], []), "x, line 3: rank 0: expected another of 2 ranks"),
        (goal(["send 1b to 2"], []), "x, line 3: rank 2: expected another of 2 ranks"),
        (goal(["send 1b to 1 nic 65536"], []),
         "x, line 3: nic 65536: expected 0 to 65,535 of a message, and none of calc"),
        (goal(["calc 1 nic 1"], []),
         "x, line 3: nic 1: expected 0 to 65,535 of a message, and none of calc"),
        (goal(["send 1b to 1 tag 1 tag 2"], []), "expected 'send 8b to 1 tag 0'"),
        (goal(["send 99999999999999999b to 1"], []), "bytes: expected at most 4,398,046,511,104"),
        (goal(["calc 9999999999999"], []), "expected at most 1000000000000 ns, and no tag"),
        (goal(["calc 1 tag 2"], []), "and no tag"),
        (goal(["a: calc 1", "a: calc 2"], []), "x, line 4: rank 0 has two operations 'a'"),
        (goal(["a: calc 1", "a requires b"], []), "x, line 4: rank 0 has no operation 'b'"),
        (goal(["send 1b to 1"], []), "x, line 3: rank 1 never receives this message from 0 to 1 "
         "with tag 0"),
        (goal([], ["recv 1b from 0 tag 5"]), "x, line 6: rank 0 never sends this message from 0 to "
         "1 with tag 5"),
        (goal(["send 9b to 1"], ["recv 8b from 0"]), "x, line 6: receives 8 bytes of the 9 that "
         "line 3 sends"),
        (goal(["s: send 1b to 1", "r: recv 1b from 1", "s requires r"],
              ["s: send 1b to 0", "r: recv 1b from 0", "s requires r"]),
         "x: s of rank 0, r of rank 0, s of rank 1, r of rank 1 wait for one another"),
        ("num_ranks 2\nrank 0 {\n\x00}", "x, line 3"),
    ],
)  # fmt: skip
def test_wrong_programs_are_refused_in_one_line(text, message):
    with pytest.raises(InputError) as caught:
        parse_goal(text.encode(), "x")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def ring(ranks, chunk_bytes):
    """A ring all-reduce: `2 (n - 1)` times each passes on what it has received."""
    blocks = []
    for rank in range(ranks):
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        lines = []
        for round_ in range(2 * (ranks - 1)):
            lines += [
                f"s{round_}: send {chunk_bytes}b to {after} tag {round_}",
                f"r{round_}: recv {chunk_bytes}b from {before} tag {round_}",
            ]
            if round_:
                lines += [f"s{round_} requires r{round_ - 1}"]
        blocks.append(lines)
    return parsed(*blocks)


@pytest.mark.parametrize("transport", ["ideal", "roce", "dctcp", "ndp", "eqds", "uet-nscc"])
def test_a_ring_of_any_transport_takes_its_rounds(transport):
    flows = ring(6, 65_536)
    run = simulate_flows(flows, scenario(transport=transport))
    wire = 100e9 / 8
    bound = 10 * (2e-6 + 65_536 / wire)
    assert bound < run.operations.makespan_s < 1.5 * bound
    assert len(run.unfinished) == 0


def test_programs_are_written_as_they_are_read():
    blocks = [
        ["a: calc 10", "s: send 9b to 1", "s requires a", "b: calc 20 cpu 3", "b irequires s"],
        ["r: recv 9b from 0", "c: calc 7", "c requires r", "d: calc 5", "d irequires r"],
    ]
    flows = parsed(*blocks)
    text = goal_text(flows, 2)
    again = parse_goal(text.encode(), "x")
    first, second = (simulate_flows(one, scenario()) for one in (flows, again))
    assert first.operations.makespan_s == second.operations.makespan_s
    names = [f"l{one}" for one in range(len(flows.programs))]
    ends = dict(zip(again.programs.label, second.operations.end_s, strict=True))
    assert [ends[name] for name in names] == first.operations.end_s.tolist()
    with pytest.raises(InputError, match="has no programs"):
        goal_text(make_flows([0], [1], 1), 2)


def test_programs_are_written_with_nics_and_without_messages_of_no_bytes():
    blocks = [
        ["send 0b to 1 tag 3 nic 1", "send 70b to 1"],
        ["recv 0b from 0 tag 3", "recv 70b from 0"],
    ]
    again = parse_goal(goal_text(parsed(*blocks), 2).encode(), "x")
    # LogGOPSim takes a message of 0 bytes for an endless one
    assert sorted(again.size_bytes.tolist()) == [1, 70]
    assert sorted(again.nics[0].tolist()) == [0, 1]
    assert again.nics[1].tolist() == [0, 0]


def test_ranks_that_only_compute_are_hosts_as_well():
    flows = parsed(["send 8b to 1"], ["recv 8b from 0"], ["calc 5"])
    with pytest.raises(InputError, match=r"of rank 2: expected ranks from 0 to 1$"):
        check_flows(flows, 2)
    check_flows(flows, 3)


def test_builders_of_programs_serve_python_too():
    builder = OperationBuilder()
    pause = builder.add("compute", 0, "pause", span_ps=5_000_000)
    send = builder.add("send", 0, "send", flow=0)
    builder.wait(send, pause, Milestone.ENDED)
    flows = make_flows([0], [1], 4096)
    run = simulate_flows(replace(flows, programs=builder.build()), scenario())
    assert run.began_s[0] == pytest.approx(5e-6)
