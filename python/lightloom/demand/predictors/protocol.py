"""What a predictor of expert loads is.

Before the all-to-all of a layer its loads are unknown, but those of the layers before it in the
same step, and of all layers in the steps before, are known. A predictor observes the loads of each
layer as they become known and predicts those of a layer that is still to come.

Loads are shares: not negative, summing to one. Layers are numbered from 0 in the order in which a
step passes them. A *step* here is one forward pass: micro-batches of a training step count on.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

#: shares of the experts, ``(experts,)``
Loads = npt.NDArray[np.float64]


class DemandPredictor(Protocol):
    """Predicts the loads of a layer from what was observed before.

    Examples
    --------
    >>> import lightloom, numpy
    >>> class AlwaysEqual:
    ...     def observe(self, step, layer, loads):
    ...         pass
    ...     def predict(self, step, layer):
    ...         return numpy.full(4, 0.25)
    >>> predictor: lightloom.DemandPredictor = AlwaysEqual()
    """

    def observe(self, step: int, layer: int, loads: npt.ArrayLike) -> None:
        """Take the loads of a layer, ``(experts,)``, of any scale.

        Raises
        ------
        DemandError
            If they are not that many non-negative numbers with a positive sum, or the layer was
            observed at this or a later step.
        """
        ...

    def predict(self, step: int, layer: int) -> Loads:
        """Shares of a layer's experts at a step, before they are observed.

        Raises
        ------
        DemandError
            If the layer was observed at this or a later step.
        """
        ...
