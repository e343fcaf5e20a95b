"""A predicted step beside a recorded one: times that add up in one's head, and their sum."""

import random

import pytest
from tests.kineto_files import Profile

from lightloom.study.calibration.step_error import TERMS, step_error
from lightloom.trace.importers.kineto import read_kineto

PLAN = {"tp": 2, "pp": 2, "ep": 4, "cp": 1}


def recorded(tmp_path, *profiles):
    for number, profile in enumerate(profiles):
        profile.write(tmp_path / f"rank{number}.json")
    return read_kineto(tmp_path)


def test_terms_of_one_step(tmp_path):
    """10 ms of products, 4 ms of all-to-all of which 1 ms is hidden, 2 ms idle, 3 ms of rings."""
    profile = Profile(0, 8)
    profile.kernel("gemm", 0, 10_000)
    profile.nccl(
        "all_to_allv", 9_000, 4_000, 1024, Group_size=4, Process_Group_Ranks="[0, 1, 2, 3]"
    )
    profile.nccl("_allgather_base", 15_000, 3_000, 1024, stream=21)
    found = step_error(
        "rail",
        {"attention": 4e-3, "expert": 4e-3, "ep": 4e-3, "straggler": 1e-3, "tp": 1e-3},
        PLAN,
        recorded(tmp_path, profile),
    )
    terms = {term.term: (term.predicted_s, term.measured_s) for term in found.terms}
    assert terms["all-to-alls"] == pytest.approx((5e-3, 3e-3))
    assert terms["tensor parallelism"] == pytest.approx((1e-3, 3e-3))
    assert terms["computation"] == pytest.approx((8e-3, 12e-3))
    assert found.idle_s == pytest.approx(2e-3)
    assert found.step.predicted_s == pytest.approx(14e-3)
    assert found.step.measured_s == pytest.approx(18e-3)
    assert found.largest.term == "computation"


def test_messages_are_the_pipeline_and_wide_rings_gradients(tmp_path):
    profile = Profile(0, 8)
    profile.kernel("gemm", 0, 1_000)
    profile.nccl(
        "all_reduce", 1_000, 500, 64, Group_size=8, Process_Group_Ranks=str(list(range(8)))
    )
    found = step_error("rail", {"dp": 1e-3, "bubble": 2e-3}, PLAN, recorded(tmp_path, profile))
    terms = {term.term: (term.predicted_s, term.measured_s) for term in found.terms}
    assert terms["gradients, parameters"] == pytest.approx((1e-3, 0.5e-3))
    assert terms["pipeline"] == pytest.approx((2e-3, 0.0))


@pytest.mark.parametrize("seed", range(5))
def test_terms_sum_to_the_step(tmp_path, seed):
    draw = random.Random(seed)
    profiles = []
    for rank in range(2):
        profile, at = Profile(rank, 2), 0
        for step in range(3):
            begin = at
            for _ in range(draw.randrange(2, 6)):
                profile.kernel("gemm", at, draw.randrange(1, 3_000))
                at += draw.randrange(500, 3_500)
                profile.nccl("all_to_allv", at, draw.randrange(1, 2_000), 1024)
                at += draw.randrange(500, 2_500)
            at += 4_000
            profile.step(step, begin, at - begin)
        profiles.append(profile)
    predicted = {name: draw.random() for name in ("expert", "ep", "pp", "dp", "cp", "bubble", "tp")}
    found = step_error("rail", predicted, PLAN, recorded(tmp_path, *profiles))
    assert (found.ranks, found.steps) == (2, 3)
    for side in ("predicted_s", "measured_s"):
        total = sum(getattr(term, side) for term in found.terms)
        assert total == pytest.approx(getattr(found.step, side))
    assert {term.term for term in found.terms} <= set(TERMS)
    assert all(term.measured_s >= -1e-12 for term in found.terms)
    assert 0 < found.idle_s < found.step.measured_s
