"""Laws of static fabrics: rails without a spine, planes that share NICs, larger racks."""

from __future__ import annotations

import pytest
from tests.laws.bounds import CLOSE, EQUAL, compared
from tests.laws.jobs import MODEL, Job, random_job
from tests.laws.sampling import apart, hold, longer, seeds, shorter

from lightloom import Scenario, compare

COUNT = 6
FABRICS = ("fat-tree", "rail", "rail-only", "dual-plane", "nvl72")


def jobs() -> list[Job]:
    """Jobs of the sample."""
    return [random_job(seed) for seed in seeds(COUNT)]


def times_s(job: Job) -> dict[str, float]:
    """The step on each fabric: uplinks that flows reach in full, racks of two servers."""
    options = job.options["fabric_options"]
    layout = dict(options["fat-tree"])
    rack = {"gpus_per_server": 2 * job.options["cluster"]["gpus_per_server"]}
    scenario = {
        **job.options,
        "fabrics": FABRICS,
        "fabric_options": {
            "all": {**options["all"], "ecmp": 1.0},
            **{name: layout for name in FABRICS if name != "nvl72"},
            "nvl72": {**rack, "nvlink_gbps": 3600.0, "spare_gpus": 0},
        },
    }
    results = compare(Scenario(model=str(MODEL), **scenario)).results
    return {one.fabric: one.step_time_s for one in results}


@pytest.fixture(scope="module")
def found():
    """Times of every job."""
    return {job: times_s(job) for job in jobs()}


def test_planes_that_share_nics_are_a_fat_tree(found):
    """When nothing fails and packets are sprayed over them."""
    hold(lambda job: apart(found[job]["dual-plane"], found[job]["fat-tree"]), jobs(), EQUAL)


def test_rails_without_a_spine_are_not_faster(found):
    """A rail can do whatever rail-only does."""
    hold(lambda job: shorter(found[job]["rail-only"], found[job]["rail"]), jobs(), CLOSE)


def test_larger_racks_are_not_slower(found):
    """At equal rates what leaves a server of two is less, and nothing else changes."""
    bound = compared("rate", "nvl72")
    hold(lambda job: longer(found[job]["nvl72"], found[job]["fat-tree"]), jobs(), bound)
