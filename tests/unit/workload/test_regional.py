"""Circuits follow the groups of the experts, whoever has an all-to-all first."""

import numpy as np
import pytest
from tests.simulate_graphs import mixnet

from lightloom.simulate import simulate
from lightloom.workload import Block, TaskGraphBuilder
from lightloom.workload.regional import regional_family

#: families in the order in which they are made
HEADS, EXPERTS = 0, 1
WORKERS = 8


def step(calls, tables=(), *, counts=1000):
    """A role of eight servers: heads are in pairs, experts in fours; calls are (family, payload).

    ``tables`` are the families that have a table of demand, of two blocks, in order.
    """
    graph = TaskGraphBuilder(range(WORKERS), 8)
    for name, size in (("heads", 2), ("experts", 4)):
        graph.family(name, np.arange(WORKERS).reshape(-1, size))
    for family in tables:
        size = (2, 4)[family]
        graph.demand("tokens", family, np.full((WORKERS // size, 2, size, size), counts))
    role = graph.role("all", range(WORKERS))
    for family, payload in calls:
        role.all_to_all(family, payload, "ep" if family == EXPERTS else "cp")
    return graph.build()


@pytest.mark.parametrize(
    ("calls", "tables", "expected"),
    [
        # nobody meets
        ([], [], None),
        ([], [EXPERTS], None),
        # all there is
        ([(HEADS, 8)], [], HEADS),
        # a table tells the experts', however little they send
        ([(HEADS, 10**9), (EXPERTS, Block(0, 0))], [EXPERTS], EXPERTS),
        # without tables those that send most: of a buffer, half leaves in pairs, 3/4 in fours
        ([(HEADS, 100), (EXPERTS, 100)], [], EXPERTS),
        ([(HEADS, 151), (EXPERTS, 100)], [], HEADS),
        ([(HEADS, 100), (HEADS, 51), (EXPERTS, 100)], [], HEADS),
        # of two tables, that of demand that nobody knows before
        ([(HEADS, Block(0, 0, 10**6)), (EXPERTS, Block(1, 0, first=True))], [0, 1], EXPERTS),
        # or that of most bytes: a worker sends to one other in pairs, to three in fours
        ([(HEADS, Block(0, 0, 2)), (EXPERTS, Block(1, 1, 1))], [0, 1], EXPERTS),
        ([(HEADS, Block(0, 0, 4)), (EXPERTS, Block(1, 1, 1))], [0, 1], HEADS),
        # none of these is more than the other
        ([(EXPERTS, 2), (HEADS, 3)], [], HEADS),
    ],
)
def test_the_family_is_that_of_the_experts(calls, tables, expected):
    graph = step(calls, tables)
    assert graph.regional_family == regional_family(graph) == expected
    size = 1 if expected is None else (2, 4)[expected]
    assert [len(group) for group in graph.layout.groups] == [size] * (WORKERS // size)


@pytest.mark.parametrize("seed", range(40))
def test_the_core_follows_the_layout(seed):
    """Random steps: only groups of the layout have circuits."""
    random = np.random.default_rng(seed)
    tables = [[], [EXPERTS], [HEADS, EXPERTS]][random.integers(3)]
    calls = []
    for _ in range(random.integers(1, 8)):
        family = int(random.integers(2))
        payload = int(random.integers(10**6, 10**8))
        if family in tables and random.random() < 0.7:
            payload = Block(tables.index(family), int(random.integers(2)), payload // 1000)
        calls.append((family, payload))
    graph = step(calls, tables)
    regions = np.zeros(WORKERS, np.uint32)
    run = simulate(graph, mixnet(WORKERS, region_of_server=regions, first="block"))
    names = ("cp", "ep")
    followed = names[graph.regional_family]
    other = names[1 - graph.regional_family]
    assert run.purpose_bytes[followed]["ocs"] > 0
    assert run.purpose_bytes.get(other, {}).get("ocs", 0) == 0
