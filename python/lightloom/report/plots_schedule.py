"""Drawings of a schedule: ports x time, in the colors of the sources' partners."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from lightloom.report.plots_svg import (
    Axis,
    Ends,
    document,
    drawing,
    tag,
    time_axis,
)
from lightloom.study.scheduling.port_times import DARK, SEVERAL, PortTimes, largest_of_each_bin
from lightloom.units import show_time

WIDTH, LEFT, ROW = 1100.0, 64.0, 22.0
#: sources and rectangles drawn at most
MAX_SOURCES, MAX_SPANS = 64, 6000
_BINS = 500
#: light colors that can be told apart, also by who sees few of them: Tol, "Color Schemes"
#: (2021), scheme "light"; then the same darker. Numbers tell apart what shares a color
PALETTE = (
    (119, 170, 221), (238, 136, 102), (238, 221, 136), (255, 170, 187), (153, 221, 255),
    (68, 187, 153), (187, 204, 51), (170, 170, 0),
)  # fmt: skip
SHADES = (1.0, 0.8)

#: a drawing that stands alone brings its own colors, for the reader's light or dark setting
STYLE = """
svg { font: 13px -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif;
  background: #fff; fill: #1b1f27; }
.tick { font-size: 12px; fill: #5c6470; } .inside { font-size: 11px; fill: #10131a; }
.title { font-size: 16px; font-weight: 600; } .note { font-size: 12px; fill: #5c6470; }
.grid { stroke: #e3e1dc; } .lane { fill: #f1efea; } .dark { fill: #882255; }
.several { fill: #8b929c; }
@media (prefers-color-scheme: dark) {
  svg { background: #191d24; fill: #e7e9ec; } .tick, .note { fill: #a9b0ba; }
  .grid { stroke: #2c323c; } .lane { fill: #232831; } .dark { fill: #c2568f; }
}
"""


@dataclass(frozen=True)
class Gantt:
    """A drawing of a schedule, not yet in a frame.

    Attributes
    ----------
    parts
        Elements, ``width`` x ``height`` in all.
    legend
        Class and words of what is no destination.
    """

    parts: list[Markup]
    width: float
    height: float
    legend: list[tuple[str, str]]

    def drawing(self, title: str) -> Markup:
        """As a part of a page; ``title`` is read out."""
        return drawing(self.width, self.height, title, self.parts, "schedule")


def gantt(times: PortTimes, sources: npt.NDArray[np.int64]) -> Gantt:
    """Draw to whom each source sends when.

    Parameters
    ----------
    times
        The spans; joined, or taken bin by bin where there are more than :data:`MAX_SPANS`, or a
        source has several ports, whose spans overlap.
    sources
        Names of the rows.
    """
    joined = times.joined()
    binned = len(joined.source) > MAX_SPANS or times.ports > 1
    shown = _by_bins(times) if binned else joined
    axis = Axis(0.0, times.length_s or 1.0, LEFT, WIDTH - 12)
    height = len(sources) * ROW
    parts = _frame(axis, sources, height)
    columns = (shown.source, shown.destination, shown.start_s, shown.end_s)
    for row, destination, start, end in zip(*(c.tolist() for c in columns), strict=True):
        parts += _span(axis, (row * ROW + 2, int(sources[row])), destination, (start, end))
    legend = [("dark", "reconfiguring")] if (shown.destination == DARK).any() else []
    if binned:
        legend.append(("several", f"several destinations in {show_time(times.length_s / _BINS)}"))
    return Gantt(parts, WIDTH, height + 44, legend)


def _by_bins(times: PortTimes) -> PortTimes:
    states = largest_of_each_bin(times, _BINS)
    row, place = np.nonzero((states >= 0) | (states == DARK) | (states == SEVERAL))
    edges = np.linspace(0.0, times.length_s, _BINS + 1)
    binned = PortTimes(
        row, states[row, place], edges[place], edges[place + 1], times.sources, times.length_s
    )
    return binned.joined()


def _frame(axis: Axis, sources: npt.NDArray[np.int64], height: float) -> list[Markup]:
    parts = []
    for row, source in enumerate(sources.tolist()):
        top = row * ROW
        parts.append(
            tag("rect", x=axis.start, y=top + 2, width=axis.end - axis.start, height=ROW - 4,
                class_="lane")
        )  # fmt: skip
        parts.append(
            tag("text", str(source), x=LEFT - 10, y=top + 15, text_anchor="end", class_="tick")
        )
    parts += time_axis(axis, height)
    parts.append(
        tag("text", "source", x=0.0, y=0.0, text_anchor="middle", class_="tick",
            transform=f"translate(14 {height / 2:.1f}) rotate(-90)")
    )  # fmt: skip
    return parts


def _span(axis: Axis, place: tuple[float, int], destination: int, span: Ends) -> list[Markup]:
    top, source = place
    first, last = axis(span[0]), axis(span[1])
    if destination == DARK:
        what, look = "reconfiguring", {"class_": "dark"}
    elif destination == SEVERAL:
        what, look = "sends to several", {"class_": "several"}
    else:
        what, look = f"sends to {destination}", {"fill": color(destination)}
    tip = f"{source} {what}: {show_time(span[1] - span[0])} from {show_time(span[0])}"
    width = max(last - first, 0.3)
    parts = [tag("rect", tag("title", tip), x=first, y=top, width=width, height=ROW - 4, **look)]
    if destination >= 0 and width > 7.0 * len(str(destination)) + 2:
        parts.append(
            tag("text", str(destination), x=(first + last) / 2, y=top + 13,
                text_anchor="middle", class_="inside")
        )  # fmt: skip
    return parts


def color(destination: int) -> str:
    """A light color for a destination, on which dark numbers can be read in either theme."""
    red, green, blue = PALETTE[destination % len(PALETTE)]
    shade = SHADES[destination // len(PALETTE) % len(SHADES)]
    return f"#{round(red * shade):02x}{round(green * shade):02x}{round(blue * shade):02x}"


def standalone(chart: Gantt, title: str, note: str) -> str:
    """A drawing as a file of its own, with a title above and a line below."""
    keys = [f"{'dark' if name == 'dark' else 'gray'}: {text}" for name, text in chart.legend]
    below = "; ".join([note, "numbers: destinations", *keys])
    height = chart.height + 76
    parts = [
        tag("style", Markup(STYLE)),
        tag("text", title, x=16.0, y=28.0, class_="title"),
        tag("g", *chart.parts, transform="translate(0 44)"),
        tag("text", below, x=16.0, y=height - 12, class_="note"),
    ]
    return str(document(parts, chart.width, height, title))
