"""What a trace holds: volumes of groups, largest calls, skew, and where in the step they are."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass

from lightloom.trace.check import disagreements
from lightloom.trace.importers.imported import Imported
from lightloom.trace.profile import collective_times, step_times
from lightloom.trace.trace import Call, Trace

#: largest calls of a rank that a summary names
LARGEST = 8


@dataclass(frozen=True)
class Volume:
    """What one rank put into one kind of call.

    Attributes
    ----------
    group, group_size, op, phase
        What kind of calls; `phase` as of a call.
    calls
        How many.
    input_bytes, largest_bytes
        That the rank put in, in all and into the largest call; of receives what it got out.
    """

    group: str
    group_size: int
    op: str
    phase: str
    calls: int
    input_bytes: int
    largest_bytes: int


@dataclass(frozen=True)
class GroupVolume:
    """What one rank put into the calls of its groups of one name.

    Attributes
    ----------
    group, group_size
        Name and number of ranks.
    calls, input_bytes
        As of :class:`Volume`, of all operations together.
    share
        Of all bytes that the rank put into calls.
    """

    group: str
    group_size: int
    calls: int
    input_bytes: int
    share: float


@dataclass(frozen=True)
class SplitSkew:
    """How unevenly ranks of a group divide what they send in all-to-alls.

    Attributes
    ----------
    group, group_size
        Name and number of ranks.
    calls
        All-to-alls that state how they divide their rows, of all recorded ranks.
    mean, largest
        Rows to the rank that gets the largest part, over the mean part: of the mean call and of the
        most uneven one.
    """

    group: str
    group_size: int
    calls: int
    mean: float
    largest: float


def bytes_of(call: Call) -> int:
    """What a call moves, as its rank sees it: bytes that go in; of a receive those that come."""
    return call.output_bytes if call.op == "receive" else call.input_bytes


def group_volumes(trace: Trace, rank: int) -> list[GroupVolume]:
    """What one rank communicates by parallelism, largest volume first."""
    sizes: dict[tuple[str, int], list[int]] = defaultdict(list)
    for call in trace.ranks[rank].calls:
        sizes[call.group, len(call.ranks)].append(bytes_of(call))
    whole = max(1, sum(map(sum, sizes.values())))
    rows = [
        GroupVolume(*kind, len(sent), sum(sent), sum(sent) / whole) for kind, sent in sizes.items()
    ]
    return sorted(rows, key=lambda row: (-row.input_bytes, row.group, row.group_size))


def largest_calls(trace: Trace, rank: int, number: int) -> list[Call]:
    """The calls of one rank that move the largest numbers of bytes, in this order."""
    return sorted(trace.ranks[rank].calls, key=lambda call: (-bytes_of(call), call.call_id))[
        :number
    ]


def skews(trace: Trace) -> list[SplitSkew]:
    """How uneven all-to-alls are, most uneven group first."""
    uneven: dict[tuple[str, int], list[float]] = defaultdict(list)
    for recorded in trace.ranks.values():
        for call in recorded.calls:
            if call.op == "all_to_all" and call.input_splits and sum(call.input_splits):
                largest = max(call.input_splits) * len(call.input_splits) / sum(call.input_splits)
                uneven[call.group, len(call.ranks)].append(largest)
    rows = [
        SplitSkew(*kind, len(values), sum(values) / len(values), max(values))
        for kind, values in uneven.items()
    ]
    return sorted(rows, key=lambda row: (-row.largest, row.group))


def volumes(trace: Trace, rank: int) -> list[Volume]:
    """What one rank communicates, largest volume first."""
    sizes: dict[tuple[str, int, str, str], list[int]] = defaultdict(list)
    for call in trace.ranks[rank].calls:
        sizes[call.group, len(call.ranks), call.op, call.phase].append(bytes_of(call))
    rows = [Volume(*kind, len(sent), sum(sent), max(sent)) for kind, sent in sizes.items()]
    return sorted(rows, key=lambda row: (-row.input_bytes, row.group, row.op, row.phase))


def summary_as_json(trace: Trace) -> dict[str, object]:
    """Volumes and largest calls of every recorded rank, skew, and disagreements, as JSON."""
    return {
        "world_size": trace.world_size,
        "program": list(trace.program),
        "calls_hash": trace.calls_hash,
        "volumes": {
            str(rank): [asdict(row) for row in volumes(trace, rank)] for rank in sorted(trace.ranks)
        },
        "groups": {
            str(rank): [asdict(row) for row in group_volumes(trace, rank)]
            for rank in sorted(trace.ranks)
        },
        "largest_calls": {
            str(rank): [asdict(call) for call in largest_calls(trace, rank, LARGEST)]
            for rank in sorted(trace.ranks)
        },
        "skew": [asdict(row) for row in skews(trace)],
        "disagreements": disagreements(trace),
    }


def imported_as_json(imported: Imported) -> dict[str, object]:
    """The summary of any trace: what recorded it, and where time went if that is known."""
    steps = [{**asdict(row), "overlap": row.overlap} for row in step_times(imported.spans)]
    collectives = [
        {**asdict(row), "algorithm_gbps": row.algorithm_gbps, "bus_gbps": row.bus_gbps}
        for row in collective_times(imported.trace, imported.spans)
    ]
    return {
        "form": imported.form,
        "remarks": list(imported.remarks),
        **summary_as_json(imported.trace),
        "computes_s": {
            str(rank): sum(compute.duration_s or 0.0 for compute in recorded.computes)
            for rank, recorded in sorted(imported.trace.ranks.items())
        },
        "steps": steps,
        "collectives": collectives,
    }
