"""Matchings of largest weight through Python."""

import dataclasses

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.schedule import (
    BipartiteCertificate,
    GeneralCertificate,
    Matching,
    max_weight_matching,
)

SQUARE = [[1, 9, 4], [8, 9, 3], [7, 5, 2]]


def test_rows_to_columns():
    found = max_weight_matching(SQUARE, bipartite=True)
    assert found.weight == 4 + 9 + 7
    assert found.pairs.dtype == np.int32
    assert isinstance(found.certificate, BipartiteCertificate)
    duals = found.certificate.row_duals[:, None] + found.certificate.column_duals
    assert (duals >= SQUARE).all()
    found.check(SQUARE)


def test_rectangles_leave_some_alone():
    wide = max_weight_matching([[3, 5, 4]], bipartite=True)
    assert (wide.pairs.tolist(), wide.weight) == ([[0, 1]], 5)
    tall = max_weight_matching([[3], [5], [4]], bipartite=True)
    assert (tall.pairs.tolist(), tall.weight) == ([[1, 0]], 5)
    tall.check([[3], [5], [4]])
    assert max_weight_matching(np.zeros((0, 4)), bipartite=True).weight == 0


def test_a_triangle_needs_an_odd_set():
    triangle = np.array([[0, 6, 6], [6, 0, 6], [6, 6, 0]])
    found = max_weight_matching(triangle, bipartite=False)
    assert found.weight == 6
    assert found.pairs.shape == (1, 2)
    assert isinstance(found.certificate, GeneralCertificate)
    # duals of vertices alone cannot prove less than 9
    assert [members for members, _ in found.certificate.blossoms] == [(0, 1, 2)]
    found.check(triangle)


def test_weights_of_zero_or_less_stay_alone():
    found = max_weight_matching([[0, -5], [-5, 0]], bipartite=False)
    assert (found.weight, found.pairs.shape) == (0, (0, 2))
    assert max_weight_matching([[-1, 0]], bipartite=True).pairs.shape == (0, 2)


def test_sums_beyond_64_bits_are_exact():
    heavy = np.full((20, 20), 2**60)
    assert max_weight_matching(heavy, bipartite=True).weight == 20 * 2**60
    assert max_weight_matching(heavy, bipartite=False).weight == 10 * 2**60


def test_half_precision_is_a_number_like_any_other():
    found = max_weight_matching(np.array([[3, 1]], dtype=np.float16), bipartite=True)
    assert found.weight == 3


def test_wrong_answers_are_seen():
    found = max_weight_matching(SQUARE, bipartite=True)
    lighter = Matching(np.array([[0, 0]], dtype=np.int32), 1, found.certificate)
    with pytest.raises(InputError, match=r"^matching: the matching has weight 1, stated 1"):
        lighter.check(SQUARE)
    twice = dataclasses.replace(found, pairs=np.array([[0, 0], [0, 1]], dtype=np.int32))
    with pytest.raises(InputError, match=r"^pairs: expected numbers from 0 to 2, each once$"):
        twice.check(SQUARE)
    with pytest.raises(InputError, match=r"^matching: the duals of row 0 and column 2 are low$"):
        found.check([[1, 9, 40], [8, 9, 3], [7, 5, 2]])
    pair = max_weight_matching([[0, 4], [4, 0]], bipartite=False)
    with pytest.raises(InputError, match=r"^matching: the duals of vertices 0 and 1 are low$"):
        pair.check([[0, 6], [6, 0]])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], r"^weights: expected a matrix, got shape \(2,\)$"),
        ([[1, 2], [3]], r"^weights: expected an array, got rows of unequal length$"),
        ([["a", "b"], ["c", "d"]], r"^weights: expected whole numbers, got <U1$"),
        ([[0, 0.5], [0.5, 0]], r"^weights\[0, 1\] is 0.5: expected a whole number from -2\^60"),
        ([[0, np.nan], [0, 0]], r"^weights\[0, 1\] is nan: expected"),
        ([[0, 2**62], [0, 0]], r"^weights\[0, 1\] is 4611686018427387904: expected"),
        ([[0, 1, 2]], r"^weights: expected a square matrix, got shape \(1, 3\)$"),
        ([[0, 1], [2, 0]], r"^weights: weights of \(1, 0\) and \(0, 1\) differ$"),
    ],
)
def test_wrong_weights(weights, message):
    with pytest.raises(InputError, match=message):
        max_weight_matching(weights, bipartite=False)


def test_weights_may_be_in_the_byte_order_of_another_machine():
    weights = np.array([[0, 5, 7], [5, 0, 1], [7, 1, 0]])
    kinds = ("<i4", ">i4")
    found = [max_weight_matching(weights.astype(kind), bipartite=False) for kind in kinds]
    assert [one.pairs.tolist() for one in found] == [[[0, 2]], [[0, 2]]]
