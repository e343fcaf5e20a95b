"""Last step: what the same layer did the step before. No table of the MixNet paper has it."""

from __future__ import annotations

import numpy.typing as npt

from lightloom.demand.predictors.history import History
from lightloom.demand.predictors.protocol import Loads


class LastStep:
    """Predicts the latest loads of the layer; the previous layer's, or uniform, at first."""

    def __init__(self, experts: int) -> None:
        self._history = History(experts)

    def observe(self, step: int, layer: int, loads: npt.ArrayLike) -> None:
        """See :class:`~lightloom.demand.predictors.protocol.DemandPredictor`."""
        self._history.add(step, layer, loads)

    def predict(self, step: int, layer: int) -> Loads:
        """See :class:`~lightloom.demand.predictors.protocol.DemandPredictor`."""
        self._history.check_open(step, layer)
        return self._history.fall_back(step, layer)
