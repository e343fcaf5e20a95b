"""A comparison simulates some of its steps whole, and estimates the others from less.

Each of these saves time where a step is long, and decides by its size alone:

- what a fabric leaves open is simulated, unless flat all-to-alls have too many flows: then the
  fabric's estimate decides;
- candidates that are clearly slower on a short step are not simulated in full;
- all samples but the first are simulated on a part of the step (:mod:`.part_step`);
- designs are tuned on few layers, with one and two fills of the pipeline (:mod:`.fills`), as plans
  are searched (:mod:`.plan_search`, which screens them on less);
- a step that is tried tells how long all will take (:mod:`.forecast`).
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import NamedTuple

from lightloom.fabric import Fabric
from lightloom.models import Model
from lightloom.parallel import Plan
from lightloom.study.compare.few_replicas import FewReplicasJob, is_alike
from lightloom.study.compare.fills import Fills, with_micro_batches
from lightloom.study.compare.job import Job, ModelJob
from lightloom.study.compare.part_step import PartStep
from lightloom.study.compare.short_step import (
    MAX_STAGES,
    MIN_PART_REPLICAS,
    MIN_REPLICAS,
    few_layers,
    with_few,
    with_few_replicas,
    with_few_stages,
)

#: flows between ranks, in a step of flat all-to-alls, above which candidates are not simulated
MAX_FLOWS = 100_000_000
#: micro-batches of a short step, at least
MIN_MICRO_BATCHES = 4
#: a step is not shortened to more than this share of its all-to-alls
MAX_SHARE = 0.25
#: layers x micro-batches x GPUs from which a step takes long enough for a part to be worth it
LONG_WORK = 5_000_000
#: layers x micro-batches x GPUs from which a few replicas stand for all, even in the first sample
VERY_LONG_WORK = 20_000_000
#: layers x micro-batches x GPUs below which a comparison is short, and of the step that is tried
MIN_WORK, TRIED_WORK = 400_000, 40_000
#: a step is tried if it has at most this share of the all-to-alls
MAX_TRIED_SHARE = 0.5


class Tried(NamedTuple):
    """A short step that is tried, of the ``whole``, which has ``ratio`` times its all-to-alls."""

    whole: ModelJob
    job: ModelJob
    ratio: float


class Budget:
    """What is simulated of a job; of a trace, whose step is as it is, everything."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._model_job = job.of_model

    @cached_property
    def tries_candidates(self) -> bool:
        """Whether candidates for what fabrics leave open are simulated."""
        job = self._model_job
        return job is None or flows_of(job.model, job.plan) <= MAX_FLOWS

    @cached_property
    def short(self) -> ModelJob | None:
        """The job with a step on which candidates are screened; ``None`` where its own will do."""
        if (job := self._model_job) is None:
            return None
        few = with_few_replicas(with_few_stages(job))
        layers = few_layers(job.model, few.plan)
        fill = _fill(few.plan)
        if not layers or layers * fill > MAX_SHARE * _all_to_alls(job):
            return None
        return with_few(few, layers, fill)

    @cached_property
    def played(self) -> FewReplicasJob | None:
        """The job with few of many replicas, which stand for all; ``None`` where all are simulated.

        It takes the place of that of a very long step that has a part (:attr:`part`), unless
        something fails.
        """
        job, scenario = self._model_job, self._job.scenario
        if job is None or self.part is None or scenario.fail or _work(job) < VERY_LONG_WORK:
            return None
        if job.plan.strategy == "auto":
            return None
        return FewReplicasJob.of(job)

    def share_played(self, fabric: Fabric) -> float:
        """Share of the replicas that the first sample of a fabric is simulated with."""
        few = self.played
        return 1 / (1 + few.absent) if few is not None and is_alike(fabric) else 1.0

    @cached_property
    def part(self) -> PartStep | None:
        """The part that stands for the step in all but the first sample; ``None`` for no part.

        There is one for a long step of a model with experts, as flows, whose stages share no
        servers and have no chunks.
        """
        job, scenario = self._model_job, self._job.scenario
        if scenario.whole_steps or scenario.network == "packet" or job is None:
            return None
        plan, model = job.plan, job.model
        if not job.has_routing or plan.vpp > 1 or _work(job) < LONG_WORK:
            return None
        is_very_long = _work(job) >= VERY_LONG_WORK
        least = MIN_PART_REPLICAS if is_very_long else MIN_REPLICAS
        few = with_few_replicas(with_few_stages(job), least)
        stages = few.plan.pp
        if stages == plan.pp and plan.pp > MAX_STAGES:
            return None
        layers = -(-model.num_layers // plan.pp) * stages
        # DualPipe needs an even number, two for each stage
        unit = plan.copies
        micro_batches = unit * max(stages, round(plan.micro_batches * stages / plan.pp / unit))
        share = layers * micro_batches / _all_to_alls(job) / _times_replicas(plan, few.plan)
        if share > MAX_SHARE:
            return None
        return PartStep.of(job, with_few(few, layers, micro_batches), share)

    @cached_property
    def fills(self) -> Fills:
        """Few layers with one and two fills of the pipeline, for the tuning of designs."""
        if (job := self._model_job) is None:
            return Fills((self._job,))
        few = with_few_stages(job)
        layers, fill = few_layers(job.model, few.plan), _fill(few.plan)
        if not layers or layers * 2 * fill >= _all_to_alls(job):
            return Fills((job,))
        return Fills(
            tuple(with_few(few, layers, count * fill) for count in (1, 2)),
            (job.plan.micro_batches - fill) / fill,
            job.model.num_layers / job.plan.pp / (layers / few.plan.pp),
        )

    @cached_property
    def tried(self) -> Tried | None:
        """The step that is tried to forecast the time of all; ``None`` for a short comparison."""
        job = self._model_job
        if job is None or _work(job) < MIN_WORK:
            return None
        plan, model = job.plan, job.model
        alone = dataclasses.replace(job, scenario=job.scenario.model_copy(update={"seeds": 1}))
        few = with_few_replicas(with_few_stages(alone))
        if layers := few_layers(model, few.plan):
            micro_batches = _tried_micro_batches(few.plan, layers)
            short = with_few(few, layers, micro_batches)
            ratio = _all_to_alls(job) / (layers * micro_batches) * _times_replicas(plan, few.plan)
        else:
            micro_batches = _tried_micro_batches(plan, model.num_layers)
            short = with_micro_batches(alone, micro_batches)
            ratio = plan.micro_batches / micro_batches
        return None if ratio * MAX_TRIED_SHARE < 1 else Tried(job, short, ratio)


def flows_of(model: Model, plan: Plan) -> int:
    """Flows between the ranks of a step whose all-to-alls are flat, four per layer and pass."""
    all_to_alls = 4 * model.num_moe_layers * plan.micro_batches * plan.groups_per_stage
    return all_to_alls * plan.ep * (plan.ep - 1)


def _all_to_alls(job: ModelJob) -> int:
    """All-to-alls of a step, in those of a layer and micro-batch."""
    return job.model.num_moe_layers * job.plan.micro_batches


def _times_replicas(plan: Plan, few: Plan) -> float:
    """How many times as many replicas of its experts a plan has as one with few of them."""
    return plan.groups_per_stage / few.groups_per_stage


def _work(job: ModelJob) -> int:
    """What a step takes, in layers x micro-batches x GPUs."""
    return job.model.num_layers * job.plan.micro_batches * job.plan.gpus


def _fill(plan: Plan) -> int:
    """Micro-batches of a short step; DualPipe needs two per stage."""
    return max(MIN_MICRO_BATCHES, plan.pp * plan.copies)


def _tried_micro_batches(plan: Plan, layers: int) -> int:
    """As many as :data:`TRIED_WORK` allows, in whole rounds of the pipeline."""
    unit = plan.pp * plan.copies
    few = unit * -(-4 // unit)
    tried = TRIED_WORK // (layers * plan.gpus)
    return few * max(1, min(tried, plan.micro_batches // 4) // few)
