"""Builds the stack of permutations of a job: collectives to rounds, groups to permutations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.schedule.coloring import color_edges
from lightloom.trace.algorithms import (
    IDLE,
    OVERHEAD_BYTES,
    Algorithm,
    GroupRound,
    SizedCollective,
    rounds_of,
)
from lightloom.trace.check import MESSAGES
from lightloom.trace.job import JobRoles, groups_alike
from lightloom.trace.stack import PermutationStack, SlotBlock, StackedCall
from lightloom.trace.trace import Call

Ints = npt.NDArray[np.int64]

#: entries of all permutations together
MAX_ENTRIES = 1 << 29


def build_stack(
    job: JobRoles,
    algorithm: Algorithm = Algorithm.AUTO,
    *,
    local_size: int = 8,
    overhead_bytes: float = OVERHEAD_BYTES,
    progress: Callable[[float, str], bool | None] | None = None,
) -> PermutationStack:
    """Expand every call of a step to permutations.

    Parameters
    ----------
    job
        Its roles and groups.
    algorithm
        Of all-gather, reduce-scatter, all-reduce and all-to-all, where it is possible.
    local_size
        Ranks of a server, for hierarchical collectives.
    overhead_bytes
        What a port could have sent in the latency and guard time of a slot.
    progress
        Called with the share of the roles that are done.

    Raises
    ------
    InputError
        If an operation is not known, or there are too many different permutations.
    """
    builder = _Builder(job, algorithm, local_size, overhead_bytes)
    for number in range(len(job.roles)):
        builder.add_messages(number)
    for number in range(len(job.roles)):
        if progress is not None and progress(number / len(job.roles), f"role {number}") is False:
            raise KeyboardInterrupt
        builder.add_role(number)
    builder.check_counts()
    return builder.stack()


@dataclass(frozen=True)
class _Instance:
    """One call of groups that act alike."""

    family: int
    groups: int
    number: int


class _Builder:
    def __init__(
        self, job: JobRoles, algorithm: Algorithm, local_size: int, overhead_bytes: float
    ) -> None:
        self.job, self.algorithm, self.local_size = job, algorithm, local_size
        self.overhead_bytes = overhead_bytes
        #: of groups that act alike, their members by server and the rounds of each size
        self.servers: dict[tuple[int, int], Ints | None] = {}
        self.rounds: dict[tuple[object, ...], tuple[str, list[GroupRound]]] = {}
        self.numbers: dict[bytes, int] = {}
        self.permutations: list[npt.NDArray[np.int32]] = []
        #: rounds of some groups as blocks
        self.blocks: dict[tuple[object, ...], tuple[tuple[int, ...], int]] = {}
        #: index of each kind of call, and what it is
        self.kinds: dict[tuple[object, ...], int] = {}
        self.calls: list[StackedCall] = []
        self.counts: Counter[int] = Counter()
        #: of groups that act alike, how many calls each role issues
        self.issued: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        #: of messages from a role, kind by kind in the order in which they are sent
        self.messages: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
        #: the kind of each call that has been met
        self.collective_of: dict[_Instance, int] = {}
        self.sequences: list[list[int]] = []
        #: per family: the groups that act alike, and of each group which those are
        self.alike = [groups_alike(family.groups, job.role_of_rank) for family in job.families]

    def stack(self) -> PermutationStack:
        calls = tuple(
            replace(call, calls=self.counts[index]) for index, call in enumerate(self.calls)
        )
        world_size = self.job.world_size
        permutations = np.stack(self.permutations or [np.full(world_size, IDLE, np.int32)])
        return PermutationStack(
            world_size, self.job.step, permutations, calls,
            tuple(np.array(row, dtype=np.int64) for row in self.sequences), self.job.role_of_rank,
        )  # fmt: skip

    def add_role(self, role: int) -> None:
        """Follow the calls of the rank that stands for a role."""
        rank = self.job.roles[role].recorded[0]
        seen: Counter[tuple[int, int]] = Counter()
        passed: Counter[tuple[str, tuple[int, int, int]]] = Counter()
        groups_of_role: dict[tuple[int, int], int] = {}
        sequence = []
        for place, call in enumerate(self.job.calls[rank]):
            if len(call.ranks) < 2 or (call.op in MESSAGES and call.peer is None):
                continue
            if call.op in MESSAGES:
                route = self._route(rank, call)
                number = passed[call.op, route]
                passed[call.op, route] += 1
                if number < len(self.messages[route]):
                    sequence.append(self.messages[route][number])
                continue
            family, group = self.job.group_index[call.group, call.ranks]
            groups = int(self.alike[family][1][group])
            groups_of_role[family, groups] = group
            instance = _Instance(family, groups, seen[family, group])
            seen[family, group] += 1
            if instance not in self.collective_of:
                alike = self._same_call(rank, place, call)
                self.collective_of[instance] = self._collective(family, groups, alike)
                self.counts[self.collective_of[instance]] += 1
            sequence.append(self.collective_of[instance])
        self.sequences.append(sequence)
        for (family, groups), index in groups_of_role.items():
            self.issued[family, groups][role] = seen[family, index]

    def check_counts(self) -> None:
        """Refuse a trace whose roles issue other numbers of calls in groups that they share."""
        for (family, groups), counts in self.issued.items():
            members = self.job.families[family].groups[self.alike[family][0][groups]]
            roles = np.unique(self.job.role_of_rank[members]).tolist()
            counted = {self.job.roles[role].recorded[0]: counts.get(role, 0) for role in roles}
            if len(set(counted.values())) > 1:
                raise InputError(
                    f"group {self.job.families[family].name}: ranks issue different numbers of "
                    f"calls: {counted}"
                )

    def _same_call(self, rank: int, place: int, call: Call) -> list[Call]:
        """The call as every recorded rank of the role issued it."""
        role = int(self.job.role_of_rank[rank])
        others = (self.job.calls[rank] for rank in self.job.roles[role].recorded[1:])
        return [call, *(issued[place] for issued in others)]

    def add_messages(self, role: int) -> None:
        """Follow what a role sends; its receivers meet the same messages."""
        rank = self.job.roles[role].recorded[0]
        for call in self.job.calls[rank]:
            if call.op == "send" and call.peer is not None:
                route = self._route(rank, call)
                kind = self._message(route, call)
                self.messages[route].append(kind)
                self.counts[kind] += 1

    def _route(self, rank: int, call: Call) -> tuple[int, int, int]:
        """Family of a message, role of its sender, and how many places on its receiver is."""
        assert call.peer is not None
        sender, receiver = (rank, call.peer) if call.op == "send" else (call.peer, rank)
        offset = call.ranks.index(receiver) - call.ranks.index(sender)
        family, _ = self.job.group_index[call.group, call.ranks]
        if not self._is_shared(family):
            offset %= len(call.ranks)
        return family, int(self.job.role_of_rank[sender]), offset

    def _is_shared(self, family: int) -> bool:
        """Whether a rank is in several groups of a family: which one it sends in is its place."""
        groups = self.job.families[family].groups
        return len(np.unique(groups)) < groups.size

    def _message(self, route: tuple[int, int, int], call: Call) -> int:
        """A message of each rank of a role."""
        family, role, offset = route
        groups = self.job.families[family].groups
        places = np.argwhere(np.isin(groups, self.job.roles[role].ranks))
        target = places[:, 1] + offset
        if self._is_shared(family):
            fits = (target >= 0) & (target < groups.shape[1])
            places, target = places[fits], target[fits]
        target %= groups.shape[1]  # rings
        pairs = np.stack([groups[places[:, 0], places[:, 1]], groups[places[:, 0], target]], axis=1)
        roles = np.unique(self.job.role_of_rank[pairs])
        rounds = [GroupRound(np.array([1, IDLE]), 1, call.input_bytes)]
        key = ("message", *route)
        return self._kind(key, call, "message", pairs, roles, rounds, False)

    def _collective(self, family: int, groups: int, alike: list[Call]) -> int:
        call = alike[0]
        members = self.job.families[family].groups[self.alike[family][0][groups]]
        root = 0 if call.root is None else call.ranks.index(call.root)
        sized = SizedCollective(call.op, len(call.ranks), size_bytes_of(alike), root)
        if (family, groups) not in self.servers:
            self.servers[family, groups] = places_by_server(members, self.local_size)
        if (family, groups, sized) not in self.rounds:
            self.rounds[family, groups, sized] = rounds_of(
                sized, self.algorithm, self.servers[family, groups], self.overhead_bytes
            )
        name, rounds = self.rounds[family, groups, sized]
        roles = np.unique(self.job.role_of_rank[members])
        key = (family, groups, root)
        return self._kind(key, call, name, members, roles, rounds, _depends_on_data(alike))

    def _kind(
        self, key: tuple[object, ...], call: Call, algorithm: str, groups: Ints, roles: Ints,
        rounds: list[GroupRound], on_demand: bool,
    ) -> int:  # fmt: skip
        """The index of a kind of call, which is expanded where it is new."""
        sizes = tuple(turn.size_bytes for turn in rounds)
        kind = (*key, call.op, call.phase, sizes)
        if kind not in self.kinds:
            blocks = tuple(
                SlotBlock(*self._permutations(key, groups, turn), turn.size_bytes)
                for turn in rounds
            )
            self.kinds[kind] = len(self.calls)
            self.calls.append(
                StackedCall(
                    call.group, call.op, call.phase, algorithm, groups,
                    tuple(roles.tolist()), max(call.input_bytes, call.output_bytes), 0, on_demand,
                    tuple(rounds), blocks, _lower_bound(groups, rounds, algorithm),
                )
            )  # fmt: skip
        return self.kinds[kind]

    def _permutations(
        self, key: tuple[object, ...], groups: Ints, turn: GroupRound
    ) -> tuple[tuple[int, ...], int]:
        whole = (*key, turn.destination.tobytes())
        if whole not in self.blocks:
            senders = np.flatnonzero(turn.destination != IDLE)
            edges = np.stack([groups[:, senders], groups[:, turn.destination[senders]]], axis=-1)
            edges = edges.reshape(-1, 2)
            color = np.zeros(len(edges), dtype=np.int64)
            if any(len(np.unique(end)) < len(end) for end in edges.T):
                color = color_edges(edges).astype(np.int64)
            parts = [self._made(edges[color == number]) for number in range(int(color.max()) + 1)]
            self.blocks[whole] = (tuple(parts), turn.repeats)
        return self.blocks[whole][0], turn.repeats

    def _made(self, edges: Ints) -> int:
        """The index of a permutation."""
        permutation = np.full(self.job.world_size, IDLE, dtype=np.int32)
        permutation[edges[:, 0]] = edges[:, 1]
        index = self.numbers.setdefault(permutation.tobytes(), len(self.permutations))
        if index == len(self.permutations):
            if (index + 1) * self.job.world_size > MAX_ENTRIES:
                raise InputError(
                    f"over {index:,} different permutations of {self.job.world_size:,} ranks: "
                    "expand with --algorithm hierarchical"
                )
            self.permutations.append(permutation)
        return index


def _depends_on_data(alike: list[Call]) -> bool:
    """Whether a router decides on its sizes."""
    shares = {share for call in alike for share in call.input_splits or ()}
    return len(shares) > 1 or any(call.routed is not None for call in alike)


def size_bytes_of(alike: list[Call]) -> int:
    """Bytes of the whole buffer; where shares are uneven, as if all were the largest."""
    size = max(max(call.input_bytes, call.output_bytes) for call in alike)
    for call in alike:
        rows = sum(call.input_splits or ())
        if call.op == "all_to_all" and call.input_splits and rows:
            share = -(-max(call.input_splits) * call.input_bytes // rows)
            size = max(size, share * len(call.ranks))
    return size


def places_by_server(groups: Ints, local_size: int) -> Ints | None:
    """Places of a group by server, ``(servers, ranks of each)``; ``None`` if servers differ."""
    order = np.argsort(groups[0] // local_size, kind="stable")
    server = groups[:, order] // local_size
    inside = int((server[0] == server[0, 0]).sum())
    if groups.shape[1] % inside:
        return None
    servers = server.reshape(len(groups), -1, inside)
    first = servers[:, :, 0]
    even = (servers == first[:, :, None]).all() and (np.diff(np.sort(first, axis=1)) != 0).all()
    return order.reshape(-1, inside) if even else None


def _lower_bound(groups: Ints, rounds: list[GroupRound], algorithm: str) -> int:
    """Transfers of the busiest port; of a tree at least its depth."""
    transfers_at: dict[int, Ints] = defaultdict(lambda: np.zeros(groups.shape[1], dtype=np.int64))
    for turn in rounds:
        senders = np.flatnonzero(turn.destination != IDLE)
        transfers_at[0][senders] += turn.repeats
        transfers_at[1][turn.destination[senders]] += turn.repeats
    busiest = 0
    for transfers in transfers_at.values():
        of_rank = np.zeros(int(groups.max()) + 1, dtype=np.int64)
        np.add.at(of_rank, groups.reshape(-1), np.tile(transfers, len(groups)))
        busiest = max(busiest, int(of_rank.max()))
    return max(busiest, len(rounds)) if algorithm == "tree" else busiest
