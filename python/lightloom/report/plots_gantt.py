"""Drawings of time: the passes of a whole step, and a window of it in detail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from lightloom.report.plots_circuits import circuits_text
from lightloom.report.plots_svg import Axis, drawing, tag, tick_text, ticks
from lightloom.report.spans import ALONGSIDE, OWN, CircuitSpans, Passes, Spans, passes
from lightloom.units import show_time

WIDTH, LEFT, ROW = 1100.0, 84.0, 30.0
#: rectangles of one detailed window at most, and the least number of pixels drawn
MAX_SPANS, MIN_PIXELS = 2500, 0.15


def step_drawing(spans: Spans, stages: Mapping[int, int], step_s: float) -> Markup:
    """One row per pipeline stage, one block per pass of a micro-batch: the shape of 1F1B.

    Parameters
    ----------
    spans
        Recorded spans.
    stages
        Stage of each recorded worker.
    step_s
        Step time.
    """
    axis = Axis(0.0, step_s, LEFT, WIDTH - 10)
    parts = _time_axis(axis, len(stages) * ROW, 1.0, "s")
    for row, (worker, stage) in enumerate(sorted(stages.items(), key=lambda item: item[1])):
        top = row * ROW + 3
        mine = spans.take((spans.worker == worker) & (spans.stream == OWN))
        parts.append(_row_name(f"stage {stage}", top))
        parts += _outside(mine, axis, top)
        parts += _pass_blocks(passes(mine), axis, top)
    height = len(stages) * ROW + 44
    return drawing(WIDTH, height, "Passes of micro-batches on every stage", parts, "gantt")


def _row_name(text: str, top: float) -> Markup:
    return tag("text", text, x=LEFT - 10, y=top + 17, text_anchor="end", class_="tick")


def _time_axis(axis: Axis, height: float, unit: float, name: str) -> list[Markup]:
    marks = ticks(axis.low / unit, axis.high / unit, 8)
    parts = []
    for value in marks:
        at = axis(value * unit)
        parts.append(tag("line", x1=at, x2=at, y1=0.0, y2=height, class_="grid"))
        text = tick_text(value, marks)
        parts.append(tag("text", text, x=at, y=height + 16, text_anchor="middle", class_="tick"))
    text = f"time in the step [{name}]"
    middle = (axis.start + axis.end) / 2
    return [*parts, tag("text", text, x=middle, y=height + 36, text_anchor="middle")]


def _outside(mine: Spans, axis: Axis, top: float) -> list[Markup]:
    """Work outside micro-batches, such as reductions and the optimizer, in its own colors."""
    late = mine.take(mine.micro_batch < 0)
    names = late.category_names()
    return [
        _rectangle(axis, top, 24.0, (start, end), f"cat-{name}",
                   f"{name}: {show_time(end - start)}")
        for name, start, end in zip(names, late.start_s.tolist(), late.end_s.tolist(), strict=True)
        if name != "bubble" and axis(end - start) - axis(0.0) > MIN_PIXELS
    ]  # fmt: skip


def _pass_blocks(found: Passes, axis: Axis, top: float) -> list[Markup]:
    parts = []
    columns = (found.micro_batch, found.backward, found.start_s, found.end_s)
    for micro_batch, backward, start, end in zip(*(c.tolist() for c in columns), strict=True):
        direction = "backward" if backward else "forward"
        took = f"{show_time(end - start)}, from {show_time(start)}"
        tip = f"micro-batch {micro_batch}, {direction}: {took}"
        shade = " odd" if micro_batch % 2 else ""
        parts.append(_rectangle(axis, top, 24.0, (start, end), f"pass {direction}{shade}", tip))
        first, last = axis(start), axis(end)
        if last - first > 6.2 * len(str(micro_batch)) + 1:
            parts.append(
                tag("text", str(micro_batch), x=(first + last) / 2, y=top + 16,
                    text_anchor="middle", class_="inside")
            )  # fmt: skip
    return parts


def _rectangle(
    axis: Axis, top: float, height: float, span: tuple[float, float], class_: str, tip: str
) -> Markup:
    """A span of seconds, cut to the axis."""
    first = axis(max(axis.low, span[0]))
    last = axis(min(axis.high, span[1]))
    return tag(
        "rect", x=first, y=top, width=max(last - first, 0.2), height=height, class_=class_,
        data_tip=tip,
    )  # fmt: skip


@dataclass(frozen=True)
class TimeWindow:
    """A part of the step."""

    start_s: float
    end_s: float


def choose_window(spans: Spans, stages: Mapping[int, int]) -> TimeWindow | None:
    """Find a forward and a backward pass of the middle stage, where all stages are busy.

    It shrinks until at most :data:`MAX_SPANS` spans lie in it.

    Returns
    -------
    TimeWindow or None
        None if no worker was recorded.
    """
    if not stages or not len(spans):
        return None
    by_stage = sorted(stages, key=lambda worker: stages[worker])
    middle = by_stage[len(by_stage) // 2]
    found = passes(spans.take(spans.worker == middle))
    if not len(found.start_s):
        return TimeWindow(float(spans.start_s.min()), float(spans.end_s.max()))
    backward = np.flatnonzero(found.backward)
    last = int(backward[len(backward) // 2]) if len(backward) else len(found.start_s) - 1
    first = max(0, last - 1)
    start, end = float(found.start_s[first]), float(found.end_s[last])
    while len(spans.within(start, end)) > MAX_SPANS:
        end = (start + end) / 2
    return TimeWindow(start, end)


def detail_drawing(
    spans: Spans, stages: Mapping[int, int], window: TimeWindow, words: Mapping[str, str]
) -> Markup:
    """Draw every span of a window by category; what runs alongside is the thin row below.

    Parameters
    ----------
    spans, stages
        As for :func:`step_drawing`.
    window
        What to draw.
    words
        Category in words.
    """
    axis = Axis(window.start_s, window.end_s, LEFT, WIDTH - 10)
    rows = sorted(stages.items(), key=lambda item: item[1])
    parts = _time_axis(axis, len(rows) * ROW, 1e-3, "ms")
    inside = spans.within(window.start_s, window.end_s)
    for row, (worker, stage) in enumerate(rows):
        top = row * ROW + 3
        parts.append(_row_name(f"stage {stage}", top))
        mine = inside.take(inside.worker == worker)
        for stream, height, shift in ((OWN, 17.0, 0.0), (ALONGSIDE, 6.0, 18.0)):
            chosen = mine.take(mine.stream == stream)
            parts += _spans(chosen, axis, (top + shift, height), words)
    height = len(rows) * ROW + 44
    return drawing(WIDTH, height, "Spans of every stage in a part of the step", parts, "gantt")


def _spans(
    chosen: Spans, axis: Axis, place: tuple[float, float], words: Mapping[str, str]
) -> list[Markup]:
    parts = []
    columns = (chosen.start_s, chosen.end_s, chosen.layer, chosen.micro_batch)
    rows = zip(chosen.category_names(), *(c.tolist() for c in columns), strict=True)
    for name, start, end, layer, micro_batch in rows:
        if end - start < (axis.high - axis.low) * MIN_PIXELS / WIDTH:
            continue
        where = [f"layer {layer}"] if layer >= 0 else []
        where += [f"micro-batch {micro_batch}"] if micro_batch >= 0 else []
        took = show_time(end - start)
        tip = f"{words.get(name, name)}: {took}" + (f" ({', '.join(where)})" if where else "")
        parts.append(_rectangle(axis, place[0], place[1], (start, end), f"cat-{name}", tip))
    return parts


def circuit_drawing(
    circuits: CircuitSpans, pairs: Sequence[tuple[int, int]], window: TimeWindow, class_: str
) -> Markup:
    """One row per pair of servers: when it had circuits, darker the more; gaps are dark fiber.

    Parameters
    ----------
    circuits
        When circuits were up.
    pairs
        Pairs to draw, one row each.
    window
        What to draw.
    class_
        Class of the fabric, for the color.
    """
    axis = Axis(window.start_s, window.end_s, LEFT, WIDTH - 10)
    row_height = 13.0
    parts = _time_axis(axis, len(pairs) * row_height, 1e-3, "ms")
    inside = circuits.within(window.start_s, window.end_s)
    maximum = max(1, int(inside.count.max())) if len(inside) else 1
    rows = {pair: row for row, pair in enumerate(pairs)}
    for (a, b), row in rows.items():
        text = tag("text", f"{a} - {b}", x=LEFT - 10, y=row * row_height + 10, text_anchor="end",
                   class_="tick small")  # fmt: skip
        parts.append(text)
    columns = (inside.a, inside.b, inside.count, inside.up_s, inside.down_s)
    for a, b, count, up, down in zip(*(c.tolist() for c in columns), strict=True):
        if (a, b) not in rows:
            continue
        tip = f"servers {a} - {b}: {circuits_text(count)} up for {show_time(down - up)}"
        rectangle = _rectangle(axis, rows[a, b] * row_height + 1.5, 10.0, (up, down),
                               f"{class_} mark flat", tip)  # fmt: skip
        parts.append(tag("g", rectangle, opacity=0.25 + 0.75 * count / maximum))
    height = len(pairs) * row_height + 44
    return drawing(WIDTH, height, "Circuits that were up in this part of the step", parts, "gantt")
