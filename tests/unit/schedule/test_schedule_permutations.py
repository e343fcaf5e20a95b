"""Schedules of permutations through Python: what goes in, what comes out, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from lightloom.errors import DemandError, InputError
from lightloom.schedule import PERMUTATION_METHODS, decompose, decompose_all
from lightloom.schedule.permutations import fits_memory

METHODS = [*PERMUTATION_METHODS, "auto"]


@pytest.fixture
def demand():
    return np.random.default_rng(7).integers(0, 10**6, (6, 6))


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_serves_the_demand(demand, method, partial):
    found = decompose(demand, method=method, delay_s=1e-6, partial=partial)
    found.check(demand)
    assert found.permutations.dtype == np.int32
    assert found.permutations.shape == (len(found.holds_bytes), 6)
    assert found.over_bound >= 1
    assert found.chosen in PERMUTATION_METHODS
    assert found.time_spent_s > 0


def test_seconds_follow_from_bytes(demand):
    found = decompose(demand, method="bvn", delay_s="10 us", rate_gbps=100)
    assert found.delay_bytes == 125_000
    longest = max(demand.sum(axis=0).max(), demand.sum(axis=1).max())
    assert found.holds_bytes.sum() == longest
    assert found.holds_s.sum() == pytest.approx(longest * 8 / 100e9)
    assert found.length_s == pytest.approx(found.holds_s.sum() + found.configurations * 10e-6)
    assert found.lower_bound_s >= longest * 8 / 100e9 + 6 * 10e-6
    free = decompose(demand, method="bvn", rate_gbps=100)
    assert free.lower_bound_s == free.length_s == pytest.approx(longest * 8 / 100e9)


def test_delays_are_rounded_up():
    assert decompose([[1]], delay_s=1e-12, rate_gbps=400).delay_bytes == 1
    assert decompose([[1]], delay_s=20e-12, rate_gbps=400).delay_bytes == 1
    assert decompose([[1]], delay_s=21e-12, rate_gbps=400).delay_bytes == 2


def test_portfolio_has_every_method(demand):
    found = decompose_all(demand, delay_s=1e-5)
    assert list(found) == METHODS
    shortest = min(found[method].length_bytes for method in PERMUTATION_METHODS)
    assert found["auto"].length_bytes <= shortest
    for method, one in found.items():
        alone = decompose(demand, delay_s=1e-5, method=method)
        assert (one.length_bytes, one.delay_bytes) == (alone.length_bytes, alone.delay_bytes)


def test_a_few_lines_are_proved(demand):
    found = decompose(demand[:5, :5], delay_s="1 us")
    assert found.is_optimal
    assert found.over_bound == 1
    assert dict(found.tables()[0].rows)["over lower bound"] == "optimal"
    found.check(demand[:5, :5])
    longer = decompose(demand[:5, :5], delay_s="1 us", method="round-robin")
    assert not longer.is_optimal
    assert longer.lower_bound_bytes < found.lower_bound_bytes < longer.length_bytes
    # what is proved of one schedule is a bound for each, and no more than that is
    replace(longer, lower_bound_bytes=found.lower_bound_bytes).check(demand[:5, :5])
    above = replace(longer, lower_bound_bytes=found.lower_bound_bytes + 1)
    with pytest.raises(InputError, match=r"it says bound \d+, but there is a schedule of \d+"):
        above.check(demand[:5, :5])


def test_nothing_is_proved_without_time(demand):
    found = decompose(demand[:5, :5], delay_s="1 us", time_limit_s=0)
    assert not found.is_optimal
    found.check(demand[:5, :5])


def test_partial_reconfiguration_makes_each_circuit_once():
    found = decompose([[3, 1], [1, 3]], method="open-shop", delay_s="1 ns", partial=True)
    # a delay of 50 bytes, twice, and 3 + 1 bytes: each line is busy all the time
    assert found.configurations == 4
    assert found.length_bytes == found.lower_bound_bytes == 104
    assert found.permutations.tolist() == [[-1, -1], [0, 1], [-1, -1], [1, 0]]
    assert found.holds_bytes.tolist() == [50, 3, 50, 1]


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.int64, np.uint64, np.float16, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_numeric_array(kind, order):
    demand = np.array([[0, 4, 1], [2, 0, 9]], dtype=kind, order=order)
    found = decompose(demand, method="bvn")
    found.check(demand)
    assert found.length_bytes == 11
    decompose(demand[:, ::2]).check(demand[:, ::2])


def test_the_largest_demand_may_be_a_float():
    assert decompose([[2.0**53]], method="bvn").length_bytes == 2**53


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1), (2, 3)])
def test_nothing_to_send(shape):
    for method, found in decompose_all(np.zeros(shape, dtype=np.int64), delay_s=1).items():
        assert found.configurations == found.length_bytes == 0, method
        assert found.permutations.shape == (0, shape[0])
        assert found.over_bound == 1


@pytest.mark.parametrize(
    ("demand", "text"),
    [
        ([[1, -2], [0, 0]], r"demand\[0, 1\] is -2: expected a whole number from 0 to 900719925"),
        (np.array([[1], [-1]]), r"demand\[1, 0\] is -1"),
        ([[2.0**53 + 2]], r"demand\[0, 0\] is 9007199254740994.0"),
        ([[0.5]], r"demand\[0, 0\] is 0.5"),
        ([[np.nan]], "is nan"),
        ([[2**53 + 1]], r"demand\[0, 0\] is 9007199254740993"),
        (np.array([[2**53 + 1]], dtype=np.uint64), r"is 9007199254740993"),
        ([1, 2], r"expected a matrix, got shape \(2,\)"),
        ([[1, 2], [3]], "rows of unequal length"),
        ([["a"]], "expected whole numbers"),
        (np.zeros((1, 1025), dtype=np.int64), "expected at most 1024 lines"),
        (np.full((1, 600), 2**53), "too much for 1 x 600"),
    ],
)
def test_wrong_demand(demand, text):
    with pytest.raises(DemandError, match=text) as error:
        decompose(demand)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "bvm"}, "expected one of round-robin.*; did you mean 'bvn'"),
        ({"method": None}, "expected one of"),
        ({"method": []}, r"^method \[\]: expected one of"),
        ({"delay_s": np.array([1, 2, 3])}, r"^delay_s: expected a number or .*, got array"),
        ({"rate_gbps": 10**400}, "rate_gbps: expected"),
        ({"time_limit_s": np.zeros((2, 2))}, "time_limit_s: expected a number or"),
        ({"delay_s": -1.0}, "delay_s: expected 0 or more"),
        ({"delay_s": "5 m"}, "delay_s: cannot read"),
        ({"delay_s": float("nan")}, "delay_s: expected a finite number"),
        ({"delay_s": 1e30}, "too long"),
        ({"delay_s": 8e7}, "too long for 1 x 1"),
        ({"rate_gbps": 0}, "rate_gbps: expected"),
        ({"time_limit_s": -1}, "time_limit_s: expected 0 or more"),
        ({"switches": 0}, "switches: expected a whole number from 1 to 1024, got 0"),
        ({"switches": 1.5}, "switches: expected a whole number from 1 to 1024, got 1.5"),
        ({"switches": 2, "partial": True}, "partial: expected one switch, got switches=2"),
    ],
)
def test_wrong_options(options, text):
    with pytest.raises(InputError, match=text) as error:
        decompose([[1]], **options)
    assert "\n" not in str(error.value)


def test_check_finds_what_is_wrong(demand):
    found = decompose(demand, method="bvn")
    permutations, holds = found.slots
    with pytest.raises(InputError, match="expected 6 x 6"):
        found.check(demand[:5])
    more = demand.copy()
    more[2, 3] += 10**9
    with pytest.raises(InputError, match="row 2 still has"):
        found.check(more)
    with pytest.raises(InputError, match="says length 5, but lasts"):
        replace(found, length_bytes=5).check(demand)
    with pytest.raises(InputError, match="says bound 5"):
        replace(found, lower_bound_bytes=5).check(demand)
    twice = permutations.copy()
    twice[0, :] = 2
    with pytest.raises(InputError, match="slot 0: column 2 twice"):
        replace(found, slots=(twice, holds)).check(demand)
    with pytest.raises(InputError, match="held for nothing"):
        replace(found, slots=(permutations, holds * 0)).check(demand)
    with pytest.raises(InputError, match="no column 77"):
        replace(found, slots=(np.where(permutations == 2, 77, permutations), holds)).check(demand)


@pytest.mark.parametrize("switches", [2, 3, 7])
@pytest.mark.parametrize("method", METHODS)
def test_several_switches_share_the_demand(demand, method, switches):
    found = decompose(demand, method=method, delay_s=1e-6, switches=switches)
    found.check(demand)
    assert found.switches == switches
    assert found.switch_of_slot.shape == (found.configurations,)
    assert (np.diff(found.switch_of_slot) >= 0).all()
    assert found.switch_of_slot.max() < switches
    lasts = found.holds_bytes.astype(np.int64) + found.delay_bytes
    assert (found.starts_bytes + lasts).max() == found.length_bytes
    for switch in range(switches):
        mine = found.switch_of_slot == switch
        starts, ends = found.starts_bytes[mine], (found.starts_bytes + lasts)[mine]
        assert starts.tolist() == [0, *ends.tolist()][: len(starts)]
    one = decompose(demand, method=method, delay_s=1e-6)
    assert one.switch_of_slot is None
    # without what only `auto` proves, for one switch
    bound = decompose(demand, method="bvn", delay_s=1e-6).lower_bound_bytes
    assert one.lower_bound_bytes >= bound >= found.lower_bound_bytes >= bound // switches
    assert found.length_bytes <= one.length_bytes


def test_check_finds_what_is_wrong_on_a_switch(demand):
    found = decompose(demand, method="critical", delay_s=1e-6, switches=3)
    matchings, holds = found.slots
    of_slot = found.switch_of_slot
    for changed, text in [
        (replace(found, length_bytes=found.length_bytes + 1), "says length"),
        (replace(found, lower_bound_bytes=1), "says bound"),
        (replace(found, switch_of_slot=of_slot[1:]), "switches for"),
        (replace(found, switch_of_slot=of_slot + 1), "no switch 3 of 3"),
        (replace(found, switch_of_slot=of_slot * 0), "says length"),
        (replace(found, slots=(matchings[:, ::-1].copy(), holds)), "has nothing for|still has"),
        (replace(found, slots=(matchings, holds // 2)), "still has"),
    ]:
        with pytest.raises(InputError, match=text):
            changed.check(demand)


def test_switches_are_shown(demand):
    found = decompose(demand, delay_s=1e-6, switches=2)
    summary, slots = found.tables()
    assert "switches" in str(summary)
    assert slots.headers[:2] == ("slot", "switch")
    assert [int(row[1]) for row in slots.rows] == found.switch_of_slot[: len(slots.rows)].tolist()


@pytest.mark.parametrize(("method", "slots"), [("open-shop", 2**20), ("maximal", 2**20)])
def test_a_slot_per_pair_of_a_thousand_lines_is_refused(method, slots):
    demand = np.ones((1024, 1024), dtype=np.uint64)
    assert not fits_memory(demand, method)
    assert fits_memory(demand, "open-shop", partial=True)
    assert fits_memory(demand[:512, :512], method)
    with pytest.raises(DemandError, match=f"{method}: about {slots} slots, one per pair"):
        decompose(demand, method=method)


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.float64])
def test_masked_demand_is_refused(kind):
    demand = np.ma.masked_equal(np.array([[0, 9], [7, 0]], dtype=kind), 9)
    with pytest.raises(DemandError, match=r"^demand: some entries are masked; fill them first"):
        decompose(demand)
    assert decompose(demand.filled(9)).length_bytes == 9
