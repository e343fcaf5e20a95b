"""How many seeds a long comparison takes: two that agree, unless a number was asked for.

A step of thousands of all-to-alls averages over their demands, so that another seed tells little
that the first two have not told. Which seeds run depends on results alone, never on time.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from lightloom.study.compare.job import Job, ModelJob
from lightloom.study.compare.results import SAME

if TYPE_CHECKING:
    from lightloom.study.compare.runner import Attempt, Done

_Job = TypeVar("_Job", bound=Job)

#: layers x micro-batches x GPUs from which a seed takes long enough to be saved
LONG_WORK = 5_000_000
#: seeds that run in any case
FEWEST = 2


def may_end_early(job: Job) -> bool:
    """Whether seeds beyond the first two run only if these disagree."""
    scenario = job.scenario
    if not isinstance(job, ModelJob) or scenario.network == "packet" or not job.draws:
        return False
    work = job.model.num_layers * job.plan.micro_batches * job.plan.gpus
    is_given = "seeds" in scenario.model_fields_set
    return work >= LONG_WORK and not is_given and scenario.seeds > FEWEST


def with_fewest(job: _Job) -> _Job:
    """The job with as many seeds as run in any case."""
    if not may_end_early(job):
        return job
    scenario = job.scenario.model_copy(update={"seeds": FEWEST})
    return dataclasses.replace(job, scenario=scenario)


def divided(job: Job, attempts: Sequence[Attempt]) -> tuple[list[Attempt], list[Attempt]]:
    """Attempts that run in any case, and those that run only if these disagree."""
    if not may_end_early(job):
        return list(attempts), []
    end = job.scenario.seed + FEWEST
    early = [attempt for attempt in attempts if attempt.sample.seed < end]
    return early, [attempt for attempt in attempts if attempt.sample.seed >= end]


def agree(done: Sequence[Done]) -> bool:
    """Whether seeds differ by less than a simulation resolves (:data:`SAME`).

    Every fabric's mean step time at the nominal compute speed is compared, and the ratio of those
    of every two fabrics.
    """
    times: dict[str, dict[int, list[float]]] = {}
    for one in done:
        sample = one.attempt.sample
        if not one.attempt.variant and sample.compute_scale == 1.0:
            seeds = times.setdefault(one.attempt.fabric.name, {})
            seeds.setdefault(sample.seed, []).append(one.run.step_time_s)
    means = [
        [statistics.fmean(steps) for _, steps in sorted(seeds.items())] for seeds in times.values()
    ]
    ratios = [
        [one / other for one, other in zip(*pair, strict=True)]
        for pair in itertools.combinations(means, 2)
    ]
    return all(max(values) < SAME * min(values) for values in [*means, *ratios])


def sentence(job: Job) -> str:
    """What a user reads when the first two seeds agree."""
    left_out = job.scenario.seeds - FEWEST
    return (
        f"seeds: the first {FEWEST} agree within {SAME - 1:.1%} on every fabric and ratio, "
        f"{left_out} more not simulated; --seeds {job.scenario.seeds} runs all"
    )
