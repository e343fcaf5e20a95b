"""Capacity factors: what is dropped is what exceeds the capacity, and nothing else."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workload_fakes import FakeCompute, toy_model

from lightloom.demand import Shape, open_demand
from lightloom.demand.capacity import CappedSource, expert_capacity
from lightloom.demand.folding import FoldingSource, rank_sums
from lightloom.demand.placement import fold, rank_matrix, received
from lightloom.demand.source import PerTokenSource
from lightloom.errors import DemandError
from lightloom.parallel import Plan
from lightloom.workload import build, demand_shape

INDEX = {"group": 0, "layers": [0, 3], "micro_batches": 2, "step": 1}


@given(
    st.sampled_from(["auxiliary", "natural", "skewed", "sparse", "balanced", 1.4]),
    st.sampled_from([(4, 8, 300, 2), (8, 64, 512, 6), (2, 16, 1000, 3)]),
    st.floats(0.05, 4),
    st.integers(0, 5),
)
@settings(max_examples=60, deadline=None)
def test_copies_are_kept_up_to_the_capacity(name, sizes, factor, seed):
    shape = Shape(*sizes)
    routed = open_demand(name, shape, seed=seed).tokens(**INDEX)
    source = open_demand(name, shape, seed=seed, capacity_factor=factor)
    kept = source.tokens(**INDEX)
    assert (kept == np.minimum(routed, expert_capacity(shape, factor))).all()
    members = shape.ranks // 2
    folded = source.folded(**INDEX, members=members, rank_level=True)
    assert (folded.tokens == fold(kept, members=members, ranks_per_member=2)).all()
    assert (folded.rank_tokens == rank_matrix(kept)).all()
    assert (folded.received == received(kept).sum(axis=-1)).all()
    for part, value in vars(rank_sums(kept)).items():
        assert (getattr(source.summed(**INDEX), part) == value).all()
    # what is kept stays on its rank or crosses to another
    assert folded.stayed + int(folded.tokens.sum()) == int(kept.sum())


def test_a_balanced_gate_drops_nothing():
    shape = Shape(8, 64, 4096, 6)
    routed = open_demand("balanced", shape, seed=0).tokens(**INDEX)
    assert (
        open_demand("balanced", shape, seed=0, capacity_factor=1.0).tokens(**INDEX) == routed
    ).all()


def test_less_is_dropped_with_more_capacity():
    shape = Shape(8, 64, 4096, 6)
    kept = [
        open_demand("auxiliary", shape, seed=0, capacity_factor=factor).tokens(**INDEX).sum()
        for factor in (0.5, 1.0, 1.25, 2.0, 100.0)
    ]
    assert kept == sorted(kept)
    # half the capacity keeps at most half; enough keeps everything
    assert kept[0] <= 0.5 * kept[-1]
    assert kept[-1] == 2 * 2 * shape.ranks * shape.copies_per_rank


def test_what_an_expert_takes():
    assert expert_capacity(Shape(8, 64, 4096, 6), 1.0) == 384
    assert expert_capacity(Shape(8, 64, 100, 1), 1.0) == 2  # rounded up, as Megatron does
    for factor in (0, -1, float("nan"), float("inf")):
        with pytest.raises(DemandError, match="capacity factor: expected a number above 0"):
            expert_capacity(Shape(8, 64, 100, 1), factor)


def test_every_kind_of_source_can_drop(tmp_path):
    shape = Shape(2, 4, 100, 2)
    matrix = tmp_path / "matrix.json"
    matrix.write_text(json.dumps([[90, 60, 40, 10], [50, 50, 50, 50]]))
    source = open_demand(str(matrix), shape, seed=0, capacity_factor=1.2)
    assert source.exact
    assert source.provenance["capacity_factor"].startswith("1.2: an expert takes at most 60")
    assert source.tokens(**INDEX)[1, 1].tolist() == [[60, 60, 40, 10], [50, 50, 50, 50]]
    assert isinstance(source, FoldingSource)
    # which tokens are dropped is not known
    assert not isinstance(source, PerTokenSource)


@pytest.mark.parametrize("deduplicate", [False, True])
def test_a_step_moves_and_computes_what_is_kept(deduplicate):
    from lightloom.workload.options import WorkloadOptions

    model = toy_model()
    plan = Plan(gpus=16, ep=16, micro_batches=2, seq_len=256)
    shape = demand_shape(model, plan)
    options = WorkloadOptions(deduplicate=deduplicate)
    loads = []
    for source in (
        open_demand("skewed", shape, seed=3),
        CappedSource(open_demand("skewed", shape, seed=3), 1.1),
    ):
        # building checks that what is sent is what the counts imply
        workload = build(model, plan, demand=source, compute=FakeCompute(), options=options)
        loads.append(workload)
    free, capped = loads
    assert free.folded.dropped_share == 0
    assert "demand.dropped" not in free.provenance
    share = 1 - capped.folded.copies / free.folded.copies
    assert 0.05 < share == pytest.approx(capped.folded.dropped_share)
    assert capped.provenance["demand.dropped"] == f"{share:.3%} of the token copies"
    assert capped.expected_bytes["ep"] < free.expected_bytes["ep"]
    assert capped.folded.slowest.max() < free.folded.slowest.max()
