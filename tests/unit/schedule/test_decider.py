"""The decider in Python: closed forms, NICs and planes, failures, words, what it refuses."""

import numpy as np
import pytest
from tests.interpreter_lock import lets_others_run

from lightloom.errors import DemandError, InputError
from lightloom.schedule import (
    Decider,
    Failures,
    Held,
    Policy,
    Region,
    RelayCost,
    SwitchTiming,
    allocate,
    route,
    upcoming_all_to_alls,
)

REGION = Region(ports=2, circuit_gbps=400, eps_gbps=0)
RING = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
COUPLES = np.array([[0, 2, 0, 0], [2, 0, 0, 0], [0, 0, 0, 2], [0, 0, 2, 0]])
#: 50 MB between 0 and 1, and between 2 and 3: 1 ms over one circuit, 500 us over two
DEMAND = COUPLES * 25_000_000


def decided(delay, hidden_s=0.0, demand=DEMAND, region=REGION, **others):
    """A decision for four servers that hold a ring."""
    names = ("policy", "planes", "allocator", "numa_nodes")
    options = {name: others.pop(name) for name in names if name in others}
    decider = Decider(4, region, timing=delay, **options)
    return decider.decide(decider.hold(RING), demand, hidden_s=hidden_s, **others)


@pytest.mark.parametrize(("delay", "pays"), [("499 us", True), (500e-6, False), (0, True)])
def test_a_switch_pays_if_it_saves_more_than_it_exposes(delay, pays):
    found = decided(delay, proposals=[COUPLES])
    assert decided(delay).reconfigure is pays
    assert found.reconfigure is pays
    assert found.hold_s == pytest.approx(1e-3)
    assert found.switch_s == pytest.approx(500e-6)
    assert found.compared_pairs == 2
    np.testing.assert_array_equal(found.circuits, COUPLES if pays else RING)
    assert found.ready_after_s == (pytest.approx(found.exposed_s) if pays else 0)


def test_the_decision_in_words():
    assert str(decided("25 ms", "24.8 ms")) == (
        "Switched: the upcoming all-to-alls take 1 ms with the circuits held and 500 us after a "
        "switch that exposes 200 us and changes 2 pairs."
    )
    assert str(decided("1 ms")) == (
        "Held: no circuits could save the upcoming all-to-alls more than 500 us, but any switch "
        "exposes 1 ms."
    )
    alone = decided("25 ms", proposals=[])
    assert (alone.reason, alone.switch_s, alone.compared_pairs) == ("no-proposal", np.inf, 0)
    assert str(alone) == (
        "Held: the upcoming all-to-alls take 1 ms, and no other circuits were proposed."
    )


def test_several_all_to_alls_and_their_hidden_times():
    both = np.stack([DEMAND, DEMAND.T])
    assert not decided("1 ms", demand=both).reconfigure
    assert decided("999 us", demand=both).reconfigure
    later = decided("1 ms", hidden_s=[0, "1 ms"], demand=both, proposals=[COUPLES])
    assert not later.reconfigure
    assert later.hold_s == pytest.approx(1.5e-3)
    given = upcoming_all_to_alls(both, hidden_s=[0, "1 ms"])
    assert decided("1 ms", demand=given, proposals=[COUPLES]) == later


def test_an_all_to_all_may_be_decided_for_again():
    """It is not copied, and nothing changes it."""
    decider = Decider(4, REGION, timing="1 ms")
    held = decider.hold(RING)
    alone = upcoming_all_to_alls(DEMAND, "600 us")
    first = decider.decide(held, alone)
    assert first == decider.decide(held, alone) == decided("1 ms", np.float64(600e-6))
    assert first.reason == "pays"
    both = decider.decide(held, np.stack([DEMAND, DEMAND]), hidden_s="600 us")
    assert decider.decide(held, alone + alone) == both
    np.testing.assert_array_equal(alone[0].demand, DEMAND)


def test_one_hidden_time_is_that_of_each_all_to_all():
    both = np.stack([DEMAND, DEMAND])

    def compared(hidden_s):
        return decided("1 ms", hidden_s, demand=both, proposals=[COUPLES])

    each = compared("900 us")
    assert each == compared(["900 us", "900 us"])
    # to wait for the second is worth more if it hides as much
    assert each.hold_s < compared(["900 us", 0]).hold_s


def test_every_part_of_a_switch_is_exposed():
    timing = SwitchTiming("1 us", "10 us", "100 us", "200 us")
    found = decided(timing, proposals=[COUPLES])
    assert found.exposed_s == pytest.approx(1e-6 + 2 * 10e-6 + 100e-6 + 200e-6)
    assert found.reconfigure
    # which is 1 us longer than what is saved
    slow = SwitchTiming("1 us", "10 us", "280 us", "200 us")
    assert not decided(slow, proposals=[COUPLES]).reconfigure


def test_a_decider_may_count_on_relays():
    region = Region(ports=2, circuit_gbps=400, eps_gbps=100)
    opposite = np.zeros((4, 4), int)
    opposite[0, 2] = 100_000_000
    free = RelayCost.free()
    alone = decided(0, demand=opposite, region=region, proposals=[RING])
    relayed = decided(
        0, demand=opposite, region=region, proposals=[RING], policy=Policy(relaying=free)
    )
    # 100 Gb/s of the EPS, or with two ways of 400 Gb/s over a third server
    assert alone.makespan_s == pytest.approx(8e-3)
    assert 8e8 / 900e9 <= relayed.makespan_s < 1.01 * 8e8 / 900e9
    costly = decided(
        0, demand=opposite, region=region, proposals=[RING],
        policy=Policy(relaying=RelayCost(relay_delay_s=1.0)),
    )  # fmt: skip
    assert costly.makespan_s == alone.hold_s


def test_proposals_are_compared_instead():
    found = decided(0, proposals=[COUPLES])
    assert found.reconfigure
    np.testing.assert_array_equal(found.circuits, COUPLES)
    assert not decided(0, proposals=[np.zeros((4, 4))]).reconfigure


def test_pairs_cost_and_circuits_that_cannot_stay():
    demand = np.zeros((4, 4), int)
    demand[0, 1] = 50_000_000
    for keep, pairs in ((True, 2), (False, 4)):
        timing = SwitchTiming(0, "1 us", keep_unchanged=keep)
        found = decided(timing, demand=demand, proposals=[COUPLES])
        assert found.exposed_s == pytest.approx(pairs * 1e-6)
        assert found.pairs == pairs


def test_times_are_those_of_the_allocators():
    rng = np.random.default_rng(3)
    region = Region(ports=3, circuit_gbps=400, eps_gbps=800)
    rates = {"ports": 3, "circuit_gbps": 400, "eps_gbps": 800}
    demand = rng.integers(0, 10**8, size=(5, 5))
    held = allocate(demand, method="static", **rates).circuits
    decider = Decider(5, region, timing=0)
    found = decider.decide(decider.hold(held), demand)
    assert found.hold_s == pytest.approx(route(demand, held, region).makespan_s, rel=1e-12)
    best = allocate(demand, previous=held, **rates)
    assert found.switch_s == pytest.approx(best.makespan_s, rel=1e-12)
    assert (found.makespan_s, found.chosen) == (best.makespan_s, best.chosen)
    assert found.bound_s == best.port_bound_s
    np.testing.assert_array_equal(decider.start().circuits, held)


def test_circuits_that_stay_keep_their_nics_and_changes_add_up():
    rng = np.random.default_rng(4)
    decider = Decider(6, Region(4, 400, 800), timing=0, policy=Policy(when="always"))
    held, moved = decider.start(), 0
    for _ in range(20):
        found = decider.decide(held, rng.integers(0, 10**8, size=(6, 6)))
        before, after = ({tuple(row) for row in x.nics.tolist()} for x in (held, found))
        keep, delete, create = (
            {tuple(row) for row in x.tolist()} for x in (found.keep, found.delete, found.create)
        )
        assert (keep, delete, create) == (before & after, before - after, after - before)
        assert found.pairs == max(len(create), len(delete))
        held, moved = found.held, moved + len(found.moved)
    assert moved == 0


def test_circuits_lie_on_planes():
    rng = np.random.default_rng(5)
    for planes, far in (("duplex", lambda nic: nic), ("crossed", lambda nic: nic ^ 1)):
        decider = Decider(6, Region(4, 400, 800), timing=0, planes=planes)
        held = decider.start()
        for _ in range(10):
            found = decider.decide(held, rng.integers(0, 10**8, size=(6, 6)))
            ends = {(row[0], row[1]) for row in found.nics.tolist()}
            ends |= {(row[2], row[3]) for row in found.nics.tolist()}
            assert len(ends) == 2 * len(found.nics), "each NIC ends one circuit"
            assert (found.nics[:, 3] == far(found.nics[:, 1])).all()
            held = found.held


def test_a_triangle_that_no_planes_build_is_repaired():
    # two circuits on each side of a triangle need six planes, there are four
    demand = np.zeros((3, 3), int)
    demand[np.triu_indices(3, 1)] = demand[np.tril_indices(3, -1)] = 10**8
    region = Region(4, 400, 0)
    free = Decider(3, region, timing=0, policy=Policy(when="always"))
    assert free.decide(free.start(), demand).circuits.sum() == 12
    planes = Decider(3, region, timing=0, policy=Policy(when="always"), planes="duplex")
    found = planes.decide(planes.start(), demand)
    assert found.circuits.sum() == 8, "a plane joins two of three servers"
    with pytest.raises(InputError, match=r"^circuits: the circuits held cannot be put on planes$"):
        planes.hold(2 * (1 - np.eye(3, dtype=int)))


def test_failed_parts_are_not_used():
    failed = Failures(nics=[(0, 1)], planes=[0], servers=[3])
    region = Region(3, 400, 800, failed=failed)
    decider = Decider(5, region, timing=0, policy=Policy(when="always"))
    demand = np.random.default_rng(6).integers(0, 10**8, size=(5, 5))
    with pytest.raises(InputError, match=r"server 3 has failed: expected 0$"):
        decider.decide(decider.start(), demand)
    demand[3], demand[:, 3] = 0, 0
    found = decider.decide(decider.start(), demand)
    ends = {(row[0], row[1]) for row in found.nics.tolist()}
    ends |= {(row[2], row[3]) for row in found.nics.tolist()}
    assert ends
    assert not ends & {
        (0, 1),
        *((server, 0) for server in range(5)),
        *((3, nic) for nic in range(3)),
    }


def test_circuits_on_a_nic_that_fails_are_lost():
    demand = DEMAND.copy()
    healthy = Decider(4, REGION, timing=0)
    held = healthy.decide(healthy.hold(RING), demand).held
    region = Region(2, 400, 800, failed=Failures(nics=[(0, 0)]))
    found = Decider(4, region, timing=0).decide(held, demand)
    assert len(found.lost) == 1
    assert {(0, 0)}.isdisjoint({(row[0], row[1]) for row in found.nics.tolist()})


def test_relaying_may_suffice():
    rng = np.random.default_rng(7)
    demand = np.zeros((16, 16), int)
    demand[:, :2] = rng.integers(0, 10**8, size=(16, 2))
    region = Region(6, 400, 800)
    relaying = Policy(when="always", relaying=RelayCost())
    decider = Decider(16, region, timing=0, policy=relaying)
    found = decider.decide(decider.start(), demand)
    assert found.reason in ("relaying-suffices", "follows")
    plain = Decider(16, region, timing=0, policy=Policy(when="always"))
    assert found.makespan_s < plain.decide(plain.start(), demand).makespan_s


def test_a_custom_allocator_proposes():
    given = []

    def couples(requests):
        given.extend(requests)
        return [COUPLES for _ in requests]

    found = decided(0, allocator=couples)
    np.testing.assert_array_equal(found.circuits, COUPLES)
    assert [request.previous is None for request in given] == [False]
    np.testing.assert_array_equal(given[0].demand, DEMAND)

    def broken(_):
        raise RuntimeError("out of light")

    with pytest.raises(RuntimeError, match=r"^out of light$"):
        decided(0, allocator=broken)
    with pytest.raises(InputError, match=r"^allocator: 0 proposals for 1 requests$"):
        decided(0, allocator=lambda _: [])


def test_a_decider_is_not_used_twice_at_once():
    def reentrant(requests):
        with pytest.raises(InputError, match=r"^this decider is busy: use one per thread$"):
            decider.decide(held, DEMAND, proposals=[])
        return [COUPLES for _ in requests]

    decider = Decider(4, REGION, timing=0, allocator=reentrant)
    held = decider.hold(RING)
    assert decider.decide(held, DEMAND).reconfigure


def test_held_circuits_can_be_stored():
    decider = Decider(4, REGION, timing=0)
    held = decider.hold(RING)
    assert Held.from_json(held.to_json()) == held
    assert decider.hold_on(held.nics, held.chosen) == held
    with pytest.raises(ValueError, match=r"^EOF while parsing"):
        Held.from_json("{")
    with pytest.raises(InputError, match=r"^nics: NIC 0 of server 0 ends two circuits$"):
        decider.hold_on([[0, 0, 1, 0], [0, 0, 1, 1]])
    with pytest.raises(InputError, match=r"^nics: expected rows of 4 whole numbers"):
        decider.hold_on([[0, 0, 1]])


def test_deciding_releases_the_interpreter_lock():
    rng = np.random.default_rng(8)
    decider = Decider(160, Region(8, 400, 800), timing=0)
    held, demand = decider.start(), rng.integers(0, 10**8, size=(8, 160, 160))
    assert lets_others_run(lambda: decider.decide(held, demand))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"demand": np.ones(4)}, r"^demand: expected one matrix or several of equal size, got"),
        ({"demand": -DEMAND}, r"^demand\[0, 1\] is -50000000: expected a whole number from 0 to"),
        ({"demand": np.zeros((0, 4, 4))}, r"^demand: expected one matrix or several"),
        ({"demand": np.zeros((3, 3))}, r"^demand and circuits must be 4 x 4$"),
        ({"delay": -1}, r"^fixed_s: expected 0 to 1e6 s, got -1$"),
        ({"delay": None}, r"^timing: expected a number or .*, got None$"),
        ({"hidden_s": "5 GB"}, r"^hidden_s"),
        ({"hidden_s": [0, 0]}, r"^hidden_s: expected one time or 1, got 2$"),
        ({"planes": "round"}, r"^planes 'round': expected one of duplex, crossed"),
        ({"numa_nodes": 0}, r"^numa_nodes: expected"),
        ({"proposals": [np.eye(4)]}, r"^circuits: expected a symmetric matrix with zeros"),
        ({"proposals": [3 * COUPLES]}, r"^circuits: server 0 has 2 ports but 6 circuits$"),
        ({"proposals": [np.zeros((3, 3))]}, r"^circuits: expected 4 servers, got 3$"),
    ],
)
def test_wrong_input_gets_one_line(change, message):
    values = {"delay": 0, **change}
    with pytest.raises(InputError, match=message) as caught:
        decided(values.pop("delay"), **values)
    assert "\n" not in str(caught.value)


def test_held_circuits_must_fit():
    decider = Decider(4, REGION, timing=0)
    with pytest.raises(InputError, match=r"server 0 has 2 ports but 6 circuits"):
        decider.hold(3 * COUPLES)
    with pytest.raises(DemandError, match=r"expected a square matrix"):
        decider.decide(decider.start(), np.ones((2, 3)))


def test_demand_counts_whatever_its_order_in_memory():
    demand = np.random.default_rng(3).integers(0, 10**8, size=(4, 4), dtype=np.uint64)
    decider = Decider(4, Region(2, 400, 100), timing="10 us")
    held = decider.start()
    for given in (demand.T, demand[::-1], np.asfortranarray(demand), demand[:, ::-1]):
        assert (upcoming_all_to_alls(given)[0].demand == given).all()
        expected = decider.decide(held, np.ascontiguousarray(given))
        assert decider.decide(held, given) == expected
