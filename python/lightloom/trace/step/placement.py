"""Where the ranks of a traced job sit, and which of them move together.

Ranks fill servers in ascending order. A *worker* is as many consecutive ranks of a server as act
alike: they have one role, their groups run along the same workers and cover them evenly, messages
go to another worker, and the members of an all-to-all that share a server share the worker, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lightloom.errors import InputError
from lightloom.trace.check import MESSAGES
from lightloom.trace.job import Ints, JobRoles, RankFamily
from lightloom.trace.trace import Call
from lightloom.workload.rings import share_inside

#: operations that become a demand between the members of a group
DEMANDS = {"all_to_all", "gather", "scatter"}


@dataclass(frozen=True, eq=False)
class WorkerFamily:
    """Groups of one name, as groups of workers.

    Attributes
    ----------
    name
        As the program calls them.
    rank_groups
        The ranks of each group in its order, ``(groups, size)``; no rank is in two.
    groups
        Workers of each group of workers, ascending, ``(groups, workers)``.
    of_rank_group
        The group of workers that each group of ranks runs along.
    order
        Places of each group of ranks, worker by worker, ``(groups, size)``.
    """

    name: str
    rank_groups: Ints
    groups: Ints
    of_rank_group: Ints
    order: Ints

    @property
    def on_worker(self) -> int:
        """Members of a group that share a worker."""
        return int(self.rank_groups.shape[1] // self.groups.shape[1])

    @property
    def workers(self) -> int:
        """Workers of a group."""
        return int(self.groups.shape[1])

    def crossing(self, buffer_bytes: float, gpus_per_worker: int) -> int:
        """Bytes per worker that go around the ring, for a buffer per GPU."""
        if self.workers == 1:
            return 0
        return round(buffer_bytes * gpus_per_worker / self.on_worker)

    def local(self, buffer_bytes: float, passes: int) -> int:
        """Bytes that each GPU moves inside its worker."""
        return round(passes * buffer_bytes * share_inside(self.on_worker, self.workers))


@dataclass(frozen=True, eq=False)
class TracedRole:
    """Ranks that run one program, and where their messages go.

    Attributes
    ----------
    ranks
        Ascending.
    recorded
        The rank whose calls stand for all.
    peers
        Role of the other end of messages, by group, ranks and peer of a call.
    """

    ranks: Ints
    recorded: int
    peers: dict[tuple[str, tuple[int, ...], int], int]


@dataclass(frozen=True, eq=False)
class WorkerPlacement:
    """Ranks, workers and servers of a job.

    Attributes
    ----------
    job
        Its roles and families of ranks.
    gpus_per_worker, gpus_per_server, worker_server
        Ranks of each worker and of a server; server of each worker, ``(workers,)``.
    families
        Those that collectives use, in the order of the graph's.
    roles
        Ranks that run one program.
    """

    job: JobRoles
    gpus_per_worker: int
    gpus_per_server: int
    worker_server: Ints
    families: tuple[WorkerFamily, ...]
    roles: tuple[TracedRole, ...]
    _family_of: dict[tuple[int, int], int] = field(repr=False)

    def family_of(self, call: Call) -> int:
        """Index of the family of a collective."""
        return self._family_of[self.job.group_index[call.group, call.ranks]]

    def workers_of(self, ranks: Ints) -> Ints:
        """The workers of ranks that fill them, each once and in order."""
        return np.unique(ranks // self.gpus_per_worker)

    @cached_property
    def role_of_rank(self) -> Ints:
        """Index of each rank's role, ``(world_size,)``."""
        roles = np.zeros(self.job.world_size, dtype=np.int64)
        for number, role in enumerate(self.roles):
            roles[role.ranks] = number
        return roles


def place(job: JobRoles, gpus_per_server: int) -> WorkerPlacement:
    """Find workers that are as large as can be.

    Raises
    ------
    InputError
        If messages of one role go to several, or even single ranks do not fit groups.
    """
    roles = _roles(job)
    role_of_rank = np.zeros(job.world_size, dtype=np.int64)
    for number, role in enumerate(roles):
        role_of_rank[role.ranks] = number
    used = _used_families(job)
    size = int(np.gcd(gpus_per_server, job.world_size))
    reason = ""
    for gpus in (count for count in range(size, 0, -1) if size % count == 0):
        if (role_of_rank.reshape(-1, gpus) != role_of_rank[::gpus, None]).any():
            reason = "ranks of one server act differently"
            continue
        reason = ""
        families: list[WorkerFamily] = []
        family_of: dict[tuple[int, int], int] = {}
        for number, has_demand in used.items():
            for rank_groups, indices in _disjoint(job.families[number]):
                name = job.families[number].name
                laid_out = _laid_out(name, rank_groups, (gpus, gpus_per_server), has_demand)
                if isinstance(laid_out, str):
                    reason = laid_out
                    break
                family_of |= {(number, int(index)): len(families) for index in indices}
                families.append(laid_out)
            if reason:
                break
        if not reason:
            servers = np.arange(job.world_size // gpus) * gpus // gpus_per_server
            return WorkerPlacement(
                job, gpus, gpus_per_server, servers, tuple(families), roles, family_of
            )
    raise InputError(f"ranks do not fit servers of {gpus_per_server} GPUs: {reason}")


def _used_families(job: JobRoles) -> dict[int, bool]:
    """Families of collectives, and whether some are demands between members."""
    used: dict[int, bool] = {}
    for _, calls in sorted(job.calls.items()):
        for call in calls:
            if len(call.ranks) > 1 and call.op not in MESSAGES:
                family = job.group_index[call.group, call.ranks][0]
                used[family] = used.get(family, False) or call.op in DEMANDS
    return used


def _disjoint(family: RankFamily) -> list[tuple[Ints, Ints]]:
    """Divide groups so that no rank is in two of a part; with their indices in the family."""
    parts: list[tuple[set[int], list[int]]] = []
    if len(np.unique(family.groups)) == family.groups.size:
        return [(family.groups, np.arange(len(family.groups)))]
    for index, group in enumerate(family.groups.tolist()):
        for ranks, indices in parts:
            if ranks.isdisjoint(group):
                ranks.update(group)
                indices.append(index)
                break
        else:
            parts.append((set(group), [index]))
    return [(family.groups[indices], np.array(indices)) for _, indices in parts]


def _laid_out(
    name: str, rank_groups: Ints, sizes: tuple[int, int], has_demand: bool
) -> WorkerFamily | str:
    """Groups of ranks as groups of workers of so many GPUs, or why they cannot be."""
    gpus, gpus_per_server = sizes
    workers = rank_groups // gpus
    order = np.argsort(workers, axis=1, kind="stable")
    ordered = np.take_along_axis(workers, order, axis=1)
    size = ordered.shape[1]
    here = int((ordered[0] == ordered[0, 0]).sum())
    if size % here:
        return f"group {name} covers servers unevenly"
    blocks = ordered.reshape(len(ordered), size // here, here)
    first = blocks[:, :, 0]
    if (blocks != first[:, :, None]).any() or (np.diff(first, axis=1) <= 0).any():
        return f"group {name} covers servers unevenly"
    groups, of_rank_group = np.unique(first, axis=0, return_inverse=True)
    if len(np.unique(groups)) < groups.size:
        return f"groups {name} of the ranks of a server lie on different servers"
    servers = groups * gpus // gpus_per_server
    if has_demand and (np.diff(servers, axis=1) == 0).any():
        return f"group {name} has all-to-alls between ranks of a server that act differently"
    return WorkerFamily(name, rank_groups, groups, of_rank_group.reshape(-1), order)


def _roles(job: JobRoles) -> tuple[TracedRole, ...]:
    """Divide the job's roles until the messages of each go to one role, rank by rank in order."""
    peers = {
        number: _peers(job, role.ranks, role.recorded[0]) for number, role in enumerate(job.roles)
    }
    labels = job.role_of_rank
    while True:
        columns = [labels]
        for number, channels in peers.items():
            ranks = job.roles[number].ranks
            for others in channels.values():
                column = np.full(job.world_size, -1)
                column[ranks] = labels[others]
                columns.append(column)
                if (labels[others] == labels[ranks]).all():  # around a ring: each is its own
                    column[ranks] = np.arange(len(ranks))
        refined = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        if refined.max() == labels.max():
            break
        labels = refined
    return tuple(_role(job, labels, number, peers) for number in range(int(labels.max()) + 1))


def _role(
    job: JobRoles,
    labels: Ints,
    number: int,
    peers: dict[int, dict[tuple[str, tuple[int, ...], int], Ints]],
) -> TracedRole:
    ranks = np.flatnonzero(labels == number)
    parent = int(job.role_of_rank[ranks[0]])
    parents = job.roles[parent].ranks
    places = np.searchsorted(parents, ranks)
    role_at = {}
    for channel, others in peers[parent].items():
        other = int(labels[others[places][0]])
        if not np.array_equal(np.flatnonzero(labels == other), others[places]):
            raise InputError(
                f"rank {ranks[0]} and others send to ranks in another order than their own: "
                f"record all ranks (--rank all)"
            )
        role_at[channel] = other
    return TracedRole(ranks, job.roles[parent].recorded[0], role_at)


def _peers(
    job: JobRoles, ranks: Ints, recorded: int
) -> dict[tuple[str, tuple[int, ...], int], Ints]:
    """The other end of messages of a role, for each of its ranks, by what its calls name."""
    channels: dict[tuple[str, tuple[int, ...], int], Ints] = {}
    for call in job.calls[recorded]:
        if call.op not in MESSAGES or call.peer is None:
            continue
        channel = (call.group, call.ranks, call.peer)
        if channel not in channels:
            family, group = job.group_index[call.group, call.ranks]
            offset = call.ranks.index(call.peer) - call.ranks.index(recorded)
            channels[channel] = _others(job.families[family], group, (recorded, offset), ranks)
    return channels


def _others(family: RankFamily, group: int, move: tuple[int, int], ranks: Ints) -> Ints:
    """Ranks that are so many places further in the groups of ranks."""
    recorded, offset = move
    moved = np.zeros(len(ranks), dtype=np.int64)
    places: dict[int, list[tuple[int, int]]] = {}
    for index, members in enumerate(family.groups.tolist()):
        for position, rank in enumerate(members):
            places.setdefault(rank, []).append((position, index))
    turn = [index for _, index in sorted(places[recorded])].index(group)
    for number, rank in enumerate(ranks.tolist()):
        position, index = sorted(places[rank])[turn]
        moved[number] = family.groups[index, (position + offset) % family.size]
    return moved
