"""A searched plan fits, trains on the same tokens, and is as fast as predicted."""

import dataclasses
import random

import pytest

from lightloom.errors import FabricError, PlanError
from lightloom.hardware import load_gpu
from lightloom.models import load_model
from lightloom.parallel import check_plan, memory_per_stage
from lightloom.parallel.memory import RECOMPUTE, does_not_fit
from lightloom.progress import Monitor
from lightloom.report.plans_table import parts_grid, plans_grid
from lightloom.simulate import simulate
from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario, compare
from lightloom.study.compare.builds import Networks, Workloads
from lightloom.study.compare.fills import Fills, Steps
from lightloom.study.compare.fit import fitted_plan
from lightloom.study.compare.job import PlanCandidate, prepare
from lightloom.study.compare.plan_candidates import SHARDED, Candidates
from lightloom.study.compare.plan_search import (
    FINALISTS,
    PLAIN,
    planned_job,
)
from lightloom.study.compare.racks import with_servers
from lightloom.study.compare.results import Sample

DEGREES = PlanCandidate.DEGREES


def job(model="olmoe-1b-7b", gpus=16, plan=None, **changes):
    values = {
        "model": model,
        "gpus": gpus,
        "fabrics": ("fat-tree",),
        "cluster": ClusterOptions(rate_gbps=400, gpu="h100"),
        "plan": PlanOptions(**(plan or {})),
        "seeds": 1,
        "compute_spread": 0.0,
    }
    return Scenario(**{**values, **changes})


def simulated(candidate, **changes):
    """The whole step with a candidate's plan on a fat-tree."""
    plan = {name: getattr(candidate, name) for name in DEGREES}
    made = prepare(job(plan=plan, recompute=candidate.recompute, **changes))
    workloads = Workloads(made)
    network = Networks(made, workloads).get(made.fabrics[0])
    return simulate(workloads.get(Sample(0, 0), 8).graph, network).step_time_s


@pytest.fixture(scope="module")
def searched():
    return planned_job(job())


def test_the_plan_is_the_candidate_with_the_shortest_step(searched):
    exact = [one for one in searched.candidates if not one.is_screened]
    assert len(exact) >= FINALISTS
    assert exact[0] == min(exact, key=lambda one: one.predicted_step_time_s)
    assert [getattr(searched.plan, name) for name in DEGREES] == [
        getattr(exact[0], name) for name in DEGREES
    ]
    screened = [one for one in searched.candidates if one.is_screened]
    assert [*exact, *screened] == list(searched.candidates)


def test_candidates_fit_and_train_on_the_same_tokens(searched):
    capacity = searched.gpu.hbm_capacity_bytes
    assert all(one.peak_memory_bytes <= capacity for one in searched.candidates)
    sequences = {
        one.micro_batches * one.micro_batch_size * 16 / (one.tp * one.pp * one.cp)
        for one in searched.candidates
    }
    assert len(sequences) == 1
    plans = {tuple(getattr(one, name) for name in DEGREES) for one in searched.candidates}
    assert len(plans) == len(searched.candidates)


def test_steps_are_as_long_as_predicted(searched):
    """Two short runs tell the length of the whole step."""
    exact = [one for one in searched.candidates if not one.is_screened]
    chunked = [one for one in exact if one.vpp > 1]
    for one in [*exact[:3], *chunked[:1]]:
        assert one.predicted_step_time_s == pytest.approx(simulated(one), rel=0.02)


def test_the_first_fill_of_a_pipeline_counts_once():
    """Three fills, of which a prediction simulates one and two."""
    for pp in (1, 2):
        made = prepare(job(plan={"tp": 2, "pp": pp, "ep": 4, "micro_batches": 3}))
        predicted, whole = Fills.of(made, 1), Fills((made,))
        assert len(predicted.jobs) == 2
        first, second = (
            Steps(fills, lambda *_: True).step_time_s(PLAIN) for fills in (predicted, whole)
        )
        assert first == pytest.approx(second, rel=0.02)


def test_no_screened_plan_is_faster_than_the_chosen_one_by_far(searched):
    """The closed form ranks as a simulation does."""
    best = searched.candidates[0].predicted_step_time_s
    screened = [one for one in searched.candidates if one.is_screened]
    for one in screened[:3]:
        step_s = simulated(one)
        assert step_s > 0.98 * best
        assert one.predicted_step_time_s == pytest.approx(step_s, rel=0.05)


def test_the_search_finds_the_same_again(searched):
    again = planned_job(job())
    assert again.candidates == searched.candidates
    assert again.plan.provenance == searched.plan.provenance


def test_what_is_given_stands():
    found = planned_job(job(plan={"tp": 2, "micro_batches": 8, "seq_len": 2048}))
    assert {(one.tp, one.micro_batches) for one in found.candidates} == {(2, 8)}
    assert (found.plan.tp, found.plan.micro_batches, found.plan.seq_len) == (2, 8, 2048)
    # steps of other lengths are compared by their tokens
    exact = [one for one in found.candidates if not one.is_screened]
    per_replica = [one.predicted_step_time_s * one.pp * one.cp for one in exact]
    assert per_replica == sorted(per_replica)


def test_the_published_plan_is_the_default_and_one_of_the_candidates():
    small = {"model": "mixtral-8x7b", "gpus": 128}
    published = planned_job(job(**small))
    assert published.candidates == ()
    assert published.plan.provenance[0].startswith("published: ")
    assert planned_job(job(**small, plan={"source": "published"})).plan == published.plan
    usual = {"schedule": "1f1b", "strategy": "O1"}
    searched = planned_job(
        job(
            **small,
            plan={"source": "search", **usual},
            demand={"dispatcher": "alltoall"},
            memory={"sharded": "states"},
        )
    )
    tokens = published.plan.tokens_per_step
    assert searched.plan.tokens_per_step == tokens
    exact = [one for one in searched.candidates if not one.is_screened]
    assert any((one.tp, one.pp, one.ep) == (4, 4, 8) for one in exact)


def candidates(model="mixtral-8x7b", **changes):
    return Candidates(job(model, **changes), load_model(model))


def test_overlapped_all_to_alls_stand_whatever_the_stages():
    given = {"tp": 2, "micro_batches": 8, "overlap_all_to_all": "batch", "communication_sms": 20}
    found = planned_job(job(plan=given))
    assert {1, 2} <= {one.pp for one in found.candidates}
    assert (found.plan.overlap_all_to_all, found.plan.communication_sms) == ("batch", 20)


def test_experts_are_divided_or_whole():
    """As an axis of its own, or folded into the ranks that divide the other layers."""
    plans = list(candidates(gpus=32, plan={"tp": 4, "source": "search"}).plans())
    modes = {("axis", 4), ("folded", 1), ("folded", 2)}
    assert {(plan.expert_mode, plan.etp) for plan in plans} == modes
    for mode in ("axis", "folded"):
        given = {"tp": 4, "source": "search", "expert_mode": mode}
        plans = candidates(gpus=32, plan=given).plans()
        assert {plan.expert_mode for plan in plans} == {mode}


def test_long_sequences_are_divided():
    usual = candidates(gpus=64, plan={"source": "search"}).plans()
    assert {plan.cp for plan in usual} == {1}
    given = {"source": "search", "tp": 8, "pp": 1, "seq_len": 32768}
    assert {plan.cp for plan in candidates(gpus=64, plan=given).plans()} == {1, 2, 4, 8}


def test_micro_batches_grow_with_as_many_tokens_per_step():
    known = candidates(gpus=32, plan={"source": "search"})
    plans = list(known.plans())
    assert {plan.micro_batch_size for plan in plans} == {1, 2, 4, 8}
    assert len({plan.tokens_per_step for plan in plans}) == 1
    for given in ({"micro_batch_size": 2}, {"micro_batches": 8}):
        known = candidates(gpus=32, plan={"source": "search", **given})
        name, value = next(iter(given.items()))
        assert {getattr(plan, name) for plan in known.plans()} == {value}


def test_chunks_have_equally_many_layers():
    given = {"source": "search", "pp": 8, "ep": 8}
    # seven layers per stage
    plans = candidates("mixtral-8x22b", gpus=128, plan=given).plans()
    assert {plan.vpp for plan in plans} == {1, 7}
    plans = candidates("mixtral-8x22b", gpus=128, plan={**given, "vpp": 7}).plans()
    assert {plan.vpp for plan in plans} == {7}


def test_every_listed_plan_fits_with_the_least_recomputation():
    known = candidates(gpus=32, plan={"source": "search", "tp": 2})
    model, room = load_model("mixtral-8x7b"), load_gpu("h100").hbm_capacity_bytes
    fitting = known.fitting()
    assert 0 < len({one.plan for one in fitting}) < len(list(known.plans()))
    for one in random.Random(2).sample(fitting, 400):
        check_plan(one.plan, model)
        level = RECOMPUTE.index(one.options.recompute)
        for less in RECOMPUTE[: level + 1]:
            options = dataclasses.replace(one.options, recompute=less)
            stages = memory_per_stage(model, one.plan, options)
            fits = does_not_fit(stages, room, options.reserve) is None
            assert fits == (less == one.options.recompute)
    listed = {(one.plan, one.options, one.dispatcher) for one in fitting}
    assert len(listed) == len(fitting)


@pytest.mark.parametrize("given", [{"tp": 1}, {"tp": 2, "micro_batch_size": 2}])
def test_the_best_plan_is_that_of_an_exhaustive_search(given):
    """Every plan that fits, simulated as it is."""
    usual = {"schedule": "1f1b", "strategy": "O1", "global_batch_size": 16}
    scenario = job(
        gpus=8,
        plan={"source": "search", **usual, **given},
        demand={"dispatcher": "alltoall"},
        memory={"sharded": "states"},
    )
    best = planned_job(scenario)
    known = Candidates(scenario, load_model("olmoe-1b-7b"))
    steps = [whole_step(prepare(scenario, one)) for one in known.fitting()]
    assert len(steps) > 20
    assert best.candidates[0].predicted_step_time_s <= 1.01 * min(steps)


def whole_step(made):
    """The simulated step of a job."""
    return Steps(Fills((made,)), lambda *_: True).step_time_s(PLAIN)


@pytest.mark.parametrize(
    ("model", "gpus", "given"),
    [
        ("olmoe-1b-7b", 32, {}),
        ("qwen3-30b-a3b", 32, {"global_batch_size": 128}),
        ("mixtral-8x7b", 64, {"global_batch_size": 128}),
        ("llama-3-70b", 64, {"global_batch_size": 64}),
        ("llama-3-70b", 64, {"global_batch_size": 64, "overlap_pipeline": False}),
    ],
)
def test_estimated_steps_are_those_of_whole_simulations(model, gpus, given):
    plan = {"source": "search", "strategy": "O1", **given}
    scenario = with_servers(job(model, gpus, plan=plan), load_model(model))
    known = Candidates(scenario, load_model(model))
    fitting = known.fitting()
    chosen = random.Random(1).sample(fitting, min(5, len(fitting)))
    estimates = known.estimates(PLAIN.adapt(known.machines))
    found = known.estimated(chosen, estimates)
    assert len(found) == len(chosen)
    errors = sorted(
        abs(one.step_time_s / whole_step(prepare(scenario, one.fitted)) - 1) for one in found
    )
    assert sum(errors) / len(errors) < 0.02, errors
    assert errors[-1] < 0.06, errors
    for one in found:
        assert min(vars(one.estimate).values()) > -1e-9 * one.step_time_s


def errors_of(plans, known, scenario):
    """Estimated over simulated steps, less 1."""
    found = known.estimated(plans, known.estimates(PLAIN.adapt(known.machines)))
    assert len(found) == len(plans)
    steps = [whole_step(prepare(scenario, one.fitted)) for one in found]
    return sorted(abs(one.step_time_s / s - 1) for one, s in zip(found, steps, strict=True))


@pytest.mark.parametrize(
    ("model", "given"),
    [
        ("mixtral-8x7b", {"tp": 4, "pp": 2, "ep": 8}),
        ("mixtral-8x7b", {"tp": 8, "pp": 1, "ep": 8, "overlap_all_to_all": "chunks"}),
    ],
)
def test_steps_of_strategies_are_estimated_as_well(model, given):
    plan = {"source": "search", "micro_batches": 1, "schedule": "1f1b", "vpp": 1, **given}
    scenario = with_servers(
        job(model, 64, plan=plan, demand={"dispatcher": "alltoall"}, memory_check=False),
        load_model(model),
    )
    known = Candidates(scenario, load_model(model))
    listed = {one.strategy: one for one in known.plans()}
    assert listed.keys() == {"O1", "O2", "O3", "O4", "baseline"}
    base = fitted_plan(scenario, load_model(model), load_gpu("h100"), known.options)
    plans = [dataclasses.replace(base, plan=one) for one in listed.values()]
    errors = errors_of(plans, known, scenario)
    assert errors[-1] < 0.04, errors


@pytest.mark.parametrize("sharded", ["gradients", "parameters"])
@pytest.mark.parametrize(
    ("model", "gpus"), [("olmoe-1b-7b", 32), ("mixtral-8x7b", 64), ("llama-3-70b", 64)]
)
def test_steps_whose_ranks_share_more_are_estimated_as_well(model, gpus, sharded):
    plan = {"source": "search", "global_batch_size": 64, "schedule": "1f1b", "strategy": "O1"}
    scenario = with_servers(
        job(model, gpus, plan=plan, memory={"sharded": sharded}), load_model(model)
    )
    known = Candidates(scenario, load_model(model))
    chosen = random.Random(3).sample(known.fitting(), 3)
    errors = errors_of(chosen, known, scenario)
    assert errors[-1] < 0.06, errors


@pytest.mark.parametrize("sharded", ["gradients", "parameters"])
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("reduced", [False, True])
def test_what_is_waited_for_is_estimated_as_well(ahead, reduced, sharded):
    """Random plans; gathers and reductions each alongside computation, or waited for."""
    overlap = {"overlap_parameters": ahead, "overlap_gradients": reduced}
    usual = {"source": "search", "schedule": "1f1b", "strategy": "O1", "global_batch_size": 64}
    for model, gpus in (("olmoe-1b-7b", 32), ("llama-3-70b", 64)):
        scenario = job(model, gpus, plan={**usual, **overlap}, memory={"sharded": sharded})
        scenario = with_servers(scenario, load_model(model))
        known = Candidates(scenario, load_model(model))
        chosen = random.Random(3).sample(known.fitting(), 3)
        errors = errors_of(chosen, known, scenario)
        assert errors[-1] < 0.06, errors


def test_waiting_for_rings_is_never_estimated_as_faster():
    """What nothing hides takes at least as long as what computation may hide."""
    usual = {"source": "search", "schedule": "1f1b", "strategy": "O1", "global_batch_size": 64}
    model = load_model("olmoe-1b-7b")
    times = {}
    for ahead, reduced in ((True, True), (True, False), (False, True), (False, False)):
        overlap = {"overlap_parameters": ahead, "overlap_gradients": reduced}
        scenario = job(model.name, 32, plan={**usual, **overlap}, memory={"sharded": "parameters"})
        scenario = with_servers(scenario, model)
        known = Candidates(scenario, model)
        estimates = known.estimates(PLAIN.adapt(known.machines))
        for one in random.Random(4).sample(known.fitting(), 40):
            degrees = tuple(getattr(one.plan, name) for name in DEGREES)
            of = times.setdefault((degrees, one.options.recompute), {})
            of[ahead, reduced] = estimates.of(one).step_time_s
    compared = [of for of in times.values() if len(of) == 4]
    assert len(compared) > 30
    for of in compared:
        assert of[False, False] >= of[True, False] * 0.99
        assert of[True, False] >= of[True, True] * 0.99
        assert of[False, True] >= of[True, True] * 0.98


def test_backward_passes_of_chunks_wait_for_reductions_before_them():
    """Where a pipeline of chunks empties, each backward pass gathers after the last one reduced."""
    given = {"tp": 2, "pp": 2, "ep": 2, "vpp": 16, "global_batch_size": 64}
    plan = {"source": "search", "schedule": "1f1b", "strategy": "O1", **given}
    model = load_model("mixtral-8x7b")
    scenario = with_servers(job(model.name, 64, plan=plan, memory={"sharded": "parameters"}), model)
    known = Candidates(scenario, model)
    few = [one for one in known.fitting() if one.plan.micro_batches == 2][:1]
    errors = errors_of(few, known, scenario)
    assert errors[-1] < 0.035, errors


def test_a_search_by_name_varies_what_nobody_said():
    known = candidates(gpus=64, plan={"source": "search", "tp": 4, "pp": 2})
    plans = list(known.plans())
    assert {one.schedule for one in plans} == {"1f1b", "zero-bubble", "dualpipe"}
    assert {one.strategy for one in plans} == {"O1", "O2", "O3", "O4", "baseline"}
    assert len({one.tokens_per_step for one in plans}) == 1
    assert all(one.sequence_parallel == (one.strategy != "baseline") for one in plans)
    assert all(one.schedule == "1f1b" or one.vpp == 1 for one in plans)
    fitting = known.fitting()
    assert {one.dispatcher for one in fitting if one.plan.ep > 1} == {"alltoall", "flex"}
    # nothing is sent where there is one EP rank
    assert len({one.dispatcher for one in fitting if one.plan.ep == 1}) == 1
    given = {"schedule": "1f1b", "strategy": "O2", "tp": 4, "pp": 2, "ep": 8}
    said = candidates(
        gpus=64,
        plan={"source": "search", **given},
        demand={"dispatcher": "flex"},
        memory={"sharded": "gradients"},
    )
    assert {(one.schedule, one.strategy) for one in said.plans()} <= {("1f1b", "O2")}
    found = said.fitting()
    assert {(one.dispatcher, one.options.sharded) for one in found} == {(None, "gradients")}


def test_ranks_share_more_only_where_that_saves_recomputation():
    known = candidates(gpus=16, plan={"source": "search", "tp": 2})
    by_plan = {}
    for one in known.fitting():
        if one.dispatcher in (None, "alltoall"):
            by_plan.setdefault(one.plan, []).append(one.options)
    assert any(len(options) > 1 for options in by_plan.values())
    for options in by_plan.values():
        sharing = [SHARDED.index(each.sharded) for each in options]
        again = [RECOMPUTE.index(each.recompute) for each in options]
        assert sharing == sorted(set(sharing))
        assert again == sorted(set(again), reverse=True)


def test_all_degrees_leave_nothing_to_search():
    found = planned_job(job(plan={"tp": 2, "pp": 1, "ep": 8}))
    assert found.candidates == ()


def test_a_published_plan_that_is_not_there_is_refused():
    with pytest.raises(PlanError, match="olmoe-1b-7b has no published plan for 16 GPUs"):
        planned_job(job(plan={"source": "published"}))
    with pytest.raises(PlanError, match="no published plan for 64 GPUs"):
        planned_job(job("mixtral-8x22b", 64, plan={"source": "published"}))


def test_what_is_wrong_is_said_before_the_search():
    class Never(Monitor):
        def progress(self, _share, activity="", /):
            raise AssertionError(activity)

    wrong = {"fabrics": ("mixnet",), "fabric_options": {"mixnet": {"ports": 9}}}
    with pytest.raises(FabricError, match="ports = 9"):
        planned_job(job(**wrong), Never())
    with pytest.raises(PlanError, match="does not fit on 8 GPUs; the closest plan is"):
        planned_job(job("kimi-k2", 8), Never())


def test_the_search_can_be_stopped():
    class Stop(Monitor):
        def progress(self, _share, _activity="", /):
            return False

    with pytest.raises(KeyboardInterrupt):
        planned_job(job(), Stop())


def test_a_demand_for_one_ep_leaves_the_others_out(tmp_path):
    matrix = tmp_path / "tokens.json"
    matrix.write_text(str([[512] * 64] * 8))
    demand = {"source": str(matrix)}
    found = planned_job(job(demand=demand))
    assert {one.ep for one in found.candidates} == {8}


def test_results_have_the_candidates():
    scenario = job(imbalances=False, plan={"tp": 1, "pp": 1, "micro_batches": 2})
    found = compare(scenario)
    candidates = found.inputs["plan_candidates"]
    assert candidates[0]["ep"] == found.inputs["plan"]["ep"]
    assert found.inputs["plan"]["provenance"][0].startswith("search: of ")
    assert "on fat-tree: TP1 PP1 EP" in found.inputs["plan"]["provenance"][0]
    step_s = found.result("fat-tree").step_time_s
    assert candidates[0]["predicted_step_time_s"] == pytest.approx(step_s, rel=0.02)
    assert dataclasses.asdict(found.details["job"].candidates[0]) == candidates[0]
    assert found.inputs["plans_that_fit"] >= len(candidates)


def test_parts_say_why_the_next_plans_take_longer():
    """They add up to the step of each plan, and communication to what is exposed."""
    found = compare(job(imbalances=False, plan={"tp": 1}))
    grid = parts_grid(found)
    steps = [float(row[-2]) for row in plans_grid(found.inputs["plan_candidates"]).rows]
    words = [header for header, _ in grid.headers]
    first = [float(cell) for cell in grid.rows[0][3:]]
    assert sum(first) == pytest.approx(steps[0], rel=2e-3)
    for row, step_s in zip(grid.rows, steps, strict=True):
        more = 0.0 if row is grid.rows[0] else sum(float(cell) for cell in row[3:])
        assert more == pytest.approx(step_s - steps[0], abs=3e-3 * step_s)
        assert float(row[1]) == pytest.approx(
            100 * found.results[0].mfu * found.results[0].step_time_s / step_s, abs=0.1
        )
    sent = [value for word, value in zip(words[3:], first, strict=True) if word in ("EP", "DP")]
    assert float(grid.rows[0][2]) == pytest.approx(100 * sum(sent) / steps[0], abs=0.2)
