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
    """Spans of the recorded workers, one entry per span, sorted by start.

    ``waited_s`` is the first part of a span, in which its worker waited for the others of a
    collective.
    """

    worker: Ints
    stream: Ints
    start_s: Seconds
    end_s: Seconds
    waited_s: Seconds
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
        waited_s=timeline.waited_s,
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
