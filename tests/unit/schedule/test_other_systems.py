"""RotorNet, Helios and X-NEST+ through Python."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from lightloom.errors import DemandError, InputError
from lightloom.schedule import (
    helios_epochs,
    helios_matchings,
    rotornet_schedule,
    xnest_epochs,
    xnest_plan,
    xnest_sub_matrices,
)

PUBLIC = Path(__file__).parents[3] / "../shared/data/mixtral_8x8_token_matrix.txt"


def skewed(n, seed=1):
    return (1e6 * np.random.default_rng(seed).gamma(0.15, size=(n, n))).astype(np.int64)


def test_the_public_matrix_takes_1_12_with_equal_slots_and_1_000_held_to_demand():
    if not PUBLIC.exists():
        pytest.skip("../shared/data/mixtral_8x8_token_matrix.txt is not there")
    text = PUBLIC.read_text()
    numbers = "".join(c if c.isdigit() else " " for c in text).split()
    demand = np.array(numbers, dtype=np.int64).reshape(8, 8)
    assert rotornet_schedule(demand).over_bound == pytest.approx(1.12, abs=0.005)
    assert rotornet_schedule(demand, held=True).over_bound == pytest.approx(1.0, abs=5e-4)


@pytest.mark.parametrize("held", [False, True])
def test_relaying_shortens_what_is_skewed(held):
    demand = skewed(16)
    direct = rotornet_schedule(demand, held=held)
    relayed = rotornet_schedule(demand, held=held, relay=True)
    for schedule in (direct, relayed):
        schedule.check(demand)
    assert direct.relayed_bytes == 0 < relayed.relayed_bytes
    assert 1 <= relayed.over_bound < 0.6 * direct.over_bound


def test_slots_are_bytes_at_the_rate_and_delays_count():
    demand = np.full((5, 5), 50_000)
    # 1 us at 400 Gb/s is 50,000 bytes
    found = rotornet_schedule(demand, slot_s="1 us", delay_s="100 ns")
    assert found.holds_bytes.tolist() == [50_000] * 4
    assert found.turns.tolist() == [0, 1, 2, 3]
    assert found.length_s == pytest.approx(4.4e-6)
    assert found.moves.shape == (20, 6)
    wide = rotornet_schedule(demand, switches=4, slot_s="1 us")
    assert wide.length_s == pytest.approx(1e-6)
    assert wide.over_bound == 1


def test_a_wrong_rotor_schedule_is_seen():
    demand = skewed(5)
    found = rotornet_schedule(demand)
    shorter = dataclasses.replace(found, length_bytes=found.length_bytes - 1)
    with pytest.raises(InputError, match=r"^rotornet: slots take \d+, not \d+$"):
        shorter.check(demand)
    with pytest.raises(InputError, match=r"^rotornet: moves: expected rows of 6 values$"):
        dataclasses.replace(found, moves=found.moves[:, :5]).check(demand)


def test_nothing_to_send_takes_no_time():
    nothing = np.diag([5, 5, 5])
    assert rotornet_schedule(nothing).over_bound == 1
    assert rotornet_schedule(nothing).length_bytes == 0
    run = helios_epochs(nothing, epoch_s=1.0)
    assert (run.over_bound, run.length_s, run.matchings.shape) == (1, 0, (0, 1, 3))


def test_helios_serves_the_heaviest_pairs_first():
    demand = [[0, 60, 0, 0], [30, 0, 50, 0], [0, 50, 0, 30], [0, 0, 60, 0]]
    run = helios_epochs(demand, epoch_s=100 * 8e-9, delay_s=7 * 8e-9, rate_gbps=1)
    assert run.matchings.tolist() == [[[1, 0, 3, 2]], [[-1, 2, 1, -1]]]
    assert run.length_bytes == 107 + 57
    assert run.turned == 2
    assert run.over_bound == pytest.approx(164 / 110)
    two = helios_matchings(demand, epoch_s=100 * 8e-9, switches=2, rate_gbps=1)
    assert two.tolist() == [[1, 0, 3, 2], [-1, 2, 1, -1]]
    # a circuit carries 20 bytes: the heavy pairs are worth several switches
    many = helios_matchings(demand, epoch_s=20 * 8e-9, switches=2, rate_gbps=1)
    assert many.tolist() == [[1, 0, 3, 2], [1, 0, 3, 2]]


@pytest.mark.parametrize("reading", ["pairings", "diagonals"])
def test_x_nest_splits_every_pair_once_and_serves_everything(reading):
    matrices = xnest_sub_matrices(6, reading=reading)
    assert len(matrices) == {"pairings": 5, "diagonals": 3}[reading]
    peers = np.concatenate(matrices)
    for node in range(6):
        assert sorted(peers[:, node].tolist()) == [other for other in range(6) if other != node]
    run = xnest_epochs(skewed(6), epoch_s="10 us", switches=4, reading=reading)
    assert run.over_bound >= 1
    assert run.matchings.shape[1:] == (4, 6)


def test_switches_that_need_not_turn_stay():
    demand = skewed(8)
    plan = xnest_plan(demand, switches=9)
    assert sum(plan.counts) == 9
    assert sum(plan.weights_bytes) == demand.sum() - np.trace(demand)
    assert plan.phases == (tuple(range(5)), tuple(range(5, 9)))
    again = xnest_plan(demand, switches=9, previous=plan.settings)
    assert again.phases == ((), ())
    assert again.settings == plan.settings


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: rotornet_schedule([[0, 1]]),
            DemandError,
            r"^demand: expected a square matrix, got shape \(1, 2\)$",
        ),
        (
            lambda: rotornet_schedule([[0, -1], [0, 0]]),
            DemandError,
            r"^demand\[0, 1\] is -1: expected a whole number from 0 to 9007199254740992$",
        ),
        (
            lambda: rotornet_schedule([[0, 10**9], [0, 0]], slot_s="1 ps"),
            DemandError,
            r"^demand: 65536 slots of 1 bytes, or 1048576 moves, do not serve this demand$",
        ),
        (
            lambda: rotornet_schedule([[0]]),
            DemandError,
            r"^demand: a rotor needs 2 nodes, a switch and slots of a byte or more$",
        ),
        (
            lambda: rotornet_schedule([[0, 1], [1, 0]], slot_s=0),
            InputError,
            r"^slot_s: expected more than 0, got 0$",
        ),
        (
            lambda: rotornet_schedule([[0, 1], [1, 0]], delay_s=-1),
            InputError,
            r"^delay_s: expected 0 or more, got -1$",
        ),
        (
            lambda: helios_epochs([[0, 1], [1, 0]], epoch_s=1, switches=0),
            InputError,
            r"^switches: expected a whole number from 1 to 1024, got 0$",
        ),
        (
            lambda: xnest_epochs([[0, 1], [1, 0]], epoch_s=1, reading="pairing"),
            InputError,
            r"^reading 'pairing': expected one of pairings, diagonals; did you mean 'pairings'\?$",
        ),
        (
            lambda: xnest_plan([[0, 1], [1, 0]], switches=2, previous=[(0, 0)]),
            InputError,
            r"^previous: expected 2 pairs of whole numbers, got \[\(0, 0\)\]$",
        ),
        (
            lambda: xnest_plan([[0, 1], [1, 0]], switches=2, previous=[(0, 0), (1,)]),
            InputError,
            r"^previous: expected an array, got rows of unequal length$",
        ),
        (
            lambda: xnest_plan([[0, 1], [1, 0]], switches=1, previous=[(0, 2**32)]),
            InputError,
            r"^previous: expected 1 pairs of whole numbers, got \[\(0, 4294967296\)\]$",
        ),
        (
            lambda: xnest_sub_matrices(1),
            InputError,
            r"^nodes: expected a whole number from 2 to 1024, got 1$",
        ),
        (lambda: xnest_sub_matrices(np.zeros((2, 2))), InputError, r"^nodes: .*, got array\(.*\)$"),
    ],
)
def test_wrong_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
