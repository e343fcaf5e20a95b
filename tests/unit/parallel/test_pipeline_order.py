"""Orders of 1F1B and interleaved schedules, written out by hand."""

import collections
import random

import pytest

from lightloom.parallel import Plan
from lightloom.parallel.pipeline import peak_in_flight, schedule, turns

PRACTICES = (
    *(("1f1b", "none"), ("1f1b", "batch"), ("zero-bubble", "none")),
    *(("dualpipe", "none"), ("dualpipe", "batch")),
)


def words(plan, stage):
    """Such as ``F0.1`` for the forward pass of micro-batch 1 through chunk 0."""
    return " ".join(
        f"{'F' if s.forward else 'B'}{s.chunk}.{s.micro_batch}" for s in schedule(plan, stage)
    )


def test_first_stage_of_1f1b():
    plan = Plan(gpus=4, pp=4, micro_batches=6)
    assert words(plan, 0) == ("F0.0 F0.1 F0.2 F0.3 B0.0 F0.4 B0.1 F0.5 B0.2 B0.3 B0.4 B0.5")


def test_last_stage_of_1f1b():
    plan = Plan(gpus=4, pp=4, micro_batches=3)
    assert words(plan, 3) == "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2"


def test_fewer_micro_batches_than_stages():
    plan = Plan(gpus=4, pp=4, micro_batches=2)
    assert words(plan, 0) == "F0.0 F0.1 B0.0 B0.1"


def test_interleaved():
    plan = Plan(gpus=2, pp=2, vpp=2, micro_batches=4)
    # warm-up of 2 (2 - 0 - 1) + (2 - 1) 2 = 4 forward passes, then 1F1B
    assert words(plan, 0) == (
        "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3"
    )
    # warm-up of 2
    assert words(plan, 1) == (
        "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3"
    )


@pytest.mark.parametrize("vpp", [1, 2, 3])
@pytest.mark.parametrize("pp", [2, 4, 5])
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_every_pass_runs_once_and_backward_after_forward(pp, vpp, turns):
    plan = Plan(gpus=pp, pp=pp, vpp=vpp, micro_batches=pp * turns)
    for stage in range(pp):
        steps = schedule(plan, stage)
        assert len(steps) == len(set(steps)) == 2 * plan.micro_batches * vpp
        seen = set()
        for step in steps:
            key = (step.chunk, step.micro_batch)
            assert (key not in seen) == step.forward
            seen.add(key)


def test_peak_in_flight_of_1f1b():
    plan = Plan(gpus=4, pp=4, micro_batches=16)
    assert [peak_in_flight(plan, stage, (1.0,)) for stage in range(4)] == [4, 3, 2, 1]
    few = Plan(gpus=4, pp=4, micro_batches=2)
    assert [peak_in_flight(few, stage, (1.0,)) for stage in range(4)] == [2, 2, 2, 1]


def test_peak_in_flight_of_interleaved_is_its_warm_up_and_one():
    plan = Plan(gpus=4, pp=4, vpp=2, micro_batches=16)
    expected = [2 * (4 - stage - 1) + 4 + 1 for stage in range(4)]
    assert [peak_in_flight(plan, stage, (1.0, 1.0)) for stage in range(4)] == expected


def random_plan(draw: random.Random) -> Plan:
    """Any schedule, few or many micro-batches, stages of two places where there are two ends."""
    name, overlap = draw.choice(PRACTICES)
    pp = draw.randint(2, 6)
    pp += pp % 2 if name == "dualpipe" else 0
    vpp = draw.randint(1, 4) if name == "1f1b" else 1
    if name == "dualpipe":
        count = 2 * draw.randint(pp, 2 * pp)
    elif vpp > 1:
        count = pp * draw.randint(1, 6)
    else:
        count = draw.randint(1, 4 * pp)
    if (name, overlap) == ("1f1b", "batch"):
        count = max(count, pp * -(-((vpp - 1) * pp + 2) // (vpp * pp)))
    return Plan(
        gpus=pp, pp=pp, vpp=vpp, micro_batches=count, schedule=name, overlap_all_to_all=overlap
    )


def test_the_peak_in_flight_is_that_of_the_played_schedule():
    """Weights are small binary fractions, so that sums are exact in any order."""
    draw = random.Random(1)
    seen = collections.Counter()
    for _ in range(3000):
        plan = random_plan(draw)
        stage = draw.randrange(plan.pp)
        held = tuple(draw.randint(0, 16) / 4 for _ in range(plan.vpp * plan.copies))
        assert peak_in_flight(plan, stage, held) == _peak(plan, stage, held), (plan, stage, held)
        seen[plan.schedule, plan.overlap_all_to_all] += 1
    assert min(seen[practice] for practice in PRACTICES) > 300


def _peak(plan, stage, weight):
    """The largest sum over the whole schedule; alternating passes keep what the other frees."""
    sums, now = [0.0], 0.0
    for turn in turns(plan, stage):
        for step in turn:
            now += weight[step.chunk] if step.forward else 0.0
            now -= weight[step.chunk] if not step.forward and step.part != "input" else 0.0
            if plan.overlap_all_to_all != "batch" or step is turn[-1]:
                sums.append(now)
    return max(sums)
