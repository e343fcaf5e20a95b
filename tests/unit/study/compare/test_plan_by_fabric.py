"""Each fabric has the plan that is the fastest on it, where a search finds several."""

import dataclasses
import io
import json
import math

import pytest
from rich.console import Console

from lightloom.report.page import render
from lightloom.report.plans_table import plans_grid, plans_sentence
from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario, compare
from lightloom.study.compare.advice import advise
from lightloom.study.compare.plan_candidates import PredictedPlan
from lightloom.study.compare.plan_search import PLAIN, SAME_PLAN, _by_plan, planned_jobs, title
from lightloom.study.compare.results import Comparison

FABRICS = ("mixnet", "fat-tree", "topoopt")


def job(fabrics=FABRICS, **plan):
    """A job on slow links, on which MixNet carries little but all-to-alls fast."""
    return Scenario(
        model="olmoe-1b-7b",
        gpus=32,
        fabrics=fabrics,
        cluster=ClusterOptions(rate_gbps=100, gpu="h100"),
        plan=PlanOptions(**{"tp": 1, "micro_batch_size": 1, "expert_mode": "folded", **plan}),
        seeds=1,
        compute_spread=0.0,
        imbalances=False,
        policies=False,
    )


@pytest.fixture(scope="module")
def jobs():
    return planned_jobs(job())


@pytest.fixture(scope="module")
def found():
    return compare(job(), with_timeline=True)


def test_every_fabric_is_in_one_job(jobs):
    names = [fabric.name for one in jobs for fabric in one.fabrics]
    assert sorted(names) == sorted(FABRICS)
    assert jobs[0].fabrics[0].name == FABRICS[0]
    assert len({title(one.plan) for one in jobs}) == len(jobs) > 1
    assert len({one.plan.tokens_per_step for one in jobs}) == 1


def test_a_plan_is_the_best_of_those_that_were_tried_there(jobs):
    tried = [one for one in jobs[0].candidates if len(one.predicted_by_fabric_s) == len(FABRICS)]
    assert len(tried) > 1
    for one in jobs:
        own = next(c for c in tried if title(c) == title(one.plan))
        for fabric in one.fabrics:
            best = min(c.predicted_by_fabric_s[fabric.name] for c in tried)
            assert own.predicted_by_fabric_s[fabric.name] <= best * SAME_PLAN


def test_the_whole_step_is_faster_than_with_another_fabrics_plan(found):
    usual = found.result("fat-tree").plan
    given = {name: usual[name] for name in ("tp", "pp", "ep", "vpp", "micro_batches")}
    with_it = compare(job(("mixnet",), **given)).result("mixnet")
    assert found.result("mixnet").step_time_s * SAME_PLAN < with_it.step_time_s


def test_a_step_is_that_of_the_plan_given_by_hand(found):
    own = found.result("mixnet").plan
    given = {name: own[name] for name in ("tp", "pp", "ep", "vpp", "micro_batches")}
    alone = compare(job(("mixnet",), **given)).result("mixnet")
    assert alone.run_hash == found.result("mixnet").run_hash


def test_results_are_in_order_and_have_their_plans(found):
    assert [one.fabric for one in found.results] == list(FABRICS)
    fastest = min(one.step_time_s for one in found.results)
    for one in found.results:
        assert one.ratio_to_fastest[1] == pytest.approx(one.step_time_s / fastest)
        assert title(one.plan) == title(found.details["jobs"][one.fabric].plan)
        workers = found.details["workloads"][one.fabric].worker_names()
        assert set(found.details["runs"][one.fabric].run.timeline.worker.tolist()) <= set(workers)
    again = Comparison.from_json(json.loads(json.dumps(found.to_json())))
    assert [one.plan for one in again.results] == [
        json.loads(json.dumps(one.plan)) for one in found.results
    ]


def test_the_sentence_says_which_plan_is_whose(found):
    text = plans_sentence(found)
    own, usual = (title(found.result(name).plan) for name in ("mixnet", "fat-tree"))
    assert text.startswith(f"Each fabric has its best plan. mixnet: {own}; ")
    assert f"fat-tree, topoopt: {usual} (" in text
    assert f"x faster there than {own})" in text
    assert text in render(found)
    console = Console(file=io.StringIO(), width=100)
    found.print(console)
    assert "Each fabric has its best plan." in console.file.getvalue()
    assert "fat-tree, topoopt: plan: TP" in "\n".join(found.inputs["summary"])


def test_steps_on_fabrics_with_another_plan_are_columns(found):
    grid = plans_grid(found.inputs["plan_candidates"], ["mixnet"])
    assert grid.headers[-1] == ("on\nmixnet", "s")
    assert float(grid.rows[0][-1]) > float(grid.rows[0][-3])


def test_one_plan_for_all_is_not_worth_a_word():
    plain = compare(job(("fat-tree", "oversub")))
    assert plans_sentence(plain) is None
    assert not any(line.startswith("oversub: plan") for line in plain.inputs["summary"])
    assert advise(plain.results).build.plan == plain.results[0].plan


def predicted(jobs, *times):
    """Plans whose steps on the fabrics are given."""
    plan = jobs[0].fitted
    fabrics = [PLAIN, *(f for one in jobs for f in one.fabrics if f != PLAIN)]
    return fabrics, [
        PredictedPlan(
            dataclasses.replace(plan, plan=dataclasses.replace(plan.plan, vpp=number + 1)),
            step_time_s=own[0],
            times_s=dict(zip(fabrics, own, strict=True)),
        )
        for number, own in enumerate(times)
    ]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        # one plan is the best, or about as good, everywhere
        ([(1, 1, 1), (1.01, 0.99, 1)], [[0, 1, 2]]),
        ([(1, 1, 1), (1.1, 0.9, 1)], [[0, 2], [1]]),
        # the second fabric's plan is good enough for the third
        ([(1, 1, 1), (1.1, 0.9, 0.9), (1.2, 1, 0.89)], [[0], [1, 2]]),
        ([(1, 1, 1), (1.1, 0.9, 0.9), (1.2, 1, 0.8)], [[0], [1], [2]]),
        # a fabric that cannot carry a plan, or none at all
        ([(1, math.inf, 1), (1.1, 0.9, 1)], [[0, 2], [1]]),
        ([(1, math.inf, 1), (1.1, math.inf, 1)], [[0, 1, 2]]),
    ],
)
def test_a_fabric_keeps_a_plan_that_others_have_unless_it_is_slower(jobs, times, expected):
    fabrics, plans = predicted(jobs, *times)
    found = _by_plan(fabrics, plans)
    assert [[fabrics.index(one) for one in own] for _, own in found] == expected


def test_steps_of_other_lengths_are_no_alternative(jobs):
    fabrics, (first, second) = predicted(jobs, (1, 1, 1), (1.1, 0.5, 1))
    longer = dataclasses.replace(second.plan, micro_batches=2 * second.plan.micro_batches)
    fitted = dataclasses.replace(second.fitted, plan=longer)
    others = [first, dataclasses.replace(second, fitted=fitted)]
    assert len(_by_plan(fabrics, others)) == 1
