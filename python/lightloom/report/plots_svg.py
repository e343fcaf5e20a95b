"""Parts of drawings: tags with escaped text, axes, colors and marks of fabrics.

Drawings are SVG and HTML by hand: they need no script, print sharply, and follow the reader's light
or dark theme, because every color is a variable of the style sheet (``templates/style.css``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup, escape

from lightloom.units import time_unit

#: x and y on a drawing
Place: TypeAlias = tuple[float, float]
#: the ends of a range of values
Ends: TypeAlias = tuple[float, float]
#: color of each built-in fabric, as a number of the palette in ``style.css``
KIND_COLORS = {
    **{"fat-tree": 0, "oversub": 1, "rail": 2, "topoopt": 3, "mixnet": 4, "chronos": 5},
    **{"rail-only": 6, "dual-plane": 7, "nvl72": 8, "mixnet-optical-io": 9},
    **{"rotornet": 10, "helios": 11, "x-nest-plus": 12, "torus": 13, "opera": 14},
}
#: colors of fabrics, and of what is no fabric
NUM_COLORS, NUM_SERIES = 15, 10
#: marks tell fabrics apart where colors cannot: SVG paths around the origin
MARKS = (
    "M-6,-6H6V6H-6Z",
    "M0,-7L7,5H-7Z",
    "M0,-7.5L7.5,0L0,7.5L-7.5,0Z",
    "M0,7L7,-5H-7Z",
    "M-6.5,0A6.5,6.5 0 1 0 6.5,0A6.5,6.5 0 1 0 -6.5,0Z",
    "M-2.2,-7H2.2V-2.2H7V2.2H2.2V7H-2.2V2.2H-7V-2.2H-2.2Z",
    "M7,0L-5,7V-7Z",
    "M-7,0L5,7V-7Z",
    "M-7,0L-3.5,-6H3.5L7,0L3.5,6H-3.5Z",
    "M0,-7L6.7,-2.2L4.1,5.7H-4.1L-6.7,-2.2Z",
    "M0,-8L2,-2L8,0L2,2L0,8L-2,2L-8,0L-2,-2Z",
    "M-6.5,-4L-4,-6.5L0,-2.5L4,-6.5L6.5,-4L2.5,0L6.5,4L4,6.5L0,2.5L-4,6.5L-6.5,4L-2.5,0Z",
    "M-6,-6H6L-6,6H6Z",
    "M-7,-2H-2V-7H7V2H2V7H-7Z",
    "M-7,-6H7L2,0L7,6H-7L-2,0Z",
)


def series_class(number: int) -> str:
    """Class of the style sheet that sets the color of what is no fabric, such as a run.

    Neighbors differ in hue, which two fabrics next to each other need not.
    """
    return f"series-{number % NUM_SERIES}"


def number(value: float) -> str:
    """Text of a coordinate: two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def tag(name: str, *children: str, **attributes: str | float) -> Markup:
    """One element; text and attributes are escaped, ``Markup`` is taken as it is.

    Attribute names lose a trailing underscore (``class_``); others become hyphens
    (``data_tip`` is ``data-tip``). Numbers are coordinates.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        text = escape(value) if isinstance(value, str) else number(value)
        parts.append(f' {key.rstrip("_").replace("_", "-")}="{text}"')
    inside = "".join(escape(child) for child in children)
    return Markup(f"{''.join(parts)}>{inside}</{name}>")


def join(parts: Iterable[str]) -> Markup:
    """Elements one after another; plain text among them is escaped."""
    return Markup("".join(escape(part) for part in parts))


def drawing(
    width: float, height: float, title: str, parts: Iterable[str], class_: str = ""
) -> Markup:
    """Return an SVG that fills the width it is given; ``title`` is read out to who cannot see."""
    return tag(
        "svg",
        *parts,
        viewBox=f"0 0 {number(width)} {number(height)}",
        class_=f"drawing {class_}".strip(),
        role="img",
        aria_label=title,
    )


def document(parts: Iterable[str], width: float, height: float, title: str) -> Markup:
    """Return an SVG that is a file of its own, of a fixed size."""
    return tag(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        aria_label=title,
    )


@dataclass(frozen=True)
class FabricStyle:
    """How one fabric looks in every plot of a page."""

    name: str
    color: int
    mark: str

    @property
    def class_(self) -> str:
        """Class of the style sheet that sets the color."""
        return f"fabric-{self.color}"

    def symbol(self) -> Markup:
        """Return the mark as a small drawing for tables and legends."""
        return tag(
            "svg",
            tag("path", d=self.mark, class_=f"{self.class_} mark"),
            viewBox="-8 -8 16 16",
            class_="symbol",
            aria_hidden="true",
        )


def fabric_styles(names_and_kinds: Sequence[tuple[str, str]]) -> dict[str, FabricStyle]:
    """Give each fabric a color and a mark.

    The first fabric of a built-in kind has that kind's color, so that colors agree between
    pages; further ones take what is free, and repeat after :data:`NUM_COLORS`.
    """
    chosen: dict[str, int] = {}
    for name, kind in names_and_kinds:
        color = KIND_COLORS.get(kind)
        if color is not None and color not in chosen.values():
            chosen[name] = color
    free = [c for c in range(NUM_COLORS) if c not in chosen.values()]
    # own fabrics rather look unlike any built-in kind
    free.sort(key=lambda color: color in KIND_COLORS.values())
    for name, _ in names_and_kinds:
        if name not in chosen:
            chosen[name] = free.pop(0) if free else len(chosen) % NUM_COLORS
    return {
        name: FabricStyle(name, chosen[name], MARKS[chosen[name] % len(MARKS)])
        for name, _ in names_and_kinds
    }


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from ``low`` to ``high``, about ``count`` of them, steps of 1, 2, 2.5 or 5."""
    assert high > low, f"an axis from {low} to {high}"
    raw = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def tick_text(value: float, values: Sequence[float]) -> str:
    """Text of a tick, with as many decimals as its neighbors need."""
    step = min((b - a for a, b in itertools.pairwise(values)), default=1.0)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    if abs(step * 10**decimals - round(step * 10**decimals)) > 1e-6:
        decimals += 1
    return f"{value:,.{decimals}f}"


@dataclass(frozen=True)
class Axis:
    """A linear axis from data to coordinates."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Coordinate of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def padded(values: Sequence[float], share: float = 0.12) -> Ends:
    """Range of the values with some room; never empty, never below 0 for positive values."""
    low, high = min(values), max(values)
    room = (high - low) * share or abs(high) * 0.1 or 1.0
    return (max(0.0, low - room) if low >= 0 else low - room), high + room


def decades(
    axis: Axis, few: float = 3.0, show: Callable[[float], str] = "{:g}".format
) -> list[tuple[float, str]]:
    """Powers of ten on a logarithmic axis, with 2 and 5 times them where they are ``few``."""
    factors = (1, 2, 5) if axis.high - axis.low < few else (1,)
    powers = range(math.floor(axis.low), math.ceil(axis.high) + 1)
    marks = [factor * 10.0**power for power in powers for factor in factors]
    return [(math.log10(m), show(m)) for m in marks if axis.low <= math.log10(m) <= axis.high]


def grid_lines(
    x: Axis,
    y: Axis,
    below: Sequence[tuple[float, str]] | None = None,
    left: Sequence[tuple[float, str]] | None = None,
) -> list[Markup]:
    """Lines at round numbers of both axes, and the numbers; ``below`` and ``left`` say others."""
    parts = []
    for value, text in _round_numbers(x) if below is None else below:
        at = x(value)
        parts.append(tag("line", x1=at, x2=at, y1=y.start, y2=y.end, class_="grid"))
        parts.append(tag("text", text, x=at, y=y.start + 20, text_anchor="middle", class_="tick"))
    for value, text in _round_numbers(y) if left is None else left:
        at = y(value)
        parts.append(tag("line", x1=x.start, x2=x.end, y1=at, y2=at, class_="grid"))
        parts.append(tag("text", text, x=x.start - 8, y=at + 4, text_anchor="end", class_="tick"))
    return parts


def _round_numbers(axis: Axis) -> list[tuple[float, str]]:
    values = ticks(axis.low, axis.high)
    return [(value, tick_text(value, values)) for value in values]


def axis_names(x: Axis, y: Axis, below: str, left: str) -> list[Markup]:
    """The axes, and what they are of."""
    middle = (y.start + y.end) / 2
    return [
        tag("line", x1=x.start, x2=x.end, y1=y.start, y2=y.start, class_="axis"),
        tag("line", x1=x.start, x2=x.start, y1=y.start, y2=y.end, class_="axis"),
        tag("text", below, x=(x.start + x.end) / 2, y=y.start + 46, text_anchor="middle"),
        tag("text", left, x=0.0, y=0.0, text_anchor="middle",
            transform=f"translate(18 {middle:.1f}) rotate(-90)"),
    ]  # fmt: skip


def time_axis(axis: Axis, height: float) -> list[Markup]:
    """Lines at round times over rows of a height, the times below, and their unit."""
    unit_s, unit = time_unit(axis.high)
    parts = numbered_lines(axis, (0.0, height), ticks(0.0, axis.high / unit_s, 8), unit_s)
    middle = (axis.start + axis.end) / 2
    parts.append(tag("text", f"time [{unit}]", x=middle, y=height + 36, text_anchor="middle"))
    return parts


def numbered_lines(
    axis: Axis, ends: Ends, numbers: Sequence[float], scale: float = 1.0
) -> list[Markup]:
    """Vertical lines from the top to the bottom at numbers times a scale, each with its number."""
    parts = []
    for value in numbers:
        at = axis(value * scale)
        parts.append(tag("line", x1=at, x2=at, y1=ends[0], y2=ends[1], class_="grid"))
        text = tick_text(value, numbers)
        parts.append(tag("text", text, x=at, y=ends[1] + 16, text_anchor="middle", class_="tick"))
    return parts
