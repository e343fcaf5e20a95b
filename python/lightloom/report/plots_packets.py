"""Drawings of a packet simulation: completions, slowdowns, queues and links over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from lightloom.packets import PacketRun, QueueSamples
from lightloom.report.plots_svg import (
    Axis,
    axis_names,
    decades,
    drawing,
    grid_lines,
    padded,
    series_class,
    tag,
)
from lightloom.units import show_bytes, time_unit

#: points of a line and marks of a cloud at most
_MAX = 1500
#: links that are drawn one by one
MOST_LINKS = 5
#: periods of their lines: rates of single packets hide those of others
_MOST_PERIODS = 300
_WIDTH, _WIDE, _HEIGHT = 520.0, 1100.0, 330.0
Numbers = npt.NDArray[np.float64]


def distribution(runs: Sequence[Numbers], name: str) -> Markup:
    """Share of flows that are done after a time, for each of some runs: a step per flow."""
    unit_s, unit = time_unit(max(float(values.max()) for values in runs))
    return _steps([values / unit_s for values in runs], f"{name} [{unit}]")


def slowdown_distribution(runs: Sequence[Numbers]) -> Markup:
    """Share of flows whose slowdown is at most so much, for each of some runs."""
    return _steps(runs, "slowdown")


def slowdowns(values: Numbers, sizes: npt.NDArray[np.int64]) -> Markup:
    """Slowdown of each flow by its size; as a distribution where all are of one size."""
    if sizes.min() == sizes.max():
        return slowdown_distribution([values])
    kept = _thinned(values)
    x = _log_axis(sizes)
    y = Axis(*padded([1.0, float(values.max())], 0.06), _HEIGHT - 58, 16)
    parts = [
        *grid_lines(x, y, decades(x, 2.0, _size)),
        *axis_names(x, y, "size of the flow", "slowdown"),
        *(
            tag("circle", cx=x(math.log10(sizes[flow])), cy=y(float(values[flow])), r=2.4,
                class_="dot", data_tip=f"{show_bytes(int(sizes[flow]))}: {values[flow]:.3f}")
            for flow in kept
        ),
    ]  # fmt: skip
    return drawing(_WIDTH, _HEIGHT, "Slowdown against size", parts, "plot")


def queues(samples: QueueSamples, layers: Sequence[str]) -> Markup:
    """The longest queue of each layer over time."""
    largest = float(samples.max_queue_bytes.max(initial=0))
    scale, unit = (1e6, "MB") if largest >= 1e6 else (1e3, "kB")
    values = samples.max_queue_bytes / scale
    return _over_time(samples, values, layers, f"longest queue [{unit}]")


def utilization(samples: QueueSamples, layers: Sequence[str]) -> Markup:
    """The mean utilization of the links of each layer over time."""
    return _over_time(samples, 100 * samples.mean_utilization, layers, "mean utilization [%]")


@dataclass(frozen=True)
class LinkSeries:
    """A link over time, in periods of one length: rates and longest queues, ``(periods,)``."""

    name: str
    period_s: float
    gbps: Numbers
    queue_bytes: Numbers


def busiest_series(run: PacketRun, count: int = MOST_LINKS) -> list[LinkSeries]:
    """The links that carried most, those with the longest queue first among equals.

    Where there are more periods than a plot shows, several are one: rates are means, queues maxima.
    """
    series, links = run.series, run.links
    if series is None or not len(series.number):
        return []
    period_s = float((series.end_s - series.begin_s).max())
    order = np.lexsort(
        (-links.peak_queue_bytes.astype(np.int64), -links.sent_bytes.astype(np.int64))
    )
    periods = round(float(series.begin_s.max()) / period_s) + 1
    merged = -(-periods // _MOST_PERIODS)
    size = -(-periods // merged) * merged
    found = []
    for link in order[:count].tolist():
        mine = ~series.is_flow & (series.number == link)
        place = np.rint(series.begin_s[mine] / period_s).astype(np.int64)
        carried, queue = np.zeros(size), np.zeros(size)
        np.add.at(carried, place, series.carried_bytes[mine])
        np.maximum.at(queue, place, series.max_queue_bytes[mine])
        ends = (run.nodes[node] for node in (links.source[link], links.destination[link]))
        found.append(
            LinkSeries(
                " to ".join(ends),
                merged * period_s,
                carried.reshape(-1, merged).mean(axis=1) * 8e-9 / period_s,
                queue.reshape(-1, merged).max(axis=1),
            )
        )
    return found


def link_rates(series: Sequence[LinkSeries]) -> Markup:
    """What came out of each link over time."""
    return _lines(series, [one.gbps for one in series], "rate [Gb/s]")


def link_queues(series: Sequence[LinkSeries]) -> Markup:
    """The longest queue of each link over time."""
    largest = max(float(one.queue_bytes.max()) for one in series)
    scale, unit = (1e6, "MB") if largest >= 1e6 else (1e3, "kB")
    return _lines(series, [one.queue_bytes / scale for one in series], f"queue [{unit}]")


def _lines(series: Sequence[LinkSeries], values: Sequence[Numbers], left: str) -> Markup:
    end_s = max(one.period_s * len(one.gbps) for one in series)
    unit_s, unit = time_unit(end_s)
    x = Axis(0.0, end_s / unit_s, 74, _WIDE - 18)
    y = Axis(0.0, max(1e-3, *(float(one.max()) for one in values)) * 1.05, _HEIGHT - 58, 16)
    parts = [*grid_lines(x, y), *axis_names(x, y, f"time [{unit}]", left)]
    for number, (one, heights) in enumerate(zip(series, values, strict=True)):
        middles = (np.arange(len(heights)) + 0.5) * one.period_s / unit_s
        points = zip(middles.tolist(), heights.tolist(), strict=True)
        path = "L".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
        line = tag("path", d=f"M{path}", class_=f"line {series_class(number)}", data_tip=one.name)
        parts.append(line)
    return drawing(_WIDE, _HEIGHT, f"{left} of single links over time", parts, "plot")


def legend(layers: Sequence[str]) -> list[tuple[str, str]]:
    """Class of the style sheet and name of each layer."""
    return [(series_class(number), name) for number, name in enumerate(layers)]


def _steps(runs: Sequence[Numbers], below: str) -> Markup:
    ends = [float(end) for values in runs for end in (values.min(), values.max())]
    x = Axis(*padded([min(ends), max(ends)], 0.04), 74, _WIDTH - 18)
    y = Axis(0.0, 100.0, _HEIGHT - 58, 16)
    lines = [
        tag("path", d=_step_path(values, x, y), class_=f"line {series_class(number)}")
        for number, values in enumerate(runs)
    ]
    parts = [*grid_lines(x, y), *axis_names(x, y, below, "flows [%]"), *lines]
    return drawing(_WIDTH, _HEIGHT, f"Distribution: {below}", parts, "plot")


def _step_path(values: Numbers, x: Axis, y: Axis) -> str:
    ordered = np.sort(values)
    shares = 100 * np.arange(1, len(ordered) + 1) / len(ordered)
    steps = (
        f"H{x(float(ordered[place])):.1f}V{y(float(shares[place])):.1f}"
        for place in _thinned(ordered)
    )
    return "".join((f"M{x(float(ordered[0])):.1f},{y.start:.1f}", *steps))


def _over_time(samples: QueueSamples, values: Numbers, layers: Sequence[str], left: str) -> Markup:
    unit_s, unit = time_unit(float(samples.end_s.max()))
    x = Axis(0.0, float(samples.end_s.max()) / unit_s, 74, _WIDE - 18)
    y = Axis(0.0, max(float(values.max()), 1e-3) * 1.05, _HEIGHT - 58, 16)
    parts = [*grid_lines(x, y), *axis_names(x, y, f"time [{unit}]", left)]
    for number, name in enumerate(layers):
        in_layer = samples.layer == number
        points = zip(
            ((samples.begin_s + samples.end_s)[in_layer] / 2 / unit_s).tolist(),
            values[in_layer].tolist(),
            strict=True,
        )
        path = "L".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
        line = tag("path", d=f"M{path}", class_=f"line {series_class(number)}", data_tip=name)
        parts.append(line)
    return drawing(_WIDE, _HEIGHT, f"{left} over time", parts, "plot")


def _thinned(values: Numbers) -> list[int]:
    """Places of at most :data:`_MOST` values, the last and the greatest among them."""
    places = np.unique(np.linspace(0, len(values) - 1, min(len(values), _MAX)).round())
    return sorted({*places.astype(int).tolist(), int(np.argmax(values))})


def _log_axis(sizes: npt.NDArray[np.int64]) -> Axis:
    low, high = math.log10(sizes.min()), math.log10(sizes.max())
    room = max(0.05, (high - low) * 0.05)
    return Axis(low - room, high + room, 74, _WIDTH - 18)


def _size(size_bytes: float) -> str:
    return show_bytes(round(size_bytes), 3)
