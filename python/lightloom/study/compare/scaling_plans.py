"""Plans of one source for all points of a curve, and sequences per step that grow with the GPUs.

A published plan needs a multiple of its own GPUs. Where some points have one and others do not, a
curve would show the difference between plans: then all are searched. Searched plans train as many
sequences per GPU as the published one, unless the user says how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from lightloom.errors import LightloomError
from lightloom.parallel import Plan
from lightloom.study.compare.job import model_of
from lightloom.study.compare.plan_candidates import Candidates
from lightloom.study.compare.program_job import program_of
from lightloom.study.compare.racks import with_servers
from lightloom.study.compare.scenario import Scenario


def with_one_source(scenarios: Sequence[Scenario]) -> tuple[list[Scenario], str]:
    """The scenarios with plans of one source, and a sentence on which that is.

    Parameters
    ----------
    scenarios
        Those of a curve, of which only GPUs, rates and batches differ.
    """
    options = scenarios[0].plan
    if any(scenario.model is None or program_of(scenario) is not None for scenario in scenarios):
        return list(scenarios), ""
    if options.tp and options.pp and options.ep:
        return list(scenarios), "plans: as given"
    stated = [_stated(scenario) for scenario in scenarios]
    lacking = [
        f"{scenario.gpus:,}"
        for scenario, plan in zip(scenarios, stated, strict=True)
        if plan is None
    ]
    plans = [plan for plan in stated if isinstance(plan, Plan)]
    if options.source == "published" or (options.source is None and not lacking):
        text = "plans: published, scaled in data parallelism; --plan search finds the fastest"
        return list(scenarios), text
    text = "plans: the fastest that a search finds for each point"
    if options.source is None and plans:
        gpus = ", ".join(dict.fromkeys(lacking))
        text += f", since there is no published plan for {gpus} GPUs"
    return [_searched(scenario, plans) for scenario in scenarios], text


def _stated(scenario: Scenario) -> Plan | LightloomError | None:
    """The plan that is given or published; the error where there can be none."""
    try:
        model = model_of(scenario)
        return Candidates(with_servers(scenario, model), model).stated
    except LightloomError as error:
        return error


def _searched(scenario: Scenario, plans: Sequence[Plan]) -> Scenario:
    """The scenario with a searched plan, of as many sequences per GPU as the first known one."""
    change: dict[str, object] = {"source": "search"}
    plan = scenario.plan
    if plans and plan.micro_batches is None and plan.global_batch_size is None:
        sequences = Fraction(plans[0].sequences_per_step * scenario.gpus, plans[0].gpus)
        if sequences.denominator == 1:
            change["global_batch_size"] = int(sequences)
    return scenario.model_copy(update={"plan": plan.model_copy(update=change)})
