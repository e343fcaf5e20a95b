"""Bytes that a step has to send by its calls, rank by rank: independent of the task graph."""

from __future__ import annotations

from collections import defaultdict

from lightloom.trace.check import MESSAGES
from lightloom.trace.job import JobRoles
from lightloom.trace.step.purposes import purpose_of
from lightloom.trace.trace import Call

#: times that a buffer passes each member of a ring but one
_PASSES = {"all_reduce": 2.0}


def sent_bytes(call: Call, rank: int) -> float:
    """Bytes that one rank sends to others in a call.

    ``(n - 1) / n`` of the buffer in a ring, twice that for an all-reduce; of an all-to-all all but
    what stays on the rank.
    """
    if call.op in MESSAGES:
        return float(call.input_bytes) if call.op == "send" else 0.0
    size, place = len(call.ranks), call.ranks.index(rank)
    if call.op == "all_to_all" and call.input_splits:
        rows = sum(call.input_splits)
        return call.input_bytes * (1 - call.input_splits[place] / rows) if rows else 0.0
    if call.op == "gather":
        return 0.0 if rank == call.root else float(call.input_bytes)
    if call.op == "scatter":
        return call.output_bytes * (size - 1.0) if rank == call.root else 0.0
    whole = max(call.input_bytes, call.output_bytes)
    return _PASSES.get(call.op, 1.0) * whole * (size - 1) / size


def expected_bytes(job: JobRoles) -> dict[str, float]:
    """Bytes that all ranks send by purpose, as far as the calls say.

    Ranks send what their role's recorded rank does, and the rows of tokens that were recorded of
    them; purposes with rows of ranks that were not recorded are left out.
    """
    sums: dict[str, float] = defaultdict(float)
    unknown: set[str] = set()
    for role in job.roles:
        everyone = len(role.recorded) == len(role.ranks)
        for number, call in enumerate(job.calls[role.recorded[0]]):
            if len(call.ranks) < 2:
                continue
            purpose = purpose_of(call)
            if not (call.input_splits or call.op in ("gather", "scatter")):
                sums[purpose] += len(role.ranks) * sent_bytes(call, role.recorded[0])
            elif everyone:
                own = ((rank, job.calls[rank][number]) for rank in role.recorded)
                sums[purpose] += sum(sent_bytes(one, rank) for rank, one in own)
            else:
                unknown.add(purpose)
    return {purpose: size for purpose, size in sums.items() if purpose not in unknown}
