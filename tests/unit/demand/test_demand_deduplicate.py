"""Expected tokens per server against closed forms and enumeration."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.optimize import least_squares

from lightloom.demand import (
    MemberPlacement,
    Shape,
    expected_distinct,
    fold,
    member_tokens,
    synthetic,
)
from lightloom.demand.deduplicate import check_groups, fold_distinct, mean_distinct
from lightloom.demand.folding import rank_sums
from lightloom.errors import DemandError


def even(shape):
    """Counts of a perfectly balanced rank, one row."""
    return np.full((1, shape.experts), shape.copies_per_rank // shape.experts)


@pytest.mark.parametrize(("experts", "top_k", "members"), [(8, 2, 2), (16, 4, 4), (256, 8, 8)])
def test_balanced_loads_give_the_hypergeometric_formula(experts, top_k, members):
    shape = Shape(1, experts, experts * 1000, top_k)
    reached = expected_distinct(even(shape), shape, members=members) / shape.tokens_per_rank
    elsewhere = experts - experts // members
    assert reached == pytest.approx(1 - comb(elsewhere, top_k) / comb(experts, top_k), rel=1e-6)


@pytest.mark.parametrize(
    ("experts", "top_k", "groups", "top_groups"), [(8, 2, 4, 1), (16, 3, 4, 2), (32, 4, 8, 3)]
)
def test_balanced_loads_with_node_limit(experts, top_k, groups, top_groups):
    shape = Shape(1, experts, experts * 1000, top_k)
    reached = expected_distinct(
        even(shape), shape, members=groups, num_groups=groups, top_groups=top_groups
    )
    size = experts // groups
    # sets of top_k experts that touch exactly t groups, by inclusion and exclusion
    exactly = {
        t: comb(groups, t)
        * sum((-1) ** (t - i) * comb(t, i) * comb(i * size, top_k) for i in range(t + 1))
        for t in range(1, top_groups + 1)
    }
    touched = sum(t * count for t, count in exactly.items()) / sum(exactly.values())
    assert reached.sum() / shape.tokens_per_rank == pytest.approx(touched, rel=1e-6)
    assert reached / shape.tokens_per_rank == pytest.approx(touched / groups, rel=1e-6)


def enumerated(counts, shape, members, groups=1, top_groups=1):
    """Most random gate with these counts, by fitting a weight per expert over all sets."""
    chance = counts / shape.tokens_per_rank
    sets = [
        chosen
        for chosen in combinations(range(shape.experts), shape.top_k)
        if len({e * groups // shape.experts for e in chosen}) <= top_groups
    ]
    inside = np.zeros((len(sets), shape.experts))
    for row, chosen in enumerate(sets):
        inside[row, list(chosen)] = 1

    def probability(logs):
        weight = np.exp(inside @ logs)
        return weight / weight.sum()

    start = np.log(chance / (1 - chance))
    fit = least_squares(lambda logs: probability(logs) @ inside - chance, start, xtol=1e-14)
    assert np.abs(fit.fun).max() < 1e-6
    member = inside.reshape(len(sets), members, -1).any(axis=2)
    return probability(fit.x) @ member * shape.tokens_per_rank


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("limit", [(1, 1), (2, 2), (4, 2), (4, 3)])
@pytest.mark.parametrize("members", [2, 4])
def test_uneven_loads_against_enumeration(seed, limit, members):
    rng = np.random.default_rng(seed)
    shape = Shape(1, 8, 10**6, int(rng.integers(2, 4)))
    share = rng.dirichlet(np.full(8, 12.0))
    counts = np.rint(share * shape.copies_per_rank).astype(np.int64)
    counts[-1] += shape.copies_per_rank - counts.sum()
    expected = enumerated(counts, shape, members, *limit)
    distinct = expected_distinct(
        counts[np.newaxis], shape, members=members, num_groups=limit[0], top_groups=limit[1]
    )
    assert distinct[0] == pytest.approx(expected, rel=1e-3)


def test_one_expert_per_member_has_no_duplicates():
    source = synthetic("mixtral", ranks=8, experts=8, tokens_per_rank=1000, top_k=2, seed=0)
    counts = source.tokens(group=0, layers=[0], micro_batches=1, step=0)
    assert (expected_distinct(counts, source.shape, members=8) == counts).all()
    # node-limited routing with blocks of one expert keeps the counts, too
    limited = expected_distinct(counts, source.shape, members=8, num_groups=4, top_groups=2)
    assert limited == pytest.approx(counts, abs=0.01)


def test_top_1_has_no_duplicates():
    source = synthetic("mixtral", ranks=4, experts=16, tokens_per_rank=1000, top_k=1, seed=0)
    counts = source.tokens(group=0, layers=[0], micro_batches=1, step=0)
    assert (
        expected_distinct(counts, source.shape, members=4)
        == counts.reshape(1, 1, 4, 4, 4).sum(axis=-1)
    ).all()


def test_all_experts_chosen_reach_every_member():
    shape = Shape(1, 8, 50, 8)
    assert expected_distinct(np.full((1, 8), 50), shape, members=2) == pytest.approx(50)


@pytest.mark.parametrize("limit", [(1, 1), (8, 3), (4, 2), (16, 4)])
def test_expectation_matches_drawn_tokens_of_that_gate(limit):
    """Tokens drawn one by one from weights: the expectation from their counts is close."""
    groups, top_groups = limit
    rng = np.random.default_rng(3)
    experts, top_k, tokens = 32, 4, 6000
    scores = rng.normal(size=experts) * 0.5 + rng.gumbel(size=(tokens, experts))
    grouped = scores.reshape(tokens, groups, -1)
    best = np.argsort(-grouped.max(axis=2), axis=1)[:, :top_groups]
    allowed = np.zeros((tokens, groups), dtype=bool)
    allowed[np.arange(tokens)[:, None], best] = True
    scores = np.where(allowed[:, :, None], grouped, -np.inf).reshape(tokens, experts)
    chosen = np.argsort(-scores, axis=1)[:, :top_k]
    counts = np.bincount(chosen.ravel(), minlength=experts)[np.newaxis]
    member = chosen // 4
    true = np.array([(member == m).any(axis=1).sum() for m in range(8)])
    shape = Shape(1, experts, tokens, top_k)
    total = expected_distinct(counts, shape, members=8, num_groups=groups, top_groups=top_groups)[0]
    # a gate of independent scores is close to, not the same as, the least informative one
    assert total == pytest.approx(true, rel=0.04)


def test_node_limit_lowers_what_leaves():
    source = synthetic("mixtral", ranks=8, experts=64, tokens_per_rank=2000, top_k=6, seed=1)
    counts = source.tokens(group=0, layers=range(2), micro_batches=2, step=0)
    free = expected_distinct(counts, source.shape, members=8)
    limited = expected_distinct(counts, source.shape, members=8, num_groups=8, top_groups=3)
    assert limited.sum() < free.sum()
    assert (limited.sum(axis=-1) <= 3 * 2000 + 1e-6).all()


@pytest.mark.parametrize(("groups", "members"), [(4, 8), (8, 4), (2, 8), (8, 2), (4, 4)])
def test_groups_and_members_may_nest_either_way(groups, members):
    source = synthetic("mixtral", ranks=8, experts=64, tokens_per_rank=2000, top_k=6, seed=1)
    counts = source.tokens(group=0, layers=[0], micro_batches=1, step=0)
    distinct = expected_distinct(
        counts, source.shape, members=members, num_groups=groups, top_groups=groups
    )
    free = expected_distinct(counts, source.shape, members=members)
    # a limit of all groups is no limit; the finer blocks change the fit a little
    assert distinct == pytest.approx(free, rel=0.01)


def test_fold_distinct_moves_copies_to_the_destination():
    tokens = np.array([[[4, 4, 3, 3], [0, 6, 4, 4]]])
    distinct = np.array([[[5, 4.4], [6, 4.7]]])
    copies = fold(tokens, members=2, ranks_per_member=1)
    folded = fold_distinct(copies, distinct)
    # 4.4 rounds to 4 of 6 copies: two are made on arrival at member 1
    assert folded.tolist() == [[[0, 4], [6, 2]]]
    assert folded.sum() == copies.sum()


def test_fold_distinct_sends_a_token_once_to_each_rank_where_it_is_known_how_many():
    """Two servers of two ranks, an expert each but for two on the last rank."""
    tokens = np.zeros((4, 8), dtype=int)
    # rank 0: 10 tokens with both experts of rank 1; 6 with both experts of rank 3, one of rank 2
    tokens[0] = [0, 0, 10, 10, 6, 0, 6, 6]
    by_rank = np.zeros((4, 4))
    by_rank[0] = [0, 10, 6, 6]
    distinct = np.zeros((4, 2))
    distinct[0] = [10, 6]
    copies = fold(tokens, members=2, ranks_per_member=2)
    folded = fold_distinct(copies, distinct, by_rank=by_rank)
    # 6 cross the network, and go to the other rank of their server in addition
    assert folded.tolist() == [[10, 6], [0, 6]]
    every = fold_distinct(copies, distinct)
    assert every.tolist() == [[20, 6], [0, 12]]


def test_member_tokens_marks_what_is_expected():
    source = synthetic("mixtral", ranks=8, experts=32, tokens_per_rank=500, top_k=4, seed=1)
    index = {"group": 0, "layers": [0, 1], "micro_batches": 2, "step": 0}
    plain = member_tokens(source, MemberPlacement(4, 2), **index)
    once = member_tokens(source, MemberPlacement(4, 2, deduplicate=True), **index)
    assert (plain.expected, once.expected) == (False, True)
    assert not plain.exact
    assert plain.tokens.shape == (2, 2, 4, 4)
    assert (plain.tokens.sum(axis=(-1, -2)) == once.tokens.sum(axis=(-1, -2))).all()
    off = ~np.eye(4, dtype=bool)
    assert (once.tokens[..., off] < plain.tokens[..., off]).all()
    assert (once.combine() == np.swapaxes(once.tokens, -1, -2)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: check_groups(s, 3, 1), "16 experts do not divide into 3 expert groups"),
        (lambda s: check_groups(s, 4, 5), "top groups: expected 1 to 4, got 5"),
        (lambda s: check_groups(s, 16, 3), "3 groups of 1 experts hold fewer than the 4 experts"),
        (
            lambda s: expected_distinct(even(s), s, members=3),
            "16 experts do not divide over 3 members",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(DemandError, match=message):
        call(Shape(4, 16, 100, 4))


@pytest.mark.parametrize(("members", "groups", "top_groups"), [(8, 8, 4), (64, 8, 4), (8, 1, 1)])
def test_one_gate_for_all_sources_reaches_as_many_servers(members, groups, top_groups):
    shape = Shape(64, 256, 4096, 8)
    source = synthetic("mixtral", **vars(shape), seed=0)
    tokens = source.tokens(group=0, layers=[3], micro_batches=1, step=0)
    limits = {"members": members, "num_groups": groups, "top_groups": top_groups}
    by_source = expected_distinct(tokens, shape, **limits)
    mean = mean_distinct(rank_sums(tokens), shape, **limits)
    assert mean.sum() == pytest.approx(by_source.sum(), rel=1e-3)
    assert mean.sum(axis=-2) == pytest.approx(by_source.sum(axis=-2), rel=0.01)
    if members == groups:
        assert (mean.sum(axis=-1) <= top_groups * shape.tokens_per_rank * (1 + 1e-9)).all()


@pytest.mark.parametrize("top_groups", [2, 3, 4])
@pytest.mark.parametrize("is_mean", [False, True])
def test_no_token_is_expected_at_more_servers_than_its_limit(is_mean, top_groups):
    """However skewed: where a server is a group, tokens reach ``top_groups`` each at most."""
    rng = np.random.default_rng(top_groups)
    shape = Shape(8, 32, 200, 8)
    counts = np.zeros((8, 32), dtype=np.int64)
    for source in counts:
        liked = rng.dirichlet(np.full(8, 0.3)) + 1e-3
        for _ in range(shape.tokens_per_rank):
            groups = rng.choice(8, top_groups, replace=False, p=liked / liked.sum())
            choice = (4 * groups[:, np.newaxis] + np.arange(4)).ravel()
            source[rng.choice(choice, shape.top_k, replace=False)] += 1
    limits = {"members": 8, "num_groups": 8, "top_groups": top_groups}
    if is_mean:
        distinct = mean_distinct(rank_sums(counts), shape, **limits).sum(axis=-1)
    else:
        distinct = expected_distinct(counts, shape, **limits).sum(axis=-1)
    assert (distinct <= top_groups * shape.tokens_per_rank * (1 + 1e-9)).all()
    # a token of eight experts needs two servers of four
    assert (distinct >= 2 * shape.tokens_per_rank * (1 - 1e-9)).all()
