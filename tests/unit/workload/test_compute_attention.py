"""Attention that is not over the whole sequence: its work by hand, and what it grows with."""

from dataclasses import replace

import pytest

from lightloom.errors import HardwareError
from lightloom.models import Attention, Model, load_model
from lightloom.models.attention_work import linear_elements, linear_flops
from lightloom.workload.compute import ComputeModel
from lightloom.workload.compute_attention import core_work, gate_work

TOKENS = 8192
DELTA = Attention("delta", num_heads=32, num_kv_heads=16, head_dim=128, key_head_dim=128)
SOFTMAX = Attention("gqa", num_heads=32, num_kv_heads=8, head_dim=128)
WIDE = Attention("gqa", num_heads=64, num_kv_heads=8, head_dim=128)
KERNELS = ComputeModel.load("h100").kernels


def model(attention) -> Model:
    return replace(load_model("mixtral-8x7b"), attention=attention)


def core(attention, seq_len, *, sequences=1.0, split=1, backward=False):
    return core_work(KERNELS, model(attention), sequences, seq_len, split, backward).kernel_s


def test_linear_attention_takes_its_flops_and_its_bytes():
    flops = KERNELS.scores(TOKENS * linear_flops(DELTA), None, False)
    moved = KERNELS.elementwise(TOKENS * linear_elements(DELTA), 1, 8)
    assert core(DELTA, TOKENS) == pytest.approx(flops.kernel_s + moved.kernel_s)


def test_the_backward_pass_of_linear_attention_moves_twice_the_bytes():
    flops = KERNELS.scores(TOKENS * linear_flops(DELTA), None, True)
    moved = KERNELS.elementwise(TOKENS * linear_elements(DELTA), 2, 8)
    assert core(DELTA, TOKENS, backward=True) == pytest.approx(flops.kernel_s + moved.kernel_s)


def test_linear_attention_grows_with_tokens_and_softmax_with_pairs():
    linear = core(DELTA, 16 * TOKENS) / core(DELTA, TOKENS)
    softmax = core(SOFTMAX, 16 * TOKENS) / core(SOFTMAX, TOKENS)
    # launches do not grow, efficiency does
    assert 12 < linear <= 16
    assert softmax > 12 * 16
    # as many tokens in other sequences are as much work
    assert core(DELTA, 1024, sequences=8) == pytest.approx(core(DELTA, TOKENS))


def test_more_gpus_share_the_tokens():
    launches = core(DELTA, 2, split=1)
    assert core(DELTA, TOKENS, split=2) - launches < (core(DELTA, TOKENS) - launches) * 0.55


@pytest.mark.parametrize("backward", [False, True])
def test_chunks_are_as_much_work_as_sequences_of_their_length(backward):
    chunked = replace(SOFTMAX, span=2048)
    assert core(chunked, TOKENS, backward=backward) == pytest.approx(
        core(SOFTMAX, 2048, sequences=4, backward=backward)
    )
    assert core(chunked, 1024) == pytest.approx(core(SOFTMAX, 1024))


@pytest.mark.parametrize("backward", [False, True])
def test_a_window_takes_as_long_as_its_tokens(backward):
    windowed = replace(SOFTMAX, window=128)
    long, short = (core(windowed, n, backward=backward) for n in (16 * TOKENS, 8 * TOKENS))
    assert 1.8 < long / short < 2.01
    assert long < core(SOFTMAX, 16 * TOKENS, backward=backward) / 8
    assert core(windowed, 256) == pytest.approx(core(SOFTMAX, 256))


def test_sparse_attention_pays_for_long_sequences():
    latent = load_model("deepseek-v3").attention
    sparse = replace(latent, index_heads=64, index_head_dim=128, index_top_k=2048)
    assert core(sparse, 4096) > core(latent, 4096)
    assert core(sparse, 131072) < core(latent, 131072) / 2


def test_a_gate_is_read_and_multiplied():
    model = replace(load_model("mixtral-8x7b"), attention=replace(SOFTMAX, output_gate=True))
    moved = KERNELS.elementwise(TOKENS * 32 * 128 / 2, 3)
    assert gate_work(KERNELS, model, TOKENS, 2, False).kernel_s == moved.kernel_s
    assert gate_work(KERNELS, replace(model, attention=SOFTMAX), TOKENS, 2, False).kernel_s == 0


@pytest.mark.parametrize(
    ("gpu", "window", "heads", "forward_us", "backward_us", "error"),
    [
        ("h200", 1024, (64, 8), 358, 1042, 0.06),
        ("gb300", 1024, (64, 8), 178, 472, 0.08),
        ("gb200", 1024, (64, 8), 209, 487, 0.12),
        ("gb200", 128, (128, 128), 210, 465, 0.25),
    ],
)
def test_windows_take_what_was_measured(gpu, window, heads, forward_us, backward_us, error):
    """cuDNN 9.19 and 9.22 over 2 x 4096 tokens, heads of 64: see ``TILE_TOKENS``."""
    kernels = ComputeModel.load(gpu).kernels
    layer = model(Attention("gqa", *heads, head_dim=64, window=window))
    for backward, measured in ((False, forward_us), (True, backward_us)):
        found = core_work(kernels, layer, 2, 4096, 1, backward).kernel_s
        found *= kernels.efficiencies.sustained
        assert found == pytest.approx(measured * 1e-6, rel=error)


@pytest.mark.parametrize("gpu", ["gb200", "gb300"])
@pytest.mark.parametrize("backward", [False, True])
def test_attention_in_fp8_casts_its_operands_and_skips_no_gradient(gpu, backward):
    """cuDNN 9.22: 64 heads of 128 over 2 x 8192 tokens, in us."""
    kernels = ComputeModel.load(gpu, precision="mxfp8", attention_kernels="fp8").kernels
    measured = {"gb200": (1156, 4272), "gb300": (856, 3917)}[gpu][backward]
    found = kernels.attention(8192, 64, (128, 128), 2, backward).kernel_s
    assert found * kernels.efficiencies.sustained == pytest.approx(measured * 1e-6, rel=0.03)
    all_s, windowed = (
        core_work(kernels, model(replace(WIDE, window=window)), 2, 8192, 1, backward).kernel_s
        for window in (0, 128)
    )
    cast = kernels.quantize(2 * 8192 * 128 * (64 if backward else 64 + 2 * 8)).kernel_s
    assert all_s == pytest.approx(found + cast)
    assert windowed == all_s if backward else windowed < 0.3 * all_s


def test_attention_in_fp8_needs_a_measurement_and_narrow_products():
    with pytest.raises(HardwareError, match="b200: attention in FP8 was not measured on it; leave"):
        ComputeModel.load("b200", precision="mxfp8", attention_kernels="fp8")
    with pytest.raises(HardwareError, match="products are in bf16; give another precision"):
        ComputeModel.load("gb200", attention_kernels="fp8")
