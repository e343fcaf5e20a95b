"""A plan that fits the memory of its GPUs: recomputation where it has to be, or a refusal."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lightloom.errors import PlanError
from lightloom.hardware import Gpu
from lightloom.models import Model
from lightloom.parallel import (
    MemoryOptions,
    Plan,
    StageMemory,
    TooFewGpusError,
    choose_plan,
    memory_per_stage,
)
from lightloom.parallel.memory import RECOMPUTE, PlanMemory, does_not_fit, recomputation_from
from lightloom.practice import Dispatcher, Recompute
from lightloom.study.compare.kernels import keeps_scores
from lightloom.study.compare.scenario import Scenario
from lightloom.workload.options import WorkloadOptions

#: by which a degree or the number of GPUs is enlarged until a plan fits
FACTORS = tuple(2**n for n in range(1, 11))


class MisfitError(PlanError):
    """No plan, or not the one that is wanted, fits the memory of the GPUs."""


@dataclass(frozen=True)
class FittedPlan:
    """A plan and its memory under the least recomputation that fits, which ``options`` state.

    ``without`` is the plan with the least recomputation that was allowed, if that does not fit;
    ``misfit`` says what is too large even so, where that is allowed. ``dispatcher`` is what a
    search chose, ``None`` for that of the scenario.
    """

    plan: Plan
    options: MemoryOptions
    memory: tuple[StageMemory, ...]
    without: FittedPlan | None = None
    misfit: str | None = None
    dispatcher: Dispatcher | None = None

    @property
    def repaired(self) -> str | None:
        """What was too large with less recomputation, if anything was."""
        return None if self.without is None else self.without.misfit

    def limit_bytes(self, gpu: Gpu) -> float:
        """The memory of a GPU that the plan may take: all but the reserve."""
        return gpu.hbm_capacity_bytes * (1 - self.options.reserve)

    def as_dict(self, gpu: Gpu) -> dict[str, Any]:
        """Peak memory by stage, in plain values."""
        return {
            "gpu_capacity_bytes": gpu.hbm_capacity_bytes,
            "limit_bytes": self.limit_bytes(gpu),
            "fits": self.misfit is None,
            "recompute": self.options.recompute,
            "stages": [asdict(stage) | {"total_bytes": stage.total_bytes} for stage in self.memory],
        }


def allowed_recomputation(scenario: Scenario, model: Model) -> tuple[Recompute, ...]:
    """What a plan may recompute, the least first; no less than the published run does."""
    if scenario.recompute != "auto":
        return (scenario.recompute,)
    published = None if model.plan is None else model.plan.recompute
    return recomputation_from(published or "none")


def least_recomputation(
    memory: PlanMemory, plan: Plan, gpu: Gpu, base: MemoryOptions, levels: Sequence[Recompute]
) -> FittedPlan | None:
    """A plan with the first of some recomputations that fits; ``None`` if none does.

    What does not fit without is left out, see :func:`with_misfit`.
    """
    room = gpu.hbm_capacity_bytes * (1 - base.reserve)
    for level in levels:
        options = replace(base, recompute=level)
        table = memory.by_stage(options)
        if table.peak_bytes <= room:
            return FittedPlan(plan, options, tuple(table.stages()))
    return None


def with_misfit(
    model: Model, fitted: FittedPlan, gpu: Gpu, levels: Sequence[Recompute]
) -> FittedPlan:
    """The plan, with what does not fit with the least of some recomputations."""
    if fitted.options.recompute == levels[0]:
        return fitted
    options = replace(fitted.options, recompute=levels[0])
    stages = memory_per_stage(model, fitted.plan, options)
    misfit = does_not_fit(stages, gpu.hbm_capacity_bytes, options.reserve)
    return replace(fitted, without=FittedPlan(fitted.plan, options, tuple(stages), misfit=misfit))


def fitted_plan(scenario: Scenario, model: Model, gpu: Gpu, options: WorkloadOptions) -> FittedPlan:
    """The plan of a scenario, with as little recomputation as its memory allows.

    Where a run was published with recomputation, that is the least.

    Raises
    ------
    PlanError
        If the plan is impossible.
    MisfitError
        If it does not fit the GPU and the scenario checks that.
    """
    levels = allowed_recomputation(scenario, model)
    base = memory_options(scenario, model, gpu, options)
    first: FittedPlan | None = None
    for level in levels:
        try:
            tried = _planned(scenario, model, gpu, replace(base, recompute=level))
        except PlanError as error:
            # a plan by the rule may fit only with recomputation
            if level != levels[-1]:
                continue
            if isinstance(error, TooFewGpusError):
                raise _with_remedy(error, scenario, model, gpu, base) from None
            raise
        if tried.misfit is None:
            return replace(tried, without=first)
        first = first or tried
    assert first is not None
    if scenario.memory_check:
        advice = remedy(scenario, model, gpu, base, first.plan)
        raise MisfitError(f"the plan does not fit {gpu.title}: {first.misfit}; {advice}")
    return first


def memory_options(
    scenario: Scenario, model: Model, gpu: Gpu, options: WorkloadOptions
) -> MemoryOptions:
    """Number formats: the user's, else those of the published run, else the defaults.

    A published format that the GPU does not compute in is BF16.
    """
    compute, published = scenario.compute, model.plan
    precision = compute.precision
    if precision is None and published is not None and published.precision in gpu.formats:
        precision = published.precision
    states = compute.state_precision or (published and published.state_precision)
    keeping = scenario.memory
    cache = keeping.activation_cache
    if cache is None and published is not None and precision == published.precision:
        # the published formats go with the published products
        cache = published.activation_cache
    return MemoryOptions(
        precision=precision or "bf16",
        state_precision=states or "fp32",
        activation_cache=cache or "framework",
        keeps_outputs=keeping.keeps_outputs,
        keeps_scores=keeps_scores(scenario, model),
        sharded=keeping.sharded,
        logit_bytes=keeping.logit_bytes,
        parameter_bytes=options.parameter_bytes,
        gradient_bytes=options.gradient_bytes,
    )


def _planned(scenario: Scenario, model: Model, gpu: Gpu, options: MemoryOptions) -> FittedPlan:
    def choose(capacity_bytes: float) -> Plan:
        return choose_plan(
            model,
            scenario.gpus,
            gpu_memory_bytes=capacity_bytes,
            overrides=scenario.plan.degrees,
            gpus_per_server=scenario.cluster.used_gpus_per_server,
            memory=options,
        )

    try:
        plan = choose(gpu.hbm_capacity_bytes)
    except PlanError:
        if scenario.memory_check:
            raise
        plan = choose(math.inf)
    memory = memory_per_stage(model, plan, options)
    misfit = does_not_fit(memory, gpu.hbm_capacity_bytes, options.reserve)
    return FittedPlan(plan, options, tuple(memory), misfit=misfit)


def remedy(scenario: Scenario, model: Model, gpu: Gpu, base: MemoryOptions, plan: Plan) -> str:
    """The smallest change that fits: recomputation, one degree, or more GPUs as well."""
    if scenario.recompute != "auto":
        for level in recomputation_from(scenario.recompute)[1:]:
            if _planned(scenario, model, gpu, replace(base, recompute=level)).misfit is None:
                return f"--recompute {level} fits"
    text = "even recomputing all activations does not fit"
    options = replace(base, recompute=RECOMPUTE[-1])
    for gpus, change in _changes(plan):
        tried = scenario.plan.model_copy(update=change)
        with contextlib.suppress(PlanError):
            changed = scenario.model_copy(update={"plan": tried, "gpus": gpus})
            if _planned(changed, model, gpu, options).misfit is None:
                gpu_count = {"gpus": gpus} if gpus != scenario.gpus else {}
                flags = ((name.replace("_", "-"), n) for name, n in (gpu_count | change).items())
                return f"{text}; {' '.join(f'--{flag} {n}' for flag, n in flags)} does"
    return f"{text}: give smaller micro-batches, more GPUs, or a GPU with more memory"


def _with_remedy(
    error: TooFewGpusError, scenario: Scenario, model: Model, gpu: Gpu, base: MemoryOptions
) -> PlanError:
    """The error, with how many GPUs would do: the smallest multiple of these by a power of two."""
    options = replace(base, recompute=RECOMPUTE[-1])
    for factor in FACTORS:
        gpus = factor * scenario.gpus
        with contextlib.suppress(PlanError):
            changed = scenario.model_copy(update={"gpus": gpus})
            if _planned(changed, model, gpu, options).misfit is None:
                return MisfitError(f"{error.closest}; --gpus {gpus} does")
    return MisfitError(str(error))


def _changes(plan: Plan) -> Iterator[tuple[int, dict[str, int]]]:
    """Changes of one degree, of these GPUs and then of more, the smallest factor first."""
    for factor in FACTORS:
        if plan.micro_batch_size % factor == 0:
            yield plan.gpus, {"micro_batch_size": plan.micro_batch_size // factor}
        for name in ("pp", "ep", "tp"):
            yield plan.gpus, {name: factor * getattr(plan, name)}
    for factor in FACTORS:
        for name in ("pp", "ep", "tp"):
            yield factor * plan.gpus, {name: factor * getattr(plan, name)}
