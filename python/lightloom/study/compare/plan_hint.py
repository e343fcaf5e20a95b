"""What a search would find instead of the published plan, where that takes seconds."""

from __future__ import annotations

import dataclasses
from typing import Any

from lightloom.parallel import Plan
from lightloom.progress import Monitor
from lightloom.study.compare.job import ModelJob, PlanCandidate
from lightloom.study.compare.plan_search import FABRIC, SAME_PLAN, planned_job, title
from lightloom.study.compare.results import Comparison
from lightloom.units import show_time

#: layers x GPUs up to which a search takes seconds
QUICK = 10_000
#: what a user decides about the plan without asking for another one
_SIZES = {"micro_batches", "micro_batch_size", "global_batch_size", "seq_len"}


def with_plan_hint(comparison: Comparison, monitor: Monitor[Any]) -> Comparison:
    """The comparison, with a warning if the published plan is slower than what a search finds.

    Where the user gave a part of the plan, or asked for the published one, nothing is said; where
    a search takes longer than seconds, how to start one.

    Raises
    ------
    KeyboardInterrupt
        If the monitor stopped the search.
    """
    job = comparison.details["job"].of_model
    if job is None or job.candidates or not _is_published(job):
        return comparison
    if job.model.num_layers * job.scenario.gpus > QUICK:
        hint: str | None = "the plan is the published one; --plan search may find a faster one"
    else:
        hint = _faster(job, monitor)
    warnings = comparison.warnings if hint is None else (*comparison.warnings, hint)
    return dataclasses.replace(comparison, warnings=warnings)


def _is_published(job: ModelJob) -> bool:
    options = job.scenario.plan
    return (
        job.model.plan is not None
        and options.source is None
        and options.model_fields_set <= _SIZES
        and job.plan.origin == "published"
    )


def _faster(job: ModelJob, monitor: Monitor[Any]) -> str | None:
    plan = job.scenario.plan.model_copy(update={"source": "search"})
    alone: dict[str, Any] = {"plan": plan, "fabrics": (FABRIC,), "fabric_options": {}}
    searched = planned_job(job.scenario.model_copy(update=alone), monitor, practice=False)
    published = next(
        (candidate for candidate in searched.candidates if _is_of(candidate, job.plan)), None
    )
    if published is None or not searched.candidates:
        return None
    best = searched.candidates[0]
    tokens = job.plan.tokens_per_step
    step_s = best.predicted_step_time_s * tokens / searched.plan.tokens_per_step
    ratio = published.predicted_step_time_s / step_s
    if ratio < SAME_PLAN:
        return None
    return (
        f"the published plan is {ratio:.2f}x slower than {title(best)}, which --plan search finds:"
        f" {show_time(published.predicted_step_time_s, 3)} instead of {show_time(step_s, 3)} for a"
        f" step of {tokens:,} tokens on {FABRIC}"
    )


def _is_of(candidate: PlanCandidate, plan: Plan) -> bool:
    return all(getattr(candidate, name) == getattr(plan, name) for name in PlanCandidate.DEGREES)
