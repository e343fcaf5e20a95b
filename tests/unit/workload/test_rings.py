"""Rings of workers, written out by hand."""

import itertools

import numpy as np
import pytest

from lightloom.errors import PlanError
from lightloom.parallel import Plan, RankGrid, Workers, place_workers
from lightloom.workload.rings import ring_groups
from lightloom.workload.task_graph import Collective


def rings(plan, kind, gpus_per_server=8):
    grid = RankGrid(plan)
    ring = ring_groups(kind, grid.groups(kind), place_workers(grid, gpus_per_server))
    offsets, workers = ring.family.offsets.tolist(), ring.family.workers.tolist()
    return ring, [workers[start:end] for start, end in itertools.pairwise(offsets)]


def test_tp8_replicas_form_one_ring_of_servers():
    plan = Plan(gpus=64, tp=8, ep=4, dp=2)
    ring, lists = rings(plan, "dense-gradient")
    assert lists == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert (ring.on_server, ring.servers) == (1, 8)
    # each GPU's buffer of 10 bytes is another TP shard
    assert ring.crossing(10) == 80
    assert ring.local(10, Collective.ALL_REDUCE) == 0


def test_experts_reduce_between_replicas_of_the_same_member():
    _, lists = rings(Plan(gpus=64, tp=8, ep=4, dp=2), "expert-dp")
    assert lists == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_a_ring_passes_all_gpus_of_a_server():
    plan = Plan(gpus=32, tp=1, ep=8, dp=4)
    ring, lists = rings(plan, "dense-gradient")
    assert lists == [[0, 1, 2, 3]]
    assert (ring.on_server, ring.servers) == (8, 4)
    # 8 GPUs each carry an eighth of the same buffer
    assert ring.crossing(800) == 800
    # seven of eight edges of each ring of 32 GPUs are inside
    assert ring.local(3200, Collective.ALL_REDUCE) == 2 * 3200 * 31 / 32 * 7 / 8
    for half in (Collective.REDUCE_SCATTER, Collective.ALL_GATHER):
        assert ring.local(25600, half) == 25600 * 31 / 32 * 7 / 8
    one_server, _ = rings(Plan(gpus=8, tp=1, ep=8, dp=1), "dense-gradient")
    assert one_server.local(800, Collective.ALL_REDUCE) == 2 * 700


def test_two_workers_of_a_server_share_the_buffer():
    # EP groups of 4 GPUs: workers 0 and 1 on server 0, 2 and 3 on server 1
    plan = Plan(gpus=16, tp=1, ep=4, dp=4)
    ring, lists = rings(plan, "dense-gradient")
    assert lists == [[0, 2], [1, 3]]
    assert ring.crossing(800) == 400
    ring, lists = rings(plan, "expert-dp")
    # members of an expert's group sit at places e and e + 4 of each server
    assert lists == [[0, 2], [1, 3]]
    assert (ring.on_server, ring.servers) == (2, 2)
    assert ring.crossing(800) == 4 * 800 / 2


def test_context_ranks_on_a_server_share_too():
    # rank = tp + 4 cp + 8 ep
    plan = Plan(gpus=32, tp=4, cp=2, ep=4)
    ring, lists = rings(plan, "dense-gradient")
    assert lists == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert ring.crossing(100) == 4 * 100 / 2
    ring, lists = rings(plan, "cp")
    assert ring.servers == 1
    assert ring.crossing(100) == 0
    assert ring.local(100, Collective.ALL_GATHER) == 50


def test_stages_have_their_own_rings():
    _, lists = rings(Plan(gpus=64, tp=8, ep=2, dp=2, pp=2), "dense-gradient")
    assert lists == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize(
    "plan",
    [
        Plan(gpus=64, tp=2, cp=2, ep=4, dp=4),
        Plan(gpus=128, tp=2, cp=4, ep=8, dp=4, etp=1, pp=4, expert_mode="folded"),
        Plan(gpus=96, tp=2, ep=4, dp=12),
    ],
)
@pytest.mark.parametrize("kind", ["dense-gradient", "expert-dp"])
def test_hierarchy_sums_over_the_group(plan, kind):
    """Play reduce-scatter, ring and all-gather on numbers; every rank ends with the group's sum."""
    grid = RankGrid(plan)
    workers = place_workers(grid, 8)
    groups = grid.groups(kind)
    shared, lists = rings(plan, kind)
    ring_of = {worker: number for number, ring in enumerate(lists) for worker in ring}
    n = shared.on_server
    generator = np.random.default_rng(1)
    values = generator.integers(0, 1000, (plan.gpus, n))
    for group in groups:
        by_server = group.reshape(-1, n)
        # after the scatter, place p of each server holds share p of its server's sum
        share = np.array([values[server].sum(axis=0) for server in by_server])
        total = share.sum(axis=0)
        assert (total == values[group].sum(axis=0)).all()
        for place in range(n):
            along = {ring_of[int(w)] for w in workers.worker_of[by_server[:, place]]}
            assert len(along) == 1, "a place's GPUs must be joined by one ring"
            ring = lists[along.pop()]
            assert sorted(workers.worker_of[by_server[:, place]].tolist()) == sorted(ring)


def test_groups_that_cover_servers_unevenly_are_refused():
    # 12 GPUs per stage: one stage ends in the middle of a server
    plan = Plan(gpus=24, ep=4, dp=3, pp=2)
    with pytest.raises(PlanError) as caught:
        rings(plan, "dense-gradient")
    assert str(caught.value) == (
        "dense-gradient groups of 12 GPUs cover servers of 8 unevenly; make the number of GPUs "
        "per pipeline stage a multiple of a server's GPUs"
    )


def test_workers_torn_between_rings_are_refused():
    gpus = np.arange(8).reshape(1, 1, 4, 2)
    workers = Workers(gpus, np.array([[[0, 1, 2, 3]]]), np.arange(8) // 2, 2)
    torn = np.array([[0, 2], [1, 4], [3, 6], [5, 7]])
    with pytest.raises(PlanError, match="rings along different servers"):
        ring_groups("odd", torn, workers)
