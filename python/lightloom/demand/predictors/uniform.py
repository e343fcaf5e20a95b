"""Uniform: every expert gets the same; the "randomly assigned" baseline of MixNet's Figure 19."""

from __future__ import annotations

import numpy.typing as npt

from lightloom.demand.predictors.history import History
from lightloom.demand.predictors.protocol import Loads, uniform_loads


class Uniform:
    """Predicts equal loads, whatever was observed."""

    def __init__(self, experts: int) -> None:
        self._history = History(experts)

    def observe(self, step: int, layer: int, loads: npt.ArrayLike) -> None:
        """See :class:`~lightloom.demand.predictors.protocol.DemandPredictor`."""
        self._history.add(step, layer, loads)

    def predict(self, step: int, layer: int) -> Loads:
        """See :class:`~lightloom.demand.predictors.protocol.DemandPredictor`."""
        self._history.check_open(step, layer)
        return uniform_loads(self._history.experts)
