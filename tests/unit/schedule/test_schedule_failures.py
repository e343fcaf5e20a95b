"""Failed parts are never used, and never make anything faster."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.schedule import Decider, Failures, Region, allocate_region, parse_failures

RATES = {"circuit_gbps": 400, "eps_gbps": 800}
METHODS = ["paper", "reference", "static", "greedy", "parametric", "best", "exact"]


@pytest.fixture
def demand():
    return np.random.default_rng(1).integers(0, 10**8, size=(6, 6), dtype=np.uint64)


@pytest.mark.parametrize("method", METHODS)
def test_failed_nics_and_planes_take_ports(demand, method):
    failed = Failures(nics=[(0, 1), (0, 3), (0, 1), (2, 0)], planes=[3])
    region = Region(ports=4, failed=failed, **RATES)
    used = allocate_region(demand, region, method=method).circuits.sum(axis=1)
    assert (used <= [2, 3, 2, 3, 3, 3]).all()
    if method == "static":
        assert used.sum() >= 14


@pytest.mark.parametrize("method", METHODS)
def test_a_failed_server_gets_nothing(demand, method):
    demand[2, :] = demand[:, 2] = 0
    region = Region(ports=4, failed=Failures(servers=[2]), **RATES)
    found = allocate_region(demand, region, method=method)
    assert not found.circuits[2].any()
    assert np.isfinite(found.makespan_s)


def test_failed_eps_nics_slow_their_server():
    demand = [[0, 8_000_000, 0], [0, 0, 0], [0, 8_000_000, 0]]
    region = Region(ports=0, failed=Failures(eps_nics=[(0, 1)]), eps_nics=2, **RATES)
    # server 0 sends at 400 Gb/s; server 1 receives at 800
    assert allocate_region(demand, region).makespan_s == pytest.approx(16e6 / 100e9)
    lone = [[0, 8_000_000, 0], [0, 0, 0], [0, 0, 0]]
    assert allocate_region(lone, region).makespan_s == pytest.approx(8e6 / 50e9)


def test_eps_rates_may_differ_between_servers():
    demand = [[0, 8_000_000], [4_000_000, 0]]
    region = Region(ports=0, circuit_gbps=400, eps_gbps=[800, 400])
    assert allocate_region(demand, region).makespan_s == pytest.approx(8e6 / 50e9)


@pytest.mark.parametrize("split", [True, False])
def test_failures_never_beat_their_absence(split):
    rng = np.random.default_rng(2)
    for _ in range(5):
        demand = (1e8 * rng.random((6, 6)) ** 4).astype(np.uint64)
        nics = [(int(a), int(b)) for a, b in rng.integers(0, 4, size=(4, 2))]
        failed = Failures(nics=nics, eps_nics=[(int(rng.integers(6)), 0)])
        whole = Region(ports=4, split=split, eps_nics=2, **RATES)
        broken = Region(ports=4, split=split, eps_nics=2, failed=failed, **RATES)
        with_failures = allocate_region(demand, broken, method="exact")
        without = allocate_region(demand, whole, method="exact")
        assert with_failures.makespan_s >= without.bound_s * (1 - 1e-9)
        assert with_failures.makespan_s * 1.003 >= without.makespan_s


@pytest.mark.parametrize(
    ("failed", "text"),
    [
        (Failures(servers=[6]), "failed server: 6, expected 0 to 5"),
        (Failures(nics=[(1, 4)]), "failed NIC of server 1: 4, expected 0 to 3"),
        (Failures(planes=[4]), "failed plane: 4, expected 0 to 3"),
        (
            Failures(eps_nics=[(0, 0)]),
            "eps_nics: EPS NICs have failed, expected how many a server has",
        ),
        (
            Failures(servers=[1]),
            "demand[1, 0] is 14470650, but server 1 has failed: expected 0",
        ),
    ],
)
def test_failures_that_cannot_be_are_refused(demand, failed, text):
    demand[1, 0] = 14_470_650
    with pytest.raises(InputError) as error:
        allocate_region(demand, Region(ports=4, failed=failed, **RATES))
    assert str(error.value) == text


@pytest.mark.parametrize("sends", [True, False])
def test_a_failed_server_neither_sends_nor_receives(sends):
    demand = np.zeros((6, 6), dtype=np.uint64)
    a, b = (1, 4) if sends else (4, 1)
    demand[a, b] = 7
    region = Region(ports=4, failed=Failures(servers=[1]), **RATES)
    with pytest.raises(InputError, match=rf"demand\[{a}, {b}\] is 7, but server 1 has failed"):
        allocate_region(demand, region)


def test_the_number_of_eps_rates_must_fit(demand):
    with pytest.raises(InputError, match="eps_gbps: expected one number or 6, got 2"):
        allocate_region(demand, Region(ports=4, circuit_gbps=400, eps_gbps=[800, 800]))


def test_names_of_failures_are_read_back():
    failed = Failures(nics=[(2, 1), (0, 0)], eps_nics=[(1, 1)], servers=[3], planes=[5])
    assert failed.names == ("server:3", "nic:2/1", "nic:0/0", "eps:1/1", "plane:5")
    read = parse_failures(",".join(failed.names), "failed")
    assert read.names == failed.names


@pytest.mark.parametrize("pairs", [[[0, 1]], ((0, 1),), np.array([[0, 1]])])
def test_pairs_may_be_of_any_sequence(demand, pairs):
    region = Region(ports=4, failed=Failures(nics=pairs), **RATES)
    decider = Decider(len(demand), region, timing=1e-3)
    assert decider.start().circuits.sum(axis=1)[0] <= 3


@pytest.mark.parametrize("wrong", [3, [3], [(1, 2, 3)], None, [(1.5, 0)], [("a", 0)], [(-1, 0)]])
def test_what_is_no_pair_is_refused(wrong):
    with pytest.raises(InputError, match=r"^nics = .*: expected pairs of whole numbers$"):
        Failures(nics=wrong)


@pytest.mark.parametrize("wrong", [3, [(1, 2)], None, ["a"], [1.5], [-1], [2**32]])
def test_what_is_no_index_is_refused(wrong):
    with pytest.raises(InputError, match=r"^planes = .*: expected whole numbers$"):
        Failures(planes=wrong)
