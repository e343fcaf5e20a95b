"""Demand for any shape and index: conservation, order of calls, bounds."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.demand import (
    REGIMES,
    MemberPlacement,
    Shape,
    combine,
    expected_distinct,
    fold,
    imbalance_of,
    member_tokens,
    rank_matrix,
    received,
    synthetic,
)
from lightloom.demand.matrix_file import scale_rows

seeds = st.integers(0, 2**63)
indices = st.integers(0, 2**40)


@st.composite
def shapes(draw):
    ranks = draw(st.integers(1, 6))
    experts = ranks * draw(st.integers(1, 5))
    return Shape(ranks, experts, draw(st.integers(1, 500)), draw(st.integers(1, experts)))


@st.composite
def sources(draw):
    shape = draw(shapes())
    regime = draw(st.sampled_from(REGIMES))
    changes = {}
    if regime != "uniform":
        changes = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "logit_sd": st.floats(0, 4),
                    "rho": st.floats(0, 1),
                    "concentration": st.floats(0.05, 1e6),
                    "persistent_share": st.floats(0, 1),
                },
            )
        )
        extra = draw(st.sampled_from(["none", "topics", "hold_steps"]))
        if extra != "none":
            changes[extra] = draw(st.integers(1, 9))
        if extra == "hold_steps":
            changes["topics"] = 0
    return synthetic(regime, **vars(shape), seed=draw(seeds), **changes)


@settings(deadline=None, max_examples=80)
@given(sources(), indices, st.lists(indices, min_size=1, max_size=3), st.integers(0, 2**20))
def test_every_source_sends_every_token_top_k_times(source, group, layers, step):
    shape = source.shape
    counts = source.tokens(group=group, layers=layers, micro_batches=2, step=step)
    assert counts.shape == (len(layers), 2, shape.ranks, shape.experts)
    assert (counts.sum(axis=-1) == shape.copies_per_rank).all()
    assert counts.min() >= 0
    assert counts.max() <= shape.tokens_per_rank


@settings(deadline=None, max_examples=40)
@given(sources(), indices, st.permutations(range(4)), st.integers(0, 2**20))
def test_counts_depend_on_the_index_alone(source, group, layers, step):
    whole = source.tokens(group=group, layers=layers, micro_batches=3, step=step)
    for place, layer in enumerate(layers):
        alone = source.tokens(group=group, layers=[layer], micro_batches=2, step=step)
        assert (alone[0] == whole[place, :2]).all()


@st.composite
def placed(draw):
    members = draw(st.integers(1, 4))
    per_member = draw(st.integers(1, 3))
    per_rank = draw(st.integers(1, 3))
    ranks = members * per_member
    experts = ranks * per_rank
    top_k = draw(st.integers(1, min(experts, 6)))
    shape = Shape(ranks, experts, draw(st.integers(1, 300)), top_k)
    regime = draw(st.sampled_from(["mixtral", "pair", "sparse", "uniform"]))
    source = synthetic(regime, **vars(shape), seed=draw(seeds))
    return source, members, per_member


@settings(deadline=None, max_examples=80)
@given(placed())
def test_folding_loses_no_copy(case):
    source, members, per_member = case
    counts = source.tokens(group=0, layers=[0], micro_batches=2, step=0)
    matrix = rank_matrix(counts)
    folded = fold(counts, members=members, ranks_per_member=per_member)
    own = np.einsum("lmrre->lmr", counts.reshape(*counts.shape[:3], counts.shape[2], -1))
    assert (folded.sum(axis=(-1, -2)) == counts.sum(axis=(-1, -2)) - own.sum(axis=-1)).all()
    assert (matrix.sum(axis=(-1, -2)) == folded.sum(axis=(-1, -2))).all()
    assert (received(counts).sum(axis=(-1, -2)) == counts.sum(axis=(-1, -2))).all()
    # a copy that is sent in dispatch comes back in combine
    assert (combine(matrix).sum(axis=-1) == matrix.sum(axis=-2)).all()


@settings(deadline=None, max_examples=60)
@given(placed(), st.booleans())
def test_deduplication_keeps_the_sum_and_its_bounds(case, limited):
    source, members, per_member = case
    shape = source.shape
    groups, top = 1, 1
    if limited:
        groups = members
        top = min(members, -(-shape.top_k // (shape.experts // members)) + 1)
    placement = MemberPlacement(members, per_member, num_groups=groups, top_groups=top)
    once = MemberPlacement(members, per_member, True, groups, top)
    index = {"group": 1, "layers": [2], "micro_batches": 2, "step": 3}
    plain = member_tokens(source, placement, **index).tokens.astype(np.int64)
    fewer = member_tokens(source, once, **index).tokens.astype(np.int64)
    assert (plain.sum(axis=(-1, -2)) == fewer.sum(axis=(-1, -2))).all()
    off = ~np.eye(members, dtype=bool)
    assert (fewer[..., off] <= plain[..., off]).all()
    assert (fewer[..., off] <= per_member * shape.tokens_per_rank).all()
    diagonal = np.arange(members)
    assert (fewer[..., diagonal, diagonal] >= plain[..., diagonal, diagonal]).all()


@settings(deadline=None, max_examples=60)
@given(placed())
def test_expected_tokens_lie_between_the_largest_expert_and_all_copies(case):
    source, members, _ = case
    shape = source.shape
    counts = source.tokens(group=0, layers=[0], micro_batches=1, step=0)
    found = expected_distinct(counts, shape, members=members)
    parts = counts.reshape(*counts.shape[:-1], members, -1)
    assert np.isfinite(found).all()
    assert (found >= parts.max(axis=-1)).all()
    assert (found <= np.minimum(parts.sum(axis=-1), shape.tokens_per_rank)).all()


@given(
    st.lists(st.lists(st.integers(0, 2**31), min_size=3, max_size=3), min_size=1, max_size=4),
    st.integers(1, 2**31),
)
def test_scaled_rows_have_the_total_and_nearly_the_shares(rows, total):
    matrix = np.array(rows)
    matrix[:, 0] += 1
    scaled = scale_rows(matrix, total, "m")
    assert (scaled.sum(axis=1) == total).all()
    exact = matrix * (total / matrix.sum(axis=1, keepdims=True))
    assert np.abs(scaled - exact).max() < 1 + 1e-6


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40).filter(any))
def test_skew_stays_in_its_bounds(values):
    found = imbalance_of(np.array(values))
    assert found.max_over_mean >= 1 - 1e-9
    assert found.max_over_mean <= len(values) * (1 + 1e-9)
    assert -1e-9 <= found.gini <= 1 - 1 / len(values) + 1e-9
    assert -1e-9 <= found.entropy <= 1 + 1e-9
    assert 0 < found.top_share <= 1 + 1e-9
    assert found.top_share >= found.top / len(values) - 1e-9
