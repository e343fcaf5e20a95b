"""A searched plan fits, trains on the same tokens, and is as fast as predicted."""

import dataclasses

import pytest

from lightloom.errors import FabricError, PlanError
from lightloom.models import load_model
from lightloom.parallel import Plan
from lightloom.progress import Monitor
from lightloom.simulate import simulate
from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario, compare
from lightloom.study.compare.builds import Networks, Workloads
from lightloom.study.compare.fills import Fills, Steps
from lightloom.study.compare.job import PlanCandidate, prepare
from lightloom.study.compare.plan_candidates import Candidates
from lightloom.study.compare.plan_search import (
    FINALISTS,
    PLAIN,
    _Pace,
    planned_job,
)
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
    """Few layers stand for all of them."""
    best = searched.candidates[0].predicted_step_time_s
    screened = [one for one in searched.candidates if one.is_screened]
    for one in screened[:3]:
        assert simulated(one) > 0.98 * best


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
    searched = planned_job(job(**small, plan={"source": "search"}))
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
    whole = candidates(gpus=32, plan={"tp": 4, "source": "search"}).whole()
    assert {(one.plan.expert_mode, one.plan.etp) for one in whole} == {("axis", 4), ("folded", 1)}
    for mode in ("axis", "folded"):
        given = {"tp": 4, "source": "search", "expert_mode": mode}
        found = candidates(gpus=32, plan=given).whole()
        assert {one.plan.expert_mode for one in found} == {mode}


def test_long_sequences_are_divided_as_long_as_that_saves_recomputation():
    usual = candidates(gpus=64, plan={"source": "search"}).whole()
    assert {one.plan.cp for one in usual} == {1}
    given = {"source": "search", "tp": 8, "pp": 1, "seq_len": 32768}
    found = candidates(gpus=64, plan=given).whole()
    by_rest = {}
    for one in found:
        by_rest.setdefault((one.plan.ep, one.plan.expert_mode), []).append(one)
    assert max(one.plan.cp for one in found) > 1
    for ones in by_rest.values():
        assert [one.plan.cp for one in ones] == sorted({one.plan.cp for one in ones})
        assert all(one.fitted.options.recompute != "none" for one in ones[:-1])


def test_micro_batches_grow_until_they_do_not_fit():
    known = candidates(gpus=32, plan={"source": "search"})
    choice = next(one for one in known.whole() if one.plan.pp == 1)
    sizes = []
    while choice is not None:
        sizes.append(choice.plan.micro_batch_size)
        sequences = choice.plan.sequences_per_step
        assert sequences == known.stated.sequences_per_step if known.stated else sequences
        choice = known.with_larger_micro_batches(choice)
    assert sizes[:2] == [1, 2]
    for given in ({"micro_batch_size": 2}, {"micro_batches": 8}):
        known = candidates(gpus=32, plan={"source": "search", **given})
        first = known.whole()[0]
        assert known.with_larger_micro_batches(first) is None
        assert all(getattr(first.plan, name) == value for name, value in given.items())


def test_chunks_have_equally_many_layers():
    known = candidates("mixtral-8x22b", gpus=128, plan={"source": "search", "pp": 8, "ep": 8})
    one = known.whole()[0]
    # seven layers per stage
    assert [more.plan.vpp for more in known.with_chunks(one)] in ([7], [])
    given = candidates("mixtral-8x22b", gpus=128, plan={"source": "search", "pp": 8, "vpp": 7})
    assert {one.plan.vpp for one in given.whole()} == {7}
    assert list(given.with_chunks(given.whole()[0])) == []


def test_chunks_divide_the_bubble_of_a_screened_step():
    """The bubble takes PP - 1 micro-batches; uneven stages take as long as the longest."""
    plan = Plan(gpus=4, pp=4, dp=1, micro_batches=8)
    pace = _Pace(stages=4, layers=2, first_s=4.0, more_s=1.0)
    assert pace.step_time_s(plan, 8, 1) == 4 + 7
    assert pace.step_time_s(plan, 8, 2) == 8 + 3 / 2
    assert pace.step_time_s(plan, 16, 1) == 2 * 11
    # nine layers are three per stage, or two chunks of two
    assert pace.step_time_s(plan, 9, 1) == 3 / 2 * 11
    assert pace.step_time_s(plan, 9, 2) == 4 / 2 * 9.5
    # two stages less were simulated
    fewer = _Pace(stages=2, layers=2, first_s=2.0, more_s=1.0)
    assert fewer.step_time_s(plan, 8, 1) == 4 + 7


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
    with pytest.raises(PlanError, match="does not fit on 8 GPUs; closest is"):
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
