"""Other loads than a job's own, and the all-to-all that suits each fabric."""

from types import SimpleNamespace

import pytest

from lightloom.errors import DemandError, PlanError
from lightloom.fabric import Setting, load_fabric
from lightloom.study.compare import (
    ClusterOptions,
    DemandOptions,
    PlanOptions,
    budget,
    compare,
    strategies,
)
from lightloom.study.compare.imbalance import LEARNED, LOADS, is_load_of, other_loads
from lightloom.study.compare.job import prepare
from lightloom.study.compare.results import Sample
from lightloom.study.compare.runner import Attempt
from lightloom.study.compare.variants import Strategy


def test_every_job_with_experts_is_shown_under_other_loads(scenario):
    trained = scenario(demand=DemandOptions(source="auxiliary", trained_steps=7))
    loads = other_loads(prepare(trained))
    assert {name: load.demand.name for name, load in loads.items()} == {
        "balanced": "balanced", "skewed": "skewed",
        "learned early": "learned", "learned late": "natural",
    }  # fmt: skip
    # early is the first step, whenever the job's own is
    assert {name: load.demand.trained_steps for name, load in loads.items()} == {
        "balanced": 7, "skewed": 7, "learned early": 0, "learned late": 0
    }  # fmt: skip
    dense = scenario(model="llama-3-8b", plan=PlanOptions(tp=1, pp=1), memory_check=False)
    assert other_loads(prepare(dense)) == {}
    assert other_loads(prepare(scenario(imbalances=False))) == {}
    assert other_loads(prepare(scenario(network="packet"))) == {}


def test_a_recorded_demand_is_shown_against_a_balanced_one(scenario, tmp_path):
    path = tmp_path / "m.txt"
    path.write_text(str([[8192] * 8] * 8))
    recorded = prepare(scenario(demand=DemandOptions(source=str(path), scale=True)))
    assert list(other_loads(recorded)) == ["balanced"]
    assert other_loads(recorded)["balanced"].demand.scale is False


@pytest.mark.parametrize(
    ("source", "load"),
    [("uniform", "balanced"), ("mixtral", "skewed"), ("natural", "learned late")],
)
def test_the_scenarios_own_load_is_not_simulated_again(scenario, source, load):
    own = scenario(demand=DemandOptions(source=source), seeds=1, compute_spread=0.0)
    assert is_load_of(prepare(own), load)
    assert is_load_of(prepare(own.with_imbalance(LEARNED.get(load, load))), load)
    assert not is_load_of(prepare(scenario()), load)
    result = compare(own.model_copy(update={"fabrics": ("fat-tree",)})).results[0]
    assert result.load(load).step_time_s == result.step_time_s
    assert [each.imbalance for each in result.loads] == [*LOADS, *LEARNED]
    assert result.load("balanced").step_time_s < result.load("skewed").step_time_s


def test_only_the_first_step_of_a_learned_gate_is_its_early_load(scenario):
    for steps, is_early in ((0, True), (18, False)):
        own = scenario(demand=DemandOptions(source="learned", trained_steps=steps))
        assert is_load_of(prepare(own), "learned early") is is_early


def test_a_gate_that_learns_lies_between_balanced_and_skewed(comparison):
    for result in comparison.results:
        balanced, late, early, skewed = (
            result.load(name).step_time_s
            for name in ("balanced", "learned late", "learned early", "skewed")
        )
        assert balanced < late < early < skewed
        # nothing is tried again under a learned load
        assert result.load("learned late").all_to_all == result.parameters["all_to_all"]


@pytest.mark.parametrize("name", [*LOADS, *LEARNED])
def test_fabrics_are_compared_under_the_same_load(comparison, name):
    loads = [result.load(name) for result in comparison.results]
    fastest = min(load.step_time_s for load in loads)
    for load in loads:
        assert load.ratio_to_fastest == pytest.approx(load.step_time_s / fastest)


def test_published_units_follow_from_the_throughput(comparison):
    for result in comparison.results:
        assert result.tokens_per_s_per_gpu == pytest.approx(result.tokens_per_s / 128)
        assert result.days_per_trillion_tokens == pytest.approx(1e12 / result.tokens_per_s / 86_400)
        # 6 N + 6 L h s of Mixtral 8x7B by hand, over the A100's 312 TFLOPS
        flops = 6 * 12.748e9 + 6 * 32 * 4096 * 4096
        expected = flops * result.tokens_per_s_per_gpu / 312e12
        assert result.mfu == pytest.approx(expected, rel=1e-3)
        assert result.tflops_per_gpu == pytest.approx(312 * result.mfu)


def test_the_fastest_trial_is_kept_and_ties_go_to_the_first():
    def done(fabric, strategy, step_time_s):
        attempt = Attempt(
            load_fabric(fabric), Sample(0, 0), Strategy(Setting("all_to_all", strategy))
        )
        return SimpleNamespace(attempt=attempt, run=SimpleNamespace(step_time_s=step_time_s))

    kept = strategies.fastest(
        [done("rail", "hierarchical", 2.0), done("rail", "rail", 1.0), done("rail", "flat", 1.0),
         done("fat-tree", "flat", 3.0), done("fat-tree", "hierarchical", 2.5)]
    )  # fmt: skip
    assert {name: one.attempt.variant.key for name, one in kept.items()} == {
        "rail": "all_to_all=rail", "fat-tree": "all_to_all=hierarchical"
    }  # fmt: skip


def test_no_strategy_of_a_fabric_is_faster_than_its_own(comparison):
    result = comparison.result("fat-tree")
    tried = {
        name.removeprefix("all_to_all="): seconds
        for name, seconds in result.variants_s.items()
        if name.startswith("all_to_all=")
    }
    assert tried[result.parameters["all_to_all"]] == min(tried.values())
    assert result.sample_step_times_s[0] == min(tried.values())
    assert result.notes[0].startswith(f"all-to-all {result.parameters['all_to_all']}: ")


@pytest.mark.parametrize(
    ("plan", "degree", "faster"),
    [
        # the one packet NIC of a server is what pipeline and data parallelism have
        ({"pp": 2, "vpp": 2, "cp": 2, "ep": 4}, 3, "off"),
        ({"pp": 1, "ep": 32}, 2, "on"),
    ],
)
def test_mixnet_splits_where_that_is_faster(scenario, plan, degree, faster):
    def step(**options):
        given = scenario(
            model="qwen3-30b-a3b", gpus=32, plan=PlanOptions(tp=1, micro_batches=4, **plan),
            cluster=ClusterOptions(rate_gbps=100, gpus_per_server=4, nics_per_server=4), seeds=1,
            demand=DemandOptions(source="balanced"), compute_spread=0.0, imbalances=False,
            fabrics=("mixnet",), fabric_options={"mixnet": {"ports": degree, **options}},
            policies=False, memory_check=False,
        )  # fmt: skip
        return compare(given).results[0]

    found, on, off = step(), step(split=True), step(split=False)
    assert found.step_time_s == min(on.step_time_s, off.step_time_s)
    assert found.parameters["split"] is (faster == "on")
    assert found.notes[1].startswith(f"split {faster}: ")
    assert found.notes[1].split(";")[0].endswith("on the first sample")
    for given in (on, off):
        assert not any(name.startswith("split=") for name in given.variants_s)
        assert not any(note.startswith("split ") for note in given.notes)
    # variants are those of the chosen fabric
    chosen = on if faster == "on" else off
    others = {k: v for k, v in found.variants_s.items() if not k.startswith("split=")}
    assert others == chosen.variants_s


def test_candidates_are_not_simulated_in_steps_of_too_many_flows(scenario, monkeypatch):
    monkeypatch.setattr(budget, "MAX_FLOWS", 0)
    given = scenario(seeds=1, compute_spread=0.0, imbalances=False, policies=False)
    found = compare(given)
    assert not any("=" in name for name in found.result("fat-tree").variants_s)
    mixnet = found.result("mixnet")
    assert mixnet.parameters["split"] is True
    assert not any(name.startswith("split=") for name in mixnet.variants_s)
    assert "split on: an estimate, which leaves out what else uses the packet NICs" in mixnet.notes


def test_a_chosen_strategy_is_not_questioned(scenario):
    options = {"all": {"all_to_all": "hierarchical"}}
    given = scenario(fabrics=("fat-tree",), fabric_options=options, seeds=1, compute_spread=0.0)
    result = compare(given.model_copy(update={"imbalances": False})).results[0]
    assert result.parameters["all_to_all"] == "hierarchical"
    assert result.variants_s == {}


def test_a_plan_is_repaired_by_recomputation_or_refused(scenario):
    # 83.5 GB as published, where 76.8 of 80 GB are for the model
    repaired = prepare(scenario(plan=PlanOptions())).fitted
    level = repaired.options.recompute
    assert level != "none"
    assert "GB" in repaired.repaired
    assert prepare(scenario(recompute="full")).fitted.repaired is None
    large = scenario(plan=PlanOptions(), recompute="none")
    with pytest.raises(PlanError) as error:
        prepare(large)
    assert str(error.value).startswith("the plan does not fit NVIDIA A100 80GB SXM: stage 0 needs ")
    assert f"; --recompute {level} fits" in str(error.value)
    allowed = prepare(large.model_copy(update={"memory_check": False})).fitted
    assert allowed.misfit is not None


def test_what_no_recomputation_repairs_is_refused_with_another_plan(scenario):
    plan = PlanOptions(tp=1, pp=1, ep=8, micro_batches=4)
    with pytest.raises(PlanError, match=r"does not fit.*; --(pp|ep|tp) \d+ does$") as error:
        prepare(scenario(model="mixtral-8x22b", plan=plan))
    name, enough = str(error.value).rpartition("; --")[2].split()[:2]
    fits = plan.model_copy(update={name: int(enough)})
    assert prepare(scenario(model="mixtral-8x22b", plan=fits)).fitted.misfit is None
    half = plan.model_copy(update={name: int(enough) // 2})
    with pytest.raises(PlanError, match="does not fit"):
        prepare(scenario(model="mixtral-8x22b", plan=half))


def test_where_no_degree_is_enough_the_remedy_has_more_gpus(scenario):
    plan = PlanOptions(tp=8, pp=1, ep=1, micro_batches=4)
    with pytest.raises(PlanError, match=r"; --gpus \d+ --pp \d+ does$") as error:
        prepare(scenario(model="mixtral-8x22b", gpus=8, plan=plan))
    _, gpus, _, pp, _ = str(error.value).rpartition("; ")[2].split()
    fits = plan.model_copy(update={"pp": int(pp)})
    job = prepare(scenario(model="mixtral-8x22b", gpus=int(gpus), plan=fits))
    assert job.fitted.misfit is None


def test_the_bring_up_of_links_is_in_the_result_or_said(scenario):
    changes = {"seeds": 1, "fabrics": ("mixnet",), "compute_spread": 0.0, "imbalances": False}
    included = compare(scenario(**changes)).results[0].link_up
    assert (included.delay_s, included.measured_s, included.other_delay_s) == (5.67, 5.67, 0.0)
    options = {"mixnet": {"link_up_s": 0}}
    without = compare(scenario(**changes, fabric_options=options)).results[0]
    assert without.link_up.other_delay_s == 5.67
    assert without.step_time_s == included.other_step_time_s
    assert without.link_up.other_step_time_s == included.step_time_s


def test_a_cluster_without_even_nics_is_simulated(scenario):
    odd = scenario(
        fabrics=("fat-tree",), cluster=ClusterOptions(rate_gbps=400, nics_per_server=3), seeds=1,
        compute_spread=0.0, imbalances=False,
    )  # fmt: skip
    assert compare(odd).results[0].step_time_s > 0


def test_an_uneven_all_to_all_inside_a_server_takes_longer(scenario):
    """The busiest of eight ranks gets twice the mean, over the same NVLink."""
    inside = scenario(
        model="qwen3-30b-a3b", gpus=8, fabrics=("fat-tree",), seeds=1, compute_spread=0.0,
        plan=PlanOptions(tp=1, pp=1, ep=8, micro_batches=2), memory_check=False,
        imbalances=False, demand=DemandOptions(source="balanced", dispatcher="alltoall"),
    )  # fmt: skip
    even, uneven = (
        compare(inside.with_imbalance(load)).results[0].mean_s for load in ("balanced", 2.0)
    )
    assert 1.3 * even["ep"] < uneven["ep"] < 2.1 * even["ep"]


def test_a_learned_gate_is_less_even_at_the_begin_of_training(scenario):
    early, late = (
        compare(
            scenario(
                fabrics=("fat-tree",), seeds=1, compute_spread=0.0, imbalances=False,
                demand=DemandOptions(source="learned", trained_steps=steps),
            )
        ).results[0]
        for steps in (0, 500)
    )  # fmt: skip
    assert late.step_time_s < early.step_time_s


def test_steps_of_training_belong_to_drawn_gates(scenario, tmp_path):
    path = tmp_path / "m.txt"
    path.write_text(str([[8192] * 8] * 8))
    recorded = DemandOptions(source=str(path), scale=True, trained_steps=5)
    with pytest.raises(DemandError, match="is recorded: leave trained_steps out"):
        prepare(scenario(demand=recorded))
