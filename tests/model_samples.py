"""Small configurations of every family of models."""

from typing import Any

MIXTRAL: dict[str, Any] = {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 100,
}
QWEN2: dict[str, Any] = {
    "architectures": ["Qwen2MoeForCausalLM"],
    "model_type": "qwen2_moe",
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 6,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 100,
}
QWEN3: dict[str, Any] = {
    **{k: v for k, v in QWEN2.items() if k != "shared_expert_intermediate_size"},
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "head_dim": 32,
}
DEEPSEEK3: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 2,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "n_group": 4,
    "topk_group": 2,
    "n_routed_experts": 16,
    "n_shared_experts": 3,
    "num_attention_heads": 4,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 5,
    "vocab_size": 100,
}
DEEPSEEK2: dict[str, Any] = {
    **DEEPSEEK3,
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
}
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "vocab_size": 100,
}
QWEN3_NEXT: dict[str, Any] = {
    **QWEN2,
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "num_key_value_heads": 2,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 16,
}
GLM: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 2,
    "n_routed_experts": 16,
    "n_shared_experts": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 5,
    "vocab_size": 100,
}
LLAMA4: dict[str, Any] = {
    "architectures": ["Llama4ForConditionalGeneration"],
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text",
        "hidden_size": 64,
        "intermediate_size": 32,
        "intermediate_size_mlp": 96,
        "interleave_moe_layer_step": 2,
        "attention_chunk_size": 16,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 8,
        "num_local_experts": 8,
        "num_experts_per_tok": 1,
        "vocab_size": 100,
    },
}
MINIMAX: dict[str, Any] = {
    **MIXTRAL,
    "architectures": ["MiniMaxForCausalLM"],
    "model_type": "minimax",
    "attn_type_list": [0, 0, 1],
}
DBRX: dict[str, Any] = {
    "architectures": ["DbrxForCausalLM"],
    "model_type": "dbrx",
    "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 1e6},
    "d_model": 64,
    "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 8, "moe_top_k": 2},
    "n_heads": 4,
    "n_layers": 3,
    "vocab_size": 100,
}
MAMBA2: dict[str, Any] = {
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "hybrid_override_pattern": "ME*-",
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 48,
    "moe_latent_size": 16,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "n_groups": 2,
    "ssm_state_size": 8,
    "vocab_size": 100,
}
KIMI_LINEAR: dict[str, Any] = {
    **DEEPSEEK3,
    "architectures": ["KimiLinearForCausalLM"],
    "model_type": "kimi_linear",
    "linear_attn_config": {
        "full_attn_layers": [4],
        "kda_layers": [1, 2, 3, 5],
        "head_dim": 8,
        "num_heads": 4,
    },
    "routed_expert_hidden_size": 32,
}
DEEPSEEK4: dict[str, Any] = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "hidden_size": 64,
    "head_dim": 16,
    "q_lora_rank": 24,
    "qk_rope_head_dim": 4,
    "o_groups": 2,
    "o_lora_rank": 8,
    "index_n_heads": 2,
    "index_head_dim": 4,
    "index_topk": 8,
    "hc_mult": 2,
    "compress_ratios": [0, 4, 16, 4, 0],
    "sliding_window": 8,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "vocab_size": 100,
}
LONGCAT: dict[str, Any] = {
    **{
        key: value
        for key, value in DEEPSEEK3.items()
        if key
        not in {
            "intermediate_size",
            "moe_intermediate_size",
            "num_hidden_layers",
            "num_experts_per_tok",
            "first_k_dense_replace",
            "n_group",
            "topk_group",
            "n_shared_experts",
        }
    },
    "architectures": ["LongcatFlashForCausalLM"],
    "model_type": "longcat_flash",
    "ffn_hidden_size": 96,
    "expert_ffn_hidden_size": 32,
    "num_layers": 3,
    "moe_topk": 6,
    "zero_expert_num": 8,
}
GEMMA4: dict[str, Any] = {
    "architectures": ["Gemma4ForConditionalGeneration"],
    "model_type": "gemma4",
    "hidden_size": 64,
    "head_dim": 16,
    "global_head_dim": 32,
    "attention_k_eq_v": True,
    "intermediate_size": 96,
    "enable_moe_block": True,
    "num_experts": 8,
    "top_k_experts": 2,
    "moe_intermediate_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_global_key_value_heads": 1,
    "num_hidden_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 16,
    "vocab_size": 100,
}
NAS: dict[str, Any] = {
    **LLAMA,
    "architectures": ["DeciLMForCausalLM"],
    "model_type": "nemotron-nas",
    "intermediate_size": None,
    "num_hidden_layers": 2,
    "block_configs": [
        {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 5.25}},
        {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}},
    ],
}


def renamed(sample: dict[str, Any], architecture: str, name: str, **keys: Any) -> dict[str, Any]:
    return {**sample, "architectures": [architecture], "model_type": name, **keys}


def without_experts(sample: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in sample.items() if key != "n_routed_experts"}


SAMPLES = {
    "mixtral": MIXTRAL,
    "qwen2_moe": QWEN2,
    "qwen3_moe": QWEN3,
    "deepseek_v2": DEEPSEEK2,
    "deepseek_v3": DEEPSEEK3,
    "olmoe": {**MIXTRAL, "architectures": ["OlmoeForCausalLM"], "model_type": "olmoe"},
    "phimoe": {**MIXTRAL, "architectures": ["PhiMoEForCausalLM"], "model_type": "phimoe"},
    "granitemoe": {
        **MIXTRAL,
        "architectures": ["GraniteMoeForCausalLM"],
        "model_type": "granitemoe",
    },
    "gpt_oss": {**MIXTRAL, "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"},
    "llama": LLAMA,
    "qwen2": {
        **LLAMA,
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "num_key_value_heads": 2,
    },
    "qwen3": {
        **LLAMA,
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "num_key_value_heads": 2,
    },
    "qwen3_next": QWEN3_NEXT,
    "deepseek_v32": {
        **DEEPSEEK3,
        "architectures": ["DeepseekV32ForCausalLM"],
        "model_type": "deepseek_v32",
        "index_n_heads": 2,
        "index_head_dim": 4,
        "index_topk": 8,
    },
    "glm4_moe": {
        **GLM,
        "architectures": ["Glm4MoeForCausalLM"],
        "model_type": "glm4_moe",
    },
    "llama4": LLAMA4,
    "minimax": MINIMAX,
    "minimax_m2": {
        **MIXTRAL,
        "architectures": ["MiniMaxM2ForCausalLM"],
        "model_type": "minimax_m2",
        "num_mtp_modules": 3,
    },
    "dbrx": DBRX,
    "nemotron": {
        **LLAMA,
        "architectures": ["NemotronForCausalLM"],
        "model_type": "nemotron",
        "num_key_value_heads": 2,
    },
    "gpt2": {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_embd": 64,
        "n_layer": 3,
        "n_head": 4,
        "n_positions": 32,
        "vocab_size": 100,
    },
    "nemotron_h": MAMBA2,
    "nemotron-nas": NAS,
    "kimi_linear": KIMI_LINEAR,
    "deepseek_v4": DEEPSEEK4,
    "longcat_flash": LONGCAT,
    "gemma4": GEMMA4,
    "jamba": renamed(MIXTRAL, "JambaForCausalLM", "jamba", num_hidden_layers=8),
    "granitemoehybrid": renamed(
        MIXTRAL,
        "GraniteMoeHybridForCausalLM",
        "granitemoehybrid",
        layer_types=["mamba", "attention", "mamba"],
        shared_intermediate_size=48,
        mamba_n_heads=8,
        mamba_d_state=16,
    ),
    "glm_moe_dsa": renamed(
        DEEPSEEK3,
        "GlmMoeDsaForCausalLM",
        "glm_moe_dsa",
        index_n_heads=2,
        index_head_dim=4,
        index_topk=8,
    ),
    "deepseek": renamed(GLM, "DeepseekForCausalLM", "deepseek"),
    "dots1": renamed(GLM, "Dots1ForCausalLM", "dots1"),
    "hy_v3": renamed(GLM, "HYV3ForCausalLM", "hy_v3"),
    "bailing_moe": renamed(GLM, "BailingMoeForCausalLM", "bailing_moe"),
    "ernie4_5_moe": renamed(
        without_experts(GLM), "Ernie4_5_MoeForCausalLM", "ernie4_5_moe", moe_num_experts=16
    ),
    "hunyuan_v1_moe": renamed(
        MIXTRAL,
        "HunYuanMoEV1ForCausalLM",
        "hunyuan_v1_moe",
        num_shared_expert=[1, 1, 1],
        use_cla=True,
        cla_share_factor=2,
    ),
    "mimo_v2_flash": renamed(
        GLM,
        "MiMoV2FlashForCausalLM",
        "mimo_v2_flash",
        head_dim=24,
        v_head_dim=16,
        sliding_window=8,
        hybrid_layer_pattern=[0, 1, 1, 1, 0],
        moe_layer_freq=[0, 1, 1, 1, 1],
    ),
    "step3p5": renamed(
        without_experts(GLM),
        "Step3p5ForCausalLM",
        "step3p5",
        moe_num_experts=16,
        layer_types=["full_attention", *["sliding_attention"] * 3, "full_attention"],
        sliding_window=8,
        attention_other_setting={"num_attention_heads": 6},
    ),
    "minimax_m3": renamed(
        MIXTRAL,
        "MiniMaxM3ForCausalLM",
        "minimax_m3",
        dense_intermediate_size=128,
        moe_layer_freq=[0, 1, 1],
        sparse_attention_config={
            "sparse_attention_freq": [0, 1, 1],
            "sparse_num_index_heads": 2,
            "sparse_index_dim": 8,
            "sparse_block_size": 4,
            "sparse_topk_blocks": 2,
        },
    ),
    "grok-1": renamed(MIXTRAL, "Grok1ModelForCausalLM", "grok-1"),
    "arctic": renamed(MIXTRAL, "ArcticForCausalLM", "arctic", moe_layer_frequency=1),
    "qwen3_5_moe": renamed(QWEN3_NEXT, "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe"),
    "qwen3_5": renamed(
        {
            key: value
            for key, value in QWEN3_NEXT.items()
            if "expert" not in key and key != "moe_intermediate_size"
        },
        "Qwen3_5ForConditionalGeneration",
        "qwen3_5",
    ),
}
