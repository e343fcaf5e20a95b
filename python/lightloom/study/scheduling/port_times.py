"""Who sends to whom when: the spans of a schedule, and what most of each bin of time is.

A drawing has some hundred columns and a schedule up to tens of thousands of configurations; a bin
says what its source did longest; over several ports, it is idle only if none of them is busy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom.schedule import PermutationSchedule

#: what a source does in a bin if it is not one destination that it sends to
IDLE, DARK, SEVERAL = -1, -2, -3


@dataclass(frozen=True)
class PortTimes:
    """Spans in which a source sends to a destination, or is dark while its circuit is moved.

    Attributes
    ----------
    source, destination
        Ports of each span; destination :data:`DARK` is a reconfiguration. What no span covers
        is idle.
    start_s, end_s
        Its time.
    sources
        Number of sources, whether they send or not.
    length_s
        End of the schedule.
    ports
        Destinations that a source may send to at a time: its ports, one per switch.
    """

    source: npt.NDArray[np.int64]
    destination: npt.NDArray[np.int64]
    start_s: npt.NDArray[np.float64]
    end_s: npt.NDArray[np.float64]
    sources: int
    length_s: float
    ports: int = 1

    def joined(self) -> PortTimes:
        """The same with spans joined that follow one another without a gap."""
        order = np.lexsort((self.start_s, self.source))
        source, destination = self.source[order], self.destination[order]
        start, end = self.start_s[order], self.end_s[order]
        if not len(source):
            return self
        near = 1e-9 * self.length_s
        new = np.ones(len(source), dtype=bool)
        new[1:] = (
            (source[1:] != source[:-1])
            | (destination[1:] != destination[:-1])
            | (start[1:] > end[:-1] + near)
        )
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(source)) - 1
        return PortTimes(
            source[first],
            destination[first],
            start[first],
            end[last],
            self.sources,
            self.length_s,
            self.ports,
        )


def busiest(demand: npt.NDArray[np.uint64], maximum: int) -> npt.NDArray[np.int64]:
    """Up to ``maximum`` sources that send most, in their order."""
    return np.sort(np.argsort(-demand.sum(axis=1, dtype=np.float64), kind="stable")[:maximum])


def port_times(
    slots: PermutationSchedule,
    demand: npt.NDArray[np.uint64],
    rows: npt.NDArray[np.int64],
) -> PortTimes:
    """When some sources of a schedule send, and to whom.

    Parameters
    ----------
    slots
        The schedule.
    demand
        What it serves, ``(sources, destinations)``: a pair may end before its slot does.
    rows
        The sources, in the order in which they are numbered in the answer.
    """
    seconds = 8.0 / slots.rate_bps
    if slots.transfers is not None:
        number = np.full(demand.shape[0], -1)
        number[rows] = np.arange(len(rows))
        source, destination, start, size = slots.transfers.astype(np.int64).T
        source = number[source]
        kept = source >= 0
        source, destination, start, size = (x[kept] for x in (source, destination, start, size))
        begun = start + slots.delay_bytes
    else:
        source, destination, start, size = _sent_in_slots(slots, demand, rows)
        begun = start + slots.delay_bytes
    dark = np.full(len(source), DARK)
    return PortTimes(
        source=np.concatenate([source, source]),
        destination=np.concatenate([dark, destination]),
        start_s=np.concatenate([start, begun]) * seconds,
        end_s=np.concatenate([begun, begun + size]) * seconds,
        sources=len(rows),
        length_s=slots.length_s,
        ports=slots.switches,
    )


def _sent_in_slots(
    slots: PermutationSchedule, demand: npt.NDArray[np.uint64], rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], ...]:
    """Source, destination, begin of the reconfiguration and bytes of what is sent in slots."""
    holds = slots.holds_bytes.astype(np.int64)
    starts = slots.starts_bytes
    joined = slots.permutations[:, rows].astype(np.int64)  # (slots, rows)
    slot, source = np.nonzero(joined >= 0)
    destination = joined[slot, source]
    pair = source * demand.shape[1] + destination
    # how much the earlier slots of a pair could carry, from sums over slots grouped by pair
    order = np.argsort(pair, kind="stable")
    carried = np.cumsum(holds[slot][order])
    first = np.concatenate([[True], np.diff(pair[order]) > 0])[: len(order)]
    before_pair = np.maximum.accumulate(np.where(first, carried - holds[slot][order], 0))
    earlier = np.empty(len(order), dtype=np.int64)
    earlier[order] = carried - holds[slot][order] - before_pair
    wanted = demand[rows[source], destination].astype(np.int64)
    size = np.clip(wanted - earlier, 0, holds[slot])
    return source, destination, starts[slot], size


def largest_of_each_bin(times: PortTimes, bins: int) -> npt.NDArray[np.int64]:
    """What each source does longest in each of equal bins of the schedule.

    Returns
    -------
    numpy.ndarray
        ``(sources, bins)``: a destination that holds at least half of what is sent in a bin that
        is sent in longest; :data:`SEVERAL` if no destination does; :data:`DARK` or :data:`IDLE`.
    """
    assert bins > 0, f"{bins} bins"
    largest = np.full((times.sources, bins), IDLE, dtype=np.int64)
    if not len(times.source) or times.length_s <= 0:
        return largest
    edges = np.linspace(0.0, times.length_s, bins + 1)
    place, weight, span = _pieces(times, edges)
    cells = times.sources * bins
    cell = times.source[span] * bins + place
    dark = times.destination[span] == DARK
    dark_s = np.bincount(cell[dark], weight[dark], minlength=cells)
    sent_s = np.bincount(cell[~dark], weight[~dark], minlength=cells)
    idle_s = np.maximum(edges[1] - dark_s - sent_s, 0.0)  # none of several ports is busy
    best, best_s = _largest(cell[~dark], times.destination[span][~dark], weight[~dark], cells)
    flat = largest.reshape(-1)
    flat[dark_s > np.maximum(sent_s, idle_s)] = DARK
    sending = (sent_s > 0) & (sent_s >= np.maximum(dark_s, idle_s))
    flat[sending] = np.where(best_s >= 0.5 * sent_s, best, SEVERAL)[sending]
    return largest


def _pieces(
    times: PortTimes, edges: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Spans cut at the edges of bins: bin, seconds and span of each piece."""
    bins, width = len(edges) - 1, edges[1]
    first = np.minimum((times.start_s / width).astype(np.int64), bins - 1)
    last = np.minimum((times.end_s / width).astype(np.int64), bins - 1)
    counts = last - first + 1
    span = np.repeat(np.arange(len(first)), counts)
    place = first[span] + np.arange(len(span)) - np.repeat(np.cumsum(counts) - counts, counts)
    weight = np.minimum(times.end_s[span], edges[place + 1]) - np.maximum(
        times.start_s[span], edges[place]
    )
    return place, np.maximum(weight, 0.0), span


def _largest(
    cell: npt.NDArray[np.int64],
    destination: npt.NDArray[np.int64],
    weight: npt.NDArray[np.float64],
    cells: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The destination with the largest weight in each cell, the lowest number among equals."""
    best = np.zeros(cells, dtype=np.int64)
    best_s = np.zeros(cells)
    if not len(cell):
        return best, best_s
    width = int(destination.max()) + 1
    pairs, inverse = np.unique(cell * width + destination, return_inverse=True)
    sums = np.bincount(inverse, weight)
    # from the last to the first and lightest to heaviest: the last assignment stays
    order = np.lexsort((-pairs, sums))
    best[pairs[order] // width] = pairs[order] % width
    best_s[pairs[order] // width] = sums[order]
    return best, best_s
