"""Who sends when: spans of a schedule add up to the demand, bins say what most of them is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lightloom.schedule import PERMUTATION_METHODS, decompose
from lightloom.study.scheduling.port_times import (
    DARK,
    IDLE,
    SEVERAL,
    PortTimes,
    busiest,
    largest_of_each_bin,
    port_times,
)

#: bytes that a port of 8 Gb/s sends in a second
RATE_GBPS, BYTES_PER_S = 8.0, 1e9
demands = arrays.arrays(
    np.uint64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.integers(0, 1000)
)


def everyone(demand):
    return np.arange(len(demand))


def schedule_of(demand, method, delay_bytes=5, partial=False):
    return decompose(
        demand,
        delay_s=delay_bytes / BYTES_PER_S,
        rate_gbps=RATE_GBPS,
        method=method,
        partial=partial,
    )


@given(demands, st.sampled_from(PERMUTATION_METHODS), st.booleans())
def test_what_is_sent_is_the_demand(demand, method, partial):
    found = schedule_of(demand, method, partial=partial)
    times = port_times(found, demand, everyone(demand))
    sent = np.zeros(demand.shape)
    sending = times.destination >= 0
    ends = (times.source[sending], times.destination[sending])
    np.add.at(sent, ends, (times.end_s - times.start_s)[sending] * BYTES_PER_S)
    np.testing.assert_allclose(sent, demand, atol=1e-3)
    assert (times.end_s >= times.start_s).all()
    if len(times.end_s):
        assert times.end_s.max() == pytest.approx(found.length_s)


@given(demands, st.sampled_from(PERMUTATION_METHODS), st.integers(2, 4))
def test_several_switches_send_the_demand_at_once(demand, method, switches):
    found = decompose(
        demand, delay_s=5 / BYTES_PER_S, rate_gbps=RATE_GBPS, method=method, switches=switches
    )
    times = port_times(found, demand, everyone(demand))
    assert times.ports == switches
    sent = np.zeros(demand.shape)
    sending = times.destination >= 0
    ends = (times.source[sending], times.destination[sending])
    np.add.at(sent, ends, (times.end_s - times.start_s)[sending] * BYTES_PER_S)
    np.testing.assert_allclose(sent, demand, atol=1e-3)
    # a port per switch: never more spans of a source at a time than switches
    for moment in (times.start_s + times.end_s) / 2:
        open_ = (times.start_s < moment) & (moment < times.end_s)
        assert np.bincount(times.source[open_], minlength=1).max() <= switches
    states = largest_of_each_bin(times, 20)
    assert (states[:, 0] != IDLE).any() == bool(demand.any())


@given(demands, st.sampled_from(PERMUTATION_METHODS), st.booleans())
def test_no_port_does_two_things_at_once(demand, method, partial):
    found = schedule_of(demand, method, partial=partial)
    times = port_times(found, demand, everyone(demand))
    for port in np.unique(times.source):
        mine = times.source == port
        order = np.argsort(times.start_s[mine], kind="stable")
        start, end = times.start_s[mine][order], times.end_s[mine][order]
        assert (start[1:] >= end[:-1] - 1e-15).all()


def test_rows_are_renamed():
    demand = np.array([[0, 9], [4, 0], [2, 0]], dtype=np.uint64)
    for partial in (False, True):
        found = schedule_of(demand, "open-shop", partial=partial)
        times = port_times(found, demand, np.array([2]))
        assert set(times.source.tolist()) == {0}
        assert times.sources == 1
        assert times.destination.max() == 0


def test_a_pair_ends_before_its_slot():
    # a slot is as long as its longest pair: 9 and 4 share one
    demand = np.array([[9, 0], [0, 4]], dtype=np.uint64)
    times = port_times(schedule_of(demand, "round-robin"), demand, everyone(demand))
    sending = times.destination >= 0
    spans = (times.end_s - times.start_s)[sending] * BYTES_PER_S
    np.testing.assert_allclose(spans, [9, 4])
    np.testing.assert_allclose(times.start_s[sending] * BYTES_PER_S, [5, 5])
    dark = times.destination == DARK
    np.testing.assert_allclose(times.end_s[dark] * BYTES_PER_S, [5, 5])


def test_busiest_keeps_the_order():
    demand = np.array([[1, 1], [9, 0], [0, 5], [2, 0]], dtype=np.uint64)
    assert busiest(demand, 2).tolist() == [1, 2]
    assert busiest(demand, 9).tolist() == [0, 1, 2, 3]
    assert busiest(demand, 3).tolist() == [0, 1, 2]


def spans(*rows, sources=1, length_s=10.0):
    source, destination, start, end = (np.array(column) for column in zip(*rows, strict=True))
    return PortTimes(source, destination, start.astype(float), end.astype(float), sources, length_s)


def test_bins_say_what_most_of_them_is():
    times = spans(
        (0, DARK, 0, 2), (0, 7, 2, 5), (0, 3, 5, 6), (0, 4, 6, 6.5), (0, 5, 6.5, 7), (0, 9, 8, 8.4)
    )
    assert largest_of_each_bin(times, 10).tolist() == [
        [DARK, DARK, 7, 7, 7, 3, 4, IDLE, IDLE, IDLE]
    ]
    assert largest_of_each_bin(times, 5).tolist() == [[DARK, 7, 3, 4, IDLE]]
    three = spans((0, 1, 0, 3), (0, 2, 3, 6), (0, 3, 6, 10))
    assert largest_of_each_bin(three, 1).tolist() == [[SEVERAL]]
    assert largest_of_each_bin(three, 2).tolist() == [[1, 3]]
    assert largest_of_each_bin(spans((1, 2, 0, 10), sources=3), 2).tolist() == [
        [IDLE, IDLE], [2, 2], [IDLE, IDLE]
    ]  # fmt: skip


def test_nothing_to_send_is_idle():
    nothing = np.zeros(0)
    ends = nothing.astype(int)
    times = PortTimes(ends, ends, nothing, nothing, 2, 0.0)
    assert largest_of_each_bin(times, 3).tolist() == [[IDLE] * 3] * 2
    assert times.joined() is times


@given(demands, st.integers(1, 40), st.booleans())
def test_bins_cover_what_is_sent(demand, bins, partial):
    found = schedule_of(demand, "open-shop", delay_bytes=0, partial=partial)
    times = port_times(found, demand, everyone(demand))
    states = largest_of_each_bin(times, bins)
    assert states.shape == (len(demand), bins)
    assert states.max() < demand.shape[1]
    for row, col in zip(*np.nonzero(states >= 0), strict=True):
        assert demand[row, states[row, col]] > 0
    silent = demand.sum(axis=1) == 0
    assert (states[silent] == IDLE).all()


def test_joined_spans_cover_the_same_time():
    times = spans((0, 1, 2, 3), (0, 1, 0, 2), (0, 2, 3, 4), (1, 2, 4, 5), (0, 1, 6, 7), sources=2)
    joined = times.joined()
    assert joined.source.tolist() == [0, 0, 0, 1]
    assert joined.destination.tolist() == [1, 2, 1, 2]
    assert joined.start_s.tolist() == [0, 3, 6, 4]
    assert joined.end_s.tolist() == [3, 4, 7, 5]
