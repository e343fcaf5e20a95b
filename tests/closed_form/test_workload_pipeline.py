"""Step times of pipelines against closed forms, but for one on a network that takes no time."""

import random

import pytest
from tests.workload_fakes import FakeCompute, build_toy, execute, toy_model

from lightloom.fabric.network import Eps, Network, NvSwitch
from lightloom.parallel import Plan
from lightloom.simulate import simulate

LAYER_S = 1e-3


def step_s(plan, layers, **times):
    model = toy_model(moe_layers=(False,) * layers)
    compute = FakeCompute(attention_s=LAYER_S, **times)
    return max(execute(build_toy(plan, model, compute).graph)) / 1e12


@pytest.mark.parametrize("pp", [1, 2, 4, 8])
@pytest.mark.parametrize("micro_batches", [1, 3, 8, 16])
def test_1f1b_takes_micro_batches_plus_stages_minus_one(pp, micro_batches):
    plan = Plan(gpus=pp, pp=pp, micro_batches=micro_batches)
    turn = 3 * LAYER_S * 16 / pp  # forward and backward of a stage
    assert step_s(plan, 16) == pytest.approx((micro_batches + pp - 1) * turn)


@pytest.mark.parametrize("vpp", [2, 4])
@pytest.mark.parametrize("pp", [2, 4])
@pytest.mark.parametrize("turns", [1, 2, 4])
def test_interleaving_divides_the_bubble_by_the_chunks(pp, vpp, turns):
    plan = Plan(gpus=pp, pp=pp, vpp=vpp, micro_batches=pp * turns)
    turn = 3 * LAYER_S * 16 / pp
    expected = plan.micro_batches * turn + (pp - 1) * turn / vpp
    assert step_s(plan, 16) == pytest.approx(expected)


def test_the_longest_stage_sets_the_pace():
    plan = Plan(gpus=2, pp=2, micro_batches=8, pp_layout=(1, 3))
    # the first forward and the last backward of stage 0, and all of stage 1
    assert step_s(plan, 4) == pytest.approx(3 * LAYER_S + 8 * 9 * LAYER_S)


MESSAGE_S = 64 * 128 * 2 / 1e9


@pytest.mark.parametrize("ratio", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("micro_batches", [1, 2, 3, 8])
def test_stages_that_wait_for_messages_take_more_in_every_turn(micro_batches, ratio):
    """A message each way at once between two stages; two where stages are between others."""
    turn = 3 * ratio * MESSAGE_S
    blocking_s = over_a_network(2, micro_batches, ratio, NIC, overlap_pipeline=False)
    assert blocking_s == pytest.approx((micro_batches + 1) * (turn + MESSAGE_S), rel=1e-6)
    for stages in (3, 4, 8):
        blocking_s = over_a_network(stages, micro_batches, ratio, DISTANCE, overlap_pipeline=False)
        filled = stages * turn + 2 * (stages - 1) * MESSAGE_S
        others = (micro_batches - 1) * (turn + 2 * MESSAGE_S)
        # the first message back is late by what a backward pass is shorter than it
        first = (min(1, ratio) - max(0, 1 - 2 * ratio)) * MESSAGE_S * (micro_batches > 1)
        assert blocking_s == pytest.approx(filled + others - first, rel=1e-6)


#: links on which a message takes its size, and those on which it takes the distance
NIC = {"nic_rate_bps": 8 * 10**9, "link_delay_ps": 0}
DISTANCE = {"nic_rate_bps": 8 * 10**15, "link_delay_ps": round(MESSAGE_S / 2 * 1e12)}


def over_a_network(stages, micro_batches, ratio, links, **plan):
    """The step of a layer per stage, whose forward pass takes ``ratio`` times a message."""
    model = toy_model(moe_layers=(False,) * stages)
    compute = FakeCompute(attention_s=ratio * MESSAGE_S)
    plan = Plan(gpus=stages, pp=stages, micro_batches=micro_batches, seq_len=128, **plan)
    graph = build_toy(plan, model, compute, gpus_per_server=1).graph
    eps = Eps(nics=1, servers_per_tor=8, servers_per_pod=8, **links)
    nvswitch = NvSwitch(gpu_rate_bps=8 * 10**12, latency_ps=0)
    return simulate(graph, Network(stages, 1, nvswitch, "flat", (eps,))).step_time_s


@pytest.mark.parametrize("seed", range(20))
def test_stages_that_wait_for_messages_are_never_faster_unless_messages_share_links(seed):
    """Nor do any wait for each other: that would be an error."""
    draw = random.Random(seed)
    case = (draw.randint(2, 8), draw.randint(1, 12), draw.choice([0.05, 0.5, 2.0]))
    blocking_s = over_a_network(*case, DISTANCE, overlap_pipeline=False)
    assert blocking_s >= over_a_network(*case, DISTANCE) * (1 - 1e-9)
    # where gradients wait in a NIC behind messages that nobody needs yet, it may be faster to wait
    blocking_s = over_a_network(*case, NIC, overlap_pipeline=False)
    assert blocking_s >= 0.75 * over_a_network(*case, NIC)
    case = (2, *case[1:])
    blocking_s = over_a_network(*case, NIC, overlap_pipeline=False)
    assert blocking_s >= over_a_network(*case, NIC) * (1 - 1e-9)


def test_full_recomputation_adds_a_forward_pass():
    plan = Plan(gpus=1, micro_batches=4)
    assert step_s(plan, 4) == pytest.approx(4 * 4 * 3 * LAYER_S)
    assert step_s(plan, 4, recompute="full") == pytest.approx(4 * 4 * 4 * LAYER_S)


def test_head_and_embedding_are_on_the_end_stages():
    plan = Plan(gpus=2, pp=2, micro_batches=1)
    plain = step_s(plan, 2)
    assert step_s(plan, 2, head_s=LAYER_S) - plain == pytest.approx(3 * LAYER_S)
    assert step_s(plan, 2, embedding_s=LAYER_S) - plain == pytest.approx(3 * LAYER_S)


def test_experts_and_shared_experts_count_per_copy_and_layer():
    model = toy_model(moe_layers=(True,) * 4, shared_expert_ffn_size=32)
    plan = Plan(gpus=8, ep=8, micro_batches=2, seq_len=128)
    compute = FakeCompute(per_copy_s=1e-6, shared_s=1e-4, gate_s=1e-5)
    total = max(execute(build_toy(plan, model, compute).graph)) / 1e12
    # 128 tokens x top-2 arrive at each of 8 balanced ranks
    layer = 256e-6 + 1e-4 + 1e-5
    assert total == pytest.approx(2 * 4 * 3 * layer)


def test_compute_scale_multiplies_every_compute_time():
    model = toy_model(shared_expert_ffn_size=32)
    plan = Plan(gpus=8, ep=4, pp=2, micro_batches=2, seq_len=128)
    compute = FakeCompute(1e-3, 1e-3, 1e-4, 2e-4, 3e-4, 1e-5, 1e-6, 1e-9)
    once, scaled = (
        max(execute(build_toy(plan, model, compute, compute_scale=scale).graph))
        for scale in (1.0, 1.5)
    )
    assert scaled == pytest.approx(1.5 * once, rel=1e-9)
