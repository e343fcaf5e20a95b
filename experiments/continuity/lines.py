"""The figure: a line per fabric, step over that of balanced load against imbalance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from lightloom.report.plots_svg import (
    KIND_COLORS,
    Axis,
    axis_names,
    document,
    grid_lines,
    padded,
    tag,
)

WIDTH, HEIGHT = 720.0, 420.0
LEFT, TOP, BOTTOM, RIGHT = 70.0, 56.0, 350.0, 110.0
#: room between names at the ends of lines
APART = 17.0
COLORS = ("#0072b2", "#56b4e9", "#009e73", "#cc79a7", "#d55e00")
TITLE = "A little imbalance makes a step a little longer"
STYLE = """
svg { font: 13px -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif;
  background: #fff; fill: #1b1f27; }
.title { font-size: 15px; font-weight: 600; } .tick { fill: #5c6470; font-size: 12px; }
.grid { stroke: #e3e1dc; } .axis { stroke: #8b929c; }
polyline { fill: none; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
  svg { background: #191d24; fill: #e7e9ec; } .tick { fill: #a9b0ba; } .grid { stroke: #2c323c; }
}
"""


def draw(imbalances: Sequence[float], lines: Mapping[str, Sequence[float]]) -> str:
    """Draw the lines of all fabrics.

    Parameters
    ----------
    imbalances
        Busiest rank over the mean, growing.
    lines
        Of each fabric, steps over that of balanced load.
    """
    x = Axis(imbalances[0], imbalances[-1], LEFT, WIDTH - RIGHT)
    y = Axis(*padded([value for line in lines.values() for value in line]), BOTTOM, TOP)
    parts = [tag("style", Markup(STYLE)), tag("text", TITLE, x=16.0, y=28.0, class_="title")]
    parts += grid_lines(x, y)
    parts += axis_names(x, y, "busiest EP rank / mean", "step / step of balanced load")
    lowest = TOP - APART
    for name, line in sorted(lines.items(), key=lambda item: -item[1][-1]):
        color = COLORS[KIND_COLORS.get(name, 0)]
        points = [f"{x(at):.1f},{y(value):.1f}" for at, value in zip(imbalances, line, strict=True)]
        parts.append(tag("polyline", points=" ".join(points), stroke=color))
        lowest = max(lowest + APART, y(line[-1]) + 4)
        parts.append(tag("text", name, x=x.end + 8, y=lowest, fill=color))
    label = f"{TITLE}; numbers are in experiments/continuity/table.md"
    return f"{document(parts, WIDTH, HEIGHT, label)}\n"
