"""Forward and backward passes of micro-batches, found in the spans of a worker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom.report.spans import OWN, Ints, Seconds, Spans

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Passes:
    """Passes of one worker: micro-batch, direction, first and last instant; by ascending start."""

    micro_batch: Ints
    backward: Flags
    start_s: Seconds
    end_s: Seconds

    @property
    def overlap(self) -> bool:
        """Whether two passes are under way at one time, as where their layers take turns."""
        last = np.maximum.accumulate(self.end_s)
        return bool((self.start_s[1:] < last[:-1] - 1e-9 * last[-1:]).any())


def passes(spans: Spans) -> Passes:
    """Join one worker's own spans into passes of micro-batches.

    Spans do not tell their direction. Those of one layer and micro-batch come in two bunches,
    forward and backward, with the largest pause between them. A pass ends where its next span is of
    a layer that is no neighbor: in another chunk of a virtual pipeline. Spans outside micro-batches
    (optimizer, reductions) and pipeline waits belong to no pass.
    """
    waits = np.isin(spans.category, ("bubble", "pp"))
    work = spans.take((spans.stream == OWN) & (spans.micro_batch >= 0) & ~waits)
    if not len(work):
        return Passes(work.micro_batch, np.zeros(0, bool), work.start_s, work.end_s)
    backward = _backward(work)
    order = np.lexsort((work.start_s, backward, work.micro_batch))
    work, backward = work.take(order), backward[order]
    layer = _filled(work.layer, work.layer >= 0)
    begins = (
        (np.diff(work.micro_batch, prepend=-1) != 0)
        | (np.diff(backward.astype(np.int64), prepend=-1) != 0)
        | (np.abs(np.diff(layer, prepend=layer[0])) > 1)
    )
    first = np.flatnonzero(begins)
    start, end = work.start_s[first], np.maximum.reduceat(work.end_s, first)
    by_start = np.argsort(start, kind="stable")
    first, start, end = first[by_start], start[by_start], end[by_start]
    return Passes(work.micro_batch[first], backward[first], start, end)


def _backward(work: Spans) -> Flags:
    """Whether each span belongs to a backward pass; spans without a layer go with those before."""
    is_backward = np.zeros(len(work), dtype=bool)
    with_layer = np.flatnonzero(work.layer >= 0)
    order = with_layer[
        np.lexsort((work.start_s[with_layer], work.layer[with_layer], work.micro_batch[with_layer]))
    ]
    same = (np.diff(work.layer[order]) == 0) & (np.diff(work.micro_batch[order]) == 0)
    pause = work.start_s[order[1:]] - work.end_s[order[:-1]]
    for bunch in np.split(np.arange(len(order)), np.flatnonzero(~same) + 1):
        if len(bunch) < 2:
            continue
        inside = pause[bunch[:-1]]
        split = int(inside.argmax()) + 1 if inside.max() > 0 else len(bunch) // 2
        is_backward[order[bunch[split:]]] = True
    by_time = np.lexsort((work.start_s, work.micro_batch))
    # what comes before the first layer of a micro-batch goes forward
    begins = np.diff(work.micro_batch[by_time], prepend=-1) != 0
    is_backward[by_time] = _filled(is_backward[by_time], begins | (work.layer[by_time] >= 0))
    return is_backward


def _filled(values: npt.NDArray[np.generic], known: Flags) -> npt.NDArray[np.generic]:
    """Values with those that are not known taken from before, or as they are at the beginning."""
    place = np.where(known, np.arange(len(values)), 0)
    return values[np.maximum.accumulate(place)]
