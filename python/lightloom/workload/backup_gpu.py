"""A step in which a backup GPU on another server stands in for one that has failed.

MixNet (SIGCOMM 2025), section 5.4. What the failed GPU moved over the NVSwitch of its server now
crosses to the backup and back: its part of every collective among the GPUs of the worker, such as
those of tensor parallelism, and its part of every all-to-all, which is forwarded through the
worker's server. All GPUs of the worker wait for it.

The path to the backup is taken to be free of other traffic, as circuits of its own are. Bytes are
counted once, as if the GPU were in its place. Left out: the backup's part of gradient rings, which
its own NICs carry as fast as those of the failed GPU did.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from lightloom.errors import InputError
from lightloom.workload.task_graph import (
    COLUMNS,
    NO_INDEX,
    TRANSPOSED,
    Collective,
    Ints32,
    Ints64,
    Kind,
    Program,
    Role,
    TaskGraph,
    WorkerTable,
)

#: what the failed GPU's part of an all-to-all has of it, and what else it is: it comes before
_PLACED = ("category", "stream", "layer", "micro_batch")
_SHARE = dict.fromkeys(COLUMNS, 0) | {
    "kind": Kind.COLLECTIVE,
    "collective": Collective.ALL_REDUCE,
    **dict.fromkeys(("family", "handle", "demand"), NO_INDEX),
}


@dataclass(frozen=True)
class BackupGpu:
    """Which GPU has failed, and how the one that replaces it is reached.

    Attributes
    ----------
    server, gpu
        Its server and its index there.
    path_bps
        Rate of the path to the backup, per direction.
    """

    server: int
    gpu: int
    path_bps: int


@dataclass(frozen=True)
class BackupTraffic:
    """Bytes of one step that a failure of a GPU concerns.

    Attributes
    ----------
    crossing
        What crosses to the backup, and as much back.
    all_to_all
        What the worker sends or receives in all-to-alls, whichever is more.
    """

    crossing: int
    all_to_all: int


def with_backup_gpu(graph: TaskGraph, backup: BackupGpu, inside_bps: int) -> TaskGraph:
    """Return the step with a backup in place of a GPU.

    Parameters
    ----------
    graph
        The step with all GPUs.
    backup
        Which GPU has failed.
    inside_bps
        Rate of collectives over the NVSwitch, of each GPU.

    Raises
    ------
    InputError
        If the job does not use the GPU.
    """
    writer = _Writer(graph, backup.server, backup.gpu)
    rewritten = writer.program(inside_bps / backup.path_bps)
    roles = tuple(
        Role(role.name, role.workers, rewritten) if index == writer.role else role
        for index, role in enumerate(graph.roles)
    )
    return dataclasses.replace(graph, roles=roles, tables=(*graph.tables, *writer.tables()))


def backup_traffic(graph: TaskGraph, server: int, gpu: int) -> BackupTraffic:
    """Return the bytes that a failure of a GPU concerns.

    Raises
    ------
    InputError
        If the job does not use the GPU.
    """
    return _Writer(graph, server, gpu).traffic()


class _Writer:
    """Rewrites the program of the worker with the failed GPU, for all workers of its role."""

    def __init__(self, graph: TaskGraph, server: int, gpu: int) -> None:
        on_server = np.flatnonzero(graph.worker_server == server)
        place, self.gpu = divmod(gpu, graph.gpus_per_worker)
        if place >= len(on_server):
            raise InputError(f"gpu:{server}/{gpu}: the job does not use this GPU")
        self.graph = graph
        self.worker = int(on_server[place])
        self.role = next(
            index for index, role in enumerate(graph.roles) if self.worker in role.workers
        )
        #: entries of the new tables by what they stand for
        self.entries: dict[tuple[int, ...], int] = {}
        self.per_gpu: list[Ints64] = []
        self.total: list[Ints64] = []

    def program(self, ratio: float) -> Program:
        """The program; bytes that cross count ``ratio`` times, which is how long they take."""
        rows: list[dict[str, int]] = []
        for row in self._rows():
            if self._is_inside(row):
                entry = self._inside_entry(row, max(ratio, 1.0))
                rows.append(row | {"inside": 0} | self._in_tables(entry))
                continue
            if _is_all_to_all(row):
                placed = {name: row[name] for name in _PLACED}
                rows.append(_SHARE | placed | self._in_tables(self._share_entry(row, ratio)))
            rows.append(row)
        return Program.from_rows([tuple(row.values()) for row in rows])

    def tables(self) -> tuple[WorkerTable, WorkerTable]:
        """What the busiest GPU of each worker moves, and what all of its GPUs move."""
        count = len(self.per_gpu)
        shape = (len(self.graph.worker_server), count)
        columns = [
            np.stack(lists, axis=1) if lists else np.zeros(shape, np.uint64)
            for lists in (self.per_gpu, self.total)
        ]
        return (
            WorkerTable("backup_per_gpu_bytes", count, columns[0]),
            WorkerTable("backup_total_bytes", count, columns[1]),
        )

    def _in_tables(self, entry: int) -> dict[str, int]:
        first = len(self.graph.tables)
        return {"table": first, "total": first + 1, "entry": entry}

    def traffic(self) -> BackupTraffic:
        """Bytes that cross, and bytes of the worker's all-to-alls."""
        crossing = 0
        sent = received = 0
        for row in self._rows():
            if self._is_inside(row):
                crossing += int(self._inside_of(row)[self.worker])
            elif _is_all_to_all(row):
                crossing += self._share(row)
                outward, inward = self._all_to_all(row)
                sent, received = sent + outward, received + inward
        return BackupTraffic(crossing, max(sent, received))

    def _rows(self) -> list[dict[str, int]]:
        program = self.graph.roles[self.role].program
        return [dict(zip(COLUMNS, row, strict=True)) for row in program.rows()]

    def _is_inside(self, row: dict[str, int]) -> bool:
        """Whether it is a collective among the GPUs of each worker alone."""
        if row["kind"] != Kind.COLLECTIVE or row["collective"] == Collective.ALL_TO_ALL:
            return False
        if row["family"] == NO_INDEX:
            return True
        offsets = self.graph.families[row["family"]].offsets
        return bool((np.diff(offsets) == 1).all())

    def _column(self, table: int, entry: int) -> Ints64:
        return self.graph.tables[table].values[:, entry]

    def _inside_of(self, row: dict[str, int]) -> Ints64:
        """Bytes of the busiest GPU of each worker."""
        if row["table"] != NO_INDEX:
            return self._column(row["table"], row["entry"])
        return np.full(len(self.graph.worker_server), row["inside"], np.uint64)

    def _inside_entry(self, row: dict[str, int], ratio: float) -> int:
        key = tuple(row[name] for name in ("inside", "table", "total", "entry"))
        if key not in self.entries:
            per_gpu = self._inside_of(row)
            total = per_gpu * np.uint64(self.graph.gpus_per_worker)
            if row["total"] != NO_INDEX:
                total = self._column(row["total"], row["entry"])
            slowed = per_gpu.copy()
            slowed[self.worker] = round(float(per_gpu[self.worker]) * ratio)
            self._add(key, slowed, total)
        return self.entries[key]

    def _share_entry(self, row: dict[str, int], ratio: float) -> int:
        key = tuple(row[name] for name in ("demand", "entry", "flags", "size", "family"))
        if key not in self.entries:
            per_gpu = np.zeros(len(self.graph.worker_server), np.uint64)
            per_gpu[self.worker] = round(self._share(row) * ratio)
            # counted by the all-to-all itself
            self._add(key, per_gpu, np.zeros_like(per_gpu))
        return self.entries[key]

    def _add(self, key: tuple[int, ...], per_gpu: Ints64, total: Ints64) -> None:
        self.entries[key] = len(self.per_gpu)
        self.per_gpu.append(per_gpu)
        self.total.append(total)

    def _all_to_all(self, row: dict[str, int]) -> tuple[int, int]:
        """Bytes that the worker sends to others, and receives."""
        if row["demand"] == NO_INDEX:
            return row["size"], row["size"]
        table = self.graph.demands[row["demand"]]
        group, member = self._member(table.family)
        counts = table.counts[group, row["entry"]]
        return _sent_and_received(counts, member, row)

    def _share(self, row: dict[str, int]) -> int:
        """Bytes of an all-to-all that the failed GPU sends or receives, whichever is more."""
        gpus = self.graph.gpus_per_worker
        if row["demand"] == NO_INDEX:
            return row["size"] // gpus
        table = self.graph.demands[row["demand"]]
        group, member = self._member(table.family)
        ranks = table.ranks_per_member
        if table.rank_counts is not None and ranks:
            rank = member * ranks + self.gpu * ranks // gpus
            share = max(_sent_and_received(table.rank_counts[group, row["entry"]], rank, row))
            return share * ranks // gpus
        counts = table.counts[group, row["entry"]]
        inside = int(counts[member, member]) * row["size"]
        return (max(_sent_and_received(counts, member, row)) + inside) // gpus

    def _member(self, family: int) -> tuple[int, int]:
        """The worker's group in a family, and its place there."""
        for index, group in enumerate(self.graph.families[family].groups()):
            if len(places := np.flatnonzero(group == self.worker)):
                return index, int(places[0])
        raise AssertionError(f"worker {self.worker} takes part in no all-to-all of its program")


def _is_all_to_all(row: dict[str, int]) -> bool:
    return row["kind"] == Kind.COLLECTIVE and row["collective"] == Collective.ALL_TO_ALL


def _sent_and_received(counts: Ints32, place: int, row: dict[str, int]) -> tuple[int, int]:
    """Bytes from and to one place of a block, without what it keeps."""
    kept = int(counts[place, place])
    sent = int(counts[place].sum(dtype=np.uint64)) - kept
    received = int(counts[:, place].sum(dtype=np.uint64)) - kept
    if row["flags"] & TRANSPOSED:
        sent, received = received, sent
    return sent * row["size"], received * row["size"]
