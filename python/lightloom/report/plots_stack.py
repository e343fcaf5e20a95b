"""A drawing of a stack of permutations: what each role's ports are held for, and who sends to whom.

Permutations are drawn as matrices of bins, source by destination, in the color of the group whose
calls set them; those that hold ports longest come first.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from lightloom.report.plots_svg import (
    NUM_COLORS,
    Axis,
    Place,
    drawing,
    numbered_lines,
    tag,
    ticks,
)
from lightloom.trace.algorithms import IDLE
from lightloom.trace.stack import PermutationStack, StackedCall

WIDTH, LEFT = 1100.0, 70.0
#: matrices, bins of a matrix and roles that are drawn
MAX_MATRICES, MAX_BINS, MAX_ROLES = 12, 64, 16
_CELL, _PITCH, _TOP, _ACROSS = 210.0, 268.0, 66.0, 4
_ROW = 24.0


def stack_drawing(stack: PermutationStack) -> tuple[Markup, float]:
    """The drawing, and its height."""
    volumes: dict[str, int] = defaultdict(int)
    for call in stack.calls:
        volumes[call.group] += call.calls * call.port_bytes
    names = sorted(volumes, key=lambda name: -volumes[name])
    color = {name: f"fabric-{index % NUM_COLORS} mark" for index, name in enumerate(names)}
    bars, top = _bars(stack, color)
    parts = [*bars, *_legend(names, color, top + 30)]
    top += 30 + 22 * -(-len(names[:NUM_COLORS]) // _columns(names))
    shown = _longest(stack)
    for index, calls in enumerate(shown):
        column, row = index % _ACROSS, index // _ACROSS
        place = (LEFT - 40 + column * _PITCH, top + row * (_CELL + _TOP))
        parts += _matrix(stack, calls, color[calls[0].group], place)
    height = top + -(-len(shown) // _ACROSS) * (_CELL + _TOP) + 6
    title = f"Permutations of a step of {stack.world_size:,} ranks"
    return drawing(WIDTH, height, title, parts), height


def _longest(stack: PermutationStack) -> list[list[StackedCall]]:
    """Calls of a group and an algorithm together, those that hold ports longest first."""
    calls_of: dict[tuple[str, str], list[StackedCall]] = defaultdict(list)
    for call in sorted(stack.calls, key=lambda one: -one.calls * one.port_bytes):
        calls_of[call.group, call.algorithm].append(call)
    return list(calls_of.values())[:MAX_MATRICES]


def _bars(stack: PermutationStack, color: dict[str, str]) -> tuple[list[Markup], float]:
    """For each role, the bytes that its ports are held for, by group."""
    totals: list[dict[str, int]] = []
    for sequence in stack.sequences[:MAX_ROLES]:
        by_group: dict[str, int] = defaultdict(int)
        for index, count in zip(*np.unique(sequence, return_counts=True), strict=True):
            call = stack.calls[index]
            by_group[call.group] += int(count) * call.port_bytes
        totals.append(by_group)
    longest = max((sum(volumes.values()) for volumes in totals), default=0) or 1
    axis = Axis(0.0, longest / 1e6, LEFT, WIDTH - 20)
    height = 34 + len(totals) * _ROW
    parts = [tag("text", "What a port is held for, role by role", x=LEFT, y=18.0)]
    parts += numbered_lines(axis, (28.0, height), ticks(0.0, axis.high, 6))
    parts.append(tag("text", "[MB]", x=WIDTH - 4, y=height + 16, text_anchor="end", class_="tick"))
    for role, by_group in enumerate(totals):
        start, top = 0.0, 30 + role * _ROW
        parts.append(
            tag("text", f"role {role}", x=LEFT - 8, y=top + 15, text_anchor="end", class_="tick")
        )
        for name, size in sorted(by_group.items(), key=lambda one: -one[1]):
            ends = axis(start), axis(start + size / 1e6)
            tip = tag("title", f"role {role}, {name}: {size / 1e6:,.3f} MB")
            parts.append(
                tag("rect", tip, x=ends[0], y=top, width=max(ends[1] - ends[0], 0.3),
                    height=_ROW - 5, class_=color[name])
            )  # fmt: skip
            start += size / 1e6
    return parts, height + 20


def _columns(names: list[str]) -> int:
    """Keys of the legend."""
    return 2 if max(map(len, names), default=0) > 32 else 3


def _legend(names: list[str], color: dict[str, str], top: float) -> list[Markup]:
    parts, columns = [], _columns(names)
    for index, name in enumerate(names[:NUM_COLORS]):
        left, at = LEFT + index % columns * 1020 / columns, top + index // columns * 22
        parts.append(tag("rect", x=left, y=at - 11, width=14.0, height=14.0, class_=color[name]))
        parts.append(tag("text", name, x=left + 22, y=at, class_="tick"))
    return parts


def _matrix(
    stack: PermutationStack, calls: list[StackedCall], class_: str, place: Place
) -> list[Markup]:
    """The permutations of calls together, in bins."""
    left, top = place[0] + 26, place[1] + 40
    rows = {i for call in calls for block in call.blocks for i in block.permutations}
    counts = _binned(stack.permutations[sorted(rows)])
    cell = _CELL / len(counts)
    largest = max(call.slots for call in calls)
    slots = "1 slot" if largest == 1 else f"{largest:,} slots"
    name = calls[0].group
    name = name if len(name) <= 28 else f"{name[:26]}..."
    roles = sorted({role for call in calls for role in call.roles})
    parts = [
        tag("text", name, x=left, y=top - 24),
        tag("text", f"{calls[0].algorithm}, {slots} a call, {_roles(roles)}", x=left, y=top - 8,
            class_="tick"),
        tag("rect", x=left, y=top, width=_CELL, height=_CELL, fill="none", class_="grid"),
    ]  # fmt: skip
    fullest = counts.max()
    for source, destination in np.argwhere(counts).tolist():
        number = int(counts[source, destination])
        opacity = 0.35 + 0.65 * number / fullest
        # a bin is drawn a little larger than it is where there are many, so that lines can be seen
        size = max(cell, 2.4)
        parts.append(
            tag("rect", x=left + destination * cell, y=top + source * cell, width=size,
                height=size, class_=class_, opacity=opacity)
        )  # fmt: skip
    last = f"{stack.world_size - 1:,}"
    parts.append(tag("text", "0", x=left - 5, y=top + 10, text_anchor="end", class_="tick"))
    parts.append(tag("text", last, x=left + _CELL, y=top + _CELL + 15, text_anchor="end",
                     class_="tick"))  # fmt: skip
    parts.append(tag("text", "to rank", x=left, y=top + _CELL + 15, class_="tick"))
    middle = top + _CELL / 2
    parts.append(tag("text", "from rank", x=0.0, y=0.0, text_anchor="middle", class_="tick",
                     transform=f"translate({left - 8:.1f} {middle:.1f}) rotate(-90)"))  # fmt: skip
    return parts


def _roles(roles: list[int]) -> str:
    return f"role {roles[0]}" if len(roles) == 1 else f"roles {roles[0]} to {roles[-1]}"


def _binned(permutations: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Circuits from bin to bin, ``(bins, bins)``."""
    ranks = permutations.shape[1]
    bins = min(ranks, MAX_BINS)
    _, source = np.nonzero(permutations != IDLE)
    destination = permutations[permutations != IDLE].astype(np.int64)
    pair = source * bins // ranks * bins + destination * bins // ranks
    return np.bincount(pair, minlength=bins * bins).reshape(bins, bins)
