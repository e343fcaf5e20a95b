"""A drawing of a trace: what each stream did when, or each group's calls in their order."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from lightloom.report.plots_svg import (
    NUM_COLORS,
    Axis,
    drawing,
    tag,
    time_axis,
)
from lightloom.trace.importers.imported import Imported
from lightloom.trace.importers.program import Span
from lightloom.trace.summary import bytes_of
from lightloom.trace.trace import Call
from lightloom.units import show_bytes, show_time

WIDTH, LEFT, ROW = 1100.0, 150.0, 24.0
#: ranks, streams of each, and bins of time or of calls that are drawn
MAX_RANKS, MAX_STREAMS, MAX_BINS = 4, 10, 700
_COMPUTE, _COPY = 0, 7


class TimelineBar(NamedTuple):
    """A part of a row that is drawn as one: from where to where, what it says, and how many."""

    start: float
    end: float
    words: str
    number: int


class TraceDrawing(NamedTuple):
    """A drawing, its height, and colors with what they are of."""

    svg: Markup
    height: float
    legend: list[tuple[int, str]]


def trace_drawing(imported: Imported) -> TraceDrawing:
    """Draw what streams did, or the order of calls where times are not known."""
    if imported.spans:
        return _streams(imported)
    return _order(imported)


def _streams(imported: Imported) -> TraceDrawing:
    colors: dict[str, int] = {"computation": _COMPUTE, "copies": _COPY}
    rows: list[tuple[str, dict[int, list[TimelineBar]]]] = []
    end = 0.0
    for rank, spans in list(imported.spans.items())[:MAX_RANKS]:
        end = max([end, *(span.start_s + span.duration_s for span in spans)])
        by_stream: dict[int, list[Span]] = defaultdict(list)
        for span in spans:
            by_stream[span.stream].append(span)
        busiest = sorted(by_stream, key=lambda s: -sum(span.duration_s for span in by_stream[s]))
        calls = imported.trace.ranks[rank].calls
        rows += [
            (f"rank {rank}, stream {stream}", _row(by_stream[stream], calls, colors))
            for stream in sorted(busiest[:MAX_STREAMS])
        ]
    end = end or 1.0
    axis = Axis(0.0, end, LEFT, WIDTH - 16)
    parts = _frame([name for name, _ in rows], axis)
    for place, (_, bars) in enumerate(rows):
        for color, several in bars.items():
            parts += _bars(_joined(several, end / MAX_BINS), axis, place * ROW, color)
    markup = drawing(WIDTH, len(rows) * ROW + 44, "What streams did when", parts, "schedule")
    used = {color for _, bars in rows for color in bars}
    legend = [(color, name) for name, color in colors.items() if color in used]
    return TraceDrawing(markup, len(rows) * ROW + 44, legend)


def _row(
    spans: Sequence[Span], calls: Sequence[Call], colors: dict[str, int]
) -> dict[int, list[TimelineBar]]:
    """Bars of a stream by color; `colors` gets those of operations that it has not yet."""
    bars: dict[int, list[TimelineBar]] = defaultdict(list)
    for s in spans:
        name = {"compute": "computation", "copy": "copies"}.get(s.kind)
        words = s.name[:80]
        if name is None:
            name = "communication" if s.call is None else calls[s.call].op
            if s.call is not None:
                call = calls[s.call]
                words = f"{call.op} of {call.group}, {show_bytes(bytes_of(call))}"
        if name not in colors:
            free = [color for color in range(NUM_COLORS) if color not in colors.values()]
            colors[name] = free[0] if free else NUM_COLORS - 1
        bars[colors[name]].append(TimelineBar(s.start_s, s.start_s + s.duration_s, words, 1))
    return bars


def _joined(bars: list[TimelineBar], width: float) -> list[TimelineBar]:
    """Bars that are so close that one could not see between them, as one."""
    merged: list[TimelineBar] = []
    for bar in sorted(bars):
        last = merged[-1] if merged else None
        if (
            last is not None and bar.start - last.end < width and bar.end - last.start < 40 * width
        ) or (last is not None and bar.end - last.start < width):
            end = max(last.end, bar.end)
            merged[-1] = TimelineBar(last.start, end, last.words, last.number + 1)
        else:
            merged.append(bar)
    return merged


def _bars(bars: list[TimelineBar], axis: Axis, top: float, color: int) -> list[Markup]:
    parts = []
    for bar in bars:
        more = f" and {bar.number - 1:,} more" if bar.number > 1 else ""
        tip = f"{bar.words}{more}: {show_time(bar.end - bar.start)} from {show_time(bar.start)}"
        first, last = axis(bar.start), axis(bar.end)
        parts.append(
            tag("rect", tag("title", tip), x=first, y=top + 3, width=max(last - first, 0.4),
                height=ROW - 6, class_=f"fabric-{color} mark flat")
        )  # fmt: skip
    return parts


def _frame(names: list[str], axis: Axis) -> list[Markup]:
    return [*_names(names, axis), *time_axis(axis, len(names) * ROW)]


def _names(names: list[str], axis: Axis) -> list[Markup]:
    parts = []
    for row, name in enumerate(names):
        top = row * ROW
        label = name if len(name) <= 22 else f"{name[:21]}…"
        parts.append(
            tag("rect", x=axis.start, y=top + 3, width=axis.end - axis.start, height=ROW - 6,
                class_="lane")
        )  # fmt: skip
        parts.append(
            tag("text", tag("title", name), label, x=LEFT - 8, y=top + 16, text_anchor="end",
                class_="tick")
        )  # fmt: skip
    return parts


def _order(imported: Imported) -> TraceDrawing:
    """Calls of the first rank from left to right; the higher, the more bytes."""
    rank = min(imported.trace.ranks)
    calls = imported.trace.ranks[rank].calls
    each = math.ceil(len(calls) / MAX_BINS) or 1
    volumes: dict[tuple[str, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for place, call in enumerate(calls):
        volumes[call.group, len(call.ranks)][place // each] += max(1, bytes_of(call))
    shown = sorted(volumes, key=lambda kind: (-sum(volumes[kind].values()), kind))[:MAX_STREAMS]
    sizes = [size for kind in shown for size in volumes[kind].values()]
    low, high = math.log(min(sizes, default=1)), math.log(max(sizes, default=1))
    axis = Axis(0.0, max(1.0, len(calls)), LEFT, WIDTH - 16)
    parts = _names([f"{group} ({size})" for group, size in shown], axis)
    for row, kind in enumerate(shown):
        for place, size in volumes[kind].items():
            share = (math.log(size) - low) / (high - low) if high > low else 1.0
            height = 3 + share * (ROW - 9)
            first, last = axis(place * each), axis(min(len(calls), (place + 1) * each))
            tip = f"{kind[0]}: {show_bytes(size)} in calls from {place * each:,} on"
            parts.append(
                tag("rect", tag("title", tip), x=first, y=(row + 1) * ROW - 3 - height,
                    width=max(last - first, 0.6), height=height,
                    class_=f"fabric-{row % NUM_COLORS} mark flat")
            )  # fmt: skip
    height = len(shown) * ROW
    middle = (axis.start + axis.end) / 2
    parts.append(
        tag("text", f"calls of rank {rank} in their order; height: bytes, logarithmic",
            x=middle, y=height + 22, text_anchor="middle")
    )  # fmt: skip
    drawn = drawing(WIDTH, height + 34, "Calls in their order", parts, "schedule")
    return TraceDrawing(drawn, height + 34, [])
