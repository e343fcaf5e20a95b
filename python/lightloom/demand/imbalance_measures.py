"""How uneven a demand is: of expert loads, of rank loads and of pairs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand.placement import rank_matrix, received
from lightloom.errors import DemandError


@dataclass(frozen=True)
class Imbalance:
    """Unevenness of ``count`` non-negative values.

    ``gini`` is 0 for equal values and ``1 - 1/count`` for a single one; ``entropy`` is the
    Shannon entropy over its maximum, 1 for equal values; ``top_share`` is what the ``top``
    largest hold of the total; ``cv`` the standard deviation over the mean.
    """

    count: int
    mean: float
    max_over_mean: float
    cv: float
    gini: float
    entropy: float
    top: int
    top_share: float


@dataclass(frozen=True)
class ImbalanceStatistics:
    """Imbalance of one ``(ranks, experts)`` matrix of token copies.

    ``experts`` are the loads of experts, ``ranks`` what EP ranks receive (the own copies
    included), ``pairs`` ordered pairs of different ranks and ``symmetric_pairs`` unordered ones.
    Pairs are ``None`` where there is a single rank. ``local_share`` of the copies stay on their
    rank; ``rank_one_error`` is how far rows deviate from the common mix: half the L1 distance
    between a row's shares and the shares of all, averaged over rows.
    """

    total: int
    experts: Imbalance
    ranks: Imbalance
    pairs: Imbalance | None
    symmetric_pairs: Imbalance | None
    local_share: float
    rank_one_error: float

    def as_dict(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return asdict(self)


def imbalance_of(values: npt.NDArray[Any], top: int | None = None) -> Imbalance:
    """Measure unevenness.

    Parameters
    ----------
    values
        Non-negative values, any shape.
    top
        How many of the largest ``top_share`` adds up; a quarter of them (at least one) if absent.

    Raises
    ------
    DemandError
        If there is no value, a negative or not finite one, all are zero, or ``top`` is not
        between 1 and the number of values.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64).ravel())
    count = ordered.size
    if count == 0 or not np.isfinite(ordered).all() or ordered[0] < 0 or ordered[-1] == 0:
        raise DemandError("expected non-negative token counts, not all of them zero")
    top = max(1, count // 4) if top is None else top
    if not 1 <= top <= count:
        raise DemandError(f"top: expected 1 to {count}, got {top}")
    total = ordered.sum()
    mean = total / count
    shares = ordered[ordered > 0] / total
    entropy = -(shares * np.log(shares)).sum() / np.log(count) if count > 1 else 1.0
    # mean absolute difference over twice the mean, from the sorted values
    order = 2 * np.arange(1, count + 1) - count - 1
    return Imbalance(
        count=count,
        mean=float(mean),
        max_over_mean=float(ordered[-1] / mean),
        cv=float(ordered.std() / mean),
        gini=float((order * ordered).sum() / (count * total)),
        entropy=float(entropy),
        top=top,
        top_share=float(ordered[-top:].sum() / total),
    )


def statistics(matrix: npt.NDArray[Any], top: int | None = None) -> ImbalanceStatistics:
    """Imbalance of the loads and of the pairs of a demand.

    Parameters
    ----------
    matrix
        Token copies ``(ranks, experts)``.
    top
        Number of experts in ``experts.top_share``; a quarter of them if absent.

    Raises
    ------
    DemandError
        If the matrix is not of that form or has no copies.
    """
    if matrix.ndim != 2:
        raise DemandError(f"expected (ranks, experts), got the shape {matrix.shape}")
    pairs = rank_matrix(matrix)
    loads = received(matrix)
    total = int(matrix.sum())
    ranks = len(pairs)
    upper = np.triu_indices(ranks, 1)
    off = pairs[~np.eye(ranks, dtype=bool)]
    between = bool(off.any())
    experts = imbalance_of(loads, top)
    rows = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    common = matrix.sum(axis=0) / total
    return ImbalanceStatistics(
        total=total,
        experts=experts,
        ranks=imbalance_of(loads.sum(axis=-1)),
        pairs=imbalance_of(off) if between else None,
        symmetric_pairs=imbalance_of((pairs + pairs.T)[upper]) if between else None,
        local_share=float(1 - pairs.sum() / total),
        rank_one_error=float(np.abs(rows - common).sum(axis=1).mean() / 2),
    )


def rank_one_distance(matrix: npt.NDArray[Any], *, diagonal: bool) -> float:
    """Share of a matrix that is elsewhere than in the product of its line sums.

    Zero means that every source has the same mix of destinations, so that each line has either
    much for all or little for all. Half the L1 distance to the product ``r c`` with the same row
    and column sums, over the total.

    Parameters
    ----------
    matrix
        Non-negative values, not all zero.
    diagonal
        Whether the diagonal counts. Where it does not (a square matrix without it), the product
        is fitted to the other entries by scaling rows and columns in turn (quasi-independence).
    """
    values = np.asarray(matrix, dtype=np.float64)
    present = np.ones(values.shape, dtype=bool)
    if not diagonal:
        np.fill_diagonal(present, False)
    values = np.where(present, values, 0.0)
    rows, columns = values.sum(axis=1), values.sum(axis=0)
    fitted = present.astype(np.float64)
    for _ in range(1 if diagonal else 50):
        fitted *= _over(rows, fitted.sum(axis=1))[:, np.newaxis]
        fitted *= _over(columns, fitted.sum(axis=0))[np.newaxis, :]
    return float(np.abs(values - fitted).sum() / 2 / values.sum())


def _over(wanted: npt.NDArray[np.float64], there: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    return np.divide(wanted, there, out=np.zeros_like(wanted), where=there > 0)
