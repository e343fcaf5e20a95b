"""Circuits and packets through Python: replay, the linear program below the bound, errors."""

import dataclasses
import signal

import numpy as np
import pytest
from scipy.optimize import linprog

from lightloom.errors import DemandError, InputError
from lightloom.schedule import (
    HYBRID_METHODS,
    decompose_hybrid,
    hybrid_lower_bound_s,
)

#: 1 byte takes 1 s
BYTE = 8e-9


def skewed(n, seed, power=0.3):
    demand = (1e4 * np.random.default_rng(seed).gamma(power, size=(n, n))).astype(np.int64)
    np.fill_diagonal(demand, 0)
    return demand


def relaxed_bound(demand, delay, share):
    """Shortest length if slots were divisible, in bytes of a circuit.

    Variables: bytes of each pair over circuits, length T, and slots K. Each line sends at most
    T - K delay over circuits, the rest is at most share T, and bytes over a circuit take a share of
    a slot: sum over the line of bytes / demand <= K.
    """
    n = len(demand)
    pairs = np.argwhere(demand > 0)
    sizes = demand[demand > 0].astype(float)
    rows, right = [], []
    for axis in (0, 1):
        for line in range(n):
            on_line = (pairs[:, axis] == line).astype(float)
            rows.append([*on_line, -1.0, delay])
            right.append(0.0)
            rows.append([*-on_line, -share, 0.0])
            right.append(-float(on_line @ sizes))
            rows.append([*(on_line / sizes), 0.0, -1.0])
            right.append(0.0)
    bounds = [(0, size) for size in sizes] + [(0, None), (0, None)]
    cost = [0.0] * len(sizes) + [1.0, 0.0]
    found = linprog(cost, A_ub=np.array(rows), b_ub=right, bounds=bounds, method="highs")
    assert found.status == 0
    return found.fun


@pytest.mark.parametrize("method", HYBRID_METHODS)
def test_every_byte_arrives_by_the_stated_time(method):
    demand = skewed(7, 3)
    found = decompose_hybrid(demand, eps_gbps=100, delay_s="20 ns", method=method)
    found.check(demand)
    # what the slots leave, pair by pair, is what packets carry
    left = demand.astype(float)
    for row, hold in zip(found.permutations, found.holds_bytes, strict=True):
        for source, to in enumerate(row):
            if to >= 0:
                left[source, to] = max(0.0, left[source, to] - float(hold))
    assert np.array_equal(left, found.eps_bytes)
    # 20 ns at 400 Gb/s are 1,000 bytes; the EPS carries a quarter of a circuit
    circuits = int(found.holds_bytes.sum()) + 1_000 * found.configurations
    packets = 4 * max(left.sum(axis=axis).max() for axis in (0, 1))
    assert found.length_bytes == max(circuits, packets)
    assert found.length_s == pytest.approx(found.length_bytes / 50e9)


@pytest.mark.parametrize("delay_share", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_the_bound_holds_and_is_close_to_the_linear_program(delay_share, share):
    ratios = []
    for seed in range(6):
        demand = skewed(6, seed, power=(0.15, 1.0)[seed % 2])
        longest = max(demand.sum(axis=axis).max() for axis in (0, 1))
        delay = int(delay_share * longest)
        found = decompose_hybrid(demand, eps_gbps=share, delay_s=delay * BYTE, rate_gbps=1.0)
        relaxed = relaxed_bound(demand, delay, share)
        assert relaxed <= found.length_bytes + 1
        ratios.append(found.lower_bound_bytes / relaxed)
        assert found.lower_bound_bytes <= found.length_bytes
    # whole slots bind more than divisible ones, lines one by one less than all together
    assert min(ratios) > 0.97
    assert np.mean(ratios) >= 0.999


def test_the_bound_is_a_function_of_its_own():
    demand = skewed(8, 1)
    found = decompose_hybrid(demand, eps_gbps=50, delay_s="1 us", rate_gbps=200)
    bound_s = hybrid_lower_bound_s(demand, eps_gbps=50, delay_s="1 us", rate_gbps=200)
    assert bound_s == found.lower_bound_s > 0
    assert found.over_bound == pytest.approx(found.length_s / bound_s)
    slower = hybrid_lower_bound_s(demand, eps_gbps=25, delay_s="1 us", rate_gbps=200)
    assert slower >= bound_s


def test_balanced_is_never_behind_the_references():
    for seed in range(8):
        demand = skewed(10, seed, power=(0.15, 1.0, 5.0)[seed % 3])
        lengths = {
            name: decompose_hybrid(demand, eps_gbps=80, delay_s="50 ns", method=name).length_bytes
            for name in HYBRID_METHODS
        }
        assert lengths["balanced"] <= min(lengths.values())


def test_schedules_are_shown_and_compared_as_a_whole():
    demand = skewed(5, 2)
    found = decompose_hybrid(demand, eps_gbps=40)
    assert found == decompose_hybrid(demand, eps_gbps=40)
    assert found != decompose_hybrid(demand, eps_gbps=41)
    table = found.tables()[0]
    assert table.title == "Hybrid schedule"
    assert ("method", "balanced") in table.rows


def test_a_wrong_schedule_is_seen():
    demand = skewed(5, 4)
    found = decompose_hybrid(demand, eps_gbps=40, delay_s="10 ns")
    found.check(demand)
    short = dataclasses.replace(found, length_bytes=found.lower_bound_bytes - 1)
    with pytest.raises(InputError, match="hybrid schedule: "):
        short.check(demand)
    with pytest.raises(InputError, match=r"^demand: expected 5 x 5, got shape \(4, 4\)$"):
        found.check(demand[:4, :4])


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"method": "solstic"}, InputError, "method 'solstic'"),
        ({"eps_gbps": 0}, InputError, "eps_gbps: expected 1e-09 to 1e+09 Gb/s, got 0"),
        ({"rate_gbps": "fast"}, InputError, "rate_gbps: expected"),
        ({"delay_s": -1}, InputError, "delay_s: expected 0 or more, got -1"),
        ({"eps_gbps": 1e-6}, DemandError, "not comparable"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(changes, error, text):
    with pytest.raises(error) as raised:
        decompose_hybrid([[0, 5], [7, 0]], **({"eps_gbps": 40} | changes))
    assert text in str(raised.value)


def test_a_large_demand_is_refused():
    with pytest.raises(DemandError, match="demand of 257 x 257: at most 256 lines"):
        decompose_hybrid(np.zeros((257, 257), dtype=np.int64), eps_gbps=40)


def test_a_time_limit_that_is_over_leaves_packets_and_more_time_is_no_worse():
    demand = skewed(8, 3)
    given = {"eps_gbps": 40, "delay_s": "20 ns"}
    lengths = [
        decompose_hybrid(demand, **given, time_limit_s=limit_s).length_bytes
        for limit_s in (0, "10 s")
    ]
    packets = max(demand.sum(axis=axis).max() for axis in (0, 1))
    assert lengths[0] == 10 * packets
    assert lengths[1] <= decompose_hybrid(demand, **given).length_bytes
    with pytest.raises(InputError, match="time_limit_s: expected 0 or more, got -1"):
        decompose_hybrid(demand, **given, time_limit_s=-1)


def test_relaying_is_shorter_with_fewer_slots_and_what_relays_keep_is_known():
    # shifts of 500, 400 and 20 kB: the last one goes over one hop of each of the others
    sizes = {1: 500_000, 2: 400_000, 3: 20_000}
    demand = np.array([[sizes.get((to - row) % 5, 0) for to in range(5)] for row in range(5)])
    given = {"eps_gbps": 1, "rate_gbps": 100, "delay_s": "8 us"}  # 100 kB
    plain = decompose_hybrid(demand, **given)
    found = decompose_hybrid(demand, **given, relay=True)
    found.check(demand)
    assert plain.relays is None
    assert (plain.configurations, found.configurations) == (3, 2)
    assert plain.relay_memory_bytes.tolist() == [0] * 5
    assert found.length_bytes == pytest.approx(1_140_000 / 1.02, rel=1e-3)
    assert found.lower_bound_s == hybrid_lower_bound_s(demand, **given, relay=True)
    kept = np.zeros(5, dtype=np.uint64)
    np.add.at(kept, found.relays[:, 1].astype(int), found.relays[:, 5])
    assert found.relay_memory_bytes.tolist() == kept.tolist()
    assert found.relayed_bytes == kept.sum()
    assert "relayed" in dict(found.tables()[0].rows)


def test_relaying_expects_a_square_demand():
    with pytest.raises(DemandError, match="relaying expects a square demand, got 2 x 3"):
        decompose_hybrid(np.ones((2, 3), dtype=np.int64), eps_gbps=40, relay=True)


def test_an_interrupt_ends_the_search():
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            decompose_hybrid(skewed(120, 1), eps_gbps=40, delay_s="1 ns", time_limit_s=60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
