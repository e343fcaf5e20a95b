"""The part of a step that a timeline shows first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lightloom.report.passes import passes
from lightloom.report.spans import Spans

#: spans in it
MAX_SPANS = 2500


@dataclass(frozen=True)
class TimeWindow:
    """A part of the step."""

    start_s: float
    end_s: float


def choose_window(spans: Spans, stages: Mapping[int, int]) -> TimeWindow | None:
    """Find a forward and a backward pass of the middle stage, where all stages are busy.

    It shrinks until :data:`MAX_SPANS` spans lie in it, or fewer.

    Returns
    -------
    TimeWindow or None
        None if no worker was recorded.
    """
    if not stages or not len(spans):
        return None
    by_stage = sorted(stages, key=lambda worker: stages[worker])
    middle = by_stage[len(by_stage) // 2]
    worked = passes(spans.take(spans.worker == middle))
    if not len(worked.start_s):
        return TimeWindow(float(spans.start_s.min()), float(spans.end_s.max()))
    backward = np.flatnonzero(worked.backward)
    last = int(backward[len(backward) // 2]) if len(backward) else len(worked.start_s) - 1
    first = max(0, last - 1)
    start, end = float(worked.start_s[first]), float(worked.end_s[last])
    while len(spans.within(start, end)) > MAX_SPANS:
        end = (start + end) / 2
    return TimeWindow(start, end)
