"""Demand on workers: folding, sums, shapes, de-duplication, laziness."""

import dataclasses
import os
import threading
import tracemalloc

import numpy as np
import pytest
from tests.workload_fakes import FakeCompute, table, toy_model

from lightloom.demand.folding import fold_counts, rank_sums
from lightloom.demand.generator import synthetic
from lightloom.errors import DemandError
from lightloom.parallel import Plan, RankGrid, place_workers
from lightloom.workload import WorkloadOptions, demand_shape
from lightloom.workload.builder import TaskGraphBuilder
from lightloom.workload.expert_passes import ExpertPasses, expert_seconds
from lightloom.workload.tokens import add_tables, fold_demand, moe_layers

MODEL = toy_model(moe_layers=(False, True, True, False, True, True, True))
PLAN = Plan(gpus=64, tp=2, ep=16, dp=1, pp=2, micro_batches=3, seq_len=128)


def fold(plan=PLAN, model=MODEL, regime="sparse", step=0, **options):
    demand = synthetic(regime, **vars(demand_shape(model, plan)), seed=3)
    workers = place_workers(RankGrid(plan), 8)
    settings = WorkloadOptions(**options)
    return demand, fold_demand(model, plan, workers, demand, settings, step=step)


def tables(plan, compute, scale, folded, options=None):
    """A task graph with what follows from folded counts, and where that is."""
    groups, _, members = folded.slowest.shape
    workers = np.arange(groups * members)
    graph = TaskGraphBuilder(workers, 8)
    family = graph.family("ep", workers.reshape(groups, members))
    graph.role("all", workers)
    job = (MODEL, plan, options or WorkloadOptions())
    loads = (folded.slowest, folded.mean_load())
    passes = ExpertPasses(MODEL, plan, compute, scale, loads)
    added = add_tables(graph, family, job, passes, folded)
    return graph.build(), added


def by_worker(values):
    """From (groups, blocks, members) to (workers, blocks)."""
    return np.concatenate(list(np.moveaxis(values, 1, 2)))


def test_the_shape_of_demand_follows_from_model_and_plan():
    shape = demand_shape(MODEL, PLAN)
    assert vars(shape) == {"ranks": 16, "experts": 16, "tokens_per_rank": 128, "top_k": 2}
    folded = Plan(gpus=64, tp=4, ep=16, dp=4, expert_mode="folded", seq_len=128)
    assert demand_shape(MODEL, folded).tokens_per_rank == 32


def test_moe_layers_are_numbered_without_the_dense_ones():
    assert moe_layers(MODEL, PLAN) == [[0, 1], [2, 3, 4]]
    assert moe_layers(MODEL, Plan(gpus=2, pp=2, vpp=2, pp_layout=(2, 2, 2, 1))) == [
        [0, 2, 3],
        [1, 4],
    ]


def test_blocks_against_sums_over_ranks():
    demand, folded = fold(rank_level=True)
    assert folded.tokens.shape == (2, 9, 4, 4)
    assert folded.tokens.dtype == np.uint32
    for group, layers in enumerate([[0, 1], [2, 3, 4]]):
        counts = demand.tokens(group=0, layers=layers, micro_batches=3, step=0)
        for index, micro_batch in np.ndindex(len(layers), 3):
            block = folded.tokens[group, index * 3 + micro_batch]
            expected = np.zeros((4, 4), dtype=int)
            arrived = np.zeros(16, dtype=int)
            for source, expert in np.ndindex(16, 16):
                copies = counts[index, micro_batch, source, expert]
                arrived[expert] += copies
                if source != expert:  # 16 experts on 16 ranks
                    expected[source // 4, expert // 4] += copies
            assert block.tolist() == expected.tolist()
            slowest = folded.slowest[group, index * 3 + micro_batch]
            assert slowest.tolist() == arrived.reshape(4, 4).max(axis=1).tolist()
            received = folded.received[group, index * 3 + micro_batch]
            assert received.tolist() == arrived.reshape(4, 4).sum(axis=1).tolist()
    assert not folded.tokens[0, 6:].any()  # stage 0 has two MoE layers only


def test_sums_are_kept():
    _, folded = fold()
    # 5 layers, 3 micro-batches, 16 ranks of 128 tokens, top-2
    assert folded.copies == 5 * 3 * 16 * 128 * 2
    assert int(folded.received.sum()) == folded.copies
    assert int(folded.tokens.sum()) == folded.copies - folded.stayed
    assert folded.rank_tokens is None


def test_rank_level_counts_fold_to_the_same():
    _, folded = fold(rank_level=True)
    ranks = folded.rank_tokens
    assert ranks.shape == (2, 9, 16, 16)
    assert not ranks[..., np.arange(16), np.arange(16)].any()
    again = ranks.reshape(2, 9, 4, 4, 4, 4).sum(axis=(3, 5))
    assert (again == folded.tokens).all()


def test_deduplication_moves_copies_from_the_network_to_the_server():
    plan = dataclasses.replace(PLAN, seq_len=1024)
    model = dataclasses.replace(MODEL, experts_per_token=4)
    _, plain = fold(plan, model, "mixtral", rank_level=True)
    _, once = fold(plan, model, "mixtral", rank_level=True, deduplicate=True)
    assert (once.tokens.sum(axis=(2, 3)) == plain.tokens.sum(axis=(2, 3))).all()
    across = ~np.eye(4, dtype=bool)
    assert once.tokens[..., across].sum() < 0.9 * plain.tokens[..., across].sum()
    # one expert per rank: no token has two copies for a rank
    assert (once.rank_tokens == plain.rank_tokens).all()
    wide = dataclasses.replace(model, num_experts=64)
    _, plain = fold(plan, wide, "mixtral", rank_level=True)
    _, once = fold(plan, wide, "mixtral", rank_level=True, deduplicate=True)
    assert (once.rank_tokens <= plain.rank_tokens).all()
    assert 0.8 * plain.rank_tokens.sum() < once.rank_tokens.sum() < plain.rank_tokens.sum()
    assert (once.slowest == plain.slowest).all()
    assert (once.received == plain.received).all()


def test_replicas_see_other_data_and_stages_the_same():
    plan = Plan(gpus=128, tp=2, ep=16, dp=2, pp=2, micro_batches=3, seq_len=128)
    demand, folded = fold(plan)
    assert (folded.tokens[0] != folded.tokens[1]).any()
    counts = demand.tokens(group=1, layers=[2], micro_batches=3, step=0)
    # group 3 is stage 1, replica 1
    assert folded.slowest[3, :3].max() == counts.sum(axis=2).max()


def test_late_micro_batches_of_dualpipe_pass_the_opposite_places():
    plain = dataclasses.replace(PLAN, micro_batches=4, dp=2, gpus=2 * PLAN.gpus)
    both = dataclasses.replace(plain, schedule="dualpipe")
    _, by_stage = fold(plain, rank_level=True)
    _, by_place = fold(both, rank_level=True)
    for name in ("tokens", "rank_tokens", "slowest", "received"):
        stages = getattr(by_stage, name).reshape(2, 2, 3, 4, -1)
        places = getattr(by_place, name).reshape(2, 2, 3, 4, -1)
        assert (places[:, :, :, :2] == stages[:, :, :, :2]).all(), name
        assert (places[:, :, :, 2:] == stages[::-1, :, :, 2:]).all(), name
    assert by_place.copies == by_stage.copies


def test_steps_differ():
    assert (fold(step=0)[1].tokens != fold(step=1)[1].tokens).any()


def test_a_source_for_another_job_is_refused():
    demand = synthetic("uniform", **vars(demand_shape(MODEL, PLAN)), seed=1)
    plan = dataclasses.replace(PLAN, seq_len=256)
    workers = place_workers(RankGrid(plan), 8)
    with pytest.raises(DemandError) as caught:
        fold_demand(MODEL, plan, workers, demand, WorkloadOptions(), step=0)
    assert str(caught.value) == (
        "demand 'uniform' is for 16 EP ranks, 16 experts, 128 tokens per rank, top-2; the model "
        "and plan need 16 EP ranks, 16 experts, 256 tokens per rank, top-2"
    )


def test_expert_times_are_those_of_the_slowest_rank():
    compute = FakeCompute(per_copy_s=1e-6)
    _, folded = fold()
    graph, added = tables(PLAN, compute, 2.0, folded)
    # expert-TP 2 halves the time, the scale doubles it
    expected = by_worker(folded.slowest) * 10**6
    passes = (added.forward, added.backward)
    forward, backward = (graph.tables[times.computation].values for times in passes)
    excess = [graph.tables[times.stragglers].values for times in passes]
    assert (forward + excess[0] == expected).all()
    assert (backward + excess[1] == 2 * expected).all()
    # the experts of no worker are charged more than the mean rank of the group takes
    ranks = folded.ranks_per_member * folded.received.shape[2]
    mean = -(-folded.received.sum(axis=2, keepdims=True) // ranks)
    even = np.minimum(folded.slowest, mean)
    assert (forward == by_worker(even) * 10**6).all()
    assert (excess[0] > 0).any()
    assert graph.demands[added.demand].counts is folded.tokens
    again = FakeCompute(per_copy_s=1e-6, recompute="full")
    forward, backward = (
        expert_seconds(MODEL, PLAN, again, folded.slowest, backward=back) for back in (False, True)
    )
    assert np.allclose(backward, 2 * forward)


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_expert_collectives_carry_what_the_busiest_rank_received(tp):
    plan = Plan(gpus=16 * tp, tp=tp, ep=16, micro_batches=3, seq_len=128)
    options = WorkloadOptions(activation_element_bytes=4.0)
    _, folded = fold(plan)
    graph, added = tables(plan, FakeCompute(), 1.0, folded, options)
    busiest, total = (graph.tables[index].values for index in added.gathered)
    # 64 elements of 4 bytes; every GPU sends its 1/t of the copies to t - 1 others
    per_gpu = by_worker(folded.slowest) * 64 * 4 * (tp - 1) // tp
    assert (busiest == per_gpu).all()
    assert int(total.sum()) == folded.copies * 64 * 4 * (tp - 1)
    assert busiest.dtype == total.dtype == np.uint64
    one_rank = 8 // tp == 1
    assert (total == tp * per_gpu).all() == one_rank
    for other in ("sequence", "none"):
        graph, _ = tables(plan, FakeCompute(), 1.0, folded, WorkloadOptions(moe_tp=other))
        assert table(graph, "expert_tp_per_gpu_bytes") is None
        assert table(graph, "expert_tp_total_bytes") is None


def test_memory_is_that_of_the_folded_counts():
    """256 groups of 64 ranks: a matrix over all 16,384 ranks would take gigabytes."""
    plan = Plan(gpus=16384, ep=64, dp=256, micro_batches=4, seq_len=64)
    model = toy_model(num_experts=64, moe_layers=(True, True))
    demand = synthetic("uniform", **vars(demand_shape(model, plan)), seed=1)
    workers = place_workers(RankGrid(plan), 8)
    tracemalloc.start()
    folded = fold_demand(model, plan, workers, demand, WorkloadOptions(), step=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert folded.tokens.shape == (256, 8, 8, 8)
    assert peak < 30e6


class _InPython:
    """A source of someone's own, which notes who asks; and fails at a group, if it is to."""

    def __init__(self, source, fails_at=None):
        self.name, self.provenance, self.exact = source.name, source.provenance, source.exact
        self.shape, self.source, self.fails_at = source.shape, source, fails_at
        self.threads = set()

    def tokens(self, **index):
        self.threads.add(threading.get_ident())
        if index["group"] == self.fails_at:
            raise DemandError("no such group")
        return self.source.tokens(**index)


class _Folding(_InPython):
    def folded(self, *, members, rank_level=False, **index):
        return fold_counts(self.tokens(**index), members=members, rank_level=rank_level)

    def summed(self, **index):
        return rank_sums(self.tokens(**index))


@pytest.mark.parametrize("deduplicate", [False, True])
@pytest.mark.parametrize("kind", [_InPython, _Folding])
def test_groups_may_be_folded_at_once(monkeypatch, kind, deduplicate):
    plan = Plan(gpus=256, ep=16, dp=8, pp=2, micro_batches=3, seq_len=128)
    demand = kind(synthetic("sparse", **vars(demand_shape(MODEL, plan)), seed=3))
    workers = place_workers(RankGrid(plan), 8)
    options = WorkloadOptions(deduplicate=deduplicate, rank_level=True)
    folds = []
    for cores in (1, 4):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        folds.append(fold_demand(MODEL, plan, workers, demand, options, step=0))
        assert (demand.threads == {threading.get_ident()}) is (cores == 1 or kind is _InPython)
    first, other = map(vars, folds)
    for name, value in first.items():
        assert np.array_equal(value, other[name]), name


def test_what_is_wrong_with_a_group_is_said(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    plan = Plan(gpus=256, ep=16, dp=8, pp=2, micro_batches=3, seq_len=128)
    demand = _Folding(synthetic("sparse", **vars(demand_shape(MODEL, plan)), seed=3), fails_at=5)
    workers = place_workers(RankGrid(plan), 8)
    with pytest.raises(DemandError, match="no such group"):
        fold_demand(MODEL, plan, workers, demand, WorkloadOptions(), step=0)
