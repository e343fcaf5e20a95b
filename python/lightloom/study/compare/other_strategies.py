"""The first sample with every strategy of the all-to-alls to experts, where the plan says ``auto``.

The planner's choice for each layer supposes a network that does not block. So every fabric runs the
first sample with it and with each strategy for all layers, and takes what is fastest on it. The
baseline is not among these: it is another plan, as without sequence parallelism every TP rank has
all tokens, which takes more memory, so that it may not fit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from lightloom.parallel.memory import does_not_fit, memory_per_stage
from lightloom.parallel.overlap import CHUNKED
from lightloom.practice import PlanStrategy
from lightloom.simulate import Run
from lightloom.study.compare.builds import Workloads
from lightloom.study.compare.job import Job, ModelJob
from lightloom.study.compare.results import StrategyResult
from lightloom.study.compare.runner import Done
from lightloom.study.compare.variants import OWN, FabricVariant

#: what the planner chooses for each layer
LAYERS = "layers"
#: all but the choice among them
STRATEGIES: tuple[PlanStrategy, ...] = tuple(s for s in get_args(PlanStrategy) if s != "auto")


@dataclass(frozen=True)
class OtherStrategy(FabricVariant):
    """A strategy for all layers, or :data:`LAYERS`; ``own`` has the steps of a job that has it."""

    strategy: str
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
    """Return every strategy of a job whose plan leaves them open, the choice by layer first.

    There are none of another job.
    """
    model_job = job.of_model
    if model_job is None or model_job.plan.strategy != "auto":
        return []
    layers = OtherStrategy(LAYERS, Workloads(job), True)
    return [layers, *(_with(model_job, strategy) for strategy in STRATEGIES)]


def fastest_strategies(done: Sequence[Done]) -> dict[str, Done]:
    """Return the fastest run of each fabric, of equal ones the first; the baseline does not count.

    Parameters
    ----------
    done
        The first sample of every fabric with every strategy.
    """
    kept: dict[str, Done] = {}
    for trial in done:
        variant, name = trial.attempt.variant, trial.attempt.fabric.name
        assert isinstance(variant, OtherStrategy)
        if variant.strategy == "baseline":
            continue
        if name not in kept or trial.run.step_time_s < kept[name].run.step_time_s:
            kept[name] = trial
    return kept


def as_own(trial: Done) -> Done:
    """Return the run of a fabric with what it takes as that of the fabric itself."""
    attempt = dataclasses.replace(trial.attempt, variant=OWN)
    return dataclasses.replace(trial, attempt=attempt)


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
    return tuple(results[name] for name in (LAYERS, *STRATEGIES) if name in results)
