"""Where the time of recorded steps went: computation, communication, what of it was exposed.

Times of a kind are those in which at least one stream does it. *Exposed* is communication while no
kernel computes; copies of memory are no computation. Bandwidths are those of NCCL's tests
(``doc/PERFORMANCE.md`` of NVIDIA/nccl-tests): the algorithm bandwidth is the size over the time,
the bus bandwidth what a link has to carry for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom.trace.importers.program import Span
from lightloom.trace.trace import Trace

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class StepTimes:
    """Where the time of one rank went in one step.

    Attributes
    ----------
    rank, step
        Whose, and the number of the step.
    length_s
        From the first to the last end of a kernel.
    compute_s, communication_s, copy_s
        Time in which at least one stream does it.
    exposed_s
        Communication while nothing computes.
    idle_s
        Time in which no stream does anything.
    """

    rank: int
    step: int
    length_s: float
    compute_s: float
    communication_s: float
    copy_s: float
    exposed_s: float
    idle_s: float

    @property
    def overlap(self) -> float:
        """Share of communication that computation hides; 1 where nothing is communicated."""
        return 1 - self.exposed_s / self.communication_s if self.communication_s else 1.0


@dataclass(frozen=True)
class CollectiveTimes:
    """Calls of one kind of one rank.

    Attributes
    ----------
    rank, group, group_size, op
        What kind of calls, of which rank.
    calls
        How many.
    duration_s
        Of all of them.
    exposed_s
        Of it, while nothing computes; what is exposed by two calls at once counts for both.
    size_bytes
        Of all of them, as NCCL's tests count: the larger one of what goes in and comes out; 0 where
        it is not known.
    bus_factor
        By which the algorithm bandwidth becomes the bus bandwidth.
    """

    rank: int
    group: str
    group_size: int
    op: str
    calls: int
    duration_s: float
    exposed_s: float
    size_bytes: int
    bus_factor: float

    @property
    def algorithm_gbps(self) -> float:
        """Bits of the size per time."""
        return self.size_bytes * 8e-9 / self.duration_s if self.duration_s else 0.0

    @property
    def bus_gbps(self) -> float:
        """Bits that a link has to carry, per time."""
        return self.algorithm_gbps * self.bus_factor


def union(starts: Floats, ends: Floats) -> Floats:
    """Intervals joined where they overlap or touch, ``(number, 2)``, in order."""
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.ones(len(starts), dtype=bool)
    first[1:] = starts[1:] > reach[:-1]
    last = np.append(first[1:], True)[: len(starts)]
    return np.stack([starts[first], reach[last]], axis=1)


def length(intervals: Floats) -> float:
    """Of intervals that do not overlap."""
    return float((intervals[:, 1] - intervals[:, 0]).sum())


def covered(intervals: Floats, starts: Floats, ends: Floats) -> Floats:
    """How much of each span from a start to an end lies in joined intervals."""
    if not len(intervals):
        return np.zeros(len(starts))
    before = np.concatenate([[0.0], np.cumsum(intervals[:, 1] - intervals[:, 0])])

    def until(at: Floats) -> Floats:
        place = np.searchsorted(intervals[:, 0], at, side="right") - 1
        inside = np.minimum(at, intervals[place, 1]) - intervals[place, 0]
        covered_s: Floats = np.where(place < 0, 0.0, before[place] + inside)
        return covered_s

    return until(ends) - until(starts)


def _bounds(spans: Sequence[Span]) -> tuple[Floats, Floats]:
    starts = np.array([span.start_s for span in spans])
    return starts, starts + np.array([span.duration_s for span in spans])


def times_of(rank: int, step: int, spans: Sequence[Span]) -> StepTimes:
    """Where the time went that spans of one rank cover."""
    by_kind = {
        kind: union(*_bounds([span for span in spans if span.kind == kind]))
        for kind in ("compute", "communication", "copy")
    }
    everything = union(*_bounds(spans))
    hidden = covered(by_kind["compute"], *by_kind["communication"].T).sum()
    communication_s = length(by_kind["communication"])
    length_s = float(everything[-1, 1] - everything[0, 0]) if len(everything) else 0.0
    return StepTimes(
        rank, step, length_s, length(by_kind["compute"]), communication_s,
        length(by_kind["copy"]), max(0.0, communication_s - float(hidden)),
        max(0.0, length_s - length(everything)),
    )  # fmt: skip


def step_times(spans: Mapping[int, Sequence[Span]]) -> list[StepTimes]:
    """Where the time of each step of each rank went, by rank and step."""
    times = []
    for rank, of_rank in sorted(spans.items()):
        by_step: dict[int, list[Span]] = defaultdict(list)
        for span in of_rank:
            by_step[span.step].append(span)
        times += [times_of(rank, step, inside) for step, inside in sorted(by_step.items())]
    return times


def bus_factor(op: str, ranks: int) -> float:
    """What a link carries of an operation of so many ranks, over its size."""
    if op == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if op in ("all_gather", "reduce_scatter", "all_to_all") else 1.0


def collective_times(trace: Trace, spans: Mapping[int, Sequence[Span]]) -> list[CollectiveTimes]:
    """Times of calls by rank, group and operation; the longest first, rank by rank."""
    times = []
    for rank, of_rank in sorted(spans.items()):
        calls = trace.ranks[rank].calls
        timed = [span for span in of_rank if span.call is not None]
        starts, ends = _bounds(timed)
        computing = union(*_bounds([span for span in of_rank if span.kind == "compute"]))
        exposed = ends - starts - covered(computing, starts, ends)
        kinds: dict[tuple[str, int, str], list[int]] = defaultdict(list)
        sizes = []
        for place, span in enumerate(timed):
            assert span.call is not None
            call = calls[span.call]
            sizes.append(max(call.input_bytes, call.output_bytes))
            kinds[call.group, len(call.ranks), call.op].append(place)
        rows = [
            CollectiveTimes(
                rank, group, size, op, len(places), float((ends - starts)[places].sum()),
                float(exposed[places].sum()),
                sum(sizes[place] for place in places),
                bus_factor(op, size),
            )
            for (group, size, op), places in kinds.items()
        ]  # fmt: skip
        times += sorted(rows, key=lambda row: (-row.duration_s, row.group, row.op))
    return times
