"""A pipeline of chunks: when the last chunk has passed every stage, and the best number of chunks.

Stage ``i`` takes a chunk when it has left stage ``i - 1`` and the chunk before it has left stage
``i``. Of ``N`` equal chunks, stage ``i`` takes ``a_i + X_i / N``, where ``a_i`` is its start-up and
``X_i`` the time of all bytes; the last chunk then leaves the last stage after ::

    T(N) = sum_i (a_i + X_i / N) + (N - 1) max_i (a_i + X_i / N)

which is convex in ``N``: the greatest of functions of which each falls and then rises. So the best
whole number is next to the stationary point of one of them, ``sqrt((sum_j X_j - X_i) / a_i)``, to
a point where two stages take equally long, ``(X_i - X_j) / (a_j - a_i)``, or to a border.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations


def equal_chunks_time_s(
    start_up_s: Sequence[float], whole_s: Sequence[float], chunks: int
) -> float:
    """Return the time of equal chunks: the closed form above.

    Parameters
    ----------
    start_up_s, whole_s
        Start-up of each stage, and its time of all bytes beside it, in seconds.
    chunks
        How many there are.
    """
    times = [start + whole / chunks for start, whole in zip(start_up_s, whole_s, strict=True)]
    return sum(times) + (chunks - 1) * max(times)


def best_equal_chunks(
    start_up_s: Sequence[float], whole_s: Sequence[float], maximum: int
) -> tuple[int, float]:
    """Return the number of equal chunks, up to ``maximum``, with the least time, and that time.

    Of equally good numbers it is the smallest.
    """
    best = min(
        _candidates(start_up_s, whole_s, maximum),
        key=lambda chunks: (equal_chunks_time_s(start_up_s, whole_s, chunks), chunks),
    )
    return best, equal_chunks_time_s(start_up_s, whole_s, best)


def _candidates(
    start_up_s: Sequence[float], whole_s: Sequence[float], maximum: int
) -> Iterable[int]:
    """Whole numbers among which the best one is."""
    total = sum(whole_s)
    points = [1.0, float(maximum)]
    for start, whole in zip(start_up_s, whole_s, strict=True):
        if start > 0:
            points.append(math.sqrt(max(0.0, total - whole) / start))
    stages = list(zip(start_up_s, whole_s, strict=True))
    for (start, whole), (other_start, other_whole) in combinations(stages, 2):
        if start != other_start:
            points.append((whole - other_whole) / (other_start - start))
    near = {whole for point in points if math.isfinite(point)
            for whole in (math.floor(point), math.ceil(point))}  # fmt: skip
    return sorted(chunks for chunks in near if 1 <= chunks <= maximum)
