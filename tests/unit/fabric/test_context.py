"""Who sends how much to whom, added up by hand."""

import numpy as np
import pytest

from lightloom.errors import FabricError
from lightloom.fabric import job_context
from lightloom.workload import Block, TaskGraphBuilder
from lightloom.workload.task_graph import Collective

EXPERTS = 0


def graph(programs, tokens, layout, rings=(), **fine):
    """A step of roles whose programs are lists of calls of the builder."""
    stages, replicas, members, servers = layout
    built = TaskGraphBuilder(servers, 8)
    workers = np.arange(stages * replicas * members)
    built.family("ep", workers.reshape(-1, members))
    for ring in rings:
        built.family("dp", ring)
    built.demand("tokens", EXPERTS, tokens, **fine)
    for program, own in zip(programs, workers.reshape(stages, -1), strict=True):
        role = built.role("stage", own)
        for name, *arguments in program:
            getattr(role, name)(*arguments)
    return built.build()


def line(stages, replicas, members, servers):
    return stages, replicas, members, servers


def all_to_all(block, size, *, transposed=False):
    return ("all_to_all", EXPERTS, Block(0, block, size, transposed), "ep")


def ring(family, size, kind=Collective.ALL_REDUCE):
    return ("ring", kind, family, size, "dp")


def pairs(context):
    sent = context.mean()
    columns = (sent.demand_src, sent.demand_dst, sent.demand_bytes)
    return {(int(s), int(d)): float(b) for s, d, b in zip(*columns, strict=True)}


def test_dispatch_and_combine_of_two_blocks():
    tokens = np.zeros((1, 2, 2, 2), np.uint32)
    tokens[0, 0] = [[9, 3], [1, 9]]
    tokens[0, 1] = [[9, 5], [7, 9]]
    program = [
        all_to_all(0, 10),
        all_to_all(0, 100, transposed=True),
        all_to_all(1, 1000),
    ]
    context = job_context([graph([program], tokens, line(1, 1, 2, [4, 2]))])
    assert pairs(context) == {(4, 2): 3 * 10 + 1 * 100 + 5 * 1000, (2, 4): 10 + 300 + 7000}


def test_what_stays_in_a_server_is_left_out():
    tokens = np.ones((1, 1, 2, 2), np.uint32)
    program = [
        all_to_all(0, 10),
    ]
    assert pairs(job_context([graph([program], tokens, line(1, 1, 2, [3, 3]))])) == {}


def test_every_group_has_its_own_tokens():
    tokens = np.zeros((2, 1, 2, 2), np.uint32)
    tokens[0, 0, 0, 1], tokens[1, 0, 0, 1] = 2, 3
    first, second = [all_to_all(0, 10)], [all_to_all(0, 100)]
    context = job_context([graph([first, second], tokens, line(2, 1, 2, [0, 1, 2, 3]))])
    assert pairs(context) == {(0, 1): 20, (2, 3): 300}


def test_sends_go_to_the_same_member_of_the_other_stage():
    first = [("send", 1, 0, 5, "pp"), ("send", 1, 1, 6, "pp")]
    second = [("send", 0, 0, 7, "pp")]
    tokens = np.zeros((2, 0, 2, 2), np.uint32)
    context = job_context([graph([first, second], tokens, line(2, 1, 2, [0, 1, 2, 3]))])
    assert pairs(context) == {(0, 2): 11, (1, 3): 11, (2, 0): 7, (3, 1): 7}


@pytest.mark.parametrize(("kind", "factor"), [
    (Collective.ALL_REDUCE, 2), (Collective.REDUCE_SCATTER, 1), (Collective.ALL_GATHER, 1),
])  # fmt: skip
def test_rings_are_folded_to_servers(kind, factor):
    program = [
        ring(1, 400, kind),
    ]
    tokens = np.zeros((4, 0, 1, 1), np.uint32)
    layout = line(1, 4, 1, [5, 5, 3, 1])
    context = job_context([graph([program], tokens, layout, [[[0, 1, 2, 3]]])])
    (found,) = context.mean().rings
    assert found.servers.tolist() == [5, 3, 1]
    assert found.size_bytes == factor * 400 * 3 / 4


def test_rings_over_the_same_servers_add_up_and_local_ones_vanish():
    program = [
        ring(1, 100, Collective.ALL_GATHER),
        ring(2, 10, Collective.ALL_GATHER),
    ]
    tokens = np.zeros((4, 0, 1, 1), np.uint32)
    layout = line(1, 4, 1, [0, 0, 1, 1])
    rings = [[[0, 2], [1, 3]], [[0, 1], [2, 3]]]
    (found,) = job_context([graph([program], tokens, layout, rings)]).mean().rings
    assert found.servers.tolist() == [0, 1]
    assert found.size_bytes == 2 * 100 / 2


def test_a_family_without_a_task_is_no_demand():
    tokens = np.zeros((2, 0, 1, 1), np.uint32)
    context = job_context([graph([[]], tokens, line(1, 2, 1, [0, 1]), [[[0, 1]]])])
    assert context.mean().rings == ()


def test_the_demand_of_several_steps_is_their_mean():
    def step(count):
        tokens = np.zeros((1, 1, 2, 2), np.uint32)
        tokens[0, 0, 0, 1] = count
        program = [all_to_all(0, 10), ring(1, 100)]
        return graph([program], tokens, line(1, 1, 2, [0, 1]), [[[0, 1]]])

    context = job_context(step(count) for count in (0, 4, 8))
    assert pairs(context) == {(0, 1): 40}
    assert [ring.size_bytes for ring in context.mean().rings] == [pytest.approx(100)]


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
        graph([[all_to_all(0, 1)]], tokens, layout, rank_counts=ranks, ranks_per_member=2)
    ])  # fmt: skip
    assert context.ranks_per_worker == 2
    # rank 2 receives 5 of the 6 that its server of two ranks receives
    assert context.mean().rank_imbalance == pytest.approx(5 * 2 / 6)


def test_imbalance_is_unknown_without_ranks():
    tokens = np.zeros((1, 1, 2, 2), np.uint32)
    context = job_context([graph([[]], tokens, line(1, 1, 2, [0, 1]))])
    assert (context.ranks_per_worker, context.mean().rank_imbalance) == (1, None)
