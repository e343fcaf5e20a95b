"""Who sends how much to whom, added up by hand."""

import numpy as np
import pytest

from lightloom.errors import FabricError
from lightloom.fabric import job_context
from lightloom.workload.task_graph import (
    TRANSPOSED,
    Category,
    Kind,
    Layout,
    Program,
    Ring,
    Scope,
    TaskGraph,
    TokenBlocks,
)


def graph(programs, tokens, layout, scopes=(), **blocks):
    times = np.zeros(tokens.shape[:3], np.uint64)
    return TaskGraph(layout, programs, list(scopes), TokenBlocks(tokens, times, times, **blocks))


def line(stages, replicas, members, servers):
    return Layout(stages, replicas, members, 8, np.array(servers, np.uint32))


def pairs(context):
    columns = (context.demand_src, context.demand_dst, context.demand_bytes)
    return {(int(s), int(d)): float(b) for s, d, b in zip(*columns, strict=True)}


def scope(*rings):
    offsets = np.cumsum([0, *(len(ring) for ring in rings)]).astype(np.uint32)
    return Scope("dp", offsets, np.concatenate([np.array(r, np.uint32) for r in rings]))


def test_dispatch_and_combine_of_two_blocks():
    tokens = np.zeros((1, 2, 2, 2), np.uint32)
    tokens[0, 0] = [[9, 3], [1, 9]]
    tokens[0, 1] = [[9, 5], [7, 9]]
    program = Program()
    program.add(Kind.ALL_TO_ALL, Category.EP, block=0, bytes=10)
    program.add(Kind.ALL_TO_ALL, Category.EP, block=0, bytes=100, flags=TRANSPOSED)
    program.add(Kind.ALL_TO_ALL, Category.EP, block=1, bytes=1000)
    context = job_context([graph([program], tokens, line(1, 1, 2, [4, 2]))])
    assert pairs(context) == {(4, 2): 3 * 10 + 1 * 100 + 5 * 1000, (2, 4): 10 + 300 + 7000}


def test_what_stays_in_a_server_is_left_out():
    tokens = np.ones((1, 1, 2, 2), np.uint32)
    program = Program()
    program.add(Kind.ALL_TO_ALL, Category.EP, block=0, bytes=10)
    assert pairs(job_context([graph([program], tokens, line(1, 1, 2, [3, 3]))])) == {}


def test_every_group_has_its_own_tokens():
    tokens = np.zeros((2, 1, 2, 2), np.uint32)
    tokens[0, 0, 0, 1], tokens[1, 0, 0, 1] = 2, 3
    first, second = Program(), Program()
    first.add(Kind.ALL_TO_ALL, Category.EP, block=0, bytes=10)
    second.add(Kind.ALL_TO_ALL, Category.EP, block=0, bytes=100)
    context = job_context([graph([first, second], tokens, line(2, 1, 2, [0, 1, 2, 3]))])
    assert pairs(context) == {(0, 1): 20, (2, 3): 300}


def test_sends_go_to_the_same_member_of_the_other_stage():
    first, second = Program(), Program()
    first.add(Kind.SEND, Category.PP, peer=1, bytes=5)
    first.add(Kind.SEND, Category.PP, peer=1, bytes=6)
    second.add(Kind.SEND, Category.PP, peer=0, bytes=7)
    tokens = np.zeros((2, 0, 2, 2), np.uint32)
    context = job_context([graph([first, second], tokens, line(2, 1, 2, [0, 1, 2, 3]))])
    assert pairs(context) == {(0, 2): 11, (1, 3): 11, (2, 0): 7, (3, 1): 7}


@pytest.mark.parametrize(("ring", "factor"), [
    (Ring.ALL_REDUCE, 2), (Ring.REDUCE_SCATTER, 1), (Ring.ALL_GATHER, 1),
])  # fmt: skip
def test_rings_are_folded_to_servers(ring, factor):
    program = Program()
    program.add(Kind.RING, Category.DP, peer=0, bytes=400, flags=ring)
    tokens = np.zeros((4, 0, 1, 1), np.uint32)
    layout = line(1, 4, 1, [5, 5, 3, 1])
    context = job_context([graph([program], tokens, layout, [scope([0, 1, 2, 3])])])
    (found,) = context.rings
    assert found.servers.tolist() == [5, 3, 1]
    assert found.size_bytes == factor * 400 * 3 / 4


def test_rings_over_the_same_servers_add_up_and_local_ones_vanish():
    program = Program()
    program.add(Kind.RING, Category.DP, peer=0, bytes=100, flags=Ring.ALL_GATHER)
    program.add(Kind.RING, Category.DP, peer=1, bytes=10, flags=Ring.ALL_GATHER)
    tokens = np.zeros((4, 0, 1, 1), np.uint32)
    layout = line(1, 4, 1, [0, 0, 1, 1])
    scopes = [scope([0, 2], [1, 3]), scope([0, 1], [2, 3])]
    (found,) = job_context([graph([program], tokens, layout, scopes)]).rings
    assert found.servers.tolist() == [0, 1]
    assert found.size_bytes == 2 * 100 / 2


def test_a_scope_without_a_task_is_no_demand():
    tokens = np.zeros((2, 0, 1, 1), np.uint32)
    context = job_context([graph([Program()], tokens, line(1, 2, 1, [0, 1]), [scope([0, 1])])])
    assert context.rings == ()


def test_the_demand_of_several_steps_is_their_mean():
    def step(count):
        tokens = np.zeros((1, 1, 2, 2), np.uint32)
        tokens[0, 0, 0, 1] = count
        program = Program()
        program.add(Kind.ALL_TO_ALL, Category.EP, block=0, bytes=10)
        program.add(Kind.RING, Category.DP, peer=0, bytes=100, flags=Ring.ALL_REDUCE)
        return graph([program], tokens, line(1, 1, 2, [0, 1]), [scope([0, 1])])

    context = job_context(step(count) for count in (0, 4, 8))
    assert pairs(context) == {(0, 1): 40}
    assert [ring.size_bytes for ring in context.rings] == [pytest.approx(100)]


def test_no_step_is_refused():
    with pytest.raises(FabricError, match="the demand of a job needs at least one step"):
        job_context([])


def test_imbalance_is_that_of_what_leaves_a_server():
    tokens = np.zeros((1, 1, 2, 2), np.uint32)
    ranks = np.zeros((1, 1, 4, 4), np.uint32)
    ranks[0, 0, 0, 1] = 1000  # stays in member 0
    ranks[0, 0, 0, 2], ranks[0, 0, 1, 2], ranks[0, 0, 1, 3] = 3, 2, 1
    layout = line(1, 1, 2, [0, 1])
    context = job_context([
        graph([Program()], tokens, layout, rank_tokens=ranks, ranks_per_member=2)
    ])  # fmt: skip
    assert context.ranks_per_worker == 2
    # rank 2 receives 5 of the 6 that its server of two ranks receives
    assert context.rank_imbalance == pytest.approx(5 * 2 / 6)


def test_imbalance_is_unknown_without_ranks():
    tokens = np.zeros((1, 1, 2, 2), np.uint32)
    context = job_context([graph([Program()], tokens, line(1, 1, 2, [0, 1]))])
    assert (context.ranks_per_worker, context.rank_imbalance) == (1, None)
