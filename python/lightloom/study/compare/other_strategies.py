"""The first sample with every strategy of the all-to-alls to experts, where the plan says ``auto``.

The choice among them supposes a network that does not block; these runs tell what each is worth on
every fabric. The baseline is another plan: without sequence parallelism every TP rank has all
tokens, which takes more memory, so that it may not fit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from lightloom.parallel.memory import does_not_fit, memory_per_stage
from lightloom.parallel.overlap import CHUNKED
from lightloom.practice import PlanStrategy
from lightloom.simulate import Run
from lightloom.study.compare.builds import Workloads
from lightloom.study.compare.job import Job, ModelJob
from lightloom.study.compare.results import StrategyResult
from lightloom.study.compare.variants import FabricVariant

#: all but the choice among them
STRATEGIES: tuple[PlanStrategy, ...] = tuple(s for s in get_args(PlanStrategy) if s != "auto")


@dataclass(frozen=True)
class OtherStrategy(FabricVariant):
    """Another strategy of the all-to-alls; ``own`` has the steps of a job that has it."""

    strategy: PlanStrategy
    own: Workloads = field(compare=False, repr=False)
    fits: bool = field(compare=False)

    @property
    def key(self) -> str:
        """Such as ``strategy=O2``."""
        return f"strategy={self.strategy}"

    def workloads(self, compared: Workloads) -> Workloads:  # noqa: ARG002
        """The steps with this strategy."""
        return self.own


def other_strategies(job: Job) -> list[OtherStrategy]:
    """Return every strategy of a job whose plan leaves them open; none of another."""
    model_job = job.of_model
    if model_job is None or model_job.plan.strategy != "auto":
        return []
    return [_with(model_job, strategy) for strategy in STRATEGIES]


def _with(job: ModelJob, strategy: PlanStrategy) -> OtherStrategy:
    plan, redundant = job.plan, strategy == "baseline"
    plan = dataclasses.replace(
        plan,
        strategy=strategy,
        strategy_chunks=plan.strategy_chunks if strategy in CHUNKED else 0,
        sequence_parallel=plan.sequence_parallel and not redundant,
        overlap_tp=plan.overlap_tp and not redundant,
    )
    stages = memory_per_stage(job.model, plan, job.fitted.options)
    misfit = does_not_fit(stages, job.gpu.hbm_capacity_bytes, job.fitted.options.reserve)
    return OtherStrategy(strategy, Workloads(dataclasses.replace(job, plan=plan)), misfit is None)


def strategy_results(runs: Mapping[FabricVariant, Run]) -> tuple[StrategyResult, ...]:
    """Return the step with each strategy that was run, in their order."""
    results = {
        variant.strategy: StrategyResult(variant.strategy, run.step_time_s, variant.fits)
        for variant, run in runs.items()
        if isinstance(variant, OtherStrategy)
    }
    return tuple(results[strategy] for strategy in STRATEGIES if strategy in results)
