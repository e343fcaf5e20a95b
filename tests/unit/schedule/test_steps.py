"""Steps of controllers through Python: what is measured and held in, what is held next out."""

import numpy as np
import pytest

from lightloom.errors import DemandError, InputError
from lightloom.schedule import (
    ESTIMATORS,
    Periods,
    RotorSwitches,
    helios_epochs,
    helios_step,
    rotate,
    rotor_slot,
    rotornet_schedule,
    serve_over_time,
    xnest_epochs,
    xnest_step,
)

#: 1 Gb/s and 8 ns: 1 byte
PERIODS = Periods(8e-6, switches=2, delay_s=8e-7, rate_gbps=1.0)


def skewed(n, seed):
    demand = (1e3 * np.random.default_rng(seed).gamma(0.3, size=(n, n))).astype(np.int64)
    np.fill_diagonal(demand, 0)
    return demand


def epochs(run, demand):
    return run(demand, epoch_s=8e-6, switches=2, delay_s=8e-7, rate_gbps=1.0)


def test_the_first_step_is_the_first_epoch_of_a_run():
    demand = skewed(6, 1)
    helios = helios_step(demand, periods=PERIODS)
    assert np.array_equal(helios.matchings, epochs(helios_epochs, demand).matchings[0])
    assert helios.turned == (True, True)
    xnest = xnest_step(demand, periods=PERIODS)
    assert np.array_equal(xnest.matchings, epochs(xnest_epochs, demand).matchings[0])
    assert len(xnest.settings) == 2


def test_halves_take_turns():
    one, two = skewed(6, 2), skewed(6, 9)
    first = xnest_step(one, periods=PERIODS)
    second = xnest_step(two, first.settings, periods=PERIODS, turning=first.next_turning)
    assert second.settings[0] == first.settings[0]
    assert (second.turned[0], second.next_turning) == (False, "first")
    still = xnest_step(two, first.settings, periods=PERIODS, turning="all", hysteresis=1000)
    assert still.settings == first.settings


def test_hysteresis_keeps_what_is_held():
    held = helios_step(skewed(6, 3), periods=PERIODS).matchings
    follow = helios_step(skewed(6, 4), held, periods=PERIODS)
    assert any(follow.turned)
    keep = helios_step(skewed(6, 4), held, periods=PERIODS, hysteresis=1e5)
    assert keep.turned == (False, False)
    assert np.array_equal(keep.matchings, held)


@pytest.mark.parametrize(("hysteresis", "turns"), [(None, True), (0.1, True), (0.2, False)])
def test_hysteresis_is_the_share_that_a_turn_has_to_gain(hysteresis, turns):
    one = Periods(8e-6, rate_gbps=1.0)
    estimate = np.array([[0, 100, 115], [0, 0, 0], [0, 0, 0]])
    found = helios_step(estimate, [[1, -1, -1]], periods=one, hysteresis=hysteresis)
    assert found.turned == (turns,)
    assert found.matchings[0, 0] == (2 if turns else 1)


def test_a_weight_of_one_sees_the_newest_measurement_alone():
    arrivals = np.array([skewed(6, seed) for seed in range(12)])

    def served(**how):
        return serve_over_time(arrivals, periods=PERIODS, **how)

    assert served(weight=1.0) == served(estimator="last")
    assert served(weight=0.5) == served()
    assert served(weight=0.1) != served(weight=1.0)


@pytest.mark.parametrize("cycling", ["shared", "fixed", "staggered"])
@pytest.mark.parametrize("relay", [False, True])
def test_slots_from_queues_are_those_of_a_schedule(cycling, relay):
    demand = skewed(5, 5)
    rotor = RotorSwitches(4e-6, 2, 8e-8, 1.0, relay=relay, cycling=cycling)
    whole = rotate(demand, rotor)
    whole.check(demand)
    queues, relayed, moves = demand, None, []
    for turn, hold in zip(whole.turns, whole.holds_bytes, strict=True):
        slot = rotor_slot(queues, int(turn), rotor, relayed=relayed)
        assert slot.hold_bytes == hold
        queues, relayed = slot.queues, slot.relayed
        moves.extend(slot.moves.tolist())
    assert queues.sum() == 0 == len(relayed)
    assert moves == whole.moves[:, 1:].tolist()


def test_switches_in_turn_lose_less_to_a_long_delay():
    demand = np.full((9, 9), 1000)
    same = {"slot_s": 8e-6, "switches": 4, "delay_s": 1.6e-6, "rate_gbps": 1.0}
    fixed = rotate(demand, RotorSwitches(**same, cycling="fixed"))
    # two turns of 1,000 bytes and 200 of delay
    assert fixed.length_bytes == 2 * 1200
    staggered = rotate(demand, RotorSwitches(**same, cycling="staggered"))
    staggered.check(demand)
    assert set(staggered.holds_bytes.tolist()) == {300}
    assert rotornet_schedule(demand, **same).cycling == "shared"


def test_estimators_are_compared_with_clairvoyance():
    patterns = [skewed(6, 6), skewed(6, 7)]
    arrivals = np.array([patterns[index // 5 % 2] for index in range(30)])
    for system in ("helios", "xnest-plus"):
        found = {
            name: serve_over_time(arrivals, periods=PERIODS, system=system, estimator=name)
            for name in ESTIMATORS
        }
        for one in found.values():
            total = int(one.carried_bytes.sum()) + int(one.backlog_bytes[-1])
            assert total == arrivals.sum()
        carried = {name: int(one.carried_bytes.sum()) for name, one in found.items()}
        assert carried["clairvoyant"] >= 0.98 * max(carried.values())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: helios_step([[0, 1]], periods=PERIODS), DemandError,
         "^estimate: expected a square matrix"),
        (lambda: xnest_step([[0, -1], [1, 0]], periods=PERIODS), DemandError,
         r"^measured\[0, 1\] is -1: expected a whole number"),
        (lambda: helios_step([[0, 1], [1, 0]], periods="1 us"), InputError,
         r"^periods = '1 us': expected Periods, such as Periods"),
        (lambda: xnest_step([[0, 1], [1, 0]], periods=None), InputError,
         "^periods = None: expected Periods"),
        (lambda: serve_over_time([[[0, 1], [1, 0]]], periods=3), InputError,
         "^periods = 3: expected Periods"),
        (lambda: rotor_slot([[0, 1], [1, 0]], 0, "1 us"), InputError,
         "^rotor = '1 us': expected RotorSwitches"),
        (lambda: helios_step([[0, 1], [1, 0]], [[0, 1]], periods=PERIODS), InputError,
         r"held: expected whole numbers of shape \(2, 2\), got \(1, 2\)"),
        (lambda: helios_step([[0, 1], [1, 0]], [[1, 1], [0, 1]], periods=PERIODS), InputError,
         "held: switch 0 holds no matching of 2 nodes"),
        (lambda: helios_step([[0, 1], [1, 0]], [[-2, 1], [0, 1]], periods=PERIODS), InputError,
         "held: expected nodes from 0 to 1, or -1"),
        (lambda: helios_step([[0, 1], [1, 0]], periods=PERIODS, hysteresis=-1), InputError,
         "hysteresis: expected 0 to"),
        (lambda: helios_step([[0, 1], [1, 0]], periods=Periods(0)), InputError,
         "epoch_s: expected more than 0, got 0"),
        (lambda: xnest_step([[0]], periods=PERIODS), DemandError, "two nodes or more"),
        (lambda: xnest_step([[0, 1], [1, 0]], [(0, 0)], periods=PERIODS), InputError,
         "held: 1 settings for 2 switches, 2 nodes"),
        (lambda: xnest_step([[0, 1], [1, 0]], [1, 2], periods=PERIODS), InputError,
         "held: expected pairs of whole numbers"),
        (lambda: xnest_step([[0, 1], [1, 0]], [(7, 0)] * 2, periods=PERIODS), InputError,
         r"held: there is no setting \(7, 0\)"),
        (lambda: xnest_step([[0, 1], [1, 0]], periods=PERIODS, turning="third"), InputError,
         "turning 'third'"),
        (lambda: rotor_slot([[0, 1], [1, 0]], 0, RotorSwitches()), InputError,
         "rotor: a slot needs its length"),
        (lambda: rotor_slot([[0, 1], [1, 0]], 0, RotorSwitches(1, cycling="x")), InputError,
         "cycling 'x'"),
        (lambda: rotor_slot([[0, 1], [1, 0]], 0, RotorSwitches(1), relayed=[[1]]), InputError,
         r"relayed: expected rows of 4, got shape \(1, 1\)"),
        (lambda: rotor_slot([[0, 1], [1, 0]], 0, RotorSwitches(1), relayed=[[0, 0, 1, 5]]),
         InputError, "rotor: node 0 cannot hold 5 bytes from 0 to 1"),
        (lambda: rotor_slot([[0, 1], [1, 0]], -1, RotorSwitches(1)), InputError,
         "turn: expected a whole number"),
        (lambda: serve_over_time([[0, 1]], periods=PERIODS), DemandError,
         r"arrivals: expected \(periods, n, n\)"),
        (lambda: serve_over_time([[[0]]], periods=PERIODS, weight=2), InputError,
         "weight: expected 0.001 to 1, got 2"),
        (lambda: serve_over_time([[[0]]], periods=PERIODS, estimator="guess"), InputError,
         "estimator 'guess'"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_in_one_line(call, error, text):
    with pytest.raises(error, match=text):
        call()
