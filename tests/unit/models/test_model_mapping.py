"""From keys to shapes: every family, aliases, refusals by name, and the published files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.model_samples import DEEPSEEK2, DEEPSEEK3, LLAMA, MIXTRAL, QWEN2, QWEN3, SAMPLES

from lightloom.errors import ModelError
from lightloom.models import Model, catalog, load_model
from lightloom.models.config_keys import ALIASES, IGNORED, NEUTRAL
from lightloom.models.families import FAMILIES
from lightloom.models.mapping import model_from_config

PUBLISHED = Path(__file__).parents[3] / ".." / "shared" / "data" / "hf_configs"


def shape(config: dict[str, Any], **changes: Any) -> Model:
    return model_from_config({**config, **changes}, "test", "here")


def refusal(config: dict[str, Any], **changes: Any) -> str:
    with pytest.raises(ModelError) as caught:
        shape(config, **changes)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("here")
    return message


def without(config: dict[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in config.items() if k != key}


def published(name: str) -> Path:
    path = PUBLISHED / name
    if not path.exists():
        pytest.skip(f"../shared/data/hf_configs/{name} is not here")
    return path


def test_the_samples_cover_all_families() -> None:
    assert set(SAMPLES) == {family.name for family in FAMILIES}


@pytest.mark.parametrize("name", SAMPLES)
def test_family_by_architecture_and_by_model_type_agree(name: str) -> None:
    config = SAMPLES[name]
    model = shape(config)
    assert model.family == name
    assert shape(without(config, "architectures")) == model
    assert shape(without(config, "model_type")) == model


def test_mixtral() -> None:
    model = shape(MIXTRAL)
    assert model.moe_layers == (True, True, True)
    assert (model.num_experts, model.experts_per_token, model.expert_ffn_size) == (8, 2, 96)
    assert (model.attention.num_heads, model.attention.num_kv_heads) == (4, 2)
    assert model.attention.head_dim == 16
    assert model.ffn_size == 0
    assert not model.attention.bias
    assert not model.attention.output_bias
    assert not model.tied_embeddings


def test_head_dim_beats_the_quotient() -> None:
    assert shape(MIXTRAL, head_dim=48).attention.head_dim == 48
    assert shape(MIXTRAL, head_dim=None).attention.head_dim == 16
    assert shape(MIXTRAL, head_dim=7, num_attention_heads=6).attention.head_dim == 7


def test_qwen2_has_a_gated_shared_expert_and_biases_but_on_the_output() -> None:
    model = shape(QWEN2)
    assert (model.shared_expert_ffn_size, model.shared_expert_gate) == (48, True)
    assert model.attention.bias
    assert not model.attention.output_bias
    assert not shape(QWEN2, qkv_bias=False).attention.bias
    assert not shape(QWEN2, shared_expert_intermediate_size=0).shared_expert_gate


def test_qwen3_has_head_norms_and_optional_biases() -> None:
    model = shape(QWEN3)
    assert model.attention.qk_norm
    assert model.attention.qk_norm_per_head
    assert model.shared_expert_ffn_size == 0
    biased = shape(QWEN3, attention_bias=True).attention
    assert biased.bias
    assert biased.output_bias


@pytest.mark.parametrize(
    ("step", "dense", "expected"),
    [
        (1, [], (True,) * 6),
        (2, [], (False, True, False, True, False, True)),
        (3, [], (False, False, True, False, False, True)),
        (1, [0, 5], (False, True, True, True, True, False)),
        (2, [1], (False, False, False, True, False, True)),
    ],
)
def test_interleaved_layers(step: int, dense: list[int], expected: tuple[bool, ...]) -> None:
    model = shape(QWEN3, decoder_sparse_step=step, mlp_only_layers=dense)
    assert model.moe_layers == expected
    assert model.ffn_size == (0 if all(expected) else 96)


def test_a_mixture_without_a_sparse_layer_is_dense() -> None:
    model = shape(QWEN2, decoder_sparse_step=7)
    assert not any(model.moe_layers)
    assert (model.num_experts, model.experts_per_token, model.expert_ffn_size) == (0, 0, 0)
    assert (model.shared_expert_ffn_size, model.shared_expert_gate) == (0, False)
    assert model.ffn_size == 96


def test_deepseek_v3() -> None:
    model = shape(DEEPSEEK3)
    assert model.moe_layers == (False, False, True, True, True)
    assert model.shared_expert_ffn_size == 3 * 32
    assert (model.num_groups, model.top_groups) == (4, 2)
    assert model.router_bias
    attention = model.attention
    assert attention.kind == "mla"
    assert (attention.qk_dim, attention.v_dim) == (12, 8)
    assert (attention.q_lora_rank, attention.kv_lora_rank) == (24, 16)


def test_deepseek_layers_every_second() -> None:
    model = shape(DEEPSEEK3, first_k_dense_replace=1, moe_layer_freq=2)
    assert model.moe_layers == (False, False, True, False, True)


def test_deepseek_without_shared_experts_or_query_rank() -> None:
    model = shape(DEEPSEEK3, n_shared_experts=None, q_lora_rank=None)
    assert model.shared_expert_ffn_size == 0
    assert model.attention.q_lora_rank == 0


def test_deepseek_ignores_the_head_keys_of_grouped_query_attention() -> None:
    assert shape(DEEPSEEK3, head_dim=4, num_key_value_heads=4) == shape(DEEPSEEK3)


def test_deepseek_v2_greedy_routing_has_no_groups() -> None:
    greedy = shape(DEEPSEEK2, topk_method="greedy")
    assert (greedy.num_groups, greedy.top_groups) == (1, 1)
    limited = shape(DEEPSEEK2, topk_method="group_limited_greedy")
    assert (limited.num_groups, limited.top_groups) == (4, 2)
    assert not limited.router_bias


def test_as_many_experts_per_token_as_the_chosen_groups_hold() -> None:
    model = shape(DEEPSEEK3, topk_group=1, num_experts_per_tok=4)
    assert (model.num_groups, model.top_groups, model.experts_per_token) == (4, 1, 4)


def test_olmoe_norms_span_all_heads() -> None:
    attention = shape(SAMPLES["olmoe"]).attention
    assert attention.qk_norm
    assert not attention.qk_norm_per_head


def test_phimoe_norms_and_output_have_biases() -> None:
    model = shape(SAMPLES["phimoe"], attention_bias=True, lm_head_bias=True)
    assert model.norm_bias
    assert model.lm_head_bias
    assert model.attention.bias
    assert model.attention.output_bias


def test_gpt_oss_has_sinks_and_biases() -> None:
    model = shape(SAMPLES["gpt_oss"])
    assert model.attention.sinks
    assert model.attention.bias
    assert model.attention.output_bias
    assert model.router_bias
    assert model.expert_bias
    assert model.expert_clamp


@pytest.mark.parametrize(
    ("keys", "scaled"),
    [
        ({}, False),
        ({"rope_scaling": None}, False),
        ({"rope_scaling": {"rope_type": "yarn", "truncate": False}}, True),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, True),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, False),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 150000}}, True),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 150000}}, False),
    ],
)
def test_yarn_scales_rotary_positions(keys: dict[str, Any], scaled: bool) -> None:
    assert shape(SAMPLES["gpt_oss"], **keys).attention.scaled_rotary == scaled


def test_granite_ties_its_embeddings_if_it_says_so() -> None:
    assert shape(SAMPLES["granitemoe"], tie_word_embeddings=True).tied_embeddings
    assert not shape(SAMPLES["granitemoe"]).tied_embeddings


def test_llama_is_dense_and_old_files_have_no_grouped_heads() -> None:
    model = shape(LLAMA)
    assert model.num_moe_layers == 0
    assert model.ffn_size == 96
    assert model.attention.num_kv_heads == 4
    assert shape(LLAMA, num_key_value_heads=None).attention.num_kv_heads == 4
    assert shape(LLAMA, num_key_value_heads=2).attention.num_kv_heads == 2
    assert shape(LLAMA, mlp_bias=True).ffn_bias


# -- aliases and ignored keys ---------------------------------------------------------------


@pytest.mark.parametrize("alias", ["num_experts", "n_routed_experts", "num_routed_experts"])
def test_aliases_of_the_number_of_experts(alias: str) -> None:
    assert shape(without(MIXTRAL, "num_local_experts"), **{alias: 8}) == shape(MIXTRAL)


def test_aliases_given_together_must_agree() -> None:
    assert shape(MIXTRAL, num_experts=8, experts_per_token=2) == shape(MIXTRAL)
    assert refusal(MIXTRAL, num_experts=16) == (
        "here: num_local_experts is 8 but num_experts is 16; both name the same thing, keep one"
    )


def test_ignored_keys_change_nothing() -> None:
    noise = dict.fromkeys(IGNORED - {"architectures", "model_type"}, "anything")
    assert shape(MIXTRAL, **noise, _private={"a": 1}) == shape(MIXTRAL)


def test_neutral_keys_change_nothing_where_they_are_not_read() -> None:
    fields = set(FAMILIES[0].model_fields)
    neutral = {key: values[0] for key, values in NEUTRAL.items() if key not in fields}
    assert "attention_bias" in neutral
    assert shape(MIXTRAL, **neutral) == shape(MIXTRAL)


def test_null_is_the_same_as_absent_for_a_key_that_is_not_read() -> None:
    assert shape(MIXTRAL, kv_lora_rank=None, anything_else=None) == shape(MIXTRAL)


def test_the_tables_of_keys_do_not_overlap() -> None:
    aliases = {alias for names in ALIASES.values() for alias in names}
    read = {key for family in FAMILIES for key in family.model_fields}
    assert not aliases & (IGNORED | set(NEUTRAL) | read)
    assert not IGNORED & (set(NEUTRAL) | read)


#: keys of published files of each family beyond those that shape it, with their values:
#: ibm-granite/granite-3.0-1b-a400m-base, allenai/OLMoE-1B-7B-0924, Qwen/Qwen1.5-MoE-A2.7B,
#: microsoft/Phi-3.5-MoE-instruct, openai/gpt-oss-120b, meta-llama/Llama-3.1-405B,
#: deepseek-ai/DeepSeek-V2-Lite, mistralai/Mixtral-8x22B-v0.1, nvidia/Minitron-8B-Base,
#: openai-community/gpt2 (huggingface.co, config.json)
PUBLISHED_EXTRAS: dict[str, dict[str, Any]] = {
    "granitemoe": {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attention_multiplier": 0.015625,
        "bos_token_id": 0,
        "embedding_multiplier": 12.0,
        "eos_token_id": 0,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "logits_scaling": 6.0,
        "max_position_embeddings": 4096,
        "output_router_logits": False,
        "pad_token_id": 0,
        "residual_multiplier": 0.22,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 10000,
        "router_aux_loss_coef": 0.001,
        "transformers_version": "4.45.0.dev0",
        "use_cache": True,
    },
    "olmoe": {
        "attention_bias": False,
        "clip_qkv": None,
        "norm_topk_prob": False,
        "rope_theta": 10000.0,
        "torch_dtype": "bfloat16",
    },
    "qwen2_moe": {
        "_name_or_path": "Qwen/Qwen1.5-MoE-A2.7B",
        "decoder_sparse_step": 1,
        "max_window_layers": 21,
        "norm_topk_prob": False,
        "sliding_window": 32768,
        "use_sliding_window": False,
    },
    "phimoe": {
        "auto_map": {"AutoConfig": "configuration_phimoe.PhiMoEConfig"},
        "attention_bias": False,
        "hidden_dropout": 0.0,
        "input_jitter_noise": 0.01,
        "lm_head_bias": False,
        "original_max_position_embeddings": 4096,
        "rope_scaling": {"long_factor": [1.02, 1.03], "type": "longrope"},
        "router_jitter_noise": 0.01,
    },
    "gpt_oss": {
        "attention_bias": True,
        "experts_per_token": 2,
        "initial_context_length": 4096,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
        "sliding_window": None,
        "swiglu_limit": 7.0,
    },
    "llama": {
        "attention_bias": False,
        "eos_token_id": [128001, 128008, 128009],
        "mlp_bias": False,
        "pretraining_tp": 1,
        "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
    },
    "deepseek_v2": {
        "aux_loss_alpha": 0.001,
        "ep_size": 1,
        "moe_layer_freq": 1,
        "num_key_value_heads": 4,
        "pretraining_tp": 1,
        "routed_scaling_factor": 1.0,
        "scoring_func": "softmax",
        "seq_aux": True,
        "topk_method": "greedy",
    },
    "mixtral": {"router_jitter_noise": 0.0, "sliding_window": None},
    "nemotron": {
        "attention_bias": False,
        "hidden_act": "relu2",
        "mlp_bias": False,
        "norm_eps": 1e-05,
        "partial_rotary_factor": 0.5,
        "rope_theta": 10000.0,
    },
    "gpt2": {
        "activation_function": "gelu_new",
        "attn_pdrop": 0.1,
        "embd_pdrop": 0.1,
        "layer_norm_epsilon": 1e-05,
        "n_ctx": 32,
        "n_inner": None,
        "summary_activation": None,
        "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True,
        "summary_type": "cls_index",
        "summary_use_proj": True,
        "task_specific_params": {},
    },
}


@pytest.mark.parametrize("name", PUBLISHED_EXTRAS)
def test_the_other_keys_of_published_files_are_accepted(name: str) -> None:
    assert shape(SAMPLES[name], **PUBLISHED_EXTRAS[name]) == shape(SAMPLES[name])


# -- refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (
            MIXTRAL,
            {"architectures": ["RwkvForCausalLM"], "model_type": "rwkv"},
            "here: architecture 'RwkvForCausalLM' (model_type 'rwkv') is not supported; "
            "did you mean 'GrokForCausalLM'?; describe its layers in a file like that of "
            "'lightloom example model'",
        ),
        (
            MIXTRAL,
            {"architectures": ["MixtralForSequenceClassification"]},
            "here: architecture 'MixtralForSequenceClassification' (model_type 'mixtral') is not",
        ),
        (MIXTRAL, {"architectures": []}, "here: architectures is []; expected a list of one name"),
        (
            MIXTRAL,
            {"architectures": ["MixtralForCausalLM", "LlamaForCausalLM"]},
            "here: architectures is ['MixtralForCausalLM', 'LlamaForCausalLM']; expected a list",
        ),
        (MIXTRAL, {"architectures": "MixtralForCausalLM"}, "here: architectures is 'MixtralFor"),
        (MIXTRAL, {"model_type": 7}, "here: model_type is 7; expected text"),
        (
            without(MIXTRAL, "architectures"),
            {"model_type": "rwkv"},
            "here: model_type 'rwkv' is not supported; describe its layers in a file like that of "
            "'lightloom example model'",
        ),
        (
            MIXTRAL,
            {"hidden_size": "64"},
            "here: hidden_size = '64': expected a whole number",
        ),
        (MIXTRAL, {"hidden_size": True}, "here: hidden_size = True: expected a whole number"),
        (MIXTRAL, {"hidden_size": 64.0}, "here: hidden_size = 64.0: expected a whole number"),
        (MIXTRAL, {"hidden_size": None}, "here: hidden_size = None: expected a whole number"),
        (
            MIXTRAL,
            {"num_hidden_layers": 0},
            "here: num_hidden_layers = 0: expected at least 1",
        ),
        (
            MIXTRAL,
            {"num_hidden_layers": 10**30},
            "here: num_hidden_layers = 1000000000000000000000000000000: expected at most 4,096",
        ),
        (
            MIXTRAL,
            {"num_local_experts": -8},
            "here: num_local_experts = -8: expected at least 1",
        ),
        (
            MIXTRAL,
            {"num_experts_per_tok": 9},
            "here: num_experts_per_tok 9 is more than the 8 experts",
        ),
        (
            MIXTRAL,
            {"num_key_value_heads": 3},
            "here: num_key_value_heads 3 does not divide num_attention_heads 4",
        ),
        (
            MIXTRAL,
            {"num_attention_heads": 6, "num_key_value_heads": 3},
            "here: num_attention_heads 6 does not divide hidden_size 64, and head_dim is not given",
        ),
        (
            MIXTRAL,
            {"tie_word_embeddings": "yes"},
            "here: tie_word_embeddings = yes: expected true or false",
        ),
        (
            MIXTRAL,
            {"kv_lora_rank": 512},
            "here: 'kv_lora_rank' = 512 is not part of the shape of mixtral models",
        ),
        (
            MIXTRAL,
            {"attention_bias": True},
            "here: 'attention_bias' = True is not part of the shape of mixtral models",
        ),
        (
            MIXTRAL,
            {"n_shared_experts": 2},
            "here: 'n_shared_experts' = 2 is not part of the shape of mixtral models",
        ),
        (
            MIXTRAL,
            {"shared_intermediate_size": 1024},
            "here: 'shared_intermediate_size' = 1024 is not part of the shape of mixtral models",
        ),
        (
            MIXTRAL,
            {"hiden_size": 64},
            "here: 'hiden_size' = 64 is an unknown key that may change the shape of the model"
            "; did you mean 'hidden_size'?; remove it if it does not",
        ),
        (
            MIXTRAL,
            {"text_config": {"hidden_size": 1}},
            "here: 'text_config' = {'hidden_size': 1} is an unknown key that may change the shape",
        ),
        (
            QWEN3,
            {"use_qk_norm": False},
            "here: use_qk_norm = False: expected one of True",
        ),
        (
            QWEN3,
            {"qkv_bias": True},
            "here: 'qkv_bias' = True is not part of the shape of qwen3_moe models",
        ),
        (
            QWEN3,
            {"shared_expert_intermediate_size": 512},
            "here: 'shared_expert_intermediate_size' = 512 is not part of the shape of qwen3_moe",
        ),
        (
            QWEN3,
            {"mlp_only_layers": [6]},
            "here: mlp_only_layers names layer 6, num_hidden_layers is 6 (layers count from 0)",
        ),
        (
            QWEN3,
            {"mlp_only_layers": [1, "x"]},
            "here: mlp_only_layers[1] = x: expected a whole number",
        ),
        (
            QWEN3,
            {"layer_types": ["linear_attention"] * 6},
            "here: layer_types has linear_attention; layers of qwen3_moe models are full",
        ),
        (
            QWEN3,
            {"layer_types": ["full_attention"] * 5},
            "here: layer_types has 5 entries, num_hidden_layers is 6; expected one entry per layer",
        ),
        (DEEPSEEK3, {"n_group": 3}, "here: n_group 3 does not divide 16 experts"),
        (DEEPSEEK3, {"topk_group": 5}, "here: topk_group 5 is more than n_group 4"),
        (
            DEEPSEEK3,
            {"topk_group": 1, "num_experts_per_tok": 5},
            "here: 1 of 4 groups hold fewer experts than num_experts_per_tok 5",
        ),
        (
            DEEPSEEK3,
            {"n_group": None},
            "here: n_group and topk_group are needed for routing limited by groups",
        ),
        (
            DEEPSEEK3,
            {"topk_method": "greedy"},
            "here: topk_method = greedy: expected one of noaux_tc",
        ),
        (DEEPSEEK3, {"moe_layer_freq": 0}, "here: moe_layer_freq = 0: expected at least 1"),
    ],
)
def test_refused_by_name(config: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    assert refusal(config, **changes).startswith(message)


def test_neither_architectures_nor_model_type() -> None:
    config = without(without(MIXTRAL, "architectures"), "model_type")
    assert refusal(config) == (
        "here has neither architectures nor model_type; "
        "expected a model's config.json with one of them"
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_every_missing_key_is_named(name: str) -> None:
    config = SAMPLES[name]
    family = next(family for family in FAMILIES if family.name == name)
    for key, field in family.model_fields.items():
        if not field.is_required():
            continue
        spellings = (key, *{**ALIASES, **family.aliases}.get(key, ()))
        partial = {
            k: {a: b for a, b in v.items() if a not in spellings} if k in family.nested else v
            for k, v in config.items()
            if k not in spellings
        }
        if name == "llama" and key == "num_attention_heads":
            # then the number of grouped heads, copied from it, is missing as well
            assert "num_attention_heads is missing" in refusal(partial)
            continue
        expected = " or ".join(spellings)
        assert refusal(partial) == (
            f"here: {expected} is missing; the config.json of a {name} model has it"
        )


def test_long_and_unprintable_input_stays_one_short_line() -> None:
    message = refusal(MIXTRAL, **{"key\nwith\x1b[31m" + "y" * 5000: "z" * 5000})
    assert len(message) < 400
    assert message.isprintable()


# -- notes ----------------------------------------------------------------------------------


def windows(config, **changes) -> list[int]:
    """Window of each layer, 0 where there is none."""
    model = shape(config, **changes)
    return [
        model.variants[model.attention_index(layer)].attention.window
        for layer in range(model.num_layers)
    ]


def test_sliding_windows_are_those_of_the_layers_that_have_them() -> None:
    assert windows(MIXTRAL, sliding_window=128) == [128] * 3
    assert windows(MIXTRAL, sliding_window=None) == [0] * 3
    assert windows(MIXTRAL, sliding_window=128, use_sliding_window=False) == [0] * 3
    types = ["full_attention"] * 3
    assert windows(MIXTRAL, sliding_window=128, layer_types=types) == [0] * 3
    types[1] = "sliding_attention"
    assert windows(MIXTRAL, sliding_window=128, layer_types=types) == [0, 128, 0]


def test_windows_of_qwen_are_used_if_the_file_says_so_and_from_a_layer_on() -> None:
    layers = shape(QWEN3).num_layers
    used = {"sliding_window": 128, "use_sliding_window": True}
    assert windows(QWEN3, sliding_window=128) == [0] * layers
    assert windows(QWEN3, **used) == [128] * layers
    assert windows(QWEN3, **used, max_window_layers=1) == [0] + [128] * (layers - 1)
    assert windows(QWEN3, **used, max_window_layers=layers) == [0] * layers


def test_gpt_oss_has_a_window_in_every_second_layer_from_the_first() -> None:
    found = windows(SAMPLES["gpt_oss"], sliding_window=128)
    assert found == [128 if layer % 2 == 0 else 0 for layer in range(len(found))]
    types = ["full_attention" if window == 0 else "sliding_attention" for window in found]
    assert windows(SAMPLES["gpt_oss"], sliding_window=128, layer_types=types) == found
    kinds = catalog()["gpt-oss-120b"].attentions
    assert {kind.window: layers for kind, layers in kinds.items()} == {128: 18, 0: 18}


def test_prediction_layers_are_left_out_with_a_note() -> None:
    model = shape(DEEPSEEK3, num_nextn_predict_layers=2)
    assert model.notes == ("2 multi-token prediction layer(s) left out",)
    assert model == shape(DEEPSEEK3)


def test_a_contradiction_of_family_is_noted_and_architectures_wins() -> None:
    model = shape(QWEN3, model_type="qwen2_moe")
    assert model == shape(QWEN3)
    assert model.notes == ("architectures says qwen3_moe and is used, model_type 'qwen2_moe'",)


# -- published files ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("Qwen_Qwen3-30B-A3B-Instruct-2507.json", "qwen3-30b-a3b"),
        ("qwen3-30B-A3B_config.json", "qwen3-30b-a3b"),
        ("qwen3-235B-A22B_config.json", "qwen3-235b-a22b"),
        ("qwen3-235B-A22B_FP8_config.json", "qwen3-235b-a22b"),
        ("deepseek_v3_config.json", "deepseek-v3"),
        ("deepseek_R1_0528_config.json", "deepseek-r1"),
        ("mistralai_Mixtral-8x7B-v0.1.json", "mixtral-8x7b"),
    ],
)
def test_published_file_is_the_entry_of_the_catalog(file: str, name: str) -> None:
    model = load_model(str(published(file)))
    assert model == replace(catalog()[name], name=model.name)


def test_the_fp8_file_contradicts_itself_and_architectures_wins() -> None:
    path = published("qwen3-235B-A22B_FP8_config.json")
    keys = json.loads(path.read_text())
    assert keys["model_type"] == "qwen2_moe"
    model = load_model(str(path))
    assert model.family == "qwen3_moe"
    assert model.attention.qk_norm
    assert not model.attention.bias
    assert model.shared_expert_ffn_size == 0
    assert model.notes == ("architectures says qwen3_moe and is used, model_type 'qwen2_moe'",)


def test_the_deepseek_v3_file_spells_its_experts_otherwise() -> None:
    path = published("deepseek_v3_config.json")
    assert "num_routed_experts" in json.loads(path.read_text())
    model = load_model(str(path))
    assert (model.num_experts, model.shared_expert_ffn_size) == (256, 2048)


def test_phi_mini() -> None:
    model = load_model(str(published("microsoft_Phi-mini-MoE-instruct.json")))
    assert model.name == "microsoft_Phi-mini-MoE-instruct"
    assert (model.num_experts, model.expert_ffn_size) == (16, 960)
    assert (model.attention.window, model.notes) == (2047, ())


def test_the_published_qwen3_next_is_read() -> None:
    model = load_model(str(published("qwen3-next-80B-A3B_config.json")))
    assert (model.family, model.num_layers, model.num_experts) == ("qwen3_next", 48, 512)


def test_every_published_file_is_tested_here() -> None:
    if not PUBLISHED.is_dir():
        pytest.skip("../shared/data/hf_configs is not here")
    source = Path(__file__).read_text()
    assert [file.name for file in PUBLISHED.iterdir() if file.name not in source] == []
