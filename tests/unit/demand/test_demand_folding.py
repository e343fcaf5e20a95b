"""Folding while drawing gives what folding afterwards gives."""

import numpy as np
import pytest

from lightloom.demand import fold, rank_matrix, synthetic
from lightloom.demand.folding import FoldingSource, fold_counts, fold_sums, rank_sums
from lightloom.demand.placement import received
from lightloom.errors import DemandError

INDEX = {"group": 2, "layers": [4, 0, 9], "micro_batches": 3, "step": 7}


def make(**changes):
    shape = {"ranks": 8, "experts": 32, "tokens_per_rank": 500, "top_k": 4, **changes}
    return synthetic("mixtral", **shape, seed=3)


@pytest.mark.parametrize("members", [1, 2, 8])
@pytest.mark.parametrize("changes", [{}, {"topics": 5}, {"hold_steps": 3}])
def test_sums_are_those_of_the_counts(members, changes):
    source = make(**changes)
    counts = source.tokens(**INDEX)
    folded = source.folded(**INDEX, members=members, rank_level=True)
    plain = fold(counts, members=members, ranks_per_member=8 // members)
    assert folded.tokens.dtype == plain.dtype
    assert np.array_equal(folded.tokens, plain)
    assert np.array_equal(folded.rank_tokens, rank_matrix(counts))
    assert np.array_equal(folded.received, received(counts).sum(axis=-1))
    assert folded.stayed == counts.sum() - rank_matrix(counts).sum()


@pytest.mark.parametrize("members", [1, 2, 8])
@pytest.mark.parametrize("changes", [{}, {"topics": 5}, {"hold_steps": 3}])
def test_sums_by_rank_say_what_the_counts_do(members, changes):
    source = make(**changes)
    counts = source.tokens(**INDEX)
    sums = source.summed(**INDEX)
    for name, value in vars(rank_sums(counts)).items():
        assert np.array_equal(getattr(sums, name), value), name
    copies, largest = sums.of_members(members)
    of_member = counts.reshape(3, 3, 8, members, -1)
    assert np.array_equal(copies, of_member.sum(axis=-1))
    assert np.array_equal(largest, of_member.max(axis=-1))
    folded = fold_sums(sums, members=members, rank_level=True)
    for name, value in vars(fold_counts(counts, members=members, rank_level=True)).items():
        assert np.array_equal(getattr(folded, name), value), name


def test_ranks_are_left_out_unless_asked_for():
    assert make().folded(**INDEX, members=2).rank_tokens is None


def test_which_sources_fold():
    assert isinstance(make(), FoldingSource)
    uniform = synthetic("uniform", ranks=2, experts=4, tokens_per_rank=9, top_k=1, seed=0)
    assert not isinstance(uniform, FoldingSource)


@pytest.mark.parametrize("members", [0, 3, 16, 2.0])
def test_members_that_ranks_do_not_fill(members):
    with pytest.raises(DemandError, match=f"8 EP ranks do not fill {members} members"):
        make().folded(**INDEX, members=members)


def test_counts_beyond_32_bits_are_refused():
    source = make(tokens_per_rank=2**31 - 1, top_k=1)
    with pytest.raises(DemandError, match="exceed 32 bits; use a smaller micro-batch"):
        source.folded(**INDEX, members=1)


def test_an_index_out_of_range_is_refused():
    with pytest.raises(DemandError, match="group: expected a whole number"):
        make().folded(**{**INDEX, "group": -1}, members=2)
