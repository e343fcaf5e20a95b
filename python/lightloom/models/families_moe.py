"""Families with experts and grouped-query attention in every layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from lightloom.models.family import (
    Experts,
    GroupedQuery,
    LayerIndices,
    OptionalWidth,
    SharedExperts,
    Width,
    check_top_k,
)
from lightloom.models.model import Attention, Model


class Mixture(GroupedQuery):
    """Families in which every layer has routed experts of width ``intermediate_size``."""

    intermediate_size: Width
    num_experts: Experts
    num_experts_per_tok: Experts

    @model_validator(mode="after")
    def _check_experts(self) -> Mixture:
        check_top_k(self.num_experts_per_tok, self.num_experts)
        return self

    def mixture(self, name: str, attention: Attention) -> Model:
        """Shape with all layers a mixture."""
        return replace(
            self.base_model(name, attention),
            moe_layers=(True,) * self.num_hidden_layers,
            num_experts=self.num_experts,
            experts_per_token=self.num_experts_per_tok,
            expert_ffn_size=self.intermediate_size,
        )


class Mixtral(Mixture):
    """Mixtral 8x7B, 8x22B and models of their shape."""

    name = "mixtral"
    architectures = ("MixtralForCausalLM",)

    def to_model(self, name: str) -> Model:
        """Return the shape: no biases anywhere."""
        return self.mixture(name, self.grouped_query(bias=False, output_bias=False))


class Olmoe(Mixture):
    """OLMoE: norms over all query heads together, and over all key heads."""

    name = "olmoe"
    architectures = ("OlmoeForCausalLM",)

    attention_bias: bool = False
    qk_norm: Literal[True] = True

    def to_model(self, name: str) -> Model:
        """Return the shape: query and key norms as wide as the projections."""
        bias = self.attention_bias
        attention = self.grouped_query(bias=bias, output_bias=bias)
        return self.mixture(name, replace(attention, qk_norm=True, qk_norm_per_head=False))


class GraniteMoe(Mixture):
    """Granite 3 MoE."""

    name = "granitemoe"
    architectures = ("GraniteMoeForCausalLM",)
    # 800M published for 3b-a800m: 0.81B without the (tied) table, 0.88B with it
    active_embeddings = "none"

    attention_bias: bool = False

    def to_model(self, name: str) -> Model:
        """Return the shape."""
        bias = self.attention_bias
        return self.mixture(name, self.grouped_query(bias=bias, output_bias=bias))


class PhiMoe(Mixture):
    """Phi-3.5-MoE and its slimmed versions: layer norms with bias, bias on the output."""

    name = "phimoe"
    architectures = ("PhiMoEForCausalLM", "PhimoeForCausalLM")

    attention_bias: bool = False
    lm_head_bias: bool = False

    def to_model(self, name: str) -> Model:
        """Return the shape: LayerNorm has a bias where RMSNorm has none."""
        bias = self.attention_bias
        attention = self.grouped_query(bias=bias, output_bias=bias)
        return replace(
            self.mixture(name, attention), norm_bias=True, lm_head_bias=self.lm_head_bias
        )


class GptOss(Mixture):
    """gpt-oss: biases on router and experts, clamped activations, attention sinks by query head."""

    name = "gpt_oss"
    architectures = ("GptOssForCausalLM",)
    # as its model card says (arXiv 2508.10925, Table 1)
    active_embeddings = "output"

    attention_bias: bool = True

    def windowed_layers(self) -> tuple[bool, ...]:
        """Every second layer, from the first."""
        return tuple(layer % 2 == 0 for layer in range(self.num_hidden_layers))

    def to_model(self, name: str) -> Model:
        """Return the shape: router and experts always have biases."""
        bias = self.attention_bias
        attention = replace(self.grouped_query(bias=bias, output_bias=bias), sinks=True)
        shape = self.mixture(name, attention)
        return replace(shape, router_bias=True, expert_bias=True, expert_clamp=True)


class QwenMoe(GroupedQuery):
    """Keys of both Qwen mixtures: dense layers may stand between the mixtures."""

    windowed = False
    # Qwen3 publishes 30.5B, 3.3B active, 29.9B without embeddings, and 235B, 22B, 234B: all six
    # are its counts rounded if routers are left out (3.340B), not if they are in (3.353B).
    active_router = False

    intermediate_size: Width
    moe_intermediate_size: Width
    num_experts: Experts
    num_experts_per_tok: Experts
    decoder_sparse_step: Annotated[int, Field(ge=1, le=4096)] = 1
    mlp_only_layers: LayerIndices | None = None

    @model_validator(mode="after")
    def _check_experts(self) -> QwenMoe:
        check_top_k(self.num_experts_per_tok, self.num_experts)
        beyond = [i for i in self.mlp_only_layers or () if i >= self.num_hidden_layers]
        if beyond:
            raise ValueError(
                f"mlp_only_layers names layer {beyond[0]}, num_hidden_layers is "
                f"{self.num_hidden_layers} (layers count from 0)"
            )
        return self

    def mixture(self, name: str, attention: Attention) -> Model:
        """Shape with a mixture in every ``decoder_sparse_step``-th layer that is not excepted."""
        dense = set(self.mlp_only_layers or ())
        moe_layers = tuple(
            layer not in dense and (layer + 1) % self.decoder_sparse_step == 0
            for layer in range(self.num_hidden_layers)
        )
        return replace(
            self.base_model(name, attention),
            moe_layers=moe_layers,
            ffn_size=self.intermediate_size,
            num_experts=self.num_experts,
            experts_per_token=self.num_experts_per_tok,
            expert_ffn_size=self.moe_intermediate_size,
        )


class Qwen2Moe(QwenMoe):
    """Qwen1.5-MoE and Qwen2-MoE: a gated shared expert, biases on query, key and value."""

    name = "qwen2_moe"
    architectures = ("Qwen2MoeForCausalLM",)

    shared_expert_intermediate_size: OptionalWidth
    qkv_bias: bool = True

    def to_model(self, name: str) -> Model:
        """Return the shape: the shared expert is one of the given width, with a gate."""
        attention = self.grouped_query(bias=self.qkv_bias, output_bias=False)
        return replace(
            self.mixture(name, attention),
            shared_expert_ffn_size=self.shared_expert_intermediate_size,
            shared_expert_gate=self.shared_expert_intermediate_size > 0,
        )


class Qwen3Moe(QwenMoe):
    """Qwen3-MoE: norms on query and key heads, no shared expert."""

    name = "qwen3_moe"
    architectures = ("Qwen3MoeForCausalLM",)
    model_types = ("qwen3_vl_moe_text", "qwen3_omni_moe_text")

    attention_bias: bool = False
    qk_norm: Literal[True] = True

    def to_model(self, name: str) -> Model:
        """Return the shape."""
        bias = self.attention_bias
        attention = self.grouped_query(bias=bias, output_bias=bias)
        return self.mixture(name, replace(attention, qk_norm=True))


class Dbrx(Mixture):
    """DBRX: keys of attention and experts in separate tables."""

    name = "dbrx"
    architectures = ("DbrxForCausalLM",)
    nested = ("attn_config", "ffn_config")

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {
        "hidden_size": ("d_model",),
        "num_hidden_layers": ("n_layers",),
        "num_attention_heads": ("n_heads",),
        "num_key_value_heads": ("kv_n_heads",),
        "intermediate_size": ("ffn_hidden_size",),
        "num_experts": ("moe_num_experts",),
        "num_experts_per_tok": ("moe_top_k",),
    }
    unused = frozenset(
        """
        max_seq_len ffn_act_fn moe_jitter_eps moe_loss_weight moe_normalize_expert_weights
        uniform_expert_assignment
        """.split()  # noqa: SIM905
    )

    def to_model(self, name: str) -> Model:
        """Return the shape: no biases anywhere."""
        return self.mixture(name, self.grouped_query(bias=False, output_bias=False))


class Grok1(Mixture):
    """Grok-1: norms before and after every block, a tied table."""

    name = "grok-1"
    architectures = ("Grok1ModelForCausalLM", "Grok1ForCausalLM", "GrokForCausalLM")
    model_types = ("grok1", "grok")

    unused = frozenset(
        """
        attn_output_multiplier max_attn_value embedding_multiplier_scale output_multiplier_scale
        """.split()  # noqa: SIM905
    )

    tie_word_embeddings: bool = True

    def to_model(self, name: str) -> Model:
        """Return the shape: no biases anywhere."""
        attention = self.grouped_query(bias=False, output_bias=False)
        return replace(self.mixture(name, attention), post_norms=True)


class Arctic(Mixture):
    """Snowflake Arctic: a dense network of the hidden size next to the experts of each layer."""

    name = "arctic"
    architectures = ("ArcticForCausalLM",)

    unused = frozenset(
        """
        moe_train_capacity_factor moe_eval_capacity_factor moe_min_capacity moe_token_dropping
        enable_expert_tensor_parallelism enc_index quantization num_shared_experts
        """.split()  # noqa: SIM905
    )
    windowed = False

    moe_layer_frequency: Annotated[int, Field(ge=1, le=4096)] = 2
    use_residual: bool = False
    parallel_attn_mlp_res: bool = False

    def to_model(self, name: str) -> Model:
        """Return the shape; layers without experts are dense, as wide as an expert."""
        every, layers = self.moe_layer_frequency, range(self.num_hidden_layers)
        residual = self.use_residual or self.parallel_attn_mlp_res
        return replace(
            self.mixture(name, self.grouped_query(bias=False, output_bias=False)),
            moe_layers=tuple((layer + 1) % every == 0 for layer in layers),
            ffn_size=self.intermediate_size,
            shared_expert_ffn_size=self.hidden_size if residual else 0,
        )


class Glm4Moe(SharedExperts, GroupedQuery):
    """GLM-4.5 and 4.6: dense first layers, a shared expert, biases on query, key and value."""

    name = "glm4_moe"
    architectures = ("Glm4MoeForCausalLM",)
    model_types = ("glm4v_moe_text",)
    # 32B published for 355B, 12B for 106B: 32.0B and 12.2B without tables, 33.6B and 13.4B with
    active_embeddings = "none"

    attention_bias: bool = False
    qk_norm: bool = False
    n_group: Experts | None = 1
    topk_group: Experts | None = 1

    @model_validator(mode="after")
    def _check_groups(self) -> Glm4Moe:
        self.groups()
        return self

    def to_model(self, name: str) -> Model:
        """Return the shape; a correction per expert balances the load."""
        attention = self.grouped_query(bias=self.attention_bias, output_bias=False)
        attention = replace(attention, qk_norm=self.qk_norm)
        model = self.with_experts(self.base_model(name, attention), self.groups())
        return replace(model, router_bias=True)


class MiniMaxM2(Mixture):
    """MiniMax-M2: attention over all tokens in every layer; norms over all heads together."""

    name = "minimax_m2"
    architectures = ("MiniMaxM2ForCausalLM",)
    # 10B published: 9.8B without tables, 11.0B with both
    active_embeddings = "none"

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {
        "num_nextn_predict_layers": ("num_mtp_modules",),
    }
    unused = frozenset(
        """
        use_mtp mtp_transformer_layers mlp_intermediate_size use_grouped_topk swa_rope_theta
        max_model_len
        """.split()  # noqa: SIM905
    )
    # its first files call themselves what Text-01 does
    model_types = ("minimax",)

    qk_norm: bool = True
    qk_norm_type: Literal["per_layer", "per_head"] = "per_layer"
    use_routing_bias: bool = True
    attn_type_list: Annotated[list[Literal[1]], Field(max_length=4096)] | None = None

    def to_model(self, name: str) -> Model:
        """Return the shape: no biases but those that balance the load."""
        attention = replace(
            self.grouped_query(bias=False, output_bias=False),
            qk_norm=self.qk_norm,
            qk_norm_per_head=self.qk_norm_type == "per_head",
        )
        return replace(self.mixture(name, attention), router_bias=self.use_routing_bias)
