"""The strategies of an all-to-all as one HTML page: time and speed-up over the sequence length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from markupsafe import Markup

from lightloom import __version__
from lightloom.output.files import write_text
from lightloom.planner.choose import LengthResult
from lightloom.planner.scenario import AllToAllScenario
from lightloom.planner.strategy import AllToAllStrategy
from lightloom.report.page_template import files_of, render_page
from lightloom.report.plots_svg import (
    MARKS,
    Axis,
    axis_names,
    decades,
    drawing,
    grid_lines,
    padded,
    series_class,
    tag,
)
from lightloom.report.strategy_table import MEANINGS, grids, notes, opening, verdicts
from lightloom.units import show_time

_WIDTH, _HEIGHT = 520.0, 330.0


def write_strategies_page(
    scenario: AllToAllScenario, results: Sequence[LengthResult], path: Path, command: str = ""
) -> None:
    """Write the page; ``path`` appears only when it is whole.

    ``command`` is what made it, for the reader to copy.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    write_text(render_strategies(scenario, results, command), path)


def render_strategies(
    scenario: AllToAllScenario, results: Sequence[LengthResult], command: str = ""
) -> str:
    """Text of the page."""
    return render_page("strategies.html", _context(scenario, results, command))


def _context(
    scenario: AllToAllScenario, results: Sequence[LengthResult], command: str
) -> dict[str, object]:
    rows = [result.as_row() for result in results]
    content = {"inputs": scenario.model_dump(mode="json"), "rows": rows}
    by_demand = [list(part) for _, part in groupby(results, key=lambda result: result.demand)]
    return {
        "version": __version__,
        "title": f"All-to-all on {scenario.cluster or scenario.gpu}: which strategy when",
        "heading": opening(scenario)[0],
        "verdict": verdicts(results),
        "legend": [
            (series_class(number), f"{strategy}: {MEANINGS[strategy]}")
            for number, strategy in enumerate(AllToAllStrategy)
        ],
        "plots": [
            (part[0].demand, [_times(part), _speed_ups(part)])
            for part in by_demand
            if len({result.seq for result in part}) > 1
        ],
        "tables": grids(results),
        "notes": notes(scenario),
        "curves": [
            (name, str(curve.source))
            for name, curve in (
                ("between servers", scenario.where.all_to_all),
                ("within a server", scenario.where.within),
                ("gather", scenario.where.gather),
                ("copy", scenario.where.copy_),
            )
        ],
        "command": command,
        "files": files_of("strategies", content, [], ""),
    }


def _times(results: Sequence[LengthResult]) -> Markup:
    """Time of each strategy, both scales logarithmic."""
    lines = {
        strategy: [math.log10(1e3 * result.choice.times[strategy].time_s) for result in results]
        for strategy in AllToAllStrategy
    }
    return _over_length(results, lines, "time [ms]", logarithmic=True)


def _speed_ups(results: Sequence[LengthResult]) -> Markup:
    """How many times faster than the baseline each strategy is."""
    lines = {
        strategy: [
            result.choice.times[AllToAllStrategy.BASELINE].time_s
            / result.choice.times[strategy].time_s
            for result in results
        ]
        for strategy in AllToAllStrategy
    }
    return _over_length(results, lines, "times faster than the baseline", logarithmic=False)


def _over_length(
    results: Sequence[LengthResult],
    lines: dict[AllToAllStrategy, list[float]],
    left: str,
    *,
    logarithmic: bool,
) -> Markup:
    places = [math.log2(result.seq) for result in results]
    values = [value for line in lines.values() for value in line]
    x = Axis(*padded(places, 0.06), 80, _WIDTH - 16)
    bottom = values if logarithmic else [0.0, *values]
    low, high = min(bottom), max(bottom)
    room = 0.06 * (high - low) or 0.1
    y = Axis(low - (room if logarithmic else 0.0), high + room, _HEIGHT - 58, 16)
    below = _thinned(
        [(place, _length(result.seq)) for place, result in zip(places, results, strict=True)]
    )
    parts = grid_lines(x, y, below, decades(y) if logarithmic else None)
    parts += axis_names(x, y, "tokens of a sequence", left)
    # those of what is chosen lie above the others
    marks: dict[bool, list[Markup]] = {False: [], True: []}
    for number, (strategy, line) in enumerate(lines.items()):
        look = series_class(number)
        path = " ".join(f"{x(p):.1f},{y(v):.1f}" for p, v in zip(places, line, strict=True))
        parts.append(tag("polyline", points=path, class_=f"curve {look}"))
        for place, value, result in zip(places, line, results, strict=True):
            timed, chosen = result.choice.times[strategy], result.choice.chosen is strategy
            chunks = f", {timed.chunks} chunks" if strategy.is_chunked else ""
            size = 1 if chosen else 0.5
            spent = f"{show_time(timed.time_s)}{chunks}{', chosen' if chosen else ''}"
            marks[chosen].append(
                tag(
                    "path",
                    d=MARKS[number],
                    class_=f"mark {look}",
                    transform=f"translate({x(place):.1f} {y(value):.1f}) scale({size})",
                    data_tip=f"{strategy}, {result.seq:,} tokens: {spent}",
                )
            )
    parts += [*marks[False], *marks[True]]
    return drawing(_WIDTH, _HEIGHT, f"{left} over the length of a sequence", parts, "plot")


def _thinned(marks: list[tuple[float, str]], most: int = 9) -> list[tuple[float, str]]:
    """Of many marks, every so many."""
    return marks[:: -(-len(marks) // most)]


def _length(tokens: int) -> str:
    """A length as contexts are called."""
    for scale, letter in ((2**20, "M"), (2**10, "K")):
        if tokens % scale == 0:
            return f"{tokens // scale}{letter}"
    return f"{tokens:,}"
