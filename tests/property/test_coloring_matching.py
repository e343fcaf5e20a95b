"""Properties of colorings, routes and matchings, through Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lightloom.schedule import (
    check_coloring,
    color_edges,
    max_weight_matching,
    route_permutation,
)

small = st.integers(0, 11)


@given(st.lists(st.tuples(small, small), max_size=120))
def test_as_many_colors_as_the_busiest_vertex_has_edges(edges):
    colors = color_edges(edges)
    degree = max((np.bincount(ends).max() for ends in zip(*edges, strict=True)), default=0)
    assert check_coloring(edges, colors) == degree


@given(st.data(), st.integers(1, 6), st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_every_partial_permutation_has_a_way(data, leaf, pod, pods, three):
    hosts = leaf * pod * pods
    to = np.array(data.draw(st.permutations(range(hosts))))
    to[data.draw(st.lists(st.integers(0, hosts - 1)))] = -1
    options = {"tiers": 3, "pod": pod} if three else {}
    route = route_permutation(to, leaf=leaf, **options)
    route.check(to)
    same_leaf = np.arange(hosts) // leaf == to // leaf
    assert ((route.spine == -1) == (same_leaf | (to == -1))).all()


@given(st.data(), st.integers(1, 7), st.integers(1, 7))
def test_a_matching_is_proved_and_follows_its_weights(data, rows, columns):
    cells = st.lists(st.integers(-3, 30), min_size=rows * columns, max_size=rows * columns)
    weights = np.array(data.draw(cells)).reshape(rows, columns)
    found = max_weight_matching(weights, bipartite=True)
    found.check(weights)
    turned = max_weight_matching(weights.T, bipartite=True)
    assert turned.weight == found.weight
    tripled = max_weight_matching(3 * weights, bipartite=True)
    assert tripled.weight == 3 * found.weight
    # the bipartite graph as a general one
    whole = np.zeros((rows + columns, rows + columns), dtype=np.int64)
    whole[:rows, rows:] = weights
    general = max_weight_matching(whole + whole.T, bipartite=False)
    general.check(whole + whole.T)
    assert general.weight == found.weight
