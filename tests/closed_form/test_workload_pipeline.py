"""Step times of pipelines whose network takes no time, against the bubble's closed form."""

import pytest
from tests.workload_fakes import FakeCompute, build_toy, execute, toy_model

from lightloom.parallel import Plan

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
