"""A data set as one HTML page to explore: points, heat map, parallel coordinates, filters."""

from __future__ import annotations

import base64
import json
import math
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightloom import __version__
from lightloom.errors import InputError
from lightloom.output.files import write_text
from lightloom.report.page_template import render_page
from lightloom.report.plots_svg import fabric_styles
from lightloom.units import show_option

if TYPE_CHECKING:
    import polars

#: columns that no axis shows
_ASIDE = ("id", "run_hash", "kind")
#: of these more is better; of other results less
_MORE = ("tokens_per", "perf_per", "mfu", "tflops")
_LESS = ("_s", "_usd", "_w", "_j", "per_token", "usd_per", "ratio_to", "days_per")
#: digits that a page keeps
_DIGITS = 9
#: what a page begins with where it is there
_FIRST_X = ("cluster_cost_usd", "network_cost_usd")
_FIRST_Y = ("tokens_per_s", "step_time_s")
#: results that a tip shows beside the inputs
_SHOWN = ("fabric", "step_time_s", "tokens_per_s", "perf_per_cluster_usd")
#: rows that a page holds
MOST_ROWS = 200_000


@dataclass(frozen=True)
class ExploredData:
    """Rows and what is known of them.

    Attributes
    ----------
    rows
        The table.
    title, heading
        What the page says first.
    inputs
        Columns that were chosen rather than found.
    command
        What, with the number of a point, makes it again; empty if nothing does.
    """

    rows: polars.DataFrame
    title: str
    heading: str = ""
    inputs: tuple[str, ...] = field(default=())
    command: str = ""


def write_explore_page(content: ExploredData, path: Path) -> None:
    """Write the page; ``path`` appears only when it is whole.

    Raises
    ------
    InputError
        If there is nothing to show, or too much.
    OutputError
        If it cannot be written.
    """
    write_text(render_explore(content), path)


def render_explore(content: ExploredData) -> str:
    """Text of the page.

    Raises
    ------
    InputError
        If there is no row, no number, or there are too many rows.
    """
    rows = content.rows
    if not 0 < len(rows) <= MOST_ROWS:
        raise InputError(f"a page holds 1 to {MOST_ROWS:,} rows, and there are {len(rows):,}")
    fixed = [name for name in rows.columns if rows[name].n_unique() == 1 and name != "point"]
    shown = [name for name in rows.columns if name not in fixed and name not in _ASIDE]
    columns = [_column(rows, name, content.inputs) for name in shown]
    if not any(column["kind"] == "number" for column in columns):
        raise InputError("there is nothing to draw: no column has different numbers")
    packed = json.dumps([_values(rows, column) for column in columns], separators=(",", ":"))
    charts = {
        "columns": columns,
        "count": len(rows),
        "packed": base64.b64encode(zlib.compress(packed.encode(), 9)).decode(),
        "command": content.command,
        "start": _start(columns),
    }
    context: dict[str, Any] = {
        "version": __version__,
        "title": content.title,
        "heading": content.heading,
        "verdict": [],
        "charts": charts,
        "constant": [
            (name, _text(rows[name][0], is_input=name in content.inputs))
            for name in fixed
            if rows[name][0] is not None and name not in _ASIDE
        ],
    }
    return render_page("explore.html", context)


def _column(rows: polars.DataFrame, name: str, inputs: tuple[str, ...]) -> dict[str, Any]:
    """What the page knows of a column: its kind, its texts, and what of it is better."""
    is_number = rows[name].dtype.is_numeric()
    column: dict[str, Any] = {
        "name": name,
        "label": _label(name),
        "kind": "number" if is_number else "text",
        "input": name in inputs,
        "shown": name in _SHOWN,
    }
    if is_number:
        column["better"] = _better(name)
        return column
    values = rows[name].drop_nulls().to_list()
    levels = sorted({_text(value, is_input=name in inputs) for value in values})
    column["levels"] = levels
    if name == "fabric":
        kinds = rows["kind"] if "kind" in rows.columns else rows["fabric"]
        texts = [_text(value, is_input=name in inputs) for value in rows["fabric"].to_list()]
        pairs = dict(zip(texts, map(_text, kinds.to_list()), strict=True))
        styles = fabric_styles([(level, pairs[level]) for level in levels])
        column["colors"] = [styles[level].color for level in levels]
    return column


def _better(name: str) -> str:
    if name.startswith(_MORE):
        return "more"
    return "less" if name.endswith(_LESS) or name.startswith(_LESS) else ""


def _label(name: str) -> str:
    """The name with its unit apart: ``step_time_s`` as ``step time [s]``."""
    path, dot, last = name.rpartition(".")
    for end, unit in {"_gbps": "Gb/s", "_s": "s", "_bytes": "B", "_usd": "$", "_w": "W"}.items():
        if last.endswith(end) and "per_" not in last:
            return f"{path}{dot}{last.removesuffix(end).replace('_', ' ')} [{unit}]"
    return f"{path}{dot}{last.replace('_', ' ')}"


def _values(rows: polars.DataFrame, column: dict[str, Any]) -> list[float | int | None]:
    values = rows[column["name"]].to_list()
    if column["kind"] == "number":
        return [_rounded(value) for value in values]
    place = {level: number for number, level in enumerate(column["levels"])}
    return [
        None if value is None else place[_text(value, is_input=column["input"])] for value in values
    ]


def _rounded(value: float | int | None) -> float | int | None:
    if value is None or isinstance(value, int):
        return value
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def _text(value: object, *, is_input: bool = False) -> str:
    """A value; switches of inputs as they are typed, results in words."""
    if isinstance(value, bool) and not is_input:
        return "yes" if value else "no"
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else show_option(value)


def _start(columns: list[dict[str, Any]]) -> dict[str, str]:
    """Which columns are where when the page opens."""
    numbers = [column["name"] for column in columns if column["kind"] == "number"]
    results = [c["name"] for c in columns if c["kind"] == "number" and not c["input"]]
    x = next((name for name in _FIRST_X if name in numbers), numbers[0])
    y = next((name for name in _FIRST_Y if name in numbers), (results or numbers)[-1])
    names = {column["name"] for column in columns}
    return {"x": x, "y": y, "color": "fabric" if "fabric" in names else "", "facet": ""}
