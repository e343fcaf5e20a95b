"""Writing task graphs by hand: roles, groups and their programs, task by task.

A step of fully sharded data parallelism, four layers on eight servers::

    step = TaskGraphBuilder(worker_server=range(8), gpus_per_worker=8)
    shards = step.family("fsdp", [range(8)])
    trainer = step.role("trainer", range(8))
    for layer in range(4):
        trainer.all_gather(shards, 200_000_000, "fsdp", handle=("gather", layer), stream=1)
    for layer in range(4):
        trainer.wait(("gather", layer), "fsdp")
        trainer.compute("forward", 1e-3, layer=layer)
    run = simulate(step.build(), network)

Tasks of a stream run in order, streams of a worker side by side. A task with a handle is waited for
by one later task, of any stream. An asynchronous collective does not hold its stream.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.units import to_ps
from lightloom.workload.regional import regional_family
from lightloom.workload.task_graph import (
    ASYNCHRONOUS,
    COLUMNS,
    DEFAULTS,
    FIRST,
    TRANSPOSED,
    Category,
    Collective,
    DemandTable,
    GroupFamily,
    Kind,
    Program,
    Role,
    TaskGraph,
    WorkerTable,
)

#: handles that are not integers are numbered from here on
_FIRST_NAMED_HANDLE = 1 << 31

#: a row that says nothing
_ROW = [*DEFAULTS.values()]
#: where each column is in a row
_PLACES = {name: place for place, name in enumerate(COLUMNS)}
#: rows that are kept as such, before they become columns, which take a third of the memory
_MAX_ROWS = 1 << 16


@dataclass(frozen=True)
class Entry:
    """A number that differs between workers: entry ``entry`` of table ``table``."""

    table: int
    entry: int


@dataclass(frozen=True)
class Block:
    """A block of a demand table, times bytes per count.

    ``transposed`` swaps sources and destinations; ``first`` says that nobody knows the demand
    before the all-to-all is reached.
    """

    demand: int
    block: int
    unit_bytes: int = 1
    transposed: bool = False
    first: bool = False


class ProgramBuilder:
    """Writes the program of a role.

    Every method appends one task. ``category`` names where its time is charged; the first use of
    a name makes the category, of communication with the name as its purpose. Further keywords are
    ``stream``, ``layer`` and ``micro_batch``, for what is sent ``priority``, for all that does not
    wait ``handle``, and for collectives ``asynchronous``.
    """

    def __init__(self, categories: _Categories) -> None:
        self._categories = categories
        self._rows: list[Sequence[int]] = []
        self._written: list[Program] = []
        self._handles: dict[Hashable, int] = {}

    def __len__(self) -> int:
        """Number of tasks."""
        return sum(map(len, self._written)) + len(self._rows)

    def compute(
        self,
        category: str,
        duration_s: float | Entry = 0.0,
        *,
        duration_ps: int | None = None,
        **placed: Any,
    ) -> None:
        """Occupy the stream: for seconds, for exact picoseconds, or by a table of picoseconds."""
        if isinstance(duration_s, Entry):
            size, table = 0, {"table": duration_s.table, "entry": duration_s.entry}
        else:
            size, table = to_ps(duration_s) if duration_ps is None else duration_ps, {}
        category_index = self._categories.compute(category)
        self._add(Kind.COMPUTE, category_index, {"size": size, **table}, placed)

    def inside(
        self,
        per_gpu_bytes: int | Entry,
        category: str,
        *,
        total: Entry | None = None,
        peers: int = 0,
        collective: Collective = Collective.ALL_GATHER,
        **placed: Any,
    ) -> None:
        """A collective among the GPUs of each worker, in which each moves so many bytes.

        An all-reduce is so many bytes around a ring, which switches that add up may shorten.
        With tables, ``per_gpu_bytes`` is of the busiest GPU and ``total`` of all together.
        ``peers`` are the other GPUs of a group, with whose number the start-up grows.
        """
        values = self._inside(per_gpu_bytes) | {"peers": peers}
        if total is not None:
            assert isinstance(per_gpu_bytes, Entry)
            assert total.entry == per_gpu_bytes.entry
            values["total"] = total.table
        values["collective"] = collective
        self._collective(category, values, placed)

    def all_to_all(self, family: int, demand: int | Block, category: str, **placed: Any) -> None:
        """All-to-all over the group: of a buffer of so many bytes per worker, or of a block."""
        values: dict[str, int] = {"collective": Collective.ALL_TO_ALL, "family": family}
        if isinstance(demand, Block):
            values |= {
                "size": demand.unit_bytes,
                "demand": demand.demand,
                "entry": demand.block,
                "flags": TRANSPOSED * demand.transposed | FIRST * demand.first,
            }
        else:
            values["size"] = demand
        self._collective(category, values, placed)

    def all_reduce(self, family: int, size_bytes: int, category: str, **placed: Any) -> None:
        """Add up a buffer of so many bytes per worker over the group."""
        self.ring(Collective.ALL_REDUCE, family, size_bytes, category, **placed)

    def reduce_scatter(self, family: int, size_bytes: int, category: str, **placed: Any) -> None:
        """Add up a buffer over the group and leave each worker its share."""
        self.ring(Collective.REDUCE_SCATTER, family, size_bytes, category, **placed)

    def all_gather(self, family: int, size_bytes: int, category: str, **placed: Any) -> None:
        """Gather a buffer of so many bytes of which each worker of the group has a share."""
        self.ring(Collective.ALL_GATHER, family, size_bytes, category, **placed)

    def broadcast(self, family: int, size_bytes: int, category: str, **placed: Any) -> None:
        """Send the buffer of the first worker of the group to the others."""
        self.ring(Collective.BROADCAST, family, size_bytes, category, **placed)

    def ring(
        self,
        collective: Collective,
        family: int,
        size_bytes: int,
        category: str,
        *,
        inside: int | Entry = 0,
        peers: int = 0,
        **placed: Any,
    ) -> None:
        """Any collective but an all-to-all.

        ``inside`` is what each GPU moves inside its worker, with so many ``peers``.
        """
        values = {"collective": collective, "family": family, "size": size_bytes, "peers": peers}
        self._collective(category, values | self._inside(inside), placed)

    def send(
        self,
        peer: int | tuple[int, int],
        tag: int,
        size_bytes: int | Entry,
        category: str,
        **placed: Any,
    ) -> None:
        """Send to the worker at the same place of a role, or to ``(family, place)``.

        With a ``handle``, the message leaves once its receiver waits for it, and the task is done
        when it has arrived (a rendezvous); without one, nobody waits for it but the receiver.
        """
        values = self._peer(peer) | {"tag": tag}
        if isinstance(size_bytes, Entry):
            values |= {"table": size_bytes.table, "entry": size_bytes.entry}
        else:
            values["size"] = size_bytes
        self._add(Kind.SEND, self._categories.communication(category), values, placed)

    def receive(self, peer: int | tuple[int, int], tag: int, category: str, **placed: Any) -> None:
        """Wait for what a peer sends with this tag."""
        category_index = self._categories.communication(category)
        self._add(Kind.RECEIVE, category_index, self._peer(peer) | {"tag": tag}, placed)

    def wait(self, handle: Hashable, category: str, *, slowed: float = 0.0, **placed: Any) -> None:
        """Wait for the earlier task with this handle.

        ``slowed`` is the share of the worker's speed that this task took: what was computed
        meanwhile is done later.
        """
        category_index = self._categories.any(category)
        values = {"size": round(slowed * 1e6)}
        self._add(Kind.WAIT, category_index, values, {**placed, "handle": handle})

    def build(self) -> Program:
        """Return the columns of what was written."""
        self._keep()
        return Program.joined(self._written)

    def _collective(self, category: str, values: dict[str, int], placed: dict[str, Any]) -> None:
        if placed.pop("asynchronous", False):
            values["flags"] = values.get("flags", 0) | ASYNCHRONOUS
        self._add(Kind.COLLECTIVE, self._categories.communication(category), values, placed)

    def _inside(self, inside: int | Entry) -> dict[str, int]:
        if isinstance(inside, Entry):
            return {"table": inside.table, "entry": inside.entry}
        return {"inside": inside}

    def _peer(self, peer: int | tuple[int, int]) -> dict[str, int]:
        if isinstance(peer, tuple):
            return {"family": peer[0], "peer": peer[1]}
        return {"peer": peer}

    def _add(
        self, kind: Kind, category: int, values: dict[str, int], placed: dict[str, Any]
    ) -> None:
        if (handle := placed.pop("handle", None)) is not None:
            values["handle"] = self._handle(handle)
        values["kind"], values["category"] = kind, category
        row = _ROW.copy()
        try:
            for name, value in values.items():
                row[_PLACES[name]] = int(value)
            for name, value in placed.items():
                row[_PLACES[name]] = int(value)
        except KeyError:
            unknown = sorted({*values, *placed} - _PLACES.keys())
            fields = "stream, priority, layer, micro_batch, handle, asynchronous"
            raise InputError(f"a task has no {', '.join(unknown)}: expected {fields}") from None
        self._rows.append(row)
        if len(self._rows) >= _MAX_ROWS:
            self._keep()

    def _keep(self) -> None:
        """Turn what was written into columns."""
        self._written.append(Program.from_rows(self._rows))
        self._rows = []

    def _handle(self, handle: Hashable) -> int:
        if isinstance(handle, int):
            return handle
        return self._handles.setdefault(handle, _FIRST_NAMED_HANDLE + len(self._handles))


class TaskGraphBuilder:
    """Collects the workers, groups, tables and programs of a step.

    Parameters
    ----------
    worker_server
        Server of each worker.
    gpus_per_worker
        GPUs of each worker.
    categories
        Where time is charged, in order, if that matters; others are added as programs use them.
    """

    def __init__(
        self,
        worker_server: Iterable[int],
        gpus_per_worker: int,
        categories: Sequence[Category] = (),
    ) -> None:
        self._servers = np.array(list(worker_server), dtype=np.uint32)
        self._gpus_per_worker = gpus_per_worker
        self._categories = _Categories(categories)
        self._roles: list[tuple[str, npt.NDArray[np.uint32], ProgramBuilder]] = []
        self._families: list[GroupFamily] = []
        self._demands: list[DemandTable] = []
        self._tables: list[WorkerTable] = []

    def role(self, name: str, workers: Iterable[int]) -> ProgramBuilder:
        """Add a role of these workers; its index for messages counts roles from 0."""
        builder = ProgramBuilder(self._categories)
        self._roles.append((name, np.array(list(workers), dtype=np.uint32), builder))
        return builder

    def family(self, name: str, groups: Iterable[Sequence[int]]) -> int:
        """Add a family of disjoint groups; returns its index."""
        return self.add_family(GroupFamily.of(name, groups))

    def add_family(self, family: GroupFamily) -> int:
        """Add a family of groups; returns its index."""
        self._families.append(family)
        return len(self._families) - 1

    def demand(
        self,
        name: str,
        family: int,
        counts: npt.NDArray[Any],
        *,
        ranks_per_member: int = 0,
        rank_counts: npt.NDArray[Any] | None = None,
        deduplicated: bool = False,
    ) -> int:
        """Add a demand table, ``(groups, blocks, members, members)``; returns its index."""
        fine = None if rank_counts is None else np.asarray(rank_counts, dtype=np.uint32)
        table = np.asarray(counts, dtype=np.uint32)
        self._demands.append(
            DemandTable(name, family, table.shape[1], table, ranks_per_member, fine, deduplicated)
        )
        return len(self._demands) - 1

    def table(self, name: str, values: npt.NDArray[Any]) -> int:
        """Add numbers per worker, ``(workers, entries)``; returns the index of the table."""
        table = np.asarray(values, dtype=np.uint64)
        self._tables.append(WorkerTable(name, table.shape[1], table))
        return len(self._tables) - 1

    def build(self) -> TaskGraph:
        """Return the task graph; circuits follow the groups of its experts."""
        roles = tuple(Role(name, workers, rows.build()) for name, workers, rows in self._roles)
        graph = TaskGraph(
            gpus_per_worker=self._gpus_per_worker,
            worker_server=self._servers,
            categories=self._categories.all(),
            roles=roles,
            regional_family=None,
            families=tuple(self._families),
            demands=tuple(self._demands),
            tables=tuple(self._tables),
        )
        return dataclasses.replace(graph, regional_family=regional_family(graph))


class _Categories:
    """The categories of a graph by name."""

    def __init__(self, categories: Sequence[Category]) -> None:
        self._known = {category.name: category for category in categories}
        self._index = {name: index for index, name in enumerate(self._known)}
        self._found: dict[tuple[str, str], int] = {}

    def compute(self, name: str) -> int:
        category = self._found.get(("compute", name))
        return self._find(Category(name)) if category is None else category

    def communication(self, name: str) -> int:
        category = self._found.get(("communication", name))
        return self._find(Category(name, "communication", name)) if category is None else category

    def any(self, name: str) -> int:
        """A category of any use, such as a wait's, which charges what it waits for."""
        return self._find(self._known.get(name, Category(name, "communication", name)))

    def all(self) -> tuple[Category, ...]:
        """Those in use, and the two kinds of waiting."""
        used = {category.used_for for category in self._known.values()}
        waits = (Category("reconfiguration", "reconfiguration"), Category("bubble", "idle"))
        return (*self._known.values(), *(wait for wait in waits if wait.used_for not in used))

    def _find(self, category: Category) -> int:
        first = self._known.setdefault(category.name, category)
        if first.used_for != category.used_for:
            raise InputError(
                f"category '{category.name}' is of {first.used_for}: a task of "
                f"{category.used_for} needs another"
            )
        index = self._index.setdefault(category.name, len(self._index))
        self._found[category.used_for, category.name] = index
        return index
