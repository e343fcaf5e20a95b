"""The bound on the lateness of chunks against a linear program that is exact without delays."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import lil_matrix

from lightloom.schedule import decompose_chunks


def fits(chunks, releases, ends):
    """Whether every chunk can be sent between its release and its end, without delays.

    Between two of these times any bytes go over circuits that ports have the time for (Birkhoff,
    von Neumann), so that a linear program decides.
    """
    n = chunks.shape[1]
    times = sorted({*releases, *(end for end in ends if end > min(releases))})
    periods = list(itertools.pairwise(times))
    pairs = [tuple(pair) for pair in np.argwhere(chunks > 0)]
    parts = [
        (number, row, column, period)
        for number, (chunk, row, column) in enumerate(pairs)
        for period, (start, end) in enumerate(periods)
        if releases[chunk] <= start and end <= ends[chunk]
    ]
    if not parts:
        return False
    ports = lil_matrix((2 * n * len(periods), len(parts)))
    sent = lil_matrix((len(pairs), len(parts)))
    for place, (number, row, column, period) in enumerate(parts):
        ports[row * len(periods) + period, place] = 1
        ports[(n + column) * len(periods) + period, place] = 1
        sent[number, place] = 1
    room = np.tile([end - start for start, end in periods], 2 * n)
    found = linprog(
        np.zeros(len(parts)), A_ub=ports.tocsr(), b_ub=room, A_eq=sent.tocsr(),
        b_eq=chunks[chunks > 0], bounds=(0, None), method="highs",
    )  # fmt: skip
    return found.status == 0


def min_lateness(chunks, releases, deadlines):
    """The smallest whole lateness that fits, by bisection."""
    low, high = -max(deadlines), int(chunks.sum() + max(releases))
    while high - low > 1:
        middle = (low + high) // 2
        if fits(chunks, releases, [deadline + middle for deadline in deadlines]):
            high = middle
        else:
            low = middle
    return high


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("share", [0.25, 1.0, 2.0])
def test_without_delay_the_bound_is_the_optimum(n, share):
    """No schedule beats it in any case; in these draws it is reached, lines taken one by one."""
    for seed in range(3):
        sizes = np.random.default_rng(seed).gamma(0.4, 400, size=(4, n, n)).astype(np.int64)
        chunks = sizes * (1 - np.eye(n, dtype=np.int64))
        lines = [chunks.sum(axis=(0, axis)).max() for axis in (1, 2)]
        over = int(share * max(lines))
        releases = [over * (chunk + 1) // 4 for chunk in range(4)]
        deadlines = [over * chunk // 4 for chunk in range(4)]
        in_seconds = {"deadlines_s": [deadline * 1e-9 for deadline in deadlines], "rate_gbps": 8}
        found = decompose_chunks(chunks, [release * 1e-9 for release in releases], **in_seconds)
        optimum = min_lateness(chunks, releases, deadlines)
        assert found.lateness_bound_bytes <= optimum <= found.lateness_bytes
        assert found.lateness_bound_bytes >= optimum - 1
