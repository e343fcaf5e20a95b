"""Matchings of largest weight, each with a proof by duality (``crates/schedule``).

Weights are whole numbers, so that the proof is exact. Pairs of weight 0 or less are never
matched: a matching need not be perfect.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import InputError
from lightloom.schedule.arrays import as_array, flag
from lightloom.schedule.comparable import Comparable
from lightloom.schedule.results import MAX_SHOWN, Result, ResultTable, summary

_MAX_WEIGHT = 2**60


@dataclass(frozen=True, eq=False)
class BipartiteCertificate(Comparable):
    """Duals of rows and columns, none below 0.

    The dual of a row and that of a column add up to at least the weight of their cell, and all
    duals add up to the weight of the matching: no matching can be heavier.
    """

    row_duals: npt.NDArray[np.int64]
    column_duals: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GeneralCertificate(Comparable):
    """Duals of vertices and of odd sets, none below 0 (Edmonds, 1965).

    ``doubled_duals`` of two vertices, plus twice the duals of the sets that hold both, add up to
    at least twice the weight of the pair; all ``doubled_duals``, plus ``dual * (members - 1)`` of
    every set, add up to twice the weight of the matching: no matching can be heavier.

    Attributes
    ----------
    doubled_duals
        Twice the dual of each vertex, ``(n,)``.
    blossoms
        Members and dual of each odd set whose dual is not 0; disjoint or nested.
    """

    doubled_duals: npt.NDArray[np.int64]
    blossoms: tuple[tuple[tuple[int, ...], int], ...]


@dataclass(frozen=True, eq=False)
class Matching(Result):
    """Pairs, their weight, and the proof that there is no heavier matching.

    Attributes
    ----------
    pairs
        Row and column, or lower and higher vertex, ``(k, 2)``, sorted.
    weight
        Sum of the weights of the pairs.
    """

    pairs: npt.NDArray[np.int32]
    weight: int
    certificate: BipartiteCertificate | GeneralCertificate

    def tables(self) -> list[ResultTable]:
        """Return the tables that are printed: a summary, and the first pairs."""
        rows = [tuple(map(str, pair)) for pair in self.pairs[:MAX_SHOWN].tolist()]
        more = len(self.pairs) - len(rows)
        pairs = ResultTable("Pairs", ("one", "other"), rows, f"{more:,} more." if more else "")
        return [summary("Matching", pairs=f"{len(self.pairs):,}", weight=f"{self.weight:,}"), pairs]

    def check(self, weights: npt.ArrayLike) -> None:
        """Verify pairs, weight and proof against weights, independently of how they were found.

        Raises
        ------
        InputError
            The first thing that is wrong.
        """
        matrix = _weights(weights)
        proof = self.certificate
        try:
            if isinstance(proof, BipartiteCertificate):
                column_of = _partners(self.pairs, len(matrix), both=False)
                duals = proof.row_duals, proof.column_duals
                _core.schedule_check_assignment(matrix, column_of, self.weight, *duals)
            else:
                _square(matrix)
                mate = _partners(self.pairs, len(matrix), both=True)
                odd_sets = [(list(members), dual) for members, dual in proof.blossoms]
                proved = proof.doubled_duals, odd_sets
                _core.schedule_check_general(matrix, mate, self.weight, *proved)
        except ValueError as error:
            raise InputError(f"matching: {error}") from None


def max_weight_matching(weights: npt.ArrayLike, *, bipartite: bool) -> Matching:
    """Find a matching of largest weight.

    Parameters
    ----------
    weights
        Whole numbers from -2^60 to 2^60. Bipartite: ``(rows, columns)``, each row is matched to
        at most one column. Else: symmetric ``(n, n)``, each vertex is matched to at most one
        other; the diagonal is ignored.
    bipartite
        Shortest augmenting paths (Jonker and Volgenant, 1987), or Edmonds' blossoms (1965; Galil,
        1986). Both take O(n^3) at worst.

    Returns
    -------
    Matching
        The partner of each row or vertex, the weight, and what proves it.

    Raises
    ------
    InputError
        If the weights are not such a matrix.

    Examples
    --------
    >>> from lightloom.schedule import max_weight_matching
    >>> max_weight_matching([[5, 4], [4, 1]], bipartite=True).weight
    8
    """
    matrix, bipartite = _weights(weights), flag(bipartite, "bipartite")
    if not bipartite:
        _square(matrix)
    certificate: BipartiteCertificate | GeneralCertificate
    try:
        if bipartite:
            partner, weight, row_duals, column_duals = _core.schedule_assign(matrix)
            certificate = BipartiteCertificate(row_duals, column_duals)
            first = np.flatnonzero(partner >= 0)
        else:
            partner, weight, doubled, blossoms = _core.schedule_match_general(matrix)
            odd_sets = tuple((tuple(members), dual) for members, dual in blossoms)
            certificate = GeneralCertificate(doubled, odd_sets)
            first = np.flatnonzero(partner > np.arange(len(partner)))
    except ValueError as error:
        raise InputError(f"weights: {error}") from None
    pairs = np.stack([first.astype(np.int32), partner[first]], axis=1)
    return Matching(pairs, weight, certificate)


def _square(matrix: npt.NDArray[np.int64]) -> None:
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"weights: expected a square matrix, got shape {matrix.shape}")


def _partners(pairs: npt.NDArray[np.int32], size: int, both: bool) -> npt.NDArray[np.int32]:
    """Return the partner of each row or vertex, -1 if alone."""
    ends = np.asarray(pairs)
    if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iu":
        raise InputError(f"pairs: expected rows of 2 whole numbers, got shape {ends.shape}")
    if both:
        ends = np.concatenate([ends, ends[:, ::-1]])
    rows, counts = np.unique(ends[:, 0], return_counts=True)
    if len(rows) and (rows.min() < 0 or rows.max() >= size or counts.max() > 1):
        raise InputError(f"pairs: expected numbers from 0 to {size - 1}, each once")
    partner = np.full(size, -1, dtype=np.int32)
    partner[ends[:, 0]] = ends[:, 1]
    return partner


def _weights(weights: npt.ArrayLike) -> npt.NDArray[np.int64]:
    array = as_array(weights, "weights", InputError)
    if array.ndim != 2:
        raise InputError(f"weights: expected a matrix, got shape {array.shape}")
    if array.dtype.kind not in "iuf" and array.size:
        raise InputError(f"weights: expected whole numbers, got {array.dtype}")
    if array.dtype == np.float16:
        array = array.astype(np.float64)  # half precision knows no 2^60
    fits = (array >= -_MAX_WEIGHT) & (array <= _MAX_WEIGHT)
    if array.dtype.kind == "f":
        fits &= array == np.floor(array)
    if not fits.all():
        row, column = np.argwhere(~fits)[0]
        raise InputError(
            f"weights[{row}, {column}] is {array[row, column]}: "
            "expected a whole number from -2^60 to 2^60"
        )
    return np.ascontiguousarray(array.astype(np.int64))
