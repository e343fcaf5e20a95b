"""The Python interface of the TopoOpt finder."""

import itertools

import numpy as np
import pytest

from lightloom.errors import DemandError, FabricError
from lightloom.schedule import Ring, cycles_in_order, topoopt_topology


def all_to_all(servers, size):
    pairs = list(itertools.permutations(servers, 2))
    return [a for a, _ in pairs], [b for _, b in pairs], [size] * len(pairs)


def test_a_small_all_to_all_is_a_full_mesh():
    found = topoopt_topology(8, 7, demand=all_to_all(range(8), 100))
    assert found.circuits.shape == (28, 3)
    assert (found.circuits[:, 2] == 1).all()
    assert (found.hops == 1).all()
    assert sorted(map(tuple, found.ends.tolist())) == list(itertools.permutations(range(8), 2))


def test_more_servers_than_ports_need_relays():
    found = topoopt_topology(16, 3, demand=all_to_all(range(16), 100))
    used = np.bincount(found.circuits[:, :2].ravel(), weights=np.repeat(found.circuits[:, 2], 2))
    assert (used <= 3).all()
    assert found.hops.max() >= 2
    joined = {(a, b) for a, b, _ in found.circuits.tolist()}
    starts = found.route_offsets
    for begin, end in itertools.pairwise(starts.tolist()):
        path = found.route_servers[begin:end].tolist()
        assert len(set(path)) == len(path)
        assert all((min(x, y), max(x, y)) in joined for x, y in itertools.pairwise(path))


def test_rings_get_cycles_of_coprime_strides():
    found = topoopt_topology(12, 4, rings=[Ring(range(12), 1_000)])
    assert found.cycles.tolist() == [[0, 1], [0, 5]]
    one = topoopt_topology(12, 4, rings=[Ring(range(12), 1_000)], strides="one")
    assert one.cycles.tolist() == [[0, 1], [0, 1]]
    assert (one.circuits[:, 2] == 2).all()


def test_edges_of_cycles_without_a_circuit_are_named():
    rings = [Ring([0, 2, 3], 10**6), Ring([0, 2], 10**6)]
    demand = ([1, 1, 0], [0, 2, 2], [14 * 10**8, 8 * 10**8, 10**9])
    found = topoopt_topology(4, 2, rings=rings, demand=demand)
    assert found.cycles.tolist() == [[0, 1]]
    assert found.routed_edges.tolist() == [[0, 0, 2]]
    assert [0, 2, 1] not in found.circuits.tolist()
    assert dict(found.tables()[0].rows)["without a circuit"] == "1 edges of cycles"
    assert topoopt_topology(6, 4, rings=[Ring(range(6), 1_000)]).routed_edges.shape == (0, 3)


def test_cycles_as_the_servers_they_visit():
    rings = [Ring([3, 9], 0), Ring([4, 0, 1, 2, 6], 1_000)]
    found = cycles_in_order(topoopt_topology(10, 6, rings=rings), rings)
    assert found.offsets.tolist() == [0, 5, 10]
    assert found.servers.tolist() == [4, 0, 1, 2, 6, 4, 1, 6, 0, 2]
    # three cycles for two strides: one of them twice
    assert sorted(found.counts.tolist()) == [1, 2]
    none = cycles_in_order(topoopt_topology(4, 2), [])
    assert (none.offsets.tolist(), none.servers.size, none.counts.size) == ([0], 0, 0)


def test_max_routes_limits_the_paths_of_a_pair():
    def maximum(max_routes):
        found = topoopt_topology(12, 4, demand=all_to_all(range(12), 100), max_routes=max_routes)
        return np.unique(found.ends, axis=0, return_counts=True)[1].max()

    assert maximum(1) == 1
    assert 1 < maximum(3) <= 3


def test_phases_are_predicted_by_their_busiest_circuits():
    demand = ([0, 0, 1], [1, 1, 0], [600, 300, 100])
    found = topoopt_topology(2, 3, demand=demand, phases=[0, 5, 5], rings=[Ring([0, 1], 90)])
    assert found.circuits.tolist() == [[0, 1, 3]]
    assert found.busiest_bytes.tolist() == [200, 100, 30]


def test_nobody_talking_needs_no_routes():
    found = topoopt_topology(4, 2)
    assert len(found.hops) == 0
    assert found.ends.shape == (0, 2)


def test_the_same_job_gives_the_same_topology():
    rng = np.random.default_rng(4)
    demand = (
        rng.integers(0, 40, 300),
        rng.integers(0, 40, 300),
        rng.integers(0, 10**9, 300),
    )
    one, two = (topoopt_topology(40, 6, demand=demand) for _ in range(2))
    assert np.array_equal(one.circuits, two.circuits)
    assert np.array_equal(one.route_servers, two.route_servers)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"servers": 0}, FabricError, "servers: expected a whole number from 1 to 1000000, got 0"),
        (
            {"ports": 2.5},
            FabricError,
            "ports: expected a whole number from 1 to 1000000, got 2.5",
        ),
        (
            {"max_routes": True},
            FabricError,
            "max_routes: expected a whole number from 1 to 1000000, got True",
        ),
        ({"strides": "two"}, FabricError, "strides 'two': expected one of geometric, one"),
        ({"demand": ([0], [3], [1])}, DemandError, "destinations: expected 0 to 2, got 3"),
        (
            {"demand": ([0], [1], [-1])},
            DemandError,
            "bytes: expected 0 to 18446744073709551615, got -1",
        ),
        (
            {"demand": ([0], [1], [1.5])},
            DemandError,
            "bytes: expected a list of whole numbers, got float64 of shape (1,)",
        ),
        (
            {"demand": ([0], [1, 2], [1])},
            DemandError,
            "demand: 1 sources, 2 destinations and 1 byte counts; expected equally many",
        ),
        (
            {"rings": [1, 2]},
            DemandError,
            "ring 0: expected a Ring of members and edge_bytes, got 1",
        ),
        ({"rings": 5}, DemandError, "rings: expected a list of Ring, got 5"),
        (
            {"demand": ()},
            DemandError,
            "demand: expected sources, destinations and bytes, got ()",
        ),
        ({"demand": 7}, DemandError, "demand: expected sources, destinations and bytes, got 7"),
        (
            {"demand": ([0], [1], [1]), "phases": [1, 2]},
            DemandError,
            "phases: 2 for 1 entries of demand",
        ),
        (
            {"rings": [Ring([0, 1], 5, -1)]},
            DemandError,
            "ring 0 phase: expected 0 to 4294967295, got -1",
        ),
        ({"rings": [Ring([0, 1, 0], 5)]}, DemandError, "ring 0: a server is in it twice"),
        ({"rings": [Ring([0, 7], 5)]}, DemandError, "ring 0: expected 0 to 2, got 0 to 7"),
        (
            {"rings": [Ring([0, 1], -5)]},
            DemandError,
            "ring 0 edge_bytes: expected 0 to 18446744073709551615, got -5",
        ),
        (
            {"ports": 1, "demand": ([0, 1], [1, 2], [6, 5])},
            FabricError,
            "topoopt: servers 1 and 2 talk but cannot be connected with the ports they have; "
            "give each server at least 2",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(change, error, text):
    arguments = {"servers": 3, "ports": 2, **change}
    with pytest.raises(error) as caught:
        topoopt_topology(arguments.pop("servers"), arguments.pop("ports"), **arguments)
    assert str(caught.value) == text
