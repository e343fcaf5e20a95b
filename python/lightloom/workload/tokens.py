"""Token blocks of a task graph: the demand of every EP group, folded as it is made.

The demand of a group is asked for and folded at once, of few groups at a time, so that memory holds
their token counts and the folded ones of all, never a matrix over all ranks.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lightloom.demand.deduplicate import fold_distinct, mean_distinct
from lightloom.demand.folding import (
    FoldedTokens,
    FoldingSource,
    RankSums,
    fold_counts,
    fold_sums,
    rank_sums,
)
from lightloom.demand.routing_log import ResampledSource
from lightloom.demand.source import DemandSource, PerTokenSource, Shape
from lightloom.errors import DemandError
from lightloom.models.model import Model
from lightloom.parallel import Plan, Workers
from lightloom.units import PS_PER_S
from lightloom.workload.builder import TaskGraphBuilder
from lightloom.workload.expert_passes import ExpertPasses
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.planned import PlannedModel

#: groups that are folded at once, at most
MAX_AT_ONCE = 4

_Place = TypeVar("_Place")


def demand_shape(model: Model, plan: Plan) -> Shape:
    """The shape that a demand source for this model and plan must have."""
    return Shape(
        ranks=plan.ep,
        experts=model.num_experts,
        tokens_per_rank=plan.tokens_per_ep_rank,
        top_k=model.experts_per_token,
    )


def _words(shape: Shape) -> str:
    return (
        f"{shape.ranks} EP ranks, {shape.experts} experts, {shape.tokens_per_rank} tokens per "
        f"rank, top-{shape.top_k}"
    )


def moe_layers(model: Model, plan: Plan) -> list[list[int]]:
    """MoE layers of each stage in ascending order, numbered from 0 over the MoE layers alone."""
    number = np.cumsum(model.moe_layers) - 1
    return [
        [int(number[layer]) for chunk in chunks for layer in chunk if model.moe_layers[layer]]
        for chunks in plan.layers(model.num_layers)
    ]


@dataclass
class Folded:
    """The demand of a step on the workers that compute it, and sums counted before folding.

    Attributes
    ----------
    tokens, rank_tokens
        Counts of the demand table; see :class:`~lightloom.workload.task_graph.DemandTable`.
    slowest, received
        Token copies that the busiest EP rank of each member computes, and all of the member's
        ranks together, ``(groups, blocks, members)``.
    copies, stayed
        Token copies that the experts of all layers and micro-batches compute, and those of them
        that move no bytes: their expert is on their own rank, or the token goes to another expert
        of that rank and is sent once.
    routed
        Token copies that the gates route; what experts have no capacity for is dropped.
    logged_copies
        Copies per layer and expert in the log that tokens are drawn from; ``None`` without one.
    """

    tokens: npt.NDArray[np.uint32]
    rank_tokens: npt.NDArray[np.uint32] | None
    slowest: npt.NDArray[np.int64]
    received: npt.NDArray[np.int64]
    ranks_per_member: int
    copies: int = 0
    stayed: int = 0
    routed: int = 0
    logged_copies: float | None = None

    @property
    def dropped_share(self) -> float:
        """Share of the routed copies that no expert computes."""
        return 1 - self.copies / self.routed if self.routed else 0.0

    def mean_load(self) -> npt.NDArray[np.int64]:
        """Copies of the mean rank of each group, in the shape of ``slowest``, rounded up."""
        ranks = self.slowest.shape[2] * self.ranks_per_member
        mean = -(-self.received.sum(axis=2, keepdims=True) // ranks)
        return np.broadcast_to(mean, self.slowest.shape)


def fold_demand(
    model: Model,
    plan: Plan,
    workers: Workers,
    demand: DemandSource,
    options: WorkloadOptions,
    *,
    step: int,
) -> Folded:
    """Ask for the demand of one EP group after the other and fold it.

    Groups of one replica see the same data in every stage, so the source's group is the replica.
    With ``options.deduplicate`` a token is sent once to each server, and counts between ranks
    (``options.rank_level``) are of tokens sent once to each rank.

    Raises
    ------
    DemandError
        If the source is for another shape.
    """
    wanted = demand_shape(model, plan)
    if demand.shape != wanted:
        raise DemandError(
            f"demand '{demand.name}' is for {_words(demand.shape)}; the model and plan need "
            f"{_words(wanted)}"
        )
    layers = moe_layers(model, plan)
    stages, replicas, members = workers.server.shape
    shape = (stages * replicas, max(map(len, layers)) * plan.micro_batches)
    ranks = (*shape, plan.ep, plan.ep)
    folded = Folded(
        tokens=np.zeros((*shape, members, members), dtype=np.uint32),
        rank_tokens=np.zeros(ranks, dtype=np.uint32) if options.rank_level else None,
        slowest=np.zeros((*shape, members), dtype=np.int64),
        received=np.zeros((*shape, members), dtype=np.int64),
        ranks_per_member=plan.ep // members,
        logged_copies=demand.logged_copies if isinstance(demand, ResampledSource) else None,
    )

    def fold(place: tuple[int, int]) -> FoldedTokens:
        stage, replica = place
        index: dict[str, Any] = {
            "group": replica,
            "layers": layers[stage],
            "micro_batches": plan.micro_batches,
            "step": step,
        }
        return fold_group(model, demand, index, options, (members, options.rank_level))

    places = [
        (stage, replica)
        for stage, replica in itertools.product(range(stages), range(replicas))
        if layers[stage]
    ]
    # a source that is written in Python gains nothing from threads, and may not expect them
    at_once = min(MAX_AT_ONCE, os.cpu_count() or 1) if isinstance(demand, FoldingSource) else 1
    for place, tokens in zip(places, _each(fold, places, at_once), strict=True):
        _add_group(folded, (plan, *place), tokens, demand.shape)
    return folded


def _each(
    fold: Callable[[_Place], FoldedTokens], places: Sequence[_Place], at_once: int
) -> Iterator[FoldedTokens]:
    """What each place folds to, in their order, with so many under way at once."""
    if at_once == 1:
        yield from map(fold, places)
        return
    pool = ThreadPoolExecutor(at_once)
    try:
        yield from pool.map(fold, places)
    finally:
        pool.shutdown(cancel_futures=True)


def _add_group(
    folded: Folded, of_plan: tuple[Plan, int, int], tokens: FoldedTokens, shape: Shape
) -> None:
    plan, stage, replica = of_plan
    blocks, members = tokens.tokens.shape[:2], folded.slowest.shape[2]
    arrived = tokens.received.reshape(*blocks, members, folded.ranks_per_member)
    pairs: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = [
        (folded.tokens, tokens.tokens),
        (folded.slowest, arrived.max(axis=-1)),
        (folded.received, arrived.sum(axis=-1)),
    ]
    if folded.rank_tokens is not None and tokens.rank_tokens is not None:
        pairs.append((folded.rank_tokens, tokens.rank_tokens))
    for kept, counts in pairs:
        _put(kept, (plan, stage), replica, counts)
    folded.copies += int(tokens.received.sum())
    folded.routed += math.prod(blocks) * shape.ranks * shape.copies_per_rank
    folded.stayed += tokens.stayed


def _put(
    kept: npt.NDArray[Any], of_plan: tuple[Plan, int], replica: int, counts: npt.NDArray[Any]
) -> None:
    """Put the counts of a stage of the model, by layer and micro-batch, where they are computed.

    With DualPipe the second half of the micro-batches passes the stages in the places of the
    opposite ones.
    """
    plan, stage = of_plan
    by_place = kept.reshape(plan.pp, -1, kept.shape[1] // plan.micro_batches, *counts.shape[1:])
    early = plan.micro_batches // plan.copies
    by_place[stage, replica, : len(counts), :early] = counts[:, :early]
    if plan.copies > 1:
        by_place[plan.pp - 1 - stage, replica, : len(counts), early:] = counts[:, early:]


def fold_group(
    model: Model,
    demand: DemandSource,
    index: dict[str, Any],
    options: WorkloadOptions,
    shape: tuple[int, bool],
) -> FoldedTokens:
    """One group's counts, folded while they are drawn where the source can."""
    members, by_rank = shape
    if not options.deduplicate:
        if isinstance(demand, FoldingSource):
            return demand.folded(**index, members=members, rank_level=by_rank)
        return fold_counts(demand.tokens(**index), members=members, rank_level=by_rank)
    if isinstance(demand, FoldingSource):
        sums = demand.summed(**index)
    else:
        sums = rank_sums(demand.tokens(**index))
    exact = {}
    if isinstance(demand, PerTokenSource):
        exact = {ranks: demand.distinct(**index, members=ranks)
                 for ranks in (members, demand.shape.ranks)}  # fmt: skip
    return _folded_once(model, demand, sums, exact, members=members, by_rank=by_rank)


def fold_summed(
    model: Model, demand: DemandSource, sums: RankSums, options: WorkloadOptions, members: int
) -> FoldedTokens:
    """One group's counts of :func:`fold_group` with those by rank, from their sums by rank."""
    if not options.deduplicate:
        return fold_sums(sums, members=members, rank_level=True)
    return _folded_once(model, demand, sums, {}, members=members, by_rank=True)


def _folded_once(
    model: Model,
    demand: DemandSource,
    sums: RankSums,
    exact: Mapping[int, npt.NDArray[np.int64]],
    *,
    members: int,
    by_rank: bool,
) -> FoldedTokens:
    """Counts with each token sent once to each server.

    ``exact`` are tokens with a copy for each of so many members, where tokens are known; else they
    are expected.
    """

    def reaching(count: int) -> npt.NDArray[Any]:
        folded_before = exact.get(count)
        if folded_before is not None:
            return folded_before
        return mean_distinct(
            sums,
            demand.shape,
            members=count,
            num_groups=model.num_groups,
            top_groups=model.top_groups,
        )

    plain = fold_sums(sums, members=members, rank_level=by_rank)
    distinct, expected = reaching(members), np.rint(reaching(demand.shape.ranks))
    once = fold_distinct(plain.tokens, distinct, by_rank=expected)
    by_ranks = None
    if plain.rank_tokens is not None:
        by_ranks = np.minimum(expected.astype(np.int64), plain.rank_tokens).astype(np.uint32)
    merged = int(plain.tokens.sum(dtype=np.int64)) - int(once.sum(dtype=np.int64))
    stayed = plain.stayed + merged
    return dataclasses.replace(plain, tokens=once, rank_tokens=by_ranks, stayed=stayed)


def gathers_copies(plan: Plan, options: WorkloadOptions) -> bool:
    """Whether expert-TP ranks gather the routed copies before, and scatter after the experts."""
    return plan.etp > 1 and options.moe_tp == "dispatched"


def gathers_results(plan: Plan, options: WorkloadOptions) -> bool:
    """Whether TP ranks gather what each got back from the experts, forward and backward.

    With sequence parallelism they go on with their own tokens, and with the baseline each has the
    results of all.
    """
    sends_parts = plan.tp > 1 and plan.strategy != "baseline"
    return sends_parts and not plan.sequence_parallel and options.moe_tp == "dispatched"


@dataclass(frozen=True)
class ExpertTimes:
    """Indices of the tables of one pass of the experts.

    Attributes
    ----------
    computation
        Times at the mean load of the group's ranks.
    stragglers
        By how much longer the busiest rank of the worker takes; absent where it never does.
    """

    computation: int
    stragglers: int | None = None


@dataclass(frozen=True)
class Tables:
    """Where a program finds what differs between groups and workers: indices in the task graph.

    Attributes
    ----------
    family, demand
        The EP groups, and the token copies between their members.
    forward, backward
        Times of the experts.
    gathered
        Bytes of one collective of expert-TP ranks: of each GPU of the busiest rank, and of all GPUs
        of the worker.
    """

    family: int
    demand: int = -1
    forward: ExpertTimes = ExpertTimes(-1)
    backward: ExpertTimes = ExpertTimes(-1)
    gathered: tuple[int, int] = (-1, -1)


def add_tables(
    graph: TaskGraphBuilder,
    family: int,
    job: PlannedModel,
    passes: ExpertPasses,
    folded: Folded,
) -> Tables:
    """Add folded counts, and the expert times and bytes that follow, to a task graph.

    An entry of a table is a block of the group. With full recomputation the backward time is
    without the forward pass that precedes it, which is a task of its own.

    A worker is busy until its busiest rank is done. What that takes beyond the time at the mean
    load of the group is no computation that the group needs, but waiting for a straggler.
    """
    model, plan, options = job
    demand = graph.demand(
        "tokens",
        family,
        folded.tokens,
        ranks_per_member=0 if folded.rank_tokens is None else folded.ranks_per_member,
        rank_counts=folded.rank_tokens,
        deduplicated=options.deduplicate,
    )
    forward = add_expert_times(graph, "forward", *passes.seconds(None))
    backward = add_expert_times(graph, "backward", *passes.seconds("whole"))
    if not gathers_copies(plan, options):
        return Tables(family, demand, forward, backward)
    per_gpu, total = expert_tp_bytes(model, plan, options, folded)
    gathered = (
        graph.table("expert_tp_per_gpu_bytes", by_worker(per_gpu)),
        graph.table("expert_tp_total_bytes", by_worker(total)),
    )
    return Tables(family, demand, forward, backward, gathered)


def add_expert_times(
    graph: TaskGraphBuilder,
    name: str,
    until: npt.NDArray[np.float64],
    even: npt.NDArray[np.float64],
) -> ExpertTimes:
    """Add a table of what experts take at even load, and one of the wait for the busiest rank.

    ``until`` and ``even`` are seconds of each member until its busiest rank is done, and at the
    mean load of its group, ``(groups, blocks, members)``.
    """
    slowest, mean = (by_worker(to_ps_array(seconds)) for seconds in (until, even))
    needed = np.minimum(slowest, mean)
    excess = slowest - needed
    return ExpertTimes(
        graph.table(f"expert_{name}_ps", needed),
        graph.table(f"straggler_{name}_ps", excess) if excess.any() else None,
    )


def by_worker(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """From ``(groups, blocks, members)`` to ``(workers, blocks)``."""
    groups, blocks, members = values.shape
    return values.transpose(0, 2, 1).reshape(groups * members, blocks)


def expert_tp_bytes(
    model: Model, plan: Plan, options: WorkloadOptions, folded: Folded
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Bytes of one gather or scatter of routed copies over the t expert-TP ranks of an EP rank.

    Each GPU holds 1/t of the copies that its rank received and sends it to t - 1 others, so that
    it sends ``(t-1)/t`` of them all.

    Returns
    -------
    Bytes of one GPU of the busiest rank of each member, and of all GPUs of the member,
    ``(groups, blocks, members)`` both.
    """
    per_copy = model.expert_hidden * options.activation_element_bytes * (plan.etp - 1)
    return (
        np.rint(folded.slowest * (per_copy / plan.etp)).astype(np.uint64),
        np.rint(folded.received * per_copy).astype(np.uint64),
    )


def to_ps_array(seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    """Whole picoseconds nearest to times in seconds."""
    return np.rint(seconds * PS_PER_S).astype(np.uint64)
