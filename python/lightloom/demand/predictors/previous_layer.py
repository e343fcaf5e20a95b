"""Previous layer: its loads unmodified, the other baseline of MixNet's Figure 19.

Expert numbers of two layers have nothing to do with each other, so that this is hardly better
than chance unless a model was built otherwise.
"""

from __future__ import annotations

import numpy.typing as npt

from lightloom.demand.predictors.history import History
from lightloom.demand.predictors.protocol import Loads, uniform_loads


class PreviousLayer:
    """Predicts the loads of the layer before at the same step; uniform where there is none."""

    def __init__(self, experts: int) -> None:
        self._history = History(experts)

    def observe(self, step: int, layer: int, loads: npt.ArrayLike) -> None:
        """See :class:`~lightloom.demand.predictors.protocol.DemandPredictor`."""
        self._history.add(step, layer, loads)

    def predict(self, step: int, layer: int) -> Loads:
        """See :class:`~lightloom.demand.predictors.protocol.DemandPredictor`."""
        self._history.check_open(step, layer)
        before = self._history.at(step, layer - 1)
        return uniform_loads(self._history.experts) if before is None else before.copy()
