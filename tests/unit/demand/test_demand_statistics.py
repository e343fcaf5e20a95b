"""Imbalance against values computed by hand."""

import numpy as np
import pytest

from lightloom.demand import imbalance_of, statistics
from lightloom.demand.imbalance_measures import rank_one_distance
from lightloom.demand.shading import SHADES, heat_map
from lightloom.errors import DemandError


def test_equal_values_are_not_skewed():
    even = imbalance_of(np.full(10, 7))
    assert (even.max_over_mean, even.cv, even.gini) == (1.0, 0.0, 0.0)
    assert even.entropy == pytest.approx(1)
    assert even.top_share == pytest.approx(0.2)


def test_one_value_holds_all():
    single = imbalance_of(np.array([0, 0, 0, 5]))
    assert single.max_over_mean == 4
    assert single.gini == pytest.approx(1 - 1 / 4)
    assert single.entropy == 0
    assert single.top_share == 1
    assert single.cv == pytest.approx(np.sqrt(3))


def test_values_by_hand():
    # mean absolute difference of {1, 3}: (0 + 2 + 2 + 0) / 4 = 1; Gini = 1 / (2 x 2)
    assert imbalance_of(np.array([1, 3])).gini == pytest.approx(0.25)
    assert imbalance_of(np.array([1, 3])).entropy == pytest.approx(
        -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
    )
    assert imbalance_of(np.array([4, 1, 3, 2]), top=2).top_share == pytest.approx(0.7)


def test_gini_is_half_the_relative_mean_difference():
    values = np.random.default_rng(0).integers(0, 100, 30)
    differences = np.abs(values[:, None] - values[None, :]).mean()
    assert imbalance_of(values).gini == pytest.approx(differences / 2 / values.mean())


def test_statistics_of_a_small_matrix():
    figures = statistics(np.array([[5, 1, 2, 0], [1, 3, 2, 2]]))
    assert figures.total == 16
    assert figures.experts.mean == 4
    assert figures.experts.max_over_mean == 1.5
    assert (figures.ranks.count, figures.ranks.mean) == (2, 8)
    assert figures.pairs is not None
    # ordered pairs: rank 0 sends 2 copies, rank 1 sends 4
    assert figures.pairs.max_over_mean == pytest.approx(4 / 3)
    assert figures.symmetric_pairs is not None
    assert (figures.symmetric_pairs.count, figures.symmetric_pairs.mean) == (1, 6)
    assert figures.local_share == pytest.approx(10 / 16)


def test_rank_one_error():
    assert statistics(np.array([[6, 2], [3, 1]])).rank_one_error == pytest.approx(0)
    # each row sends everything to one expert, the common mix is one half
    assert statistics(np.array([[4, 0], [0, 4]])).rank_one_error == pytest.approx(0.5)


def test_a_single_rank_has_no_pairs():
    figures = statistics(np.array([[1, 2, 3]]))
    assert figures.pairs is None
    assert figures.as_dict()["pairs"] is None
    assert figures.local_share == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: imbalance_of(np.zeros(3)), "not all of them zero"),
        (lambda: imbalance_of(np.array([])), "non-negative token counts"),
        (lambda: imbalance_of(np.array([1.0, -1.0])), "non-negative token counts"),
        (lambda: imbalance_of(np.array([1.0, np.nan])), "non-negative token counts"),
        (lambda: imbalance_of(np.ones(3), top=4), "top: expected 1 to 3, got 4"),
        (lambda: statistics(np.ones(3)), r"expected \(ranks, experts\)"),
        (lambda: statistics(np.zeros((2, 2))), "not all of them zero"),
        (lambda: heat_map(np.zeros((0, 2)), 4, 4), "expected a matrix to draw"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(DemandError, match=message):
        call()


def test_shades_grow_with_the_value():
    drawn = heat_map(np.array([[0, 1, 20], [50, 99, 100]]), 10, 10)
    assert drawn.levels.tolist() == [[0, 1, 1], [3, 5, 5]]
    assert drawn.bounds == (0, 20, 40, 60, 80, 100)
    assert len(drawn.bounds) == len(SHADES)


def test_cells_sum_what_does_not_fit():
    matrix = np.arange(35).reshape(5, 7)
    drawn = heat_map(matrix, 2, 3)
    assert (drawn.rows_per_cell, drawn.columns_per_cell) == (3, 3)
    assert drawn.values.shape == (2, 3)
    assert drawn.values[0, 0] == matrix[:3, :3].sum()
    assert drawn.values[1, 2] == matrix[3:, 6:].sum()
    assert drawn.values.sum() == matrix.sum()


def test_an_empty_demand_can_be_drawn():
    assert heat_map(np.zeros((2, 2)), 4, 4).levels.max() == 0


@pytest.mark.parametrize("diagonal", [True, False])
def test_a_product_is_of_rank_one(diagonal):
    product = np.outer([1, 2, 3, 4], [5, 1, 7, 2])
    if not diagonal:
        np.fill_diagonal(product, 0)
    assert rank_one_distance(product, diagonal=diagonal) == pytest.approx(0, abs=1e-12)


def test_what_must_move_to_get_to_rank_one():
    # equal line sums: the product is 1/2 everywhere, half of everything is elsewhere
    assert rank_one_distance(np.eye(2), diagonal=True) == pytest.approx(0.5)
    assert rank_one_distance(np.eye(4), diagonal=True) == pytest.approx(0.75)
    ring = np.roll(np.eye(4), 1, axis=1)
    assert rank_one_distance(ring, diagonal=False) == pytest.approx(2 / 3)
    assert rank_one_distance(7 * ring, diagonal=False) == pytest.approx(2 / 3)
