"""The time of chunks in a pipeline, and the best number of equal ones."""

import random

import pytest

from lightloom.planner.pipeline import best_equal_chunks, equal_chunks_time_s, pipeline_time_s


def random_stages(rng: random.Random) -> tuple[list[float], list[float]]:
    stages = rng.randint(2, 4)
    start_up = [rng.choice([0.0, rng.uniform(1e-6, 1e-3)]) for _ in range(stages)]
    return start_up, [rng.choice([0.0, 10 ** rng.uniform(-6, -1)]) for _ in range(stages)]


def test_the_best_number_is_that_of_a_full_scan():
    rng = random.Random(7)
    for _ in range(10_000):
        start_up, whole = random_stages(rng)
        maximum = rng.choice([1, 2, 7, 40, 100])
        chunks, time_s = best_equal_chunks(start_up, whole, maximum)
        scan = min(equal_chunks_time_s(start_up, whole, n) for n in range(1, maximum + 1))
        assert time_s == pytest.approx(scan, rel=1e-12, abs=1e-18)
        assert 1 <= chunks <= maximum
        assert equal_chunks_time_s(start_up, whole, chunks) == time_s


def test_equal_chunks_take_what_the_recurrence_says():
    rng = random.Random(8)
    for _ in range(2000):
        start_up, whole = random_stages(rng)
        chunks = rng.randint(1, 30)
        stages = [a + x / chunks for a, x in zip(start_up, whole, strict=True)]
        played = pipeline_time_s([stages] * chunks)
        assert equal_chunks_time_s(start_up, whole, chunks) == pytest.approx(played, rel=1e-12)


def test_a_pipeline_takes_at_least_each_stage_and_each_chunk_and_at_most_all():
    rng = random.Random(9)
    for _ in range(500):
        stages = [[rng.random() for _ in range(3)] for _ in range(rng.randint(1, 9))]
        time_s = pipeline_time_s(stages)
        assert time_s >= max(map(sum, stages)) - 1e-12
        assert time_s >= max(map(sum, zip(*stages, strict=True))) - 1e-12
        assert time_s <= sum(map(sum, stages)) + 1e-12


def test_a_longer_stage_never_ends_a_pipeline_earlier():
    rng = random.Random(10)
    for _ in range(500):
        stages = [[rng.random() for _ in range(3)] for _ in range(rng.randint(1, 9))]
        before = pipeline_time_s(stages)
        stages[rng.randrange(len(stages))][rng.randrange(3)] += rng.random()
        assert pipeline_time_s(stages) >= before
