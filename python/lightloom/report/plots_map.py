"""A map of circuit switches as one drawing: delay and bring-up, and the price of a port."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup

from lightloom.output.files import write_text
from lightloom.report.plots_svg import (
    MARKS,
    Axis,
    axis_names,
    decades,
    document,
    grid_lines,
    tag,
)
from lightloom.study.switch_map.curve import LONGEST_S, SHORTEST_S
from lightloom.study.switch_map.results import MapCurve, SwitchMap
from lightloom.units import show_time

_WIDTH, _HEIGHT, _PANEL = 1120.0, 644.0, 400.0
#: of lines, which differ in strokes too; the first is that of the job
_COLORS = ("#332288", "#117733", "#aa4499", "#b8860b", "#0072b2", "#d55e00", "#5c6470", "#88225c")
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 4", "6 6")
STYLE = """
svg { font: 13px -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif;
  background: #fff; fill: #1b1f27; }
.tick { font-size: 11.5px; fill: #4b525d; } .note { font-size: 11.5px; fill: #4b525d; }
.title { font-size: 15px; font-weight: 600; } .grid { stroke: #e3e1dc; } .axis { stroke: #1b1f27; }
.line { fill: none; stroke-width: 2; } .pays { fill: #332288; fill-opacity: .12; }
.level { stroke: #8b929c; stroke-dasharray: 2 4; } .product { fill: #1b1f27; stroke: #fff; }
.hollow { fill: #fff; stroke: #1b1f27; stroke-width: 1.5; }
"""


def write_map_drawing(found: SwitchMap, path: Path) -> None:
    """Write the drawing; ``path`` appears only when it is whole.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    write_text(map_drawing(found) + "\n", path)


def map_drawing(found: SwitchMap) -> str:
    """Text of the drawing: delay against bring-up, and delay against the price of a port."""
    main = found.main
    title = "For which circuit switches does a reconfigurable fabric pay?"
    heading = found.summary[0].partition(":")[0] if found.summary else "job"
    note = (
        f"{heading}, {main.rate_gbps:g} Gb/s, degree {main.degree}; filled marks: links of today"
        f" ({show_time(found.today_s, 3)}); hollow: links that come up at once"
    )
    parts = [
        tag("style", Markup(STYLE)),
        tag("text", title, x=16.0, y=26.0, class_="title"),
        tag("text", note, x=16.0, y=46.0, class_="note"),
        tag("g", *_plane(found), transform="translate(16 64)"),
        tag("g", *_prices(found), transform="translate(596 64)"),
        tag("g", *_names(found), transform=f"translate(24 {_HEIGHT - 24:g})"),
    ]
    return str(document(parts, _WIDTH, _HEIGHT, title))


def _delays(start: float, end: float) -> Axis:
    return Axis(math.log10(SHORTEST_S), math.log10(LONGEST_S), start, end)


def _time_marks(axis: Axis) -> list[tuple[float, str]]:
    return [(at, show_time(10.0**at, 1)) for at, _ in decades(axis, few=0.0)]


def _within(delay_s: float) -> float:
    return math.log10(min(max(delay_s, SHORTEST_S), LONGEST_S))


def _plane(found: SwitchMap) -> list[Markup]:
    """Switching delay against bring-up: up to which sum of both changing circuits pays."""
    x, y = _delays(70, 70 + _PANEL), _delays(_PANEL - 10, 14)
    parts = [*grid_lines(x, y, _time_marks(x), _time_marks(y))]
    parts += axis_names(x, y, "switching delay", "bring-up of a link")
    parts.append(tag("text", "a: changing circuits gains 0.5 % or more", x=70, y=4))
    for title, time_s in found.bring_ups.values():
        at = y(_within(time_s))
        parts.append(tag("line", x1=x.start, x2=x.end, y1=at, y2=at, class_="level"))
        parts.append(tag("text", title, x=x.end - 4, y=at - 4, text_anchor="end", class_="note"))
    lines = [(one.variant or "the job", one.switching_border_s)
             for one in (found.main, *found.variants)]  # fmt: skip
    drawn = [(n, *line) for n, line in enumerate(lines) if line[1] > 0]
    for number, _, border_s in drawn:
        parts += _sum_line(x, y, border_s, number)
    parts += _products(found, x, y)
    parts += _legend(
        [(n, f"{name}: {_border_words(border)}") for n, (name, border) in enumerate(lines)],
        x.start,
        _PANEL + 52,
    )
    return parts


def _border_words(border_s: float) -> str:
    if border_s <= 0:
        return "nowhere"
    return "everywhere" if math.isinf(border_s) else f"up to {show_time(border_s, 2)}"


def _sum_line(x: Axis, y: Axis, border_s: float, number: int) -> list[Markup]:
    """Where delay and bring-up sum to a border, and for the job the region where it pays."""
    end_s = min(border_s, LONGEST_S)
    delays = np.geomspace(SHORTEST_S, end_s, 120)
    points = [(x(_within(d)), y(_within(max(end_s - d, SHORTEST_S)))) for d in delays]
    path = "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points)
    parts = []
    if number == 0:
        region = f"{path}L{points[-1][0]:.1f},{y.start:.1f}L{x.start:.1f},{y.start:.1f}Z"
        parts.append(tag("path", d=region, class_="pays"))
    return [*parts, _stroke(path, number)]


def _stroke(path: str, number: int, dash: str | None = None) -> Markup:
    dashes = _DASHES[number % len(_DASHES)] if dash is None else dash
    color = _COLORS[number % len(_COLORS)]
    return tag("path", d=path, class_="line", stroke=color, stroke_dasharray=dashes or "none")


def _products(found: SwitchMap, x: Axis, y: Axis) -> list[Markup]:
    """Switches with links of today, and with links that come up at once."""
    parts = []
    for number, product in enumerate(found.products):
        for bring_up_s, look in ((found.today_s, "product"), (SHORTEST_S, "hollow")):
            at = f"translate({x(_within(product.delay_s)):.1f} {y(_within(bring_up_s)):.1f})"
            parts.append(tag("path", d=MARKS[number], transform=f"{at} scale(.8)", class_=look))
    return parts


def _prices(found: SwitchMap) -> list[Markup]:
    """The highest price of a port that pays, over the whole delay."""
    curves = [c for c in found.curves if c.degree == found.main.degree]
    x = _delays(70, 70 + _PANEL)
    delays = np.geomspace(SHORTEST_S, LONGEST_S, 60).tolist()
    every = [product.port_usd for product in found.products if product.port_usd > 0]
    every += [
        price
        for curve in curves
        for metric in ("network", "cluster")
        for price in _line_of(curve, metric, delays)
        if price > 0
    ]
    low = math.log10(min(every, default=1.0)) - 0.15
    y = Axis(low, math.log10(max(every, default=10.0)) + 0.15, _PANEL - 10, 14)
    marks = decades(y, show="{:,g}".format)
    parts = [*grid_lines(x, y, _time_marks(x), marks)]
    parts += axis_names(x, y, "switching delay + bring-up", "price of a port [$]")
    parts.append(tag("text", "b: below a line it pays per dollar", x=70, y=4))
    legend = []
    for number, curve in enumerate(curves):
        for metric, dash in (("network", "7 3"), ("cluster", "")):
            prices = _line_of(curve, metric, delays)
            points = [
                f"{x(_within(d)):.1f},{y(math.log10(p)):.1f}"
                for d, p in zip(delays, prices, strict=True)
                if p > 0
            ]
            words = f"{curve.rate_gbps:g} Gb/s, per {metric} $ (over {curve.rival(metric).fabric})"
            if points:
                parts.append(_stroke("M" + "L".join(points), number, dash))
            legend.append((number, words if points else f"{words}: at no price", dash))
    for number, product in enumerate(found.products):
        for bring_up_s, look in ((found.today_s, "product"), (0.0, "hollow")):
            at = f"{x(_within(product.delay_s + bring_up_s)):.1f}"
            # what is free stands at the foot
            height = y(math.log10(product.port_usd) if product.port_usd > 0 else low)
            place = f"translate({at} {height:.1f}) scale(.8)"
            parts.append(tag("path", d=MARKS[number], transform=place, class_=look))
    lines = [(n, words) for n, words, _ in legend]
    return [*parts, *_legend(lines, x.start, _PANEL + 52, [dash for *_, dash in legend])]


def _line_of(curve: MapCurve, metric: str, delays: Sequence[float]) -> list[float]:
    return [curve.highest_port_usd(metric, curve.curve.step_s(d)) for d in delays]


def _legend(
    lines: Sequence[tuple[int, str]], x: float, y: float, dashes: Sequence[str] = ()
) -> list[Markup]:
    parts = []
    for row, (number, words) in enumerate(lines):
        column, line = divmod(row, 6)
        at_x, at_y = x + 265 * column, y + 16 * line
        dash = dashes[row] if dashes else None
        parts.append(_stroke(f"M{at_x:.1f},{at_y:.1f}h26", number, dash))
        parts.append(tag("text", words, x=at_x + 32, y=at_y + 4, class_="note"))
    return parts


def _names(found: SwitchMap) -> list[Markup]:
    """Which mark is which switch."""
    parts, at = [], 0.0
    for row, product in enumerate(found.products):
        place = f"translate({at:.1f} 0) scale(.8)"
        parts.append(tag("path", d=MARKS[row], transform=place, class_="product"))
        parts.append(tag("text", product.title, x=at + 12, y=4, class_="note"))
        at += 26 + 5.7 * len(product.title)
    return parts
