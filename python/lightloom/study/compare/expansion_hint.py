"""What to run where no plan fits a long sequence: the smallest expansion of the cluster that does.

The degrees of the plan stay; context parallelism is added, on the GPUs that are there or on more,
beside the EP group or inside of it (:mod:`lightloom.planner.expansion`), and its step is estimated
in closed form.
"""

from __future__ import annotations

import contextlib
from typing import Any

from lightloom.errors import InputError, PlanError
from lightloom.fabric import Fabric
from lightloom.models import Model
from lightloom.parallel import Plan
from lightloom.parallel.plan import usual_length
from lightloom.study.compare.fit import FACTORS
from lightloom.study.compare.plan_candidates import Candidates, PredictedPlan
from lightloom.study.compare.scenario import Scenario
from lightloom.units import show_time


def with_expansion(error: PlanError, scenario: Scenario, model: Model, fabric: Fabric) -> PlanError:
    """The error, with an expansion that fits where a sequence is longer than usual.

    Parameters
    ----------
    error
        Says what does not fit.
    scenario, model
        What does not.
    fabric
        What the step of the expansion is estimated on.
    """
    usual = model.plan.seq_len if model.plan else usual_length(model)
    if (scenario.plan.seq_len or 0) <= usual or scenario.plan.cp is not None:
        return error
    for factor in (1, *FACTORS):
        grown = scenario.model_copy(update={"gpus": factor * scenario.gpus})
        with contextlib.suppress(InputError):
            fastest = _fastest(grown, model, fabric)
            if fastest is not None:
                return PlanError(f"{error}; {_words(fastest, scenario)}")
    return error


def _fastest(scenario: Scenario, model: Model, fabric: Fabric) -> PredictedPlan | None:
    """The plan with the shortest step, with the degrees that are given or published and CP."""
    options = scenario.plan
    fixed: dict[str, Any] = {"source": "search", "vpp": 1}
    if options.micro_batches is None:
        fixed["micro_batch_size"] = options.micro_batch_size or 1
    if model.plan is not None:
        published = {name: getattr(model.plan, name) for name in ("tp", "pp", "ep")}
        fixed |= {name: getattr(options, name) or value for name, value in published.items()}
    plan = options.model_copy(update=fixed)
    candidates = Candidates(scenario.model_copy(update={"plan": plan}), model, practice=False)
    fitting = [fitted for fitted in candidates.fitting() if fitted.plan.cp > 1]
    estimates = candidates.estimates(fabric.adapt(candidates.machines))
    return next(iter(candidates.estimated(fitting, estimates)), None)


def _words(found: PredictedPlan, scenario: Scenario) -> str:
    plan = found.plan
    peak = max(stage.total_bytes for stage in found.fitted.memory)
    # CP ranks are those of the EP group where both divide the same GPUs
    way = "vertical" if plan.expert_mode == "folded" and plan.ep > 1 else "horizontal"
    return (
        f"a {way} expansion fits: {' '.join(_flags(plan, scenario))} ({peak / 1e9:.1f} GB per GPU,"
        f" about {show_time(found.step_time_s, 3)} for a step of {plan.tokens_per_step:,} tokens)"
    )


def _flags(plan: Plan, scenario: Scenario) -> list[str]:
    """What to add to the command, or to change in it."""
    values: dict[str, Any] = {} if plan.gpus == scenario.gpus else {"gpus": plan.gpus}
    values |= {name: getattr(plan, name) for name in ("tp", "pp", "ep", "cp")}
    if plan.expert_mode == "folded":
        values |= {"ep-mode": "folded", "etp": plan.etp}
    values |= {"micro-batches": plan.micro_batches, "micro-batch-size": plan.micro_batch_size}
    return [f"--{name} {value}" for name, value in values.items()]
