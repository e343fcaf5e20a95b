"""EWMA: an exponentially weighted mean of the same layer's loads over the steps.

The weight of a new step starts as that of a plain mean and falls to ``rate``, so that the first
step does not count for more than the others.
"""

from __future__ import annotations

import numpy.typing as npt

from lightloom.demand.predictors.history import History
from lightloom.demand.predictors.protocol import Loads, check_share

#: weight of the newest step; of 0.1, 0.2 and 0.5 the best on calm generated traces
DEFAULT_RATE = 0.2


class Ewma:
    """Predicts the mean of the layer; the previous layer's loads, or uniform, at first.

    Parameters
    ----------
    experts
        Number of experts.
    rate
        Weight of the newest step, above 0 and up to 1.
    """

    def __init__(self, experts: int, *, rate: float = DEFAULT_RATE) -> None:
        self._history = History(experts)
        self._rate = check_share("rate", rate)
        self._levels: dict[int, Loads] = {}
        self._counts: dict[int, int] = {}

    def observe(self, step: int, layer: int, loads: npt.ArrayLike) -> None:
        """See :class:`~lightloom.demand.predictors.protocol.DemandPredictor`."""
        shares = self._history.add(step, layer, loads)
        count = self._counts.get(layer, 0) + 1
        self._counts[layer] = count
        if count == 1:
            self._levels[layer] = shares.copy()
        else:
            level = self._levels[layer]
            level += max(self._rate, 1 / count) * (shares - level)

    def predict(self, step: int, layer: int) -> Loads:
        """See :class:`~lightloom.demand.predictors.protocol.DemandPredictor`."""
        self._history.check_open(step, layer)
        level = self._levels.get(layer)
        return self._history.fall_back(step, layer) if level is None else level.copy()
