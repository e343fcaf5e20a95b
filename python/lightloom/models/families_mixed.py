"""Families whose layers differ in how tokens see each other: Qwen3-Next, MiniMax, Llama 4."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from lightloom.models.families_moe import Mixture, QwenMoe
from lightloom.models.family import (
    Experts,
    Flags,
    GroupedQuery,
    Heads,
    LayerIndices,
    LayerType,
    OptionalWidth,
    Width,
    check_top_k,
)
from lightloom.models.model import Attention, EmbeddingConvention, Model

Interval = Annotated[int, Field(ge=1, le=4096)]

#: noted on a model with linear attention
LINEAR_NOTE = (
    "linear attention: FLOPs and bytes of its chunked form, at efficiencies measured for softmax "
    "attention and element-wise kernels"
)


def _interval_types(layers: int, interval: int, other: LayerType) -> list[LayerType]:
    """Full attention in every ``interval``-th layer."""
    return ["full_attention" if (layer + 1) % interval == 0 else other for layer in range(layers)]


class Qwen3Next(QwenMoe):
    """Qwen3-Next: gated delta rule in three of four layers, gated softmax attention in others."""

    name = "qwen3_next"
    architectures: ClassVar[tuple[str, ...]] = ("Qwen3NextForCausalLM",)
    kinds = ("full_attention", "linear_attention")
    aliases: ClassVar[dict[str, tuple[str, ...]]] = {
        "num_nextn_predict_layers": ("mtp_num_hidden_layers",),
    }
    unused = frozenset({"mamba_ssm_dtype", "mtp_use_dedicated_embeddings", "output_gate_type"})
    # 3B published for 80B: 3.2B without tables, 3.9B with both
    active_embeddings: ClassVar[EmbeddingConvention] = "none"

    attention_bias: bool = False
    attn_output_gate: Literal[True] = True
    shared_expert_intermediate_size: OptionalWidth
    full_attention_interval: Interval = 4
    linear_num_key_heads: Heads
    linear_num_value_heads: Heads
    linear_key_head_dim: Width
    linear_value_head_dim: Width
    linear_conv_kernel_dim: Annotated[int, Field(ge=0, le=1024)] = 4

    @model_validator(mode="after")
    def _check_linear_heads(self) -> Qwen3Next:
        values, keys = self.linear_num_value_heads, self.linear_num_key_heads
        if values % keys:
            raise ValueError(
                f"linear_num_key_heads {keys} does not divide linear_num_value_heads {values}"
            )
        return self

    def to_model(self, name: str) -> Model:
        """Return the shape: a shared expert with a gate in every mixture."""
        bias = self.attention_bias
        softmax = replace(
            self.grouped_query(bias=bias, output_bias=bias), qk_norm=True, output_gate=True
        )
        linear = Attention(
            kind="delta",
            num_heads=self.linear_num_value_heads,
            num_kv_heads=self.linear_num_key_heads,
            head_dim=self.linear_value_head_dim,
            key_head_dim=self.linear_key_head_dim,
            conv_width=self.linear_conv_kernel_dim,
            output_gate=True,
        )
        types = self.layer_types or _interval_types(
            self.num_hidden_layers, self.full_attention_interval, "linear_attention"
        )
        return replace(
            self.mixture(name, softmax),
            attention_by_layer=tuple(
                linear if kind == "linear_attention" else softmax for kind in types
            ),
            shared_expert_ffn_size=self.shared_expert_intermediate_size,
            shared_expert_gate=self.shared_expert_intermediate_size > 0,
        )

    def notes(self) -> tuple[str, ...]:
        """What of the configuration the shape leaves out, or takes from elsewhere."""
        return (*super().notes(), LINEAR_NOTE)


class Qwen35Moe(Qwen3Next):
    """Qwen3.5 and Qwen3.6 with experts: Qwen3-Next's layers, every one a mixture."""

    name = "qwen3_5_moe"
    architectures = ("Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM")
    model_types = ("qwen3_5_moe_text",)
    # 17B published for 397B, 10B for 122B, 3B for 35B: 17.2B, 9.7B, 3.4B with both tables
    active_embeddings = "both"

    #: no layer uses it
    intermediate_size: OptionalWidth = 0


class Qwen35(Qwen35Moe):
    """Qwen3.5 and Qwen3.6 without experts."""

    name = "qwen3_5"
    architectures = ("Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM")
    model_types = ("qwen3_5_text",)

    intermediate_size: Width
    moe_intermediate_size: OptionalWidth = 0
    shared_expert_intermediate_size: OptionalWidth = 0
    num_experts: Annotated[int, Field(ge=0, le=0)] = 0
    num_experts_per_tok: Annotated[int, Field(ge=0, le=0)] = 0

    def to_model(self, name: str) -> Model:
        """Return the shape: every layer dense."""
        return replace(super().to_model(name), moe_layers=(False,) * self.num_hidden_layers)


class MiniMax(Mixture):
    """MiniMax-Text-01 and M1: lightning attention, softmax attention in every eighth layer."""

    name = "minimax"
    architectures = ("MiniMaxForCausalLM", "MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM")
    model_types = ("minimax_text_01", "minimax_m1")
    kinds = ("full_attention", "linear_attention")
    # 45.9B published: as much without tables, 48.4B with both
    active_embeddings = "none"

    attn_type_list: Flags | None = None

    @model_validator(mode="after")
    def _check_types(self) -> MiniMax:
        flags, types = self.attn_type_list, self.layer_types
        if flags is None and types is None:
            raise ValueError("attn_type_list or layer_types is needed: which layers are softmax")
        if flags is not None and len(flags) != self.num_hidden_layers:
            raise ValueError(
                f"attn_type_list has {len(flags)} entries, num_hidden_layers is "
                f"{self.num_hidden_layers}; expected one entry per layer"
            )
        if flags is not None and types is not None and self._softmax_flags(types) != flags:
            raise ValueError("attn_type_list and layer_types disagree; keep one")
        return self

    @staticmethod
    def _softmax_flags(types: list[LayerType]) -> list[int]:
        return [int(kind == "full_attention") for kind in types]

    def to_model(self, name: str) -> Model:
        """Return the shape: lightning attention has a key head per value head, and a gate."""
        softmax = self.grouped_query(bias=False, output_bias=False)
        lightning = Attention(
            kind="lightning",
            num_heads=softmax.num_heads,
            num_kv_heads=softmax.num_heads,
            head_dim=softmax.head_dim,
            key_head_dim=softmax.head_dim,
            output_gate=True,
        )
        flags = self.attn_type_list or self._softmax_flags(self.layer_types or [])
        return replace(
            self.mixture(name, softmax),
            attention_by_layer=tuple(softmax if flag else lightning for flag in flags),
        )

    def notes(self) -> tuple[str, ...]:
        """What of the configuration the shape leaves out, or takes from elsewhere."""
        return (*super().notes(), LINEAR_NOTE)


class Llama4(GroupedQuery):
    """Llama 4: dense layers and mixtures in turn, attention in chunks but in every fourth layer."""

    name = "llama4"
    architectures = ("Llama4ForConditionalGeneration", "Llama4ForCausalLM")
    model_types = ("llama4_text",)
    nested = ("text_config",)
    kinds = ("full_attention", "chunked_attention")
    unused = frozenset(
        """
        boi_token_index eoi_token_index image_token_index attn_scale attn_temperature_tuning
        floor_scale for_llm_compressor cache_implementation
        """.split()  # noqa: SIM905
    )

    #: width of routed and shared experts, and of dense layers
    intermediate_size: Width
    intermediate_size_mlp: Width
    num_experts: Experts
    num_experts_per_tok: Experts
    interleave_moe_layer_step: Interval = 1
    moe_layers: LayerIndices | None = None
    attention_bias: bool = False
    attention_chunk_size: Width | None = None
    no_rope_layers: Flags | None = None
    no_rope_layer_interval: Interval = 4
    #: its norms of queries and keys have no weights
    qk_norm: bool = True
    vision_config: Any = None

    @model_validator(mode="after")
    def _check_experts(self) -> Llama4:
        check_top_k(self.num_experts_per_tok, self.num_experts)
        if self.no_rope_layers and len(self.no_rope_layers) != self.num_hidden_layers:
            raise ValueError(
                f"no_rope_layers has {len(self.no_rope_layers)} entries, num_hidden_layers is "
                f"{self.num_hidden_layers}; expected one entry per layer, or none"
            )
        return self

    def to_model(self, name: str) -> Model:
        """Return the shape: a shared expert in each mixture."""
        bias, layers = self.attention_bias, self.num_hidden_layers
        full = self.grouped_query(bias=bias, output_bias=bias)
        chunked = replace(full, span=self.attention_chunk_size or 0)
        step = self.interleave_moe_layer_step
        mixtures = set(self.moe_layers or range(step - 1, layers, step))
        return replace(
            self.base_model(name, full),
            attention_by_layer=tuple(
                full if kind == "full_attention" else chunked for kind in self._types()
            ),
            moe_layers=tuple(layer in mixtures for layer in range(layers)),
            ffn_size=self.intermediate_size_mlp,
            num_experts=self.num_experts,
            experts_per_token=self.num_experts_per_tok,
            expert_ffn_size=self.intermediate_size,
            shared_expert_ffn_size=self.intermediate_size,
        )

    def _types(self) -> list[LayerType]:
        """Layers without rotary positions see all tokens; in the list, 0 stands for them."""
        if self.layer_types:
            return list(self.layer_types)
        if self.no_rope_layers:
            return [
                "chunked_attention" if flag else "full_attention" for flag in self.no_rope_layers
            ]
        return _interval_types(
            self.num_hidden_layers, self.no_rope_layer_interval, "chunked_attention"
        )

    def notes(self) -> tuple[str, ...]:
        """What of the configuration the shape leaves out."""
        seen = () if self.vision_config is None else ("vision encoder left out: text only",)
        return (*super().notes(), *seen)
