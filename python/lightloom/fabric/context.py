"""What a fabric may know of the job: where workers sit, and who sends how much to whom.

The first is known from one step. The second is a mean over several, which are drawn only for those
who look at it: TopoOpt (its one topology for the job), and packet fabrics whose all-to-all depends
on how even ranks are.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import FabricError
from lightloom.workload.task_graph import (
    NO_INDEX,
    TRANSPOSED,
    Collective,
    Kind,
    Layout,
    TaskGraph,
)


@dataclass(frozen=True)
class RingDemand:
    """A ring of servers, each sending ``size_bytes`` to the next in one step.

    Rings of one group family have the same ``phase``: they run at the same time.
    """

    servers: npt.NDArray[np.uint32]
    size_bytes: float
    phase: int = 0


@dataclass(frozen=True)
class MeanDemand:
    """Who sends how much to whom in one step.

    Parameters
    ----------
    rank_imbalance
        Bytes of the busiest NIC over those of the busiest server divided by its NICs, if every GPU
        used its own NIC; ``None`` if unknown.
    demand_src, demand_dst, demand_bytes
        Server x server bytes of EP and PP, ``(n,)`` each, every pair of a phase once and no pair
        within a server.
    demand_phase
        What each is part of, ``(n,)``: 0 sends to later stages of the pipeline, 1 those to earlier
        ones, then one number for all all-to-alls of a group family. Phases take turns.
    rings
        Rings of DP (and other ring collectives between servers).
    """

    rank_imbalance: float | None = None
    demand_src: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    demand_dst: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    demand_bytes: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    demand_phase: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    rings: tuple[RingDemand, ...] = ()


@dataclass(frozen=True)
class FabricContext:
    """The job as a fabric sees it.

    Parameters
    ----------
    layout
        Which worker sits on which server.
    ranks_per_worker
        EP ranks that share a server (1 where tensor parallelism fills it).
    deduplicated
        Whether a token crosses the network once to each server.
    mean
        Returns who sends how much to whom; not called before a fabric looks at it.
    """

    layout: Layout
    ranks_per_worker: int = 1
    deduplicated: bool = False
    mean: Callable[[], MeanDemand] = MeanDemand

    @classmethod
    def of(cls, graph: TaskGraph, mean: Callable[[], MeanDemand]) -> FabricContext:
        """Return the context of a job with this step, and what its steps send in the mean."""
        return cls(
            layout=graph.layout,
            ranks_per_worker=max([1, *(demand.ranks_per_member for demand in graph.demands)]),
            deduplicated=any(demand.deduplicated for demand in graph.demands),
            mean=mean,
        )


def job_context(graphs: Iterable[TaskGraph]) -> FabricContext:
    """The job as a fabric sees it, from task graphs of one or more of its steps.

    Raises
    ------
    FabricError
        If there is no step.
    """
    steps = list(graphs)
    if not steps:
        raise FabricError("the demand of a job needs at least one step")
    return FabricContext.of(steps[0], functools.cache(lambda: mean_demand(steps)))


def mean_demand(graphs: Iterable[TaskGraph]) -> MeanDemand:
    """Average over steps, looked at one after another, what the servers send each other.

    All-to-alls count the token copies of their block times their bytes, transposed for combine.
    Rings are folded to servers; the volume per ring edge is 2 (n-1)/n of the buffer for an
    all-reduce and (n-1)/n for a reduce-scatter or all-gather, among n GPUs.
    """
    steps = [_demand_of(graph) for graph in graphs]
    if len(steps) == 1:
        return steps[0]
    pairs = [
        (step.demand_phase, step.demand_src, step.demand_dst, step.demand_bytes) for step in steps
    ]
    phase, src, dst, size = _fold(pairs)
    rings: dict[tuple[int, ...], tuple[int, float]] = {}
    for ring in itertools.chain.from_iterable(step.rings for step in steps):
        key = tuple(ring.servers.tolist())
        kind, sum_bytes = rings.get(key, (ring.phase, 0.0))
        rings[key] = kind, sum_bytes + ring.size_bytes / len(steps)
    imbalances = [step.rank_imbalance for step in steps if step.rank_imbalance is not None]
    return MeanDemand(
        rank_imbalance=sum(imbalances) / len(imbalances) if imbalances else None,
        demand_src=src,
        demand_dst=dst,
        demand_bytes=size / len(steps),
        demand_phase=phase,
        rings=tuple(
            RingDemand(np.array(key, np.uint32), size, kind) for key, (kind, size) in rings.items()
        ),
    )


def _demand_of(graph: TaskGraph) -> MeanDemand:
    """Add up what the servers send each other in one step."""
    phase, src, dst, size = _fold([*_all_to_all_pairs(graph), *_send_pairs(graph)])
    experts = (table for _, table in graph.experts_demands)
    uneven = (_rank_imbalance(tables.rank_counts, tables.ranks_per_member) for tables in experts)
    return MeanDemand(
        rank_imbalance=next((imbalance for imbalance in uneven if imbalance is not None), None),
        demand_src=src,
        demand_dst=dst,
        demand_bytes=size,
        demand_phase=phase,
        rings=_rings(graph),
    )


#: phases, sources, destinations (servers) and bytes of many transfers
_Pairs = tuple[
    npt.NDArray[np.uint32],
    npt.NDArray[np.uint32],
    npt.NDArray[np.uint32],
    npt.NDArray[np.float64],
]

#: phases of sends to later and to earlier roles; those of all-to-alls follow
_LATER, _EARLIER = 0, 1


def _pairs(
    phase: int, src: npt.NDArray[np.uint32], dst: npt.NDArray[np.uint32], size: npt.NDArray[Any]
) -> _Pairs:
    return np.full(size.size, phase, np.uint32), src.ravel(), dst.ravel(), size.ravel()


def _all_to_all_pairs(graph: TaskGraph) -> list[_Pairs]:
    pairs: list[_Pairs] = []
    for role in graph.roles:
        program = role.program
        all_to_alls = program.of(Collective.ALL_TO_ALL)
        for number, demand in enumerate(graph.demands):
            task = all_to_alls & (program.demand == number)
            if not task.any():
                continue
            groups = graph.groups_of(demand)
            is_ours = np.isin([group[0] for group in groups], role.workers)
            block, size = program.entry[task], program.size[task].astype(np.float64)
            turned = (program.flags[task] & TRANSPOSED) != 0
            # the sums of no sizes at all are whole numbers
            straight, back = (
                np.bincount(block[which], size[which], minlength=demand.blocks).astype(np.float64)
                for which in (~turned, turned)
            )
            matrix = np.einsum("gbij,b->gij", demand.counts[is_ours], straight)
            matrix += np.einsum("gbji,b->gij", demand.counts[is_ours], back)
            ends = graph.worker_server[np.array(groups)[is_ours]]
            source = np.broadcast_to(ends[:, :, None], matrix.shape)
            target = np.broadcast_to(ends[:, None, :], matrix.shape)
            pairs.append(_pairs(_EARLIER + 1 + demand.family, source, target, matrix))
        for row in np.flatnonzero(all_to_alls & (program.demand == NO_INDEX)):
            family = int(program.family[row])
            members = graph.families[family].groups()
            for group in (group for group in members if group[0] in role.workers):
                ends = np.repeat(graph.worker_server[group][:, None], len(group), axis=1)
                size = np.full(ends.size, program.size[row] / len(group))
                pairs.append(_pairs(_EARLIER + 1 + family, ends, ends.T, size))
    return pairs


def _send_pairs(graph: TaskGraph) -> list[_Pairs]:
    pairs: list[_Pairs] = []
    for index, role in enumerate(graph.roles):
        program = role.program
        task = (program.kind == Kind.SEND) & (program.family == NO_INDEX)
        volume = np.bincount(
            program.peer[task], program.size[task].astype(np.float64), len(graph.roles)
        )
        server = graph.worker_server[role.workers]
        for peer in np.flatnonzero(volume):
            size = np.full(len(server), volume[peer])
            phase = _LATER if peer > index else _EARLIER
            peers = graph.worker_server[graph.roles[peer].workers]
            pairs.append(_pairs(phase, server, peers, size))
    return pairs


def _fold(pairs: list[_Pairs]) -> _Pairs:
    """Add up equal pairs of a phase, leave out what stays in a server or is nothing, and sort."""
    if not pairs:
        none = np.zeros(0, np.uint32)
        return none, none, none, np.zeros(0)
    phase, src, dst, size = (np.concatenate(column) for column in zip(*pairs, strict=True))
    keep = (src != dst) & (size > 0)
    keys = np.stack([phase[keep], src[keep], dst[keep]])
    found, place = np.unique(keys, axis=1, return_inverse=True)
    total = np.bincount(place.ravel(), size[keep], minlength=found.shape[1]).astype(np.float64)
    return found[0], found[1], found[2], total


_RING_FACTOR = {
    Collective.ALL_REDUCE: 2.0,
    Collective.REDUCE_SCATTER: 1.0,
    Collective.ALL_GATHER: 1.0,
}


def _rings(graph: TaskGraph) -> tuple[RingDemand, ...]:
    role_of = np.zeros(len(graph.worker_server), dtype=np.int64)
    #: bytes of the buffer times the ring factor, by family and role
    volume = np.zeros((len(graph.families), len(graph.roles)))
    #: GPUs of each member that a ring passes
    on_member = np.ones(len(graph.families), dtype=np.int64)
    for index, role in enumerate(graph.roles):
        role_of[role.workers] = index
        program = role.program
        for row in np.flatnonzero((program.kind == Kind.COLLECTIVE) & (program.size > 0)):
            factor = _RING_FACTOR.get(Collective(int(program.collective[row])))
            if factor is not None and program.family[row] != NO_INDEX:
                volume[program.family[row], index] += factor * float(program.size[row])
                on_member[program.family[row]] = 1 + int(program.peers[row])
    merged: dict[tuple[int, ...], tuple[int, float]] = {}
    for number, family in enumerate(graph.families):
        for workers in family.groups():
            if len(workers) < 2:
                continue
            buffer = volume[number, role_of[workers[0]]]
            # each server once: its workers pass on inside it
            ring = tuple(dict.fromkeys(graph.worker_server[workers].tolist()))
            if buffer > 0 and len(ring) > 1:
                edge = buffer * (1 - 1 / (len(workers) * on_member[number]))
                phase, size = merged.get(ring, (number, 0.0))
                merged[ring] = phase, size + edge
    return tuple(
        RingDemand(np.array(ring, np.uint32), size, phase)
        for ring, (phase, size) in sorted(merged.items())
    )


def _rank_imbalance(rank_tokens: npt.NDArray[np.uint32] | None, ranks: int) -> float | None:
    """Busiest GPU over the mean GPU of the busiest server, mean over groups and blocks.

    ``rank_tokens`` is ``(groups, blocks, members * ranks, members * ranks)``; what stays in a
    member does not cross a NIC.
    """
    if rank_tokens is None or rank_tokens.size == 0 or ranks < 2:
        return None
    members = rank_tokens.shape[-1] // ranks
    tokens = rank_tokens.reshape(*rank_tokens.shape[:2], members, ranks, members, ranks)
    inside = np.einsum("gbmrms->gbmrs", tokens)
    gpus = np.stack(
        [
            tokens.sum(axis=(4, 5)) - inside.sum(axis=4),
            tokens.sum(axis=(2, 3)) - inside.sum(axis=3),
        ]
    )
    busiest_gpu = gpus.max(axis=(0, 3, 4))
    busiest_server = gpus.sum(axis=4).max(axis=(0, 3))
    full = busiest_server > 0
    if not full.any():
        return None
    return float(np.mean(busiest_gpu[full] * ranks / busiest_server[full]))
