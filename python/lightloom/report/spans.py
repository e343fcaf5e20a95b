"""Recorded spans of workers and circuits as arrays, whatever draws or exports them.

Times are seconds since the start of the step; layers and micro-batches that do not apply are -1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.simulate import Run
from lightloom.workload.task_graph import NONE

Ints = npt.NDArray[np.int64]
Seconds = npt.NDArray[np.float64]

#: streams of a worker: its own tasks and waits, and what runs alongside
OWN, ALONGSIDE = 0, 1


@dataclass(frozen=True)
class Spans:
    """Spans of the recorded workers, one entry per span, sorted by start."""

    worker: Ints
    stream: Ints
    start_s: Seconds
    end_s: Seconds
    category: npt.NDArray[np.str_]
    layer: Ints
    micro_batch: Ints

    def __len__(self) -> int:
        """Number of spans."""
        return len(self.start_s)

    def take(self, chosen: npt.NDArray[Any]) -> Spans:
        """The spans that a mask or an array of numbers chooses."""
        return Spans(**{name: getattr(self, name)[chosen] for name in self.__dataclass_fields__})

    def within(self, start_s: float, end_s: float) -> Spans:
        """The spans that lie in a part of the step, at least in part."""
        return self.take((self.start_s < end_s) & (self.end_s > start_s))

    def category_names(self) -> list[str]:
        """Category of each span, as in results."""
        return [str(name) for name in self.category]


@dataclass(frozen=True)
class CircuitSpans:
    """When circuits between two servers were up: ``count`` of them in parallel."""

    a: Ints
    b: Ints
    count: Ints
    up_s: Seconds
    down_s: Seconds

    def __len__(self) -> int:
        """Number of spans."""
        return len(self.up_s)

    def take(self, chosen: npt.NDArray[Any]) -> CircuitSpans:
        """The spans that a mask or an array of numbers chooses."""
        return CircuitSpans(
            **{name: getattr(self, name)[chosen] for name in self.__dataclass_fields__}
        )

    def within(self, start_s: float, end_s: float) -> CircuitSpans:
        """The spans that lie in a part of the step, at least in part."""
        return self.take((self.up_s < end_s) & (self.down_s > start_s))

    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of servers that were ever connected, ascending."""
        return sorted(set(zip(self.a.tolist(), self.b.tolist(), strict=True)))


def _ints(values: npt.NDArray[Any]) -> Ints:
    return np.asarray(values).astype(np.int64)


def worker_spans(run: Run) -> Spans:
    """Spans of a run's timeline; empty if none was kept."""
    timeline = run.timeline
    layer, micro_batch = _ints(timeline.layer), _ints(timeline.micro_batch)
    spans = Spans(
        worker=_ints(timeline.worker),
        stream=_ints(timeline.stream),
        start_s=timeline.start_s,
        end_s=timeline.end_s,
        category=np.array(timeline.categories, dtype=np.str_)[_ints(timeline.category)],
        layer=np.where(layer == NONE, -1, layer),
        micro_batch=np.where(micro_batch == NONE, -1, micro_batch),
    )
    return spans.take(np.lexsort((spans.stream, spans.worker, spans.start_s)))


def circuit_spans(run: Run) -> CircuitSpans:
    """Spans of a run's circuits; empty if there were none. ``a`` is the lower server."""
    timeline = run.circuit_timeline
    ends = _ints(timeline.server_a), _ints(timeline.server_b)
    spans = CircuitSpans(
        a=np.minimum(*ends),
        b=np.maximum(*ends),
        count=_ints(timeline.count),
        up_s=timeline.up_s,
        down_s=timeline.down_s,
    )
    return spans.take(np.lexsort((spans.b, spans.a, spans.up_s)))


@dataclass(frozen=True)
class Passes:
    """Forward and backward passes of one worker: micro-batch, direction, first and last instant."""

    micro_batch: Ints
    backward: npt.NDArray[np.bool_]
    start_s: Seconds
    end_s: Seconds


def passes(spans: Spans) -> Passes:
    """Join one worker's own spans into passes of micro-batches.

    A pass ends where the micro-batch changes, or where a layer is entered again that was left
    before: the layers of backward are those of forward. Spans outside micro-batches (optimizer,
    reductions) and pipeline waits belong to no pass.
    """
    waits = np.isin(spans.category, ("bubble", "pp"))
    own = spans.take((spans.stream == OWN) & (spans.micro_batch >= 0) & ~waits)
    left: set[tuple[int, int]] = set()
    found: list[tuple[int, bool]] = []
    starts: list[float] = []
    ends: list[float] = []
    layer_now: tuple[int, int] | None = None
    columns = (own.micro_batch, own.layer, own.start_s, own.end_s)
    for micro_batch, layer, start, end in zip(*(c.tolist() for c in columns), strict=True):
        here = (micro_batch, layer)
        again = layer >= 0 and here != layer_now and here in left
        if layer_now is not None and here != layer_now:
            left.add(layer_now)
        layer_now = here
        if not found or found[-1][0] != micro_batch or (again and not found[-1][1]):
            found.append((micro_batch, again))
            starts.append(start)
            ends.append(end)
        ends[-1] = max(ends[-1], end)
    return Passes(
        np.array([micro_batch for micro_batch, _ in found], dtype=np.int64),
        np.array([backward for _, backward in found], dtype=bool),
        np.array(starts),
        np.array(ends),
    )
