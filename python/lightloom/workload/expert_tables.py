"""Times of the experts where a plan splits their work or lets communication take part of the GPU.

Added to the two tables of every workload, forward and backward, only as a plan needs them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from lightloom.errors import PlanError
from lightloom.models.model import Model
from lightloom.parallel import Plan
from lightloom.parallel.pipeline import Part
from lightloom.workload.builder import TaskGraphBuilder
from lightloom.workload.compute import ComputeModel
from lightloom.workload.expert_passes import ExpertPasses
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.tokens import (
    ExpertTimes,
    Folded,
    Tables,
    add_expert_times,
    by_worker,
    expert_tp_bytes,
    gathers_copies,
)


@dataclass(frozen=True)
class Variant:
    """Which work of the experts: what pass (``None`` is forward), of how much, how fast."""

    part: Part | None
    chunk: bool = False
    slowed: bool = False


def slowdown(plan: Plan, compute: ComputeModel) -> float:
    """Factor on compute times while communication occupies multiprocessors of the GPU.

    Raises
    ------
    PlanError
        If communication leaves none, or their number is unknown.
    """
    taken = plan.communication_sms
    if not taken:
        return 1.0
    there = compute.gpu.sms
    if there is None:
        raise PlanError(
            f"communication-sms = {taken}: the file of GPU {compute.gpu.name} does not say how "
            "many it has; add sms"
        )
    if taken >= there:
        raise PlanError(
            f"communication-sms = {taken}: a GPU of type {compute.gpu.name} has {there:.0f}, and "
            "computation needs some of them"
        )
    return there / (there - taken)


def variants(plan: Plan) -> list[Variant]:
    """What a plan needs beyond whole passes at full speed."""
    alternates = plan.overlap_all_to_all == "batch"
    in_chunks = plan.overlap_all_to_all == "chunks"
    parts: tuple[Part | None, ...] = (None, "whole")
    if plan.schedule != "1f1b":
        parts += ("input", "weight")
    slowed = (False, True) if plan.communication_sms and (alternates or in_chunks) else (False,)
    found = [
        Variant(part, chunk, slow)
        for part, chunk, slow in itertools.product(parts, (False, in_chunks), slowed)
        if not (part == "weight" and (chunk or slow)) and not (in_chunks and slow and not chunk)
    ]
    known = (Variant(None), Variant("whole"))
    return [one for one in dict.fromkeys(found) if one not in known]


def add_variants(
    graph: TaskGraphBuilder,
    tables: Tables,
    passes: ExpertPasses,
) -> dict[Variant, ExpertTimes]:
    """Add the tables of a plan's variants; indices of all, the usual two included."""
    plan = passes.plan
    found = {Variant(None): tables.forward, Variant("whole"): tables.backward}
    for one in variants(plan):
        factor = slowdown(plan, passes.compute) if one.slowed else 1.0
        name = "_".join([one.part or "forward", *["chunk"] * one.chunk, *["slowed"] * one.slowed])
        until, even = (factor * part for part in passes.seconds(one.part, chunk=one.chunk))
        found[one] = add_expert_times(graph, name, until, even)
    return found


def add_gathered_chunks(
    graph: TaskGraphBuilder,
    job: tuple[Model, Plan, WorkloadOptions],
    folded: Folded,
) -> list[tuple[int, int]]:
    """Tables of what expert-TP ranks gather of each chunk, which add up to the whole.

    Returns
    -------
    Bytes of the busiest GPU, and of all, by chunk; empty if there are no chunks.
    """
    model, plan, options = job
    count = plan.overlap_chunks
    if count == 1 or not gathers_copies(plan, options):
        return []
    whole = expert_tp_bytes(model, plan, options, folded)
    rest, each = (
        tuple(
            graph.table(f"expert_tp_{name}_{what}_bytes", by_worker(values))
            for what, values in zip(("per_gpu", "total"), split, strict=True)
        )
        for name, split in (
            ("first_chunk", [bytes_ - (count - 1) * (bytes_ // count) for bytes_ in whole]),
            ("chunk", [bytes_ // count for bytes_ in whole]),
        )
    )
    return [(rest[0], rest[1]), *[(each[0], each[1])] * (count - 1)]
