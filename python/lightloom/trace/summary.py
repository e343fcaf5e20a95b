"""Volumes of a trace: what each group of ranks carries, by operation and phase."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass

from lightloom.trace.check import disagreements
from lightloom.trace.trace import Trace


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


def volumes(trace: Trace, rank: int) -> list[Volume]:
    """What one rank communicates, largest volume first."""
    sizes: dict[tuple[str, int, str, str], list[int]] = defaultdict(list)
    for call in trace.ranks[rank].calls:
        size = call.output_bytes if call.op == "receive" else call.input_bytes
        sizes[call.group, len(call.ranks), call.op, call.phase].append(size)
    found = [Volume(*kind, len(one), sum(one), max(one)) for kind, one in sizes.items()]
    return sorted(found, key=lambda one: (-one.input_bytes, one.group, one.op, one.phase))


def summary_as_json(trace: Trace) -> dict[str, object]:
    """Volumes of every recorded rank, and where ranks disagree, as JSON."""
    return {
        "world_size": trace.world_size,
        "program": list(trace.program),
        "calls_hash": trace.calls_hash,
        "volumes": {
            str(rank): [asdict(one) for one in volumes(trace, rank)] for rank in sorted(trace.ranks)
        },
        "disagreements": disagreements(trace),
    }
