"""Times of collectives within recorded steps of PyTorch's profiler (Kineto).

A kernel of a collective also waits for the last GPU that comes. Of calls of about one size, the
shortest waited least and counts; it still shares links with what runs beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from lightloom.errors import InputError
from lightloom.inputs.files import shown_path
from lightloom.progress import Progress
from lightloom.study.calibration.network.readings import (
    SMALLEST,
    Given,
    MeasuredSize,
    Reading,
    Servers,
    Test,
)
from lightloom.trace.importers.kineto import read_kineto
from lightloom.trace.trace import Call, Trace

#: our names of the operations that say something of links
TESTS: dict[str, Test] = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
}
#: sizes that are taken as one, per doubling
PER_DOUBLING = 2


def read_step(
    path: Path, given: Given, default_per_server: int, progress: Progress | None = None
) -> list[Reading]:
    """Read the collectives of recorded steps, a reading for each kind and number of servers.

    Parameters
    ----------
    path
        A file, or a folder with one per rank.
    given, default_per_server
        GPUs of a server, of consecutive ranks.
    progress
        See :class:`~lightloom.progress.Progress`.

    Raises
    ------
    InputError
        If it is no such trace, or no call says its size and its ranks.
    """
    trace = read_kineto(path, progress).trace
    per_server = given.gpus_per_server or default_per_server
    shortest: dict[tuple[Test, Servers], dict[int, MeasuredSize]] = {}
    for call in _timed(trace):
        servers = _servers(call.ranks, per_server)
        if servers is None:
            continue
        size = float(max(call.input_bytes, call.output_bytes))
        points = shortest.setdefault((TESTS[call.op], servers), {})
        place = round(PER_DOUBLING * math.log2(size))
        assert call.duration_s is not None
        point = MeasuredSize(size, call.duration_s)
        if place not in points or _pace(point) < _pace(points[place]):
            points[place] = point
    name = shown_path(path)
    readings = []
    for (test, servers), points in shortest.items():
        sizes = tuple(points[place] for place in sorted(points))
        if sizes[-1].size_bytes >= SMALLEST:
            readings.append(Reading(f"{name}: {test}", test, servers, sizes, any_sizes=True))
    if not readings:
        raise InputError(
            f"{name}: no collective of 256 KiB or more says its size, its ranks and its time; "
            "record steps with ProfilerActivity.CUDA and a process group of NCCL"
        )
    return readings


def _timed(trace: Trace) -> Iterator[Call]:
    for rank in trace.ranks.values():
        for call in rank.calls:
            size = max(call.input_bytes, call.output_bytes)
            if call.op in TESTS and call.duration_s and len(call.ranks) > 1 and size > 0:
                yield call


def _pace(point: MeasuredSize) -> float:
    return point.time_s / point.size_bytes


def _servers(ranks: tuple[int, ...], per_server: int) -> Servers | None:
    """Where the ranks of a group are; ``None`` where servers have different numbers of them."""
    counts: dict[int, int] = {}
    for rank in ranks:
        counts[rank // per_server] = counts.get(rank // per_server, 0) + 1
    each = set(counts.values())
    if len(each) > 1:
        return None
    return Servers(len(ranks), per_server if len(counts) == 1 else each.pop())
