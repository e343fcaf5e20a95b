"""The task graph of one step as columns, the form in which it crosses into the Rust core.

Mirrors ``crates/model/src/task_graph``, which says what each task means. A *worker* is a set of
GPUs of one server that move together; the workers of a *role* run one *program*, a list of tasks
in issue order; workers meet in collectives over the group that each has in a *family* of groups,
and in messages. :mod:`.builder` writes such graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Bytes8 = npt.NDArray[np.uint8]
Ints16 = npt.NDArray[np.uint16]
Ints32 = npt.NDArray[np.uint32]
Ints64 = npt.NDArray[np.uint64]


class Kind(IntEnum):
    """What a task does."""

    COMPUTE = 0
    COLLECTIVE = 1
    SEND = 2
    RECEIVE = 3
    WAIT = 4


class Collective(IntEnum):
    """Which collective."""

    ALL_TO_ALL = 0
    ALL_REDUCE = 1
    REDUCE_SCATTER = 2
    ALL_GATHER = 3
    BROADCAST = 4


#: ``flags`` of an all-to-all of a demand block: sources and destinations swap; its demand is not
#: known before it is reached. Any collective may be asynchronous: its stream goes on.
TRANSPOSED, FIRST, ASYNCHRONOUS = 1, 2, 4

#: no layer or no micro-batch
NONE = 0xFFFF
#: no family, table, demand table or handle
NO_INDEX = 0xFFFF_FFFF


@dataclass(frozen=True)
class Program:
    """The tasks of a role in issue order, one entry per task in every column.

    Attributes
    ----------
    kind, collective
        :class:`Kind`, and :class:`Collective` of those.
    category
        Index into :attr:`TaskGraph.categories`.
    stream, priority
        Stream of the worker whose turn the task takes (0 is the main one); strict priority of what
        it sends, higher first.
    flags
        ``TRANSPOSED | FIRST | ASYNCHRONOUS``.
    layer, micro_batch
        For circuits and timelines; ``NONE`` where none.
    family
        Groups of a collective, ``NO_INDEX`` for the GPUs of the worker alone; of a message, the
        family of ``peer``, ``NO_INDEX`` where that is a role.
    peer
        Role of the other end of a message, or its place in the group.
    tag
        Of a message.
    handle
        Of a task that a later one waits for, and of that one; ``NO_INDEX`` where none.
    size
        Duration in ps of computation; bytes of a message or of a collective's buffer per worker;
        bytes per count of a demand block; of a wait, parts per million of the speed of computation
        that the awaited task takes.
    inside, peers
        Bytes that each GPU moves inside the worker for a collective, and with how many others.
    demand
        Demand table of an all-to-all, ``NO_INDEX`` where ``size`` is its buffer.
    table, total, entry
        Table with a worker's ``size`` (of computation and messages) or ``inside``, and with the
        bytes of all its GPUs; ``NO_INDEX`` where all workers have the same. Entry of these tables,
        or block of the demand table.
    """

    kind: Bytes8
    collective: Bytes8
    category: Bytes8
    stream: Bytes8
    priority: Bytes8
    flags: Bytes8
    layer: Ints16
    micro_batch: Ints16
    family: Ints32
    peer: Ints32
    tag: Ints32
    handle: Ints32
    size: Ints64
    inside: Ints64
    peers: Ints32
    demand: Ints32
    table: Ints32
    total: Ints32
    entry: Ints32

    def __len__(self) -> int:
        """Number of tasks."""
        return len(self.kind)

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]]) -> Self:
        """Build the columns of tasks given as one row each, in the order of :data:`COLUMNS`."""
        transposed = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
        return cls(
            **{
                name: np.array(values, dtype=dtype)
                for (name, dtype), values in zip(COLUMNS.items(), transposed, strict=True)
            }
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """One program after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(**{name: np.concatenate([getattr(p, name) for p in parts]) for name in COLUMNS})

    def rows(self) -> list[tuple[int, ...]]:
        """Return the tasks as one tuple each, in the order of :data:`COLUMNS`."""
        return list(zip(*(getattr(self, name).tolist() for name in COLUMNS), strict=True))

    def of(self, collective: Collective) -> npt.NDArray[np.bool_]:
        """Which tasks are this collective."""
        return np.asarray((self.kind == Kind.COLLECTIVE) & (self.collective == collective))


_TYPES: dict[str, Any] = {
    "Bytes8": np.uint8,
    "Ints16": np.uint16,
    "Ints32": np.uint32,
    "Ints64": np.uint64,
}
#: columns of a program and their types
COLUMNS: dict[str, Any] = {column.name: _TYPES[str(column.type)] for column in fields(Program)}


#: what a task has where nothing is said, by column
DEFAULTS = {
    name: {"layer": NONE, "micro_batch": NONE}.get(
        name, NO_INDEX if name in {"family", "handle", "demand", "table", "total"} else 0
    )
    for name in COLUMNS
}


@dataclass(frozen=True)
class Category:
    """Where time is charged.

    Attributes
    ----------
    name
        As in results.
    used_for
        ``compute``, ``communication``, ``reconfiguration`` (waiting for circuits) or ``idle``.
    purpose
        Of communication: results count its bytes by it.
    """

    name: str
    used_for: str = "compute"
    purpose: str | None = None


@dataclass(frozen=True)
class Role:
    """Workers that run one program."""

    name: str
    workers: Ints32
    program: Program


@dataclass(frozen=True)
class GroupFamily:
    """Disjoint ordered groups: group ``g`` is ``workers[offsets[g]:offsets[g + 1]]``.

    A ring has ``absent`` more members for each of them, alike and on servers of their own, so that
    nobody needs to simulate them.
    """

    name: str
    offsets: Ints32
    workers: Ints32
    absent: int = 0

    @classmethod
    def of(cls, name: str, groups: Iterable[Sequence[int] | Ints32]) -> Self:
        """Build a family from its groups."""
        lists = [np.asarray(group, dtype=np.uint32) for group in groups]
        offsets = np.cumsum([0, *(len(group) for group in lists)])
        workers = np.concatenate(lists) if lists else np.zeros(0, np.uint32)
        return cls(name, offsets.astype(np.uint32), workers)

    def groups(self) -> list[Ints32]:
        """Return the workers of each group."""
        return np.split(self.workers, self.offsets[1:-1].astype(np.int64))


@dataclass(frozen=True)
class DemandTable:
    """What the members of each group of a family send each other, block by block.

    Attributes
    ----------
    name
        In messages.
    family, first_group
        Index of the family, and the first of its groups that is described here: those from there
        on have one size.
    blocks
        Blocks per group.
    counts
        ``(groups, blocks, members, members)``; the diagonal counts what goes between different GPUs
        of a member.
    ranks_per_member, rank_counts
        ``(groups, blocks, ranks, ranks)`` for fabrics that move data NIC by NIC; 0 and ``None``
        without.
    deduplicated
        Whether counts between members are of tokens, each sent once to a member and copied there
        (those copies are on the diagonal), and counts between ranks of tokens sent once to a rank.
    """

    name: str
    family: int
    blocks: int
    counts: Ints32
    ranks_per_member: int = 0
    rank_counts: Ints32 | None = None
    deduplicated: bool = False
    first_group: int = 0

    @property
    def groups(self) -> int:
        """How many groups are described."""
        return len(self.counts)


@dataclass(frozen=True)
class WorkerTable:
    """Numbers that differ between workers, ``(workers, entries)``: durations in ps, or bytes."""

    name: str
    entries: int
    values: Ints64


@dataclass(frozen=True)
class Layout:
    """Where workers sit, and which of them send data over circuits.

    Attributes
    ----------
    gpus_per_worker
        GPUs of each worker.
    worker_server
        Server of each worker, ``(workers,)``.
    groups
        Workers of each group whose all-to-alls circuits follow; each worker alone where there are
        no all-to-alls.
    roles
        Workers of each role.
    """

    gpus_per_worker: int
    worker_server: Ints32
    groups: tuple[Ints32, ...]
    roles: tuple[Ints32, ...]

    @classmethod
    def grid(
        cls,
        stages: int,
        replicas: int,
        members: int,
        gpus_per_worker: int,
        worker_server: Ints32,
    ) -> Self:
        """Lay out workers as ``[stage][replica][member]``; the members are a group."""
        workers = np.arange(stages * replicas * members, dtype=np.uint32)
        groups = tuple(workers.reshape(-1, members)) if members else ()
        return cls(gpus_per_worker, worker_server, groups, tuple(workers.reshape(stages, -1)))

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.worker_server)

    @property
    def members(self) -> int:
        """Workers of the largest group."""
        return max((len(group) for group in self.groups), default=1)

    def group_servers(self) -> list[Ints32]:
        """Return the servers of each group."""
        return [self.worker_server[group] for group in self.groups]


@dataclass(frozen=True)
class TaskGraph:
    """One step: who does what, and who meets whom.

    Attributes
    ----------
    gpus_per_worker, worker_server
        GPUs of each worker, and its server, ``(workers,)``.
    categories
        Where time is charged.
    roles
        Workers and their programs.
    regional_family
        The family whose groups circuits follow, that of the experts' all-to-alls
        (:mod:`.regional`); ``None`` without all-to-alls between workers.
    families
        Groups for collectives and messages.
    demands, tables
        Demand of all-to-alls, and numbers that differ between workers.
    """

    gpus_per_worker: int
    worker_server: Ints32
    categories: tuple[Category, ...]
    roles: tuple[Role, ...]
    regional_family: int | None
    families: tuple[GroupFamily, ...] = ()
    demands: tuple[DemandTable, ...] = ()
    tables: tuple[WorkerTable, ...] = field(default=(), repr=False)

    @property
    def purposes(self) -> tuple[str, ...]:
        """Names of the purposes of communication, in the order of the categories."""
        purposes = (category.purpose for category in self.categories)
        return tuple(dict.fromkeys(purpose for purpose in purposes if purpose is not None))

    @property
    def experts_demands(self) -> Iterator[tuple[int, DemandTable]]:
        """Tables of the experts' all-to-alls that leave a worker, each with its index."""
        tables = enumerate(self.demands)
        return ((index, table) for index, table in tables if table.family == self.regional_family)

    def groups_of(self, demand: DemandTable) -> list[Ints32]:
        """Return the workers of each group that a table of demand describes."""
        groups = self.families[demand.family].groups()
        return groups[demand.first_group : demand.first_group + demand.groups]

    @cached_property
    def layout(self) -> Layout:
        """Where the workers sit, as fabrics need to know it."""
        workers = np.arange(len(self.worker_server), dtype=np.uint32)
        groups: Iterable[Ints32] = workers[:, None]
        if self.regional_family is not None:
            groups = self.families[self.regional_family].groups()
        roles = tuple(role.workers for role in self.roles)
        return Layout(self.gpus_per_worker, self.worker_server, tuple(groups), roles)
