"""Circuits, light and settle times of the emulated optics."""

import math
import random

import pytest

from lightloom.control.emulator import (
    Atomicity,
    BusyPolicy,
    Emulator,
    FixedTime,
    MeasuredTime,
    OpticalMatrix,
    RecordedTimes,
)
from lightloom.control.emulator.matrix import DARK_DBM, MatrixRefusalError, Refusal
from lightloom.errors import InputError


class Clock:
    """Time that passes when a test says so."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def matrix(clock=None, seconds=0.0, **options):
    return OpticalMatrix(
        size=(8, 8),
        settle_time=FixedTime(seconds),
        now=clock or Clock(),
        rng=random.Random(1),
        **options,
    )


def test_moving_frees_the_other_ports():
    optics = matrix()
    optics.change([], [(1, 9), (2, 10)])
    optics.change([], [(1, 10)])
    assert optics.circuits == {1: 10}
    assert optics.peer_of(9) is None
    assert optics.peer_of(10) == 1


def test_deleting_by_either_port_and_what_is_not_there():
    optics = matrix()
    optics.change([], [(1, 9), (2, 10)])
    optics.change([9, 2, 5], [])
    assert optics.circuits == {}


def test_deletes_come_before_creates():
    optics = matrix(busy=BusyPolicy.REFUSE)
    optics.change([], [(1, 9)])
    optics.change([1], [(1, 10), (2, 9)])
    assert optics.circuits == {1: 10, 2: 9}


@pytest.mark.parametrize(
    ("pair", "reason", "port"),
    [
        ((0, 9), Refusal.NO_SUCH_PORT, 0),
        ((1, 17), Refusal.NO_SUCH_PORT, 17),
        ((1, 2), Refusal.WRONG_SIDE, 2),
        ((9, 10), Refusal.WRONG_SIDE, 9),
        ((3, 9), Refusal.REPEATED, 9),
        ((4, 12), Refusal.FAILED, 4),
        ((5, 13), Refusal.DISABLED, 13),
        ((7, 15), Refusal.BUSY, 15),
    ],
)
@pytest.mark.parametrize("atomicity", Atomicity)
def test_refusals(pair, reason, port, atomicity):
    optics = matrix(busy=BusyPolicy.REFUSE, atomicity=atomicity)
    optics.change([], [(8, 15)])
    optics.failed, optics.disabled = {4}, {13}
    with pytest.raises(MatrixRefusalError) as caught:
        optics.change([], [(1, 9), pair, (6, 14)])
    assert (caught.value.reason, caught.value.port) == (reason, port)
    circuits = {1: 9} if atomicity is Atomicity.PREFIX else {}
    assert optics.circuits == circuits | {8: 15}


def test_an_existing_circuit_is_not_disturbed():
    clock = Clock()
    optics = matrix(clock, seconds=1.0, busy=BusyPolicy.REFUSE)
    optics.change([], [(1, 9)])
    clock.seconds = 5.0
    assert optics.change([], [(1, 9)]) == 5.0
    assert not optics.is_tuning(1)
    assert optics.power_dbm(9) > DARK_DBM


def test_no_light_before_a_circuit_has_settled():
    clock = Clock()
    optics = matrix(clock, seconds=0.04)
    assert optics.change([], [(1, 9)]) == pytest.approx(0.04)
    assert optics.is_tuning(1)
    assert optics.is_tuning(9)
    assert optics.power_dbm(9) == DARK_DBM
    clock.seconds = 0.04
    expected = optics.power_dbm(1) - optics.loss_db(1, 9)
    assert optics.power_dbm(9) == pytest.approx(expected, abs=0.011)


@pytest.mark.parametrize("what", ["failed", "disabled"])
def test_no_light_through_failed_mirrors_and_closed_shutters(what):
    optics = matrix()
    optics.change([], [(1, 9)])
    assert optics.power_dbm(9) > DARK_DBM
    getattr(optics, what).add(1)
    assert optics.power_dbm(9) == DARK_DBM
    assert optics.power_dbm(10) == DARK_DBM


def test_stuck_mirrors_stay_where_they_are():
    optics = matrix()
    optics.change([], [(1, 9)])
    optics.stuck = {1}
    optics.change([], [(1, 10), (2, 11)])
    assert optics.circuits == {1: 9, 2: 11}
    optics.change([1], [])
    assert optics.circuits == {1: 9, 2: 11}
    optics.change([], [(3, 9)])
    assert optics.circuits.get(1) == 9


def test_losses_are_within_the_datasheet_and_depend_on_the_seed():
    first, second = (Emulator((48, 48), seed=seed).matrix for seed in (1, 2))
    losses = [first.loss_db(a, b) for a in range(1, 49) for b in range(49, 97)]
    assert 1.0 <= min(losses) <= max(losses) <= 2.7
    assert sum(losses) / len(losses) == pytest.approx(1.85, abs=0.2)
    assert first.loss_db(1, 49) != second.loss_db(1, 49)
    assert first.loss_db(1, 49) == Emulator((48, 48), seed=1).matrix.loss_db(1, 49)


@pytest.mark.parametrize(
    ("pairs", "mean_ms", "p99_ms"), [(1, 41.44, 60), (4, 42.44, 62), (16, 46.75, 68)]
)
def test_measured_times_have_the_published_mean_and_percentile(pairs, mean_ms, p99_ms):
    """MixNet, Appendix C."""
    rng = random.Random(7)
    draws = sorted(MeasuredTime().draw_s(pairs, rng) * 1e3 for _ in range(20_000))
    assert math.fsum(draws) / len(draws) == pytest.approx(mean_ms, abs=0.6)
    assert draws[int(0.99 * len(draws))] == pytest.approx(p99_ms, abs=2)


def test_times_are_scaled_or_recorded():
    fast, slow = (MeasuredTime(scale).draw_s(1, random.Random(3)) for scale in (0.1, 1.0))
    assert fast == pytest.approx(slow / 10)
    recorded = RecordedTimes([0.1, 0.2])
    assert [recorded.draw_s(1, random.Random()) for _ in range(3)] == [0.1, 0.2, 0.1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedTime(-1),
        lambda: FixedTime(math.nan),
        lambda: MeasuredTime(-1),
        lambda: RecordedTimes([]),
        lambda: RecordedTimes([0.1, -0.1]),
    ],
)
def test_impossible_times(make):
    with pytest.raises(InputError, match="expected"):
        make()
