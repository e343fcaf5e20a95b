"""What predictors remember: the latest loads of each layer, with their steps."""

from __future__ import annotations

from collections import deque

import numpy.typing as npt

from lightloom.demand.predictors.protocol import (
    Loads,
    as_shares,
    check_count,
    check_experts,
    uniform_loads,
)
from lightloom.demand.source import MAX_INDEX
from lightloom.errors import DemandError

#: steps by which a layer may lead the next one, as micro-batches in a pipeline do
LEAD = 64

#: more layers than any model has
_MAX_LAYERS = 65_536


class History:
    """Loads of the latest steps of each layer.

    Parameters
    ----------
    experts
        Number of experts.
    """

    def __init__(self, experts: int) -> None:
        self.experts = check_experts(experts)
        self._kept: dict[int, deque[tuple[int, Loads]]] = {}

    def add(self, step: int, layer: int, loads: npt.ArrayLike) -> Loads:
        """Keep loads; returns them as shares.

        Raises
        ------
        DemandError
            If they cannot be used, or do not come after what is known of the layer.
        """
        self.check_open(step, layer)
        shares = as_shares(loads, self.experts)
        self._kept.setdefault(layer, deque(maxlen=LEAD)).append((step, shares))
        return shares

    def check_open(self, step: int, layer: int) -> None:
        """Refuse a step of a layer that does not come after all observed ones.

        Raises
        ------
        DemandError
            Naming both.
        """
        check_count("step", step, MAX_INDEX, 0)
        check_count("layer", layer, _MAX_LAYERS, 0)
        kept = self._kept.get(layer)
        if kept and step <= kept[-1][0]:
            raise DemandError(
                f"layer {layer} was observed at step {kept[-1][0]}; expected a later step, "
                f"got {step}"
            )

    def at(self, step: int, layer: int) -> Loads | None:
        """Loads of a layer at a step, if known."""
        for known, loads in reversed(self._kept.get(layer, ())):
            if known == step:
                return loads
        return None

    def last(self, layer: int) -> Loads | None:
        """Latest loads of a layer, if any."""
        kept = self._kept.get(layer)
        return kept[-1][1] if kept else None

    def fall_back(self, step: int, layer: int) -> Loads:
        """Best guess of one without records: the last step, the previous layer, or uniform."""
        for guess in (self.last(layer), self.at(step, layer - 1)):
            if guess is not None:
                return guess.copy()
        return uniform_loads(self.experts)
