"""A faster plan than the published one is said where a search takes seconds."""

import re

import pytest

from lightloom.progress import Monitor
from lightloom.study.compare import PlanOptions, Scenario, compare
from lightloom.study.compare.plan_hint import with_plan_hint


def compared(model="mixtral-8x7b", gpus=128, **plan):
    return compare(
        Scenario(
            model=model,
            gpus=gpus,
            fabrics=("fat-tree",),
            cluster={"rate_gbps": 400, "gpu": "h100"},
            plan=PlanOptions(**{"micro_batches": 4, **plan}),
            seeds=1,
            compute_spread=0.0,
            imbalances=False,
        )
    )


def hints(comparison, monitor=None):
    return with_plan_hint(comparison, monitor or Monitor()).warnings[len(comparison.warnings) :]


def test_a_slow_published_plan_is_said_with_the_one_that_a_search_finds():
    found = compared()
    (hint,) = hints(found)
    said = re.fullmatch(
        r"the published plan is ([\d.]+)x slower than (.*), which --plan search finds: ([\d.]+) s "
        r"instead of ([\d.]+) s for a step of 1,048,576 tokens on fat-tree",
        hint,
    )
    ratio, _, own_s, found_s = said.groups()
    assert float(own_s) == pytest.approx(found.result("fat-tree").step_time_s, rel=0.05)
    assert float(own_s) / float(found_s) == pytest.approx(float(ratio), rel=0.01)
    assert float(ratio) > 1.1


@pytest.mark.parametrize("plan", [{"source": "published"}, {"tp": 4, "pp": 4, "ep": 8}])
def test_who_chose_a_plan_is_not_told(plan):
    assert hints(compared(**plan)) == ()


def test_a_model_without_a_published_plan_has_been_searched():
    assert hints(compared("olmoe-1b-7b", 16)) == ()


def test_a_long_search_is_not_begun(monkeypatch):
    monkeypatch.setattr("lightloom.study.compare.plan_hint.QUICK", 1000)
    assert hints(compared()) == (
        "the plan is the published one; --plan search may find a faster one",
    )


def test_the_search_can_be_stopped():
    class Stop(Monitor):
        def progress(self, *_):
            return False

    found = compared()
    with pytest.raises(KeyboardInterrupt):
        hints(found, Stop())
