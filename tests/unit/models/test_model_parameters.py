"""Parameter counts against published ones, and against layers counted by hand."""

from typing import Any, get_args

import pytest

from lightloom.models import EmbeddingConvention, Model, catalog
from lightloom.models.catalog import parse_count
from lightloom.models.mapping import model_from_config
from lightloom.models.parameters import (
    active_parameters,
    attention_parameters,
    dense_ffn_parameters,
    embedding_parameters,
    expert_parameters,
    norm_parameters,
    output_parameters,
    parameter_parts,
    router_parameters,
    shared_expert_parameters,
    total_parameters,
)

#: name -> total and active as printed. Sources are in the catalog's files; here the figures are
#: written again, so that a change of either is seen.
PUBLISHED = {
    "mixtral-8x7b": ("46.7B", "12.9B"),
    "mixtral-8x22b": ("141B", "39B"),
    "qwen1.5-moe-a2.7b": ("14.3B", "2.7B"),
    "llama-moe": ("6.74B", "3.5B"),
    "qwen3-30b-a3b": ("30.5B", "3.3B"),
    "qwen3-235b-a22b": ("235B", "22B"),
    "deepseek-v3": ("671B", "37B"),
    "deepseek-r1": ("671B", "37B"),
    "olmoe-1b-7b": ("6.9B", "1.3B"),
    "gpt-oss-120b": ("116.8B", "5.1B"),
    "llama-3-405b": ("405B", None),
    "llama-3-70b": ("70.6B", None),
    "llama-3-8b": ("8.03B", None),
    "nemotron-4-15b": ("15.7B", None),
    "nemotron-4-340b": ("341.0B", None),
    "gpt-3-175b": ("174.6B", None),
    "gpt-oss-20b": ("20.9B", "3.6B"),
    "qwen2-57b-a14b": ("57.4B", "14B"),
    "deepseek-v2": ("236B", "21B"),
    "kimi-k2": ("1.026T", "32B"),
}

_DEEPSEEK_V2: dict[str, Any] = {
    "architectures": ["DeepseekV2ForCausalLM"],
    "first_k_dense_replace": 1,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "vocab_size": 102400,
}
_GRANITE: dict[str, Any] = {
    "architectures": ["GraniteMoeForCausalLM"],
    "intermediate_size": 512,
    "num_experts_per_tok": 8,
    "num_key_value_heads": 8,
    "tie_word_embeddings": True,
    "vocab_size": 49152,
}
_PHI: dict[str, Any] = {
    "architectures": ["PhiMoEForCausalLM"],
    "attention_bias": True,
    "lm_head_bias": True,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 16,
    "vocab_size": 32064,
}
#: models that the catalog does not have, for the families it lacks: configuration (each from
#: the config.json of the model's Hugging Face page), printed counts, and where they are printed
OTHERS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "DeepSeek-V2": (
        {
            **_DEEPSEEK_V2,
            "hidden_size": 5120,
            "intermediate_size": 12288,
            "moe_intermediate_size": 1536,
            "n_group": 8,
            "n_routed_experts": 160,
            "num_attention_heads": 128,
            "num_hidden_layers": 60,
            "q_lora_rank": 1536,
            "topk_group": 3,
            "topk_method": "group_limited_greedy",
        },
        "236B",
        "21B",
        "arXiv 2405.04434, abstract",
    ),
    "DeepSeek-V2-Lite": (
        {
            **_DEEPSEEK_V2,
            "hidden_size": 2048,
            "intermediate_size": 10944,
            "moe_intermediate_size": 1408,
            "n_group": 1,
            "n_routed_experts": 64,
            "num_attention_heads": 16,
            "num_hidden_layers": 27,
            "q_lora_rank": None,
            "topk_group": 1,
            "topk_method": "greedy",
        },
        "15.7B",
        "2.4B",
        "arXiv 2405.04434, appendix B.1",
    ),
    "Phi-3.5-MoE": (
        {**_PHI, "intermediate_size": 6400},
        "41.9B",
        "6.6B",
        "huggingface.co/microsoft/Phi-3.5-MoE-instruct",
    ),
    "Phi-mini-MoE": (
        {**_PHI, "head_dim": 128, "intermediate_size": 960},
        "7.6B",
        "2.4B",
        "huggingface.co/microsoft/Phi-mini-MoE-instruct",
    ),
    "granite-3.0-1b-a400m": (
        {
            **_GRANITE,
            "hidden_size": 1024,
            "num_attention_heads": 16,
            "num_hidden_layers": 24,
            "num_local_experts": 32,
        },
        "1.3B",
        "400M",
        "huggingface.co/ibm-granite/granite-3.0-1b-a400m-base",
    ),
    "granite-3.0-3b-a800m": (
        {
            **_GRANITE,
            "hidden_size": 1536,
            "num_attention_heads": 24,
            "num_hidden_layers": 32,
            "num_local_experts": 40,
        },
        "3.3B",
        "800M",
        "huggingface.co/ibm-granite/granite-3.0-3b-a800m-base",
    ),
}


def rounds_to(count: float, printed: str) -> bool:
    """Whether a count, rounded to the digits of a printed one, is the printed one."""
    value, step = parse_count(printed)
    # 400M and 800M have one digit that means something
    step = max(step, 1e8) if printed.endswith("00M") else step
    return abs(round(count / step) * step - value) < step / 2


def model_of(config: dict[str, Any]) -> Model:
    return model_from_config(config, "test", "here")


def test_the_table_covers_the_catalog() -> None:
    variants = {"qwen-moe", "qwen-moe-32e"}
    assert set(PUBLISHED) == set(catalog()) - variants
    for name in variants:
        assert catalog()[name].published_parameters is None


@pytest.mark.parametrize("name", PUBLISHED)
def test_catalog_counts_match_the_published_ones(name: str) -> None:
    model = catalog()[name]
    total, active = PUBLISHED[name]
    assert model.published_parameters == parse_count(total)[0]
    assert total_parameters(model) == pytest.approx(parse_count(total)[0], rel=0.005)
    if active is None:
        assert model.published_active is None
        assert active_parameters(model) == total_parameters(model)
    else:
        assert model.published_active == parse_count(active)[0]
        assert rounds_to(active_parameters(model), active)


@pytest.mark.parametrize("name", OTHERS)
def test_other_counts_match_the_published_ones(name: str) -> None:
    config, total, active, _ = OTHERS[name]
    model = model_of(config)
    # printed with two digits, so compared with them
    assert rounds_to(total_parameters(model), total)
    assert rounds_to(active_parameters(model), active)


def test_qwen3_publishes_its_counts_without_embeddings_as_well() -> None:
    small, large = catalog()["qwen3-30b-a3b"], catalog()["qwen3-235b-a22b"]
    assert rounds_to(total_parameters(small, "none"), "29.9B")
    assert rounds_to(total_parameters(large, "none"), "234B")


#: parameters of the released checkpoints (Hugging Face safetensors metadata; for DeepSeek-V3 the
#: main model, for quantized checkpoints the logical weights), counted from their tensors
CHECKPOINTS = {
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v3": 671_026_419_200,
    "deepseek-r1": 671_026_419_200,
    "olmoe-1b-7b": 6_919_161_856,
    "gpt-oss-120b": 116_829_156_672,
    "llama-3-405b": 405_853_388_800,
    "llama-3-70b": 70_553_706_496,
    "llama-3-8b": 8_030_261_248,
    "deepseek-v2": 235_741_434_880,
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_counts_are_those_of_the_checkpoints_to_the_last_parameter(name: str) -> None:
    assert total_parameters(catalog()[name]) == CHECKPOINTS[name]


@pytest.mark.parametrize(
    ("width", "layers", "heads", "count"),
    # GPT-2 and GPT-2 XL: parameters of the released checkpoints
    [(768, 12, 12, 124_439_808), (1600, 48, 25, 1_557_611_200)],
)
def test_gpt_2_to_the_last_parameter(width: int, layers: int, heads: int, count: int) -> None:
    shape = {"n_embd": width, "n_layer": layers, "n_head": heads, "n_inner": None}
    config = {"model_type": "gpt2", "n_positions": 1024, "vocab_size": 50257, **shape}
    assert total_parameters(model_of(config)) == count


def test_a_feed_forward_without_a_gate_has_two_matrices() -> None:
    model = named("nemotron", GROUPED)
    assert not model.gated_ffn
    assert dense_ffn_parameters(model) == 2 * 10 * 5
    # LayerNorm has a bias
    assert norm_parameters(model) == 20


def test_deepseek_v2_lite_to_the_last_parameter() -> None:
    assert total_parameters(model_of(OTHERS["DeepSeek-V2-Lite"][0])) == 15_706_484_224


GROUPED: dict[str, Any] = {
    "hidden_size": 10,
    "num_hidden_layers": 2,
    "vocab_size": 7,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 3,
    "intermediate_size": 5,
}
MIXTURE = {**GROUPED, "num_local_experts": 6, "num_experts_per_tok": 2}


def named(family: str, config: dict[str, Any], **changes: Any) -> Model:
    return model_of({"model_type": family, **config, **changes})


def test_grouped_query_attention_by_hand() -> None:
    # q 10x12, k and v 10x6 each, o 12x10
    plain = 120 + 60 + 60 + 120
    assert attention_parameters(named("mixtral", MIXTURE)) == plain
    biased = named("granitemoe", MIXTURE, attention_bias=True)
    assert attention_parameters(biased) == plain + 12 + 6 + 6 + 10
    assert attention_parameters(named("olmoe", MIXTURE)) == plain + 12 + 6
    assert attention_parameters(named("gpt_oss", MIXTURE)) == plain + 12 + 6 + 6 + 10 + 4
    qwen = {**MIXTURE, "moe_intermediate_size": 5, "shared_expert_intermediate_size": 0}
    assert attention_parameters(named("qwen2_moe", qwen)) == plain + 12 + 6 + 6
    assert attention_parameters(named("qwen3_moe", {**MIXTURE, "moe_intermediate_size": 5})) == (
        plain + 3 + 3
    )


LATENT: dict[str, Any] = {
    "hidden_size": 10,
    "num_hidden_layers": 3,
    "vocab_size": 7,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "moe_intermediate_size": 4,
    "n_routed_experts": 4,
    "n_shared_experts": 2,
    "num_experts_per_tok": 1,
    "first_k_dense_replace": 1,
    "q_lora_rank": 5,
    "kv_lora_rank": 6,
    "qk_nope_head_dim": 3,
    "qk_rope_head_dim": 2,
    "v_head_dim": 4,
    "n_group": 2,
    "topk_group": 1,
}


def test_latent_attention_by_hand() -> None:
    query = 10 * 5 + 5 + 5 * (2 * 5)
    key_value = 10 * (6 + 2) + 6 + 6 * 2 * (3 + 4)
    output = 2 * 4 * 10
    assert attention_parameters(named("deepseek_v3", LATENT)) == query + key_value + output
    biased = named("deepseek_v3", LATENT, attention_bias=True)
    assert attention_parameters(biased) == query + key_value + output + 5 + 8 + 10
    full_rank = named("deepseek_v3", LATENT, q_lora_rank=None)
    assert attention_parameters(full_rank) == 10 * (2 * 5) + key_value + output
    biased = named("deepseek_v3", LATENT, q_lora_rank=None, attention_bias=True)
    assert attention_parameters(biased) == 10 * (2 * 5) + key_value + output + 8 + 10


def test_experts_routers_and_norms_by_hand() -> None:
    plain = named("mixtral", MIXTURE)
    assert expert_parameters(plain) == 3 * 10 * 5
    assert router_parameters(plain) == 10 * 6
    assert norm_parameters(plain) == 10
    assert dense_ffn_parameters(plain) == 0
    assert shared_expert_parameters(plain) == 0
    oss = named("gpt_oss", MIXTURE)
    assert expert_parameters(oss) == 3 * 10 * 5 + 2 * 5 + 10
    assert router_parameters(oss) == 10 * 6 + 6
    phi = named("phimoe", MIXTURE, lm_head_bias=True)
    assert norm_parameters(phi) == 20
    assert output_parameters(phi) == 7 * 10 + 7
    assert embedding_parameters(phi) == 7 * 10


def test_shared_experts_and_dense_layers_by_hand() -> None:
    deepseek = named("deepseek_v3", LATENT)
    assert shared_expert_parameters(deepseek) == 3 * 10 * (2 * 4)
    assert dense_ffn_parameters(deepseek) == 3 * 10 * 8
    assert router_parameters(deepseek) == 10 * 4 + 4
    qwen = {**MIXTURE, "moe_intermediate_size": 4, "shared_expert_intermediate_size": 9}
    assert shared_expert_parameters(named("qwen2_moe", qwen)) == 3 * 10 * 9 + 10


def test_a_dense_model_has_no_expert_parameters() -> None:
    llama = named("llama", GROUPED, mlp_bias=True)
    assert expert_parameters(llama) == 0
    assert router_parameters(llama) == 0
    assert shared_expert_parameters(llama) == 0
    assert dense_ffn_parameters(llama) == 3 * 10 * 5 + 2 * 5 + 10
    assert active_parameters(llama) == total_parameters(llama)


def test_totals_are_the_sum_of_the_parts_by_hand() -> None:
    model = named("deepseek_v3", LATENT)
    layers = 3 * attention_parameters(model) + (2 * 3 + 1) * 10 + dense_ffn_parameters(model)
    shared = 2 * (router_parameters(model) + shared_expert_parameters(model))
    tables = 2 * 7 * 10
    assert total_parameters(model) == layers + shared + 2 * 4 * expert_parameters(model) + tables
    used = layers + shared + 2 * 1 * expert_parameters(model)
    assert active_parameters(model, "both") == used + tables
    assert active_parameters(model, "output") == used + tables // 2
    assert active_parameters(model, "none") == used
    # the publisher's convention: the output projection, no routers
    assert active_parameters(model) == used + tables // 2 - 2 * router_parameters(model)


def test_a_tied_table_is_counted_once() -> None:
    tied = named("mixtral", MIXTURE, tie_word_embeddings=True)
    free = named("mixtral", MIXTURE)
    assert total_parameters(free) - total_parameters(tied) == 70
    assert active_parameters(tied, "both") == active_parameters(tied, "output")
    assert active_parameters(tied, "output") - active_parameters(tied, "none") == 70
    assert total_parameters(tied, "both") - total_parameters(tied, "none") == 70


@pytest.mark.parametrize("name", catalog())
def test_parts_add_up_for_every_model_and_convention(name: str) -> None:
    model = catalog()[name]
    for convention in get_args(EmbeddingConvention):
        parts = parameter_parts(model, convention)
        assert sum(part.total for part in parts) == total_parameters(model)
        active = sum(part.total_active for part in parts)
        assert active == active_parameters(model, convention)
        assert all(0 <= part.active <= part.count for part in parts)
