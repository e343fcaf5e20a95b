"""Plots of results: cost against speed, stacked bars, intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from markupsafe import Markup

from lightloom.cost import pareto_front
from lightloom.report.plots_svg import (
    Axis,
    Ends,
    FabricStyle,
    Place,
    axis_names,
    drawing,
    grid_lines,
    padded,
    tag,
    tick_text,
    ticks,
)
from lightloom.units import show_column


@dataclass(frozen=True)
class Point:
    """A fabric in a plot of cost (USD) against speed in a unit, with its interval."""

    style: FabricStyle
    cost_usd: float
    speed: float
    low: float
    high: float
    unit: str = "tokens/s"


def pareto(points: Sequence[Point], cost_of: str) -> Markup:
    """Cost against speed with intervals; fabrics that none beats are joined.

    Parameters
    ----------
    points
        One per fabric.
    cost_of
        What the cost is of, for the axis.
    """
    width, height = 520, 390
    unit, name = usd_unit(max(p.cost_usd for p in points))
    x = Axis(*padded([p.cost_usd / unit for p in points], 0.2), 74, width - 18)
    y_unit, y_name = speed_unit(points)
    y = Axis(*padded([v / y_unit for p in points for v in (p.low, p.high)], 0.1), height - 58, 16)
    parts = [*grid_lines(x, y), *axis_names(x, y, f"cost of {cost_of} [{name}]", y_name)]
    front = pareto_front([(p.cost_usd, p.speed) for p in points])
    corners = [(x(points[i].cost_usd / unit), y(points[i].speed / y_unit)) for i in front]
    parts.append(_steps(corners, x.end))
    placed: list[Place] = []
    for number, point in enumerate(points):
        at = (x(point.cost_usd / unit), y(point.speed / y_unit))
        ends = (y(point.low / y_unit), y(point.high / y_unit))
        parts += _point(point, at, ends, number in front)
        placed.append(at)
    for point, at in zip(points, placed, strict=True):
        parts.append(_label(point, at, placed, x))
    title = f"Tokens per second against cost of {cost_of}"
    return drawing(width, height, title, parts, "plot")


def usd_unit(largest: float) -> tuple[float, str]:
    """Unit of an axis of dollars, and its name."""
    return (1e6, "M$") if largest >= 1e6 else (1e3, "k$")


def speed_unit(points: Sequence[Point]) -> tuple[float, str]:
    """Unit of an axis of speeds, and its name."""
    largest, unit = max(p.high for p in points), points[0].unit
    if largest >= 1e6:
        return 1e6, f"million {unit}"
    return (1e3, f"thousand {unit}") if largest >= 1e4 else (1.0, unit)


def _steps(corners: Sequence[Place], end: float) -> Markup:
    """What money buys: speed rises only where the next fabric of the front can be paid."""
    path = [f"M{corners[0][0]:.1f},{corners[0][1]:.1f}"]
    for at_x, at_y in corners[1:]:
        path += [f"H{at_x:.1f}", f"V{at_y:.1f}"]
    path.append(f"H{end:.1f}")
    return tag("path", d="".join(path), class_="front")


def _point(point: Point, at: Place, ends: Ends, on_front: bool) -> list[Markup]:
    style = point.style
    tip = (
        f"{style.name}: {point.speed:,.0f} {point.unit} "
        f"({point.low:,.0f} to {point.high:,.0f}), ${point.cost_usd:,.0f}"
        f"{', on the Pareto front' if on_front else ''}"
    )
    bar = tag("line", x1=at[0], x2=at[0], y1=ends[0], y2=ends[1], class_=f"{style.class_} whisker")
    mark = tag(
        "path",
        d=style.mark,
        transform=f"translate({at[0]:.1f} {at[1]:.1f}) scale(1.15)",
        class_=f"{style.class_} mark",
        data_tip=tip,
    )
    return [bar, mark]


def _label(point: Point, at: Place, placed: Sequence[Place], x: Axis) -> Markup:
    """The name next to its mark, on the side where it crosses no other mark and no border."""
    wide = 8.2 * len(point.style.name)
    others = [other for other in placed if other != at]

    def crossings(side: int, rise: float) -> float:
        first = at[0] + (12 if side > 0 else -12 - wide)
        outside = 5.0 * (first < x.start or first + wide > x.end)
        return outside + sum(
            first - 10 < ox < first + wide + 10 and abs(at[1] + rise - oy) < 18 for ox, oy in others
        )

    choices = [(side, rise) for rise in (0.0, -18.0, 18.0) for side in (1, -1)]
    side, rise = min(choices, key=lambda choice: (crossings(*choice), choices.index(choice)))
    anchor = "start" if side > 0 else "end"
    return tag(
        "text",
        point.style.name,
        x=at[0] + 12 * side,
        y=at[1] + rise + 5,
        text_anchor=anchor,
        class_="name",
    )


@dataclass(frozen=True)
class Part:
    """One piece of a bar: its key (which is its color's class), its name, its value."""

    key: str
    name: str
    value: float
    text: str


@dataclass(frozen=True)
class Bar:
    """A stacked bar: widths in percent of the axis, so that it fits any screen."""

    label: str
    symbol: Markup
    total: str
    parts: tuple[tuple[Part, float], ...]
    note: str = ""
    #: positions in percent, such as the ends of an interval or a limit
    whisker: Ends | None = None


@dataclass(frozen=True)
class Bars:
    """Stacked bars on one axis, their legend and the axis' ticks (percent, text)."""

    unit: str
    bars: tuple[Bar, ...]
    legend: tuple[tuple[str, str], ...]
    ticks: tuple[tuple[float, str], ...]
    limit: tuple[float, str] | None = None


class BarRow(NamedTuple):
    """A bar before it is scaled: what is written beside it, its parts by key, and an interval."""

    label: str
    symbol: Markup
    values: Mapping[str, float]
    note: str
    interval: Ends | None


@dataclass
class BarsBuilder:
    """Collects bars, then scales all to the largest.

    ``names`` gives the order of the parts and their words; ``show`` turns a value into text and
    ``scale`` divides values into the axis' unit.
    """

    unit: str
    names: Mapping[str, str]
    show: Callable[[float], str]
    scale: float = 1.0
    rows: list[BarRow] = field(default_factory=list)

    def add(
        self,
        label: str,
        values: Mapping[str, float],
        *,
        symbol: Markup | None = None,
        note: str = "",
        interval: Ends | None = None,
    ) -> None:
        """Add a bar; ``values`` by key of ``names``, an interval in the same unit."""
        unknown = values.keys() - self.names.keys()
        assert not unknown, f"parts without a name: {unknown}"
        self.rows.append(BarRow(label, symbol or Markup(), values, note, interval))

    def build(self, limit: tuple[float, str] | None = None) -> Bars:
        """Scale everything to the longest bar, interval and limit."""
        ends = [sum(row.values.values()) for row in self.rows]
        ends += [row.interval[1] for row in self.rows if row.interval]
        top = max([*ends, limit[0] if limit else 0.0]) or 1.0
        present = [k for k in self.names if any(row.values.get(k) for row in self.rows)]
        bars = tuple(self._bar(row, present, top) for row in self.rows)
        marks = ticks(0.0, top / self.scale, 6)
        return Bars(
            unit=self.unit,
            bars=bars,
            legend=tuple((key, self.names[key]) for key in present),
            ticks=tuple((100 * v * self.scale / top, tick_text(v, marks)) for v in marks),
            limit=(100 * limit[0] / top, limit[1]) if limit else None,
        )

    def _bar(
        self,
        row: BarRow,
        present: Sequence[str],
        top: float,
    ) -> Bar:
        label, symbol, values, note, interval = row
        parts = tuple(
            (Part(key, self.names[key], values[key], self.show(values[key])),
             100 * values[key] / top)
            for key in present
            if values.get(key)
        )  # fmt: skip
        total = self.show(sum(values.values()))
        whisker = (100 * interval[0] / top, 100 * interval[1] / top) if interval else None
        return Bar(label, symbol, total, parts, note, whisker)


def interval_strip(
    low: float, middle: float, high: float, span: Ends, style: FabricStyle
) -> Markup:
    """A small mark with its interval on an axis that all rows of a table share."""
    axis = Axis(span[0], span[1], 6, 114)
    return drawing(
        120,
        16,
        " to ".join(show_column((low, high), 3)),
        [
            tag("line", x1=axis(low), x2=axis(high), y1=8, y2=8, class_=f"{style.class_} whisker"),
            tag("path", d=style.mark, transform=f"translate({axis(middle):.1f} 8) scale(.7)",
                class_=f"{style.class_} mark"),
        ],
        "strip",
    )  # fmt: skip
