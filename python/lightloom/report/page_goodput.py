"""The goodput of a job as one HTML page: what the time that is not useful goes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from lightloom import __version__
from lightloom.output.files import write_text
from lightloom.report.goodput_table import (
    SPENT_WORDS,
    intervals_grid,
    kinds_grid,
    published_grid,
    spares_grid,
    spent_grid,
    useful_grid,
    verdicts,
)
from lightloom.report.page_template import files_of, render_page
from lightloom.report.plots_svg import (
    Axis,
    axis_names,
    drawing,
    grid_lines,
    series_class,
    tag,
)
from lightloom.study.goodput.results import Goodput
from lightloom.study.goodput.walk import SPENT

_WIDTH, _BAR = 760.0, 34.0
#: what is drawn: all that is not useful
LOST = tuple(name for name in SPENT if name != "useful")


def write_goodput_page(goodput: Goodput, path: Path, command: str = "") -> None:
    """Write the page; ``path`` appears only when it is whole.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    write_text(render_goodput(goodput, command), path)


def render_goodput(goodput: Goodput, command: str = "") -> str:
    """Text of the page."""
    return render_page("goodput.html", _context(goodput, command))


def words_of(name: str) -> str:
    """What time goes to, on one line."""
    return SPENT_WORDS[name].replace("-\n", "").replace("\n", " ")


def _context(goodput: Goodput, command: str) -> dict[str, Any]:
    grids = (useful_grid, spent_grid, kinds_grid, spares_grid, intervals_grid, published_grid)
    return {
        "version": __version__,
        "title": "How much of its time does the job train?",
        "heading": goodput.summary[0] if goodput.summary else "",
        "verdict": verdicts(goodput),
        "legend": [(series_class(number), words_of(name)) for number, name in enumerate(LOST)],
        "plot": lost_drawing(goodput),
        "tables": [grid(goodput) for grid in grids],
        "summary": goodput.summary,
        "warnings": goodput.warnings,
        "sources": [
            (f"{kind}, per {what.replace('_', ' ')} and year", value)
            for what, values in goodput.inputs["rates_per_year"].items()
            for kind, value in values.items()
        ],
        "published": [(run["title"], run["text"], run["date"]) for run in goodput.published],
        "command": command,
        "files": files_of("goodput", goodput.to_json(), goodput.rows(), "a row per fabric"),
    }


def lost_drawing(goodput: Goodput) -> Markup:
    """A bar for each fabric: what is not useful of its time, by what it goes to."""
    results = goodput.results
    top = max(100 * (1 - result.useful_share) for result in results) * 1.05 or 1.0
    height = 16 + _BAR * len(results) + 58
    x, y = Axis(0.0, top, 150, _WIDTH - 16), Axis(0.0, float(len(results)), 16, height - 58)
    foot = Axis(0.0, 1.0, height - 58, 16)
    parts = [*grid_lines(x, foot, None, []), *axis_names(x, foot, "share of the time [%]", "")]
    for row, result in enumerate(results):
        at, top_y = 0.0, y(row) + 5
        parts.append(
            tag("text", result.fabric, x=140, y=top_y + 17, text_anchor="end", class_="name")
        )
        for number, name in enumerate(LOST):
            share = 100 * result.shares[name]
            parts.append(
                tag("rect", x=x(at), y=top_y, width=max(0.0, x(at + share) - x(at)),
                    height=_BAR - 10, class_=f"mark {series_class(number)}",
                    data_tip=f"{result.fabric}, {words_of(name)}: {share:.3g} % of the time")
            )  # fmt: skip
            at += share
    return drawing(_WIDTH, height, "What is not useful of the time", parts, "plot")
