"""FLOPs per token against published pairs of throughput and utilization."""

from dataclasses import replace
from pathlib import Path

import pytest

from lightloom.models import Attention, Model, load_model
from lightloom.models.attention_work import (
    linear_elements,
    linear_flops,
    score_flops,
    training_flops_per_token,
)
from lightloom.models.parameters import active_parameters

CONFIGS = Path(__file__).parent / "configs"
H100_FLOPS = 989.5e12


def counted_in_full(model, seq_len):
    """As frameworks counted before 2025: every pair of tokens, masked or not."""
    rest = 6 * active_parameters(model, "output")
    return rest + 2 * (training_flops_per_token(model, seq_len) - rest)


def test_a_published_utilization_of_before_counts_attention_in_full():
    # MoE parallel folding (arXiv 2504.14960), table 1: 4,096 tokens, BF16
    flops = counted_in_full(load_model("mixtral-8x22b"), 4096)
    assert flops * 1947 / H100_FLOPS == pytest.approx(0.493, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "teraflops", "tokens_per_s_per_gpu"),
    [
        # logged by Megatron-Bridge on GB300, August 2026
        ("qwen3-30b-a3b", 1030.07, 44_773),
        ("qwen3-235b-a22b", 1300.44, 8_784),
        # its performance summary, container 26.08: GB200 and GB300, 4,096 tokens, MXFP8
        ("qwen3-30b-a3b", 1029, 44_544),
        ("qwen3-30b-a3b", 923, 39_936),
        ("qwen3-235b-a22b", 1306, 8_816),
        ("qwen3-235b-a22b", 1077, 7_280),
    ],
)
def test_a_published_throughput_is_that_of_its_teraflops(name, teraflops, tokens_per_s_per_gpu):
    flops = training_flops_per_token(load_model(name), 4096)
    assert flops * tokens_per_s_per_gpu / 1e12 == pytest.approx(teraflops, rel=5e-3)
    in_full = counted_in_full(load_model(name), 4096)
    assert in_full * tokens_per_s_per_gpu / 1e12 > 1.1 * teraflops


def test_attention_counts_the_width_that_is_multiplied():
    qwen = load_model("qwen3-235b-a22b")
    rest = 6 * active_parameters(qwen, "output")
    # 64 heads of 128 in 94 layers, although the hidden size is 4,096
    assert training_flops_per_token(qwen, 4096) - rest == 6 * 94 * 64 * 128 * 4096
    latent = load_model("deepseek-v3")
    rest = 6 * active_parameters(latent, "output")
    assert training_flops_per_token(latent, 4096) - rest == 3 * 61 * 128 * (192 + 128) * 4096


def test_the_input_table_multiplies_nothing():
    model = load_model("mixtral-8x7b")
    difference = active_parameters(model, "both") - active_parameters(model, "output")
    assert difference == model.vocab_size * model.hidden_size


GROUPED = Attention("gqa", num_heads=4, num_kv_heads=2, head_dim=8)
DELTA = Attention("delta", num_heads=4, num_kv_heads=2, head_dim=16, key_head_dim=8)
LIGHTNING = Attention("lightning", num_heads=4, num_kv_heads=4, head_dim=8, key_head_dim=8)
SPARSE = replace(
    load_model("deepseek-v3").attention, index_heads=64, index_head_dim=128, index_top_k=2048
)


def products(*attentions: Attention, seq_len: int) -> float:
    """Training FLOPs per token beyond weights, of a layer of each attention."""
    layers = (False,) * len(attentions)
    model = Model("test", 32, 100, attentions[0], layers, ffn_size=8, attention_by_layer=attentions)
    return training_flops_per_token(model, seq_len) - 6 * active_parameters(model, "output")


def test_layers_that_differ_add_up():
    apart = sum(products(attention, seq_len=512) for attention in (GROUPED, DELTA, LIGHTNING))
    assert products(GROUPED, DELTA, LIGHTNING, seq_len=512) == apart


def test_linear_attention_does_not_grow_with_the_sequence():
    # lightning: the state's update and its product with the query; the delta rule reads it once
    # more; each of 4 heads of 8 x 16, thrice in training
    assert products(DELTA, seq_len=128) == 3 * 2 * 3 * 4 * 8 * 16
    assert products(LIGHTNING, seq_len=128) == 3 * 2 * 2 * 4 * 8 * 8
    assert products(DELTA, seq_len=1 << 20) == products(DELTA, seq_len=128)
    # in chunks of 64 tokens: their products with each other, and with the state
    assert linear_flops(DELTA) == 2 * 4 * (64 * (3 * 8 + 2 * 16) + 3 * 8 * 16)
    # of 256: scores and values, and the state's two
    assert linear_flops(LIGHTNING) == 2 * 4 * (256 * (8 + 8) + 2 * 8 * 8)


def test_linear_attention_moves_its_operands_and_the_state_of_each_chunk():
    # per head and token: query, key, value, result; a chunk's state of 8 x 8, stored and loaded;
    # the norm reads and writes the result
    assert linear_elements(LIGHTNING) == 4 * (4 * 8 + 2 * 8 * 8 / 256 + 2 * 8)
    # a gate is read by the norm; the convolution of 2 x 4 keys' and queries' heads and 4 values'
    gated = replace(LIGHTNING, output_gate=True, conv_width=4)
    convolved = 2 * (2 * 4 * 8 + 4 * 8)
    assert linear_elements(gated) - linear_elements(LIGHTNING) == 4 * 8 + convolved


def test_chunks_see_only_themselves():
    chunked = replace(GROUPED, span=256)
    assert products(chunked, seq_len=256) == products(GROUPED, seq_len=256)
    assert products(chunked, seq_len=4096) == products(GROUPED, seq_len=256)
    assert products(chunked, seq_len=600) == pytest.approx(3 * score_flops(chunked, 600) / 600)
    # pairs of a triangle per chunk, and of the rest
    assert score_flops(chunked, 600) == 2 * (256**2 + 256**2 + 88**2) / 2 * 4 * 16
    assert score_flops(chunked, 200) == score_flops(GROUPED, 200)


def test_windows_see_so_many_tokens_up_to_themselves():
    windowed = replace(GROUPED, window=256)
    assert products(windowed, seq_len=256) == products(GROUPED, seq_len=256)
    # a triangle, and then 256 keys for each query
    pairs = 256**2 / 2 + (4096 - 256) * 256
    assert products(windowed, seq_len=4096) == pytest.approx(3 * 2 * pairs / 4096 * 4 * 16)
    # kernels multiply whole tiles of 256 tokens: one more than the window
    pairs = sum(min(query + 0.5, 256 + 256) for query in range(1000))
    assert score_flops(windowed, 1000) == pytest.approx(2 * pairs * 4 * 16)
    assert score_flops(windowed, 200) == score_flops(GROUPED, 200)
    whole = score_flops(windowed, 1 << 20) / score_flops(windowed, 1 << 19)
    assert whole == pytest.approx(2, rel=1e-3)


def test_sparse_attention_grows_linearly_but_for_its_indexer():
    index = 2 * 64 * 128
    # short sequences attend to all keys, under a mask, which is less work than latents
    dense = 2 * 128 * (192 + 128)
    assert products(SPARSE, seq_len=4096) == 3 * (dense + index) * 4096 / 2
    assert score_flops(SPARSE, 4096) == (dense + index) * 4096**2 / 2
    pairs = 2048 * 131072 - 2048**2 / 2
    latents = 2 * 128 * (2 * 512 + 64) * pairs / 131072
    assert products(SPARSE, seq_len=131072) == 3 * (latents + index * 131072 / 2)
    assert score_flops(SPARSE, 131072) == (2 * pairs * 128 * (2 * 512 + 64) + index * 131072**2 / 2)


def test_mamba_2_in_chunks_by_hand() -> None:
    mamba = Attention("mamba2", num_heads=8, num_kv_heads=2, head_dim=16, key_head_dim=32)
    # of a chunk of 128 tokens: scores of each group, their product with the values of each head,
    # the state of each head made and read
    chunk = 2 * (2 * 128 * 128 * 32 + 8 * 128 * 128 * 16 + 8 * 128 * 2 * 32 * 16)
    assert linear_flops(mamba) == pytest.approx(chunk / 128)


def test_compressed_attention_by_hand() -> None:
    compressed = Attention("csa", num_heads=2, num_kv_heads=1, head_dim=8, window=128, compress=128)
    seq = 4096
    # a query sees so many tokens of its window and a tile more, and an entry per 128 before it
    window = (128 + 256) * seq - (128 + 256) ** 2 / 2
    entries = sum(range(seq // 128)) * 128 + seq / 2
    assert score_flops(compressed, seq) == pytest.approx(2 * 2 * 16 * (window + entries))


def test_what_mamba_2_moves_by_hand() -> None:
    mamba = Attention(
        "mamba2", num_heads=8, num_kv_heads=2, head_dim=16, key_head_dim=32, output_gate=True
    )
    # queries and keys of two groups, values and results of eight heads, their gate and norm
    moved = 2 * 2 * 32 + 2 * 8 * 16 + 3 * 8 * 16
    # a state per head and 128 tokens: written and read in FP32, then in BF16
    moved += 6 * 8 * 32 * 16 / 128
    # products of a group's queries and keys, written and read in FP32
    moved += 4 * 2 * 128
    assert linear_elements(mamba) == pytest.approx(moved)


@pytest.mark.parametrize(
    ("name", "seq_len", "published_tflops", "tokens_per_s"),
    # Megatron-Bridge, performance summary, 26.08 container: per GPU, on GB300; its models have
    # multi-token prediction as well, so that ours multiply less
    [
        ("nemotron-3-nano", 8192, 901, 39_936),
        ("nemotron-3-super", 8192, 831, 9_856),
        ("nemotron-3-ultra", 8192, 1281, 3_552),
        ("deepseek-v4-flash", 4096, 748, 8_224),
    ],
)
def test_flops_of_hybrids_are_those_published(name, seq_len, published_tflops, tokens_per_s):
    model = load_model(str(CONFIGS / f"{name}.json"))
    flops = training_flops_per_token(model, seq_len)
    assert 0.89 < flops * tokens_per_s / 1e12 / published_tflops < 1.01
