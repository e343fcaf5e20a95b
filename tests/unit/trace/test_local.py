"""Permutations over a fabric of circuit switches: what stays inside, what has to take turns."""

import numpy as np
import pytest
from tests.trace_jobs import GridJob

from lightloom.errors import InputError
from lightloom.trace.algorithms import IDLE
from lightloom.trace.job import find_job
from lightloom.trace.local import ClosSizes, local_arrays, route_stack
from lightloom.trace.stack_build import build_stack


@pytest.fixture(scope="module")
def stack():
    return build_stack(find_job(GridJob(tp=4, pp=2, dp=8, ep=4).trace()), local_size=4)


@pytest.mark.parametrize(
    "sizes",
    [
        ClosSizes(8),
        ClosSizes(4, spines=8),
        ClosSizes(8, pod=2),
        ClosSizes(4, pod=4, spines=4, cores=4),
        ClosSizes(4, spines=1),
        ClosSizes(8, spines=3),
        ClosSizes(4, pod=4, cores=1),
        ClosSizes(4, pod=4, spines=2, cores=3),
    ],
    ids=str,
)
def test_every_circuit_has_its_path(stack, sizes):
    local = route_stack(stack, sizes)
    local.check(stack)
    assert local.circuits.sum() == (stack.permutations != IDLE).sum()


def test_with_enough_up_links_nothing_is_divided(stack):
    local = route_stack(stack, ClosSizes(4, pod=4))
    assert local.parent.tolist() == list(range(len(stack.permutations)))


def test_turns_are_as_few_as_up_links_allow(stack):
    for spines in (1, 2, 3):
        local = route_stack(stack, ClosSizes(4, spines=spines))
        for index, permutation in enumerate(stack.permutations):
            host = np.flatnonzero(permutation != IDLE)
            far = host[host // 4 != permutation[host] // 4]
            leaves, arriving = np.bincount(far // 4), np.bincount(permutation[far] // 4)
            busiest = max([1, *leaves.tolist(), *arriving.tolist()])
            assert local.parts_of(index) == -(-busiest // spines)


def test_tiers_by_hand():
    # leaves 0-1, 2-3, 4-5, 6-7; pods 0-3, 4-7
    permutation = np.array([1, 2, 4, IDLE, 0, IDLE, 7, 6], dtype=np.int32)
    assert ClosSizes(2, pod=2).tier_of(permutation).tolist() == [1, 2, 3, 0, 3, 0, 1, 1]
    assert ClosSizes(2).tier_of(permutation).tolist() == [1, 2, 2, 0, 2, 0, 1, 1]


def test_tensor_parallel_rings_stay_in_a_leaf(stack):
    local = route_stack(stack, ClosSizes(4, pod=4))
    for call in stack.calls:
        if call.group == "tp":
            parts = [index for block in call.blocks for index in block.permutations]
            assert (local.tier[parts] == 1).all()


def test_arrays_have_a_row_per_part(stack):
    local = route_stack(stack, ClosSizes(4, spines=2))
    arrays = local_arrays(local)
    assert {len(values) for values in arrays.values()} == {len(local.parts)}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [(ClosSizes(5), "do not fill leaves of 5"), (ClosSizes(4, spines=0), "no up-links")],
)
def test_fabrics_that_do_not_fit(stack, sizes, message):
    with pytest.raises(InputError, match=message):
        route_stack(stack, sizes)
