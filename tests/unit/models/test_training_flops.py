"""FLOPs per token against published pairs of throughput and utilization."""

import pytest

from lightloom.models import load_model
from lightloom.models.parameters import active_parameters, training_flops_per_token

H100_FLOPS = 989.5e12


@pytest.mark.parametrize(
    ("name", "mfu", "tokens_per_s_per_gpu"),
    # MoE parallel folding (arXiv 2504.14960), table 1: 4,096 tokens, BF16
    [("mixtral-8x22b", 0.493, 1947)],
)
def test_a_published_utilization_is_that_of_its_throughput(name, mfu, tokens_per_s_per_gpu):
    flops = training_flops_per_token(load_model(name), 4096)
    assert flops * tokens_per_s_per_gpu / H100_FLOPS == pytest.approx(mfu, rel=2e-3)


def test_attention_counts_the_width_that_is_multiplied():
    qwen = load_model("qwen3-235b-a22b")
    rest = 6 * active_parameters(qwen, "output")
    # 64 heads of 128 in 94 layers, although the hidden size is 4,096
    assert training_flops_per_token(qwen, 4096) - rest == 12 * 94 * 64 * 128 * 4096
    latent = load_model("deepseek-v3")
    rest = 6 * active_parameters(latent, "output")
    assert training_flops_per_token(latent, 4096) - rest == 6 * 61 * 128 * (192 + 128) * 4096


def test_the_input_table_multiplies_nothing():
    model = load_model("mixtral-8x7b")
    difference = active_parameters(model, "both") - active_parameters(model, "output")
    assert difference == model.vocab_size * model.hidden_size
