"""The same job under balanced and under skewed load of its experts.

How tokens are spread over experts changes a step more than the fabric does, and differs from job to
job, so that every comparison shows both ends in addition to its own load.
"""

from __future__ import annotations

from lightloom.demand.regime import ALIASES
from lightloom.study.compare.job import Job
from lightloom.study.compare.scenario import Scenario

#: what is simulated in addition to the load of the scenario
LOADS = ("balanced", "skewed")


def other_loads(job: Job) -> dict[str, Scenario]:
    """The scenario of a job under every other load, by name.

    A job without experts has none. A recorded demand is shown against a balanced one alone: how
    skewed the job is, is what was recorded. Packets are simulated for the scenario's own load.
    """
    scenario = job.scenario
    if not scenario.imbalances or not job.has_routing or scenario.network == "packet":
        return {}
    is_recorded = not job.is_drawn
    names = LOADS[:1] if is_recorded else LOADS
    return {name: scenario.with_imbalance(name) for name in names}


def is_load_of(job: Job, name: str) -> bool:
    """Whether a load is a job's own, by this or by another name."""
    if not job.is_drawn:
        return False
    source = job.scenario.demand.name
    return ALIASES.get(str(source), source) == ALIASES.get(name, name)
