"""Calls of ranks as programs of sends and receives, played over a network without contention."""

import dataclasses

import numpy as np
import pytest
from tests.trace_jobs import PLAIN, sized

from lightloom.errors import InputError
from lightloom.packets import NetworkTable, PacketScenario, goal_text, simulate_flows
from lightloom.packets.goal import parse_goal
from lightloom.trace.programs import trace_programs

HEADER_BYTES = 64
PACKET_S, DELAY_S, ACK_S = (4096 + HEADER_BYTES) * 8 / 100e9, 1e-6, HEADER_BYTES * 8 / 100e9


def call(op, size_bytes, ranks, **keys):
    put, got = sized(op, size_bytes, len(ranks))
    plain = dataclasses.replace(
        PLAIN, op=op, group=f"g{len(ranks)}", ranks=ranks, input_bytes=put, output_bytes=got
    )
    return dataclasses.replace(plain, **keys)


def numbered(*calls):
    return [dataclasses.replace(plain, call_id=number) for number, plain in enumerate(calls)]


def play(flows, hosts=8):
    network = NetworkTable(hosts=hosts, rate_gbps=100.0, topology="star")
    return simulate_flows(flows, PacketScenario(network=network, transport="ideal", seed=1))


def alone_s(packets):
    return 2 * DELAY_S + (packets + 1) * PACKET_S


def sent(flows, ranks):
    """Bytes from rank to rank, and messages."""
    sums = np.zeros((ranks, ranks), np.int64)
    np.add.at(sums, (flows.source, flows.destination), flows.size_bytes)
    return sums


def test_an_all_reduce_goes_round_the_ring_twice():
    ranks = (4, 1, 6)
    flows = trace_programs({rank: numbered(call("all_reduce", 36_864, ranks)) for rank in ranks})
    matrix = sent(flows, 8)
    assert [matrix[a, b] for a, b in ((4, 1), (1, 6), (6, 4))] == [4 * 12_288] * 3
    assert matrix.sum() == 12 * 12_288
    makespan_s = play(flows).operations.makespan_s
    assert 4 * alone_s(3) <= makespan_s <= 4 * (alone_s(3) + 8 * ACK_S) + DELAY_S * 2 + 2 * ACK_S


@pytest.mark.parametrize(("op", "chunk"), [("all_gather", 8192), ("reduce_scatter", 8192)])
def test_half_of_it_once(op, chunk):
    ranks = tuple(range(5))
    flows = trace_programs({rank: numbered(call(op, 5 * chunk, ranks)) for rank in ranks})
    assert (sent(flows, 5) == np.roll(np.eye(5, dtype=int), 1, axis=1) * 4 * chunk).all()
    makespan_s = play(flows).operations.makespan_s
    assert 4 * alone_s(2) <= makespan_s < 4 * alone_s(2) + 2 * DELAY_S + 30 * ACK_S


def test_a_broadcast_doubles_who_holds_the_data():
    ranks = tuple(range(8))
    calls = {rank: numbered(call("broadcast", 4096, ranks, root=3)) for rank in ranks}
    flows = trace_programs(calls)
    assert len(flows) == 7
    assert sorted(flows.destination.tolist()) == [0, 1, 2, 4, 5, 6, 7]
    makespan_s = play(flows).operations.makespan_s
    # the root goes on when it knows that its message has arrived
    known_s = alone_s(1) + 2 * DELAY_S + 2 * ACK_S
    assert makespan_s == pytest.approx(3 * known_s, abs=3 * ACK_S)


def test_an_all_to_all_sends_what_each_call_says_in_pairs():
    ranks, rows = (0, 1, 2), np.array([[5, 0, 7], [1, 2, 3], [4, 4, 4]])
    calls = {
        rank: numbered(
            call("all_to_all", 0, ranks, input_bytes=int(rows[rank].sum()) * 100,
                 input_splits=tuple(rows[rank].tolist()))
        )
        for rank in ranks
    }  # fmt: skip
    flows = trace_programs(calls)
    expected = rows * 100
    np.fill_diagonal(expected, 0)
    assert (sent(flows, 3) == expected).all()
    assert len(flows) == 6, "who has nothing to send says so"


def test_messages_belong_together_in_their_order():
    pair = (0, 1)
    sends = [call("send", size, pair, peer=1, input_bytes=size) for size in (100, 200)]
    receives = [call("receive", size, pair, peer=0, output_bytes=size) for size in (100, 200)]
    flows = trace_programs({0: numbered(*sends), 1: numbered(*receives)})
    assert flows.size_bytes.tolist() == [100, 200]
    begins = play(flows).began_s
    first_s = 2 * DELAY_S + 2 * (100 + HEADER_BYTES) * 8 / 100e9
    assert begins[1] == pytest.approx(first_s + 2 * DELAY_S + 2 * ACK_S)


def test_synchronous_calls_follow_one_another_and_asynchronous_ones_overlap():
    def makespan_s(**keys):
        first = call("all_gather", 8192 * 40, (0, 1), **keys)
        second = dataclasses.replace(first, group="other")
        return play(trace_programs({rank: numbered(first, second) for rank in (0, 1)}))

    alone = play(trace_programs({rank: numbered(call("all_gather", 8192 * 40, (0, 1)))
                                 for rank in (0, 1)}))  # fmt: skip
    in_turn = makespan_s()
    together = makespan_s(asynchronous=True, waited_before=2)
    one_s = alone.operations.end_s.max()
    assert in_turn.operations.end_s.max() == pytest.approx(2 * one_s, rel=0.01)
    latency_s = 4 * DELAY_S
    assert together.operations.end_s.max() == pytest.approx(2 * one_s - latency_s, rel=0.02)
    assert (together.began_s == 0).all()
    # of one group calls keep their order
    same = call("all_gather", 8192 * 40, (0, 1), asynchronous=True, waited_before=2)
    ordered = play(trace_programs({rank: numbered(same, same) for rank in (0, 1)}))
    assert ordered.operations.end_s.max() == pytest.approx(2 * one_s, rel=0.01)


def test_a_call_waits_where_the_program_does():
    ranks = (0, 1)
    late = call("all_gather", 8192, ranks, asynchronous=True, waited_before=2)
    other = call("all_gather", 8192, ranks, group="other", asynchronous=True, waited_before=None)
    third = call("all_gather", 8192, ranks, group="third")
    run = play(trace_programs({rank: numbered(late, other, third) for rank in ranks}))
    first_s = run.began_s[:4].max()
    assert first_s == 0
    assert run.began_s[4:].min() > alone_s(1), "after the first, which it waits for"


def test_programs_of_a_trace_survive_goal():
    ranks = tuple(range(4))
    calls = [call("all_reduce", 65_536, ranks), call("broadcast", 9000, ranks, root=1),
             call("barrier", 0, ranks)]  # fmt: skip
    flows = trace_programs({rank: numbered(*calls) for rank in ranks})
    again = parse_goal(goal_text(flows, 4).encode(), "x")
    ours, theirs = (play(played).operations.makespan_s for played in (flows, again))
    assert ours == pytest.approx(theirs, rel=1e-3), "equal but for the order of equal times"
    # the barrier's messages have a byte each, as LogGOPSim takes none for endless
    told = dataclasses.replace(flows, size_bytes=np.maximum(flows.size_bytes, 1))
    assert (sent(told, 4) == sent(again, 4)).all()
    assert flows.size_bytes.min() == 0


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ({0: [call("all_gather", 8, (0, 1))]}, "trace: group g2: rank 1 issues 0 calls and rank 0 "
         "1; expected the calls of all its ranks"),
        ({0: [call("all_gather", 8, (0, 1))], 1: [call("broadcast", 8, (0, 1), root=0)]},
         "trace: group g2: one rank calls all_gather where another calls broadcast"),
        ({0: [call("send", 8, (0, 1), peer=1)], 1: []}, "trace: group g2: rank 0 sends 1 messages "
         "to rank 1, which receives 0"),
        ({0: [call("magic", 8, (0, 1))], 1: [call("magic", 8, (0, 1))]},
         "operation 'magic': how it is carried out is not known"),
        (
            {0: []},
            "trace: ranks send nothing to each other; expected a collective or message of two "
            "ranks or more",
        ),
    ],
)  # fmt: skip
def test_calls_that_do_not_fit_are_refused(calls, message):
    with pytest.raises(InputError) as caught:
        trace_programs(calls)
    assert message in str(caught.value)
