"""Linear layers of attention: together they are the model's weights and FLOPs."""

from pathlib import Path

import pytest

from lightloom.models import load_model
from lightloom.models.parameters import attention_parameters
from lightloom.workload.projections import latent_projections, projections

TOKENS = 4096


@pytest.mark.parametrize("name", ["llama-3-70b", "mixtral-8x7b", "deepseek-v2", "deepseek-v3"])
def test_one_gpu_has_all_weights(name):
    model = load_model(name)
    weights = sum(layer.inputs * layer.outputs for layer in projections(model, TOKENS, 1))
    # what is left are norms, of a few thousand elements
    assert weights == pytest.approx(attention_parameters(model), rel=1e-4)


@pytest.mark.parametrize("name", ["llama-3-70b", "deepseek-v3"])
@pytest.mark.parametrize("tp", [2, 4, 8])
def test_ranks_share_the_work(name, tp):
    model = load_model(name)

    def flops(ranks):
        layers = projections(model, TOKENS, ranks)
        return sum(layer.tokens * layer.inputs * layer.outputs for layer in layers)

    assert tp * flops(tp) == pytest.approx(flops(1))


def test_more_ranks_than_key_value_heads_repeat_them():
    model = load_model("llama-3-70b")
    heads = model.attention.num_kv_heads
    (shared, _), (repeated, _) = (projections(model, TOKENS, tp) for tp in (heads, 2 * heads))
    size = model.attention.head_dim
    # queries are halved, the key and the value head of each rank stay
    queries = model.attention.num_heads // heads * size
    assert shared.outputs == queries + 2 * size
    assert repeated.outputs == queries / 2 + 2 * size


def test_heads_of_latent_attention_are_made_of_latent_vectors():
    model = load_model("deepseek-v3")
    latent = latent_projections(model, TOKENS, 2)
    assert set(latent) < set(projections(model, TOKENS, 2))
    ranks = {model.attention.q_lora_rank, model.attention.kv_lora_rank}
    assert {layer.inputs for layer in latent} == ranks
    assert latent_projections(load_model("llama-3-70b"), TOKENS, 2) == ()


@pytest.mark.parametrize(
    "name",
    [
        *("qwen3-next-80b-a3b", "minimax-text-01", "deepseek-v3.2", "nemotron-3-super"),
        *("jamba-v0.1", "deepseek-v4-flash", "glm-5.2", "gemma-4-26b-a4b"),
        *("mimo-v2-flash", "step-3.7-flash", "hunyuan-large", "llama-nemotron-super-49b"),
    ],
)
@pytest.mark.parametrize("tp", [1, 2])
def test_layers_of_any_attention_have_all_weights(name, tp):
    config = Path(__file__).parents[1] / "models" / "configs" / f"{name}.json"
    for model in load_model(str(config)).variants:
        layers = projections(model, TOKENS, tp)
        # per token of the sequence: down-projections and indexers work on a share of it
        weights = sum(tp * layer.inputs * layer.outputs * layer.tokens / TOKENS for layer in layers)
        # what is left are norms, convolutions, and numbers per head
        assert weights == pytest.approx(attention_parameters(model), rel=2e-3)
        assert weights <= attention_parameters(model)


@pytest.mark.parametrize("name", ["kimi-k3", "minimax-m3"])
def test_low_ranks_and_keys_that_all_heads_share_are_repeated_on_tp_ranks(name):
    config = Path(__file__).parents[1] / "models" / "configs" / f"{name}.json"
    for model in load_model(str(config)).variants:
        whole, split = (
            sum(tp * p.inputs * p.outputs * p.tokens for p in projections(model, 1, tp))
            for tp in (1, 2)
        )
        assert whole == pytest.approx(attention_parameters(model), rel=2e-3)
        assert whole <= split <= 1.01 * whole
