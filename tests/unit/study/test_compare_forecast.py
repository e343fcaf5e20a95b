"""What a comparison will take, before it begins."""

import dataclasses

import pytest

from lightloom.errors import InputError
from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario, forecast
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


def test_few_micro_batches_need_no_forecast():
    assert forecast.forecast(job(16)) is None


def test_memory_is_proportional_to_the_micro_batches():
    # beyond what is kept for another use, which has a limit
    small, large = forecast.forecast(job(4096)), forecast.forecast(job(16_384))
    assert small.seconds > 0
    assert 3 < large.memory_bytes / small.memory_bytes < 5


def test_what_does_not_fit_the_machine_is_refused(monkeypatch):
    monkeypatch.setattr(forecast, "_installed_bytes", lambda: 1e8)
    with pytest.raises(InputError, match=r"4,096 micro-batches take about .* GB of memory, of 0.1"):
        forecast.forecast(job(4096))


@pytest.mark.parametrize(
    ("seconds", "words"), [(61, "61 s"), (600, "10 minutes"), (7300, "2 hours")]
)
def test_a_forecast_is_said_in_round_numbers(seconds, words):
    found = forecast.Requirements(seconds, 2.34e9)
    assert found.sentence() == f"forecast: about {words}, 2.3 GB of memory"
    assert dataclasses.replace(found, memory_bytes=1e8).sentence().endswith("0.1 GB of memory")
