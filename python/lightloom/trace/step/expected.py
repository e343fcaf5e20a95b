"""Bytes that a step has to send by its calls, rank by rank: independent of the task graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

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


def ranks_agree(calls: Sequence[tuple[int, Call]]) -> bool:
    """Whether each receives the rows that others send it; true as well where that is not known.

    Parameters
    ----------
    calls
        Ranks in order, and the call of each.
    """
    if any(not call.input_splits or not call.output_splits for _, call in calls):
        return True
    ranks = np.array([rank for rank, _ in calls])
    groups = np.array([call.ranks for _, call in calls])
    sent = np.array([call.input_splits for _, call in calls])
    received = np.array([call.output_splits for _, call in calls])
    row = np.minimum(np.searchsorted(ranks, groups), len(ranks) - 1)
    if (ranks[row] != groups).any():
        return True
    place = np.argmax(groups == ranks[:, None], axis=1)
    return bool((received[row, place[:, None]] == sent).all())


def expected_bytes(job: JobRoles) -> dict[str, float]:
    """Bytes that all ranks send by purpose, as far as the calls say.

    Ranks send what their role's recorded rank does, and the rows of tokens that were recorded of
    them. Purposes with rows of ranks that were not recorded are left out, and those whose ranks do
    not say to receive what others say to send, as in a trace that was expanded from some ranks.
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
            elif everyone and ranks_agree(
                calls := [(rank, job.calls[rank][number]) for rank in role.recorded]
            ):
                sums[purpose] += sum(sent_bytes(call, rank) for rank, call in calls)
            else:
                unknown.add(purpose)
    return {purpose: size for purpose, size in sums.items() if purpose not in unknown}
