"""Decisions for gradients: the backward pass goes through the layers again, in the other order.

What it sends is known: the demand of each dispatch, and its transpose. As soon as the gradients of
a layer have moved, a decision for the layers before it begins, behind what is computed meanwhile.
Without one, gradients take the circuits of the latest decision.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from lightloom.torch.circuit_decisions import CircuitDecisions, Demand, RegionCircuits

if TYPE_CHECKING:
    from lightloom.torch.mixnet import CircuitRoute

#: dispatches whose gradients may be to come, and layers that a decision looks ahead
_MOST_DISPATCHES, _LAYERS_AHEAD = 256, 4


class GradientDecisions:
    """Knows which gradients are to come, and asks for circuits.

    Parameters
    ----------
    decisions
        Of the job.
    """

    def __init__(self, decisions: CircuitDecisions) -> None:
        self._decisions = decisions
        self._to_come: list[tuple[CircuitRoute, Demand]] = []
        self._ended_s = 0.0
        #: seconds before the gradients of a layer's combine were reached the last time
        self._hidden_s: dict[int | None, float] = {}

    @property
    def expected(self) -> int:
        """Dispatches whose gradients are to come."""
        return len(self._to_come)

    def expect(self, route: CircuitRoute, demand: Demand) -> None:
        """A dispatch was sent whose gradients will come back."""
        self._to_come.append((route, demand))
        del self._to_come[:-_MOST_DISPATCHES]

    def take(self, dispatch: CircuitRoute | None) -> RegionCircuits:
        """The circuits for gradients; of a combine, which comes first, those decided on for it."""
        if dispatch is None:
            return self._decisions.current
        self._hidden_s[dispatch.layer] = time.monotonic() - self._ended_s
        return self._decisions.take_begun(dispatch)

    def ended(self, route: CircuitRoute) -> None:
        """Gradients have moved; of a dispatch, they were the last ones of its layer."""
        self._ended_s = time.monotonic()
        places = [place for place, (other, _) in enumerate(self._to_come) if other is route]
        if not places:
            return
        del self._to_come[places[0]]
        ahead = self._to_come[: places[0]][: -_LAYERS_AHEAD - 1 : -1]
        if not ahead:
            return
        matrices = [matrix for _, demand in ahead for matrix in (demand, demand.T)]
        hidden_s = [s for other, _ in ahead for s in (self._hidden_s.get(other.layer, 0.0), 0.0)]
        first = ahead[0][0]
        self._decisions.upcoming(first.layer, np.stack(matrices), hidden_s, key=first)
