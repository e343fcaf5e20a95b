"""Figures of experiments: a line per name over numbers or over named cases, as an SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from results import ROOT

from lightloom.report.plots_svg import Axis, axis_names, decades, document, grid_lines, padded, tag

WIDTH, HEIGHT = 760.0, 420.0
LEFT, TOP, BOTTOM, RIGHT = 78.0, 56.0, 350.0, 190.0
#: room between names at the ends of lines
APART = 16.0
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d31", "#56b4e9", "#7a7a7a")
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


@dataclass(frozen=True)
class Line:
    """A name and its values, one for each position; ``None`` where it has none.

    Lines of one color belong together; dashes tell what was published or only assumed.
    """

    name: str
    values: Sequence[float | None]
    color: int = 0
    is_dashed: bool = False


@dataclass(frozen=True)
class Figure:
    """Lines over the same positions, which are numbers, or names of cases side by side."""

    title: str
    below: str
    left: str
    positions: Sequence[float] | Sequence[str]
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False

    def svg(self, folder: Path) -> str:
        """Text of a file that stands beside the table of a folder."""
        at, below = self._across()
        values = [v for line in self.lines for v in line.values if v is not None]
        up = [math.log10(value) for value in values] if self.log_y else values
        x = Axis(*padded(at, 0.04) if len(at) > 1 else (0.0, 1.0), LEFT, WIDTH - RIGHT)
        y = Axis(*padded(up), BOTTOM, TOP)
        left = decades(y) if self.log_y else None
        parts = [
            tag("style", Markup(STYLE)),
            tag("text", self.title, x=16.0, y=28.0, class_="title"),
        ]
        parts += grid_lines(x, y, below, left)
        parts += axis_names(x, y, self.below, self.left)
        ends = []
        for line in self.lines:
            points = [
                (x(place), y(math.log10(value) if self.log_y else value))
                for place, value in zip(at, line.values, strict=True)
                if value is not None
            ]
            parts += _drawn(line, points)
            ends.append((points[-1][1], line))
        parts += _names(x.end + 8, ends)
        source = (folder / "table.md").relative_to(ROOT)
        return f"{document(parts, WIDTH, HEIGHT, f'{self.title}; numbers are in {source}')}\n"

    def beside(self, folder: Path, text: str, *, fast: bool) -> dict[Path, str]:
        """The files of a folder: the table with this text, and the drawing unless it is fast."""
        files = {folder / "table.md": text}
        return files if fast else {**files, folder / "figure.svg": self.svg(folder)}

    def _across(self) -> tuple[list[float], list[tuple[float, str]] | None]:
        """Places of the positions on the axis, and what it says there."""
        if any(isinstance(position, str) for position in self.positions):
            names = [str(position) for position in self.positions]
            return [float(n) for n in range(len(names))], list(enumerate(names))
        numbers = [float(position) for position in self.positions]
        if not self.log_x:
            return numbers, None
        at = [math.log10(number) for number in numbers]
        return at, decades(Axis(*padded(at, 0.04), LEFT, WIDTH - RIGHT))


def _drawn(line: Line, points: Sequence[tuple[float, float]]) -> list[Markup]:
    color = COLORS[line.color % len(COLORS)]
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
    dashes = "6 4" if line.is_dashed else ""
    marks = [tag("circle", cx=px, cy=py, r=2.8, fill=color) for px, py in points]
    return [tag("polyline", points=path, stroke=color, stroke_dasharray=dashes), *marks]


def _names(at: float, ends: Sequence[tuple[float, Line]]) -> list[Markup]:
    """Names at the ends of lines, moved apart where they would overlap, all above the axis."""
    parts = []
    lowest = TOP - APART
    room = BOTTOM - APART * (len(ends) - 1)
    for place, (end, line) in enumerate(sorted(ends, key=lambda item: item[0])):
        lowest = max(min(end + 4, room + APART * place), lowest + APART)
        color = COLORS[line.color % len(COLORS)]
        parts.append(tag("text", line.name, x=at, y=lowest, fill=color))
    return parts
