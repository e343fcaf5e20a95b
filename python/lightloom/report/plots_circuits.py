"""Drawings of demand and circuits: matrices, and servers around a circle."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt
from markupsafe import Markup

from lightloom.demand import heat_map
from lightloom.report.plots_svg import Place, drawing, tag

#: servers up to which matrices are drawn entry by entry, and up to which each has its value
MAX_CELLS, MAX_VALUES = 64, 16
#: width and height of a matrix, and of the space for the names of its rows and columns
EDGE, MARGIN = 360.0, 34.0


def matrix_drawing(
    matrix: npt.NDArray[Any],
    labels: Sequence[str],
    show: Callable[[float], str],
    title: str,
    class_: str = "heat",
) -> Markup:
    """Draw a matrix as shades from nothing to its maximum, row by row (row sends to column).

    Parameters
    ----------
    matrix
        ``(n, n)`` non-negative values; neighbors are added where n exceeds :data:`MAX_CELLS`.
    labels
        Names of rows and columns.
    show
        Text of a value.
    title
        Read out, and begins every tip.
    class_
        Class of the cells: their color.
    """
    parts = matrix_parts(matrix, labels, show, class_)
    return drawing(EDGE + MARGIN + 4, EDGE + MARGIN + 4, title, parts, "matrix")


def matrix_parts(
    matrix: npt.NDArray[Any],
    labels: Sequence[str],
    show: Callable[[float], str],
    class_: str,
    *,
    empty: bool = True,
) -> list[Markup]:
    """Elements of a matrix, ``EDGE + MARGIN`` wide and high; cells of nothing where ``empty``."""
    shaded = heat_map(matrix, MAX_CELLS, MAX_CELLS)
    values, step = shaded.values, shaded.rows_per_cell
    n, top = len(values), max(1, int(values.max()))
    cell = EDGE / n
    parts = []
    for row in range(n):
        for column in range(n):
            value = int(values[row, column])
            if not value and not empty:
                continue
            at = (MARGIN + column * cell, MARGIN + row * cell)
            tip = f"{_names(labels, row, step)} to {_names(labels, column, step)}: {show(value)}"
            parts.append(
                tag("rect", x=at[0], y=at[1], width=cell, height=cell, class_=class_,
                    fill_opacity=value / top, data_tip=tip)
            )  # fmt: skip
            if n <= MAX_VALUES and value:
                share = value / top
                strong = " strong" if share > 0.8 else " middle" if share > 0.5 else ""
                parts.append(
                    tag("text", _short(show(value)), x=at[0] + cell / 2, y=at[1] + cell / 2 + 4,
                        text_anchor="middle", class_=f"cell{strong}", font_size=min(13, cell / 3.2))
                )  # fmt: skip
    parts.append(tag("rect", x=MARGIN, y=MARGIN, width=EDGE, height=EDGE, class_="frame"))
    return parts + _edge_labels(labels, n, step, cell, MARGIN)


def _short(text: str) -> str:
    """Leave the unit out, which the caption has."""
    return text.split(maxsplit=1)[0]


def _names(labels: Sequence[str], cell: int, step: int) -> str:
    chosen = labels[cell * step : (cell + 1) * step]
    return chosen[0] if len(chosen) == 1 else f"{chosen[0]}-{chosen[-1]}"


def _edge_labels(
    labels: Sequence[str], n: int, step: int, cell: float, margin: float
) -> list[Markup]:
    every = max(1, math.ceil(n / 12))
    parts = []
    for index in range(0, n, every):
        middle = margin + (index + 0.5) * cell
        text = labels[index * step]
        parts.append(tag("text", text, x=middle, y=margin - 8, text_anchor="middle", class_="tick"))
        parts.append(
            tag("text", text, x=margin - 8, y=middle + 4, text_anchor="end", class_="tick")
        )
    return parts


def circuits_text(count: float) -> str:
    """Text of a number of circuits."""
    return f"{count:.0f} circuit{'' if count == 1 else 's'}"


def chord_drawing(
    circuits: npt.NDArray[Any], labels: Sequence[str], title: str, class_: str, size: float = 380.0
) -> Markup:
    """Draw servers around a circle and circuits as chords, as wide as their number.

    Parameters
    ----------
    circuits
        ``(n, n)`` symmetric numbers of parallel circuits.
    labels
        Names of the servers.
    title
        Read out.
    class_
        Class of the fabric, for the color.
    size
        Width and height of the drawing.
    """
    n, middle = len(circuits), size / 2
    radius = middle - 34
    at = [
        (
            middle + radius * math.sin(2 * math.pi * i / n),
            middle - radius * math.cos(2 * math.pi * i / n),
        )
        for i in range(n)
    ]
    widest = max(1, int(circuits.max()))
    unit = min(3.2, 14 / widest) if n <= 32 else 1.0
    parts = []
    for a in range(n):
        for b in range(a + 1, n):
            count = int(circuits[a, b])
            if count:
                tip = f"servers {labels[a]} - {labels[b]}: {circuits_text(count)}"
                chord = _chord(at[a], at[b], middle, count * unit, class_)
                parts.append(tag("g", chord, data_tip=tip))
    for index, (x, y) in enumerate(at):
        parts += _server(index, (x, y), middle, radius, labels, int(circuits[index].sum()))
    return drawing(size, size, title, parts, "chords")


def _chord(a: Place, b: Place, middle: float, width: float, class_: str) -> Markup:
    """A curve that bends towards the center, the more the farther its ends are apart."""
    pull = 0.55
    control = (
        (a[0] + b[0]) / 2 * (1 - pull) + middle * pull,
        (a[1] + b[1]) / 2 * (1 - pull) + middle * pull,
    )
    path = f"M{a[0]:.1f},{a[1]:.1f}Q{control[0]:.1f},{control[1]:.1f} {b[0]:.1f},{b[1]:.1f}"
    return tag("path", d=path, class_=f"{class_} chord", stroke_width=width)


def _server(
    index: int,
    at: Place,
    middle: float,
    radius: float,
    labels: Sequence[str],
    circuits: int,
) -> list[Markup]:
    n = len(labels)
    small = n > 32
    dot = tag("circle", cx=at[0], cy=at[1], r=2.5 if small else 8.0, class_="server",
              data_tip=f"server {labels[index]}: {circuits_text(circuits)}")  # fmt: skip
    every = max(1, math.ceil(n / 32))
    if index % every:
        return [dot]
    stretch = (radius + (14 if small else 21)) / radius
    x, y = middle + (at[0] - middle) * stretch, middle + (at[1] - middle) * stretch
    text = tag("text", labels[index], x=x, y=y + 4, text_anchor="middle", class_="tick")
    return [dot, text]
