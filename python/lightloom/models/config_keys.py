"""What is known of the keys of a ``config.json``: aliases, and keys that shape no weight.

A key that is in none of these tables, and is not read by the model's family, may change the
shape, so it is refused by name (see ``mapping``). Keys from the configuration classes of Hugging
Face transformers (v4.36 to v5), checked against the files in ``../shared/data/hf_configs``.
"""

from __future__ import annotations

#: canonical key -> other names of the same thing
ALIASES: dict[str, tuple[str, ...]] = {
    "num_experts": ("num_local_experts", "n_routed_experts", "num_routed_experts"),
    "num_shared_experts": ("n_shared_experts",),
    "num_experts_per_tok": ("experts_per_token",),
    "qk_norm": ("use_qk_norm",),
}

#: keys that change no weight's shape: identity, tokens, positions, arithmetic, regularisation,
#: losses, storage (weights are counted whatever their precision), and text generation
IGNORED = frozenset(
    """
    architectures model_type name_or_path auto_map transformers_version torch_dtype dtype
    quantization_config compression_config unsloth_version unsloth_fixed attn_implementation
    bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id mask_token_id cls_token_id
    decoder_start_token_id forced_bos_token_id forced_eos_token_id tokenizer_class prefix
    max_position_embeddings original_max_position_embeddings initial_context_length
    max_sequence_length max_seq_len seq_length max_model_len model_max_length
    rope_theta rope_interleave partial_rotary_factor n_ctx
    hidden_act hidden_activation activation_function
    rms_norm_eps layer_norm_eps layer_norm_epsilon norm_eps
    clip_qkv swiglu_limit swiglu_alpha attention_multiplier embedding_multiplier logits_scaling
    residual_multiplier scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn
    summary_activation summary_first_dropout summary_proj_to_labels summary_type
    summary_use_proj norm_topk_prob routed_scaling_factor scoring_func
    attention_dropout hidden_dropout expert_dropout resid_pdrop embd_pdrop attn_pdrop
    block_size postnorm shared_moe_mode rotary_dim layernorm_epsilon
    full_attn_alpha_factor full_attn_beta_factor linear_attn_alpha_factor linear_attn_beta_factor
    mlp_alpha_factor mlp_beta_factor layernorm_full_attention_alpha layernorm_full_attention_beta
    layernorm_linear_attention_alpha layernorm_linear_attention_beta layernorm_mlp_alpha
    layernorm_mlp_beta
    input_jitter_noise router_jitter_noise initializer_range
    router_aux_loss_coef router_z_loss_coef aux_loss_alpha seq_aux output_router_logits
    use_cache ep_size pretraining_tp qk_head_dim
    output_attentions output_hidden_states return_dict return_dict_in_generate torchscript
    use_bfloat16 tf_legacy_loss chunk_size_feed_forward remove_invalid_values
    is_decoder tie_encoder_decoder finetuning_task task_specific_params problem_type
    id2label label2id num_labels
    max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty
    temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size
    encoder_no_repeat_ngram_size bad_words_ids num_return_sequences output_scores
    exponential_decay_length_penalty suppress_tokens begin_suppress_tokens
    """.split()  # noqa: SIM905 - a hundred names are read more easily as text
)

#: keys that do change a shape, with the values at which they change nothing: accepted at those
#: (and at null) in a family that does not read them, refused otherwise
NEUTRAL: dict[str, tuple[object, ...]] = {
    "attention_bias": (False,),
    "qkv_bias": (False,),
    "mlp_bias": (False,),
    "lm_head_bias": (False,),
    "qk_norm": (False,),
    "num_experts": (0,),
    "num_shared_experts": (0,),
    "shared_expert_intermediate_size": (0,),
    "shared_intermediate_size": (0,),
    "first_k_dense_replace": (0,),
    "moe_layer_freq": (1,),
    "decoder_sparse_step": (1,),
    "mlp_only_layers": ([],),
    "n_group": (1,),
    "topk_group": (1,),
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "pruned_heads": ({},),
}


def is_neutral(key: str, value: object) -> bool:
    """Whether a key, not read by the model's family, leaves its shape alone."""
    if value is None or key in IGNORED or key.startswith("_"):
        return True
    # 0 == False in Python: compare types as well, so that nonsense is not taken for a default.
    return any(type(value) is type(ok) and value == ok for ok in NEUTRAL.get(key, ()))
