"""Schedules of permutations against scipy and networkx: matchings, and a second decomposition."""

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from lightloom.schedule import decompose


def skewed(n, rng):
    return rng.gamma(0.3, 1e6, (n, n)).astype(np.int64)


def longest(demand):
    return int(max(demand.sum(axis=0).max(), demand.sum(axis=1).max()))


def by_scipy(demand):
    """Stuffed Birkhoff-von Neumann with a fresh maximum matching for each slot."""
    n, length = len(demand), longest(demand)
    rows, columns = length - demand.sum(axis=1), length - demand.sum(axis=0)
    left = demand.copy()
    for i in range(n):
        for j in range(n):
            more = min(rows[i], columns[j])
            left[i, j] += more
            rows[i] -= more
            columns[j] -= more
    slots, total = 0, 0
    while left.any():
        matching = maximum_bipartite_matching(csr_array(left > 0), perm_type="column")
        assert (matching >= 0).all()
        hold = left[np.arange(n), matching].min()
        left[np.arange(n), matching] -= hold
        slots, total = slots + 1, total + int(hold)
    return slots, total


@pytest.mark.parametrize("n", [2, 5, 12, 20])
def test_exact_as_stuffing_but_with_fewer_slots(n):
    demand = skewed(n, np.random.default_rng(n))
    slots, total = by_scipy(demand)
    found = decompose(demand, method="bvn")
    assert total == found.length_bytes == longest(demand)
    assert found.configurations <= slots


@pytest.mark.parametrize("n", [3, 8, 16])
def test_first_slot_of_thresholds_is_long_enough(n):
    """No pair can be held longer than the bottleneck matching says, nor less than half of it."""
    # every line is critical, so that the hold is bounded by the smallest pair of the matching
    rng = np.random.default_rng(n)
    demand = sum(
        int(rng.integers(1, 10**6)) * np.eye(n, dtype=np.int64)[rng.permutation(n)]
        for _ in range(2 * n)
    )
    values = np.unique(demand[demand > 0])
    perfect = [
        value
        for value in values
        if len(nx.bipartite.maximum_matching(_graph(demand >= value), range(n))) == 2 * n
    ]
    first = decompose(demand, method="threshold").holds_bytes[0]
    assert max(perfect) / 2 < first <= max(perfect)


def _graph(mask):
    graph = nx.Graph()
    graph.add_nodes_from(range(2 * len(mask)))
    graph.add_edges_from((int(i), int(j) + len(mask)) for i, j in np.argwhere(mask))
    return graph


def test_whole_pairs_start_as_scipy_assigns_them():
    """With a delay above all else each pair is served whole, N slots, and none can be fewer."""
    demand = skewed(9, np.random.default_rng(4)) + 1
    found = decompose(demand, method="critical", delay_s=10.0)
    assert found.configurations == 9
    # the slot with the largest pair cannot be shorter, nor send more than the best assignment
    rows, columns = linear_sum_assignment(demand, maximize=True)
    slot = int(found.holds_bytes.argmax())
    assert found.holds_bytes[slot] == demand.max()
    assert demand[range(9), found.permutations[slot]].sum() <= demand[rows, columns].sum()


@pytest.mark.parametrize("delay_s", [1e-6, 1e-5, 1e-4])
def test_holds_cannot_be_much_shorter_for_the_same_matchings(delay_s):
    """A linear program over the holds of the matchings that were found."""
    demand = skewed(8, np.random.default_rng(1))
    found = decompose(demand, delay_s=delay_s)
    pairs = np.argwhere(demand > 0)
    serves = np.array([[slot[i] == j for slot in found.permutations] for i, j in pairs])
    wanted = [demand[i, j] for i, j in pairs]
    best = linprog(np.ones(serves.shape[1]), A_ub=-serves.astype(float), b_ub=-np.array(wanted))
    assert best.status == 0
    assert best.fun <= found.holds_bytes.sum() * (1 + 1e-9)
    assert found.holds_bytes.sum() <= 1.05 * best.fun
