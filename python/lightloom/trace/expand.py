"""The calls of every rank of a job, from one recorded rank of each role.

A rank issues what its role does, on the groups in which it has the place of the recorded rank.
Sizes that depend on data are those of the recorded rank. Ranks that were recorded in addition are
what the expansion is held against.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lightloom.errors import InputError
from lightloom.trace.check import MESSAGES
from lightloom.trace.job import JobRoles, RankFamily
from lightloom.trace.trace import Call, Trace, make_trace

#: what expansion has to get right; sizes only of calls that do not depend on data
_KEPT = ("op", "group", "ranks", "dtype", "reduction", "peer", "root", "phase", "layer")
_SIZES = ("shape", "input_bytes", "output_bytes", "input_splits", "output_splits")


@dataclass(frozen=True)
class Verified:
    """What recorded ranks say of the expansion.

    Attributes
    ----------
    ranks
        Recorded ranks that do not stand for their role.
    calls
        Of them, compared one by one.
    sizes
        Calls whose sizes are equal too.
    """

    ranks: int
    calls: int
    sizes: int


class Expansion:
    """Expands the calls of a job rank by rank.

    Parameters
    ----------
    job
        Its roles and groups.
    """

    def __init__(self, job: JobRoles) -> None:
        self.job = job
        self.groups_of_rank = [_groups_of_rank(family, job.world_size) for family in job.families]

    def calls(self, rank: int) -> Iterator[Call]:
        """The calls of one rank.

        Raises
        ------
        InputError
            If the job has no such rank.
        """
        if not 0 <= rank < self.job.world_size:
            raise InputError(f"rank {rank}: the job has ranks 0 to {self.job.world_size - 1}")
        recorded = self.job.roles[int(self.job.role_of_rank[rank])].recorded[0]
        for call in self.job.calls[recorded]:
            yield call if rank == recorded else self._moved(call, recorded, rank)

    def count(self, rank: int) -> int:
        """Calls of a rank."""
        return len(self.job.calls[self.job.roles[int(self.job.role_of_rank[rank])].recorded[0]])

    def trace(self, trace: Trace, ranks: Sequence[int]) -> Trace:
        """A trace as if these ranks had been recorded, of the step alone.

        Parameters
        ----------
        trace
            The one that the job was found in.
        ranks
            Those of the job that are wanted.
        """
        expanded = []
        for rank in ranks:
            recorded = self.job.roles[int(self.job.role_of_rank[rank])].recorded[0]
            calls = tuple(self.calls(rank))
            expanded.append(replace(trace.ranks[recorded], rank=rank, calls=calls))
        return make_trace(trace.world_size, trace.program, expanded, trace.groups)

    def _moved(self, call: Call, recorded: int, rank: int) -> Call:
        if len(call.ranks) < 2:
            return replace(call, ranks=(rank,))
        family, group = self.job.group_index[call.group, call.ranks]
        among = self.groups_of_rank[family]
        turn = among[recorded].index(group)
        ranks = tuple(self.job.families[family].groups[among[rank][turn]].tolist())
        peer, root = call.peer, call.root
        if call.op in MESSAGES and peer is not None:
            offset = call.ranks.index(peer) - call.ranks.index(recorded)
            peer = ranks[(ranks.index(rank) + offset) % len(ranks)]
        if root is not None:
            root = ranks[call.ranks.index(root)]
        return replace(call, ranks=ranks, peer=peer, root=root)

    def verify(self) -> Verified:
        """Hold the expansion against ranks that were recorded in addition.

        Raises
        ------
        InputError
            The first call that is another.
        """
        ranks = calls = sizes = 0
        for role in self.job.roles:
            for rank in role.recorded[1:]:
                ranks += 1
                pairs = zip(self.calls(rank), self.job.calls[rank], strict=True)
                for expanded, recorded in pairs:
                    _compare(rank, expanded, recorded)
                    calls += 1
                    sizes += _parts(expanded, _SIZES) == _parts(recorded, _SIZES)
        return Verified(ranks, calls, sizes)


def _groups_of_rank(family: RankFamily, world_size: int) -> list[list[int]]:
    """The groups of each rank, in the order of its places in them."""
    placed: list[list[tuple[int, int]]] = [[] for _ in range(world_size)]
    for number, group in enumerate(family.groups.tolist()):
        for place, rank in enumerate(group):
            placed[rank].append((place, number))
    shared = any(len(row) > 1 for row in placed)
    return [[number for _, number in (sorted(row) if shared else row)] for row in placed]


def _parts(call: Call, names: tuple[str, ...]) -> list[object]:
    return [getattr(call, name) for name in names]


def _compare(rank: int, expanded: Call, recorded: Call) -> None:
    for name in _KEPT:
        ours, theirs = getattr(expanded, name), getattr(recorded, name)
        if ours != theirs:
            raise InputError(
                f"rank {rank}, call {recorded.call_id}: by symmetry {name} is {_short(ours)}, "
                f"recorded is {_short(theirs)}"
            )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


#: columns of a table of calls
COLUMNS = (
    "call_id", "op", "group", "ranks", "peer", "root", "dtype", "shape", "input_bytes",
    "output_bytes", "input_splits", "output_splits", "reduction", "phase", "layer", "step",
    "stream", "asynchronous", "waited_before", "routed", "tensors",
)  # fmt: skip


def columns_of(rank: int, calls: list[Call]) -> dict[str, list[Any]]:
    """Calls of a rank as columns of a table; lists of numbers are text."""
    return {
        "rank": [rank] * len(calls),
        **{name: [_cell(getattr(call, name)) for call in calls] for name in COLUMNS},
    }


def _cell(value: object) -> object:
    return " ".join(map(str, value)) if isinstance(value, tuple) else value
