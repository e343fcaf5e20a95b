"""Phases as a task graph: all ranks compute, then send each other bytes, phase after phase.

A phase is one all-to-all whose demand is the phase's: a rank begins to send when it has computed,
and goes on to the next phase when all of its own bytes have left and all that it is sent have
arrived. Ranks fill servers in ascending order; those of a server wait for each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.units import PS_PER_S
from lightloom.workload.builder import Block, Entry, ProgramBuilder, TaskGraphBuilder
from lightloom.workload.task_graph import TaskGraph

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: entries of tables of demand, 4 bytes each: between servers, and between ranks, of which above
#: that only servers are told apart
MAX_COUNTS, MAX_RANK_COUNTS = 400_000_000, 400_000_000
#: what bytes of phases are called in results, unless they have a purpose of their own
PURPOSE = "transfers"
#: a count has 32 bits, and stands for at most so many bytes
_MAX_COUNT, _MAX_UNIT = (1 << 32) - 1, 1 << 30
#: parts of a common divisor that are tried as the unit of counts
_MAX_PARTS = 4096


@dataclass(frozen=True, eq=False)
class Phase:
    """What ranks compute, then what they send each other.

    Attributes
    ----------
    source, destination, size_bytes
        Of each transfer, ``(transfers,)``; transfers of one pair add up, and what a rank sends
        itself costs nothing.
    compute_s
        Of each rank before, ``(ranks,)``, or one time of all.
    """

    source: Ints
    destination: Ints
    size_bytes: Ints
    compute_s: Floats | float = 0.0


@dataclass(frozen=True, eq=False)
class PhaseSequence:
    """Phases in their order; a phase that is there several times is one object.

    Attributes
    ----------
    ranks
        Their number.
    order
        Phase after phase.
    purpose
        What its bytes are called in results.
    """

    ranks: int
    order: tuple[Phase, ...]
    purpose: str

    @property
    def distinct(self) -> list[Phase]:
        """Each phase once, in the order in which they are first there."""
        return list({id(phase): phase for phase in self.order}.values())


def phase_graph(
    phases: PhaseSequence, gpus_per_server: int, compute_scale: float = 1.0
) -> TaskGraph:
    """Build the task graph of phases.

    Parameters
    ----------
    phases
        What is computed and sent.
    gpus_per_server
        Ranks of a server.
    compute_scale
        Factor on every compute time.

    Raises
    ------
    InputError
        If the tables of demand would be too large.
    """
    servers = phases.ranks // gpus_per_server
    graph = TaskGraphBuilder(range(servers), gpus_per_server)
    program = graph.role("ranks", range(servers))
    writer = PhaseWriter(graph, phases, gpus_per_server)
    writer.write(program, compute_scale)
    return graph.build()


class PhaseWriter:
    """Adds the tables of phases to a graph, and writes them into a program of all workers.

    Parameters
    ----------
    graph
        Of workers that are whole servers.
    phases, gpus_per_server
        As of :func:`phase_graph`.
    """

    def __init__(
        self, graph: TaskGraphBuilder, phases: PhaseSequence, gpus_per_server: int
    ) -> None:
        self.graph, self.phases, self.size = graph, phases, gpus_per_server
        self.servers = phases.ranks // gpus_per_server
        distinct = phases.distinct
        self._place = {id(phase): place for place, phase in enumerate(distinct)}
        self._family = graph.family(phases.purpose, [range(self.servers)])
        self._units, self._demand = self._tables(distinct)

    def _tables(self, distinct: Sequence[Phase]) -> tuple[list[int], int]:
        """Bytes of a count of each phase, and the index of their table of demand."""
        entries = len(distinct) * self.servers**2
        if entries > MAX_COUNTS:
            raise InputError(
                f"{len(distinct):,} phases between {self.servers:,} servers: {entries:,} numbers "
                f"exceed the limit of {MAX_COUNTS:,}; use fewer distinct phases"
            )
        ranks = self.phases.ranks
        keeps = self.size > 1 and self.servers > 1
        keeps = keeps and len(distinct) * ranks**2 <= MAX_RANK_COUNTS
        counts = np.zeros((1, len(distinct), self.servers, self.servers), dtype=np.uint32)
        fine = np.zeros((1, len(distinct), ranks, ranks), dtype=np.uint32) if keeps else None
        units = []
        for place, phase in enumerate(distinct):
            source, destination, sizes = _crossing(phase)
            unit = _unit(sizes, source // self.size * self.servers + destination // self.size)
            units.append(unit)
            number = np.round(sizes / unit).astype(np.int64)
            between = np.zeros((self.servers, self.servers), dtype=np.int64)
            np.add.at(between, (source // self.size, destination // self.size), number)
            counts[0, place] = between
            if fine is not None:
                np.add.at(fine[0, place], (source, destination), number.astype(np.uint32))
        demand = self.graph.demand(
            self.phases.purpose, self._family, counts,
            ranks_per_member=0 if fine is None else self.size, rank_counts=fine,
        )  # fmt: skip
        return units, demand

    def write(self, program: ProgramBuilder, compute_scale: float = 1.0) -> None:
        """Write all phases in their order."""
        entries, table = self._computes(compute_scale)
        for phase in self.phases.order:
            place = self._place[id(phase)]
            entry = entries.get(place)
            if entry is not None:
                assert table is not None
                program.compute("other", Entry(table, entry))
            elif np.any(phase.compute_s):
                program.compute("other", float(np.max(phase.compute_s)) * compute_scale)
            if len(phase.source):
                self.write_phase(program, place)

    def write_phase(self, program: ProgramBuilder, place: int, **placed: object) -> None:
        """Write what is sent in one distinct phase, by its place among them."""
        block = Block(self._demand, place, self._units[place])
        program.all_to_all(self._family, block, self.phases.purpose, **placed)

    def _computes(self, scale: float) -> tuple[dict[int, int], int | None]:
        """Entry of each phase whose servers compute unlike, and the table of their times."""
        columns: list[Ints] = []
        entries: dict[int, int] = {}
        for place, phase in enumerate(self.phases.distinct):
            if isinstance(phase.compute_s, float | int):
                continue
            by_server = np.asarray(phase.compute_s).reshape(self.servers, self.size).max(axis=1)
            if (by_server != by_server[0]).any():
                entries[place] = len(columns)
                columns.append(np.round(by_server * scale * PS_PER_S).astype(np.int64))
        if not columns:
            return entries, None
        return entries, self.graph.table("computes", np.stack(columns, axis=1))


def _crossing(phase: Phase) -> tuple[Ints, Ints, Ints]:
    """Source, destination and bytes of what leaves its rank."""
    kept = (phase.source != phase.destination) & (phase.size_bytes > 0)
    return phase.source[kept], phase.destination[kept], phase.size_bytes[kept]


def _unit(sizes: Ints, pairs: Ints) -> int:
    """Bytes of a count, with which the sums of pairs of servers are exact counts of 32 bits.

    Where no unit is exact it is one of 2^31 parts of the largest sum, and sizes are rounded.
    """
    if not len(sizes):
        return 1
    divisor = math.gcd(*np.unique(sizes).tolist())
    most = int(np.bincount(np.unique(pairs, return_inverse=True)[1], weights=sizes).max())
    for part in range(-(-divisor // _MAX_UNIT), _MAX_PARTS):
        if divisor % part == 0 and most <= divisor // part * _MAX_COUNT:
            return divisor // part
    return -(-most // (_MAX_COUNT // 2))
