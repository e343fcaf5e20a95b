"""How popular each expert of a layer is: drift over steps, decay of skew, topics of the text.

Popularity belongs to the gate's weights, so that all EP groups of a layer share it. The log
popularity of an expert is a stationary AR(1) process over steps, scaled by a spread that the load
balancing loss shrinks over training. Any step is reached directly, in ``O(log steps)`` draws: an
AR(1) process between two known values is a Gaussian bridge, so its middle can be drawn from its
ends, each draw from the random stream of its own step.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lightloom.demand.regime import Regime
from lightloom.demand.streams import Stream
from lightloom.errors import DemandError

#: steps of training that the drift covers (a power of two, for halving)
MAX_STEP = 2**20

#: results kept, so that the groups of one stage share them
_KEPT = 4096

Shares = npt.NDArray[np.float64]


class Popularity:
    """Shares of the experts of each layer at each step.

    Parameters
    ----------
    experts
        Number of experts.
    regime
        Parameters of the gate.
    seed
        Seed of the random streams ``drift``, ``persistent`` and ``topic-logits``.
    """

    def __init__(self, experts: int, regime: Regime, seed: int) -> None:
        self._experts = experts
        self._regime = regime
        self._drift = Stream(seed, "drift")
        self._persistent = Stream(seed, "persistent")
        self._topic_logits = Stream(seed, "topic-logits")
        self._kept: dict[tuple[int, int], Shares] = {}

    def spread(self, step: int) -> float:
        """Sd of log popularity at a step: ``s + (s0 - s) exp(-step / decay_steps)``."""
        return self._regime.spread(self._experts, step)

    def shares(self, layer: int, step: int) -> Shares:
        """Shares per topic, ``(topics, experts)``, each row summing to one.

        Without topics there is one row.

        Raises
        ------
        DemandError
            If the step lies beyond :data:`MAX_STEP`.
        """
        key = (layer, step)
        if key not in self._kept:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[key] = self._compute(layer, step)
        return self._kept[key]

    def _compute(self, layer: int, step: int) -> Shares:
        regime = self._regime
        fixed = self._persistent.at(layer).standard_normal(self._experts)
        moving = self._drifted(layer, step)
        share = regime.persistent_share
        unit = math.sqrt(share) * fixed + math.sqrt(1 - share) * moving
        logits = (self.spread(step) * unit)[np.newaxis, :]
        if regime.topics:
            shape = (regime.topics, self._experts)
            logits = logits + regime.topic_sd * self._topic_logits.at(layer).standard_normal(shape)
        shares: Shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        shares.flags.writeable = False
        return shares

    def _drifted(self, layer: int, step: int) -> Shares:
        """Unit-variance AR(1) at a step, by bisection between step 0 and ``MAX_STEP``."""
        if step > MAX_STEP:
            raise DemandError(f"step: expected at most {MAX_STEP:,}, got {step:,}")
        rho = self._regime.rho
        start = self._innovation(layer, 0)
        if step == 0:
            return start
        left, right = 0, MAX_STEP
        tie = rho**MAX_STEP
        end = tie * start + math.sqrt(1 - tie**2) * self._innovation(layer, MAX_STEP)
        while right != step:
            middle = (left + right) // 2
            tie = rho ** (middle - left)
            mean = tie / (1 + tie**2) * (start + end)
            sd = math.sqrt((1 - tie**2) / (1 + tie**2))
            value = mean + sd * self._innovation(layer, middle)
            if step <= middle:
                right, end = middle, value
            else:
                left, start = middle, value
        return end

    def _innovation(self, layer: int, step: int) -> Shares:
        return self._drift.at(layer, step).standard_normal(self._experts)
