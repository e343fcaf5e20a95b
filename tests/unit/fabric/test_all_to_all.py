"""The choice is the faster one, and says why."""

import dataclasses

import pytest

from lightloom.fabric import Chronos, Cluster, FatTree, MixNet, Oversub, Rail, TopoOpt
from lightloom.fabric.all_to_all import all_to_all_candidates, best_all_to_all


def test_one_rank_per_server_is_balanced_already(cluster, job):
    chosen, reason = best_all_to_all(cluster, job(128, 8))
    assert chosen == "flat"
    assert "one EP rank per server" in reason


@pytest.mark.parametrize(("imbalance", "expected"), [
    (None, "hierarchical"), (1.0, "flat"), (1.2, "flat"), (1.3, "hierarchical"),
])  # fmt: skip
def test_hot_ranks_are_worth_two_nvswitch_passes(cluster, job, imbalance, expected):
    # 2 x 400 Gb/s over 3600 Gb/s of NVLink: break-even at 1.22
    context = job(128, 8, ranks_per_worker=8, rank_imbalance=imbalance)
    assert best_all_to_all(cluster, context)[0] == expected


@pytest.mark.parametrize(("nics", "ranks", "expected"), [
    (8, 8, "flat"), (4, 8, "flat"), (2, 4, "flat"), (16, 8, "flat"), (6, 1, "flat"),
    (6, 8, "hierarchical"), (3, 2, "hierarchical"), (12, 8, "hierarchical"),
])  # fmt: skip
def test_nics_that_ranks_cannot_share_evenly_are_shared_by_all(job, nics, ranks, expected):
    cluster = Cluster.of(gpus=64, rate_gbps=100, gpu="h100", nics_per_server=nics)
    context = job(8, 8, ranks_per_worker=ranks, rank_imbalance=1.0)
    chosen, reason = best_all_to_all(cluster, context)
    assert chosen == expected
    assert ("cannot be dealt out evenly" in reason) == (chosen == "hierarchical")


@pytest.mark.parametrize("kind", [FatTree, Oversub, Rail])
def test_packet_fabrics_print_their_choice(cluster, job, kind):
    network = kind().network(cluster, job(128, 8))
    assert network.all_to_all == "flat"
    assert network.all_to_all_reason.startswith("one EP rank per server")
    network = kind(all_to_all="rail").network(cluster, job(128, 8))
    assert network.all_to_all == "rail"
    assert network.all_to_all_reason == "as asked"


def test_circuits_have_one_way_and_say_so(cluster, job):
    network = MixNet(all_to_all="flat").network(cluster, job(128, 8))
    assert network.all_to_all == "hierarchical"
    assert network.all_to_all_reason.endswith("('flat' does not apply)")
    assert "does not apply" not in MixNet().network(cluster, job(128, 8)).all_to_all_reason


def test_groups_that_stay_in_their_server_need_no_nic(cluster, job):
    chosen, reason = best_all_to_all(cluster, job(128, 1, ranks_per_worker=8))
    assert chosen == "flat"
    assert "inside a server" in reason


@pytest.mark.parametrize(("gpus_per_worker", "expected"), [(8, "flat"), (4, "hierarchical")])
def test_groups_that_share_a_server_use_each_others_nics(cluster, job, gpus_per_worker, expected):
    context = job(128, 8)
    layout = dataclasses.replace(context.layout, gpus_per_worker=gpus_per_worker)
    chosen, _ = best_all_to_all(cluster, dataclasses.replace(context, layout=layout))
    assert chosen == expected


@pytest.mark.parametrize(("values", "expected"), [
    ({"ranks_per_worker": 8, "rank_imbalance": 1.1}, ("flat", "rail", "hierarchical")),
    ({"ranks_per_worker": 8, "rank_imbalance": 1.5}, ("hierarchical", "flat", "rail")),
    ({"ranks_per_worker": 8, "deduplicated": True}, ("rail", "flat", "hierarchical")),
    ({"deduplicated": True}, ("rail", "hierarchical")),
    ({}, ("flat",)),
])  # fmt: skip
def test_candidates_are_the_strategies_that_can_differ(cluster, job, values, expected):
    assert all_to_all_candidates(cluster, job(128, 8, **values)) == expected


@pytest.mark.parametrize("kind", [FatTree, Oversub, Rail])
def test_packet_fabrics_leave_the_strategy_open(cluster, job, kind):
    context = job(128, 8, ranks_per_worker=8, rank_imbalance=1.1)
    found = kind().candidates(cluster, context)
    assert {str(name): fabric.all_to_all for name, fabric in found.items()} == {
        "all_to_all=flat": "flat", "all_to_all=rail": "rail",
        "all_to_all=hierarchical": "hierarchical",
    }  # fmt: skip
    assert kind(all_to_all="flat").candidates(cluster, context) == {}


@pytest.mark.parametrize("kind", [TopoOpt, Chronos])
def test_circuits_leave_nothing_open(cluster, job, kind):
    assert kind().candidates(cluster, job(128, 8)) == {}


def test_groups_that_use_each_others_nics_have_two_candidates(cluster, job):
    context = job(128, 8)
    layout = dataclasses.replace(context.layout, gpus_per_worker=4)
    shared = dataclasses.replace(context, layout=layout)
    assert all_to_all_candidates(cluster, shared) == ("hierarchical", "flat")


def test_pipelines_and_gradients_leave_over_ones_own_nics_or_all(cluster, job):
    inside = job(128, 1, ranks_per_worker=8)
    assert all_to_all_candidates(cluster, inside) == ("flat", "hierarchical")
    context = job(128, 1)
    layout = dataclasses.replace(context.layout, gpus_per_worker=4)
    inside = dataclasses.replace(context, layout=layout, deduplicated=True)
    assert all_to_all_candidates(cluster, inside) == ("flat", "hierarchical")


def test_one_candidate_where_nothing_can_be_chosen(job):
    cluster = Cluster.of(gpus=64, rate_gbps=100, gpu="h100", nics_per_server=6)
    uneven = job(8, 8, ranks_per_worker=8, rank_imbalance=1.0)
    assert all_to_all_candidates(cluster, uneven) == ("hierarchical",)
    assert all_to_all_candidates(cluster, job(8, 1)) == ("flat",)
    # NICs that cannot be dealt out are nobody's, where no all-to-all leaves its server as well
    assert all_to_all_candidates(cluster, job(8, 1, ranks_per_worker=8)) == ("hierarchical",)
    assert all_to_all_candidates(cluster, None) == ("hierarchical",)
