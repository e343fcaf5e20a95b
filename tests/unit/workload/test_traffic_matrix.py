"""Traffic matrices add up to what the model implies, in total and by row and column."""

import numpy as np
import pytest
from tests.crosscheck.test_workload_executed import MIXED, PLANS
from tests.workload_fakes import FakeCompute, build_toy, toy_model

from lightloom.parallel import Plan, RankGrid
from lightloom.workload import WorkloadOptions
from lightloom.workload.matrix import traffic_matrix

MORE = {
    "dualpipe": Plan(
        gpus=64, tp=1, ep=8, dp=4, pp=2, micro_batches=4, seq_len=128, schedule="dualpipe"
    ),
    "expert-TP of its own": Plan(
        gpus=32, tp=4, ep=4, etp=2, dp=2, pp=2, seq_len=128, expert_mode="folded"
    ),
    "hidden TP": Plan(gpus=32, tp=4, ep=4, pp=2, seq_len=128, overlap_tp=True),
    "one server": Plan(gpus=8, tp=2, ep=4, seq_len=128, zero1=True),
}
OPTIONS = {
    "ranks": WorkloadOptions(rank_level=True),
    "servers": WorkloadOptions(),
    "once": WorkloadOptions(rank_level=True, deduplicate=True),
}


def matrices(workload):
    return traffic_matrix(workload, by_server=False), traffic_matrix(workload, by_server=True)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", {**PLANS, **MORE})
def test_kinds_add_up_to_what_the_model_implies(name, options):
    plan = {**PLANS, **MORE}[name]
    workload = build_toy(plan, MIXED, FakeCompute(recompute="full"), options=OPTIONS[options])
    by_gpu, by_server = matrices(workload)
    assert by_gpu.kinds == tuple(workload.expected_bytes)
    for kind, expected in workload.expected_bytes.items():
        assert by_gpu.of(kind).sum() == pytest.approx(expected, rel=1e-4)
        sent = workload.traffic[kind]
        assert by_gpu.of(kind).sum() == pytest.approx(sent.total_bytes, rel=1e-6)
        servers = by_server.of(kind)
        assert servers.sum() - np.trace(servers) == pytest.approx(sent.network_bytes, rel=1e-6)


@pytest.mark.parametrize("name", {**PLANS, **MORE})
def test_servers_are_sums_of_gpus_and_no_gpu_sends_to_itself(name):
    plan = {**PLANS, **MORE}[name]
    by_gpu, by_server = matrices(build_toy(plan, MIXED, options=OPTIONS["ranks"]))
    n = plan.gpus // 8
    folded = by_gpu.size_bytes.reshape(-1, n, 8, n, 8).sum(axis=(2, 4))
    np.testing.assert_allclose(folded, by_server.size_bytes, rtol=1e-9)
    assert (by_gpu.size_bytes >= 0).all()
    if plan.context_parallel == "ring":
        assert not np.trace(by_gpu.total)
    assert by_gpu.total.sum() == pytest.approx(by_gpu.size_bytes.sum())


def test_pipelines_send_to_the_next_stage_and_back():
    plan = PLANS["tp8 servers"]
    workload = build_toy(plan, MIXED)
    sent = traffic_matrix(workload, by_server=False).of("pp")
    half = plan.gpus // 2
    ends = np.arange(half)
    size = plan.micro_batches * plan.seq_len * MIXED.hidden_size * 2 / plan.tp
    assert sent[ends, ends + half] == pytest.approx(np.full(half, size))
    assert sent[ends + half, ends] == pytest.approx(np.full(half, size))
    assert np.count_nonzero(sent) == plan.gpus


@pytest.mark.parametrize("kind", ["tp", "dp", "cp"])
def test_what_gpus_send_in_rings_they_also_receive(kind):
    workload = build_toy(PLANS["context ranks across servers"], MIXED)
    sent = traffic_matrix(workload, by_server=False).of(kind)
    assert sent.sum(axis=0) == pytest.approx(sent.sum(axis=1))


@pytest.mark.parametrize(("kind", "groups"), [("tp", "tp"), ("cp", "cp"), ("ep", "ep-group")])
def test_no_byte_leaves_its_group(kind, groups):
    plan = PLANS["context ranks share servers"]
    workload = build_toy(plan, toy_model(), options=OPTIONS["ranks"])
    sent = traffic_matrix(workload, by_server=False).of(kind)
    allowed = np.zeros(sent.shape, dtype=bool)
    for group in RankGrid(plan).groups(groups):
        allowed[np.ix_(group, group)] = True
    assert sent.any()
    assert not sent[~allowed].any()


def test_experts_send_back_what_they_were_sent():
    """Dispatch and combine carry as many bytes, so that forward and backward are symmetric."""
    workload = build_toy(PLANS["wide ep"], MIXED, options=OPTIONS["ranks"])
    sent = traffic_matrix(workload, by_server=False).of("ep")
    np.testing.assert_allclose(sent, sent.T)


def test_tokens_sent_once_cross_servers_on_rails():
    workload = build_toy(PLANS["wide ep"], MIXED, options=OPTIONS["once"])
    sent = traffic_matrix(workload, by_server=False).of("ep")
    source, target = np.nonzero(sent)
    across = source // 8 != target // 8
    assert across.any()
    assert (source[across] % 8 == target[across] % 8).all()
    every = build_toy(PLANS["wide ep"], MIXED, options=OPTIONS["ranks"])
    all_copies = traffic_matrix(every, by_server=True).of("ep")
    once = traffic_matrix(workload, by_server=True).of("ep")
    assert once.sum() - np.trace(once) < all_copies.sum() - np.trace(all_copies)
