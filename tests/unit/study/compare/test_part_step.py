"""Long steps: the first sample is whole, other samples are in proportion to a part of the step."""

import dataclasses
import json
import os
from types import SimpleNamespace

import pytest

from lightloom.demand.few_stages import few_stages
from lightloom.fabric import load_fabric
from lightloom.progress import Monitor
from lightloom.study.compare import (
    DemandOptions,
    PlanOptions,
    Sample,
    budget,
    compare,
    part_step,
    strategies,
)
from lightloom.study.compare.budget import Budget
from lightloom.study.compare.forecast import forecast
from lightloom.study.compare.imbalance import LEARNED, LOADS
from lightloom.study.compare.job import prepare
from lightloom.study.compare.part_step import PartStep
from lightloom.study.compare.policies import as_never
from lightloom.study.compare.runner import Attempt, Done, Runner
from lightloom.study.compare.short_step import with_few_replicas
from lightloom.study.compare.summary import summary_of
from lightloom.study.compare.variants import NEVER, OWN, Failed, OtherPolicy
from lightloom.workload.tokens import moe_layers

PLAN = {"tp": 2, "pp": 16, "ep": 8, "micro_batches": 16}


class Rows(Monitor):
    def __init__(self):
        self.rows = []

    def finished(self, row):
        self.rows.append(row)


@pytest.fixture
def long(monkeypatch):
    """Every step is a long one."""
    monkeypatch.setattr(budget, "LONG_WORK", 1)


@pytest.fixture
def deep(scenario):
    """A job with 16 stages of two servers each."""

    def make(plan=PLAN, **changes):
        given = {"gpus": 256, "plan": PlanOptions(**plan), "memory_check": False, **changes}
        return scenario(**given)

    return make


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(
    ("plan", "micro_batches", "share"),
    [
        ({}, 4, 1 / 16),
        ({"micro_batches": 34}, 8, 8 * 8 / 32 / 34),
        # no fewer than there are stages
        ({"micro_batches": 8}, 4, 4 / 32),
    ],
)
def test_a_part_has_few_stages_and_micro_batches(deep, plan, micro_batches, share):
    job = prepare(deep({**PLAN, **plan}))
    part = Budget(job).part
    assert part.share == pytest.approx(share)
    assert (part.job.plan.pp, part.job.plan.gpus, part.job.cluster.gpus) == (4, 64, 64)
    assert part.job.model.moe_layers == (True,) * 8
    assert part.job.plan.micro_batches == micro_batches
    assert (part.stages, part.micro_batches) == (16, job.plan.micro_batches)


@pytest.mark.usefixtures("long")
def test_the_part_of_dualpipe_has_an_even_number_of_micro_batches(scenario):
    plan = PlanOptions(micro_batches=60)
    part = Budget(prepare(scenario(model="deepseek-v3", gpus=2048, plan=plan))).part
    # a quarter of 60 is 15
    assert (part.job.plan.pp, part.job.plan.micro_batches) == (4, 16)
    # 61 layers, four of them on a stage at most
    assert part.job.model.moe_layers == (True,) * 16
    assert part.share == pytest.approx(16 * 16 / 58 / 60)


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(
    ("gpus", "replicas", "kept", "share"),
    [
        (2048, 8, 8, 1 / 16),
        (4096, 16, 8, 1 / 32),
        (2560, 10, 10, 1 / 16),
        (65536, 256, 4, 1 / 1024),
    ],
)
def test_a_part_has_few_of_many_replicas(deep, gpus, replicas, kept, share):
    """So that what a part takes does not grow with the job."""
    part = Budget(prepare(deep(gpus=gpus))).part
    assert (part.replicas, part.job.plan.groups_per_stage) == (replicas, kept)
    assert part.share == pytest.approx(share)
    assert part.job.plan.gpus == part.job.cluster.gpus == 64 * kept
    assert (f", {kept} of {replicas} replicas" in part.sentence(None)) == (kept < replicas)


@pytest.mark.usefixtures("long")
def test_few_replicas_tell_what_all_of_them_would(deep, monkeypatch):
    monkeypatch.setattr(budget, "MAX_SHARE", 0.5)
    given = deep(
        {**PLAN, "pp": 4, "micro_batches": 4},
        gpus=1024,
        seeds=2,
        compute_spread=0.0,
        imbalances=False,
        fabrics=("fat-tree",),
    )
    whole = compare(given.model_copy(update={"whole_steps": True}))
    assert Budget(prepare(given)).part.job.plan.groups_per_stage == 8
    for one, other in zip(compare(given).results, whole.results, strict=True):
        assert one.sample_step_times_s[1] != other.sample_step_times_s[1]
        assert one.sample_step_times_s == pytest.approx(other.sample_step_times_s, rel=0.01)


def _of_first_sample(given, **changes):
    found = compare(given.model_copy(update=changes)).results
    differing = {"run_hash", "events", "simulation_wall_s", "ratio_to_fastest", "switching"}
    return [
        {each.name: getattr(one, each.name) for each in dataclasses.fields(one)}
        | dict.fromkeys(differing)
        for one in found
    ]


FEW = {"seeds": 1, "compute_spread": 0.0, "imbalances": False, "policies": False}


@pytest.fixture
def very_long(monkeypatch, long):  # noqa: ARG001
    """A few replicas stand for all."""
    monkeypatch.setattr(budget, "VERY_LONG_WORK", 1)
    monkeypatch.setattr(budget, "MAX_SHARE", 1.0)


@pytest.mark.usefixtures("very_long")
@pytest.mark.parametrize("tp", [2, 4])
def test_few_replicas_take_exactly_as_long_as_all_under_a_balanced_load(deep, tp):
    """Bytes, decisions, parts of the step and prices are those of all replicas, too."""
    plan = {"tp": tp, "pp": 2, "ep": 8, "micro_batches": 4}
    given = deep(plan, gpus=1024, fabrics=("fat-tree", "mixnet"), **FEW)
    given = given.with_imbalance("balanced")
    few = Budget(prepare(given)).played
    assert few.absent == (3 if tp == 2 else 1)
    assert few.plan.gpus * (1 + few.absent) == 1024
    for one, other in zip(
        _of_first_sample(given), _of_first_sample(given, whole_steps=True), strict=True
    ):
        assert one["step_time_s"] == pytest.approx(other["step_time_s"], rel=1e-4)
        assert one["carried_bytes"] == pytest.approx(other["carried_bytes"], rel=1e-9)
        if tp == 4:
            # rings of other replicas have paths of the same mean latency
            assert {name for name in one if one[name] != other[name]} == set()


@pytest.mark.usefixtures("very_long")
def test_few_replicas_take_about_as_long_as_all_under_a_drawn_load(deep):
    given = deep({"tp": 2, "pp": 2, "ep": 8, "micro_batches": 4}, gpus=1024,
                 fabrics=("fat-tree", "rail", "topoopt"), **FEW)  # fmt: skip
    found, whole = (compare(given.model_copy(update={"whole_steps": it})) for it in (False, True))
    for one, other in zip(found.results, whole.results, strict=True):
        assert one.step_time_s == pytest.approx(other.step_time_s, rel=0.01)
        # circuits of TopoOpt join replicas, which are simulated whole then
        assert (one.run_hash == other.run_hash) is (one.fabric == "topoopt")
        assert (one.events == other.events) is (one.fabric == "topoopt")


@pytest.mark.usefixtures("very_long")
@pytest.mark.parametrize("gpus", [4096, 16384, 65536])
def test_tasks_of_a_very_long_step_do_not_grow_with_the_job(deep, gpus):
    """What is built and simulated is counted in workers, token counts and tasks."""
    job = prepare(deep({"tp": 2, "pp": 2, "ep": 8, "micro_batches": 4}, gpus=gpus))
    few = Budget(job).played
    graph = few.workload(Sample(0, 0), 8).graph
    assert few.plan.groups_per_stage == 8
    assert len(graph.worker_server) == 2 * 8 * 2
    assert graph.demands[0].counts.shape[0] == 2 * 8
    assert sum(len(role.program) * len(role.workers) for role in graph.roles) == 68_576
    rings = {family.name: family.absent for family in graph.families}
    assert rings["dp-expert"] == few.absent == gpus // (2 * 16) // 8 - 1
    # on the first servers of each stage
    assert graph.worker_server[len(graph.worker_server) // 2] == gpus // 8 // 2


@pytest.mark.usefixtures("very_long")
@pytest.mark.parametrize(
    "changes",
    [{"whole_steps": True}, {"fail": ("server:1",)}, {"fabrics": ("topoopt",)}, {"gpus": 256}],
)
def test_all_replicas_are_simulated_where_a_few_would_not_do(deep, changes):
    plan = {"tp": 2, "pp": 2, "ep": 8, "micro_batches": 4}
    assert Budget(prepare(deep(plan, **{"gpus": 1024, **changes}))).played is None


def test_the_step_that_is_tried_does_not_grow_with_the_job(deep):
    """A count of layers x micro-batches x GPUs, and that the forecast grows in proportion."""
    tried = [Budget(prepare(deep(gpus=gpus))).tried for gpus in (4096, 16384, 65536)]
    sizes = {(each.job.plan.gpus, each.job.plan.micro_batches) for each in tried}
    assert len(sizes) == 1
    ratios = [each.ratio / tried[0].ratio for each in tried]
    assert ratios == pytest.approx([1, 4, 16])


@pytest.mark.parametrize(("micro_batches", "kept"), [(2, 8), (160, 4), (320, 2), (900, 2)])
def test_two_of_large_replicas_will_do(deep, micro_batches, kept):
    """40 replicas of 32 layers on 256 GPUs."""
    job = prepare(deep({**PLAN, "micro_batches": micro_batches}, gpus=10240))
    assert with_few_replicas(job).plan.groups_per_stage == kept


def test_a_long_step_is_one_of_five_million_layers_micro_batches_and_gpus(deep, monkeypatch):
    job = prepare(deep())
    assert Budget(job).part is None
    monkeypatch.setattr(budget, "LONG_WORK", 32 * 16 * 256)
    assert Budget(job).part is not None
    monkeypatch.setattr(budget, "LONG_WORK", 32 * 16 * 256 + 1)
    assert Budget(job).part is None


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(
    "changes",
    [
        {"whole_steps": True},
        {"network": "packet"},
        {"model": "llama-3-8b", "plan": {**PLAN, "ep": 1}},
        {"plan": {**PLAN, "vpp": 2}},
        # a quarter of the all-to-alls and more
        {"plan": {**PLAN, "pp": 4, "micro_batches": 8}},
        # stages that share servers
        {"gpus": 64, "plan": {**PLAN, "tp": 1, "ep": 4}},
    ],
)
def test_other_steps_are_whole(deep, changes):
    assert Budget(prepare(deep(**changes))).part is None


def test_a_run_of_the_part_is_in_proportion_to_the_whole():
    def done(fabric, step_s, variant=OWN, seed=0):
        run = SimpleNamespace(step_time_s=step_s)
        return Done(Attempt(SimpleNamespace(name=fabric), Sample(seed, 0), variant), run, None, 0.0)

    whole = [done("a", 10.0), done("b", 30.0), done("a", 99.0, Failed("nic:0/0"))]
    parts = [done("a", 2.0), done("b", 3.0), done("a", 2.2, seed=1), done("b", 1.5, seed=1)]
    scaled = []

    def scale(run, factor):
        scaled.append((run.step_time_s, factor))
        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part_step, "_scaled", scale)
        found = PartStep(None, 0.1, 16, 120, 8).estimates(whole, parts)
    assert scaled == [(2.2, 5.0), (1.5, 10.0)]
    assert all(one.is_estimate for one in found)
    assert [one.attempt for one in found] == [one.attempt for one in parts[2:]]


@pytest.mark.usefixtures("long")
def test_the_first_sample_is_whole_and_the_others_are_close_to_it(deep):
    given = deep(fabrics=("fat-tree", "mixnet"), seeds=2)
    rows = Rows()
    found = compare(given, monitor=rows)
    whole = compare(given.model_copy(update={"whole_steps": True}))
    for one, other in zip(found.results, whole.results, strict=True):
        times, expected = one.sample_step_times_s, other.sample_step_times_s
        assert len(times) == len(expected) == 4
        assert one.step_time_s == times[0] == expected[0]
        assert times == pytest.approx(expected, rel=0.03)
        assert times[1] < times[0] < times[2]
        assert sum(one.critical_path_s.values()) == pytest.approx(one.step_time_s)
        assert one.run_hash == other.run_hash
        # policies are whole steps
        assert one.variants_s == other.variants_s
        assert one.policies == other.policies
        assert {load.imbalance for load in one.loads} == {*LOADS, *LEARNED}
        for load in one.loads:
            same = other.load(load.imbalance)
            assert load.step_time_s == pytest.approx(same.step_time_s, rel=0.1)
            assert (load.straggler_wait_s > 0) is (same.straggler_wait_s > 0)
    run = found.details["runs"]["mixnet"].run
    twice = part_step._scaled(run, 2.0)
    assert twice.step_time_s == 2 * run.step_time_s
    for seconds in (twice.critical_path_s, twice.mean_s, *twice.role_s.values()):
        assert sum(seconds.values()) == pytest.approx(twice.step_time_s)
    estimated = {
        (row["seed"], row["compute_scale"], row["imbalance"])
        for row in rows.rows
        if row["is_estimate"]
    }
    assert len(estimated) == 3 + len({*LOADS, *LEARNED})
    assert (0, 1.0, "") not in estimated
    assert all(row["micro_batches"] == 16 and row["gpus"] == 256 for row in rows.rows)


@pytest.mark.usefixtures("long")
def test_circuits_that_were_not_switched_are_not_simulated_again(deep, monkeypatch):
    """With one core, so that the fabric's own run is over before its variants."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    prepared = []
    prepare_one = Runner.prepare

    def prepare_and_note(self, attempt):
        prepared.append(attempt.variant.key)
        return prepare_one(self, attempt)

    monkeypatch.setattr(Runner, "prepare", prepare_and_note)
    found = compare(deep(fabrics=("mixnet",), seeds=1)).result("mixnet")
    assert not found.reconfiguration["reconfigurations"]
    assert "when=never" not in prepared
    assert found.variants_s["when=never"] == found.step_time_s
    assert {"when=always", "when=oracle"} <= set(prepared)


@pytest.mark.usefixtures("long")
def test_a_part_spreads_all_to_alls_as_the_whole_step_does(deep, monkeypatch):
    estimated = strategies.estimated
    seen = []

    def settle_and_note(fabric, networks):
        settled = estimated(fabric, networks)
        seen.append((fabric.name, networks.get(settled).all_to_all))
        return settled

    monkeypatch.setattr(strategies, "estimated", settle_and_note)
    found = compare(deep(fabrics=("fat-tree", "mixnet"), seeds=1, imbalances=False))
    assert seen == [(one.fabric, one.parameters["all_to_all"]) for one in found.results]


@pytest.mark.parametrize(
    ("variant", "policy", "reconfigurations", "expected"),
    [
        (NEVER, "break-even", 0, True),
        (NEVER, "break-even", 1, False),
        (NEVER, "oracle", 0, False),
        (OtherPolicy("oracle"), "break-even", 0, False),
    ],
)
def test_break_even_that_switches_nothing_is_never(variant, policy, reconfigurations, expected):
    fabric = load_fabric("mixnet", {"when": policy})
    own = SimpleNamespace(circuits=SimpleNamespace(reconfigurations=reconfigurations))
    assert as_never(variant, fabric, own) is expected
    assert not as_never(variant, load_fabric("fat-tree"), own)


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(("imbalance", "same"), [("skewed", False), ("balanced", True)])
def test_each_load_and_seed_has_its_own_stages_in_the_part(deep, imbalance, same):
    job = prepare(deep().with_imbalance(imbalance))
    part = Budget(job).part.job
    stages = moe_layers(job.model, job.plan)
    found = []
    for seed in range(3):
        demand, whole = part.demand(Sample(seed, 0)), job.demand(Sample(seed, 0))
        assert demand.shape == whole.shape
        if same:
            assert type(demand) is type(whole)
            continue
        expected = few_stages(whole, stages, 4, step=0)
        assert demand.layers == expected.layers
        found.append(demand.layers)
    assert same or len(set(found)) > 1


def test_a_part_of_recorded_demand_has_its_first_layers(deep, monkeypatch, tmp_path):
    monkeypatch.setattr(budget, "LONG_WORK", 1)
    matrix = tmp_path / "demand.json"
    matrix.write_text(json.dumps([[7] * 8] * 8))
    job = prepare(deep(demand=DemandOptions(source=str(matrix), scale=True)))
    part = Budget(job).part.job
    sample = Sample(0, 0)
    assert type(part.demand(sample)) is type(job.demand(sample))


@pytest.mark.usefixtures("long")
def test_what_is_whole_is_said(deep):
    job = prepare(deep())
    text = (
        "a long step: the first seed is simulated whole; other seeds, speeds and loads in"
        " proportion to a part of it (4 of 16 stages, 4 of 16 micro-batches); --whole-steps"
        " simulates all of them whole"
    )
    assert text in summary_of(job)
    assert text not in summary_of(prepare(deep(whole_steps=True)))


def test_a_forecast_knows_what_is_whole(scenario):
    plan = PlanOptions(micro_batches=60)
    job = prepare(scenario(model="deepseek-v3", gpus=2048, plan=plan, fabrics=("fat-tree",)))
    part = Budget(job).part

    def seconds(part):
        given = Budget(job)
        given.part = part
        return forecast(given).seconds

    assert seconds(part) < seconds(None) / 2
    shares = [dataclasses.replace(part, share=share) for share in (0.0, 1.0)]
    assert seconds(shares[0]) < seconds(shares[1])
