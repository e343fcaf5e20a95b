"""The figure: one panel per regime, length over bound against delay, both logarithmic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from lightloom.report.plots_svg import Axis, document, tag

WIDTH, HEIGHT = 1100.0, 468.0
LEFT, TOP, BOTTOM, GAP, RIGHT = 62.0, 104.0, 396.0, 40.0, 128.0
LIMIT = 20.0
TICKS = (1, 1.2, 1.5, 2, 3, 5, 10, 20)
#: what is best is drawn strongly; dashes tell lines apart without color
LOOKS = {
    "critical": ("a", ""),
    "partial": ("b", ""),
    "round-robin": ("c", ""),
    "bvn": ("d", "6 4"),
    "threshold": ("e", "2 3"),
    "open-shop": ("f", "10 3 2 3"),
}
WORDS = {"partial": "open-shop, partial"}
STYLE = """
svg { font: 13px -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif;
  background: #fff; fill: #1b1f27; }
.title { font-size: 15px; font-weight: 600; } .soft { fill: #5c6470; font-size: 12px; }
.grid { stroke: #e3e1dc; } .mark { stroke: #8b929c; stroke-dasharray: 2 4; }
polyline { fill: none; stroke-width: 2; } .strong { stroke-width: 3.4; }
polyline.a { stroke: #0072b2; } text.a { fill: #0072b2; } polyline.b { stroke: #009e73; }
text.b { fill: #00805d; } polyline.c { stroke: #d55e00; } text.c { fill: #c05500; }
polyline.d { stroke: #cc79a7; } text.d { fill: #a8527f; } polyline.e { stroke: #8c6d31; }
text.e { fill: #8c6d31; } polyline.f { stroke: #7a7a7a; } text.f { fill: #6a6a6a; }
@media (prefers-color-scheme: dark) {
  svg { background: #191d24; fill: #e7e9ec; } .soft { fill: #a9b0ba; } .grid { stroke: #2c323c; }
  polyline.a { stroke: #56b4e9; } text.a { fill: #56b4e9; } text.b { fill: #2cc295; }
  text.c { fill: #f07b2e; } text.d { fill: #dd92ba; } text.e, text.f { fill: #c8c3b6; }
  polyline.e { stroke: #c2a063; }
}
"""


def draw(
    ratios: Sequence[float],
    methods: Sequence[str],
    panels: Mapping[str, npt.NDArray[np.float64]],
    marks: Sequence[tuple[float, str]],
    note: str,
) -> str:
    """Draw the panels side by side.

    Parameters
    ----------
    ratios
        Delays over line time, growing.
    methods
        Names of the lines.
    panels
        Title and ``(ratios, methods)`` lengths over bound.
    marks
        Ratios to mark, with a word each.
    note
        Below everything.
    """
    width = (WIDTH - LEFT - RIGHT - GAP * (len(panels) - 1)) / len(panels)
    title = "How long a schedule of permutations is, by method and reconfiguration delay"
    parts = [tag("style", Markup(STYLE)), tag("text", title, x=16.0, y=28.0, class_="title")]
    parts.append(tag("text", note, x=16.0, y=HEIGHT - 6, class_="soft"))
    y = Axis(0.0, math.log10(LIMIT), BOTTOM, TOP)
    for number, (name, lengths) in enumerate(panels.items()):
        start = LEFT + number * (width + GAP)
        x = Axis(math.log10(ratios[0]), math.log10(ratios[-1]), start, start + width)
        parts.append(tag("text", name, x=start, y=TOP - 40))
        parts += _frame(x, y, marks, first=number == 0)
        parts += [_line(x, y, ratios, lengths[:, c], m) for c, m in enumerate(methods)]
        if number == len(panels) - 1:
            parts += _names(x.end + 8, y, methods, lengths[-1])
    middle = (LEFT + WIDTH - RIGHT) / 2
    below = "reconfiguration delay / line time (busiest port without delays)"
    parts.append(tag("text", below, x=middle, y=BOTTOM + 44, text_anchor="middle"))
    left = "length / lower bound"
    parts.append(
        tag("text", left, x=0.0, y=0.0, text_anchor="middle",
            transform=f"translate(16 {(TOP + BOTTOM) / 2:.0f}) rotate(-90)")
    )  # fmt: skip
    label = f"{title}; numbers are in experiments/schedule-methods/table.md"
    return f"{document(parts, WIDTH, HEIGHT, label)}\n"


def _frame(x: Axis, y: Axis, marks: Sequence[tuple[float, str]], *, first: bool) -> list[Markup]:
    parts = []
    for value in TICKS:
        at = y(math.log10(value))
        parts.append(tag("line", x1=x.start, x2=x.end, y1=at, y2=at, class_="grid"))
        if first:
            parts.append(
                tag("text", f"{value:g}", x=x.start - 8, y=at + 4, text_anchor="end", class_="soft")
            )
    for power in range(math.ceil(x.low - 1e-9), math.floor(x.high + 1e-9) + 1):
        at = x(power)
        parts.append(tag("line", x1=at, x2=at, y1=y.start, y2=y.end, class_="grid"))
        text = f"{10.0**power:g}".replace("e-0", "e-")
        parts.append(tag("text", text, x=at, y=y.start + 20, text_anchor="middle", class_="soft"))
    for ratio, word in marks:
        at = x(math.log10(ratio))
        parts.append(tag("line", x1=at, x2=at, y1=y.start, y2=y.end - 8, class_="mark"))
        parts.append(tag("text", word, x=at, y=y.end - 13, text_anchor="middle", class_="soft"))
    return parts


def _line(
    x: Axis, y: Axis, ratios: Sequence[float], lengths: npt.NDArray[np.float64], method: str
) -> Markup:
    class_, dashes = LOOKS[method]
    points = " ".join(
        f"{x(math.log10(ratio)):.1f},{y(math.log10(min(value, LIMIT))):.1f}"
        for ratio, value in zip(ratios, lengths.tolist(), strict=True)
    )
    strong = " strong" if not dashes else ""
    return tag("polyline", points=points, class_=f"{class_}{strong}", stroke_dasharray=dashes)


def _names(
    at: float, y: Axis, methods: Sequence[str], lengths: npt.NDArray[np.float64]
) -> list[Markup]:
    """Names at the ends of the lines, moved apart where they would overlap."""
    order = np.argsort(-lengths, kind="stable")
    parts, lowest = [], y.end - 20
    ends = {
        m: y(math.log10(min(v, LIMIT))) + 4 for m, v in zip(methods, lengths.tolist(), strict=True)
    }
    room = y.start - 16 * (len(methods) - 1)
    for place, column in enumerate(order.tolist()):
        method = methods[column]
        lowest = max(min(ends[method], room + 16 * place), lowest + 16)
        text = WORDS.get(method, method)
        parts.append(tag("text", text, x=at, y=lowest, class_=LOOKS[method][0]))
    return parts
