"""Messages between all ranks of a job: in a ring all are alike, in a pipeline none are."""

import dataclasses

import numpy as np
import pytest
from tests.trace_jobs import PLAIN, GridJob, recording

from lightloom.errors import InputError
from lightloom.trace.algorithms import IDLE
from lightloom.trace.expand import Expansion
from lightloom.trace.job import find_job, missing_ranks
from lightloom.trace.stack_build import build_stack
from lightloom.trace.trace import ProcessGroup, make_trace


def messages(world, sends, receives):
    """Messages to and from other ranks, in the group of all."""
    plain = dataclasses.replace(
        PLAIN, group="world", ranks=tuple(range(world)), input_bytes=64, output_bytes=64
    )
    return [
        dataclasses.replace(plain, op=op, peer=peer)
        for op, peers in (("send", sends), ("receive", receives))
        for peer in peers
    ]


def job(world, calls, ranks):
    recorded = [recording(rank, calls(rank)) for rank in ranks]
    groups = [ProcessGroup("world", tuple(range(world)))]
    return make_trace(world, ["python", "train.py"], recorded, groups)


@pytest.mark.parametrize(("world", "step"), [(2, 1), (4, 2), (8, 4)])
def test_half_way_around_may_be_a_pipeline_of_two_stages(world, step):
    def calls(rank):
        return messages(world, [(rank + step) % world], [(rank - step) % world])

    assert missing_ranks(job(world, calls, [0]))


@pytest.mark.parametrize(
    ("world", "steps"), [(3, [1]), (8, [2]), (8, [-3, 1]), (9, [4, 4]), (12, [5, 1, 7])]
)
def test_a_ring_of_all_ranks_is_one_role_whichever_are_recorded(world, steps):
    def calls(rank):
        return messages(
            world,
            [(rank + step) % world for step in steps], [(rank - step) % world for step in steps],
        )  # fmt: skip

    for ranks in ([0], [0, world - 1], range(world)):
        trace = job(world, calls, ranks)
        assert not missing_ranks(trace)
        found = find_job(trace)
        assert len(found.roles) == 1
        expansion = Expansion(found)
        for rank in range(world):
            expanded = [(call.op, call.peer) for call in expansion.calls(rank)]
            assert expanded == [(call.op, call.peer) for call in calls(rank)]
        stack = build_stack(found)
        assert stack.check() == world * len(steps)
        for call, step in zip(stack.calls, dict.fromkeys(steps), strict=True):
            ((index,),) = [block.permutations for block in call.blocks]
            wanted = (np.arange(world) + step) % world
            assert stack.permutations[index].tolist() == wanted.tolist()


def test_a_pipeline_of_all_ranks_is_no_ring():
    world = 4

    def calls(rank):
        after, before = [rank + 1] * (rank < world - 1), [rank - 1] * (rank > 0)
        return messages(world, after, before)

    trace = job(world, calls, [0])
    assert missing_ranks(trace) == [1, 2, 3]
    with pytest.raises(InputError, match="3 of 4 roles were not recorded"):
        find_job(trace)
    found = find_job(job(world, calls, range(world)))
    assert found.role_of_rank.tolist() == [0, 1, 1, 2]
    stack = build_stack(found)
    assert stack.check() == world - 1
    # what a rank in the middle sends and receives may share a permutation
    assert stack.slots(1) >= 2
    assert [stack.lower_bound_slots(role) for role in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("sizes", [(2, 2, 4, 2), (1, 4, 2, 2), (4, 1, 4, 4), (2, 3, 6, 3)])
def test_no_order_of_permutations_has_fewer_slots_than_the_bound(sizes):
    """Each way of a port carries one transfer in a slot: counted port by port, by hand."""
    grid = GridJob(*sizes)
    stack = build_stack(find_job(grid.trace()))
    carried = np.zeros((2, grid.ranks), dtype=int)
    for call in stack.calls:
        for block in call.blocks:
            for index in block.permutations:
                senders = np.flatnonzero(stack.permutations[index] != IDLE)
                carried[0][senders] += call.calls * block.repeats
                carried[1][stack.permutations[index][senders]] += call.calls * block.repeats
    for role in range(len(stack.sequences)):
        bound = stack.lower_bound_slots(role)
        busiest = int(carried[:, stack.role_of_rank == role].max())
        longest = max(stack.calls[index].lower_bound_slots for index in stack.sequences[role])
        assert bound == max(busiest, longest)
        assert bound <= stack.slots(role)
