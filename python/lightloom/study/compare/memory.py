"""Memory of a job per GPU, without a network: what its plan takes, and what recomputation changes.

The plan and its memory are those that a comparison of the same scenario has (:mod:`.fit`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lightloom.errors import PlanError
from lightloom.hardware import Gpu, load_gpu
from lightloom.models import Model
from lightloom.models.next_tokens import with_next_tokens
from lightloom.models.parameters import parameter_parts
from lightloom.parallel import StageMemory, does_not_fit, memory_per_stage
from lightloom.parallel.choose import stated_plan
from lightloom.parallel.memory import RECOMPUTE
from lightloom.planner.formulas import FormulaJob
from lightloom.practice import Recompute
from lightloom.study.compare.fit import FittedPlan, fitted_plan, remedy
from lightloom.study.compare.job import workload_options
from lightloom.study.compare.racks import with_servers
from lightloom.study.compare.scenario import PlanOptions, Scenario
from lightloom.workload.programs.known import load_layers


@dataclass(frozen=True)
class JobMemory:
    """Memory of a job per GPU.

    Attributes
    ----------
    scenario, model, gpu
        What is trained, on which GPUs.
    fitted
        The plan, and the memory of each stage with the recomputation that its options name.
    by_recompute
        The largest stage under each recomputation, and what does not fit then; ``None`` if all do.
    remedy
        The smallest change that fits, where the plan does not.
    """

    scenario: Scenario
    model: Model
    gpu: Gpu
    fitted: FittedPlan
    by_recompute: dict[Recompute, tuple[StageMemory, str | None]]
    remedy: str | None

    @property
    def limit_bytes(self) -> float:
        """What the plan may take of a GPU's memory."""
        return self.fitted.limit_bytes(self.gpu)


def job_memory(scenario: Scenario) -> JobMemory:
    """The memory of a scenario's job; its fabrics and rates are not looked at.

    A plan that is given or published is shown, whether it fits or not.

    Raises
    ------
    InputError
        If the model, the GPU or the plan cannot be used; if no plan was given and none fits.
    """
    assert scenario.model is not None
    model = with_next_tokens(load_layers(scenario.model), scenario.plan.mtp)
    scenario = with_servers(scenario, model)
    gpu = load_gpu(scenario.cluster.gpu)
    options = workload_options(scenario, model)
    stated = stated_plan(
        model,
        scenario.gpus,
        overrides=scenario.plan.degrees,
        gpus_per_server=scenario.cluster.used_gpus_per_server,
    )
    shown = scenario.model_copy(update={"memory_check": stated is None})
    fitted = fitted_plan(shown, model, gpu, options)
    levels: dict[Recompute, tuple[StageMemory, str | None]] = {}
    for level in dict.fromkeys((*RECOMPUTE, fitted.options.recompute)):
        stages = memory_per_stage(model, fitted.plan, replace(fitted.options, recompute=level))
        largest = max(stages, key=lambda stage: stage.total_bytes)
        unfit = does_not_fit(stages, gpu.hbm_capacity_bytes, fitted.options.reserve)
        levels[level] = (largest, unfit)
    advice = None
    if fitted.misfit is not None:
        advice = remedy(scenario, model, gpu, fitted.options, fitted.plan)
    return JobMemory(scenario, model, gpu, fitted, levels, advice)


def formula_job(memory: JobMemory) -> FormulaJob:
    """What published formulas need of a job, its first stage with the layers that it has.

    Raises
    ------
    PlanError
        If EP does not divide the data-parallel degree of the dense parts.
    """
    model, plan = memory.model, memory.fitted.plan
    counts = {part.name: part.total for part in parameter_parts(model)}
    experts = counts.get("routed experts", 0)
    return FormulaJob(
        parameters=sum(counts.values()) - experts,
        expert_parameters=experts,
        layers=sum(map(len, plan.held_chunks(model.num_layers, 0))),
        hidden=model.hidden_size,
        heads=model.attention.num_heads,
        top_k=model.experts_per_token or 1,
        seq=plan.seq_len,
        batch=plan.micro_batch_size,
        pp=plan.pp,
        tp=plan.tp,
        ep=plan.ep,
        dp=plan.dense_dp,
    )


def one_replica(model: Model, plan: PlanOptions) -> tuple[int, PlanOptions]:
    """The GPUs of one replica, and the plan with every degree that makes it.

    Degrees are as given, else as published, else 1; one replica unless ``dp`` is given.

    Raises
    ------
    PlanError
        If no degree is given and none is published.
    """
    published = model.plan
    names = ("tp", "pp", "ep")
    degrees = {name: getattr(plan, name) for name in names}
    if published is None:
        if not any(degrees.values()):
            raise PlanError(
                f"{model.name} has no published plan: give --gpus, or degrees such as --tp 2 --pp 4"
            )
        degrees = {name: degree or 1 for name, degree in degrees.items()}
    tp, pp, ep = (degrees[name] or getattr(published, name) for name in names)
    etp = plan.etp or (published and tp == published.tp and published.etp) or None
    cp, dp = plan.cp or 1, plan.dp or 1
    gpus = tp * cp * ep * dp * pp
    if plan.expert_mode == "folded" or (etp is not None and etp != tp):
        # dense and expert layers divide the same GPUs in two ways
        gpus = math.lcm(tp * cp, (etp or 1) * ep * dp) * pp
    return gpus, plan.model_copy(update=degrees)
