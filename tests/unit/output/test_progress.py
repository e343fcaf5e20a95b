"""Progress on a terminal."""

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


def test_nothing_is_drawn_where_there_is_no_terminal():
    shown = io.StringIO()
    with TerminalMonitor(Console(file=shown), print) as monitor:
        monitor.progress(0.5, "half way")
    assert shown.getvalue() == ""
