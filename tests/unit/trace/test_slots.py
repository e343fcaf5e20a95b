"""Time slots: the examples of Chronos (section 6), and the best length against many others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trace_jobs import GridJob, recording

from lightloom.errors import InputError
from lightloom.trace.algorithms import Algorithm
from lightloom.trace.job import find_job
from lightloom.trace.local import ClosSizes, route_stack
from lightloom.trace.slots import (
    SlotTiming,
    Transfers,
    best_slots,
    plan_with,
    smallest_chunk,
    transfers_of,
)
from lightloom.trace.stack_build import build_stack
from lightloom.trace.trace import make_trace

#: Llama 3 405B, table 1: tensor, context, pipeline, data
TABLE_1 = {(8, 1, 16, 64): 8192, (8, 1, 16, 128): 16384, (8, 16, 16, 8): 16384}
LAYER_PARAMETERS = 2.8e9
MICRO, NANO, MEGA = 1e-6, 1e-9, 1e6


def test_ch1_and_ch5_the_smallest_chunk_of_llama_3():
    timing = SlotTiming(800, 10 * MICRO, 10 * NANO)
    sending = []
    for (tensor, context, pipeline, data), gpus in TABLE_1.items():
        assert tensor * context * pipeline * data == gpus
        sending.append(timing.sending_s(4 * LAYER_PARAMETERS / (tensor * data)) / MICRO)
    assert sending == pytest.approx([218.75, 109.375, 1750])


@pytest.mark.parametrize("data", [64, 128])
def test_ch1_from_a_trace(data):
    grid = GridJob(tp=8, pp=2, dp=data, ep=1)
    size = round(4 * LAYER_PARAMETERS / 8)
    recorded = [
        recording(rank, [grid.call(rank, "reduce_scatter", "dp", size)])
        for rank in grid.grid[:, 0, 0].tolist()
    ]
    trace = make_trace(grid.ranks, ["python"], recorded, grid.groups())
    (only,) = transfers_of(build_stack(find_job(trace), Algorithm.RING))
    assert only.size_bytes.tolist() == [size // data]
    assert only.count.tolist() == [[data - 1]]
    timing = SlotTiming(800, 10 * MICRO, 10 * NANO)
    plan = smallest_chunk(only, timing)
    assert plan.slot_s / MICRO == pytest.approx(14000 / data + 10.01)
    assert plan.rounding_s == pytest.approx(0, abs=1e-12)


def test_ch2_what_llama_3_loses():
    lost = 1 - SlotTiming(800, 10 * MICRO, 10 * NANO).efficiency(109.375e-6 * 800e9 / 8)
    assert 100 * lost == pytest.approx(8.4, abs=0.05)


def test_ch3_the_slot_and_the_efficiency_of_the_paper_do_not_go_together():
    """A slot of 22 us holds two links of 200 m; an efficiency over 95 % holds one only."""
    one_link, two_links = SlotTiming(400, 1 * MICRO, 0.0), SlotTiming(400, 2 * MICRO, 0.0)
    assert two_links.slot_s(MEGA) / MICRO == pytest.approx(22)
    assert two_links.efficiency(MEGA) == pytest.approx(0.909, abs=0.001)
    assert one_link.slot_s(MEGA) / MICRO == pytest.approx(21)
    assert one_link.efficiency(MEGA) > 0.95


@pytest.mark.parametrize("latency_us", [1, 2])
def test_ch4_what_mems_needs(latency_us):
    timing = SlotTiming(400, latency_us * MICRO, 1e-3)
    assert 150 < timing.size_for(0.75) / MEGA < 150.5
    assert timing.efficiency(timing.size_for(0.75)) == pytest.approx(0.75)


def table(sizes, counts):
    return Transfers(1, np.array(sizes), np.array(counts))


def test_one_size_fills_its_slot():
    plan = best_slots(table([10**6], [[7]]), SlotTiming(400, 1e-6, 0))
    assert (plan.payload_bytes, plan.slots) == (10**6, 7)
    assert plan.time_s == pytest.approx(plan.sending_s + plan.overhead_s)


def test_two_sizes_by_hand():
    """Slots for 2 carry 3 in two, with room to spare; slots for 3 waste a third of each 2."""
    timing = SlotTiming(8, 1.0, 0.0)
    gigabytes = table([2 * 10**9, 3 * 10**9], [[1, 1]])
    # a byte takes 1 ns: 3 slots of 2 + 1, 2 slots of 3 + 1, or 4 of 1.5 + 1
    assert plan_with(gigabytes, timing, 2e9).time_s == pytest.approx(9)
    assert plan_with(gigabytes, timing, 1.5e9).time_s == pytest.approx(10)
    best = best_slots(gigabytes, timing)
    assert (best.payload_bytes, best.time_s) == (3e9, pytest.approx(8))
    assert (best.overhead_s, best.rounding_s) == (pytest.approx(2), pytest.approx(1))


SIZES = st.lists(st.integers(1, 10**9), min_size=1, max_size=6, unique=True).map(sorted)


@given(SIZES, st.data(), st.floats(1e-7, 1e-3))
def test_no_other_length_is_better(sizes, data, latency_s):
    roles = data.draw(st.integers(1, 3))
    row = st.lists(st.integers(1, 1000), min_size=len(sizes), max_size=len(sizes))
    sent = table(sizes, [data.draw(row) for _ in range(roles)])
    timing = SlotTiming(400, latency_s, 1e-8)
    best = best_slots(sent, timing)
    assert best.time_s <= smallest_chunk(sent, timing).time_s * (1 + 1e-9)
    # slots of which a transfer takes more than 10,000 are not tried
    for payload in np.geomspace(max(sizes) / 10**4, max(sizes), 50):
        assert best.time_s <= plan_with(sent, timing, float(payload)).time_s * (1 + 1e-9)
    assert best.time_s >= best.sending_s
    assert best.rounding_s >= -1e-9 * best.time_s


def test_tiers_add_up_to_one_crossbar():
    stack = build_stack(find_job(GridJob(tp=4, pp=2, dp=8, ep=4).trace()), local_size=4)
    (whole,) = transfers_of(stack)
    tiers = transfers_of(stack, route_stack(stack, ClosSizes(4, pod=4)))
    assert [tier.tier for tier in tiers] == [1, 2, 3]
    total = sum(tier.count @ tier.size_bytes for tier in tiers)
    assert total.tolist() == (whole.count @ whole.size_bytes).tolist()
    slots = [stack.slots(role) for role in range(2)]
    assert whole.count.sum(axis=1).tolist() == slots


def test_slots_that_wait_for_nothing():
    with pytest.raises(InputError, match="neither latency nor guard time"):
        best_slots(table([1], [[1]]), SlotTiming(400, 0, 0))
