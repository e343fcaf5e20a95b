"""Groups of ranks against lists written out by hand."""

import numpy as np
import pytest

from lightloom.errors import PlanError
from lightloom.parallel import Plan, RankGrid, place_workers
from lightloom.parallel.grid import gradient_groups


def groups(plan, kind):
    return RankGrid(plan).groups(kind).tolist()


def as_set(lists):
    return {tuple(group) for group in lists}


AXIS = Plan(gpus=16, tp=2, ep=2, dp=2, pp=2)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("tp", [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], [12, 13], [14, 15]]),
        ("etp", [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], [12, 13], [14, 15]]),
        ("cp", [[rank] for rank in range(16)]),
        ("ep", [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9, 11], [12, 14], [13, 15]]),
        ("expert-dp", [[0, 4], [1, 5], [2, 6], [3, 7], [8, 12], [9, 13], [10, 14], [11, 15]]),
        ("pp", [[0, 8], [1, 9], [2, 10], [3, 11], [4, 12], [5, 13], [6, 14], [7, 15]]),
        ("dense-dp", [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]]),
        ("dense-gradient", [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]]),
        ("ep-group", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]),
    ],
)
def test_ep_as_its_own_axis(kind, expected):
    assert groups(AXIS, kind) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("cp", [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9, 11], [12, 14], [13, 15]]),
        ("ep", [[0, 4], [1, 5], [2, 6], [3, 7], [8, 12], [9, 13], [10, 14], [11, 15]]),
        ("dense-dp", [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]),
        ("dense-gradient", [[0, 2, 4, 6, 8, 10, 12, 14], [1, 3, 5, 7, 9, 11, 13, 15]]),
        # experts are replicated over CP ranks, too
        ("expert-dp", [[0, 2, 8, 10], [1, 3, 9, 11], [4, 6, 12, 14], [5, 7, 13, 15]]),
    ],
)
def test_context_parallelism_replicates_parameters(kind, expected):
    plan = Plan(gpus=16, tp=2, cp=2, ep=2, dp=2)
    assert groups(plan, kind) == expected


# The example in the documentation of Megatron-Core's initialize_model_parallel: 16 GPUs,
# tensor parallelism 2, pipeline parallelism 4.
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("tp", [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], [12, 13], [14, 15]]),
        ("dense-dp", [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9, 11], [12, 14], [13, 15]]),
        ("pp", [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]),
    ],
)
def test_megatron_example(kind, expected):
    plan = Plan(gpus=16, tp=2, pp=4, etp=2, dp=2, expert_mode="folded")
    assert as_set(groups(plan, kind)) == as_set(expected)
    plan = Plan(gpus=16, tp=2, pp=4, dp=2)
    assert as_set(groups(plan, kind)) == as_set(expected)


# Both of Megatron's generators over the same ranks, each worked out by hand.
@pytest.mark.parametrize(
    ("degrees", "kind", "expected"),
    [
        # dense: tp 4, dp 2 per stage; expert: ep 4, dp 2 per stage
        ((4, 1, 1, 4, 2, 2), "tp", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]),
        ((4, 1, 1, 4, 2, 2), "ep", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]),
        (
            (4, 1, 1, 4, 2, 2),
            "dense-dp",
            [[0, 4], [1, 5], [2, 6], [3, 7], [8, 12], [9, 13], [10, 14], [11, 15]],
        ),
        (
            (4, 1, 1, 4, 2, 2),
            "expert-dp",
            [[0, 4], [1, 5], [2, 6], [3, 7], [8, 12], [9, 13], [10, 14], [11, 15]],
        ),
        # EP over all ranks of a stage, across the TP groups of the dense layers
        ((2, 1, 1, 8, 1, 2), "ep", [list(range(8)), list(range(8, 16))]),
        (
            (2, 1, 1, 8, 1, 2),
            "dense-dp",
            [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]],
        ),
        ((2, 1, 1, 8, 1, 2), "expert-dp", [[rank] for rank in range(16)]),
        # CP folded into EP
        ((2, 2, 1, 4, 2, 1), "cp", [[0, 2], [1, 3], [4, 6], [5, 7]]),
        ((2, 2, 1, 4, 2, 1), "dense-dp", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ((2, 2, 1, 4, 2, 1), "dense-gradient", [[0, 2, 4, 6], [1, 3, 5, 7]]),
        ((2, 2, 1, 4, 2, 1), "ep", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ((2, 2, 1, 4, 2, 1), "expert-dp", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        # expert-TP 2 below TP 4
        ((4, 1, 2, 2, 2, 1), "tp", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ((4, 1, 2, 2, 2, 1), "etp", [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ((4, 1, 2, 2, 2, 1), "ep", [[0, 2], [1, 3], [4, 6], [5, 7]]),
        ((4, 1, 2, 2, 2, 1), "ep-group", [[0, 1, 2, 3], [4, 5, 6, 7]]),
    ],
)
def test_ep_folded_into_dp(degrees, kind, expected):
    tp, cp, etp, ep, dp, pp = degrees
    plan = Plan(
        gpus=pp * etp * ep * dp, tp=tp, cp=cp, etp=etp, ep=ep, dp=dp, pp=pp, expert_mode="folded"
    )
    assert groups(plan, kind) == expected


def test_another_order():
    plan = Plan(gpus=16, tp=2, ep=2, dp=2, pp=2, order="tp-cp-ep-pp-dp")
    assert groups(plan, "pp") == [
        [0, 4], [1, 5], [2, 6], [3, 7], [8, 12], [9, 13], [10, 14], [11, 15],
    ]  # fmt: skip
    assert groups(plan, "expert-dp")[0] == [0, 8]
    assert RankGrid(plan).stage.tolist() == [0, 0, 0, 0, 1, 1, 1, 1] * 2


def test_folded_ranks_must_agree_on_stages():
    plan = Plan(
        gpus=16, tp=2, ep=4, dp=2, pp=2, etp=1, expert_mode="folded", order="tp-pp-cp-ep-dp"
    )
    with pytest.raises(PlanError, match="end the order with '-pp'"):
        RankGrid(plan)


@pytest.mark.parametrize("kind", ["tp", "cp", "pp", "dense-dp", "ep", "etp", "expert-dp"])
@pytest.mark.parametrize(
    "plan",
    [
        AXIS,
        Plan(gpus=96, tp=2, cp=2, ep=3, dp=4, pp=2),
        Plan(gpus=64, tp=4, cp=2, ep=8, dp=2, pp=4, expert_mode="folded"),
    ],
)
def test_groups_partition_the_ranks(plan, kind):
    ranks = RankGrid(plan).groups(kind)
    assert sorted(ranks.reshape(-1).tolist()) == list(range(plan.gpus))


class TestWorkers:
    def test_a_worker_is_a_server_where_the_ep_group_fills_it(self):
        plan = Plan(gpus=64, tp=8, ep=4, dp=1, pp=2)
        workers = place_workers(RankGrid(plan), 8)
        assert workers.server.tolist() == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]
        assert workers.gpus[1, 0, 2].tolist() == list(range(48, 56))

    def test_small_ep_groups_share_a_server(self):
        plan = Plan(gpus=16, tp=1, ep=4, dp=4)
        workers = place_workers(RankGrid(plan), 8)
        assert workers.server.tolist() == [[[0], [0], [1], [1]]]
        assert workers.gpus_per_worker == 4

    def test_context_ranks_share_a_server(self):
        # rank = tp + 4 cp + 8 ep: server s holds EP rank s of both CP ranks
        plan = Plan(gpus=32, tp=4, cp=2, ep=4)
        workers = place_workers(RankGrid(plan), 8)
        assert workers.server.tolist() == [[[0, 1, 2, 3], [0, 1, 2, 3]]]
        assert workers.gpus[0, 1, 2].tolist() == [20, 21, 22, 23]

    def test_tp1_with_wide_ep(self):
        plan = Plan(gpus=128, tp=1, ep=64, dp=2)
        workers = place_workers(RankGrid(plan), 8)
        assert workers.server.tolist() == [[list(range(8)), list(range(8, 16))]]
        assert workers.gpus_per_worker == 8

    def test_worker_of_inverts_gpus(self):
        plan = Plan(gpus=96, tp=2, cp=2, ep=4, dp=2, pp=3)
        workers = place_workers(RankGrid(plan), 8)
        flat = workers.gpus.reshape(-1, workers.gpus_per_worker)
        for index, gpus in enumerate(flat):
            assert (workers.worker_of[gpus] == index).all()

    def test_a_job_smaller_than_a_server(self):
        workers = place_workers(RankGrid(Plan(gpus=4, ep=4)), 8)
        assert workers.server.tolist() == [[[0]]]
        assert workers.gpus_per_worker == 4

    def test_members_hold_consecutive_ep_ranks(self):
        plan = Plan(gpus=32, tp=2, ep=16)
        workers = place_workers(RankGrid(plan), 8)
        ep = RankGrid(plan).place("expert", "ep")[workers.gpus]
        assert np.unique(ep[0, 0, 1]).tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            Plan(gpus=12, tp=1, ep=4, dp=3),
            "12 GPUs do not fill servers of 8; use 16 GPUs",
        ),
        (
            Plan(gpus=32, tp=16, ep=2),
            "tp = 16: a tensor-parallel group must stay within a server of 8 GPUs; use a divisor "
            "of 8",
        ),
        (
            Plan(gpus=24, tp=3, ep=8, seq_len=4098),
            "tp = 3: a tensor-parallel group must stay within a server of 8 GPUs; use a divisor "
            "of 8",
        ),
        (
            Plan(gpus=24, tp=1, ep=3, dp=8),
            "etp x ep = 1 x 3 = 3 GPUs of an EP group do not align with servers of 8; make it a "
            "divisor or a multiple of 8",
        ),
        (
            Plan(gpus=24, tp=1, ep=12, dp=2),
            "etp x ep = 1 x 12 = 12 GPUs of an EP group do not align with servers of 8; make it a "
            "divisor or a multiple of 8",
        ),
    ],
)
def test_what_does_not_align_with_servers_is_refused(plan, message):
    with pytest.raises(PlanError) as caught:
        place_workers(RankGrid(plan), 8)
    assert str(caught.value) == message


def test_ends_of_dualpipe_add_up_the_gradients_of_both_stages_that_they_hold():
    plan = Plan(gpus=8, pp=4, dp=2, micro_batches=8, schedule="dualpipe")
    assert as_set(gradient_groups(RankGrid(plan), "dense-gradient").tolist()) == {
        (0, 1, 6, 7),
        (2, 3, 4, 5),
    }
    plain = Plan(gpus=8, pp=4, dp=2, micro_batches=8)
    assert as_set(gradient_groups(RankGrid(plain), "dense-gradient").tolist()) == {
        (0, 1),
        (2, 3),
        (4, 5),
        (6, 7),
    }
