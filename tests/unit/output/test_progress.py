"""Progress on a terminal and elsewhere."""

import io
import itertools

import numpy as np
import pytest
from rich.console import Console

from lightloom.fabric import load_fabric
from lightloom.output.progress import Remaining, TerminalMonitor
from lightloom.progress import Monitor
from lightloom.study.compare.results import Sample
from lightloom.study.compare.runner import Attempt, RunProgress, Tally


def test_a_terminal_sees_progress_after_a_moment(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("lightloom.output.progress.time.monotonic", lambda: now[0])
    shown, results = io.StringIO(), []
    console = Console(file=shown, force_terminal=True, width=80)
    with TerminalMonitor(console, results.append, patience_s=1.0) as monitor:
        monitor.progress(0.1, "beginning")
        assert not shown.getvalue()
        now[0] = 2.0
        monitor.progress(0.5, "half way")
        monitor.remark("a sentence")
        monitor.finished("one")
    assert results == ["one"]
    assert "half way" in shown.getvalue()
    assert "50 %" in shown.getvalue()
    assert "a sentence" in shown.getvalue()


def lines_of(monkeypatch, steps):
    """What a pipe gets from progress at certain times, seconds."""
    now, shown = [0.0], io.StringIO()
    monkeypatch.setattr("lightloom.output.progress.time.monotonic", lambda: now[0])
    with TerminalMonitor(Console(file=shown, width=80), print) as monitor:
        for at, share in steps:
            now[0] = at
            monitor.progress(share, "work")
    return shown.getvalue().splitlines()


def test_without_a_terminal_a_line_comes_every_half_minute(monkeypatch):
    lines = lines_of(monkeypatch, [(float(at), at / 120) for at in range(1, 100)])
    assert lines == [
        "4 % in 0:05, about 1:55 left: work",
        "25 % in 0:30, about 1:30 left: work",
        "50 % in 1:00, about 1:00 left: work",
        "75 % in 1:30, about 0:30 left: work",
    ]


def test_what_takes_no_minute_is_silent_without_a_terminal(monkeypatch):
    assert lines_of(monkeypatch, [(float(at), at / 29) for at in range(1, 30)]) == []


def test_work_that_tells_no_share_still_says_what_it_does(monkeypatch):
    assert lines_of(monkeypatch, [(6.0, 0.0), (40.0, 0.0), (8000.0, 0.5)]) == [
        "0 % in 0:40: work",
        "50 % in 2 h 13 min, about 2 h 13 min left: work",
    ]


def test_nothing_is_drawn_where_there_is_no_terminal():
    shown = io.StringIO()
    with TerminalMonitor(Console(file=shown), print) as monitor:
        monitor.progress(0.5, "half way")
    assert shown.getvalue() == ""


def lefts(work):
    """Time left as shown, and as it is, of (seconds, share) pairs."""
    remaining, end_s = Remaining(0.0), work[-1][0]
    shown = [(at, remaining.update(share, at), end_s - at) for at, share in work]
    return [update for update in shown if update[1] is not None]


def on_cores(costs, speed=lambda _at: 1.0, cores=2, tick_s=1.0):
    """Runs in parallel, whose work counts as much as it takes, by a clock that is simulated."""
    tally = Tally(sum(costs))
    attempts = [Attempt(load_fabric("fat-tree"), Sample(n, 0)) for n in range(len(costs))]
    cost_of = {id(attempt): cost for attempt, cost in zip(attempts, costs, strict=True)}
    shares = []
    monitor = Monitor()
    monitor.progress = lambda share, _="": shares.append(share)
    progress = RunProgress(monitor, tally, lambda attempt: cost_of[id(attempt)])
    left, running, at, work = list(zip(attempts, costs, strict=True)), {}, 0.0, []
    while left or running:
        while left and len(running) < cores:
            attempt, cost = left.pop(0)
            running[attempt] = (cost, cost)
        at += tick_s
        for attempt, (whole, before) in list(running.items()):
            rest = max(0.0, before - tick_s * speed(at))
            progress.update(attempt, 1 - rest / whole)
            running[attempt] = (whole, rest)
            if not rest:
                del running[attempt]
        work.append((at, shares[-1]))
    return work


def test_the_time_left_of_even_work_is_what_it_is():
    for _, shown, true in lefts([(float(at), at / 200) for at in range(1, 201)]):
        assert shown == pytest.approx(true, abs=1e-6)


def test_runs_of_unlike_length_make_no_jump():
    """One takes forty times as long as another, as flat all-to-alls do."""
    costs = [40.0, 1.0, 5.0, 40.0, 1.0, 20.0, 40.0, 5.0, 40.0, 20.0] * 3
    shown = lefts(on_cores(costs))[10:-20]
    for (_, before, _), (_, after, _) in itertools.pairwise(shown):
        assert before - 3 < after < before + 0.5
    for _, left, true in shown:
        assert left == pytest.approx(true, rel=0.15, abs=10)


def test_another_speed_is_followed_smoothly():
    """Half of the machine is taken away: the time left grows, over many seconds."""
    work = on_cores([10.0] * 60, speed=lambda at: 1.0 if at < 150 else 0.5)
    shown = lefts(work)[10:]
    assert max(after - before for (_, before, _), (_, after, _) in itertools.pairwise(shown)) < 3
    for at, left, true in shown:
        if at > 300:
            assert left == pytest.approx(true, rel=0.35, abs=20)


def test_noise_does_not_reach_the_time_left():
    rng = np.random.default_rng(1)
    shares = np.cumsum(rng.exponential(size=300))
    work = [(float(at), float(share)) for at, share in enumerate(shares / shares[-1], 1)]
    shown = lefts(work)[30:]
    for (_, before, _), (_, after, _) in itertools.pairwise(shown):
        assert after < before + max(1.0, 0.04 * before)


def test_the_first_percent_makes_no_forecast():
    """What begins is slow (processes start, plans are searched): it says nothing of the rest."""
    remaining = Remaining(0.0)
    assert remaining.update(0.0005, 9.0) is None
    assert remaining.update(0.0199, 30.0) is None
    assert remaining.update(0.5, 60.0) < 60.0


def test_other_work_is_measured_anew():
    remaining = Remaining(0.0)
    assert remaining.update(0.0, 1.0) is None
    assert remaining.update(0.5, 10.0) == 10.0
    assert remaining.update(0.0, 20.0) is None
    assert remaining.update(0.1, 30.0) == pytest.approx(90.0)


def test_the_bar_shows_the_time_left(monkeypatch):
    now, shown = [0.0], io.StringIO()
    monkeypatch.setattr("lightloom.output.progress.time.monotonic", lambda: now[0])
    console = Console(file=shown, force_terminal=True, width=100)
    with TerminalMonitor(console, print) as monitor:
        now[0] = 60.0
        monitor.progress(0.25, "work")
    assert "left: 3:00" in shown.getvalue()
