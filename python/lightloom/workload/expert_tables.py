"""Times of the experts where a plan splits their work, and what communication takes of a GPU.

Added to the two tables of every workload, forward and backward, only as a plan needs them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from lightloom.errors import PlanError
from lightloom.parallel import Plan
from lightloom.parallel.pipeline import Part
from lightloom.workload.builder import TaskGraphBuilder
from lightloom.workload.compute import ComputeModel
from lightloom.workload.expert_passes import ExpertPasses
from lightloom.workload.tokens import ExpertTimes, Tables, add_expert_times


@dataclass(frozen=True)
class Variant:
    """Which work of the experts: what pass (``None`` is forward), of how much."""

    part: Part | None
    chunk: bool = False


def taken_share(plan: Plan, compute: ComputeModel) -> float:
    """Share of a GPU's multiprocessors that communication occupies.

    Raises
    ------
    PlanError
        If communication leaves none, or their number is unknown.
    """
    taken = plan.communication_sms
    if not taken:
        return 0.0
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
    return taken / there


def variants(plan: Plan) -> list[Variant]:
    """What a plan needs beyond whole passes at full speed."""
    in_chunks = plan.overlap_all_to_all == "chunks"
    parts: tuple[Part | None, ...] = (None, "whole")
    if plan.schedule != "1f1b":
        parts += ("input", "weight")
    needed = [
        Variant(part, chunk)
        for part, chunk in itertools.product(parts, (False, in_chunks))
        if not (part == "weight" and chunk)
    ]
    always = (Variant(None), Variant("whole"))
    return [variant for variant in dict.fromkeys(needed) if variant not in always]


def add_variants(
    graph: TaskGraphBuilder,
    tables: Tables,
    passes: ExpertPasses,
) -> dict[Variant, ExpertTimes]:
    """Add the tables of a plan's variants; indices of all, the usual two included."""
    plan = passes.plan
    tables_of = {Variant(None): tables.forward, Variant("whole"): tables.backward}
    for variant in variants(plan):
        name = "_".join([variant.part or "forward", *["chunk"] * variant.chunk])
        until, even = passes.seconds(variant.part, chunk=variant.chunk)
        tables_of[variant] = add_expert_times(graph, name, until, even)
    return tables_of
