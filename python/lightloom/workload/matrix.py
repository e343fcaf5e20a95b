"""Who sends how many bytes to whom in a step, GPU by GPU, by kind of parallelism.

Counted from the task graph. Between servers a message goes from a GPU to the one at the same place
of the other worker, as rings and pipelines do; tokens that are sent once to a server go to the GPU
at their sender's place there, and from there to the GPUs of their experts, as DeepEP sends them.
Inside a server, what a GPU moves in a collective is divided evenly among the others of its group.
Where token counts between ranks were not kept, those between servers are divided evenly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.parallel import RankGrid
from lightloom.parallel.grid import Ranks, gradient_groups, servers_of_groups
from lightloom.workload.build import Workload
from lightloom.workload.collectives import CONTEXT, DENSE, EMBEDDING, EXPERT, TENSOR
from lightloom.workload.task_graph import (
    NO_INDEX,
    TRANSPOSED,
    Collective,
    DemandTable,
    Kind,
    Program,
    Role,
)

Floats = npt.NDArray[np.float64]
#: sources, destinations and bytes of many transfers between GPUs
Transfers = tuple[Ranks, Ranks, Floats]


@dataclass(frozen=True)
class TrafficMatrix:
    """Bytes of one step.

    Attributes
    ----------
    kinds
        Names of the kinds of parallelism: ``tp ep pp dp cp``.
    size_bytes
        From row to column, ``(kinds, n, n)``; what stays inside a server, or is copied on a GPU, is
        on the diagonal.
    unit
        What rows and columns are: ``gpu`` or ``server``.
    """

    kinds: tuple[str, ...]
    size_bytes: Floats
    unit: str

    @property
    def total(self) -> Floats:
        """All kinds together, ``(n, n)``."""
        return np.asarray(self.size_bytes.sum(axis=0))

    def of(self, kind: str) -> Floats:
        """One kind, ``(n, n)``."""
        return np.asarray(self.size_bytes[self.kinds.index(kind)])


def traffic_matrix(workload: Workload, *, by_server: bool) -> TrafficMatrix:
    """What every GPU, or every server, sends to every other one in a step.

    Parameters
    ----------
    workload
        The step.
    by_server
        Whether GPUs of a server are added up.
    """
    per_unit = workload.workers.gpus_per_server if by_server else 1
    n = -(-workload.plan.gpus // per_unit)
    kinds = tuple(workload.expected_bytes)
    sums = np.zeros((len(kinds), n * n))
    for kind, transfers in _Transfers(workload).by_role():
        source, target, size = (np.concatenate(column) for column in zip(*transfers, strict=True))
        place = source // per_unit * n + target // per_unit
        sums[kinds.index(kind)] += np.bincount(place, size, minlength=n * n)
    return TrafficMatrix(kinds, sums.reshape(-1, n, n), "server" if by_server else "gpu")


class _Transfers:
    """The transfers of a step, task by task added up."""

    def __init__(self, workload: Workload) -> None:
        self._graph, self._plan = workload.graph, workload.plan
        self._grid = RankGrid(workload.plan)
        self._per_server = workload.workers.gpus_per_server
        #: GPUs of each worker, ``(workers, GPUs)``
        self._gpus = workload.workers.gpus.reshape(-1, workload.workers.gpus_per_worker)
        self._purposes = [category.purpose or "" for category in self._graph.categories]

    def by_role(self) -> Iterator[tuple[str, list[Transfers]]]:
        """Transfers of each role, by kind."""
        parts = (self._sends, self._inside, self._rings, self._buffers, self._blocks)
        for role in self._graph.roles:
            for number, purpose in enumerate(self._purposes):
                of_category = role.program.category == number
                if not purpose or not of_category.any():
                    continue
                transfers = [transfers for part in parts for transfers in part(role, of_category)]
                if transfers:
                    yield purpose, transfers

    # Between workers

    def _sends(self, role: Role, of_category: npt.NDArray[np.bool_]) -> Iterator[Transfers]:
        """Messages to the worker at the same place of another stage."""
        program = role.program
        task = of_category & (program.kind == Kind.SEND)
        sizes = program.size[task].astype(np.float64)
        volume = np.bincount(program.peer[task], sizes, len(self._graph.roles))
        for peer in np.flatnonzero(volume):
            there = self._graph.roles[peer].workers
            yield self._aligned(role.workers, there, np.full(len(there), volume[peer]))

    def _rings(self, role: Role, of_category: npt.NDArray[np.bool_]) -> Iterator[Transfers]:
        """Rings: every worker sends to the next one of its group, and GPUs inside theirs."""
        program = role.program
        task = of_category & (program.kind == Kind.COLLECTIVE) & (program.family != NO_INDEX)
        task &= program.collective != Collective.ALL_TO_ALL
        for family in np.unique(program.family[task]):
            here = task & (program.family == family)
            passes = np.where(program.collective[here] == Collective.ALL_REDUCE, 2.0, 1.0)
            sizes, on_member = passes * program.size[here], 1 + program.peers[here]
            groups = self._graph.families[family]
            for group in groups.groups():
                which = np.isin(group, role.workers)
                n = len(group)
                if n > 1 and which.any():
                    edge = float((sizes * (1 - 1 / (n * on_member))).sum())
                    size = np.full(int(which.sum()), edge)
                    yield self._aligned(group[which], np.roll(group, -1)[which], size)
            local = self._groups_of(groups.name)
            yield from self._evenly(role.workers, float(program.inside[here].sum()), local)

    def _buffers(self, role: Role, of_category: npt.NDArray[np.bool_]) -> Iterator[Transfers]:
        """All-to-alls of equal shares; a share that a worker keeps stays among its GPUs."""
        program = role.program
        task = of_category & program.of(Collective.ALL_TO_ALL) & (program.demand == NO_INDEX)
        for family in np.unique(program.family[task]):
            buffer = float(program.size[task & (program.family == family)].sum())
            groups = self._graph.families[family]
            for group in groups.groups():
                workers = group[np.isin(group, role.workers)]
                for other in group if len(group) > 1 else ():
                    there = np.full(len(workers), other)
                    yield self._aligned(workers, there, np.full(len(workers), buffer / len(group)))
            if len(groups.groups()[0]) == 1:
                per_gpu = buffer / self._gpus.shape[1]
                yield from self._evenly(role.workers, per_gpu, self._groups_of(groups.name))

    def _aligned(self, here: Any, there: Any, size_bytes: Floats) -> Transfers:
        """From each GPU of workers to the one at the same place of others."""
        source, target = self._gpus[here], self._gpus[there]
        shares = np.repeat(size_bytes / source.shape[1], source.shape[1])
        return source.ravel(), target.ravel(), shares

    # Inside servers

    def _inside(self, role: Role, of_category: npt.NDArray[np.bool_]) -> Iterator[Transfers]:
        """Collectives among the GPUs of workers."""
        program = role.program
        task = of_category & (program.kind == Kind.COLLECTIVE) & (program.family == NO_INDEX)
        plain = task & (program.total == NO_INDEX)
        for number, peers in {*zip(*_pairs(program, plain, "category", "peers"), strict=True)}:
            which = plain & (program.category == number) & (program.peers == peers)
            size = float(program.inside[which].sum())
            groups = self._inner_groups(self._purposes[number], int(peers))
            yield from self._evenly(role.workers, size, groups)
        for row in np.flatnonzero(task & (program.total != NO_INDEX)):
            table = self._graph.tables[int(program.total[row])]
            sizes = table.values[role.workers, program.entry[row]] / self._gpus.shape[1]
            yield from self._evenly(role.workers, sizes, self._grid.groups("etp"))

    def _inner_groups(self, purpose: str, peers: int) -> Ranks:
        """GPUs that take part together: TP or expert-TP ranks by their number, or CP ranks."""
        if purpose == "cp":
            return self._grid.groups("cp")
        plan = self._plan
        return self._grid.groups("tp" if peers == plan.tp - 1 or plan.etp == 1 else "etp")

    def _groups_of(self, family: str) -> Ranks:
        """GPUs of the groups of a family."""
        kinds = {DENSE: "dense-gradient", EXPERT: "expert-dp"}
        if family in kinds:
            return gradient_groups(self._grid, kinds[family])
        if family == EMBEDDING:
            return self._grid.groups("pp")[:, [0, self._plan.pp - 1]]
        return self._grid.groups({CONTEXT: "cp", TENSOR: "tp"}[family])

    def _evenly(
        self, workers: Any, size_bytes: float | Floats, groups: Ranks
    ) -> Iterator[Transfers]:
        """What each GPU of workers moves, to the others of its group on its server."""
        per_worker = np.broadcast_to(np.asarray(size_bytes, dtype=np.float64), len(workers))
        if not per_worker.any():
            return
        sent = np.zeros(self._plan.gpus)
        sent[self._gpus[workers]] = per_worker[:, np.newaxis]
        groups = np.sort(groups, axis=1)
        on_server, _ = servers_of_groups("traffic", groups, self._per_server)
        local = groups.reshape(-1, on_server)
        local = local[sent[local[:, 0]] > 0]
        for column in range(1, on_server):
            others = np.roll(local, -column, axis=1)
            yield local.ravel(), others.ravel(), sent[local].ravel() / (on_server - 1)

    # Experts

    def _blocks(self, role: Role, of_category: npt.NDArray[np.bool_]) -> Iterator[Transfers]:
        """All-to-alls of token counts, of all blocks together."""
        program, graph = role.program, self._graph
        for number, demand in enumerate(graph.demands):
            task = of_category & program.of(Collective.ALL_TO_ALL) & (program.demand == number)
            if not task.any():
                continue
            groups = np.array(graph.groups_of(demand))
            kept = np.flatnonzero(np.isin(groups[:, 0], role.workers))
            sizes = _bytes_by_block(program, task, demand.blocks)
            for group in kept.tolist():
                gpus = self._gpus[groups[group]]
                for goes_back, by_block in enumerate(sizes):
                    between = self._between(demand, group, by_block)
                    if between.any():
                        yield self._of_ranks(gpus, between, goes_back=bool(goes_back))

    def _between(self, demand: DemandTable, group: int, by_block: Floats) -> Floats:
        """Bytes between the ranks of a group, ``(ranks, ranks)``; with the sum of the members'."""
        members = np.einsum("bij,b->ij", demand.counts[group], by_block)
        n = len(members)
        if demand.rank_counts is None:
            ranks = self._gpus.shape[1] // self._plan.etp
            weights = np.ones((n * ranks, n * ranks)) - np.eye(n * ranks)
        else:
            weights = np.einsum("bij,b->ij", demand.rank_counts[group], by_block)
            weights[np.arange(len(weights)), np.arange(len(weights))] = 0
            ranks = len(weights) // n
        if demand.deduplicated and ranks > 1:
            weights = _by_rail(weights, ranks)
        return _scaled(weights, members, ranks)

    def _of_ranks(self, gpus: Ranks, between: Floats, *, goes_back: bool) -> Transfers:
        """From each GPU of an EP rank to the one at the same place of another rank."""
        by_rank = gpus.reshape(len(between), -1)
        if goes_back:
            between = between.T
        source, target = np.nonzero(between)
        shares = np.repeat(between[source, target] / by_rank.shape[1], by_rank.shape[1])
        return by_rank[source].ravel(), by_rank[target].ravel(), shares


def _pairs(program: Program, task: npt.NDArray[np.bool_], *names: str) -> list[list[int]]:
    return [getattr(program, name)[task].tolist() for name in names]


def _bytes_by_block(
    program: Program, task: npt.NDArray[np.bool_], blocks: int
) -> tuple[Floats, Floats]:
    """Bytes of a count in each block, of all all-to-alls that go away, and that come back."""
    back = (program.flags & TRANSPOSED) != 0
    sums: dict[bool, Floats] = defaultdict(lambda: np.zeros(blocks))
    for goes_back in (False, True):
        which = task & (back == goes_back)
        size = program.size[which].astype(np.float64)
        sums[goes_back] += np.bincount(program.entry[which], size, minlength=blocks)
    return sums[False], sums[True]


def _by_rail(weights: Floats, ranks: int) -> Floats:
    """Tokens between servers go to the rank at their sender's place, and on from there."""
    n = len(weights) // ranks
    cube = weights.reshape(n, ranks, n, ranks)
    sums = np.zeros_like(cube)
    places = np.arange(ranks)
    for here in range(n):
        for there in range(n):
            if here == there:
                sums[here, :, here, :] += cube[here, :, here, :]
                continue
            sums[here, places, there, places] = cube[here, :, there, :].sum(axis=1)
            onward = cube[here, :, there, :].copy()
            onward[places, places] = 0
            sums[there, :, there, :] += onward
    return np.asarray(sums.reshape(weights.shape))


def _scaled(weights: Floats, members: Floats, ranks: int) -> Floats:
    """Weights of pairs of ranks, so scaled that those of two members add up to their bytes."""
    n = len(members)
    cube = weights.reshape(n, ranks, n, ranks)
    sums = cube.sum(axis=(1, 3))
    # without a weight an even share
    empty = (sums == 0) & (members > 0)
    cube = cube + empty[:, np.newaxis, :, np.newaxis]
    factor = members / np.maximum(cube.sum(axis=(1, 3)), 1e-300)
    return np.asarray((cube * factor[:, np.newaxis, :, np.newaxis]).reshape(weights.shape))
