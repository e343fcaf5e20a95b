"""The task graph of one step as columns, the form in which it crosses into the Rust core.

Mirrors ``crates/model/src/task_graph.rs``, which says what each task means. A *worker* is the set
of GPUs of one server that serve one EP group; worker ``(stage, replica, member)`` has the index
``(stage * replicas + replica) * members + member``; all workers of a stage run one program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt


class Kind(IntEnum):
    """What a task does."""

    COMPUTE = 0
    EXPERT = 1
    LOCAL = 2
    ALL_TO_ALL = 3
    SEND = 4
    RECEIVE = 5
    RING = 6
    WAIT = 7
    EXPERT_TP = 8


class Category(IntEnum):
    """Where the time of a task is charged; the names in results are these in lower case."""

    ATTENTION = 0
    GATE = 1
    EXPERT = 2
    DENSE_FFN = 3
    HEAD = 4
    OPTIMIZER = 5
    TP = 6
    EP = 7
    PP = 8
    DP = 9
    CP = 10
    RECONFIGURATION = 11
    BUBBLE = 12


class Ring(IntEnum):
    """Which ring collective; the ``flags`` of a ``RING`` task."""

    ALL_REDUCE = 0
    REDUCE_SCATTER = 1
    ALL_GATHER = 2


#: ``flags`` of ``ALL_TO_ALL`` and (``BACKWARD`` only) ``EXPERT`` tasks
TRANSPOSED, FIRST, BACKWARD = 1, 2, 4

#: no layer or no micro-batch
NONE = 0xFFFF

#: columns of a program and their types:
#: ``duration_ps`` of COMPUTE; ``bytes`` of LOCAL (per GPU), ALL_TO_ALL (per token copy), SEND and
#: RING (per worker); ``local_bytes`` of RING (per GPU); ``block`` of EXPERT, EXPERT_TP
#: and ALL_TO_ALL; ``peer`` is the stage of SEND and RECEIVE, the scope of RING; ``tag`` of SEND and
#: RECEIVE, the handle of RING and WAIT.
COLUMNS: dict[str, Any] = {
    "kind": np.uint8,
    "category": np.uint8,
    "layer": np.uint16,
    "micro_batch": np.uint16,
    "flags": np.uint8,
    "duration_ps": np.uint64,
    "bytes": np.uint64,
    "local_bytes": np.uint64,
    "block": np.uint32,
    "peer": np.uint32,
    "tag": np.uint32,
}


@dataclass
class Program:
    """The tasks of one stage, built row by row."""

    rows: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, kind: Kind, category: Category, **values: int) -> None:
        """Append one task; columns not given are 0, ``layer`` and ``micro_batch`` are NONE."""
        row = {"layer": NONE, "micro_batch": NONE, **values, "kind": kind, "category": category}
        unknown = row.keys() - COLUMNS.keys()
        assert not unknown, f"no such columns: {unknown}"
        self.rows.append(tuple(int(row.get(name, 0)) for name in COLUMNS))

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Columns as arrays, one entry per task."""
        transposed = list(zip(*self.rows, strict=True)) or [()] * len(COLUMNS)
        return {
            name: np.array(values, dtype=dtype)
            for (name, dtype), values in zip(COLUMNS.items(), transposed, strict=True)
        }


@dataclass(frozen=True)
class Layout:
    """Which worker sits on which server."""

    stages: int
    replicas: int
    members: int
    gpus_per_worker: int
    worker_server: npt.NDArray[np.uint32]

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self.stages * self.replicas * self.members

    @property
    def groups(self) -> int:
        """Number of EP groups."""
        return self.stages * self.replicas

    def group_servers(self) -> npt.NDArray[np.uint32]:
        """Servers of each EP group, ``(groups, members)``."""
        return self.worker_server.reshape(self.groups, self.members)


@dataclass(frozen=True)
class Scope:
    """Rings for one kind of collective: ring ``g`` is ``workers[offsets[g]:offsets[g + 1]]``."""

    name: str
    offsets: npt.NDArray[np.uint32]
    workers: npt.NDArray[np.uint32]


@dataclass(frozen=True)
class TokenBlocks:
    """Token counts per EP group and block, and expert times; see the Rust type for the layout.

    ``tokens`` is ``(groups, blocks, members, members)``; the diagonal counts copies between
    different GPUs of a member. ``rank_tokens`` is ``(groups, blocks, ranks, ranks)`` or ``None``.
    ``expert_*_ps`` are ``(groups, blocks, members)``, and so are the bytes of one EXPERT_TP task,
    of each GPU of the member's busiest rank and of all GPUs of the member; ``None`` without them.
    """

    tokens: npt.NDArray[np.uint32]
    expert_forward_ps: npt.NDArray[np.uint64]
    expert_backward_ps: npt.NDArray[np.uint64]
    ranks_per_member: int = 0
    rank_tokens: npt.NDArray[np.uint32] | None = None
    expert_tp_per_gpu: npt.NDArray[np.uint64] | None = None
    expert_tp_total: npt.NDArray[np.uint64] | None = None


@dataclass(frozen=True)
class TaskGraph:
    """One step: programs per stage, ring scopes, token blocks."""

    layout: Layout
    programs: list[Program]
    scopes: list[Scope]
    blocks: TokenBlocks
