"""Strategies of an all-to-all: published numbers, laws, the choice."""

import random

import numpy as np
import pytest

from lightloom.planner.all_to_all import AllToAll
from lightloom.planner.cluster import Penalties, derived_cluster, load_cluster
from lightloom.planner.curve import TimeCurve
from lightloom.planner.pipeline import equal_chunks_time_s
from lightloom.planner.strategy import AllToAllStrategy
from lightloom.planner.volume import AllToAllVolume, balanced, shares_of, skewed

CHUNKED = (AllToAllStrategy.O2, AllToAllStrategy.O3, AllToAllStrategy.O4)
#: bytes of a token in MoNTA's table 8, and its lengths
TOKEN_BYTES = 31_250
LENGTHS = [1024 * 2**power for power in range(2, 9)]


def published(penalties: bool = False) -> AllToAll:
    cluster = load_cluster("a800x16")
    if not penalties:
        cluster = cluster.model_copy(update={"penalties": Penalties()})
    return AllToAll(cluster, tp=8, ep=2)


def even(seq: int, token_bytes: float = TOKEN_BYTES) -> AllToAllVolume:
    return AllToAllVolume.of(balanced(2), seq * token_bytes)


def test_operations_of_table_8_take_what_the_table_says():
    """MoNTA, table 8: 256 MB, in milliseconds; the last one is printed as 0.05."""
    runs, volume = published(), even(8192)
    assert runs.time_s(AllToAllStrategy.BASELINE, volume) * 1e3 == pytest.approx(6.9096, rel=4e-3)
    send, gather, copy = runs.stages_s(AllToAllStrategy.O3, volume.part(1 / 4))
    assert send * 1e3 == pytest.approx(0.3747, rel=4e-3)
    assert gather * 1e3 == pytest.approx(0.3857, rel=4e-3)
    assert copy * 1e3 == pytest.approx(0.05, rel=4e-3)
    whole = runs.stages_s(AllToAllStrategy.O3, volume)
    assert whole[0] * 1e3 == pytest.approx(1.0127, rel=4e-3)
    assert whole[1] * 1e3 == pytest.approx(1.4433, rel=4e-3)


def test_ratios_of_equations_14_to_16_against_the_real_baseline():
    runs, volume = published(), even(8192)
    base = runs.time_s(AllToAllStrategy.BASELINE, volume)
    for strategy, ratio in (
        (AllToAllStrategy.O1, 0.3554),
        (AllToAllStrategy.O2, 0.3064),
        (AllToAllStrategy.O3, 0.2847),
    ):
        assert runs.time_s(strategy, volume, 4) / base == pytest.approx(ratio, rel=6e-3)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (AllToAllStrategy.O2, [3, 0.342, 5, 0.304, 7, 0.282, 10, 0.267, 14, 0.258, 20, 0.252,
                               29, 0.247]),
        (AllToAllStrategy.O3, [2, 0.337, 4, 0.284, 8, 0.256, 11, 0.241, 16, 0.230, 22, 0.223,
                               32, 0.219]),
    ],
)  # fmt: skip
def test_the_best_chunks_without_penalties(strategy, expected):
    runs = published()
    for seq, chunks, ratio in zip(LENGTHS, expected[::2], expected[1::2], strict=True):
        best = runs.best(strategy, even(seq))
        assert best.chunks == chunks
        base = runs.time_s(AllToAllStrategy.BASELINE, even(seq))
        assert best.time_s / base == pytest.approx(ratio, abs=1e-3)


@pytest.mark.parametrize("token_bytes", [31_250, 32_768])
def test_the_published_choice_with_four_chunks(token_bytes):
    """MoNTA, figure 14: O1 to 8K, then O2, O3 at 256K, where it measures 0.253 of the baseline."""
    runs = published(penalties=True)
    chosen = [runs.choose(even(seq, token_bytes), 4).chosen for seq in LENGTHS]
    assert chosen == ["O1", "O1", "O2", "O2", "O2", "O2", "O3"]
    last = even(LENGTHS[-1], token_bytes)
    ratio = runs.time_s(AllToAllStrategy.O3, last, 4) / runs.time_s(AllToAllStrategy.BASELINE, last)
    assert ratio == pytest.approx(0.253, abs=0.01)


def random_case(rng: random.Random) -> tuple[AllToAll, AllToAllVolume]:
    tp, ep = rng.choice([2, 4, 8]), rng.choice([2, 3, 4, 8])
    cluster = derived_cluster(gpu=rng.choice(["h100", "b200"]), rate_gbps=400, tp=tp, ep=ep)
    runs = AllToAll(cluster, tp, ep)
    matrix = np.array([[rng.random() for _ in range(ep)] for _ in range(ep)])
    return runs, AllToAllVolume.of(
        shares_of(matrix), 10 ** rng.uniform(4, 10), runs.ranks_per_server
    )


def test_laws_of_the_times():
    """More bytes never take less; the best chunks never more than any; a late rank delays all."""
    rng = random.Random(3)
    for _ in range(300):
        runs, volume = random_case(rng)
        for strategy in AllToAllStrategy:
            chunks = rng.randint(1, 12)
            time_s = runs.time_s(strategy, volume, chunks)
            assert runs.time_s(strategy, volume.part(1.01), chunks) >= time_s
            assert runs.time_s(strategy, volume.part(1 + 1e-9), chunks) <= time_s * (1 + 1e-8)
            assert runs.best(strategy, volume).time_s <= time_s * (1 + 1e-12)
            late = AllToAll(runs.cluster, runs.tp, runs.ep, late_s=1e-3)
            assert late.time_s(strategy, volume, chunks) == pytest.approx(time_s + 1e-3, rel=1e-12)
        assert runs.choose(volume).speed_up >= 1


def test_the_closed_form_of_equal_chunks():
    """O2 takes a + (g + d) + (N - 1) max(a, g + d), O3 a + g + d + (N - 1) max(a, g, d)."""
    rng = random.Random(4)
    for _ in range(200):
        runs, volume = random_case(rng)
        chunks = rng.randint(1, 20)
        a, g, d = runs.stages_s(AllToAllStrategy.O3, volume.part(1 / chunks))
        o2 = a + g + d + (chunks - 1) * max(a, g + d)
        o3 = a + g + d + (chunks - 1) * max(a, g, d)
        assert runs.time_s(AllToAllStrategy.O2, volume, chunks) == pytest.approx(o2, rel=1e-12)
        assert runs.time_s(AllToAllStrategy.O3, volume, chunks) == pytest.approx(o3, rel=1e-12)


def test_bytes_between_servers_fall_to_one_in_tp():
    rng = random.Random(5)
    for _ in range(50):
        runs, volume = random_case(rng)
        all_of_it = runs.traffic(AllToAllStrategy.BASELINE, volume).between_bytes
        for strategy in (AllToAllStrategy.O1, *CHUNKED):
            assert runs.traffic(strategy, volume).between_bytes == pytest.approx(
                all_of_it / runs.tp, rel=1e-12
            )


def test_the_busiest_rank_decides():
    mean, busy = (AllToAllVolume.of(shares, 8e6) for shares in (balanced(4), skewed(4, 2.0)))
    assert mean.between_bytes == pytest.approx(6e6)
    assert mean.gathered_bytes == pytest.approx(8e6)
    # three others send it half of what they have
    assert busy.between_bytes == pytest.approx(12e6)
    assert busy.gathered_bytes == pytest.approx(16e6)


def test_ranks_of_a_server_send_within_it():
    volume = AllToAllVolume.of(balanced(4), 8e6, ranks_per_server=2)
    assert volume.between_bytes == pytest.approx(4e6)
    assert volume.within_bytes == pytest.approx(2e6)
    alone = AllToAllVolume.of(balanced(2), 8e6, ranks_per_server=2)
    assert alone.between_bytes == 0


def test_without_tp_there_is_nothing_to_choose():
    runs = AllToAll(derived_cluster(gpu="h100", rate_gbps=400, tp=1, ep=16), 1, 16)
    choice = runs.choose(AllToAllVolume.of(balanced(16), 1e8, 8), 4)
    assert choice.chosen is AllToAllStrategy.BASELINE
    assert len({timed.time_s for timed in choice.times.values()}) == 1


def test_a_measured_table_takes_the_place_of_a_curve():
    """A table of two points of a line is that line, but for its smallest size."""
    line = TimeCurve(start_up_s=1e-4, rate_gbps=80)
    table = TimeCurve(sizes_bytes=(1e6, 1e8), times_s=(line.time_s(1e6), line.time_s(1e8)))
    for size in (1e6, 5e6, 1e8, 1e9):
        assert table.time_s(size) == pytest.approx(line.time_s(size), rel=1e-12)
    assert table.time_s(0) == table.time_s(1e6)
    affine = published()
    cluster = affine.cluster.model_copy(update={"all_to_all": table})
    best = AllToAll(cluster, 8, 2).best(AllToAllStrategy.O2, even(65536))
    times = [
        AllToAll(cluster, 8, 2).time_s(AllToAllStrategy.O2, even(65536), n) for n in range(1, 1025)
    ]
    assert best.time_s == min(times)


def test_equal_chunks_of_a_cluster_are_those_of_the_pipeline():
    runs, volume = published(), even(16384)
    start = runs.stages_s(AllToAllStrategy.O2, volume.part(0))
    whole = [t - s for t, s in zip(runs.stages_s(AllToAllStrategy.O2, volume), start, strict=True)]
    assert equal_chunks_time_s(start, whole, 5) == pytest.approx(
        runs.time_s(AllToAllStrategy.O2, volume, 5), rel=1e-12
    )
