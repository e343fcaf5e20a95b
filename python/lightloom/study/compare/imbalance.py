"""The same job under balanced and under skewed load of its experts.

How tokens are spread over experts changes a step more than the fabric does, and differs from job to
job, so that every comparison shows both ends in addition to its own load.
"""

from __future__ import annotations

from lightloom.demand.open import kind_of
from lightloom.demand.regime import ALIASES
from lightloom.models import Model
from lightloom.study.compare.scenario import Scenario

#: what is simulated in addition to the load of the scenario
LOADS = ("balanced", "skewed")


def other_loads(scenario: Scenario, model: Model) -> dict[str, Scenario]:
    """The scenario under every other load, by name.

    A model without experts has none. A recorded demand is shown against a balanced one alone: how
    skewed the job is, is what was recorded. Packets are simulated for the scenario's own load.
    """
    if not scenario.imbalances or not model.num_moe_layers or scenario.network == "packet":
        return {}
    is_recorded = kind_of(scenario.demand.name) != "regime"
    names = LOADS[:1] if is_recorded else LOADS
    return {name: scenario.with_imbalance(name) for name in names}


def is_load_of(scenario: Scenario, name: str) -> bool:
    """Whether a load is the scenario's own, by this or by another name."""
    own = scenario.demand.name
    return ALIASES.get(str(own), own) == ALIASES.get(name, name)
