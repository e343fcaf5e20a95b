"""The same job under other loads of its experts: balanced, skewed, and as a gate learns to balance.

How tokens are spread over experts changes a step more than the fabric does, and differs from job to
job, so that every comparison shows both ends in addition to its own load, and two times of a
training whose balance is not forced: its first steps, and when biases have evened the load.
"""

from __future__ import annotations

from lightloom.demand.regime import ALIASES
from lightloom.study.compare.job import Job
from lightloom.study.compare.scenario import Scenario

#: both ends of what is simulated in addition to the load of the scenario
LOADS = ("balanced", "skewed")
#: loads of a gate that is balanced by biases, early and late in training, and their regimes; each
#: runs with what the fabric chose for the job's own load
LEARNED = {"learned early": "learned", "learned late": "natural"}


def other_loads(job: Job) -> dict[str, Scenario]:
    """The scenario of a job under every other load, by name.

    A job without experts has none. A recorded demand is shown against a balanced one alone: how
    skewed the job is, is what was recorded. Packets are simulated for the scenario's own load.
    """
    scenario = job.scenario
    if not scenario.imbalances or not job.has_routing or scenario.network == "packet":
        return {}
    if not job.is_drawn:
        return {LOADS[0]: scenario.with_imbalance(LOADS[0])}
    begun = scenario.model_copy(
        update={"demand": scenario.demand.model_copy(update={"trained_steps": 0})}
    )
    return {
        **{name: scenario.with_imbalance(name) for name in LOADS},
        **{name: begun.with_imbalance(regime) for name, regime in LEARNED.items()},
    }


def is_load_of(job: Job, name: str) -> bool:
    """Whether a load is a job's own, by this or by another name."""
    if not job.is_drawn:
        return False
    demand = job.scenario.demand
    source, regime = str(demand.name), LEARNED.get(name, name)
    if ALIASES.get(source, source) != ALIASES.get(regime, regime):
        return False
    return regime != "learned" or not demand.trained_steps
