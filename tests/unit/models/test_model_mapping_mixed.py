"""From keys to shapes, where layers differ in attention, or keys in nested tables."""

from typing import Any

import pytest
from tests.model_samples import (
    DBRX,
    DEEPSEEK2,
    LLAMA4,
    MAMBA2,
    MINIMAX,
    MIXTRAL,
    NAS,
    QWEN3,
    QWEN3_NEXT,
    SAMPLES,
)

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
    assert [layer.span for layer in model.attention_by_layer] == [16, 16, 16, 0] * 2
    flags = {**LLAMA4["text_config"], "no_rope_layers": [1, 0] * 4, "moe_layers": [7]}
    model = shape(LLAMA4, text_config=flags)
    assert [layer.span for layer in model.attention_by_layer] == [16, 0] * 4
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
    assert [layer.kind for layer in model.attention_by_layer] == ["lightning", "lightning", "gqa"]
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


WRAPPED = {
    # Qwen3-Omni, DeepSeek-VL2 and InternVL 3.5
    "thinker": (
        {"thinker_config": {"audio_config": {}, "text_config": QWEN3}, "talker_config": {}},
        QWEN3,
        "audio encoder left out: text only",
    ),
    "language": (
        {"language_config": DEEPSEEK2, "vision_config": {"width": 8}},
        DEEPSEEK2,
        "vision encoder left out: text only",
    ),
    "llm": (
        {"llm_config": QWEN3, "vision_config": {"width": 8}, "downsample_ratio": 0.5},
        QWEN3,
        "vision encoder left out: text only",
    ),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_the_text_model_is_read_wherever_it_is_nested(name: str) -> None:
    wrapper, text, note = WRAPPED[name]
    outer = {"architectures": ["WrapperForConditionalGeneration"], "model_type": "wrapper"}
    model = shape({**outer, **wrapper})
    assert model == shape(text)
    assert note in model.notes


def test_a_wrapper_ties_the_tables_unless_its_text_model_says_otherwise() -> None:
    assert shape({"text_config": QWEN3, "tie_word_embeddings": True}).tied_embeddings
    text_config = {**QWEN3, "tie_word_embeddings": False}
    assert not shape({"text_config": text_config, "tie_word_embeddings": True}).tied_embeddings


def test_the_names_of_a_wrapper_count_where_its_text_model_has_none() -> None:
    nameless = without(without(MIXTRAL, "architectures"), "model_type")
    assert shape({"model_type": "mixtral", "text_config": nameless}).family == "mixtral"
    assert "'RwkvForCausalLM'" in refusal(
        {**MIXTRAL, "architectures": ["RwkvForCausalLM"]}, model_type="rwkv"
    )
    unknown = {"text_config": {**MIXTRAL, "architectures": ["RwkvForCausalLM"]}}
    assert "'RwkvForCausalLM'" in refusal(unknown)


def test_the_letters_of_nemotron_h_are_its_layers() -> None:
    model = shape(MAMBA2)
    assert [layer.kind for layer in model.attention_by_layer] == ["mamba2", "none", "gqa", "none"]
    assert model.moe_layers == (False, True, False, False)
    assert model.ffn_by_layer == (0, 0, 0, 96)
    assert (model.expert_hidden, model.num_blocks, model.gated_ffn) == (16, 4, False)
    listed = ["mamba", "moe", "attention", "mlp"]
    assert shape(without(MAMBA2, "hybrid_override_pattern"), layers_block_type=listed) == model
    assert "is needed" in refusal(without(MAMBA2, "hybrid_override_pattern"))
    assert "hybrid_override_pattern" in refusal(MAMBA2, hybrid_override_pattern="MX")
    assert "has 4 entries, num_hidden_layers is 3" in refusal(MAMBA2, num_hidden_layers=3)


def test_layers_that_a_search_chose_have_widths_in_steps_of_256() -> None:
    model = shape(NAS, hidden_size=1024)
    # int(2 x 5.25 x 1024 / 3) = 3584, int(2 x 1.0 x 1024 / 3) = 682
    assert model.ffn_by_layer == (3584, 768)
    assert [layer.kind for layer in model.attention_by_layer] == ["gqa", "none"]
    assert "block_configs has 2 entries" in refusal(NAS, num_hidden_layers=3)


def test_kimi_linear_names_every_layer_once() -> None:
    config = SAMPLES["kimi_linear"]
    kinds = [layer.kind for layer in shape(config).attention_by_layer]
    assert kinds == ["kda", "kda", "kda", "mla", "kda"]
    table = {**config["linear_attn_config"], "kda_layers": [1, 2, 3]}
    assert "must name each layer once" in refusal(config, linear_attn_config=table)


def test_hunyuan_has_keys_and_values_of_its_own_in_one_layer_of_several() -> None:
    model = shape(SAMPLES["hunyuan_v1_moe"])
    assert [layer.kv_projections for layer in model.attention_by_layer] == [2, 0, 2]
    # as tencent/Hunyuan-A13B-Instruct has them: a list of one number per layer, false for none
    lists = {"moe_topk": [2] * 3, "moe_intermediate_size": [96] * 3, "num_shared_expert": [1] * 3}
    none = {"n_group": False, "topk_group": False, "routed_scaling_factor": False}
    rest = without(SAMPLES["hunyuan_v1_moe"], "num_experts_per_tok")
    assert shape(rest, **lists, **none) == model
    assert "moe_topk" in refusal(rest, moe_topk=[2, 2, 1])


def test_gemma_4_has_values_that_are_keys_where_it_has_no_window() -> None:
    local, whole = shape(SAMPLES["gemma4"]).attention_by_layer
    assert (local.window, local.head_dim, local.kv_projections) == (16, 16, 2)
    assert (whole.window, whole.head_dim, whole.kv_projections) == (0, 32, 1)
    assert "hidden_size_per_layer_input" in refusal(
        SAMPLES["gemma4"], hidden_size_per_layer_input=256
    )


def test_windows_may_have_other_heads() -> None:
    mimo = shape(SAMPLES["mimo_v2_flash"]).attention_by_layer
    assert [(layer.num_kv_heads, layer.window, layer.sinks) for layer in mimo[:2]] == [
        (2, 0, False),
        (4, 8, True),
    ]
    step = shape(SAMPLES["step3p5"]).attention_by_layer
    assert [(layer.num_heads, layer.window) for layer in step[:2]] == [(4, 0), (6, 8)]
