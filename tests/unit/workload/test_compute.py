"""Layer times: FLOPs and bytes by hand, scaling, recomputation, vectorized experts."""

import dataclasses
import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.errors import HardwareError
from lightloom.models import load_model
from lightloom.models.model import Attention, Model
from lightloom.workload.compute import ComputeModel
from lightloom.workload.compute_dispatch import Dispatch
from lightloom.workload.compute_kernels import CASTS, NOTHING, Kernels, Work
from lightloom.workload.compute_operators import Launches

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
    measured = compute.efficiencies
    curves = {
        name: dataclasses.replace(
            curve,
            log_flops=np.array([0.0]),
            log_efficiency=np.log([efficiency]),
            launch_s=0.0,
            bandwidth_efficiency=None,
            norm=1.0,
        )
        for name, curve in measured.curves.items()
    }
    memory = {
        name: dataclasses.replace(kind, bandwidth_efficiency=1.0, launch_s=0.0, element_s=0.0)
        for name, kind in measured.memory.items()
    }
    even = dataclasses.replace(measured, curves=curves, memory=memory, sustained=1.0)
    kernels = dataclasses.replace(compute.kernels, launches=Launches(0.0, 0.0, 0.0, 0.0))
    return dataclasses.replace(compute, kernels=kernels).with_efficiencies(even)


def compute_bound(gpu="b200", **options):
    """The same with memory-bound operators made free."""
    compute = plain(gpu, **options)
    memory = {
        name: dataclasses.replace(kind, bandwidth_efficiency=1e12)
        for name, kind in compute.efficiencies.memory.items()
    }
    return compute.with_efficiencies(dataclasses.replace(compute.efficiencies, memory=memory))


RATE = 0.5 * 2250e12


def test_matmul_by_hand():
    product = plain().kernels.matmul(1000, 2000, 3000)
    assert product == Work.of(pytest.approx(2 * 6e9 / RATE), 1)


def test_linear_backward_is_two_products():
    kernels = plain().kernels
    forward, backward = (kernels.linear(512, 1024, 2048, back) for back in (False, True))
    assert backward.kernel_s == pytest.approx(2 * forward.kernel_s)
    assert (forward.kernels, backward.kernels) == (1, 2)


def test_attention_by_hand():
    kernels = plain().kernels
    forward = kernels.attention(4096, 16, (192, 128), 3, False).kernel_s
    assert forward == pytest.approx(3 * 2 * 4096**2 * 16 * 320 / 2 / RATE)
    assert kernels.attention(4096, 16, (192, 128), 3, True).kernel_s == pytest.approx(2.5 * forward)
    whole = kernels.attention(4096, 16, (192, 128), 3, False, causal=False).kernel_s
    assert whole == pytest.approx(2 * forward)


def test_memory_bound_by_hand():
    assert plain().kernels.moved(8e12, "optimizer", 4) == Work.of(pytest.approx(1.0), 4)
    assert plain().kernels.moved(0, "optimizer").kernel_s == 0


def test_a_gpu_without_measured_products_of_a_format_is_refused_in_one_line(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('like = "h100"\nformats = ["bf16", "nvfp4"]\npeak_fp4_flops = 4e15\n')
    with pytest.raises(HardwareError, match="no measured products in nvfp4; choose another prec"):
        ComputeModel.load(str(path), precision="nvfp4")


def test_flash_attention_2_needs_a_gpu_on_which_it_was_measured():
    fastest, flash = (
        ComputeModel.load("h100", attention_kernels=kernels).kernels
        for kernels in ("fastest", "flash-2")
    )
    for backward in (False, True):
        times = [
            kernels.attention(8192, 32, (128, 128), 1, backward).kernel_s
            for kernels in (fastest, flash)
        ]
        # 1,765 to 1,007 us forward, 5,043 to 2,864 us backward on H200
        assert times[1] / times[0] == pytest.approx(1.76, rel=0.05)
    with pytest.raises(HardwareError, match="leave attention_kernels out"):
        ComputeModel.load("b200", attention_kernels="flash-2")


@pytest.mark.parametrize(("power_w", "clock"), [(700, 1.0), (900, 1.0), (500, (5 / 7) ** 0.44)])
def test_less_power_slows_products_and_no_bytes(tmp_path, power_w, clock):
    path = tmp_path / "own.toml"
    path.write_text(f'like = "h100"\npower_w = {power_w}\n')
    whole, capped = (ComputeModel.load(gpu).kernels for gpu in ("h100", str(path)))
    large = [kernels.matmul(8192, 8192, 8192).kernel_s for kernels in (whole, capped)]
    assert large[0] / large[1] == pytest.approx(clock, rel=1e-3)
    assert whole.moved(1e9, "optimizer") == capped.moved(1e9, "optimizer")


def test_a_measured_operator_has_the_clock_of_its_gpu_and_leaves_the_others(tmp_path):
    low, profile = tmp_path / "low.toml", tmp_path / "one.toml"
    low.write_text('like = "h100"\npower_w = 350\n')
    profile.write_text(
        "[operators.attention_latent_forward]\nflops = [1e12]\nefficiency = [0.01]\n"
    )
    own, measured = (ComputeModel.load(str(low), p).kernels for p in (None, profile))
    whole = ComputeModel.load("h100", profile).kernels
    assert own.matmul(8192, 8192, 8192) == measured.matmul(8192, 8192, 8192)
    latent = [k.operator_seconds("attention_latent_forward", 1e12, 0.0) for k in (measured, whole)]
    assert latent[0] == latent[1]


def test_kernels_that_change_nothing_are_refused():
    for casts in CASTS.keys() - {"fused"}:
        with pytest.raises(HardwareError, match=f"casts = {casts}: products in bf16 have no casts"):
            plain("h100", casts=casts)
    with pytest.raises(HardwareError, match="casts = 'delayed': expected one of fused, current"):
        plain("h100", precision="fp8", casts="delayed")


def test_casts_apart_read_an_operand_twice_and_transpose_it():
    fused, apart = (plain("h100", precision="fp8", casts=casts) for casts in ("fused", "separate"))
    # two readings in BF16; written, read and written again in FP8
    assert apart.kernels.quantize(1e9).kernel_s * 3350e9 == pytest.approx((4 + 3 * 33 / 32) * 1e9)
    layer = [c.kernels.linear(4096, 4096, 4096, False, quantized=True) for c in (fused, apart)]
    assert layer[0].kernels + 3 == layer[1].kernels
    assert layer[0].kernel_s < layer[1].kernel_s


#: GPU, format and scales: bytes that a cast moves per element (BF16 values read, FP8 values and
#: their scales written), and after a norm, which has written them in BF16 or in FP8
NARROW = 33 / 32
CAST_BYTES = {
    ("h100", "fp8", "fused"): (2 + 2 * NARROW, 0),
    ("h100", "fp8", "current"): (2 + 2 + 2 * NARROW, 2 + 2 * NARROW),
    ("h100", "fp8", "block"): (2 + 2 * NARROW, 2 + 2 * NARROW),
    ("h100", "fp8", "separate"): (4 + 3 * NARROW, 4 + 3 * NARROW),
    # Blackwell multiplies FP8 with one scale in any layout, blocks along both
    ("b200", "fp8", "current"): (2 + 2 + NARROW, 2 + NARROW),
    ("b200", "mxfp8", "block"): (2 + 2 * NARROW, 2 + 2 * NARROW),
    ("b200", "mxfp8", "fused"): (2 + 2 * NARROW, 0),
}


@pytest.mark.parametrize(("gpu", "precision", "casts"), CAST_BYTES)
def test_casts_move_what_their_scales_need(gpu, precision, casts):
    kernels = plain(gpu, precision=precision, casts=casts).kernels
    rate, elements = kernels.gpu.hbm_bytes_per_s, 1e9
    found = [kernels.quantize(elements, normed=n).kernel_s * rate / elements for n in (False, True)]
    assert found == pytest.approx(CAST_BYTES[gpu, precision, casts])


def test_casts_of_a_layer_are_those_of_its_operands():
    """Dense feed-forward: a norm before one product, an activation function before the other."""
    model, tokens = load_model("llama-3-8b"), 4096
    hidden, width = model.hidden_size, model.ffn_size
    for casts in CASTS:
        with_casts, without = (
            plain("h100", precision="fp8", casts=kind).kernels for kind in (casts, "fused")
        )
        more = [
            float(with_casts.quantize(n, normed=normed).kernel_s)
            - float(without.quantize(n, normed=free).kernel_s)
            for n, normed, free in (
                (tokens * hidden, True, True), (tokens * width, casts == "fused", True),
                # gradients of the results of both products
                (tokens * 2 * width, False, False), (tokens * hidden, False, False),
            )
        ]  # fmt: skip
        times = [
            [
                plain("h100", precision="fp8", casts=kind, cuda_graphs=True).dense_ffn(
                    model, tokens, 1, backward
                )
                for kind in (casts, "fused")
            ]
            for backward in (False, True)
        ]
        # no more than the gaps between the kernels of casts
        assert times[0][0] - times[0][1] == pytest.approx(sum(more[:2]), abs=8e-6)
        assert times[1][0] - times[1][1] == pytest.approx(sum(more[2:]), abs=8e-6)


def test_current_scales_take_longer_than_blocks_and_these_than_fused_casts():
    """On Hopper; with passes of torchao, which transpose apart, longer still."""
    for tokens in (512, 4096, 32768):
        times = [
            plain("h100", precision="fp8", casts=casts).dense_ffn(MIXTRAL, tokens, 1, False)
            for casts in ("fused", "block", "current", "separate")
        ]
        assert times == sorted(times)
        assert len(set(times)) == len(times)


def test_casts_of_deepseek_v3_are_the_share_of_its_published_profile(monkeypatch):
    """Casts and transposes are 13 % of the kernels of a layer of that profile (H800, EP64)."""
    model, tokens = load_model("deepseek-v3"), 4096
    compute = ComputeModel.load(
        "h800", precision="fp8", casts="separate", recompute="selective", expert_products="grouped"
    )

    def layer_s():
        return sum(
            compute.attention_layer(model.variants[0], tokens, 4096, 1, 1, backward)
            + compute.gate(model, tokens, backward)
            + compute.shared_experts(model, tokens, 1, backward)
            + float(compute.experts(model, 8.0 * tokens, 4, 1, backward))
            for backward in (False, True)
        )

    whole = layer_s()
    monkeypatch.setattr(Kernels, "quantize", lambda *_, **__: NOTHING)
    monkeypatch.setattr(Kernels, "quantize_experts", lambda *_: NOTHING)
    assert 1 - layer_s() / whole == pytest.approx(0.13, abs=0.015)


def test_every_second_product_is_computed_again():
    """Keys, the result of attention and one of three products of a gated feed-forward."""
    model, tokens = load_model("llama-3-8b"), 8192
    none, products = (compute_bound(recompute=level) for level in ("none", "products"))
    hidden, keys, width = 4096, 1024, 14336
    attention, dense = (
        getattr(products, part)(model, tokens, *rest, True)
        - getattr(none, part)(model, tokens, *rest, True)
        for part, rest in (("attention_layer", (8192, 1, 1)), ("dense_ffn", (1,)))
    )
    assert attention == pytest.approx(2 * tokens * hidden * (keys + hidden) / RATE)
    assert dense == pytest.approx(2 * tokens * hidden * width / RATE)


def test_unknown_memory_kind():
    with pytest.raises(HardwareError, match="'softmax': known are elementwise, strided, perm"):
        plain().kernels.moved(1, "softmax")


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
        compute_bound().attention_layer(shape, TOKENS, SEQ, 1, 1, False)
        for shape in (model, DEEPSEEK)
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
    scores = once.kernels.attention(SEQ, 16, (128, 128), TOKENS / SEQ, False)
    run = LAYERS["attention"]
    added = run(again, MIXTRAL, True) - run(once, MIXTRAL, True)
    assert added == pytest.approx(scores.kernel_s + once.kernels.launches.gap_s)
    assert LAYERS["dense"](again, MIXTRAL, True) == LAYERS["dense"](once, MIXTRAL, True)


def test_unknown_recomputation():
    with pytest.raises(HardwareError, match="recompute = 'some': expected one of none"):
        ComputeModel.load("b200", recompute="some")


@pytest.mark.parametrize("gpu", ["a100", "h100", "h800", "h200", "b200"])
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("model", [MIXTRAL, DEEPSEEK], ids=lambda model: model.name)
def test_backward_takes_one_to_four_times_forward(gpu, layer, model):
    # otherwise the host waits for the numbers of tokens in the forward pass, and counts them
    compute = ComputeModel.load(gpu, dispatch=Dispatch("flex", dropless=False))
    forward, backward = (LAYERS[layer](compute, model, b) for b in (False, True))
    assert 0 < forward <= backward <= 4 * forward


@pytest.mark.parametrize("layer", [name for name in LAYERS if name not in ("experts", "embedding")])
def test_newer_gpus_are_faster(layer):
    times = [LAYERS[layer](ComputeModel.load(g), MIXTRAL, False) for g in ("a100", "h100", "b200")]
    assert times == sorted(times, reverse=True)


def test_assumed_and_provenance():
    assert not ComputeModel.load("a100").assumed
    h800 = ComputeModel.load("h800")
    assert h800.assumed
    assert "taken equal to H100" in h800.provenance["gpu.peak_bf16_flops"]
    assert "OpenXLA" in h800.provenance["matmul"]
    assert "derived from another operator" in h800.provenance["matmul_accumulate_fp8"]
    assert "5 to 25 us" in h800.provenance["launch.host_s"]


def test_profile_of_all_curves_is_not_assumed(tmp_path):
    compute = ComputeModel.load("h800")
    path = tmp_path / "p.csv"
    rows = [f"{name},1e12,0.06" for name in compute.efficiencies.curves]
    path.write_text("\n".join(["operator,flops,efficiency", *rows]))
    mine = ComputeModel.load("h800", path)
    assert not mine.assumed
    expected = 2e15 / (989.4e12 * 0.06) / mine.efficiencies.sustained
    assert mine.kernels.matmul(1e5, 1e5, 1e5).kernel_s == pytest.approx(expected)


def test_few_tokens_per_expert_cost_the_reading_of_weights():
    kernels = ComputeModel.load("b200").kernels
    weights_s = 4096 * 28672 * 2 / 8e12
    assert kernels.grouped_matmul([0.0], 4096, 14336) == 0
    assert kernels.grouped_matmul([1.0], 4096, 28672) > weights_s
    assert kernels.grouped_matmul([1.0], 4096, 28672, "wgrad") > 4 * weights_s


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


# Formats, permutation, launches


@pytest.mark.parametrize(("gpu", "precision"), [("a100", "fp8"), ("h100", "mxfp8"), ("a100", "x")])
def test_a_format_that_the_gpu_does_not_have_is_one_line(gpu, precision):
    with pytest.raises(HardwareError) as caught:
        ComputeModel.load(gpu, precision=precision)
    assert str(caught.value).startswith(
        f"precision {precision}: GPU '{gpu}' does not compute in it"
    )
    assert "\n" not in str(caught.value)


def test_fp8_products_by_hand():
    """Twice the peak, and a pass that quantizes what no kernel before wrote in FP8."""
    kernels = plain("b200", precision="mxfp8").kernels
    product = 2 * 1024**3 / (2 * RATE)
    forward = kernels.linear(1024, 1024, 1024, False, quantized=True)
    assert forward == Work.of(pytest.approx(product), 1)
    quantized = 1024**2 * (2 + 2 * 33 / 32) / 8e12
    unfused = kernels.linear(1024, 1024, 1024, False)
    assert unfused == Work.of(pytest.approx(product + quantized), 2)
    backward = kernels.linear(1024, 1024, 1024, True)
    assert backward == Work.of(pytest.approx(2 * product + quantized), 3)


@pytest.mark.parametrize("layer", ["attention", "dense", "experts"])
@pytest.mark.parametrize("model", [MIXTRAL, DEEPSEEK], ids=lambda model: model.name)
def test_fp8_is_faster_but_less_than_twice(layer, model):
    # with few tokens per expert, padding by the all-to-all dispatcher takes all that FP8 gains
    load = functools.partial(ComputeModel.load, "h100", dispatch=Dispatch("flex"))
    wide, narrow = (load(precision=p) for p in ("bf16", "fp8"))
    for backward in (False, True):
        run = LAYERS[layer]
        assert 1 < run(wide, model, backward) / run(narrow, model, backward) < 2


@pytest.mark.parametrize("layer", ["gate", "head", "embedding"])
def test_what_stays_in_bf16_takes_as_long(layer):
    wide, narrow = (ComputeModel.load("b200", precision=p) for p in ("bf16", "mxfp8"))
    run = LAYERS[layer]
    assert run(wide, MIXTRAL, True) == run(narrow, MIXTRAL, True)


def test_permutation_is_several_times_slower_where_it_is_not_fused():
    fused, unfused = (
        ComputeModel.load("h800", permutation=p).gate(DEEPSEEK, 4096, False)
        for p in ("fused", "unfused")
    )
    assert 2.5 < unfused / fused < 6


def test_small_experts_are_bound_by_their_launches():
    """Far above the roofline: a few tokens of small experts cost what their kernels do."""
    compute = ComputeModel.load("h100")
    small = dataclasses.replace(DEEPSEEK, hidden_size=512, expert_ffn_size=128)
    seconds = float(compute.experts(small, 64, 8, 1, False))
    roofline = 6 * 64 * 512 * 128 / compute.gpu.peak_bf16_flops
    # two products, activation, two permutations of two kernels each
    assert seconds >= 7 * compute.kernels.launches.host_s
    assert seconds > 100 * roofline


def test_a_gpu_without_tokens_launches_no_experts():
    """Not even with tables of times, which have an entry for no tokens."""
    compute = ComputeModel.load("h100")
    few, many = np.array([0, 1]), np.tile([0, 1], 4096)
    for tokens in (few, many):
        none, single = compute.experts(DEEPSEEK, tokens, 8, 1, False)[:2]
        assert none == 0 < single


def test_the_host_is_waited_for_once_and_only_where_no_copies_are_dropped():
    dropless, fixed = (
        ComputeModel.load("h100", dispatch=Dispatch(dropless=on)) for on in (True, False)
    )
    waited = dropless.gate(DEEPSEEK, TOKENS, False) - fixed.gate(DEEPSEEK, TOKENS, False)
    assert waited == pytest.approx(dropless.kernels.launches.synchronize_s)
    assert dropless.gate(DEEPSEEK, TOKENS, True) == fixed.gate(DEEPSEEK, TOKENS, True)


def test_fixed_numbers_of_tokens_can_be_captured():
    """Then CUDA graphs hold the experts, too: small ones gain."""
    small = dataclasses.replace(DEEPSEEK, hidden_size=512, expert_ffn_size=128)
    load = functools.partial(ComputeModel.load, "h100", cuda_graphs=True)
    few = [
        float(load(dispatch=Dispatch(dropless=on)).experts(small, 64, 8, 1, False))
        for on in (True, False)
    ]
    assert few[1] < 0.6 * few[0]


@pytest.mark.parametrize("backward", [False, True])
def test_flex_orders_copies_at_the_receiver_alone(backward):
    """By hand: no pass over copies at the sender, two in and out at the receiver."""
    every, once = (plain(dispatch=Dispatch(dispatcher)) for dispatcher in ("alltoall", "flex"))
    copies = TOKENS * 2 * 4096 * 2
    at_sender = every.gate(MIXTRAL, TOKENS, backward) - once.gate(MIXTRAL, TOKENS, backward)
    assert at_sender == pytest.approx(2 * (copies + copies / 2) / 8e12)
    at_receiver = [float(c.experts(MIXTRAL, TOKENS, 2, 1, backward)) for c in (every, once)]
    assert at_receiver[0] == at_receiver[1]


def test_dispatch_in_fp8_permutes_fewer_bytes():
    narrow = Dispatch(element_bytes=(1.0, 2.0, 1.0, 2.0))
    wide_s, narrow_s = (
        plain(dispatch=d).gate(MIXTRAL, TOKENS, False) for d in (Dispatch(), narrow)
    )
    assert wide_s - narrow_s == pytest.approx(3 * TOKENS * 4096 / 8e12)


def test_alltoall_pads_the_rows_of_experts_in_fp8():
    """Copies in and out once for padding, once without it again; not where rows are fixed."""
    rows = 1000 * 4096 * 2
    padded, fixed, flexible = (
        float(plain(precision="mxfp8", dispatch=d).experts(MIXTRAL, 1000, 2, 1, False))
        for d in (Dispatch(), Dispatch(dropless=False), Dispatch("flex"))
    )
    assert padded - fixed == pytest.approx(4 * rows / 8e12)
    assert flexible == fixed


@pytest.mark.parametrize(
    ("dispatcher", "sizes"), [("flex", (4 + 24, 16 + 24)), ("alltoall", (2 + 10, 8 + 8))]
)
def test_biases_of_experts_are_added_in_the_format_of_probabilities(dispatcher, sizes):
    """FP32 with kernels that dispatch, BF16 with an all-to-all."""
    biased = dataclasses.replace(MIXTRAL, expert_bias=True)
    compute = plain(expert_products="sequential", dispatch=Dispatch(dispatcher))
    for backward, size_bytes in zip((False, True), sizes, strict=True):
        added = compute.experts(biased, 1000, 2, 1, backward) - compute.experts(
            MIXTRAL, 1000, 2, 1, backward
        )
        assert float(added) == pytest.approx(size_bytes * 1000 * 4096 / 8e12)
    grouped = plain(expert_products="grouped")
    both = [float(grouped.experts(m, 1000, 2, 1, False)) for m in (biased, MIXTRAL)]
    assert both[0] == both[1]


def slower(compute, element_s):
    """The same GPU, on which strided kernels take at least so long for an element."""
    kinds = dict(compute.efficiencies.memory)
    kinds["strided"] = dataclasses.replace(kinds["strided"], element_s=element_s)
    return compute.with_efficiencies(dataclasses.replace(compute.efficiencies, memory=kinds))


@given(st.floats(1, 1e9), st.floats(0, 1e10), st.floats(0, 1e-11))
def test_strided_kernels_take_as_long_as_their_bytes_or_their_elements(elements, moved, element_s):
    kernels = slower(plain(), element_s).kernels
    work = kernels.strided(elements, moved, 3)
    assert work.kernel_s == pytest.approx(max(moved / 8e12, elements * element_s))
    assert work.kernels == work.gaps == 3
    twice = kernels.strided(2 * elements, 2 * moved, 3)
    assert twice.kernel_s == pytest.approx(2 * work.kernel_s)


def test_only_what_pytorch_does_itself_is_strided():
    """Biases and clamps of experts take an element once forward, 2 and 2.5 times backward."""
    compute, elements = plain(expert_products="sequential"), 1000 * 4096
    halves = 1000 * 2 * MIXTRAL.expert_ffn_size
    slow = slower(compute, 1e-9)
    every = dataclasses.replace(MIXTRAL, expert_bias=True, expert_clamp=True)
    for backward, bias, clamp in ((False, 1, 1), (True, 2, 2.5)):
        plainly, biased = (
            float(slow.experts(m, 1000, 2, 1, backward) - compute.experts(m, 1000, 2, 1, backward))
            for m in (MIXTRAL, every)
        )
        assert plainly == 0
        expected = bias * elements + clamp * halves
        assert biased == pytest.approx(expected * 1e-9, rel=2e-3)  # less the bytes they moved
        assert slow.attention_layer(MIXTRAL, 1000, 1000, 1, 1, backward) == pytest.approx(
            compute.attention_layer(MIXTRAL, 1000, 1000, 1, 1, backward)
        )


def test_scaled_rotary_positions_are_not_rotated_by_one_kernel():
    attention = MIXTRAL.attention
    scaled = dataclasses.replace(
        MIXTRAL, attention=dataclasses.replace(attention, scaled_rotary=True)
    )
    rotated = 1000 * (attention.num_heads + attention.num_kv_heads) * attention.head_dim
    compute = plain()
    for backward, passes in ((False, 7 + 5), (True, 7 + 7)):
        plainly, more = (
            compute.attention_layer(m, 1000, 1000, 1, 1, backward) for m in (MIXTRAL, scaled)
        )
        assert more - plainly == pytest.approx((passes - 2) * 2 * rotated / 8e12)
        slow = slower(compute, 1e-9).attention_layer(scaled, 1000, 1000, 1, 1, backward)
        taken = 3.77 * rotated * 1e-9 - 7 * 2 * rotated / 8e12
        assert slow - more == pytest.approx(taken)


def test_a_strided_kernel_takes_longer_at_a_lower_clock(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('like = "h100"\npower_w = 500\n')
    whole, capped = (ComputeModel.load(gpu).kernels for gpu in ("h100", str(path)))
    times = [kernels.strided(1e9, 1e6, 1).kernel_s for kernels in (capped, whole)]
    assert times[0] / times[1] == pytest.approx((7 / 5) ** 0.44, rel=1e-3)


def test_clamps_of_experts_are_operators_of_their_own():
    """Of both inputs of the gate, 8 bytes forward and 15 backward; one wait of the host a pass."""
    clamped = dataclasses.replace(MIXTRAL, expert_clamp=True)
    elements = 1000 * 2 * MIXTRAL.expert_ffn_size
    for recompute, passes in (("none", (8, 15)), ("selective", (8, 8 + 15))):
        compute = plain(expert_products="sequential", recompute=recompute)
        wait = compute.kernels.launches.synchronize_s
        for backward, size_bytes in enumerate(passes):
            added = compute.experts(clamped, 1000, 2, 1, bool(backward)) - compute.experts(
                MIXTRAL, 1000, 2, 1, bool(backward)
            )
            waits = 1 if not backward or recompute == "selective" else 0
            expected = size_bytes * elements / 8e12 + waits * wait
            assert float(added) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    grouped = plain(expert_products="grouped")
    both = [float(grouped.experts(m, 1000, 2, 1, True)) for m in (clamped, MIXTRAL)]
    assert both[0] == both[1]


def test_kernels_of_experts_share_four_streams():
    """The host launches those of each expert; the GPU idles between those of one stream."""
    kernels = ComputeModel.load("b200", expert_products="sequential", precision="mxfp8").kernels
    product = kernels.expert_products_of(np.array(512.0), 16, (2048, 1536), "forward")
    assert (product.kernels, product.gaps) == (48, 12)
    rows = kernels.quantize_experts(np.array(1e6), 2)
    assert (rows.kernels, rows.gaps) == (2, 1)


def test_sequential_experts_take_longer_than_a_grouped_kernel():
    grouped, sequential = (
        float(ComputeModel.load("h100", expert_products=p).experts(DEEPSEEK, 4096, 32, 1, True))
        for p in ("grouped", "sequential")
    )
    assert sequential > 1.05 * grouped


def test_cuda_graphs_remove_the_host_from_all_but_experts():
    eager, graph = (ComputeModel.load("h100", cuda_graphs=on) for on in (False, True))
    few = 64
    assert graph.gate(DEEPSEEK, few, False) < 0.5 * eager.gate(DEEPSEEK, few, False)
    experts = [float(c.experts(DEEPSEEK, few, 8, 1, False)) for c in (eager, graph)]
    assert experts[0] == experts[1]


@pytest.mark.parametrize("layer", ["attention", "dense", "gate", "experts"])
@pytest.mark.parametrize("model", [MIXTRAL, DEEPSEEK], ids=lambda model: model.name)
def test_selective_recomputation_costs_little(layer, model):
    none, selective, full = (
        LAYERS[layer](ComputeModel.load("h100", recompute=what), model, True)
        for what in ("none", "selective", "full")
    )
    assert none < selective < full
    if layer != "attention" or model is MIXTRAL:
        assert selective < 1.15 * none


def test_moments_in_bf16_move_fewer_bytes():
    assert plain(state_precision="bf16").optimizer(1e9) == pytest.approx(30e9 / 8e12)


def test_a_layer_of_llama_3_405b_on_h100_reaches_half_of_the_peak_and_more():
    """Before communication and bubbles; runs of the model as a whole reached 43 to 54 %.

    The Llama 3 Herd of Models, arXiv 2407.21783, Table 4: 430 TFLOPS per GPU, TP8, 8,192 tokens.
    """
    attention = Attention("gqa", num_heads=128, num_kv_heads=8, head_dim=128)
    model = dataclasses.replace(
        MIXTRAL,
        hidden_size=16384,
        attention=attention,
        moe_layers=(False,) * 126,
        ffn_size=53248,
        num_experts=0,
        experts_per_token=0,
        expert_ffn_size=0,
    )
    compute = ComputeModel.load("h100")
    seconds = sum(
        compute.attention_layer(model, 8192, 8192, 8, 1, back)
        + compute.dense_ffn(model, 8192, 8, back)
        for back in (False, True)
    )
    parameters = 2 * 16384 * 128 * (128 + 8) + 3 * 16384 * 53248
    flops = 8192 / 8 * (6 * parameters + 12 * 16384 * 8192)
    assert 0.5 < flops / seconds / compute.gpu.peak_flops("bf16") < 0.65


@pytest.mark.parametrize("gpu", ["h100", "b200", "gb300"])
@pytest.mark.parametrize("backward", [False, True])
def test_scores_of_narrow_heads_cost_their_exponentials(gpu, backward):
    """With equal FLOPs, narrower heads have more scores, and are never faster; time grows."""
    kernels = ComputeModel.load(gpu).kernels
    for flops in (1e10, 1e11, 1e12, 1e13):
        times_s = [
            kernels.scores(flops, (width, width), backward).kernel_s for width in (64, 96, 128, 256)
        ]
        assert times_s == sorted(times_s, reverse=True)
        assert times_s[-1] >= times_s[2] / 2
        curve = kernels.efficiencies.curves[f"attention_{'backward' if backward else 'forward'}"]
        more = flops / 512 * curve.score_s / kernels.efficiencies.sustained
        assert times_s[0] - times_s[2] == pytest.approx(more)
        assert kernels.scores(2 * flops, (64, 64), backward).kernel_s > times_s[0]


def test_heads_of_64_are_as_slow_as_measured_on_the_h200():
    """1 x 64 x 4,096 x 64: 334 us forward and 963 us backward (h200_operators.csv)."""
    kernels = ComputeModel.load("h200").kernels
    alone = kernels.efficiencies.sustained
    for backward, measured_s in ((False, 334.4e-6), (True, 963.2e-6)):
        found = kernels.attention(4096, 64, (64, 64), 1, backward).kernel_s * alone
        assert found == pytest.approx(measured_s, rel=0.08)


def test_narrower_formats_are_faster_and_bf16_parts_stay():
    dense = load_model("llama-3-70b")
    times_s = [
        ComputeModel.load("gb300", precision=precision, cuda_graphs=True).dense_ffn(
            dense, 8192, 1, False
        )
        for precision in ("bf16", "mxfp8", "nvfp4")
    ]
    assert times_s == sorted(times_s, reverse=True)
    with pytest.raises(HardwareError, match="precision nvfp4: GPU 'h100' does not compute in it"):
        ComputeModel.load("h100", precision="nvfp4")
