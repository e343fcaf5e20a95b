"""A point of a sweep: its rows, what it shares with others, and its identity."""

from pathlib import Path

import pytest

from lightloom.study.compare import Comparison, Scenario, compare
from lightloom.study.compare.job import prepare
from lightloom.study.compare.results import Sample
from lightloom.study.compare.shared_work import SharedWork, sharing
from lightloom.study.sweep.identity import Identities
from lightloom.study.sweep.point import (
    INPUTS,
    PLAN,
    RESULTS,
    Evaluate,
    PointTask,
    plan_source,
    rows_of,
)

JOB = {
    "model": "mixtral-8x7b",
    "gpus": 32,
    "fabrics": ("fat-tree", "mixnet"),
    "seeds": 1,
    "compute_spread": 0.0,
    "policies": False,
    "imbalances": False,
    "plan": {"tp": 2, "pp": 2, "ep": 8, "micro_batches": 2},
}


def scenario(rate=400, **changes):
    return Scenario(**{**JOB, "cluster": {"gpu": "h100", "rate_gbps": rate}, **changes})


def plain(comparison):
    content = [result.to_json() for result in comparison.results]
    return [{k: v for k, v in result.items() if k != "simulation_wall_s"} for result in content]


def test_rows_have_every_column_and_are_the_results():
    found = Evaluate(1)([PointTask(7, scenario())]).outcomes[0]
    assert found.number == 7
    assert {*found.rows[0]} == {*INPUTS, *PLAN, *RESULTS}
    expected = compare(scenario())
    assert list(found.rows) == rows_of(scenario(), expected)
    for row, result in zip(found.rows, expected.results, strict=True):
        assert row["step_time_s"] == result.step_time_s
        assert (row["tp"], row["plan_source"]) == (2, "given")
        assert row["run_hash"] == result.run_hash


def test_rows_are_those_of_a_comparison_with_other_loads_and_policies():
    both = scenario(policies=True, imbalances=True)
    found = Evaluate(1)([PointTask(7, both)]).outcomes[0]
    assert list(found.rows) == rows_of(both, compare(both))


@pytest.mark.parametrize(
    "changes",
    [
        {"fabric_options": {"mixnet": {"fixed_s": "1 us"}}},
        {"plan": {**JOB["plan"], "micro_batches": 3}},
        {"seed": 5},
        {"recompute": "full"},
        {"compute": {"precision": "fp8"}},
        {"demand": {"source": "skewed"}},
        {"memory": {"sharded": "gradients"}},
        {"cluster": {"gpu": "a100", "rate_gbps": 400}},
        {"plan": {**JOB["plan"], "schedule": "zero-bubble"}},
    ],
)
def test_what_is_shared_changes_no_result(changes):
    alone = [plain(compare(one)) for one in (scenario(), scenario(**changes))]
    work = SharedWork(1)
    with sharing(work):
        together = [plain(compare(one)) for one in (scenario(), scenario(**changes))]
    assert alone == together


def test_rates_and_circuits_share_task_graphs_and_loads_do_not():
    work = SharedWork(1)
    with sharing(work):
        compare(scenario())
        made = work.made["task graph"]
        compare(scenario(200, fabric_options={"mixnet": {"ports": 4}}))
        assert (work.made["task graph"], work.reused["task graph"]) == (made, made)
        compare(scenario(demand={"source": "balanced"}))
        assert work.made["task graph"] > made


def test_strategies_that_are_left_open_depend_on_rates():
    sample = Sample(0, 0)
    for strategy, same in (("O1", True), ("auto", False)):
        plan = {**JOB["plan"], "strategy": strategy}
        jobs = [prepare(scenario(rate, plan=plan)) for rate in (200, 400)]
        assert (jobs[0].step_key(sample, 8) == jobs[1].step_key(sample, 8)) == same


def test_what_is_kept_is_bounded():
    work = SharedWork()
    for number in range(200):
        assert work.get("thing", number, object, None) is not None
    first = work.get("thing", 199, lambda: None, None)
    assert first is not None
    assert work.get("thing", 0, lambda: "again", None) == "again"
    heavy = SharedWork()
    for number in range(5):
        heavy.get("thing", number, lambda: 1, lambda kept: len(kept) * 300_000_000)
    assert heavy.get("thing", 4, lambda: 2, None) == 1
    assert heavy.get("thing", 2, lambda: 2, None) == 2


def test_failures_are_outcomes():
    wrong = PointTask(3, scenario(plan={"tp": 3, "pp": 2, "ep": 8}))
    found = Evaluate(1)([wrong, PointTask(4, scenario())]).outcomes
    assert found[0].is_final
    assert "\n" not in found[0].failure
    assert found[1].rows


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"plan": {"tp": 1}, "plan_candidates": [{}]}, "searched"),
        ({"plan": {"tp": 1}, "plan_candidates": []}, "given"),
        ({}, ""),
    ],
)
def test_where_a_plan_comes_from(inputs, expected):
    comparison = Comparison(inputs, (), {}, {}, {})
    assert plan_source(scenario(), comparison) == expected
    if expected == "given":
        assert plan_source(scenario(plan={}), comparison) == "published"


def test_the_identity_is_of_all_inputs(tmp_path):
    identities = Identities()
    one = identities.of(scenario())
    assert one == Identities().of(scenario()) == identities.of(scenario("400 Gb/s"))
    others = [scenario(200), scenario(seed=1), scenario(fabrics=("fat-tree",)), scenario(gpus=64)]
    assert len({one, *map(identities.of, others)}) == 5
    path = tmp_path / "p.toml"
    path.write_text("a = 1")
    first = Identities().of(scenario(prices=path))
    copy = tmp_path / "q.toml"
    copy.write_text("a = 1")
    assert Identities().of(scenario(prices=copy)) == first
    path.write_text("a = 2")
    assert Identities().of(scenario(prices=path)) != first


def test_files_that_a_file_names_count(tmp_path):
    (tmp_path / "inner.csv").write_text("1")
    fabric = tmp_path / "fabric.toml"
    fabric.write_text('kind = "topology"\nlinks = "inner.csv"\n')
    first = Identities().digest([str(fabric)], Path())
    (tmp_path / "inner.csv").write_text("2")
    assert Identities().digest([str(fabric)], Path()) != first
