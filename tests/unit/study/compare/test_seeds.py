"""Seeds of long comparisons: two that agree are enough, and what was run is what is said."""

import dataclasses

import pytest

from lightloom.progress import Monitor
from lightloom.study.compare import (
    ClusterOptions,
    PlanOptions,
    Sample,
    Scenario,
    compare,
    seeds,
)
from lightloom.study.compare.job import prepare
from lightloom.study.compare.runner import Attempt, Done
from lightloom.study.compare.summary import summary_of


class Remarks(Monitor):
    def __init__(self):
        self.remarks, self.rows, self.summary = [], [], []

    def begun(self, summary, _warnings):
        self.summary = summary

    def remark(self, text):
        self.remarks.append(text)

    def finished(self, row):
        self.rows.append(row)


def scenario(**changes):
    values = {
        "model": "mixtral-8x7b",
        "gpus": 128,
        "fabrics": ("fat-tree", "rail"),
        "cluster": ClusterOptions(rate_gbps=100),
        "plan": PlanOptions(micro_batches=4),
    }
    return Scenario(**{**values, **changes})


@pytest.fixture
def long(monkeypatch):
    """Every comparison is a long one."""
    monkeypatch.setattr(seeds, "LONG_WORK", 1)


def test_short_given_and_undrawn_seeds_all_run(monkeypatch):
    job = prepare(scenario())
    assert not seeds.may_end_early(job)
    work = job.model.num_layers * job.plan.micro_batches * job.plan.gpus
    monkeypatch.setattr(seeds, "LONG_WORK", work + 1)
    assert not seeds.may_end_early(job)
    monkeypatch.setattr(seeds, "LONG_WORK", work)
    assert seeds.may_end_early(job)
    assert not seeds.may_end_early(prepare(scenario(seeds=3)))
    assert not seeds.may_end_early(prepare(scenario(network="packet")))
    assert not seeds.may_end_early(prepare(scenario(seeds=2)))
    monkeypatch.setattr(type(job), "draws", False)
    assert not seeds.may_end_early(job)
    assert seeds.with_fewest(job) is job


@pytest.mark.usefixtures("long")
def test_the_third_seed_waits_and_other_samples_do_not():
    job = prepare(scenario(seed=5))
    attempts = [Attempt(fabric, sample) for sample in job.samples() for fabric in job.fabrics]
    early, late = seeds.divided(job, attempts)
    assert {attempt.sample.seed for attempt in early} == {5, 6}
    assert {attempt.sample.seed for attempt in late} == {7}
    assert sorted(map(id, early + late)) == sorted(map(id, attempts))
    assert seeds.divided(prepare(scenario(seeds=3, seed=5)), attempts) == (attempts, [])


@dataclasses.dataclass(frozen=True)
class _Fabric:
    name: str


@dataclasses.dataclass(frozen=True)
class _Run:
    step_time_s: float


def _done(fabric, seed, time, **sample):
    attempt = Attempt(_Fabric(fabric), Sample(seed, 0, **sample))
    return Done(attempt, _Run(time), None, 0.0)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"a": (1.0, 1.004)}, True),
        ({"a": (1.0, 1.006)}, False),
        ({"a": (1.006, 1.0)}, False),
        ({"a": (1.0, 1.004), "b": (2.0, 2.008)}, True),
        # each within half a percent, their ratio not
        ({"a": (1.0, 1.004), "b": (2.0, 1.992)}, False),
    ],
)
def test_seeds_agree_by_times_and_by_ratios(times, expected):
    done = [
        _done(name, seed, time) for name, pair in times.items() for seed, time in enumerate(pair)
    ]
    # other speeds and variants of the first seed have no counterpart
    done.append(_done("a", 0, 9.0, compute_scale=1.1))
    done.append(
        dataclasses.replace(done[0], attempt=dataclasses.replace(done[0].attempt, variant="x"))
    )
    assert seeds.agree(done) is expected


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("agree", [True, False])
def test_what_was_run_is_what_is_told(monkeypatch, agree):
    monkeypatch.setattr(seeds, "agree", lambda _: agree)
    given = scenario(compute_spread=0.0, imbalances=False)
    monitor = Remarks()
    found = compare(given, monitor=monitor)
    ran = [0, 1] if agree else [0, 1, 2]
    assert [sample["seed"] for sample in found.inputs["samples"]] == ran
    assert all(len(result.sample_step_times_s) == len(ran) for result in found.results)
    assert {row["seed"] for row in monitor.rows} == set(ran)
    assert any("3 seeds x 1 step (the first 2 if they agree)" in line for line in monitor.summary)
    text = (
        "seeds: the first 2 agree within 0.5% on every fabric and ratio, 1 more not simulated;"
        " --seeds 3 runs all"
    )
    assert (text in monitor.remarks) is agree
    job = found.details["job"]
    expected = f"{len(ran)} seeds x 1 step"
    assert any(expected in line for line in summary_of(job))
    # the same, asked for by number
    again = compare(given.model_copy(update={"seeds": len(ran)}))
    assert [one.sample_step_times_s for one in again.results] == [
        one.sample_step_times_s for one in found.results
    ]
