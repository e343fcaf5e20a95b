"""What a comparison will take, before it begins."""

import dataclasses

import pytest

from lightloom.errors import InputError
from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario, compare, forecast
from lightloom.study.compare.builds import Networks, Workloads
from lightloom.study.compare.job import prepare


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
    assert forecast.forecast(job(16)) is None


def test_few_micro_batches_of_many_gpus_are_forecast():
    large = Scenario(
        model="mixtral-8x22b",
        gpus=2048,
        fabrics=("fat-tree",),
        cluster=ClusterOptions(rate_gbps=400),
        plan=PlanOptions(micro_batches=8),
        memory_check=False,
    )
    assert forecast.forecast(prepare(large)) is not None


def test_memory_is_proportional_to_the_micro_batches(monkeypatch):
    # what is kept for another use has a limit
    monkeypatch.setattr(forecast, "KEPT_BYTES", 0)
    small, large = forecast.forecast(job(4096)), forecast.forecast(job(16_384))
    assert small.seconds > 0
    assert 3 < large.memory_bytes / small.memory_bytes < 5


def test_what_does_not_fit_the_machine_is_refused(monkeypatch):
    monkeypatch.setattr(forecast, "_installed_bytes", lambda: 1e8)
    with pytest.raises(InputError, match=r"4,096 micro-batches take about .* GB of memory, of 0.1"):
        forecast.forecast(job(4096))


@pytest.mark.parametrize("policies", [False, True])
def test_every_run_of_a_comparison_is_forecast(policies):
    scenario = Scenario(
        model="mixtral-8x7b",
        gpus=64,
        fabrics=("mixnet",),
        cluster=ClusterOptions(rate_gbps=400),
        policies=policies,
        imbalances=False,
    )
    made = prepare(scenario)
    found = compare(scenario)
    networks = Networks(made, Workloads(made))
    (result,) = found.results
    runs = len(result.sample_step_times_s) + len(result.variants_s)
    assert forecast._runs(made, made.fabrics[0], networks) == runs


@pytest.mark.parametrize(
    ("seconds", "words"), [(61, "61 s"), (600, "10 minutes"), (7300, "2 hours")]
)
def test_a_forecast_is_said_in_round_numbers(seconds, words):
    found = forecast.Requirements(seconds, 2.34e9)
    assert found.sentence() == f"forecast: about {words}, 2.3 GB of memory"
    assert dataclasses.replace(found, memory_bytes=1e8).sentence().endswith("0.1 GB of memory")
