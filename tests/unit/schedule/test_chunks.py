"""Chunks with release times and deadlines, from Python."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import linprog

from lightloom.errors import DemandError, InputError
from lightloom.schedule import CHUNK_METHODS, decompose_chunks, decompose_hybrid

#: 1 byte takes 1 ns at 8 Gb/s
GIVEN = {"rate_gbps": 8, "delay_s": "20 ns"}


def random_chunks(count, n, seed):
    bytes_ = np.random.default_rng(seed).gamma(0.4, 400, size=(count, n, n)).astype(np.int64)
    return bytes_ * (1 - np.eye(n, dtype=np.int64))


@pytest.mark.parametrize("eps_gbps", [0, 2])
@pytest.mark.parametrize("method", CHUNK_METHODS)
def test_every_byte_is_sent_once_and_not_before_its_release(method, eps_gbps):
    chunks = random_chunks(4, 5, 3)
    releases = [1e-6, 1.5e-6, "1800 ns", 2.2e-6]
    found = decompose_chunks(chunks, releases, eps_gbps=eps_gbps, method=method, **GIVEN)
    found.check(chunks)
    sent = np.zeros_like(chunks)
    slots = found.starts_bytes.astype(int)
    for chunk, row, column, slot, start, end, size in found.transfers.tolist():
        assert start >= [1_000, 1_500, 1_800, 2_200][chunk]
        sent[chunk, row, column] += size
        assert found.ends_bytes[chunk, row, column] >= end
        if slot >= 0:
            assert found.permutations[slot, row] == column
            assert slots[slot] <= start < end <= slots[slot] + int(found.holds_bytes[slot])
            assert end - start == size
    assert np.array_equal(sent, chunks)
    assert found.length_bytes == found.ends_bytes[chunks > 0].max()
    assert found.length_s == pytest.approx(found.length_bytes * 1e-9)
    assert found.lower_bound_s <= found.length_s
    assert (found.packet_bytes > 0) == (eps_gbps > 0)
    assert found.lateness_s is None
    assert found.late_chunks == []


def test_ours_is_never_behind():
    for seed in range(5):
        chunks = random_chunks(3, 6, seed)
        times = [np.linspace(0.2e-6, 1.5e-6, 3), np.linspace(0, 2e-6, 3)]
        for deadlines in (None, times[1]):
            given = {"deadlines_s": deadlines, "eps_gbps": 2, **GIVEN}
            found = [
                decompose_chunks(chunks, times[0], method=name, **given) for name in CHUNK_METHODS
            ]
            keys = [(one.lateness_bytes or 0, one.length_bytes) for one in found]
            assert keys[0] == min(keys)


def test_released_at_once_they_are_a_hybrid_demand():
    chunks = random_chunks(3, 6, 9)
    whole = decompose_hybrid(chunks.sum(axis=0), eps_gbps=2, **GIVEN)
    found = decompose_chunks(chunks, [0, 0, 0], eps_gbps=2, **GIVEN)
    assert found.length_bytes <= whole.length_bytes
    assert found.lower_bound_bytes == whole.lower_bound_bytes


def test_sources_may_differ():
    chunks = np.array([[[0, 300], [200, 0]]])
    found = decompose_chunks(chunks, [[["100 ns"], ["50 ns"]]], **GIVEN)
    assert found.ends_bytes[0, 0, 1] == found.length_bytes == 400
    assert 250 <= found.ends_bytes[0, 1, 0] <= 400
    assert found.releases_bytes.tolist() == [[[100, 100], [50, 50]]]


def test_late_chunks_are_named():
    chunks = np.array([[[0, 300]], [[0, 100]]])
    found = decompose_chunks(chunks, [0, 0], deadlines_s=["500 ns", "100 ns"], **GIVEN)
    # the second one first: 20 to 120, then to 420
    assert found.ends_bytes[:, 0, 1].tolist() == [420, 120]
    assert found.lateness_s == found.lateness_bound_s == pytest.approx(20e-9)
    assert found.late_chunks == [1]
    assert found.late.sum() == 1
    assert ("late chunks", "1") in dict.fromkeys(found.tables()[0].rows)
    found.check(chunks)


def test_a_wrong_schedule_is_seen():
    chunks = random_chunks(2, 4, 1)
    found = decompose_chunks(chunks, [0, 1e-6], **GIVEN)
    wrong = dataclasses.replace(found, length_bytes=found.length_bytes - 1)
    with pytest.raises(InputError, match="schedule of chunks: it says"):
        wrong.check(chunks)
    early = dataclasses.replace(found, releases_bytes=found.releases_bytes + np.uint64(500))
    with pytest.raises(InputError, match="of a chunk released at"):
        early.check(chunks)
    with pytest.raises(InputError, match=r"^chunks: expected 2 x 4 x 4, got shape \(1, 4, 4\)$"):
        found.check(chunks[:1])


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"chunks": [[0, 5], [7, 0]]}, DemandError, "expected chunks x rows x columns"),
        ({"releases_s": [0, 1]}, InputError, "releases_s: expected 1 times, one per chunk"),
        ({"releases_s": [-1]}, InputError, "releases_s: expected 0 or more, got -1"),
        ({"releases_s": ["soon"]}, InputError, "releases_s: cannot read 'soon'"),
        ({"deadlines_s": ["later"]}, InputError, "deadlines_s: cannot read 'later'"),
        ({"method": "pipeline"}, InputError, "did you mean 'pipelined'?"),
        ({"eps_gbps": -1}, InputError, "eps_gbps: expected 1e-09 to 1e+09 Gb/s, got -1"),
        ({"chunks": np.zeros((1, 257, 257), dtype=int)}, DemandError, "at most 256 lines"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(changes, error, text):
    given = {"chunks": [[[0, 5], [7, 0]]], "releases_s": [0], **changes}
    with pytest.raises(error) as raised:
        decompose_chunks(given.pop("chunks"), given.pop("releases_s"), **given)
    assert text in str(raised.value)


def shortest(chunks, releases, share):
    """Shortest length without delays, in bytes of a circuit: then a linear program is exact.

    Between two releases any bytes go over circuits that ports have the time for (Birkhoff, von
    Neumann), and over packets that ports have the rate for.
    """
    count, n, _ = chunks.shape
    parts = [
        (chunk, row, column, period, over)
        for chunk, row, column in np.argwhere(chunks > 0)
        for period in range(chunk, count)
        for over in (0, 1)
    ]
    ends = [*releases[1:], None]
    rows, right = [], []
    for axis in (1, 2):
        for line in range(n):
            for period in range(count):
                for over in (0, 1):
                    on = [float(p[axis] == line and p[3:] == (period, over)) for p in parts]
                    rate = share if over else 1.0
                    start, end = releases[period], ends[period]
                    rows.append([*on, -rate if end is None else 0.0])
                    right.append(-rate * start if end is None else rate * (end - start))
    wanted = np.argwhere(chunks > 0)
    equal = [[*(float(p[:3] == tuple(one)) for p in parts), 0.0] for one in wanted]
    bounds = [(0, None)] * len(parts) + [(releases[-1], None)]
    cost = [0.0] * len(parts) + [1.0]
    sizes = chunks[chunks > 0]
    found = linprog(cost, A_ub=rows, b_ub=right, A_eq=equal, b_eq=sizes, bounds=bounds)
    assert found.status == 0
    return found.fun


@pytest.mark.parametrize("eps_gbps", [1, 4])
@pytest.mark.parametrize("over", [600, 1_800])
def test_without_delay_it_is_close_to_the_exact_linear_program(over, eps_gbps):
    ratios = []
    for seed in range(8):
        chunks = random_chunks(3, 4, seed)
        releases = [over // 3, 2 * over // 3, over]
        exact = shortest(chunks, releases, eps_gbps / 8)
        times = [release * 1e-9 for release in releases]
        found = decompose_chunks(chunks, times, eps_gbps=eps_gbps, rate_gbps=8)
        # whole bytes of packets in each period
        assert exact <= found.length_bytes
        assert found.lower_bound_bytes <= exact + 1
        slow = decompose_chunks(chunks, times, eps_gbps=eps_gbps, **GIVEN)
        assert exact <= slow.length_bytes
        ratios.append(found.length_bytes / exact)
    assert np.mean(ratios) < 1.02
