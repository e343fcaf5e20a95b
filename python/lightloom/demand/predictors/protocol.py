"""What a predictor of expert loads is.

Before the all-to-all of a layer its loads are unknown, but those of the layers before it in the
same step, and of all layers in the steps before, are known. A predictor is told the loads of each
layer as they become known and is asked for those of a layer that is still to come.

Loads are shares: not negative, summing to one. Layers are numbered from 0 in the order in which a
step passes them. A *step* here is one forward pass: micro-batches of a training step count on.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lightloom.demand.source import MAX_EXPERTS, whole
from lightloom.errors import DemandError, echo

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


def as_shares(loads: npt.ArrayLike, experts: int) -> Loads:
    """Loads scaled to sum to one.

    Raises
    ------
    DemandError
        If they are not ``experts`` finite non-negative numbers with a positive sum.
    """
    given: npt.NDArray[Any] = np.asarray(loads)
    if given.shape != (experts,) or given.dtype.kind not in "iuf":
        raise DemandError(
            f"loads: expected {experts} numbers, got {given.dtype} of shape {given.shape}"
        )
    shares = given.astype(np.float64)
    largest = float(shares.max())
    # a largest number of one keeps the sum finite; NaN fails both comparisons
    if not (shares.min() >= 0 and 0 < largest < np.inf):
        raise DemandError("loads: expected finite numbers of at least 0, not all of them 0")
    shares /= largest
    shares /= shares.sum()
    return shares


def project(loads: Loads) -> Loads:
    """Negative entries cut off, the rest scaled to sum to one, along the last axis.

    What has no positive entry becomes uniform.
    """
    kept: Loads = np.maximum(loads, 0)
    total = kept.sum(axis=-1, keepdims=True)
    empty = total <= 0
    if empty.any():
        kept = np.where(empty, 1.0, kept)
        total = kept.sum(axis=-1, keepdims=True)
    kept /= total
    return kept


def uniform_loads(experts: int) -> Loads:
    """Equal shares."""
    return np.full(experts, 1 / experts)


def check_count(name: str, value: int, maximum: int, minimum: int = 1) -> int:
    """Return a whole number from ``minimum`` to ``maximum``, or refuse it.

    Raises
    ------
    DemandError
        Naming it.
    """
    if not whole(value) or not minimum <= value <= maximum:
        raise DemandError(
            f"{name}: expected a whole number from {minimum} to {maximum}, got {echo(value)}"
        )
    return int(value)


def check_experts(experts: int) -> int:
    """Return a number of experts, or refuse it."""
    return check_count("experts", experts, MAX_EXPERTS)


def check_share(name: str, value: float, minimum: float = 0.0) -> float:
    """Return a number above ``minimum`` and up to 1, or refuse it.

    Raises
    ------
    DemandError
        Naming it.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not minimum < value <= 1:
        raise DemandError(
            f"{name}: expected a number above {minimum:g} and up to 1, got {echo(value)}"
        )
    return float(value)
