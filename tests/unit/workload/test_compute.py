"""Layer times: FLOPs and bytes by hand, scaling, recomputation, vectorized experts."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.errors import HardwareError
from lightloom.models.model import Attention, Model
from lightloom.workload.compute import ComputeModel

GQA = Attention("gqa", num_heads=32, num_kv_heads=8, head_dim=128)
MLA = Attention(
    "mla",
    num_heads=128,
    num_kv_heads=128,
    head_dim=128,
    q_lora_rank=1536,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
)
MIXTRAL = Model(
    "mixtral",
    hidden_size=4096,
    vocab_size=32000,
    attention=GQA,
    moe_layers=(True,) * 32,
    ffn_size=14336,
    num_experts=8,
    experts_per_token=2,
    expert_ffn_size=14336,
)
DEEPSEEK = Model(
    "deepseek",
    hidden_size=5120,
    vocab_size=102400,
    attention=MLA,
    moe_layers=(False, *(True,) * 59),
    ffn_size=12288,
    num_experts=160,
    experts_per_token=6,
    expert_ffn_size=1536,
    shared_expert_ffn_size=3072,
)
TOKENS, SEQ = 32768, 4096

LAYERS = {
    "attention": lambda c, m, b: c.attention_layer(m, TOKENS, SEQ, 2, 1, b),
    "dense": lambda c, m, b: c.dense_ffn(m, TOKENS, 2, b),
    "gate": lambda c, m, b: c.gate(m, TOKENS, b, 2),
    "experts": lambda c, m, b: float(c.experts(m, np.array(TOKENS), 2, 1, b)),
    "head": lambda c, m, b: c.head(m, TOKENS, 2, b),
    "embedding": lambda c, m, b: c.embedding(m, TOKENS, 2, b),
}


def plain(gpu="b200", efficiency=0.5, **options):
    """A GPU whose operators all run at one efficiency, memory at full rate, no launches."""
    compute = ComputeModel.load(gpu, **options)
    found = compute.efficiencies
    curves = {
        name: dataclasses.replace(
            curve,
            log_flops=np.array([0.0]),
            log_efficiency=np.log([efficiency]),
            launch_s=0.0,
            bandwidth_efficiency=None,
            norm=1.0,
        )
        for name, curve in found.curves.items()
    }
    memory = {
        name: dataclasses.replace(kind, bandwidth_efficiency=1.0, launch_s=0.0)
        for name, kind in found.memory.items()
    }
    even = dataclasses.replace(found, curves=curves, memory=memory, sustained=1.0)
    return dataclasses.replace(compute, efficiencies=even)


def compute_bound(gpu="b200", **options):
    """The same with memory-bound operators made free."""
    compute = plain(gpu, **options)
    memory = {
        name: dataclasses.replace(kind, bandwidth_efficiency=1e12)
        for name, kind in compute.efficiencies.memory.items()
    }
    return dataclasses.replace(
        compute, efficiencies=dataclasses.replace(compute.efficiencies, memory=memory)
    )


RATE = 0.5 * 2250e12


def test_matmul_by_hand():
    assert plain().matmul(1000, 2000, 3000) == pytest.approx(2 * 6e9 / RATE)


def test_linear_backward_is_two_products():
    compute = plain()
    assert compute.linear(512, 1024, 2048, True) == pytest.approx(
        2 * compute.linear(512, 1024, 2048, False)
    )


def test_attention_by_hand():
    forward = plain().attention(4096, 16, 192, 128, 3, False)
    assert forward == pytest.approx(3 * 2 * 4096**2 * 16 * 320 / 2 / RATE)
    assert plain().attention(4096, 16, 192, 128, 3, True) == pytest.approx(2.5 * forward)
    assert plain().attention(4096, 16, 192, 128, 3, False, causal=False) == pytest.approx(
        2 * forward
    )


def test_memory_bound_by_hand():
    assert plain().memory_bound(8e12, "optimizer") == pytest.approx(1.0)
    assert plain().memory_bound(0, "optimizer") == 0


def test_unknown_memory_kind():
    with pytest.raises(HardwareError, match="'softmax': known are elementwise, permute"):
        plain().memory_bound(1, "softmax")


@pytest.mark.parametrize(("backward", "passes"), [(False, 1), (True, 2)])
def test_gqa_layer_flops(backward, passes):
    """Projections 2 t h (2 hq + 2 hkv) d; scores 2 t s hq 2d / 2, 2.5 times backward."""
    projections = 2 * TOKENS * 4096 * 128 * (2 * 32 + 2 * 8)
    scores = TOKENS * SEQ * 32 * 256 * (2.5 if backward else 1)
    seconds = compute_bound().attention_layer(MIXTRAL, TOKENS, SEQ, 4, 1, backward)
    assert seconds == pytest.approx((passes * projections + scores) / 4 / RATE, rel=1e-6)


def test_mla_layer_flops():
    tp = 2
    down = 2 * TOKENS / tp * 5120 * (1536 + 512 + 64)
    up = 2 * TOKENS * (1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 5120) / tp
    scores = TOKENS * SEQ * 128 * 320 / tp
    seconds = compute_bound().attention_layer(DEEPSEEK, TOKENS, SEQ, tp, 1, False)
    assert seconds == pytest.approx((down + up + scores) / RATE, rel=1e-6)


def test_mla_without_query_compression():
    attention = dataclasses.replace(MLA, q_lora_rank=0)
    model = dataclasses.replace(DEEPSEEK, attention=attention)
    extra = 2 * TOKENS * (5120 * 128 * 192 - 5120 * 1536 - 1536 * 128 * 192)
    difference = [
        compute_bound().attention_layer(each, TOKENS, SEQ, 1, 1, False)
        for each in (model, DEEPSEEK)
    ]
    assert difference[0] - difference[1] == pytest.approx(extra / RATE, rel=1e-6)


def test_few_key_value_heads_are_repeated():
    model = dataclasses.replace(MIXTRAL, attention=dataclasses.replace(GQA, num_kv_heads=2))
    width = 32 / 8 * 128 * 2 + 2 * 128  # query and output of 4 heads, one key and one value head
    scores = TOKENS * SEQ * 32 * 256 / 8
    seconds = compute_bound().attention_layer(model, TOKENS, SEQ, 8, 1, False)
    assert seconds == pytest.approx((2 * TOKENS * 4096 * width + scores) / RATE, rel=1e-6)


def test_context_parallel_ranks_share_the_scores_of_long_sequences():
    compute = compute_bound()
    whole = compute.attention_layer(MIXTRAL, 32768, 32768, 2, 1, False)
    shared = compute.attention_layer(MIXTRAL, 32768 / 4, 32768, 2, 4, False)
    assert shared == pytest.approx(whole / 4)


def test_dense_ffn_flops():
    seconds = compute_bound().dense_ffn(MIXTRAL, TOKENS, 4, False)
    assert seconds == pytest.approx(6 * TOKENS * 4096 * 14336 / 4 / RATE, rel=1e-6)
    ungated = dataclasses.replace(MIXTRAL, gated_ffn=False)
    assert compute_bound().dense_ffn(ungated, TOKENS, 4, False) == pytest.approx(seconds * 2 / 3)


@pytest.mark.parametrize(("backward", "passes"), [(False, 1), (True, 2)])
def test_experts_flops(backward, passes):
    tokens = np.array([0, 1000, 2000])
    seconds = compute_bound().experts(MIXTRAL, tokens, 2, 4, backward)
    assert seconds == pytest.approx(passes * 6 * tokens * 4096 * 14336 / 4 / RATE, rel=1e-6)


def test_shared_experts_flops_and_absence():
    seconds = compute_bound().shared_experts(DEEPSEEK, TOKENS, 2, False)
    assert seconds == pytest.approx(6 * TOKENS * 5120 * 3072 / 2 / RATE, rel=1e-6)
    assert compute_bound().shared_experts(MIXTRAL, TOKENS, 2, False) == 0


def test_router_and_permutation():
    router = 2 * TOKENS * 4096 * 8 / RATE
    assert compute_bound().gate(MIXTRAL, TOKENS, False) == pytest.approx(router, rel=1e-6)
    moved = plain().gate(MIXTRAL, TOKENS, False) - router
    # norm and residual 5 passes, permutation and inverse 2 (1 + k), of t h bf16
    passes = (5 + 2 * 3) * TOKENS * 4096 * 2
    scores = 6 * TOKENS * 8 * 4
    assert moved == pytest.approx((passes + scores) / 8e12, rel=1e-6)


def test_head_flops_and_loss_bytes():
    seconds = compute_bound().head(MIXTRAL, TOKENS, 2, False)
    assert seconds == pytest.approx(2 * TOKENS * 4096 * 16000 / RATE, rel=1e-6)
    extra = plain().head(MIXTRAL, TOKENS, 2, False) - seconds
    logits, norm = 2 * TOKENS * 16000 * 2, 2 * TOKENS / 2 * 4096 * 2
    assert extra == pytest.approx((logits + norm) / 8e12, rel=1e-5)


def test_optimizer_bytes():
    """Adam: 16 bytes in, 14 out, 8 for the norm and clearing of gradients."""
    assert plain().optimizer(1e9) == pytest.approx(38e9 / 8e12)
    assert plain().optimizer(0) == 0


@pytest.mark.parametrize("layer", ["attention", "dense", "gate", "experts"])
@pytest.mark.parametrize("model", [MIXTRAL, DEEPSEEK], ids=lambda model: model.name)
def test_full_recomputation_adds_the_forward(layer, model):
    once = ComputeModel.load("b200")
    twice = ComputeModel.load("b200", recompute="full")
    run = LAYERS[layer]
    assert run(twice, model, False) == run(once, model, False)
    assert run(twice, model, True) == pytest.approx(
        run(once, model, True) + run(once, model, False)
    )


def test_recomputation_of_scores_adds_them_alone():
    once = ComputeModel.load("b200")
    again = ComputeModel.load("b200", recompute="attention")
    scores = once.attention(SEQ, 16, 128, 128, TOKENS / SEQ, False)
    run = LAYERS["attention"]
    assert run(again, MIXTRAL, True) == pytest.approx(run(once, MIXTRAL, True) + scores)
    assert LAYERS["dense"](again, MIXTRAL, True) == LAYERS["dense"](once, MIXTRAL, True)


def test_unknown_recomputation():
    with pytest.raises(HardwareError, match="expected none, attention or full, got 'some'"):
        ComputeModel.load("b200", recompute="some")


@pytest.mark.parametrize("gpu", ["a100", "h100", "h800", "h200", "b200"])
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("model", [MIXTRAL, DEEPSEEK], ids=lambda model: model.name)
def test_backward_takes_one_to_four_times_forward(gpu, layer, model):
    compute = ComputeModel.load(gpu)
    forward, backward = (LAYERS[layer](compute, model, b) for b in (False, True))
    assert 0 < forward <= backward <= 4 * forward


@pytest.mark.parametrize("layer", [name for name in LAYERS if name not in ("experts", "embedding")])
def test_newer_gpus_are_faster(layer):
    times = [LAYERS[layer](ComputeModel.load(g), MIXTRAL, False) for g in ("a100", "h100", "b200")]
    assert times == sorted(times, reverse=True)


def test_assumed_and_provenance():
    assert not ComputeModel.load("b200").assumed
    assert not ComputeModel.load("a100").assumed
    h800 = ComputeModel.load("h800")
    assert h800.assumed
    assert "taken equal to H100" in h800.provenance["gpu.peak_bf16_flops"]
    assert "generic" in h800.provenance["matmul"]


def test_profile_of_all_curves_is_not_assumed(tmp_path):
    compute = ComputeModel.load("h800")
    path = tmp_path / "p.csv"
    rows = [f"{name},1e12,0.06" for name in compute.efficiencies.curves]
    path.write_text("\n".join(["operator,flops,efficiency", *rows]))
    mine = ComputeModel.load("h800", path)
    assert not mine.assumed
    expected = 2e15 / (989.4e12 * 0.06) / mine.efficiencies.sustained
    assert mine.matmul(1e5, 1e5, 1e5) == pytest.approx(expected)


def test_grouped_products_sum_over_experts():
    compute = ComputeModel.load("b200")
    tokens = np.array([[100.0, 0.0, 5000.0], [300.0, 300.0, 300.0]])
    total = compute.grouped_matmul(tokens, 4096, 14336, "wgrad")
    each = [
        [float(compute.grouped_matmul([t], 4096, 14336, "wgrad")) for t in row] for row in tokens
    ]
    assert total == pytest.approx(np.sum(each, axis=1))
    assert compute.grouped_matmul([0.0], 4096, 14336) == 0


def test_few_tokens_per_expert_cost_the_reading_of_weights():
    compute = ComputeModel.load("b200")
    weights_s = 4096 * 28672 * 2 / 8e12
    assert float(compute.grouped_matmul([1.0], 4096, 28672)) > weights_s
    assert float(compute.grouped_matmul([1.0], 4096, 28672, "wgrad")) > 4 * weights_s


@pytest.mark.parametrize("backward", [False, True])
def test_table_of_whole_counts_equals_direct_evaluation(backward):
    compute = ComputeModel.load("b200")
    tokens = np.random.default_rng(7).integers(0, 9000, (5, 30, 40))
    looked_up = compute.experts(DEEPSEEK, tokens, 20, 1, backward)
    direct = compute.experts(DEEPSEEK, tokens.astype(float), 20, 1, backward)
    assert looked_up.shape == tokens.shape
    assert np.array_equal(looked_up, direct)


def test_large_counts_in_small_arrays_do_not_build_large_tables():
    compute = ComputeModel.load("b200")
    tokens = np.full(5000, 10**12)
    assert compute.experts(MIXTRAL, tokens, 1, 1, False)[0] > 0


@given(st.integers(0, 200_000), st.integers(1, 50_000), st.booleans())
def test_more_tokens_never_take_less(tokens, more, backward):
    first, second = ComputeModel.load("a100").experts(
        MIXTRAL, np.array([tokens, tokens + more]), 4, 1, backward
    )
    assert first <= second


def test_scalar_counts():
    assert ComputeModel.load("b200").experts(MIXTRAL, 100, 1, 1, False).shape == ()
