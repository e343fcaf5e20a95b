"""Matchings against scipy's assignment and networkx's blossom algorithm."""

import networkx
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from lightloom.schedule import max_weight_matching

KINDS = ["uniform", "few values", "hot columns", "near ties", "sparse", "line"]


def draw(kind, rows, columns, seed):
    random = np.random.default_rng(seed)
    shape = (rows, columns)
    if kind == "uniform":
        return random.integers(0, 2**53, shape)
    if kind == "few values":
        return random.integers(0, 4, shape)
    if kind == "hot columns":
        hot = random.lognormal(sigma=1.0, size=columns)
        return (1e6 * hot * random.normal(1, 0.05, shape).clip(0)).astype(np.int64)
    if kind == "near ties":
        return 2**50 + random.integers(0, 3, shape)
    if kind == "sparse":
        return np.where(random.random(shape) < 0.1, random.integers(1, 1000, shape), 0)
    place = np.arange(rows)[:, None] - np.arange(columns)
    return 1000 - 25 * np.abs(place) + random.integers(0, 30, shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (40, 40), (25, 60), (60, 25)])
def test_assignment_is_as_heavy_as_scipys(kind, rows, columns):
    for seed in range(5):
        weights = draw(kind, rows, columns, seed)
        found = max_weight_matching(weights, bipartite=True)
        found.check(weights)
        # a full assignment may take cells below 0, ours leaves them
        clipped = np.maximum(weights, 0)
        expected = clipped[linear_sum_assignment(clipped, maximize=True)].sum()
        assert found.weight == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [6, 15, 40])
def test_pairs_are_as_heavy_as_those_of_networkx(kind, size):
    for seed in range(4):
        half = np.triu(draw(kind, size, size, seed), 1)
        weights = half + half.T
        found = max_weight_matching(weights, bipartite=False)
        found.check(weights)
        graph = networkx.Graph()
        graph.add_weighted_edges_from(
            (a, b, int(weights[a, b])) for a in range(size) for b in range(a) if weights[a, b] > 0
        )
        expected = sum(weights[pair] for pair in networkx.max_weight_matching(graph))
        assert found.weight == expected
