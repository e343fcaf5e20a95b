"""Bubbles of pipeline schedules, and steps whose communication hides behind computation."""

import dataclasses

import pytest
from tests.workload_fakes import FakeCompute, build_toy, execute, toy_model

from lightloom.fabric.network import Eps, Network, NvSwitch
from lightloom.models.model import Attention
from lightloom.parallel import Plan
from lightloom.simulate import simulate

LAYER_S = 1e-3


def pipeline_s(plan):
    """Step time of dense layers, one per stage, without communication."""
    model = toy_model(moe_layers=(False,) * plan.pp)
    # two projections and two products of the feed-forward, whose weight gradients take half of
    # the backward pass
    compute = FakeCompute(LAYER_S / 2, LAYER_S / 2, weight_s=LAYER_S / 4)
    return max(execute(build_toy(plan, model, compute, gpus_per_server=1).graph)) / 1e12


# Forward F, backward B = 2 F, of which W = F is for weights.


@pytest.mark.parametrize("pp", range(2, 17))
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_the_bubble_of_zero_bubble(pp, turns):
    # (PP - 1)(F + B - 2W): DeepSeek-V3 technical report, Table 2, "ZB1P"
    plan = Plan(gpus=pp, pp=pp, micro_batches=pp * turns, schedule="zero-bubble")
    bubble = (pp - 1) * (1 + 2 - 2 * 1)
    assert pipeline_s(plan) == pytest.approx((3 * plan.micro_batches + bubble) * LAYER_S)
    plain = dataclasses.replace(plan, schedule="1f1b")
    assert pipeline_s(plain) == pytest.approx((3 * plan.micro_batches + 3 * (pp - 1)) * LAYER_S)


@pytest.mark.parametrize("pp", range(2, 17, 2))
@pytest.mark.parametrize("more", [0, 2, 10])
def test_the_bubble_of_dualpipe(pp, more):
    # (PP/2 - 1)(F&B + B - 3W), same table; forward and backward overlapped take F + B
    sizes = {"ep": 8, "micro_batches": 2 * pp + more, "seq_len": 128}
    plan = Plan(gpus=8 * pp, pp=pp, schedule="dualpipe", overlap_all_to_all="batch", **sizes)
    # half of a layer is attention, a quarter the gate, a quarter the experts of 128 tokens x top-2
    compute = FakeCompute(
        LAYER_S / 2, gate_s=LAYER_S / 4, per_copy_s=LAYER_S / 4 / 256, weight_s=LAYER_S / 4
    )
    model = toy_model(moe_layers=(True,) * pp)
    step_s = max(execute(build_toy(plan, model, compute).graph)) / 1e12
    bubble = (pp // 2 - 1) * (3 + 2 - 3 * 1)
    assert step_s == pytest.approx((3 * plan.micro_batches + bubble) * LAYER_S)


@pytest.mark.parametrize("pp", [1, 2, 4, 8])
def test_alternating_passes_keep_the_bubble_of_1f1b(pp):
    model = toy_model(moe_layers=(True,) * pp)
    plan = Plan(gpus=8 * pp, pp=pp, ep=8, micro_batches=4 * pp, seq_len=128)
    compute = FakeCompute(attention_s=LAYER_S)
    times = [
        max(execute(build_toy(one, model, compute).graph)) / 1e12
        for one in (plan, dataclasses.replace(plan, overlap_all_to_all="batch"))
    ]
    assert times == pytest.approx([3 * (4 * pp + pp - 1) * LAYER_S] * 2)


# All-to-alls across two servers of one GPU each.

GPU_BPS = 8_000_000_000_000
NIC_BPS = 8_000_000_000


def two_servers(plan):
    """A network of no latency whose only slow links are the NICs."""
    servers = plan.gpus
    eps = Eps(nics=1, nic_rate_bps=NIC_BPS, link_delay_ps=0, servers_per_tor=2, servers_per_pod=4)
    return Network(servers, 1, NvSwitch(gpu_rate_bps=GPU_BPS, latency_ps=0), "flat", (eps,))


MODEL = toy_model(moe_layers=(True,), num_experts=2, experts_per_token=1)
PLAN = Plan(gpus=2, ep=2, micro_batches=1, seq_len=1024, overlap_gradients=False)
#: of 1,024 tokens per rank, half go to the other: 64 BF16 elements each, at 1 GB/s
ALL_TO_ALL_S = 512 * 64 * 2 / 1e9


def with_reduction_s(plan, model, compute):
    workload = build_toy(plan, model, compute, gpus_per_server=1)
    return simulate(workload.graph, two_servers(plan)).step_time_s


def run_s(plan, model=MODEL, compute=None):
    """Step time without the gradient reduction that ends it."""
    reduction_s = with_reduction_s(PLAN, model, FakeCompute()) - 4 * ALL_TO_ALL_S
    return with_reduction_s(plan, model, compute or FakeCompute()) - reduction_s


def per_copy(expert_s):
    """Experts that take so long for a forward pass of one layer."""
    return FakeCompute(per_copy_s=expert_s / 1024)


@pytest.mark.parametrize("chunks", [2, 4, 8])
@pytest.mark.parametrize("ratio", [0.1, 1.0, 1.9, 2.0, 8.0])
def test_chunks_take_the_longer_of_both_and_the_edges(chunks, ratio):
    plan = dataclasses.replace(PLAN, overlap_all_to_all="chunks", overlap_chunks=chunks)
    once = ALL_TO_ALL_S / chunks

    def layer(expert_s):
        # first dispatch, a step with one all-to-all, steps with two, and the same at the end
        expert = expert_s / chunks
        return 2 * once + 2 * max(expert, once) + (chunks - 2) * max(expert, 2 * once)

    expert_s = ratio * ALL_TO_ALL_S
    expected = layer(expert_s) + layer(2 * expert_s)
    assert run_s(plan, compute=per_copy(expert_s)) == pytest.approx(expected, rel=1e-4)
    plain = 4 * ALL_TO_ALL_S + 3 * expert_s
    assert run_s(PLAN, compute=per_copy(expert_s)) == pytest.approx(plain, rel=1e-4)


@pytest.mark.parametrize("ratio", [0.25, 1.0, 3.0])
def test_shared_experts_hide_all_to_alls(ratio):
    model = dataclasses.replace(MODEL, shared_expert_ffn_size=32)
    shared_s = ratio * ALL_TO_ALL_S
    compute = FakeCompute(shared_s=shared_s)
    plan = dataclasses.replace(PLAN, overlap_shared_experts=True)
    # two of three products before the activation; backward twice as long, the last product first
    pieces = [2 / 3, 1 / 3, 2 / 3, 4 / 3]
    expected = sum(max(ALL_TO_ALL_S, piece * shared_s) for piece in pieces)
    assert run_s(plan, model, compute) == pytest.approx(expected, rel=1e-4)
    assert run_s(PLAN, model, compute) == pytest.approx(4 * ALL_TO_ALL_S + 3 * shared_s, rel=1e-4)


@pytest.mark.parametrize("work", [0.25, 0.6, 1.0, 4.0])
def test_passes_that_alternate_hide_each_others_all_to_alls(work):
    count = 10
    plan = dataclasses.replace(PLAN, micro_batches=count)
    # gate and experts forward, and both backward, each as long or twice as long
    each = work * ALL_TO_ALL_S
    compute = FakeCompute(gate_s=each, per_copy_s=each / 1024)
    plain = run_s(plan, compute=compute)
    assert plain == pytest.approx(count * (4 * ALL_TO_ALL_S + 6 * each), rel=1e-4)
    both = run_s(dataclasses.replace(plan, overlap_all_to_all="batch"), compute=compute)
    # of each pair of passes, every all-to-all hides behind one part of the other pass
    saved = (count - 1) * sum(min(ALL_TO_ALL_S, part * each) for part in (1, 2, 1, 2))
    assert both == pytest.approx(plain - saved, rel=1e-4)


@pytest.mark.parametrize("ratio", [0.1, 0.7, 0.9, 1.0, 100.0])
def test_communication_slows_what_overlaps_it_while_it_lasts(ratio):
    plan = dataclasses.replace(PLAN, overlap_all_to_all="chunks", overlap_chunks=2)
    plan = dataclasses.replace(plan, communication_sms=33)
    once = ALL_TO_ALL_S / 2

    def layer(expert_s):
        # 33 of 132: a quarter of the computation that an all-to-all runs alongside is done later
        return 2 * once + 2 * max(once, expert_s / 2 + once / 4)

    expected = layer(ratio * ALL_TO_ALL_S) + layer(2 * ratio * ALL_TO_ALL_S)
    assert run_s(plan, compute=per_copy(ratio * ALL_TO_ALL_S)) == pytest.approx(expected, rel=1e-4)


def test_alternating_passes_are_slowed_while_all_to_alls_last():
    count, each = 10, 4 * ALL_TO_ALL_S
    compute = FakeCompute(gate_s=each, per_copy_s=each / 1024)
    plan = dataclasses.replace(PLAN, micro_batches=count, overlap_all_to_all="batch")
    free = run_s(plan, compute=compute)
    slowed = run_s(dataclasses.replace(plan, communication_sms=33), compute=compute)
    # every pair of passes overlaps four
    assert slowed - free == pytest.approx((count - 1) * 4 * ALL_TO_ALL_S / 4, rel=1e-4)


@pytest.mark.parametrize("cp", [2, 4])
@pytest.mark.parametrize("servers", [1, 2])
def test_ulysses_takes_four_all_to_alls_a_layer(cp, servers):
    """Two forward, two backward, of queries, keys and values, and of results."""
    gpu_bps, gpus = 8_000_000_000, cp // servers
    start_ps = 10_000_000
    plan = Plan(gpus=cp, cp=cp, micro_batches=1, seq_len=1024, overlap_gradients=False)
    attention = Attention("gqa", num_heads=8, num_kv_heads=4, head_dim=8)
    model = toy_model(
        moe_layers=(False,),
        num_experts=0,
        experts_per_token=0,
        expert_ffn_size=0,
        attention=attention,
    )
    eps = Eps(gpus, gpu_bps // 10, 0, 2, 4)
    network = Network(servers, gpus, NvSwitch(gpu_bps, start_ps), "flat", (eps,))
    found = simulate(
        build_toy(
            dataclasses.replace(plan, context_parallel="ulysses"), model, gpus_per_server=gpus
        ).graph,
        network,
    )
    buffers = 1024 / cp * 2 * (2 * (8 + 2 * 4) * 8 + 2 * 8 * 8)
    taken = buffers * (cp - 1) / cp / (gpu_bps / 8) + 4 * start_ps / 1e12
    if servers > 1:
        taken = buffers * (servers - 1) / servers / (gpu_bps / 80)
    assert found.critical_path_s["cp"] == pytest.approx(taken, rel=1e-3)


@pytest.mark.parametrize("tp", [2, 4, 8])
@pytest.mark.parametrize("long", [False, True])
def test_one_tp_step_of_each_collective_is_exposed(tp, long):
    gpu_bps = 8_000_000_000
    layout = {"tp": tp, "dp": 8 // tp, "overlap_gradients": False}
    plan = Plan(gpus=8, micro_batches=1, seq_len=128 * tp, **layout)
    model = toy_model(moe_layers=(False,), num_experts=0, experts_per_token=0, expert_ffn_size=0)
    tokens = plan.seq_len
    once = tokens * 64 * 2 * (tp - 1) / tp / (gpu_bps / 8)
    times = FakeCompute(*(2 * [100 * once if long else 0.0]))
    network = Network(1, 8, NvSwitch(gpu_bps, 0), "flat", (Eps(8, NIC_BPS, 0, 2, 4),))
    plain, hidden = (
        simulate(build_toy(one, model, times).graph, network)
        for one in (plan, dataclasses.replace(plan, overlap_tp=True))
    )
    # forward and backward of attention and feed-forward, two collectives each; what backward
    # gathers again is hidden as a whole
    saved = 8 * once * (1 - 1 / tp) + 2 * once if long else 0.0
    assert plain.step_time_s - hidden.step_time_s == pytest.approx(saved, rel=1e-3, abs=1e-9)
    assert plain.purpose_bytes["tp"] == hidden.purpose_bytes["tp"]
