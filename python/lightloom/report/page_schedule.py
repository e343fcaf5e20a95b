"""A comparison of schedulers as one HTML page, and its schedule as a drawing of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightloom import __version__
from lightloom.output.files import write_text
from lightloom.report.page_template import files_of, render_page
from lightloom.report.plots_circuits import chord_drawing, circuits_text, matrix_drawing
from lightloom.report.plots_schedule import MAX_SOURCES, Gantt, gantt, standalone
from lightloom.report.schedule_table import grids, profile_text, verdict
from lightloom.study.scheduling import ScheduleComparison
from lightloom.study.scheduling.data import as_json, as_rows
from lightloom.study.scheduling.port_times import busiest, port_times
from lightloom.units import show_bytes, show_time


def write_schedule_page(comparison: ScheduleComparison, path: Path, command: str = "") -> None:
    """Write the page; ``path`` appears only when it is whole.

    ``command`` is what made it, for the reader to copy.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    write_text(render_schedule(comparison, command), path)


def write_schedule_drawing(comparison: ScheduleComparison, path: Path) -> None:
    """Write the shortest schedule as an SVG file; nothing if an interrupt left none.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    chart = shortest_drawn(comparison)
    if chart is None:
        return
    text = standalone(
        chart, schedule_title(comparison), f"{comparison.problem.name}; {_shown(comparison)}"
    )
    write_text(text + "\n", path)


def render_schedule(comparison: ScheduleComparison, command: str = "") -> str:
    """Text of the page."""
    return render_page("schedule.html", _context(comparison) | {"command": command})


def _context(comparison: ScheduleComparison) -> dict[str, Any]:
    rows, lines = as_rows(comparison), verdict(comparison)
    chart = shortest_drawn(comparison)
    demand = comparison.problem.demand
    square = demand.shape[0] == demand.shape[1]
    names = [str(index) for index in range(max(demand.shape))]
    best = comparison.best_allocation
    return {
        "version": __version__,
        "title": lines[0] if lines else f"Circuits for {comparison.problem.name}",
        "heading": profile_text(comparison),
        "verdict": lines[1:],
        "tables": grids(comparison),
        "files": files_of("schedule", as_json(comparison), rows, "a row per method"),
        "schedule_title": schedule_title(comparison),
        "schedule_note": _shown(comparison),
        "schedule": None if chart is None else chart.drawing(schedule_title(comparison)),
        "legend": [] if chart is None else chart.legend,
        "demand": matrix_drawing(demand, names, show_bytes, "demand") if square else None,
        "circuits": None
        if best is None
        else matrix_drawing(
            best.split.circuits, names, circuits_text, "circuits", "fabric-4 cells"
        ),
        "chords": None
        if best is None
        else chord_drawing(best.split.circuits, names, "Circuits of the region", "fabric-4"),
        "circuits_title": "" if best is None else f"Circuits by {best.method}",
    }


def schedule_title(comparison: ScheduleComparison) -> str:
    """The title of the shortest schedule."""
    if comparison.winner is None:
        return "No schedule"
    length = show_time(comparison.schedules[comparison.winner].length_s)
    return f"Schedule by {comparison.winner}: {length}"


def shortest_drawn(comparison: ScheduleComparison) -> Gantt | None:
    """The shortest schedule of the busiest sources; nothing if an interrupt left none."""
    if comparison.winner is None:
        return None
    rows = busiest(comparison.problem.demand, MAX_SOURCES)
    times = port_times(comparison.schedules[comparison.winner], comparison.problem.demand, rows)
    return gantt(times, rows)


def _shown(comparison: ScheduleComparison) -> str:
    """Which sources are drawn."""
    sources = comparison.profile.sources
    if sources <= MAX_SOURCES:
        return f"{sources} sources"
    return f"the {MAX_SOURCES} busiest of {sources} sources"
