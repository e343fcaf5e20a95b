"""The same job under balanced and under skewed load of its experts.

How tokens are spread over experts changes a step more than the fabric does, and differs from job to
job, so that every comparison shows both ends beside its own load.
"""

from __future__ import annotations

from lightloom.demand.open import kind_of
from lightloom.models import Model
from lightloom.study.compare.scenario import Scenario

#: what is simulated in addition to the load of the scenario
IMBALANCES = ("balanced", "skewed")


def other_loads(scenario: Scenario, model: Model) -> dict[str, Scenario]:
    """The scenario under every other load, by name.

    A model without experts has none. A recorded demand is shown against a balanced one alone: how
    skewed the job is, is what was recorded. Packets are simulated for the scenario's own load.
    """
    if not scenario.imbalances or not model.num_moe_layers or scenario.network == "packet":
        return {}
    is_recorded = kind_of(scenario.demand.source) != "regime"
    names = IMBALANCES[:1] if is_recorded else IMBALANCES
    return {name: with_imbalance(scenario, name) for name in names}


def with_imbalance(scenario: Scenario, name: str) -> Scenario:
    """The scenario with balanced or skewed load."""
    source = {"balanced": "uniform", "skewed": "mixtral"}[name]
    changes = {"source": source, "resample": False, "scale": False}
    demand = scenario.demand.model_copy(update=changes)
    return scenario.model_copy(update={"demand": demand})
