"""Stacks of permutations: roles of ranks, rounds of collectives, groups that are merged."""

import dataclasses

import numpy as np
import pytest
from tests.trace_jobs import PLAIN, GridJob, recording

from lightloom.errors import InputError
from lightloom.trace.algorithms import IDLE, Algorithm, SizedCollective, port_bytes, rounds_of
from lightloom.trace.job import find_job
from lightloom.trace.stack import SlotBlock
from lightloom.trace.stack_build import build_stack, places_by_server
from lightloom.trace.stack_files import stack_as_json
from lightloom.trace.trace import ProcessGroup, make_trace

COUNTS = [2, 3, 4, 7, 8, 12]


def pairs(permutation):
    return {(int(a), int(b)) for a, b in enumerate(permutation) if b != IDLE}


# What rounds deliver, simulated place by place


def gathered(rounds, count):
    """The chunks that each place holds in the end, if it passes on what came last in a level."""
    chunks_at = [[place] for place in range(count)]
    for turn in rounds:
        last = [list(chunks) for chunks in chunks_at]
        for _ in range(turn.repeats):
            moved = {int(to): last[a] for a, to in enumerate(turn.destination) if to != IDLE}
            for to, chunks in moved.items():
                chunks_at[to] = chunks_at[to] + chunks
                last[to] = chunks
    return chunks_at


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("inside", [1, 2, 4])
def test_an_all_gather_brings_each_chunk_once(count, inside):
    servers = None if count % inside else np.arange(count).reshape(-1, inside)
    collective = SizedCollective("all_gather", count, 100 * count)
    _, rounds = rounds_of(collective, Algorithm.HIERARCHICAL, servers)
    for chunks in gathered(rounds, count):
        assert sorted(chunks) == list(range(count))
    # a port carries every chunk but its own, however it is done
    assert port_bytes(rounds, 0) == 100 * (count - 1)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_an_all_reduce_is_a_reduction_and_its_reverse(count, algorithm):
    def whole(op):
        return rounds_of(SizedCollective(op, count, 10**9 * count), algorithm)[1]

    def kinds(rounds):
        return sorted((r.repeats, r.size_bytes, tuple(r.destination)) for r in rounds)

    rounds = whole("all_reduce")
    if algorithm is Algorithm.TREE:
        rounds, rest = rounds[: len(rounds) // 2], rounds[len(rounds) // 2 :]
        assert {(b, a) for turn in rounds for a, b in pairs(turn.destination)} == {
            (a, b) for turn in rest for a, b in pairs(turn.destination)
        }
    else:
        assert kinds(rounds) == kinds(whole("reduce_scatter") + whole("all_gather"))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("root", [0, 1])
def test_a_broadcast_reaches_every_place_once(count, root):
    _, rounds = rounds_of(SizedCollective("broadcast", count, 10, root), Algorithm.RING)
    reached_so_far = {root}
    for turn in rounds:
        senders, reached = zip(*pairs(turn.destination), strict=True)
        assert set(senders) <= reached_so_far
        assert not set(reached) & reached_so_far
        reached_so_far |= set(reached)
    assert reached_so_far == set(range(count))
    assert len(rounds) == (count - 1).bit_length()


@pytest.mark.parametrize("count", COUNTS)
def test_an_all_to_all_joins_each_pair_once(count):
    _, rounds = rounds_of(SizedCollective("all_to_all", count, 10 * count), Algorithm.RING)
    ends = [pair for turn in rounds for pair in pairs(turn.destination)]
    assert sorted(ends) == [(a, b) for a in range(count) for b in range(count) if a != b]


def test_a_hierarchical_all_to_all_delivers_in_two_hops():
    servers = np.arange(12).reshape(3, 4)
    collective = SizedCollective("all_to_all", 12, 1200)
    _, rounds = rounds_of(collective, Algorithm.HIERARCHICAL, servers)
    chunks = {(a, b): a for a in range(12) for b in range(12)}
    for turn in rounds:
        moved = pairs(turn.destination)
        across = any(a // 4 != b // 4 for a, b in moved)
        count = 0
        for (source, target), at in list(chunks.items()):
            # inside a server to the destination's place there, then over servers
            via = target if across else at // 4 * 4 + target % 4
            if (at, via) in moved:
                chunks[source, target] = via
                count += 1
        assert count * 100 == len(moved) * turn.size_bytes
    assert all(at == target for (_, target), at in chunks.items())


@pytest.mark.parametrize("op", ["gather", "scatter"])
def test_a_root_serves_one_after_another(op):
    _, rounds = rounds_of(SizedCollective(op, 5, 50, root=2), Algorithm.AUTO)
    ends = [pair for turn in rounds for pair in pairs(turn.destination)]
    expected = [(2, other) for other in (0, 1, 3, 4)]
    assert sorted(ends) == sorted(expected if op == "scatter" else [(b, a) for a, b in expected])


@pytest.mark.parametrize("size", [1, 10**4, 10**6, 10**9])
@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "all_to_all"])
def test_auto_takes_least_time(op, size):
    servers = np.arange(16).reshape(4, 4)
    collective = SizedCollective(op, 16, size)
    times = [port_bytes(rounds_of(collective, way, servers, 10**5)[1], 10**5) for way in Algorithm]
    assert times[0] == min(times)


def test_an_unknown_operation_is_refused():
    with pytest.raises(InputError, match="'juggle': how it is carried out is not known"):
        rounds_of(SizedCollective("juggle", 2, 1), Algorithm.RING)


# Roles


def test_roles_are_pipeline_stages():
    grid = GridJob(tp=2, pp=4, dp=4, ep=2)
    job = find_job(grid.trace())
    assert [role.ranks.tolist() for role in job.roles] == grid.grid.reshape(4, -1).tolist()


def test_roles_of_all_ranks_are_those_of_some():
    grid = GridJob(tp=2, pp=2, dp=2, ep=2)
    some, every = (find_job(grid.trace(ranks)) for ranks in (None, range(grid.ranks)))
    assert some.role_of_rank.tolist() == every.role_of_rank.tolist()
    alone = dataclasses.replace(grid.trace(range(grid.ranks)), groups=())
    assert find_job(alone).role_of_rank.tolist() == every.role_of_rank.tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ranks": [0]}, "1 of 2 roles were not recorded: record --rank 0,8"),
        ({"groups": ()}, "or all ranks"),
    ],
)
def test_ranks_that_are_missing_are_named(changes, message):
    trace = GridJob(tp=2, pp=2, dp=4, ep=2).trace(changes.pop("ranks", None))
    with pytest.raises(InputError, match=message):
        find_job(dataclasses.replace(trace, **changes))


def test_a_step_that_was_not_recorded():
    trace = GridJob(tp=2, pp=2, dp=2, ep=2).trace()
    with pytest.raises(InputError, match="--step 1: the trace has steps 0 to 0"):
        find_job(trace, 1)


def test_ranks_of_a_role_that_differ():
    grid = GridJob(tp=2, pp=2, dp=2, ep=2)
    odd = recording(1, grid.calls(1)[1:])
    trace = make_trace(8, ["python"], [*grid.trace().ranks.values(), odd], grid.groups())
    with pytest.raises(InputError, match=r"ranks 0 and 1 .* different calls"):
        find_job(trace)


# Stacks


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_a_stack_delivers_everything_and_is_as_short_as_can_be(algorithm):
    stack = build_stack(find_job(GridJob(tp=4, pp=2, dp=4, ep=2).trace()), algorithm, local_size=4)
    assert stack.check() > 0
    for call in stack.calls:
        assert call.slots == call.lower_bound_slots
    for permutation in stack.permutations:
        ends = permutation[permutation != IDLE]
        assert len(set(ends)) == len(ends)


def test_calls_are_counted_once_however_many_ranks_were_recorded():
    grid = GridJob(tp=2, pp=2, dp=4, ep=2)
    some, every = (build_stack(find_job(grid.trace(r))) for r in (None, range(grid.ranks)))
    assert stack_as_json(some, some.check()) == stack_as_json(every, every.check())


def test_transfers_of_a_step_by_hand():
    """Chronos, section 5.2: 16 ranks in 4 x 4, rings along rows and columns."""
    grid = GridJob(tp=4, pp=1, dp=4, ep=1)
    calls = [grid.call(0, "all_gather", name, 1600) for name in ("tp", "dp")]
    trace = make_trace(16, ["python"], [recording(0, calls)], grid.groups())
    stack = build_stack(find_job(trace), Algorithm.RING)
    rows, columns = stack.permutations
    assert rows.reshape(4, 4).tolist() == np.roll(np.arange(16).reshape(4, 4), -1, 1).tolist()
    assert columns.reshape(4, 4).tolist() == np.roll(np.arange(16).reshape(4, 4), -1, 0).tolist()
    assert [call.blocks for call in stack.calls] == [(SlotBlock((i,), 3, 400),) for i in (0, 1)]


def test_a_message_is_seen_by_both_ends():
    stack = build_stack(find_job(GridJob(tp=2, pp=2, dp=2, ep=1).trace(layers=0)))
    for sequence in stack.sequences:
        kinds = [stack.calls[index] for index in sequence.tolist()]
        assert [call.phase for call in kinds if call.op == "send"] == [
            "forward", "forward", "backward", "backward",
        ]  # fmt: skip
    forward, backward = (call for call in stack.calls if call.op == "send")
    there, back = (
        pairs(stack.permutations[call.blocks[0].permutations[0]]) for call in (forward, backward)
    )
    assert there == {(rank, rank + 4) for rank in range(4)} == {(b, a) for a, b in back}
    assert forward.calls == 2


def test_groups_that_share_ranks_take_turns():
    groups = [ProcessGroup("halo", (rank, (rank + 1) % 5)) for rank in range(5)]
    calls = [dataclasses.replace(PLAIN, group="halo", ranks=group.ranks) for group in groups]
    trace = make_trace(
        5, ["python"],
        [recording(rank, [c for c in calls if rank in c.ranks]) for rank in range(5)],
        groups,
    )  # fmt: skip
    stack = build_stack(find_job(trace), Algorithm.RING)
    assert stack.check() == 10
    # each rank sends to both sides, and all at once
    (call,) = stack.calls
    assert call.slots == call.lower_bound_slots == 2


def test_a_chain_of_groups_has_no_two_ranks_alike():
    groups = [ProcessGroup("halo", (rank, rank + 1)) for rank in range(4)]
    calls = [dataclasses.replace(PLAIN, group="halo", ranks=group.ranks) for group in groups]
    ranks = [recording(rank, [c for c in calls if rank in c.ranks]) for rank in range(5)]
    job = find_job(make_trace(5, ["python"], ranks, groups))
    assert len(job.roles) == 5
    assert build_stack(job).check() == 8


def test_uneven_shares_hold_the_largest():
    call = dataclasses.replace(
        PLAIN, op="all_to_all", input_splits=(1, 3), input_bytes=40, output_bytes=40
    )
    other = dataclasses.replace(call, input_splits=(2, 2))
    trace = make_trace(2, ["python"], [recording(0, [call]), recording(1, [other])])
    (only,) = build_stack(find_job(trace)).calls
    assert only.on_demand
    assert only.blocks[0].size_bytes == 30


def test_what_is_lost_or_doubled_is_found():
    stack = build_stack(find_job(GridJob(tp=2, pp=2, dp=2, ep=2).trace()))
    permutations = stack.permutations.copy()
    permutations[0, 0] = IDLE
    with pytest.raises(InputError, match="not what its permutations carry"):
        dataclasses.replace(stack, permutations=permutations).check()
    permutations[0, 0] = permutations[0, 3]
    with pytest.raises(InputError, match="two ranks send to one"):
        dataclasses.replace(stack, permutations=permutations).check()


def test_ranks_that_issue_another_number_of_calls():
    grid = GridJob(tp=1, pp=2, dp=2, ep=1)
    first, second = grid.calls(0), grid.calls(2)
    trace = make_trace(
        4, ["python"], [recording(0, first), recording(2, second[:-1])], grid.groups()
    )
    with pytest.raises(InputError, match="world: ranks issue different numbers"):
        build_stack(find_job(trace))


def test_places_by_server():
    assert places_by_server(np.array([[0, 1, 8, 9], [2, 3, 10, 11]]), 8).tolist() == [
        [0, 1],
        [2, 3],
    ]
    assert places_by_server(np.array([[0, 8, 1, 9]]), 8).tolist() == [[0, 2], [1, 3]]
    assert places_by_server(np.array([[0, 1, 8]]), 8) is None
    assert places_by_server(np.array([[0, 1], [7, 8]]), 8) is None


def test_16384_ranks():
    grid = GridJob(tp=8, pp=16, dp=128, ep=16)
    stack = build_stack(find_job(grid.trace()))
    assert len(stack.sequences) == 16
    assert stack.check() > 10**6
    assert all(call.slots == call.lower_bound_slots for call in stack.calls)
