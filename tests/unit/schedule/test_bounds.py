"""Bounds as functions: by hand, as results state them, and never above what is found."""

import numpy as np
import pytest

from lightloom.errors import DemandError, InputError
from lightloom.schedule import (
    Region,
    allocate_exactly,
    allocate_region,
    chunk_lateness_bound_s,
    chunk_lower_bound_s,
    decompose,
    decompose_chunks,
    helios_epochs,
    line_bound_s,
    line_time_s,
    permutation_lower_bound_s,
    port_bound_s,
    rotornet_schedule,
    xnest_epochs,
)

#: 1 byte takes 1 ns at 8 Gb/s
GIVEN = {"rate_gbps": 8, "delay_s": "20 ns"}
PORTS = {"eps_gbps": 2, **GIVEN}


def random_demand(n, seed):
    sizes = np.random.default_rng(seed).gamma(0.4, 400, size=(n, n)).astype(np.int64)
    np.fill_diagonal(sizes, 0)
    return sizes


def test_a_share_of_the_largest_line_and_a_delay_bound_several_switches():
    # two slots of 9 and 7 after a delay of 3 each: on two switches the longer one is left
    given = {"delay_s": "3 ns", "rate_gbps": 8}
    apart = [[0, 9, 7], [7, 0, 9], [9, 7, 0]]
    assert permutation_lower_bound_s(apart, **given) == pytest.approx(22e-9)
    assert permutation_lower_bound_s(apart, **given, switches=2) == pytest.approx(11e-9)
    # three slots of two peers and more: the fluid share is (30 + 4 x 3) / 4
    assert permutation_lower_bound_s([[0, 30], [30, 0]], **given, switches=4) == pytest.approx(
        (30 + 4 * 3) * 1e-9 / 4, abs=1e-9
    )


@pytest.mark.parametrize("switches", [1, 2, 3, 6])
@pytest.mark.parametrize("seed", range(4))
def test_schedules_state_the_bound_of_permutations(switches, seed):
    demand = random_demand(7, seed)
    found = decompose(demand, **GIVEN, switches=switches, method="critical")
    bound_s = permutation_lower_bound_s(demand, **GIVEN, switches=switches)
    assert found.lower_bound_s == bound_s <= found.length_s


def test_more_switches_never_raise_the_bound():
    demand = random_demand(8, 5)
    bounds = [permutation_lower_bound_s(demand, **GIVEN, switches=s) for s in range(1, 12)]
    assert bounds == sorted(bounds, reverse=True)


def test_partial_reconfiguration_is_bounded_on_one_switch():
    demand = random_demand(6, 1)
    found = decompose(demand, **GIVEN, partial=True, method="open-shop")
    assert permutation_lower_bound_s(demand, **GIVEN, partial=True) == found.lower_bound_s
    with pytest.raises(InputError, match="partial: expected one switch, got switches=2"):
        permutation_lower_bound_s(demand, partial=True, switches=2)


def test_chunks_released_late_need_the_time_that_is_left():
    chunks = [[[0, 500], [0, 0]], [[0, 200], [0, 0]]]
    # a delay and all bytes, as long as the first chunk keeps the circuit busy until the second
    assert chunk_lower_bound_s(chunks, [0, "100 ns"], **GIVEN) == pytest.approx(720e-9)
    # else the second chunk by itself, and the crossbar has turned before it is there
    assert chunk_lower_bound_s(chunks, [0, "900 ns"], **GIVEN) == pytest.approx(1_100e-9)
    # due by 300 ns: all 520 to 720 ns, so 420 late; the first alone would be 220 late
    due = ["300 ns", "300 ns"]
    assert chunk_lateness_bound_s(chunks, [0, 0], due, **GIVEN) == pytest.approx(420e-9)
    due = ["300 ns", "2 us"]
    assert chunk_lateness_bound_s(chunks, [0, 0], due, **GIVEN) == pytest.approx(220e-9)


@pytest.mark.parametrize("seed", range(4))
def test_schedules_state_the_bounds_of_chunks(seed):
    chunks = np.stack([random_demand(5, 10 * seed + k) for k in range(3)])
    releases, deadlines = ["100 ns", "300 ns", "900 ns"], ["1 us", "1500 ns", "2 us"]
    found = decompose_chunks(chunks, releases, deadlines_s=deadlines, **PORTS)
    assert chunk_lower_bound_s(chunks, releases, **PORTS) == found.lower_bound_s <= found.length_s
    late_s = chunk_lateness_bound_s(chunks, releases, deadlines, **PORTS)
    assert late_s == found.lateness_bound_s <= found.lateness_s


def test_nothing_to_send_is_never_late():
    nothing = np.zeros((2, 3, 3), dtype=np.int64)
    assert chunk_lower_bound_s(nothing, [0, 0]) == 0
    assert chunk_lateness_bound_s(nothing, [0, 0], [0, 0]) == -np.inf
    assert line_time_s(np.zeros((3, 3), dtype=np.int64)) == 0
    assert permutation_lower_bound_s(np.zeros((3, 3), dtype=np.int64), delay_s=1, switches=3) == 0


def test_a_line_chooses_its_own_circuits():
    # a server with one circuit at 6 B/s and an EPS at 1 B/s for two peers: in 9 s the circuit
    # carries 48 of the larger, and the EPS what is left of both
    region = Region(ports=1, circuit_gbps=48e-9, eps_gbps=8e-9)
    demand = [[0, 54, 9], [0, 0, 0], [0, 0, 0]]
    assert port_bound_s(demand, region) == pytest.approx(63 / 7)
    assert line_bound_s(demand, region) == pytest.approx(9)
    # 20 bytes for the second peer all go over the EPS
    demand = [[0, 54, 20], [0, 0, 0], [0, 0, 0]]
    assert line_bound_s(demand, region) == pytest.approx(20)


@pytest.mark.parametrize("split", [True, False])
def test_circuits_are_no_faster_than_their_bounds(split):
    region = Region(ports=2, circuit_gbps=400, eps_gbps=100, split=split)
    for seed in range(3):
        demand = random_demand(7, seed) * 1_000
        found = allocate_region(demand, region)
        assert port_bound_s(demand, region) == found.port_bound_s <= found.bound_s
        assert line_bound_s(demand, region) == found.bound_s <= found.makespan_s
    proved = allocate_exactly(demand, region)
    assert line_bound_s(demand, region) <= proved.bound_s * (1 + 1e-9)


@pytest.mark.parametrize("switches", [1, 4])
def test_other_systems_are_compared_with_the_largest_line(switches):
    demand = random_demand(6, 2) + 7 * np.eye(6, dtype=np.int64)
    line_s = line_time_s(demand, switches=switches, rate_gbps=8)
    off = demand * (1 - np.eye(6, dtype=np.int64))
    largest = max(off.sum(axis=0).max(), off.sum(axis=1).max())
    assert line_s == pytest.approx(largest * 1e-9 / switches)
    epochs = {**GIVEN, "switches": switches, "epoch_s": "400 ns"}
    for found in (
        rotornet_schedule(demand, switches=switches, slot_s="400 ns", **GIVEN),
        helios_epochs(demand, **epochs),
        xnest_epochs(demand, **epochs),
    ):
        assert found.over_bound == pytest.approx(found.length_s / line_s)


def test_wrong_demand_is_refused_in_one_line():
    for bound in (line_time_s, permutation_lower_bound_s):
        with pytest.raises(DemandError, match="demand"):
            bound([[-1]])
    with pytest.raises(DemandError, match="demand"):
        line_time_s([[0, 1, 2]])
    with pytest.raises(InputError, match="releases_s: expected 1 times"):
        chunk_lower_bound_s([[[0, 1], [1, 0]]], [0, 0])
