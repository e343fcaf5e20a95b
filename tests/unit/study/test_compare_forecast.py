"""What a comparison will take, before it begins."""

import dataclasses

import pytest

from lightloom.errors import InputError
from lightloom.fabric import Setting
from lightloom.progress import Monitor
from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario, compare, forecast
from lightloom.study.compare.budget import Budget
from lightloom.study.compare.builds import CONTEXT_SAMPLES
from lightloom.study.compare.job import prepare
from lightloom.study.compare.variants import NEVER, OWN, Strategy


def job(micro_batches, **more):
    return prepare(
        Scenario(
            model="mixtral-8x7b",
            gpus=128,
            fabrics=("fat-tree",),
            cluster=ClusterOptions(rate_gbps=400),
            plan=PlanOptions(micro_batches=micro_batches),
            **more,
        )
    )


def test_short_comparisons_need_no_forecast():
    assert forecast.forecast(Budget(job(16))) is None


def test_few_micro_batches_of_many_gpus_are_forecast():
    large = Scenario(
        model="mixtral-8x22b",
        gpus=2048,
        fabrics=("fat-tree",),
        cluster=ClusterOptions(rate_gbps=400),
        plan=PlanOptions(micro_batches=8),
        memory_check=False,
    )
    assert forecast.forecast(Budget(prepare(large))) is not None


def test_memory_is_proportional_to_the_micro_batches(monkeypatch):
    # what is kept for another use has a limit
    monkeypatch.setattr(forecast, "KEPT_BYTES", 0)
    small, large = forecast.forecast(Budget(job(4096))), forecast.forecast(Budget(job(16_384)))
    assert small.seconds > 0
    assert 3 < large.memory_bytes / small.memory_bytes < 5


def test_what_does_not_fit_the_machine_is_refused(monkeypatch):
    monkeypatch.setattr(forecast, "_installed_bytes", lambda: 1e8)
    with pytest.raises(InputError, match=r"4,096 micro-batches take about .* GB of memory, of 0.1"):
        forecast.forecast(Budget(job(4096)))


def test_memory_is_compared_with_that_of_the_machine(monkeypatch):
    needed = forecast.forecast(Budget(job(4096))).memory_bytes
    monkeypatch.setattr(forecast, "_installed_bytes", lambda: 1.01 * needed)
    assert forecast.forecast(Budget(job(4096))).memory_bytes == needed
    monkeypatch.setattr(forecast, "_installed_bytes", lambda: 0.99 * needed)
    with pytest.raises(InputError, match="4,096 micro-batches take about"):
        forecast.forecast(Budget(job(4096)))


def test_samples_take_memory_as_far_as_they_are_kept(monkeypatch):
    def memory(seeds):
        return forecast.forecast(Budget(job(4096, seeds=seeds, compute_spread=0.0))).memory_bytes

    monkeypatch.setattr(forecast, "_installed_bytes", lambda: None)
    monkeypatch.setattr(forecast, "KEPT_BYTES", 1e18)
    one, two, three = (memory(seeds) for seeds in (1, 2, 3))
    assert three - two == pytest.approx(two - one)
    assert two > one
    monkeypatch.setattr(forecast, "KEPT_BYTES", 0)
    assert memory(1) == memory(3) == one


#: one sample of one fabric under its own load alone
ALONE = {"seeds": 1, "compute_spread": 0.0, "imbalances": False}


@pytest.fixture
def taking(monkeypatch):
    """Has building, scaling and simulating the short step take so many seconds of a core."""

    def take(cores, **seconds):
        monkeypatch.setattr(forecast, "_cpu_s", lambda work, *_: seconds.get(work.__name__, 0.0))
        trial = (1.0, seconds.get("simulate", 0.0))
        monkeypatch.setattr(forecast._Tried, "_trial", lambda *_: trial)
        monkeypatch.setattr(forecast.os, "cpu_count", lambda: cores)

    return take


def test_a_step_of_four_times_the_micro_batches_takes_four_times_as_long(taking):
    taking(2, get=3.0)
    short, long = (forecast.forecast(Budget(job(count, **ALONE))) for count in (4096, 16_384))
    assert long.seconds == pytest.approx(4 * short.seconds)


def test_every_demand_is_drawn_once_and_those_of_a_mean_before_anything_runs(taking):
    def seconds(seeds, cores):
        taking(cores, get=1.0)
        return forecast.forecast(Budget(job(4096, **ALONE | {"seeds": seeds}))).seconds

    one = seconds(1, 1)
    assert seconds(1, 4) == pytest.approx(one)
    assert seconds(5, 1) == pytest.approx(5 * one)
    assert seconds(CONTEXT_SAMPLES + 4, 4) == pytest.approx((CONTEXT_SAMPLES + 1) * one)


@pytest.mark.parametrize("policies", [False, True])
def test_every_run_of_a_comparison_is_forecast(policies):
    scenario = Scenario(
        model="mixtral-8x7b",
        gpus=128,
        fabrics=("mixnet",),
        cluster=ClusterOptions(rate_gbps=400),
        plan=PlanOptions(micro_batches=4),
        policies=policies,
        imbalances=False,
    )
    made = prepare(scenario)
    found = compare(scenario)
    (result,) = found.results
    # one of the two candidates of split is the first sample
    assert {"split=on", "split=off"} <= set(result.variants_s)
    runs = len(result.sample_step_times_s) + len(result.variants_s) - 1
    assert forecast._runs(made, made.fabrics[0], None, 1.0) + 1 == runs


def test_a_candidate_that_is_not_much_slower_is_run_once():
    # steps of 10, 10.5 and 20 s that take 1, 40 and 2 s to simulate
    on, off, auto = (Strategy(Setting("split", value)) for value in ("on", "off", "auto"))
    costs = forecast._by_candidate({on: (10.0, 1.0), off: (10.5, 40.0), auto: (20.0, 2.0)})
    assert costs == {on: 1.0, off: 40.0, OWN: 1.0}
    assert forecast._in_vain_s({"": costs}) == 40.0
    assert forecast._in_vain_s({"": forecast._by_candidate({OWN: (10.0, 1.0)})}) == 0.0


def test_a_run_costs_what_its_fabric_takes_under_its_load():
    on, off = (Strategy(Setting("split", value)) for value in ("on", "off"))
    run_s = {
        ("mixnet", "", OWN): 1.0,
        ("mixnet", "", off): 40.0,
        ("mixnet", "skewed", OWN): 3.0,
        ("fat-tree", "", OWN): 2.0,
    }
    found = forecast.Requirements(60.0, 1e9, run_s)
    assert found.cost("mixnet", "", off) == 40.0
    assert found.cost("mixnet", "", on) == 0.0, "ruled out by a short step"
    assert found.cost("mixnet", "skewed", OWN) == 3.0
    assert found.cost("mixnet", "balanced", OWN) == 1.0
    assert found.cost("mixnet", "", NEVER) == 1.0
    assert found.cost("fat-tree", "skewed", OWN) == 2.0


def test_all_runs_of_a_comparison_add_up_to_its_work():
    """However many candidates a short step rules out: the last share is one, none goes back."""

    class Shares(Monitor):
        def __init__(self):
            self.shares = []

        def progress(self, share, activity="", /):
            if " seed " in activity:
                self.shares.append(share)

    scenario = Scenario(
        model="mixtral-8x7b",
        gpus=128,
        fabrics=("fat-tree", "mixnet"),
        cluster=ClusterOptions(rate_gbps=400),
        plan=PlanOptions(micro_batches=2),
        seeds=1,
    )
    monitor = Shares()
    compare(scenario, monitor=monitor)
    assert monitor.shares[-1] == pytest.approx(1.0)
    assert sum(share > 0.999 for share in monitor.shares) < 20


@pytest.mark.parametrize(
    ("seconds", "words"), [(61, "61 s"), (600, "10 minutes"), (7300, "2 hours")]
)
def test_a_forecast_is_said_in_round_numbers(seconds, words):
    found = forecast.Requirements(seconds, 2.34e9)
    assert found.sentence() == f"forecast: about {words}, 2.3 GB of memory"
    assert dataclasses.replace(found, memory_bytes=1e8).sentence().endswith("0.1 GB of memory")
