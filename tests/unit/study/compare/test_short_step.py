"""A short step of a job, and the strategies that it rules out."""

import dataclasses
from types import SimpleNamespace

import pytest

from lightloom.fabric import Setting, load_fabric
from lightloom.study.compare import PlanOptions, compare, strategies
from lightloom.study.compare.budget import MAX_SHARE, Budget
from lightloom.study.compare.job import prepare
from lightloom.study.compare.results import Sample
from lightloom.study.compare.runner import Attempt
from lightloom.study.compare.short_step import MAX_STAGES, MIN_LAYERS
from lightloom.study.compare.variants import Strategy


def done(fabric, strategy, step_time_s):
    attempt = Attempt(load_fabric(fabric), Sample(0, 0), Strategy(Setting("all_to_all", strategy)))
    return SimpleNamespace(attempt=attempt, run=SimpleNamespace(step_time_s=step_time_s))


@pytest.mark.parametrize(
    ("changes", "stages", "layers", "micro_batches"),
    [
        ({}, None, 8, 4),
        ({"gpus": 64, "plan": PlanOptions(tp=1, pp=8, ep=8, vpp=2, micro_batches=32)}, 4, 8, 4),
        # four stages share a server
        ({"gpus": 16, "plan": PlanOptions(tp=1, pp=8, ep=2, micro_batches=32)}, None, 8, 8),
        ({"model": "deepseek-v3", "gpus": 1024, "plan": PlanOptions()}, 4, 8, 8),
    ],
)
def test_a_short_step_keeps_what_shares_the_network(
    scenario, changes, stages, layers, micro_batches
):
    given = scenario(**{"plan": PlanOptions(micro_batches=16), "memory_check": False, **changes})
    job = prepare(given)
    short = Budget(job).short
    assert short.model.moe_layers == (True,) * layers
    assert layers >= MIN_LAYERS
    assert short.plan.micro_batches == micro_batches
    for name in ("tp", "dp", "ep", "etp", "schedule", "overlap_all_to_all", "groups_per_stage"):
        assert getattr(short.plan, name) == getattr(job.plan, name)
    assert short.plan.pp == (stages or job.plan.pp)
    assert short.plan.gpus * job.plan.pp == job.plan.gpus * short.plan.pp
    assert short.cluster.gpus * job.plan.pp == job.cluster.gpus * short.plan.pp
    share = layers * micro_batches / (job.model.num_moe_layers * job.plan.micro_batches)
    assert share <= MAX_SHARE
    # the output projection stays as large a part of the step
    per_layer = job.model.vocab_size / job.model.num_layers
    assert short.model.vocab_size / layers == pytest.approx(per_layer, rel=1e-3)


def test_stages_that_alternate_on_servers_all_stay(scenario):
    job = prepare(scenario(gpus=64, plan=PlanOptions(tp=1, pp=8, ep=8, micro_batches=32)))
    mixed = dataclasses.replace(job.plan, order="tp-cp-pp-ep-dp")
    assert Budget(job).short.plan.pp == MAX_STAGES
    assert Budget(dataclasses.replace(job, plan=mixed)).short.plan.pp == 8


def test_all_stages_stay_where_parts_have_failed(scenario):
    job = prepare(scenario(gpus=64, plan=PlanOptions(tp=1, pp=8, ep=8, micro_batches=32)))
    lacking = load_fabric("mixnet").replace(failed=("server:7",))
    assert Budget(dataclasses.replace(job, fabrics=(lacking,))).short.plan.pp == 8


def test_what_is_short_already_is_not_shortened(scenario):
    few = scenario(plan=PlanOptions(micro_batches=2), memory_check=False)
    assert Budget(prepare(few)).short is None
    dense = scenario(model="llama-3-8b", plan=PlanOptions(tp=8, pp=1, micro_batches=64))
    assert Budget(prepare(dense)).short is None


def test_strategies_that_are_clearly_slower_are_ruled_out():
    times = {"rail": 1.0, "flat": 1.2, "hierarchical": 1.05}
    short = [
        *(done("rail", name, time) for name, time in times.items()),
        done("oversub", "flat", 2),
    ]
    trials = [one.attempt for one in short]
    kept, slower = strategies.contenders(trials, short)
    assert kept == [trials[0], trials[2], trials[3]]
    assert slower == {"rail": {short[1].attempt.variant: pytest.approx(1.2)}, "oversub": {}}
    whole = [done("rail", "rail", 10.0), done("rail", "hierarchical", 10.1)]
    assert strategies.reason(whole[0], [*whole, done("oversub", "flat", 9.0)], slower["rail"]) == (
        "10 s on the first sample; hierarchical 10.1 s; slower on a short step: flat 20 %"
    )
    assert strategies.reason(whole[0], whole[:1], {}) == "10 s on the first sample"


def test_the_choice_is_that_of_whole_steps(scenario, monkeypatch):
    given = scenario(
        fabrics=("fat-tree",), gpus=64, plan=PlanOptions(tp=1, pp=4, ep=16, micro_batches=16),
        model="qwen3-30b-a3b", seeds=1, compute_spread=0.0, imbalances=False,
    )  # fmt: skip
    result = compare(given).results[0]
    tried = [name for name in result.variants_s if name.startswith("all_to_all=")]
    assert len(tried) < 3
    assert "slower on a short step" in result.notes[0]
    monkeypatch.setattr(strategies, "MARGIN", float("inf"))
    whole = compare(given).results[0]
    assert len([name for name in whole.variants_s if name.startswith("all_to_all=")]) == 3
    assert whole.parameters["all_to_all"] == result.parameters["all_to_all"]
    assert whole.step_time_s == result.step_time_s
