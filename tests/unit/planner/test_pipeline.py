"""The time of chunks in a pipeline, and the best number of equal ones."""

import random

import pytest

from lightloom.planner.pipeline import best_equal_chunks, equal_chunks_time_s
from lightloom.planner.token_layout import chunks_of


def random_stages(rng: random.Random) -> tuple[list[float], list[float]]:
    stages = rng.randint(2, 4)
    start_up = [rng.choice([0.0, rng.uniform(1e-6, 1e-3)]) for _ in range(stages)]
    return start_up, [rng.choice([0.0, 10 ** rng.uniform(-6, -1)]) for _ in range(stages)]


def played_s(chunks: list[list[float]]) -> float:
    """When the last chunk leaves the last stage, by the recurrence; times by chunk and stage."""
    done = [0.0] * len(chunks[0])
    for stages in chunks:
        earlier = 0.0
        for stage, time in enumerate(stages):
            earlier = done[stage] = max(earlier, done[stage]) + time
    return done[-1]


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
        played = played_s([stages] * chunks)
        assert equal_chunks_time_s(start_up, whole, chunks) == pytest.approx(played, rel=1e-12)


def test_a_pipeline_takes_at_least_each_stage_and_each_chunk_and_at_most_all():
    rng = random.Random(9)
    for _ in range(500):
        stages = [[rng.random() for _ in range(3)] for _ in range(rng.randint(1, 9))]
        time_s = played_s(stages)
        assert time_s >= max(map(sum, stages)) - 1e-12
        assert time_s >= max(map(sum, zip(*stages, strict=True))) - 1e-12
        assert time_s <= sum(map(sum, stages)) + 1e-12


def test_a_longer_stage_never_ends_a_pipeline_earlier():
    rng = random.Random(10)
    for _ in range(500):
        stages = [[rng.random() for _ in range(3)] for _ in range(rng.randint(1, 9))]
        before = played_s(stages)
        stages[rng.randrange(len(stages))][rng.randrange(3)] += rng.random()
        assert played_s(stages) >= before


def test_chunks_of_whole_tokens_take_about_as_long_as_equal_ones():
    """The runtime cuts each pair at whole tokens; the planner takes chunks as equal."""
    rng = random.Random(11)
    for _ in range(50):
        tp, ep, chunks = rng.choice([2, 8]), rng.choice([2, 4]), rng.choice([1, 3, 7])
        counts = [[rng.randint(0, 4000) for _ in range(ep)] for _ in range(ep)]
        cut = chunks_of([counts] * tp, ep_rank=0, tp_rank=0, chunks=chunks, layout="replicated")
        tokens = [sum(part.size for pair in chunk.got for part in pair) for chunk in cut]
        start_up, per_token = (rng.uniform(1e-5, 1e-4), 1e-5), (1e-6, rng.uniform(1e-7, 1e-5))
        stages = [
            [s + n * each for s, each in zip(start_up, per_token, strict=True)] for n in tokens
        ]
        whole = [sum(tokens) * each for each in per_token]
        assert sum(tokens) == sum(row[0] for row in counts)
        equal = equal_chunks_time_s(start_up, whole, chunks)
        # a pair has up to 2 tp tokens more in its last chunk
        late = 2 * tp * ep * sum(per_token)
        assert equal - late <= played_s(stages) <= equal + late
