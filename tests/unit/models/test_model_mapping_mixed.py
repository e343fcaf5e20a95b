"""From keys to shapes, where layers differ in attention, or keys in nested tables."""

from typing import Any

import pytest
from tests.model_samples import DBRX, LLAMA4, MINIMAX, MIXTRAL, QWEN3_NEXT, SAMPLES

from lightloom.errors import ModelError
from lightloom.models import Model
from lightloom.models.mapping import model_from_config


def shape(config: dict[str, Any], **changes: Any) -> Model:
    return model_from_config({**config, **changes}, "test", "here")


def refusal(config: dict[str, Any], **changes: Any) -> str:
    with pytest.raises(ModelError) as caught:
        shape(config, **changes)
    message = str(caught.value)
    assert "\n" not in message
    return message


def without(config: dict[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in config.items() if k != key}


def test_qwen3_next_has_full_attention_in_every_nth_layer() -> None:
    model = shape(QWEN3_NEXT, num_hidden_layers=6, full_attention_interval=3)
    kinds = [model.attention_by_layer[layer].kind for layer in range(6)]
    assert kinds == ["delta", "delta", "gqa"] * 2
    assert model.attention.output_gate
    linear = model.attention_by_layer[0]
    assert (linear.num_heads, linear.num_kv_heads) == (4, 2)
    assert (linear.qk_dim, linear.v_dim, linear.conv_width) == (8, 16, 4)
    listed = ["linear_attention"] * 5 + ["full_attention"]
    assert shape(QWEN3_NEXT, layer_types=listed).attention_by_layer[2].kind == "delta"
    assert shape(QWEN3_NEXT, full_attention_interval=1).attention_by_layer == ()
    assert "linear_num_key_heads 3 does not divide" in refusal(QWEN3_NEXT, linear_num_key_heads=3)


def test_llama_4_interleaves_dense_layers_and_chunks() -> None:
    model = shape(LLAMA4)
    assert model.moe_layers == (False, True) * 4
    assert (model.ffn_size, model.expert_ffn_size, model.shared_expert_ffn_size) == (96, 32, 32)
    assert [one.span for one in model.attention_by_layer] == [16, 16, 16, 0] * 2
    flags = {**LLAMA4["text_config"], "no_rope_layers": [1, 0] * 4, "moe_layers": [7]}
    model = shape(LLAMA4, text_config=flags)
    assert [one.span for one in model.attention_by_layer] == [16, 0] * 4
    assert model.num_moe_layers == 1
    text = {**LLAMA4["text_config"], "architectures": ["Llama4ForCausalLM"]}
    assert shape(text) == shape(LLAMA4)


def test_a_table_of_keys_that_is_no_table_is_refused() -> None:
    assert refusal(LLAMA4, text_config=3) == "here: text_config is 3; expected a table of keys"
    assert "ffn_hidden_sise" in refusal(
        DBRX, ffn_config={**DBRX["ffn_config"], "ffn_hidden_sise": 3}
    )


def test_minimax_names_its_softmax_layers_in_either_of_two_ways() -> None:
    model = shape(MINIMAX)
    assert [one.kind for one in model.attention_by_layer] == ["lightning", "lightning", "gqa"]
    types = ["linear_attention", "linear_attention", "full_attention"]
    assert shape(without(MINIMAX, "attn_type_list"), layer_types=types) == model
    assert shape(MINIMAX, layer_types=types) == model
    assert "disagree" in refusal(MINIMAX, layer_types=types[::-1])
    assert "attn_type_list or layer_types" in refusal(without(MINIMAX, "attn_type_list"))
    assert "has 2 entries" in refusal(MINIMAX, attn_type_list=[0, 1])


def test_a_kind_of_layer_that_the_family_does_not_have_is_refused() -> None:
    assert "layer_types has linear_attention; layers of mixtral models are" in refusal(
        MIXTRAL, layer_types=["linear_attention"] * 3
    )


def test_glm_has_no_groups_unless_it_says_so() -> None:
    model = shape(SAMPLES["glm4_moe"], attention_bias=True)
    assert (model.num_groups, model.router_bias) == (1, True)
    assert (model.attention.bias, model.attention.output_bias) == (True, False)
    assert model.moe_layers == (False, False, True, True, True)
    assert shape(SAMPLES["glm4_moe"], n_group=4, topk_group=2).num_groups == 4
