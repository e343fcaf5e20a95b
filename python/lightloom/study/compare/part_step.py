"""Long steps: each fabric's first sample is simulated whole, other samples on a part of the step.

Other seeds, compute speeds and loads only tell how much a step changes with them, and a part of the
step tells that nearly as well: a few stages of the pipeline with as many layers each, and as many
micro-batches less as there are fewer stages, so that the bubble is as large a share; and of many
replicas of the experts a few. The stage with
the busiest experts, which sets the pace, is among them. A sample then takes the whole step of the
first one, times the ratio of the two on the part. How far that is from whole steps is in
``benches/RESULTS.md``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightloom.demand import DemandSource
from lightloom.demand.few_stages import few_stages
from lightloom.simulate import Run
from lightloom.study.compare.job import ModelJob, demand_source
from lightloom.study.compare.results import Sample
from lightloom.study.compare.variants import OWN
from lightloom.workload.tokens import moe_layers

if TYPE_CHECKING:
    from lightloom.study.compare.runner import Done


@dataclass(frozen=True, kw_only=True)
class _PartJob(ModelJob):
    """The job of a part; a drawn demand is that of some stages of the ``whole`` step."""

    whole: ModelJob

    def demand(self, sample: Sample) -> DemandSource | None:
        whole = self.whole
        source = demand_source(self.scenario, whole.model, whole.plan, sample.seed)
        if source is None or not self.is_drawn:
            return source
        stages = moe_layers(whole.model, whole.plan)
        return few_stages(source, stages, self.plan.pp, step=sample.step)


@dataclass(frozen=True)
class PartStep:
    """A part of a job's step.

    ``job`` is a job of its own, with few stages on the first servers; ``share`` the part of the
    whole step's all-to-alls that it has; ``stages``, ``micro_batches`` and ``replicas`` those of
    the whole.
    """

    job: ModelJob
    share: float
    stages: int
    micro_batches: int
    replicas: int

    @classmethod
    def of(cls, whole: ModelJob, short: ModelJob, share: float) -> PartStep:
        """The part of a job's step that a short job has."""
        plan = whole.plan
        counts = (plan.pp, plan.micro_batches, plan.groups_per_stage)
        return cls(_PartJob.like(short, whole=whole), share, *counts)

    def sentence(self, played: ModelJob | None) -> str:
        """What a user reads before anything runs; ``played`` is simulated in place of the whole."""
        plan, replicas = self.job.plan, ""
        if plan.groups_per_stage < self.replicas:
            replicas = f", {plan.groups_per_stage} of {self.replicas} replicas"
        first = "whole"
        if played is not None:
            few = played.plan.groups_per_stage
            first = f"as {few} of {self.replicas} replicas, whose rings have all members"
        return (
            f"a long step: the first seed is simulated {first}; other seeds, speeds and loads in"
            f" proportion to a part of it ({plan.pp} of {self.stages} stages,"
            f" {plan.micro_batches} of {self.micro_batches} micro-batches{replicas}); --whole-steps"
            f" simulates all of them whole"
        )

    def estimates(self, whole: Sequence[Done], parts: Sequence[Done]) -> list[Done]:
        """Runs of the part as they would be of the whole step.

        Parameters
        ----------
        whole
            Runs of whole steps, the first sample of every fabric among them.
        parts
            Runs of the part, the same sample of every fabric among them.

        Returns
        -------
        list
            One for each of ``parts`` but these.
        """
        first, nominal = _first_samples(whole), _first_samples(parts)
        estimates = []
        for run_of_part in parts:
            name = run_of_part.attempt.fabric.name
            if run_of_part is nominal[name]:
                continue
            factor = first[name].run.step_time_s / nominal[name].run.step_time_s
            run = _scaled(run_of_part.run, factor)
            estimates.append(dataclasses.replace(run_of_part, run=run, is_estimate=True))
        return estimates


def _first_samples(done: Sequence[Done]) -> dict[str, Done]:
    """The first run of each fabric as it is, which is its first sample; by its name."""
    firsts: dict[str, Done] = {}
    for each in done:
        if each.attempt.variant == OWN:
            firsts.setdefault(each.attempt.fabric.name, each)
    return firsts


def _scaled(run: Run, factor: float) -> Run:
    """A run whose step takes ``factor`` times as long, all of its parts in proportion."""

    def times(seconds: Mapping[str, float]) -> dict[str, float]:
        return {name: factor * value for name, value in seconds.items()}

    return dataclasses.replace(
        run,
        step_time_s=factor * run.step_time_s,
        critical_path_s=times(run.critical_path_s),
        mean_s=times(run.mean_s),
        role_s={name: times(seconds) for name, seconds in run.role_s.items()},
        straggler_wait_s=factor * run.straggler_wait_s,
    )
