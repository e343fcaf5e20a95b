"""Orders of 1F1B and interleaved schedules, written out by hand."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.parallel import Plan
from lightloom.parallel.pipeline import peak_in_flight, schedule, turns


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


@given(
    st.sampled_from(
        [("1f1b", "none"), ("1f1b", "batch"), ("zero-bubble", "none"), ("dualpipe", "batch")]
    ),
    st.integers(2, 4),
    st.integers(1, 3),
    st.integers(5, 7),
    st.lists(st.sampled_from([0.5, 1.0, 4.0]), min_size=4, max_size=4),
)
@settings(max_examples=40)
def test_the_peak_does_not_depend_on_how_long_the_pipeline_is_full(practice, pp, vpp, rounds, held):
    name, overlap = practice
    chunks = vpp if name == "1f1b" else 1
    stages = 2 * pp if name == "dualpipe" else pp
    plan = Plan(
        gpus=stages, pp=stages, vpp=chunks, micro_batches=rounds * stages, schedule=name,
        overlap_all_to_all=overlap,
    )  # fmt: skip
    long = dataclasses.replace(plan, micro_batches=2 * rounds * stages)
    for stage in range(stages):
        peak = peak_in_flight(plan, stage, tuple(held))
        assert peak == peak_in_flight(long, stage, tuple(held))
        assert peak == _peak(plan, stage, held) == _peak(long, stage, held)


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
