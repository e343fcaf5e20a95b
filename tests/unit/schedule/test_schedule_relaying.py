"""The Python interface of relaying: values in, values out, and what it refuses."""

import math

import numpy as np
import pytest

from lightloom.errors import DemandError, InputError
from lightloom.schedule import (
    RELAY_KINDS,
    Region,
    RelayCost,
    allocate_region,
    allocate_relayed,
    port_bound_s,
    relay,
    relay_loads,
)

REGION = Region(ports=6, circuit_gbps=400, eps_gbps=800)
BYTES_PER_S = 400e9 / 8
FREE = RelayCost.free()


@pytest.fixture
def demand():
    rng = np.random.default_rng(4)
    sizes = rng.integers(0, 10**8, size=(16, 16), dtype=np.uint64)
    np.fill_diagonal(sizes, 0)
    return sizes


@pytest.fixture
def circuits(demand):
    return allocate_region(demand, REGION, method="static").circuits


def ring(n):
    matrix = np.zeros((n, n), dtype=int)
    for a in range(n):
        matrix[a, (a + 1) % n] = matrix[(a + 1) % n, a] = 1
    return matrix


@pytest.mark.parametrize("method", ["fast", "lp"])
def test_answer_carries_exactly_the_demand(demand, circuits, method):
    found = relay(demand, circuits, REGION, method=method)
    carried = np.zeros_like(demand)
    np.add.at(carried, (found.source, found.destination), found.size_bytes)
    np.testing.assert_array_equal(carried, demand)
    assert found.size_bytes.dtype == np.uint64
    one_hop = np.isin(found.kind, [RELAY_KINDS.index("circuit"), RELAY_KINDS.index("eps")])
    np.testing.assert_array_equal(found.relay < 0, one_hop)
    assert found.relayed_bytes == found.size_bytes[found.relay >= 0].sum()
    assert found.lower_bound_s <= found.makespan_s < found.one_hop_s
    assert found.over_bound == found.makespan_s / found.lower_bound_s


def test_bytes_that_stay_in_their_server_are_not_routed(demand, circuits):
    stays = demand + np.diag(np.full(16, 10**9, dtype=np.uint64))
    for routed in (relay, allocate_relayed):
        given = (circuits,) if routed is relay else ()
        assert routed(stays, *given, REGION) == routed(demand, *given, REGION)


@pytest.mark.parametrize("method", ["fast", "lp"])
def test_the_checker_finds_the_same_loads(demand, circuits, method):
    found = relay(demand, circuits, REGION, method=method)
    loads = relay_loads(demand, circuits, REGION, found)
    assert loads.makespan_s == found.makespan_s
    np.testing.assert_array_equal(loads.staging_bytes, found.loads.staging_bytes)
    busy = loads.circuit_bytes[circuits > 0] / (circuits[circuits > 0] * BYTES_PER_S)
    eps = np.maximum(loads.eps_out_bytes, loads.eps_in_bytes) / (2 * BYTES_PER_S)
    assert loads.makespan_s == pytest.approx(max(busy.max(), eps.max()))
    assert not loads.circuit_bytes[circuits == 0].any()


@pytest.mark.parametrize("method", ["fast", "lp"])
def test_relaying_pays_where_it_is_faster_and_says_so(method):
    sizes = np.zeros((7, 7))
    sizes[0, 2] = 400e6
    found = relay(sizes, ring(7), REGION, method=method, cost=FREE)
    assert found.pays
    assert found.reason == "relaying is faster, its latency included"
    assert found.makespan_s == pytest.approx(100e6 / BYTES_PER_S, rel=0.02)
    assert found.one_hop_s == pytest.approx(200e6 / BYTES_PER_S)
    assert found.time_s == found.with_relays_s == found.makespan_s


def test_latency_is_charged_and_may_exceed_the_gain():
    sizes = np.zeros((7, 7))
    sizes[0, 2] = 400e3
    gain_s = 100e3 / BYTES_PER_S
    cheap = relay(sizes, ring(7), REGION, cost=RelayCost(math.inf, 0, 0.9 * gain_s))
    assert cheap.pays
    assert cheap.time_s == pytest.approx(cheap.makespan_s + 0.9 * gain_s)
    dear = relay(sizes, ring(7), REGION, cost=RelayCost(math.inf, 0, 1.1 * gain_s))
    assert not dear.pays
    assert dear.reason == "the latency of relaying is more than what it gains"
    assert (dear.relayed_bytes, dear.latency_s, dear.time_s) == (0, 0.0, dear.one_hop_s)


def test_one_hop_is_returned_where_relays_gain_nothing():
    sizes = [[0, 8_000_000], [4_000_000, 0]]
    found = relay(sizes, [[0, 6], [6, 0]], REGION)
    assert not found.pays
    assert found.reason == "no routing with relays is faster than one hop"
    assert found.over_bound == pytest.approx(1.0)


@pytest.mark.parametrize("method", ["fast", "lp"])
def test_memory_of_relays_is_a_limit(demand, circuits, method):
    unlimited = relay(demand, circuits, REGION, method=method, cost=FREE)
    limit = int(unlimited.loads.staging_bytes.max()) // 3
    cost = RelayCost(math.inf, 0, 0.0, limit)
    found = relay(demand, circuits, REGION, method=method, cost=cost)
    assert found.loads.staging_bytes.max() <= limit
    assert unlimited.makespan_s < found.makespan_s < found.one_hop_s


def test_memory_too_small_for_what_has_no_other_way():
    sizes = np.zeros((3, 3))
    sizes[1, 2] = 100
    star = [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    no_eps = Region(ports=2, circuit_gbps=400, eps_gbps=0)
    assert relay(sizes, star, no_eps, method="lp", cost=FREE).relayed_bytes == 100
    with pytest.raises(InputError, match=r"^memory_limit_bytes: relays cannot hold"):
        relay(sizes, star, no_eps, method="lp", cost=RelayCost(math.inf, 0, 0.0, 99))


def test_a_pair_without_any_path():
    no_eps = Region(ports=2, circuit_gbps=400, eps_gbps=0)
    sizes = [[0, 5], [0, 0]]
    assert relay(sizes, [[0, 0], [0, 0]], no_eps).makespan_s == math.inf
    with pytest.raises(InputError, match=r"^demand: no path leads from server 0 to 1$"):
        relay(sizes, [[0, 0], [0, 0]], no_eps, method="lp")


@pytest.mark.parametrize("method", ["fast", "lp"])
def test_nothing_to_send(method):
    found = relay(np.zeros((4, 4)), ring(4), REGION, method=method)
    assert (found.makespan_s, found.over_bound, found.pays) == (0.0, 1.0, False)
    assert found.size_bytes.shape == (0,)


def test_by_default_relaying_costs_what_the_data_file_says():
    cost = RelayCost()
    assert (cost.nvswitch_gbps, cost.chunk_bytes, cost.relay_delay_s) == (28_800, 524_288, 1e-5)
    assert cost.memory_limit_bytes is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"nvswitch_gbps": 0}, "nvswitch_gbps: expected 0.000000001 to 1e9 Gb/s, got 0"),
        ({"nvswitch_gbps": math.nan}, "nvswitch_gbps: expected a finite number, got nan"),
        (
            {"nvswitch_gbps": 1e30},
            "nvswitch_gbps: expected 0.000000001 to 1e9 Gb/s, got 1000000000000000000000000000000",
        ),
        (
            {"nvswitch_gbps": "x"},
            "nvswitch_gbps: cannot read 'x' as a rate such as 400, 400G or '400 Gb/s'",
        ),
        (
            {"relay_delay_s": "5 GB"},
            "relay_delay_s: cannot read '5 GB' as a time such as '25 ms'",
        ),
        ({"chunk_bytes": -1}, "chunk_bytes: expected a whole number from 0 to 2^62, got -1"),
        ({"chunk_bytes": 1.5}, "chunk_bytes: expected a whole number from 0 to 2^62, got 1.5"),
        ({"relay_delay_s": -1.0}, "relay_delay_s: expected 0 to 1e6 s, got -1"),
        (
            {"memory_limit_bytes": True},
            "memory_limit_bytes: expected a whole number from 0 to 2^62, got True",
        ),
    ],
)
def test_wrong_costs_are_named(changes, text):
    with pytest.raises(InputError) as caught:
        RelayCost(**changes)
    assert str(caught.value) == text


def test_costs_may_be_text_with_a_unit():
    said = RelayCost(nvswitch_gbps="28.8 Tb/s", relay_delay_s="25 ms")
    assert said == RelayCost(nvswitch_gbps=28_800, relay_delay_s=0.025)
    assert said.relay_delay_s == 0.025


def test_wrong_arguments_are_named(demand, circuits):
    with pytest.raises(InputError, match=r"^relay method 'fats': .*did you mean 'fast'"):
        relay(demand, circuits, REGION, method="fats")
    whole = Region(ports=6, circuit_gbps=400, eps_gbps=800, split=False)
    with pytest.raises(InputError, match=r"^split: relaying divides the bytes of a pair"):
        relay(demand, circuits, whole)
    with pytest.raises(DemandError, match=r"expected a square matrix"):
        relay(demand[:3], circuits, REGION)
    with pytest.raises(InputError, match=r"^demand: \d+ bytes in all, expected at most 2\^63"):
        relay(np.full((3, 3), 2**63, dtype=np.uint64), ring(3), REGION)
    with pytest.raises(InputError, match=r"has 6 ports but 7 circuits"):
        relay(np.zeros((2, 2)), [[0, 7], [7, 0]], REGION)


def test_a_changed_routing_does_not_pass_the_checker(demand, circuits):
    found = relay(demand, circuits, REGION)
    found.size_bytes[0] += 1
    with pytest.raises(InputError, match="carry too much"):
        relay_loads(demand, circuits, REGION, found)


@pytest.mark.parametrize("servers", [4, 8, 12])
def test_circuits_for_relaying_are_as_fast_as_those_of_every_candidate(servers):
    rng = np.random.default_rng(servers)
    sizes = (rng.dirichlet(np.full(servers, 0.3), size=servers) * 4e8).astype(np.uint64)
    np.fill_diagonal(sizes, 0)
    found = allocate_relayed(sizes, REGION)
    assert found.circuits.sum(axis=1).max() <= 6
    np.testing.assert_array_equal(found.circuits, found.circuits.T)
    assert found.port_bound_s == port_bound_s(sizes, REGION)
    assert found.routing.makespan_s == relay(sizes, found.circuits, REGION).makespan_s
    for method in ("static", "reference", "best"):
        there = allocate_region(sizes, REGION, method=method).circuits
        limit_s = max(relay(sizes, there, REGION).time_s / 0.999, 1.0101 * found.port_bound_s)
        assert found.routing.time_s <= limit_s


@pytest.mark.parametrize("servers", [16, 32])
def test_hot_columns_reach_the_port_bound_without_looking_far(servers):
    rng = np.random.default_rng(5)
    popularity = np.exp(0.774 * rng.normal(size=servers))
    popularity *= 340 * servers / 8 / popularity.sum()
    sizes = (rng.dirichlet(popularity, size=servers) * 4e8).astype(np.uint64)
    np.fill_diagonal(sizes, 0)
    assert allocate_region(sizes, REGION).over_bound > 2
    assert allocate_relayed(sizes, REGION, cost=FREE).over_bound <= 1.02


def test_circuits_that_are_there_stay_if_they_are_good():
    sizes = np.full((8, 8), 10**7)
    there = allocate_region(sizes, REGION, method="static").circuits
    order = np.array([3, 1, 0, 2, 7, 6, 4, 5])
    other = there[np.ix_(order, order)]
    found = allocate_relayed(sizes, REGION, previous=other)
    assert found.origin == "held"
    np.testing.assert_array_equal(found.circuits, other)


def test_wrong_arguments_of_circuits_for_relaying(demand):
    with pytest.raises(InputError, match=r"^evaluations: expected a whole number from 0, got -1$"):
        allocate_relayed(demand, REGION, evaluations=-1)
    whole = Region(ports=6, circuit_gbps=400, eps_gbps=800, split=False)
    with pytest.raises(InputError, match=r"^split: relaying divides"):
        allocate_relayed(demand, whole)


@pytest.mark.parametrize("method", ["fast", "lp"])
def test_rounding_sends_no_byte_where_there_is_no_eps(method):
    demand = [[0, 676498760274562], [7137742095074646, 0]]
    found = relay(demand, [[0, 2], [2, 0]], Region(2, 100, 0), method=method)
    assert found.one_hop_s == found.makespan_s == pytest.approx(285509.683803)
    assert found.size_bytes.tolist() == [676498760274562, 7137742095074646]
