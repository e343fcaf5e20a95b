"""The comparison of schedulers: what it measures, marks as best and refuses."""

import io
import itertools
import threading
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from lightloom import schedule
from lightloom.errors import DemandError, InputError
from lightloom.report.schedule_table import grids
from lightloom.study.scheduling import (
    MethodChoice,
    PortBudget,
    Problem,
    compare_schedules,
    profile_of,
    without_diagonal,
    without_servers,
)
from lightloom.study.scheduling import run as scheduling
from lightloom.study.scheduling.data import as_arrays, as_json, as_rows, dark_share
from lightloom.study.scheduling.other_systems import SYSTEMS

DEMAND = np.array([[0, 500, 700], [200, 0, 100], [900, 400, 0]], dtype=np.uint64)
ALL = MethodChoice(methods=("auto",), allocators=("static", "best"))


def problem(demand=DEMAND, delay_s=1e-9, **more):
    return Problem("it", demand, 8.0, delay_s, **more)


def test_every_method_alongside_the_library():
    found = compare_schedules(problem(budget=PortBudget(2, 8.0), switches=1), ALL)
    assert set(found.schedules) == {*schedule.PERMUTATION_METHODS, "auto"}
    for name, row in found.schedules.items():
        direct = schedule.decompose(DEMAND, delay_s=1e-9, rate_gbps=8.0, method=name)
        assert row.length_bytes == direct.length_bytes
        row.check(DEMAND)
    auto = schedule.decompose(DEMAND, delay_s=1e-9, rate_gbps=8.0)
    assert found.schedules[found.winner].length_bytes == auto.length_bytes
    static, best = found.allocations
    assert static.changed_pairs == 0
    assert static.split.makespan_s == found.held.makespan_s
    assert found.best_allocation.split.makespan_s == min(
        static.split.makespan_s, best.split.makespan_s
    )
    assert best.whole.makespan_s >= best.split.makespan_s


@pytest.mark.parametrize(("delay_s", "pays"), [(0.0, True), (1.0, False)])
def test_the_decision_weighs_the_best_against_the_held(delay_s, pays):
    found = compare_schedules(problem(delay_s=delay_s, budget=PortBudget(1, 0.5)), ALL)
    decision, best = found.decision, found.best_allocation
    assert decision.hold_s == pytest.approx(found.held.makespan_s)
    assert decision.switch_s == pytest.approx(best.split.makespan_s)
    assert decision.exposed_s == pytest.approx(delay_s)
    assert decision.reconfigure is pays
    assert as_json(found)["break_even"]["reconfigure"] is pays


def test_partial_reconfiguration_is_passed_on():
    found = compare_schedules(problem(partial=True), ALL)
    assert found.schedules["open-shop"].partial
    assert found.held is None
    assert found.best_allocation is None


def test_circuits_that_are_held():
    held = np.array([[0, 2, 0], [2, 0, 0], [0, 0, 0]])
    found = compare_schedules(problem(budget=PortBudget(2, 8.0, held)), ALL)
    assert (found.held.circuits == held).all()
    region = schedule.Region(2, 8.0, 8.0)
    assert found.held.makespan_s == schedule.route(DEMAND, held, region).makespan_s


def test_the_busiest_line_is_a_row_or_a_column():
    """Who sends and who receives may change places."""
    skewed = np.array([[0, 5, 0], [0, 0, 0], [0, 7, 0]], dtype=np.uint64)
    for demand in (skewed, skewed.T):
        assert profile_of(demand).busiest_bytes == 12
        assert profile_of(demand).line_over_mean == pytest.approx(12 / (24 / 6))


def test_servers_that_fail_neither_send_nor_receive():
    left, gone = without_servers(DEMAND, [1])
    assert left.tolist() == [[0, 0, 700], [0, 0, 0], [900, 0, 0]]
    assert gone == 500 + 200 + 100 + 400
    left, gone = without_servers(DEMAND, [])
    assert (left.tolist(), gone) == (DEMAND.tolist(), 0)


def test_profile_of_a_demand():
    of = profile_of(DEMAND)
    assert (of.sources, of.destinations, of.pairs) == (3, 3, 6)
    assert of.total_bytes == 2800
    assert of.busiest_bytes == 1300
    assert of.line_over_mean == pytest.approx(1300 / (2 * 2800 / 6))
    assert of.pair_over_mean == pytest.approx(900 / (2800 / 6))
    product = np.outer([1, 2, 3], [4, 5, 6]).astype(np.uint64)
    assert profile_of(product[:2]).rank_one_distance == pytest.approx(0)
    assert profile_of(without_diagonal(product)[0]).rank_one_distance == pytest.approx(0, abs=1e-12)
    assert profile_of(np.eye(4, dtype=np.uint64)[::-1].copy()).rank_one_distance > 0.5
    maximum = np.full((2, 3), 2**53, dtype=np.uint64)
    assert profile_of(maximum).total_bytes == 6 * 2**53


def test_the_diagonal_stays_inside():
    demand = DEMAND + np.diag(np.array([1, 2, 3], dtype=np.uint64))
    left, inside = without_diagonal(demand)
    assert (left == DEMAND).all()
    assert inside == 6
    wide = demand[:2]
    assert without_diagonal(wide) == (wide, 0)


@pytest.mark.parametrize(
    ("problem", "choice", "expected"),
    [
        (problem(np.zeros((2, 2), np.uint64)), ALL, "it: has no bytes to send; nothing to "
         "schedule"),
        (problem(delay_s=-1.0), ALL, "delay: expected 0 s or more, got -1 s"),
        (problem(delay_s=float("nan")), ALL, "delay: expected 0 s or more, got nan s"),
        (Problem("it", DEMAND, 0.0, 1.0), ALL, "rate: expected more than 0 Gb/s, got 0"),
        (problem(), MethodChoice(("bnv",), ()), "method 'bnv': expected of round-robin, open-shop, "
         "bvn, threshold, maximal, greedy, critical, auto; did you mean 'bvn'?"),
        (problem(), MethodChoice(("bvn",), (), -1.0), "time limit: expected 0 s or more, got -1 s"),
        (problem(DEMAND[:2], budget=PortBudget(2, 8.0)), ALL,
         "it: circuits need a square demand, got "
         "2 sources and 3 destinations; leave --ports out for schedules of permutations"),
        (problem(budget=PortBudget(2, 8.0)), MethodChoice(("bvn",), ("bset",)),
         "circuits 'bset': expected of "
         f"{', '.join(schedule.ALLOCATION_METHODS)}; did you mean 'best'?"),
    ],
)  # fmt: skip
def test_exact_line(problem, choice, expected):
    with pytest.raises(InputError) as caught:
        compare_schedules(problem, choice)
    assert str(caught.value) == expected


def test_nothing_to_send_is_a_demand_error():
    with pytest.raises(DemandError, match="x: has no bytes"):
        profile_of(np.zeros((2, 3), np.uint64), "x")


def test_the_time_limit_leaves_methods_out():
    found = compare_schedules(problem(), MethodChoice(("auto",), (), time_limit_s=0.0))
    assert list(found.schedules) == ["auto"]
    assert set(found.not_begun) == set(schedule.PERMUTATION_METHODS)
    assert found.not_begun[-1] == "maximal"
    assert found.winner == "auto"
    kept = compare_schedules(problem(), MethodChoice(("bvn", "maximal"), (), time_limit_s=0.0))
    assert (list(kept.schedules), kept.not_begun) == (["bvn"], ["maximal"])


def test_large_demand_gets_circuits_alone():
    large = np.zeros((1_025, 1_025), np.uint64)
    large[np.arange(1_025), np.roll(np.arange(1_025), 1)] = 1_000_000
    choice = MethodChoice(("auto",), ("static",), None, tuple(SYSTEMS))
    found = compare_schedules(problem(large, budget=PortBudget(2, 8.0)), choice)
    assert not found.schedules
    assert not found.systems
    assert found.winner is None
    assert [row.method for row in found.allocations] == ["static"]
    console = Console(file=io.StringIO(), width=200)
    found.print(console)
    assert "have at most 1,024 lines: left out." in console.file.getvalue()
    with pytest.raises(DemandError) as caught:
        compare_schedules(problem(large), choice)
    assert str(caught.value) == (
        "it: 1025 x 1025: schedules of permutations have at most 1024 lines; give --ports for "
        "circuits"
    )


def test_the_time_limit_leaves_systems_out():
    found = compare_schedules(problem(), MethodChoice(("bvn",), (), 0.0, tuple(SYSTEMS)))
    assert not found.systems
    assert found.not_begun == list(SYSTEMS)


def test_other_systems_have_a_switch_per_port():
    choice = MethodChoice(("bvn",), ("static",), systems=tuple(SYSTEMS))
    one, two = (
        compare_schedules(problem(delay_s=0.0, budget=ports), choice)
        for ports in (None, PortBudget(2, 8.0))
    )
    assert list(one.systems) == list(two.systems) == list(SYSTEMS)
    equal = schedule.rotornet_schedule(DEMAND, rate_gbps=8.0)
    assert one.systems["RotorNet, equal slots"].length_s == equal.length_s
    for name, row in two.systems.items():
        # the largest line, 1,300 bytes, at 1 GB/s per port
        assert row.length_s >= 1300e-9 / 2 * (1 - 1e-9)
        assert row.length_s == pytest.approx(row.over_bound * 1300e-9 / 2)
        assert row.length_s <= one.systems[name].length_s * (1 + 1e-9)
    epochs = one.systems["Helios"]
    direct = schedule.helios_epochs(DEMAND, epoch_s=epochs.epoch_s, rate_gbps=8.0)
    assert direct.length_s == epochs.length_s
    content = as_json(one)["systems"]["Helios"]
    assert content["length_s"] == epochs.length_s
    assert [row["method"] for row in as_rows(one)] == ["bvn", *SYSTEMS]
    wide = compare_schedules(problem(DEMAND[:2]), choice)
    assert not wide.systems


@pytest.mark.parametrize(
    ("ports", "partial", "given", "expected"),
    [
        (None, False, None, 1),
        (PortBudget(2, 8.0), False, None, 2),
        (PortBudget(2, 8.0), True, None, 1),
        (PortBudget(2, 8.0), False, 3, 3),
        (None, False, 4, 4),
    ],
)
def test_schedules_and_other_systems_have_the_same_switches(ports, partial, given, expected):
    of = replace(problem(budget=ports), partial=partial, switches=given)
    found = compare_schedules(of, MethodChoice(("auto",), (), systems=("RotorNet, equal slots",)))
    assert {row.switches for row in found.schedules.values()} == {expected}
    direct = schedule.rotornet_schedule(
        DEMAND, switches=expected, delay_s=of.delay_s, rate_gbps=of.rate_gbps
    )
    assert found.systems["RotorNet, equal slots"].length_s == direct.length_s
    assert as_json(found)["inputs"]["switches"] == expected
    assert ("switch_of_slot" in as_arrays(found)) == (expected > 1)
    plural = "es" if expected > 1 else ""
    assert all(f"{expected} switch{plural}" in grid.title for grid in grids(found)[:2])


def test_switches_that_cannot_be():
    with pytest.raises(InputError, match="switches: expected 1 to 1,024, got 0"):
        compare_schedules(replace(problem(), switches=0), MethodChoice(("bvn",), ()))
    with pytest.raises(InputError, match="partial reconfiguration is for one switch, got 2"):
        compare_schedules(replace(problem(), switches=2, partial=True), MethodChoice(("bvn",), ()))


def test_relaying_beside_each_allocation():
    demand = np.full((6, 6), 10**6, dtype=np.uint64)
    demand[0, 3] = demand[3, 0] = 10**8
    np.fill_diagonal(demand, 0)
    problem = Problem("it", demand, 400.0, 1e-6, budget=PortBudget(2, 400.0))
    found = compare_schedules(problem, MethodChoice(("bvn",), ("static", "best"), relay=True))
    region = schedule.Region(2, 400.0, 400.0)
    for row in found.allocations:
        direct = schedule.relay(demand, row.split.circuits, region)
        assert row.relayed.time_s == direct.time_s
        assert row.relayed.time_s <= row.split.makespan_s * (1 + 1e-6)
    assert found.held_relayed.time_s == found.allocations[0].relayed.time_s
    times = [row.relayed.time_s for row in found.allocations]
    assert found.best_relayed.relayed.time_s == min(times)
    assert found.made_to_relay.routing.time_s <= 1.02 * min(times)
    assert as_json(found)["made_to_relay_s"] == found.made_to_relay.routing.time_s
    assert as_json(found)["circuits"]["static"]["relayed_s"] == times[0]
    without = compare_schedules(problem, ALL)
    assert without.best_relayed is None
    assert "relayed_s" not in as_json(without)["circuits"]["static"]


@pytest.mark.parametrize("passed_s", [1.0, 2.0])
def test_auto_is_begun_only_if_it_will_be_in_time(monkeypatch, passed_s):
    times = itertools.count()
    step_s = passed_s / len(schedule.PERMUTATION_METHODS)
    monkeypatch.setattr(scheduling.time, "monotonic", lambda: step_s * next(times))
    found = compare_schedules(problem(), MethodChoice(("auto",), ()))
    assert ("auto" in found.schedules) == (passed_s * 6 < scheduling.DEFAULT_LIMIT_S)
    assert found.not_begun == ([] if passed_s == 1.0 else ["auto"])


def test_a_limit_that_is_given_is_passed_to_auto(monkeypatch):
    limits = []
    decompose = schedule.decompose

    def watch(*arguments, **options):
        limits.append(options["time_limit_s"])
        return decompose(*arguments, **options)

    monkeypatch.setattr(schedule, "decompose", watch)
    compare_schedules(problem(), MethodChoice(("auto",), ()))
    assert set(limits) == {None}
    limits.clear()
    found = compare_schedules(problem(), MethodChoice(("auto",), (), 60.0))
    # auto begins, with half of the limit, and is shown last
    assert 0 < limits[0] <= 30.0 < min(limits[1:])
    assert max(limits) <= 60.0
    assert list(found.schedules)[-1] == "auto"


def test_an_interrupt_keeps_what_finished():
    reported = []

    def interrupt(share, title):
        reported.append((share, title))
        if title == "schedule threshold":
            raise KeyboardInterrupt

    found = compare_schedules(problem(), ALL, progress=interrupt)
    assert found.interrupted
    assert list(found.schedules) == ["round-robin", "open-shop", "bvn"]
    assert [share for share, _ in reported] == sorted(share for share, _ in reported)


def test_an_interrupt_does_not_wait_for_a_step(monkeypatch):
    ended = threading.Event()
    joins = itertools.count()
    monkeypatch.setattr(schedule, "decompose", lambda *_a, **_k: ended.wait(60))

    def join(_self, _seconds):
        if next(joins) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "join", join)
    found = compare_schedules(problem(), ALL)
    assert found.interrupted
    assert not found.schedules
    ended.set()


def test_errors_of_a_step_come_out(monkeypatch):
    def fail(*_arguments, **_options):
        raise InputError("no")

    monkeypatch.setattr(scheduling.schedule, "decompose", fail)
    with pytest.raises(InputError, match="no"):
        compare_schedules(problem(), ALL)


def test_plain_data():
    found = compare_schedules(problem(budget=PortBudget(2, 8.0)), ALL)
    content = as_json(found)
    assert content["winner"] == found.winner
    assert content["inputs"]["delay_s"] == 1e-9
    assert content["circuits"]["best"]["split_s"] == found.allocations[1].split.makespan_s
    rows = as_rows(found)
    assert [row["method"] for row in rows] == [*found.schedules, "static", "best"]
    assert sum(row["best"] for row in rows) == 2
    assert len({tuple(row) for row in rows}) == 1
    arrays = as_arrays(found)
    assert (arrays["demand"] == DEMAND).all()
    assert arrays["permutations"].shape == (len(arrays["holds_bytes"]), 3)
    assert (arrays["circuits"] == found.best_allocation.split.circuits).all()
    partial = compare_schedules(problem(partial=True), MethodChoice(("open-shop",), ()))
    assert as_arrays(partial)["transfers"].shape[1] == 4


@pytest.mark.parametrize("partial", [False, True])
def test_dark_share_is_the_mean_of_sources(partial):
    row = schedule.decompose(
        DEMAND, delay_s=10e-9, rate_gbps=8.0, method="open-shop", partial=partial
    )
    turns = 6 / 3 if partial else row.configurations
    assert dark_share(row) == pytest.approx(turns * 10 / row.length_bytes)


def test_methods_that_memory_does_not_hold_are_left_out(monkeypatch):
    monkeypatch.setattr("lightloom.schedule.permutations._MAX_CELLS", 17)  # six pairs of three rows
    found = compare_schedules(problem(), MethodChoice(("auto",), ()))
    assert found.too_large == ["open-shop", "maximal"]
    assert "auto" in found.schedules
    assert as_json(found)["too_large"] == found.too_large
    rows = [row for row in grids(found)[0].rows if row[-1] == "memory"]
    assert [row[0] for row in rows] == found.too_large
    assert compare_schedules(replace(problem(), partial=True), ALL).too_large == ["maximal"]
