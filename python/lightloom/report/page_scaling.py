"""A comparison at several points as one HTML page: scaling curves, crossovers, one table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lightloom import __version__
from lightloom.output.files import write_text
from lightloom.report.page_template import files_of, render_page
from lightloom.report.plots_svg import (
    Axis,
    FabricStyle,
    axis_names,
    drawing,
    fabric_styles,
    grid_lines,
    padded,
    tag,
)
from lightloom.report.scaling_table import opening, plans_grid, scaling_grid, verdicts, warnings
from lightloom.report.supply_text import listed
from lightloom.study.compare.scaling import METRICS, Scaling, ScalingPoint
from lightloom.units import show_number

_WIDTH, _HEIGHT = 520.0, 330.0
_BELOW = {"gpus": "GPUs", "rate_gbps": "rate of a NIC [Gb/s]"}
_UNIT = {"gpus": "GPUs", "rate_gbps": "Gb/s"}
#: names of the metrics beside their axes, and what they are multiplied by
_LEFT = {
    "tokens/s": ("thousand tokens/s", "tokens/s per k$ of cluster"),
    "steps/h": ("steps/h", "steps/h per k$ of cluster"),
}
_SCALE = {"tokens/s": (1e-3, 1e3), "steps/h": (1.0, 1e3)}


def write_scaling_page(scaling: Scaling, path: Path) -> None:
    """Write the page; ``path`` appears only when it is whole.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    write_text(render_scaling(scaling), path)


def render_scaling(scaling: Scaling) -> str:
    """Text of the page."""
    return render_page("scaling.html", _context(scaling))


def _context(scaling: Scaling) -> dict[str, Any]:
    first = scaling.results[min(scaling.results)]
    kinds = {r["fabric"]: r["kind"] for n in scaling.results for r in scaling.results[n]["results"]}
    styles = fabric_styles(list(kinds.items()))
    return {
        "version": __version__,
        "title": f"{first['inputs']['model']['name']} at {len(scaling.results)} points",
        "heading": _heading(scaling),
        "verdict": verdicts(scaling),
        "legend": list(styles.values()),
        "plots": _plots(scaling, styles),
        "summary": opening(scaling),
        "warnings": warnings(scaling),
        "command": scaling.command,
        "files": files_of("results", scaling.to_json(), [], ""),
        "tables": [grid for grid in (plans_grid(scaling), scaling_grid(scaling)) if grid],
        "crossovers": [
            (METRICS[cross.metric], _where(scaling, cross.fixed), cross.below, cross.above,
             f"{cross.low:,g} to {cross.high:,g} {_UNIT[cross.axis]}",
             f"{float(f'{cross.at:.3g}'):,g} {_UNIT[cross.axis]}")
            for cross in scaling.crossovers()
        ],
        "failures": [(scaling.points[n].title, reason) for n, reason in scaling.failures.items()],
    }  # fmt: skip


def _heading(scaling: Scaling) -> str:
    """The values of each axis once."""
    points = [scaling.points[number] for number in sorted(scaling.results)]
    texts = []
    for name in points[0].values:
        values = dict.fromkeys(point.values[name] for point in points)
        *first, last = (ScalingPoint({name: value}, points[0].scenario).title for value in values)
        bare = [text.removesuffix(f" {_UNIT.get(name, '')}") for text in first]
        texts.append(listed([*bare, last]))
    return "; ".join(texts)


def _where(scaling: Scaling, fixed: dict[str, Any]) -> str:
    return ScalingPoint(fixed, scaling.points[0].scenario).title


def _plots(scaling: Scaling, styles: dict[str, FabricStyle]) -> list[tuple[str, list[Markup]]]:
    """Curves of every line with two points or more: its title, and a drawing for each metric."""
    plots = []
    for axis in scaling.numeric_axes:
        for line in scaling.lines(axis):
            if len(line) > 1:
                values = scaling.points[line[0]].values
                where = _where(scaling, {k: v for k, v in values.items() if k != axis})
                drawn = [_curves(scaling, axis, line, metric, styles) for metric in METRICS]
                plots.append((f"{where}, over {_BELOW[axis]}".removeprefix(", "), drawn))
    return plots


def _curves(
    scaling: Scaling, axis: str, line: list[int], metric: str, styles: dict[str, FabricStyle]
) -> Markup:
    """A metric of every fabric along a line of points; the horizontal scale is logarithmic."""
    places = [math.log2(scaling.points[number].values[axis]) for number in line]
    kind, unit = list(METRICS).index(metric), scaling.pace_unit
    scale, left = _SCALE[unit][kind], _LEFT[unit][kind]
    values = [
        {name: scale * value for name, value in scaling.metric(number, metric).items()}
        for number in line
    ]
    every = [value for row in values for value in row.values()]
    x = Axis(*padded(places, 0.06), 80, _WIDTH - 16)
    y = Axis(*padded([0.0, *every], 0.06), _HEIGHT - 58, 16)
    below = [
        (place, f"{scaling.points[n].values[axis]:,g}")
        for place, n in zip(places, line, strict=True)
    ]
    parts = [*grid_lines(x, y, below), *axis_names(x, y, _BELOW[axis], left)]
    for name, style in styles.items():
        points = [(p, row[name]) for p, row in zip(places, values, strict=True) if name in row]
        path = " ".join(f"{x(place):.1f},{y(value):.1f}" for place, value in points)
        parts.append(tag("polyline", points=path, class_=f"curve {style.class_}"))
        parts += [
            tag("path", d=style.mark, class_=f"mark {style.class_}",
                transform=f"translate({x(place):.1f} {y(value):.1f}) scale(.7)",
                data_tip=f"{name}: {show_number(value)}")
            for place, value in points
        ]  # fmt: skip
    return drawing(_WIDTH, _HEIGHT, f"{left} over {_BELOW[axis]}", parts, "plot")
