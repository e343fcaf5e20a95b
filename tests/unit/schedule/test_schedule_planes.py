"""Circuits on planes through Python: verdicts, failures, repair, refusals."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.schedule import (
    Failures,
    Region,
    allocate_on_planes,
    allocate_region,
    assign_planes,
)

RATES = {"circuit_gbps": 400, "eps_gbps": 800}


def ends_once(rows):
    ends = np.concatenate([rows[:, :2], rows[:, 2:]])
    return len(np.unique(ends, axis=0)) == len(ends)


@pytest.mark.parametrize(("degree", "servers"), [(3, 16), (6, 32), (8, 64)])
@pytest.mark.parametrize("duplex", [True, False])
def test_regular_graphs_of_many_servers(degree, servers, duplex):
    circuits = nx.to_numpy_array(nx.random_regular_graph(degree, servers, seed=1)).astype(int)
    planes = degree if duplex else degree + degree % 2
    plan = assign_planes(circuits, planes=planes, duplex=duplex)
    assert plan.verdict == "assigned", plan.reason
    assert ends_once(plan.nics)
    found = np.zeros_like(circuits)
    np.add.at(found, (plan.nics[:, 0], plan.nics[:, 2]), 1)
    assert np.array_equal(found + found.T, circuits)
    apart = plan.nics[:, 1] ^ plan.nics[:, 3]
    assert (apart == (0 if duplex else 1)).all()


def test_a_triangle_is_refused_with_its_reason():
    circuits = 2 * (1 - np.eye(3, dtype=int))
    plan = assign_planes(circuits, planes=4)
    assert plan.verdict == "infeasible"
    assert plan.reason.startswith("6 circuits join servers 0, 1, 2 to each other")
    assert assign_planes(circuits, planes=4, duplex=False).verdict == "assigned"
    assert assign_planes(circuits, planes=6).verdict == "assigned"


def test_a_search_cut_short_says_so():
    circuits = nx.to_numpy_array(nx.petersen_graph()).astype(int)
    short = assign_planes(circuits, planes=3, effort=30)
    assert short.verdict == "not found"
    assert short.reason.endswith("circuits left after 30 steps")
    assert assign_planes(circuits, planes=3).verdict == "infeasible"


@pytest.mark.parametrize("duplex", [True, False])
def test_allocations_are_repaired_and_avoid_what_failed(duplex):
    rng = np.random.default_rng(3)
    for n in (3, 5, 8):
        demand = (1e8 * rng.random((n, n)) ** 3).astype(np.uint64)
        failed = Failures(nics=[(0, 1)], planes=[2])
        region = Region(ports=4, failed=failed, **RATES)
        found, rows = allocate_on_planes(demand, region, duplex=duplex)
        assert len(rows) == found.circuit_count
        assert ends_once(rows)
        used = {tuple(end) for row in rows.tolist() for end in (row[:2], row[2:])}
        assert (0, 1) not in used
        assert 2 not in {nic for _, nic in used}
        free = allocate_region(demand, region)
        assert found.makespan_s >= free.bound_s * (1 - 1e-9)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"planes": 0}, "planes: expected a whole number from 1 to 4096, got 0"),
        ({"planes": 2.5}, "planes: expected a whole number from 1 to 4096, got 2.5"),
        ({"effort": 0}, "effort: expected a whole number from 1 to 4294967295, got 0"),
        (
            {"failed": Failures(planes=[7])},
            "failed plane: expected a whole number from 0 to 1, got 7",
        ),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(change, text):
    with pytest.raises(InputError) as error:
        assign_planes([[0, 1], [1, 0]], **{"planes": 2, **change})
    assert str(error.value) == text


def test_planes_need_equal_ports():
    with pytest.raises(InputError, match="ports: planes expect one NIC per plane"):
        allocate_on_planes([[0, 1], [1, 0]], Region(ports=[1, 2], **RATES))


def test_a_plan_checks_itself_against_the_circuits():
    circuits = np.array(1 - np.eye(4), dtype=int)
    plan = assign_planes(circuits, planes=3)
    plan.check(circuits)
    with pytest.raises(InputError, match="1 of 0 circuits join 0 and 1"):
        plan.check(np.zeros((4, 4), dtype=int))
    with pytest.raises(InputError, match="circuits of 3 servers, but the plan is for 4"):
        plan.check(np.zeros((3, 3), dtype=int))
    twice = replace(plan, nics=np.concatenate([plan.nics, plan.nics[:1]]))
    with pytest.raises(InputError, match="ends two circuits"):
        twice.check(circuits)
    crossed = replace(plan, duplex=False)
    with pytest.raises(InputError, match="are on no common plane"):
        crossed.check(circuits)
    broken = replace(plan, working=np.zeros_like(plan.working))
    with pytest.raises(InputError, match="does not work"):
        broken.check(circuits)


def test_freed_nics_are_joined_again():
    """Six circuits of a triangle fit four planes four times; the fourth server takes the rest."""
    demand = np.full((4, 4), 10**6, dtype=np.uint64)
    demand[:3, :3] = 10**9
    region = Region(ports=4, circuit_gbps=400, eps_gbps=400)
    found, rows = allocate_on_planes(demand, region)
    ends = np.zeros((4, 4), dtype=int)
    for a, x, b, y in rows:
        assert x == y
        ends[a, x] += 1
        ends[b, y] += 1
    free = ends == 0
    assert (ends <= 1).all()
    assert (free.sum(axis=0) <= 1).all(), "two servers have the same NIC free"
    assert len(rows) == found.circuit_count


def test_a_small_change_moves_little():
    rng = np.random.default_rng(3)
    circuits = np.zeros((8, 8), dtype=int)
    for _ in range(6):
        order = rng.permutation(8)
        circuits[order[::2], order[1::2]] += 1
    circuits += circuits.T
    before = assign_planes(circuits, planes=6)
    again = assign_planes(circuits, planes=6, previous=before.nics)
    assert (again.moves, again.is_fewest) == (0, True)
    assert np.array_equal(again.nics, before.nics)
    # a-b and c-d become a-c and b-d
    (a, _, b, _), (c, _, d, _) = before.nics[0], before.nics[-1]
    for one, other, more in ((a, b, -1), (c, d, -1), (a, c, 1), (b, d, 1)):
        circuits[one, other] += more
        circuits[other, one] += more
    after = assign_planes(circuits, planes=6, previous=before.nics)
    after.check(circuits)
    kept = {tuple(row) for row in before.nics.tolist()} & {
        tuple(row) for row in after.nics.tolist()
    }
    assert len(kept) == 22 - after.moves >= 18
    assert after.is_fewest


def test_the_last_of_an_odd_number_of_crossed_planes_is_duplex():
    mesh = 1 - np.eye(4, dtype=int)
    plan = assign_planes(mesh, planes=3, duplex=False)
    plan.check(mesh)
    nics = plan.nics[:, [1, 3]]
    assert (nics == 2).all(axis=1).sum() == 2
    assert sorted(map(tuple, np.unique(nics, axis=0).tolist()))[-1] == (2, 2)
