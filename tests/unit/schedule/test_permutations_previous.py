"""Schedules of permutations that keep the matchings of an earlier schedule."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.schedule import PERMUTATION_METHODS, decompose


@pytest.fixture
def demand():
    return np.random.default_rng(7).integers(1, 10**6, (9, 9))


@pytest.fixture
def drifted(demand):
    return (demand * np.random.default_rng(8).uniform(0.95, 1.05, (9, 9))).astype(np.int64)


@pytest.fixture
def earlier(demand):
    return decompose(demand, delay_s="200 ns")


def test_matchings_are_kept_under_drift(drifted, earlier):
    kept = decompose(drifted, delay_s="200 ns", method="previous", previous=earlier)
    kept.check(drifted)
    assert kept.chosen == "previous"
    assert kept.new_slots == 0
    # each slot has an earlier one's circuits; only idle ports are joined
    before = iter(earlier.permutations)
    for now in kept.permutations:
        keeps = (
            all(
                to in (-1, was) or (was < 0 and to not in old)
                for to, was in zip(now, old, strict=True)
            )
            for old in before
        )
        assert any(keeps)
    summary = kept.tables()[0]
    assert "previous" in str(summary)
    assert "new slots" in str(summary)


def test_auto_starts_from_an_earlier_schedule(demand, drifted, earlier):
    anew = decompose(drifted, delay_s="200 ns")
    kept = decompose(drifted, delay_s="200 ns", method="previous", previous=earlier)
    found = decompose(drifted, delay_s="200 ns", previous=earlier)
    found.check(drifted)
    assert found.length_bytes <= min(anew.length_bytes, kept.length_bytes)
    assert anew.new_slots is None
    same = decompose(demand, delay_s="200 ns", previous=earlier)
    assert same.length_bytes <= earlier.length_bytes


def test_pairs_that_no_slot_serves_get_new_ones():
    earlier = decompose([[0, 5], [7, 0]])
    kept = decompose([[3, 5], [7, 2]], method="previous", previous=earlier)
    assert (kept.new_slots, kept.length_bytes) == (1, 10)
    assert kept.permutations.tolist() == [[1, 0], [0, 1]]


def test_a_new_slot_takes_what_each_slot_waits_for():
    shifts = decompose(np.full((3, 3), 10), method="round-robin")
    demand = [[10, 1, 1], [1, 1, 10], [1, 10, 1]]
    lengths = [
        decompose(demand, method="previous", previous=shifts, new_slots=allowed).length_bytes
        for allowed in (0, 1, 2)
    ]
    assert lengths == [30, 12, 12]


@pytest.mark.parametrize("method", PERMUTATION_METHODS)
def test_other_methods_take_no_earlier_schedule(demand, earlier, method):
    with pytest.raises(InputError, match=f"expected method previous or auto, got {method}"):
        decompose(demand, method=method, previous=earlier)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"previous": [[0, 1]]}, "^previous: expected a PermutationSchedule, got list"),
        ({"previous": decompose([[1]])}, "expected a schedule of 9 x 9 lines, got 1 x 1"),
        ({"switches": 2}, "^previous: expected one all-stop switch, got switches=2"),
        ({"partial": True}, "^previous: expected one all-stop switch, got partial=True"),
        (
            {"previous": decompose(np.ones((9, 9), int), switches=2)},
            "^previous: expected slots of one switch, got 2 switches",
        ),
        (
            {"previous": decompose([[1]], method="open-shop", partial=True)},
            "^previous: expected slots of one switch, got transfers",
        ),
        ({"new_slots": -1}, "^new_slots: expected a whole number from 0 to 1024, got -1"),
        ({"new_slots": 1, "previous": None}, "^new_slots: expected an earlier .*; give previous"),
        ({"method": "previous", "previous": None}, '^method previous: .*; give "previous"'),
    ],
)
def test_what_cannot_be_kept_is_refused(demand, earlier, options, text):
    with pytest.raises(InputError, match=text) as error:
        decompose(demand, **({"previous": earlier} | options))
    assert "\n" not in str(error.value)
