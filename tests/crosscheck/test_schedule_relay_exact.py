"""Relaying: the fast method against the exact linear program solved by HiGHS."""

import numpy as np
import pytest

from lightloom.schedule import Region, RelayCost, allocate_region, relay

REGION = Region(ports=6, circuit_gbps=400, eps_gbps=800)
FREE = RelayCost.free()
KINDS = ["mixtral", "pair", "sparse", "uniform"]


def regime(kind, n, rng):
    """Rows of 400 MB: columns as skewed as on the public matrix, pairs, few pairs, or noise."""
    popularity = np.exp(0.774 * rng.normal(size=n))
    shapes = {
        "mixtral": 340 * n / 8 * popularity / popularity.sum(),
        "pair": np.full(n, 1.0),
        "sparse": np.full(n, 0.15),
    }
    noise = kind == "uniform"
    shares = rng.random((n, n)) / n if noise else rng.dirichlet(shapes[kind], size=n)
    demand = (shares * 4e8).astype(np.uint64)
    np.fill_diagonal(demand, 0)
    return demand


@pytest.mark.parametrize("circuits", ["static", "reference", "best"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("servers", [8, 16, 24])
def test_fast_is_within_five_percent_of_the_program(servers, kind, circuits):
    rng = np.random.default_rng(servers)
    for _ in range(2):
        demand = regime(kind, servers, rng)
        there = allocate_region(demand, REGION, method=circuits).circuits
        fast = relay(demand, there, REGION, cost=FREE)
        exact = relay(demand, there, REGION, method="lp", cost=FREE)
        min_s = min(exact.makespan_s, exact.one_hop_s)
        assert min_s == pytest.approx(exact.lower_bound_s, rel=1e-6)
        assert fast.makespan_s >= exact.lower_bound_s * (1 - 1e-9)
        assert fast.makespan_s <= 1.05 * min_s
        assert fast.lower_bound_s <= min_s * (1 + 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_fast_is_within_five_percent_at_32_servers(kind):
    demand = regime(kind, 32, np.random.default_rng(32))
    there = allocate_region(demand, REGION, method="best").circuits
    fast = relay(demand, there, REGION, cost=FREE)
    exact = relay(demand, there, REGION, method="lp", cost=FREE)
    assert fast.makespan_s <= 1.05 * exact.makespan_s


@pytest.mark.parametrize("seed", range(40))
def test_odd_regions_agree(seed):
    """Few servers, unequal circuits, any EPS, with and without slow staging."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 7))
    upper = np.triu(rng.integers(0, 3, size=(n, n)), 1)
    circuits = upper + upper.T
    demand = (rng.random((n, n)) ** 4 * 1e8).astype(np.uint64)
    np.fill_diagonal(demand, 0)
    region = Region(2 * n, 400, float(rng.choice([200, 800])))
    cost = RelayCost(float(rng.choice([np.inf, 300])), 0, 0.0)
    fast = relay(demand, circuits, region, cost=cost)
    exact = relay(demand, circuits, region, method="lp", cost=cost)
    min_s = min(exact.makespan_s, exact.one_hop_s)
    assert exact.lower_bound_s == pytest.approx(min_s, rel=1e-6)
    assert exact.lower_bound_s * (1 - 1e-9) <= fast.makespan_s <= 1.05 * min_s


def test_the_bound_of_the_program_is_its_value_when_memory_is_no_limit():
    demand = regime("pair", 12, np.random.default_rng(3))
    there = allocate_region(demand, REGION, method="static").circuits
    limited = RelayCost(np.inf, 0, 0.0, 2**50)
    one = relay(demand, there, REGION, method="lp", cost=limited)
    assert one.makespan_s == pytest.approx(one.lower_bound_s, rel=1e-6)
