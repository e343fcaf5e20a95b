"""Which strategy each layer of a step takes."""

import dataclasses
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workload_fakes import FakeCompute, balanced, build_toy, toy_model

from lightloom.demand.generator import synthetic
from lightloom.errors import PlanError
from lightloom.fabric import Cluster
from lightloom.hardware import load_gpu
from lightloom.parallel import Plan
from lightloom.parallel.overlap import CHUNKED, MAX_CHUNKS
from lightloom.planner.all_to_all import AllToAll
from lightloom.planner.cluster import cluster_of
from lightloom.planner.layers import CHOICES, choose_strategies, layer_volumes
from lightloom.planner.strategy import AllToAllStrategy
from lightloom.practice import PlanStrategy
from lightloom.workload import WorkloadOptions, build, demand_shape, rebuild
from lightloom.workload.strategies import LayerStrategy

MODEL = toy_model(hidden_size=1024, moe_layers=(False, True, True, True))
PLAN = Plan(gpus=32, tp=4, ep=4, pp=2, micro_batches=4, seq_len=4096, strategy="auto")
CLUSTER = Cluster.of(gpus=32, rate_gbps=200, gpu="h100", gpus_per_server=4, nics_per_server=4)


def built(plan=PLAN, model=MODEL, regime="mixtral", **options):
    demand = synthetic(regime, **vars(demand_shape(model, plan)), seed=1)
    workload_options = WorkloadOptions(**options)
    choose = choose_strategies(model, plan, workload_options, CLUSTER, load_gpu("h100"))
    return build(
        model,
        plan,
        demand=demand,
        compute=FakeCompute(),
        gpus_per_server=4,
        options=workload_options,
        choose=choose,
    )


def test_names_are_those_of_the_planner():
    assert set(get_args(PlanStrategy)) == {*map(str, AllToAllStrategy), "auto"}
    assert [str(s) for s in AllToAllStrategy if s.is_chunked] == list(CHUNKED)


@pytest.mark.parametrize("schedule", ["1f1b", "dualpipe"])
def test_volumes_of_balanced_layers_are_those_by_hand(schedule):
    plan = dataclasses.replace(PLAN, strategy="O1", schedule=schedule)
    folded = build_toy(plan, MODEL, gpus_per_server=4).folded
    volumes = layer_volumes(MODEL, plan, WorkloadOptions(dispatch_element_bytes=1.0), folded)
    assert len(volumes) == 3
    # two copies of each token; of four EP ranks three are elsewhere
    copies = 2 * 4096
    for volume in volumes:
        assert volume.between_bytes == copies * 3 / 4 * 1024
        assert volume.within_bytes == 0
        assert volume.gathered_bytes == copies * 2048


def test_each_layer_takes_the_fastest_for_its_volume():
    workload = built()
    where = cluster_of(CLUSTER, load_gpu("h100"), tp=4, ep=4, ranks_per_server=1)
    planned = AllToAll(where.model_copy(update={"gpus_per_server": 4}), 4, 4)
    volumes = layer_volumes(MODEL, PLAN, WorkloadOptions(), workload.folded)
    assert list(workload.strategies) == [1, 2, 3]
    for volume, found in zip(volumes, workload.strategies.values(), strict=True):
        timed = {s: planned.best(s, volume, MAX_CHUNKS) for s in CHOICES}
        best = min(timed, key=lambda s: timed[s].time_s)
        assert found == LayerStrategy(best.value, timed[best].chunks, planned.chunk_s(best))


def test_a_cluster_says_what_is_chosen_from(monkeypatch):
    def only_o2(*arguments, **named):
        choices = {"choices": (AllToAllStrategy.BASELINE, AllToAllStrategy.O2)}
        return cluster_of(*arguments, **named).model_copy(update=choices)

    assert {found.strategy for found in built().strategies.values()} != {"O2"}
    monkeypatch.setattr("lightloom.planner.layers.cluster_of", only_o2)
    assert {found.strategy for found in built().strategies.values()} == {"O2"}


def test_layers_with_more_bytes_are_cut_into_more_chunks():
    chunks = []
    for seq_len in (2048, 8192, 32768, 131072):
        plan = dataclasses.replace(PLAN, strategy="O3", seq_len=seq_len)
        chunks.append(built(plan, regime="uniform").strategies[1].chunks)
    assert chunks == sorted(set(chunks))


def test_few_bytes_are_not_worth_a_chunk():
    plan = dataclasses.replace(PLAN, seq_len=64)
    assert {one.strategy for one in built(plan, regime="uniform").strategies.values()} == {"O1"}


@given(st.sampled_from(["O2", "O3", "O4", "auto"]), st.integers(1, 9))
@settings(max_examples=10, deadline=None)
def test_a_given_number_of_chunks_is_kept(strategy, chunks):
    plan = dataclasses.replace(PLAN, strategy=strategy, strategy_chunks=chunks)
    for found in built(plan).strategies.values():
        assert found.chunks == (1 if found.strategy == "O1" else chunks)
        assert strategy in ("auto", found.strategy)


def test_the_busiest_member_decides():
    even, skewed = (
        layer_volumes(MODEL, PLAN, WorkloadOptions(), built(regime=regime).folded)
        for regime in ("uniform", "sparse")
    )
    for one, other in zip(even, skewed, strict=True):
        assert other.gathered_bytes > one.gathered_bytes
        assert other.between_bytes > one.between_bytes


def test_what_is_left_open_needs_a_chooser():
    for plan in (PLAN, dataclasses.replace(PLAN, strategy="O2")):
        with pytest.raises(
            PlanError, match=r"give build one of planner\.layers\.choose_strategies"
        ):
            build_toy(plan, MODEL, gpus_per_server=4)
    plan = dataclasses.replace(PLAN, strategy="O2", strategy_chunks=3)
    workload = build_toy(plan, MODEL, gpus_per_server=4)
    assert set(workload.strategies.values()) == {LayerStrategy("O2", 3)}


def test_nothing_is_gathered_where_copies_are_not_counted():
    plan = dataclasses.replace(PLAN, strategy="O2", strategy_chunks=3)
    options = WorkloadOptions(moe_tp="sequence")
    with pytest.raises(PlanError, match="strategy O2 with moe-tp = sequence: no copies are gath"):
        build(MODEL, plan, demand=balanced(MODEL, plan), compute=FakeCompute(), options=options)


def test_a_rebuilt_step_keeps_its_strategies():
    first = built()
    again = rebuild(first, compute=FakeCompute(), compute_scale=1.1)
    assert again.strategies == first.strategies
    assert again.traffic == first.traffic
    for role, other in zip(first.graph.roles, again.graph.roles, strict=True):
        np.testing.assert_array_equal(role.program.handle, other.program.handle)
