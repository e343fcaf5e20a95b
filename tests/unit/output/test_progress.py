"""Progress on a terminal and elsewhere."""

import io

from rich.console import Console

from lightloom.output.progress import TerminalMonitor


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
