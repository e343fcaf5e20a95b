"""Break-even in Python: closed forms, words, what it takes and what it refuses."""

import numpy as np
import pytest

from lightloom.errors import DemandError, InputError
from lightloom.schedule import Region, Switching, allocate, break_even, route

REGION = Region(ports=2, circuit_gbps=400, eps_gbps=0)
RING = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
COUPLES = np.array([[0, 2, 0, 0], [2, 0, 0, 0], [0, 0, 0, 2], [0, 0, 2, 0]])
#: 50 MB between 0 and 1, and between 2 and 3: 1 ms over one circuit, 500 us over two
DEMAND = COUPLES * 25_000_000


def weigh(delay_s, hidden_s=0.0, demand=DEMAND, **others):
    return break_even(
        demand, RING, REGION, switching=Switching(delay_s), hidden_s=hidden_s, **others
    )


@pytest.mark.parametrize(("delay_s", "pays"), [("499 us", True), (500e-6, False), (0, True)])
def test_a_switch_pays_if_it_saves_more_than_it_exposes(delay_s, pays):
    found = weigh(delay_s)
    assert found.reconfigure is pays
    assert found.hold_s == pytest.approx(1e-3)
    assert found.switch_s == pytest.approx(500e-6)
    assert found.pairs == 2
    np.testing.assert_array_equal(found.new_circuits, COUPLES)
    np.testing.assert_array_equal(found.plan, [COUPLES if pays else RING])


def test_the_decision_in_words():
    assert weigh("25 ms", "24.8 ms").decision == (
        "switch: 1 ms with the circuits held, 500 us with 2 pairs changed plus 200 us exposed"
    )
    assert weigh("25 ms").decision == (
        "hold: 1 ms with the circuits held, 500 us with 2 pairs changed plus 25 ms exposed"
    )
    alone = weigh("25 ms", method=None)
    assert alone.decision == "hold: 1 ms, and no other circuits were proposed"
    assert (alone.switch_s, alone.pairs) == (np.inf, 0)


def test_several_all_to_alls_and_their_hidden_times():
    both = np.stack([DEMAND, DEMAND.T])
    assert not weigh("1 ms", demand=both).reconfigure
    assert weigh("999 us", demand=both).reconfigure
    later = weigh("1 ms", hidden_s=[0, "1 ms"], demand=both)
    assert not later.reconfigure
    assert later.hold_s == pytest.approx(1.5e-3)
    np.testing.assert_array_equal(later.plan, [RING, COUPLES])


def test_own_proposals_are_weighed_as_well():
    found = weigh(0, method=None, proposals=[COUPLES])
    assert found.reconfigure
    np.testing.assert_array_equal(found.new_circuits, COUPLES)
    worse = weigh(0, method=None, proposals=[np.zeros((4, 4))])
    assert not worse.reconfigure


def test_pairs_cost_and_circuits_that_cannot_stay():
    demand, free = np.zeros((4, 4), int), Region(ports=2, circuit_gbps=400, eps_gbps=0)
    demand[0, 1] = 50_000_000
    for keep, pairs in ((True, 2), (False, 4)):
        switching = Switching(0, "1 us", keep_unchanged=keep)
        found = break_even(demand, RING, free, switching=switching, proposals=[COUPLES])
        assert found.exposed_s == pytest.approx(pairs * 1e-6)


def test_times_are_those_of_the_allocators():
    rng = np.random.default_rng(3)
    region = Region(ports=3, circuit_gbps=400, eps_gbps=800)
    rates = {"ports": 3, "circuit_gbps": 400, "eps_gbps": 800}
    demand = rng.integers(0, 10**8, size=(5, 5))
    held = allocate(demand, method="static", **rates).circuits
    found = break_even(demand, held, region, switching=Switching(0))
    assert found.hold_s == pytest.approx(route(demand, held, region).makespan_s, rel=1e-12)
    best = allocate(demand, previous=held, **rates)
    assert found.switch_s == pytest.approx(best.makespan_s, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"demand": np.ones(4)}, r"^demand: expected one matrix or several of equal size, got"),
        ({"demand": -DEMAND}, r"^demand\[0, 1\] is -50000000: expected a whole number from 0 to"),
        ({"demand": np.zeros((0, 4, 4))}, r"^demand: expected one matrix or several"),
        ({"delay_s": -1}, r"^delay_s: expected 0 to 1e\+06 s, got -1$"),
        ({"hidden_s": "5 GB"}, r"^hidden_s"),
        ({"hidden_s": [0, 0]}, r"^hidden_s: expected one time or 1, got 2$"),
        ({"method": "bset"}, r"^circuits 'bset': expected one of .*did you mean 'best'"),
        ({"proposals": [np.eye(4)]}, r"^circuits: expected a symmetric matrix with zeros"),
        ({"proposals": [3 * COUPLES]}, r"^circuits: server 0 has 2 ports but 6 circuits$"),
        ({"proposals": [np.zeros((3, 3))]}, r"^circuits: expected 4 servers, got 3$"),
    ],
)
def test_wrong_input_gets_one_line(change, message):
    values = {"delay_s": 0, **change}
    with pytest.raises(InputError, match=message) as caught:
        weigh(values.pop("delay_s"), **values)
    assert "\n" not in str(caught.value)


def test_a_plain_time_is_that_of_any_switch():
    plain = break_even(DEMAND, RING, REGION, switching="1 ms")
    said = break_even(DEMAND, RING, REGION, switching=Switching("1 ms"))
    assert (plain.decision, plain.pairs) == (said.decision, said.pairs)
    assert plain.exposed_s == pytest.approx(1e-3)
    with pytest.raises(InputError, match=r"^switching: expected a number or .*, got None$"):
        break_even(DEMAND, RING, REGION, switching=None)


def test_held_circuits_must_fit():
    with pytest.raises(InputError, match=r"server 0 has 2 ports but 6 circuits"):
        break_even(DEMAND, 3 * COUPLES, REGION, switching=Switching(0))
    with pytest.raises(DemandError, match=r"expected a square matrix"):
        break_even(np.ones((2, 3)), RING, REGION, switching=Switching(0))
