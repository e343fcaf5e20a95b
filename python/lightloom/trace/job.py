"""All ranks of a job from the recordings of some: which groups there are, and who acts alike.

Groups of one name whose ranks lie alike relative to the first one form a *family*. A *role* is the
ranks that issue the same calls on their own groups: those that hold the same places in the groups
that messages go through (pipeline stages; not in a ring of all ranks, where all are alike), and
belong to the same families. One recorded rank
stands for its role. Which groups there are is what the recorder has noted, or what the calls of
all ranks say.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.trace.check import MESSAGES
from lightloom.trace.trace import Call, Trace

Ints = npt.NDArray[np.int64]

#: calls that carry no data
EMPTY = {"barrier"}


@dataclass(frozen=True, eq=False)
class RankFamily:
    """Groups of one name that lie alike.

    Attributes
    ----------
    name
        As the program calls them.
    groups
        The ranks of each group in its order, ``(groups, size)``.
    """

    name: str
    groups: Ints

    @property
    def size(self) -> int:
        """Ranks of each group."""
        return int(self.groups.shape[1])

    def place_of_rank(self, world_size: int) -> Ints:
        """Place of each rank in its group, ``(world_size,)``; -1 outside."""
        places = np.full(world_size, -1)
        places[self.groups] = np.arange(self.size)
        return places


@dataclass(frozen=True, eq=False)
class JobRole:
    """Ranks that act alike.

    Attributes
    ----------
    ranks
        All of them.
    recorded
        Those that were recorded, in order; the first stands for all.
    """

    ranks: Ints
    recorded: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class JobRoles:
    """A job of which every rank's calls are known.

    Attributes
    ----------
    world_size
        Ranks.
    step
        The training step whose calls are meant.
    families, roles
        Of all ranks.
    role_of_rank
        Index of each rank's role, ``(world_size,)``.
    calls
        Of each recorded rank, those of the step that carry data.
    """

    world_size: int
    step: int
    families: tuple[RankFamily, ...]
    roles: tuple[JobRole, ...]
    role_of_rank: Ints
    calls: dict[int, tuple[Call, ...]] = field(repr=False)

    @cached_property
    def group_index(self) -> dict[tuple[str, tuple[int, ...]], tuple[int, int]]:
        """Family and group of a group's name and ranks."""
        return _group_index(self.families)

    def ranks_as_csv(self) -> str:
        """The role of each rank, and the recorded rank that stands for it."""
        standing = [role.recorded[0] for role in self.roles]
        rows = (
            f"{rank},{role},{standing[role]}"
            for rank, role in enumerate(self.role_of_rank.tolist())
        )
        return "\n".join(("rank,role,recorded_rank", *rows)) + "\n"


def steps_of(trace: Trace) -> tuple[list[int], list[int]]:
    """The training steps: whole ones, and those that an optimizer did not end.

    What a program does after its last ``optimizer.step()``, such as an evaluation, is no step; if
    no step is whole, all are taken as they are.

    Raises
    ------
    InputError
        If there is none.
    """
    ranks = trace.ranks.values()
    steps = {call.step for rank in ranks for call in rank.calls if call.phase != "setup"}
    # what one GPU trains alone has no calls
    steps |= {part.step for rank in ranks for part in rank.computes if part.phase != "setup"}
    if not steps:
        raise InputError("the trace holds no calls and no computation of a training step")
    ended = min(recorded.steps for recorded in trace.ranks.values())
    whole = sorted(step for step in steps if step < ended)
    return (whole, sorted(steps - set(whole))) if whole else (sorted(steps), [])


def find_job(trace: Trace, step: int | None = None) -> JobRoles:
    """Find the roles of all ranks.

    Parameters
    ----------
    trace
        Recordings of at least one rank of each role, with the groups of the job; or of all ranks.
    step
        The training step, counted from 0; by default the last whole one.

    Raises
    ------
    InputError
        If the step was not recorded, or ranks are missing: which ones.
    """
    roles, missing = _found(trace, step)
    if missing:
        recorded_too = ",".join(map(str, [*sorted(roles.calls), *missing]))
        raise InputError(
            f"{len(missing)} of {len(roles.roles)} roles were not recorded: record "
            f"--rank {recorded_too}, or --rank roles"
        )
    return roles


def missing_ranks(trace: Trace) -> list[int]:
    """One rank of each role that was not recorded, as far as the recorded ones tell."""
    return _found(trace, None)[1]


def _found(trace: Trace, step: int | None) -> tuple[JobRoles, list[int]]:
    """The roles, and a rank of each of those that were not recorded."""
    whole, others = steps_of(trace)
    step = whole[-1] if step is None else step
    if not 0 <= step <= max(whole + others):
        raise InputError(f"--step {step}: the trace has steps 0 to {max(whole + others)}")
    calls = {
        rank: tuple(
            call
            for call in recorded.calls
            if call.step == step and call.phase != "setup" and call.op not in EMPTY
        )
        for rank, recorded in sorted(trace.ranks.items())
    }
    families = _families(trace)
    shapes = _shapes(families, trace.world_size, calls)
    if len(calls) == trace.world_size:
        # ranks of a ring may send other numbers of bytes each
        sizes = {rank: _sent(issued) for rank, issued in calls.items()}
        role_of_rank = _numbered([(shapes[r], sizes[r]) for r in range(trace.world_size)])
    else:
        if not trace.groups:
            raise InputError(
                f"{len(calls)} of {trace.world_size} ranks were recorded, and not which groups "
                "there are: record the program again, or all ranks (--rank all)"
            )
        role_of_rank = _by_place(families, trace.world_size, calls)
    role_of_rank = _refined(role_of_rank, families, calls)
    roles, missing = _roles(role_of_rank, calls, shapes)
    return JobRoles(trace.world_size, step, families, roles, role_of_rank, calls), missing


def _families(trace: Trace) -> tuple[RankFamily, ...]:
    """Families, in the order in which their first groups were made."""
    members_of: dict[tuple[str, tuple[int, ...]], dict[tuple[int, ...], None]] = defaultdict(dict)
    groups: Iterable[tuple[str, tuple[int, ...]]] = (
        (group.name, group.ranks) for group in trace.groups
    )
    if not trace.groups:
        issued = (call for _, recorded in sorted(trace.ranks.items()) for call in recorded.calls)
        groups = dict.fromkeys((call.group, call.ranks) for call in issued)
    for name, ranks in groups:
        if len(ranks) > 1:
            lie = tuple((rank - ranks[0]) % trace.world_size for rank in ranks)
            members_of[name, lie][ranks] = None
    families = []
    for (name, _), members in members_of.items():
        array = np.array(list(members), dtype=np.int64)
        if array.min() < 0 or array.max() >= trace.world_size:
            raise InputError(f"group {name} has ranks beyond the {trace.world_size} of the job")
        families.append(RankFamily(name, array))
    return tuple(families)


def _group_index(
    families: tuple[RankFamily, ...],
) -> dict[tuple[str, tuple[int, ...]], tuple[int, int]]:
    return {
        (family.name, tuple(group)): (number, place)
        for number, family in enumerate(families)
        for place, group in enumerate(family.groups.tolist())
    }


def _shapes(
    families: tuple[RankFamily, ...], world_size: int, calls: dict[int, tuple[Call, ...]]
) -> dict[int, tuple[object, ...]]:
    """What each recorded rank does, without sizes, which may depend on data."""
    index = _group_index(families)
    shapes: dict[int, tuple[object, ...]] = {}
    for rank, issued in calls.items():
        shape: list[object] = []
        for call in issued:
            family = -1
            if len(call.ranks) > 1:
                if (call.group, call.ranks) not in index:
                    raise InputError(f"rank {rank} calls a group that the trace does not list")
                family = index[call.group, call.ranks][0]
            peer: tuple[int, int] | None = None
            if call.op in MESSAGES and call.peer is not None:
                mine, other = call.ranks.index(rank), call.ranks.index(call.peer)
                whole = len(call.ranks) == world_size
                peer = ((other - mine) % world_size, 0) if whole else (other - mine, mine)
            root = None if call.root is None else call.ranks.index(call.root)
            shape.append((call.op, family, call.phase, call.reduction, peer, root))
        shapes[rank] = tuple(shape)
    return shapes


def _sent(calls: tuple[Call, ...]) -> tuple[int, ...]:
    """Bytes of each message that a rank sends."""
    return tuple(call.input_bytes for call in calls if call.op == "send")


def _numbered(values: list[tuple[object, ...]]) -> Ints:
    """Number equal values alike, in the order in which they first occur."""
    numbers: dict[tuple[object, ...], int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)


def groups_alike(groups: Ints, role_of_rank: Ints) -> tuple[list[Ints], Ints]:
    """Groups whose members have the same roles in order: their indices, and which each is in."""
    _, kind = np.unique(role_of_rank[groups], axis=0, return_inverse=True)
    kind = np.asarray(kind, dtype=np.int64).reshape(-1)
    return [np.flatnonzero(kind == number) for number in range(int(kind.max()) + 1)], kind


def _refined(
    role_of_rank: Ints, families: tuple[RankFamily, ...], calls: dict[int, tuple[Call, ...]]
) -> Ints:
    """Divide roles until the groups of all ranks of one have members of the same roles."""
    index = _group_index(families)
    used = {
        index[call.group, call.ranks][0]
        for issued in calls.values()
        for call in issued
        if len(call.ranks) > 1
    }
    while True:
        columns = [role_of_rank]
        for number in sorted(used):
            groups = families[number].groups
            kind = groups_alike(groups, role_of_rank)[1]
            shared = len(np.unique(groups)) < groups.size
            place = np.arange(groups.shape[1]) * shared
            # of the groups of a rank, in any order, a sum that tells sets of them apart
            weight = np.random.default_rng(0).integers(1 << 60, size=(kind.max() + 1, len(place)))
            column = np.zeros(len(role_of_rank), dtype=np.int64)
            np.add.at(column, groups, weight[kind][:, place])
            columns.append(column)
        refined = _ordered(np.stack(columns, axis=1))
        if refined.max() == role_of_rank.max():
            return refined
        role_of_rank = refined


def _ordered(rows: Ints) -> Ints:
    """Number equal rows alike, in the order in which they first occur."""
    _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    return np.asarray(order[kind.reshape(-1)], dtype=np.int64)


def _by_place(
    families: tuple[RankFamily, ...], world_size: int, calls: dict[int, tuple[Call, ...]]
) -> Ints:
    """Roles by the places in groups that carry messages, and by which families a rank is in."""
    index = _group_index(families)
    used: dict[int, bool] = {}
    for issued in calls.values():
        for call in issued:
            if len(call.ranks) > 1:
                family = index[call.group, call.ranks][0]
                used[family] = used.get(family, False) or call.op in MESSAGES
    columns = [np.zeros(world_size, dtype=np.int64)]
    for number, messages in used.items():
        places = families[number].place_of_rank(world_size)
        is_ring = families[number].size == world_size and _are_rings(calls, world_size)
        by_place = messages and not is_ring
        columns.append(places if by_place else np.minimum(places, 0))
    return _ordered(np.stack(columns, axis=1))


def _are_rings(calls: dict[int, tuple[Call, ...]], world_size: int) -> bool:
    """Whether ranks receive from as far as they send in the group of all, phase by phase.

    What is half of the ranks away is as far in both directions, as in a pipeline of two stages.
    """
    for rank, issued in calls.items():
        passed: Counter[tuple[str, int]] = Counter()
        for call in issued:
            if call.op in MESSAGES and call.peer is not None and len(call.ranks) == world_size:
                ahead = call.ranks.index(call.peer) - call.ranks.index(rank)
                if 2 * ahead % world_size == 0:
                    return False
                sends = call.op == "send"
                passed[call.phase, (ahead if sends else -ahead) % world_size] += 1 if sends else -1
        if any(passed.values()):
            return False
    return True


def _roles(
    role_of_rank: Ints, calls: dict[int, tuple[Call, ...]], shapes: dict[int, tuple[object, ...]]
) -> tuple[tuple[JobRole, ...], list[int]]:
    """Roles with those of their ranks that were recorded, and the first ranks of others."""
    roles = []
    missing = []
    for number in range(int(role_of_rank.max()) + 1):
        ranks = np.flatnonzero(role_of_rank == number)
        recorded = tuple(rank for rank in calls if role_of_rank[rank] == number)
        roles.append(JobRole(ranks, recorded))
        if not recorded:
            missing.append(int(ranks[0]))
        for rank in recorded[1:]:
            if shapes[rank] != shapes[recorded[0]]:
                raise InputError(
                    f"ranks {recorded[0]} and {rank} have the same places in all groups of "
                    "messages, but issue different calls: record all ranks (--rank all)"
                )
    return tuple(roles), missing
