"""A schedule and its circuits in a terminal, in characters that need no color.

One line per port, one sign per bin of time or per pair. More ports than :data:`MAX_ROWS` would
not fit a screen: who calls chooses the busiest.
"""

from __future__ import annotations

import string

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.text import Text

from lightloom.demand.shading import heat_map, shades_of
from lightloom.report.plots_svg import tick_text, ticks
from lightloom.study.scheduling.port_times import (
    DARK,
    IDLE,
    SEVERAL,
    PortTimes,
    largest_of_each_bin,
)
from lightloom.units import time_unit

#: maximum of drawn ports, and of destinations with a character each
MAX_ROWS = 32
CHARACTERS = string.digits + string.ascii_letters
_STATES = {IDLE: ".", DARK: "|", SEVERAL: "+"}
_COLORS = ("blue", "cyan", "green", "yellow", "magenta", "red")
_MARGIN = 6


def print_gantt(
    times: PortTimes, sources: npt.NDArray[np.int64], title: str, console: Console
) -> None:
    """Print ports x time: to whom each source sends, in bins as wide as one sign.

    ``sources`` are the names of the rows.
    """
    width = max(20, min(console.width, 120) - _MARGIN - 1)
    states = largest_of_each_bin(times, width)
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(Text(f"{'':{_MARGIN}}time [{time_unit(times.length_s)[1]}]"))
    console.print(Text(_scale(times.length_s, width)), no_wrap=True, crop=False)
    for source, row in zip(sources.tolist(), states.tolist(), strict=True):
        line = Text(f"{source:>{_MARGIN - 1}} ")
        for state in row:
            line.append(_sign(state), style=_style(state))
        console.print(line, no_wrap=True, crop=False)
    console.print(Text(_legend(states)), soft_wrap=True)


def _sign(state: int) -> str:
    return _STATES.get(state) or (CHARACTERS[state] if state < len(CHARACTERS) else "#")


def _style(state: int) -> str:
    if state < 0:
        return "dim" if state == IDLE else "bold"
    return _COLORS[state % len(_COLORS)]


def _scale(length_s: float, width: int) -> str:
    """Numbers above the columns where they are reached."""
    line = [" "] * (_MARGIN + width + 1)
    if length_s <= 0:
        return ""
    unit = time_unit(length_s)[0]
    marks = ticks(0.0, length_s / unit, 6)
    for value in marks:
        text = f"'{tick_text(value, marks)}"
        at = _MARGIN + round(value * unit / length_s * width)
        if at + len(text) <= len(line):
            line[at : at + len(text)] = text
    return "".join(line).rstrip()


def _legend(states: npt.NDArray[np.int64]) -> str:
    seen = set(np.unique(states).tolist())
    parts = ["rows: sources; characters: the destination of most of a column"]
    if max(seen) >= 10:
        parts.append("a is 10, A is 36" if max(seen) >= 36 else "a is 10")
    if max(seen) >= len(CHARACTERS):
        parts.append(f"# one of {len(CHARACTERS)} or above")
    if SEVERAL in seen:
        parts.append("+ several")
    if DARK in seen:
        parts.append("| reconfiguring")
    if IDLE in seen:
        parts.append(". idle")
    return "; ".join(parts)


def print_circuits(circuits: npt.NDArray[np.uint16], title: str, console: Console) -> None:
    """Print the number of circuits of each pair; shades where numbers do not fit."""
    n = len(circuits)
    console.print(Text(title, style="bold"), soft_wrap=True)
    cell = len(str(int(circuits.max(initial=0)))) + 1
    if n * cell + _MARGIN <= console.width and n <= 2 * MAX_ROWS:
        every = 1 if n <= 10 or cell > 2 else 5
        heads = "".join(
            f"{column:>{cell}}{'':{(every - 1) * cell}}" for column in range(0, n, every)
        )
        console.print(Text(f"{'':{_MARGIN}}{heads.rstrip()}"), no_wrap=True, crop=False)
        for row, counts in enumerate(circuits.tolist()):
            line = Text(f"{row:>{_MARGIN - 1}} ")
            for count in counts:
                line.append(f"{count or '.':>{cell}}", style="" if count else "dim")
            console.print(line, no_wrap=True, crop=False)
        return
    heat = heat_map(circuits, 2 * MAX_ROWS, min(console.width, 120) - _MARGIN)
    shades = shades_of(console.encoding)
    for row, levels in enumerate(heat.levels.tolist()):
        shown = "".join(shades[level] for level in levels)
        console.print(
            Text(f"{row * heat.rows_per_cell:>{_MARGIN - 1}} {shown}"), no_wrap=True, crop=False
        )
    console.print(
        Text(
            f"darkest: {heat.bounds[-1]:.0f} circuits in "
            f"{heat.rows_per_cell} x {heat.columns_per_cell} pairs"
        )
    )
