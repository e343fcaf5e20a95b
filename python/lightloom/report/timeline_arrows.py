"""Arrows and counters of a timeline: what hands over to what, and how much there is at a time.

A micro-batch goes from pass to pass over the stages; a decision leads to the circuits that come up
with it. Counters are the circuits that are up, and the bytes that are on their way, by purpose.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lightloom.report.passes import passes
from lightloom.report.spans import CircuitSpans, Spans
from lightloom.simulate import BytesInFlight

#: instants closer than this are the same, seconds
SAME_INSTANT_S = 1e-9


@dataclass(frozen=True)
class Handover:
    """The end of a pass of a micro-batch, and the beginning of its next one on another worker."""

    micro_batch: int
    backward: bool
    worker: int
    end_s: float
    next_worker: int
    start_s: float


def handovers(spans: Spans) -> Iterator[Handover]:
    """Yield what recorded workers hand to each other, micro-batch by micro-batch.

    Forward and backward passes of a micro-batch follow each other in the order of time. Where they
    overlap, as with the halves of a batch, nothing is said.
    """
    by_batch: dict[tuple[int, bool], list[tuple[float, float, int]]] = {}
    for worker in np.unique(spans.worker).tolist():
        worked = passes(spans.take(spans.worker == worker))
        rows = (worked.micro_batch, worked.backward, worked.start_s, worked.end_s)
        for number, backward, start, end in zip(*(r.tolist() for r in rows), strict=True):
            by_batch.setdefault((number, backward), []).append((start, end, worker))
    for (number, backward), ends in sorted(by_batch.items()):
        ends.sort()
        for (_, end, worker), (start, _, other) in itertools.pairwise(ends):
            if worker != other and end <= start + SAME_INSTANT_S:
                yield Handover(number, backward, worker, end, other, start)


def circuits_up(circuits: CircuitSpans) -> list[tuple[float, int]]:
    """When the number of circuits that are up changes, and what it is from then on."""
    times = np.concatenate([circuits.up_s, circuits.down_s])
    changes = np.concatenate([circuits.count, -circuits.count])
    instants, at = np.unique(times, return_inverse=True)
    totals = np.zeros(len(instants), dtype=np.int64)
    np.add.at(totals, at, changes)
    return list(zip(instants.tolist(), np.cumsum(totals).tolist(), strict=True))


def bytes_in_flight(in_flight: BytesInFlight) -> Iterator[tuple[float, dict[str, int]]]:
    """Yield the mean bytes of each interval by purpose, without those that never had any."""
    names = [name for name, mean in in_flight.mean_bytes.items() if mean.any()]
    columns = [in_flight.mean_bytes[name].tolist() for name in names]
    before: tuple[int, ...] | None = None
    for number, values in enumerate(zip(*columns, strict=True)):
        if values != before:
            yield number * in_flight.interval_s, dict(zip(names, values, strict=True))
        before = values
