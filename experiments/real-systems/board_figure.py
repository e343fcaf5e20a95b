"""Every run of the board as a mark: predicted over published speed, by class."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from drawing import COLORS, STYLE
from markupsafe import Markup
from rows import Run

from lightloom.report.plots_svg import document, tag

WIDTH, LEFT, RIGHT, TOP, ROW = 760.0, 120.0, 30.0, 56.0, 74.0
#: ratios at the ends of the axis, and those that are named
LOW, HIGH, NAMED = 0.7, 1.6, (0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 1.6)
CALIBRATE, TEST = COLORS[0], COLORS[1]


class Placed(Protocol):
    """What the figure needs of an entry."""

    run: Run
    predicted: float
    released: float

    @property
    def ratio(self) -> float:
        """Predicted over published."""


def _x(ratio: float) -> float:
    inside = min(max(ratio, LOW), HIGH)
    share = math.log(inside / LOW) / math.log(HIGH / LOW)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def figure(found: Sequence[Placed], spreads: Mapping[str, float]) -> str:
    """Text of the SVG."""
    groups = sorted(spreads)
    height = TOP + ROW * len(groups) + 60
    bottom = height - 60
    parts: list[Markup] = [
        tag("style", Markup(STYLE)),
        tag("text", "Predicted over published speed", x=20, y=26, class_="title"),
        tag("text", "calibrates", x=WIDTH - 230, y=26, fill=CALIBRATE),
        tag("text", "tests", x=WIDTH - 150, y=26, fill=TEST),
        tag("text", "line: since release", x=WIDTH - 110, y=26, class_="tick"),
    ]
    for ratio in NAMED:
        parts.append(tag("line", x1=_x(ratio), x2=_x(ratio), y1=TOP - 12, y2=bottom,
                         class_="axis" if ratio == 1 else "grid"))  # fmt: skip
        parts.append(tag("text", f"{ratio:g}", x=_x(ratio) - 9, y=bottom + 18, class_="tick"))
    for number, group in enumerate(groups):
        parts += _row(group, [e for e in found if e.run.group == group], spreads[group],
                      TOP + ROW * number)  # fmt: skip
    below = f"bar: 80 % interval; beyond {LOW:g} and {HIGH:g} at the edge"
    parts.append(tag("text", below, x=LEFT, y=bottom + 42, class_="tick"))
    return f"{document(parts, WIDTH, height, 'Predicted over published speed, by class')}\n"


def _row(group: str, own: Sequence[Placed], factor: float, top: float) -> list[Markup]:
    """A class: its name, interval and marks, each set on a line of its own."""
    parts = [
        tag("text", group, x=20, y=top + 30),
        tag("rect", x=_x(1 / factor), y=top + 4, width=_x(factor) - _x(1 / factor), height=46,
            fill="#7a7a7a", fill_opacity=0.18),
    ]  # fmt: skip
    for entry in own:
        is_test = entry.run.part == "test"
        y = top + (38 if is_test else 16)
        before = entry.released / entry.run.published
        if before and abs(before - entry.ratio) > 0.01:
            parts.append(tag("line", x1=_x(before), x2=_x(entry.ratio), y1=y, y2=y, class_="axis"))
        color = TEST if is_test else CALIBRATE
        mark = tag("circle", tag("title", f"{entry.run.name}: {entry.ratio:.2f}"),
                   cx=_x(entry.ratio), cy=y, r=4, fill=color, fill_opacity=0.7)  # fmt: skip
        parts.append(mark)
    return parts
