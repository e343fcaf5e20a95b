"""Predictors of expert loads, behind one protocol: one file each.

:data:`PREDICTORS` maps the name of each to how it is made for a number of experts and a window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from lightloom.demand.predictors.copilot import MAX_EXPERTS, Copilot
from lightloom.demand.predictors.ewma import Ewma
from lightloom.demand.predictors.last_step import LastStep
from lightloom.demand.predictors.previous_layer import PreviousLayer
from lightloom.demand.predictors.protocol import DemandPredictor, Loads
from lightloom.demand.predictors.ridge import Ridge
from lightloom.demand.predictors.uniform import Uniform
from lightloom.errors import DemandError, did_you_mean

__all__ = [
    "MAX_EXPERTS",
    "PREDICTORS",
    "Copilot",
    "DemandPredictor",
    "Ewma",
    "LastStep",
    "Loads",
    "PreviousLayer",
    "Ridge",
    "Uniform",
    "make_predictor",
]

Maker = Callable[[int, int], DemandPredictor]


def _without_window(kind: Callable[[int], DemandPredictor]) -> Maker:
    return lambda experts, _: kind(experts)


def _copilot(solver: str, experts: int, window: int) -> DemandPredictor:
    return Copilot(experts, window=window, solver=solver)


#: makes each predictor for (experts, window); those without a window do not read it
PREDICTORS: Mapping[str, Maker] = {
    "uniform": _without_window(Uniform),
    "previous-layer": _without_window(PreviousLayer),
    "last-step": _without_window(LastStep),
    "ewma": _without_window(Ewma),
    "copilot": partial(_copilot, "slsqp"),
    "copilot-gradient": partial(_copilot, "gradient"),
    "ridge": lambda experts, window: Ridge(experts, window=window),
}


def make_predictor(name: str, experts: int, *, window: int = 32) -> DemandPredictor:
    """Make a predictor of :data:`PREDICTORS`.

    Parameters
    ----------
    name
        See the table in ``docs/explanation/prediction.md``.
    experts
        Number of experts.
    window
        Steps over which ``copilot``, ``copilot-gradient`` and ``ridge`` fit.

    Raises
    ------
    DemandError
        If the name is unknown, or it cannot be made for so many experts or such a window.
    """
    if name not in PREDICTORS:
        hint = did_you_mean(name, PREDICTORS)
        raise DemandError(f"unknown predictor '{name}'{hint}; known: {', '.join(PREDICTORS)}")
    return PREDICTORS[name](experts, window)
