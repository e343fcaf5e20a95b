"""A gate of a stated imbalance: the spread of its experts' popularity is solved for.

The imbalance is the expected load of the busiest EP rank over the mean load, in one layer and
micro-batch. It comes from the persistent popularity of experts, from how the texts of the source
ranks differ, and from drawing whole copies. The expectation is a mean over fixed normal draws, so
that it is a smooth, growing function of the spread, and the root is the same wherever it is found.
Counts are taken as normal, which holds from some tens of copies per rank.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lightloom.demand.generator import synthetic
from lightloom.demand.regime import BOUNDS, Regime, build_regime
from lightloom.demand.source import DemandSource, Shape
from lightloom.errors import DemandError

#: the gate whose spread is changed
BASE_REGIME = "auxiliary"

#: normal draws that the expectation is a mean over, and their limit of memory
_MIN_LAYERS, _MAX_LAYERS, _MAX_DRAWS = 64, 2048, 1 << 18

#: halvings of the interval in which the root lies
_HALVINGS = 40

#: an imbalance so close to 1 is forced balance
_BALANCED = 1e-9

Floats = npt.NDArray[np.float64]


def imbalanced(ratio: float, shape: Shape, *, seed: int) -> DemandSource:
    """Make a source whose busiest EP rank is expected to get ``ratio`` times the mean load.

    Chance alone loads one rank more than the others: what is asked to be more even than that is as
    even as it can be, and the provenance has an ``imbalance_floor``.

    Parameters
    ----------
    ratio
        From 1, forced balance, to what the shape allows.
    shape, seed
        See :func:`~lightloom.demand.generator.synthetic`.

    Raises
    ------
    DemandError
        If no gate of this shape is as skewed.
    """
    if ratio - 1 <= _BALANCED or shape.ranks == 1:
        _check_ceiling(ratio, 1.0 if shape.ranks == 1 else float(shape.ranks), shape)
        return synthetic("balanced", **vars(shape), seed=seed)
    source = synthetic(
        BASE_REGIME,
        ranks=shape.ranks,
        experts=shape.experts,
        tokens_per_rank=shape.tokens_per_rank,
        top_k=shape.top_k,
        seed=seed,
        **solve_imbalance(ratio, shape),
    )
    source.provenance["imbalance"] = (
        f"{max(ratio, floor(shape)):.4g} of the mean load on the busiest EP rank, expected at this "
        "spread"
    )
    if ratio < floor(shape):
        source.provenance["imbalance_floor"] = (
            f"demand {ratio:g}: chance alone loads the busiest of {shape.ranks} EP ranks with "
            f"{floor(shape):.4g} times the mean, which is taken; 'balanced' forces equal loads"
        )
    return source


@functools.lru_cache(maxsize=64)
def _solved(ratio: float, shape: Shape) -> tuple[tuple[str, float], ...]:
    regime, _ = build_regime(BASE_REGIME, {})
    expectation = _Expectation(shape)
    _check_ceiling(ratio, ceiling(shape), shape)

    def spread(value: float) -> float:
        return expectation.of(replace(regime, logit_sd=value, logit_sd_start=value))

    def texts(log: float) -> float:
        alike = replace(regime, logit_sd=0.0, logit_sd_start=0.0, concentration=math.exp(log))
        return expectation.of(alike)

    if ratio >= spread(0.0):
        top = BOUNDS["logit_sd"][1]
        _check_ceiling(ratio, spread(top), shape)
        return (("logit_sd", _root(lambda value: spread(value) - ratio, 0.0, top)),)
    # the texts of the sources alone make it more uneven: let them differ less
    low, high = (math.log(value) for value in (regime.concentration, BOUNDS["concentration"][1]))
    concentration = math.exp(_root(lambda log: ratio - texts(log), low, high))
    return ("logit_sd", 0.0), ("concentration", concentration)


@functools.lru_cache(maxsize=64)
def floor(shape: Shape) -> float:
    """The expected imbalance where all experts and texts are alike: that of chance alone."""
    regime, _ = build_regime(BASE_REGIME, {})
    alike = BOUNDS["concentration"][1]
    even = replace(regime, logit_sd=0.0, logit_sd_start=0.0, concentration=alike)
    return _Expectation(shape).of(even)


def solve_imbalance(ratio: float, shape: Shape) -> dict[str, float]:
    """Return the changes to :data:`BASE_REGIME` that give an expected imbalance.

    Below the :func:`floor` they are those that come closest.

    Raises
    ------
    DemandError
        If no gate of this shape is as skewed.
    """
    return dict(_solved(ratio, shape))


def ceiling(shape: Shape) -> float:
    """The largest load of one EP rank over the mean load that top-k routing allows.

    A token sends at most one copy to each expert, so that a rank of ``q`` experts gets at most
    ``min(q, k)`` of its ``k`` copies.
    """
    return shape.ranks * min(shape.experts_per_rank, shape.top_k) / shape.top_k


def _check_ceiling(ratio: float, largest: float, shape: Shape) -> None:
    if ratio > largest:
        raise DemandError(
            f"demand: expected at most {largest:.4g} times the mean load on one of "
            f"{shape.ranks} EP ranks of {shape.experts_per_rank} expert(s), top-{shape.top_k}, got "
            f"{ratio:g}"
        )


def _root(error: Callable[[float], float], low: float, high: float) -> float:
    """Where a growing function is zero, by halving."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) < 0 else (low, middle)
    return float((low + high) / 2)


class _Expectation:
    """The expected imbalance for one shape, over normal draws that are always the same."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        layers = int(np.clip(_MAX_DRAWS // shape.experts, _MIN_LAYERS, _MAX_LAYERS))
        # antithetic pairs keep the mean of the draws at zero
        draw = np.random.Generator(np.random.Philox(key=0))
        half = draw.standard_normal((layers // 2, shape.experts))
        self._popularity: Floats = np.concatenate([half, -half])
        self._counts: Floats = draw.standard_normal((len(self._popularity), shape.ranks))

    def of(self, regime: Regime) -> float:
        """The imbalance of a regime once training has settled."""
        shape = self._shape
        logits = regime.spread(shape.experts) * self._popularity
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        shares = _capped(shares, 1 / shape.top_k)
        ranks = shares.reshape(len(shares), shape.ranks, shape.experts_per_rank).sum(axis=2)
        # variance of a Dirichlet-multinomial count, over the copies of all sources
        total = regime.row_concentration(shape.experts, shape.tokens_per_rank) * shape.experts
        copies = shape.copies_per_rank
        variance = ranks * (1 - ranks) * (1 + (copies - 1) / (total + 1)) / copies / shape.ranks
        loads = np.clip(ranks + np.sqrt(variance) * self._counts, 0.0, None)
        return float((loads.max(axis=1) * shape.ranks / loads.sum(axis=1)).mean())


def _capped(shares: Floats, limit: float) -> Floats:
    """Move what exceeds the share that one expert can have to the others, in proportion."""
    for _ in range(shares.shape[1]):
        over = shares > limit * (1 + 1e-12)
        if not over.any():
            break
        full = shares >= limit * (1 - 1e-12)
        left = 1 - limit * full.sum(axis=1, keepdims=True)
        rest = np.where(full, 0.0, shares)
        scale = left / np.maximum(rest.sum(axis=1, keepdims=True), 1e-300)
        touched = over.any(axis=1, keepdims=True)
        shares = np.where(touched, np.where(full, limit, rest * scale), shares)
    return shares
