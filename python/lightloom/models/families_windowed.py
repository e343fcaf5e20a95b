"""Families whose layers see all tokens, a window of them, or keys that an indexer chooses.

MiMo-V2, Step 3.5 and 3.7, MiniMax-M3, Gemma 4.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from lightloom.inputs.strict import Strict
from lightloom.models.families_routed import Routed, with_expert_width
from lightloom.models.family import (
    Experts,
    Flags,
    GroupedQuery,
    Heads,
    OptionalWidth,
    Width,
    check_each,
    check_top_k,
)
from lightloom.models.model import Attention, Model


class MiMoV2(Routed):
    """MiMo-V2: values narrower than keys; other heads, and sinks, in layers with windows."""

    name = "mimo_v2_flash"
    architectures = ("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM")
    model_types = ("mimo_v2",)
    balanced = True

    unused = frozenset(
        """
        sliding_window_size attention_chunk_size swa_rope_theta attention_value_scale topk_method
        attention_projection_layout
        """.split()  # noqa: SIM905
    )

    v_head_dim: Width
    hybrid_layer_pattern: Flags | None = None
    moe_layer_freq: Flags | None = None  # type: ignore[assignment]
    swa_num_attention_heads: Heads | None = None
    swa_num_key_value_heads: Heads | None = None
    swa_head_dim: Width | None = None
    swa_v_head_dim: Width | None = None
    add_swa_attention_sink_bias: bool = True
    add_full_attention_sink_bias: bool = False

    @model_validator(mode="after")
    def _check_lists(self) -> MiMoV2:
        check_each("hybrid_layer_pattern", self.hybrid_layer_pattern, self.num_hidden_layers)
        check_each("moe_layer_freq", self.moe_layer_freq, self.num_hidden_layers)
        if self.hybrid_layer_pattern is None and self.layer_types is None:
            raise ValueError("hybrid_layer_pattern or layer_types is needed: which have windows")
        return self

    def mixtures(self) -> tuple[bool, ...]:
        """Those listed, or all but the first."""
        if self.mlp_layer_types is not None:
            return super().mixtures()
        if self.moe_layer_freq is not None:
            return tuple(map(bool, self.moe_layer_freq))
        return tuple(layer > 0 for layer in range(self.num_hidden_layers))

    def windowed_layers(self) -> tuple[bool, ...]:
        """Those that the pattern marks."""
        return tuple(map(bool, self.hybrid_layer_pattern or ()))

    def attentions(self) -> tuple[Attention, ...]:
        """Whole attention, or that of a window, which has its own heads."""
        full = replace(
            self.softmax(),
            v_head_dim=self.v_head_dim,
            output_bias=False,
            sinks=self.add_full_attention_sink_bias,
        )
        local = replace(
            full,
            num_heads=self.swa_num_attention_heads or full.num_heads,
            num_kv_heads=self.swa_num_key_value_heads or 2 * full.num_kv_heads,
            head_dim=self.swa_head_dim or full.head_dim,
            v_head_dim=self.swa_v_head_dim or full.v_head_dim,
            sinks=self.add_swa_attention_sink_bias,
        )
        slides = self.windowed_layers()
        if self.layer_types is not None:
            slides = tuple(kind == "sliding_attention" for kind in self.layer_types)
        return tuple(local if slid else full for slid in slides)


class OtherHeads(Strict):
    """Step's heads of layers with windows."""

    attention_type: Literal["sliding_attention"] = "sliding_attention"
    num_attention_heads: Heads
    num_attention_groups: Heads | None = None
    head_dim: Width | None = None
    true_head_dim: Width | None = None


class Step35(Routed):
    """Step 3.5 and 3.7 Flash: more query heads in layers with windows, a gate per head."""

    name = "step3p5"
    architectures = (
        "Step3p5ForCausalLM",
        "Step3p7FlashForCausalLM",
        "Step3p7ForConditionalGeneration",
    )
    model_types = ("step3p7", "step3p7_text")
    head_norms = True
    balanced = True
    # 11B published, of 196B
    active_embeddings = "output"

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {
        "num_key_value_heads": ("num_attention_groups",),
        "num_experts": ("moe_num_experts",),
        "num_experts_per_tok": ("moe_top_k",),
        "shared_expert_intermediate_size": ("share_expert_dim", "share_expert_dims"),
        "num_nextn_predict_layers": ("num_mtp_layers",),
    }
    unused = frozenset(
        """
        moe_layer_offset norm_expert_weight moe_router_activation moe_router_scaling_factor
        need_fp32_gate use_moe sink yarn_only_types use_rope_layers partial_rotary_factors
        swiglu_limits swiglu_limits_shared zero_centered use_qk_norm qk_norm mtp_layer_types
        mtp_mlp_layer_types query_pre_attn_scalar moe_every_n_layer att_impl_type
        """.split()  # noqa: SIM905
    )

    #: numbers of the layers with experts, with commas between them
    moe_layers_enum: Annotated[str, Field(pattern=r"^[0-9, ]*$", max_length=1 << 16)] | None = None
    use_moe_router_bias: bool = True
    use_head_wise_attn_gate: bool = True
    attention_other_setting: OtherHeads | None = None
    num_sliding_attention_heads: Heads | None = None
    mlp_bias: Literal[False] = False

    @model_validator(mode="before")
    @classmethod
    def _without_predictors(cls, values: Any) -> Any:
        """The lists go on over the layers of multi-token prediction."""
        types, layers = values.get("layer_types"), values.get("num_hidden_layers")
        if isinstance(types, list) and isinstance(layers, int) and len(types) > layers:
            values = {**values, "layer_types": types[:layers]}
        return values

    def mixtures(self) -> tuple[bool, ...]:
        """Those that are listed, in either of two ways, or all after the dense ones."""
        if self.moe_layers_enum is None or self.mlp_layer_types is not None:
            return super().mixtures()
        listed = {int(number) for number in self.moe_layers_enum.split(",") if number.strip()}
        return tuple(layer in listed for layer in range(self.num_hidden_layers))

    def attentions(self) -> tuple[Attention, ...]:
        """Layers with windows have other query heads."""
        full = replace(self.softmax(), head_gate=self.use_head_wise_attn_gate)
        other = self.attention_other_setting
        local = replace(
            full,
            num_heads=(other and other.num_attention_heads)
            or self.num_sliding_attention_heads
            or full.num_heads,
        )
        types = self.layer_types or ["full_attention"] * self.num_hidden_layers
        return tuple(local if kind == "sliding_attention" else full for kind in types)


class SparseTable(Strict):
    """MiniMax-M3's table of how keys are chosen."""

    use_sparse_attention: bool = True
    sparse_attention_freq: Flags
    sparse_disable_index_value: Flags | None = None
    sparse_num_index_heads: Heads
    sparse_index_dim: Width
    sparse_block_size: Width
    sparse_topk_blocks: Heads
    sparse_init_block: OptionalWidth = 0
    sparse_local_block: OptionalWidth = 0
    sparse_score_type: str = "max"


class MiniMaxM3(Routed):
    """MiniMax-M3: an indexer chooses blocks of keys for each group of queries."""

    name = "minimax_m3"
    architectures = (
        "MiniMaxM3ForCausalLM",
        "MiniMaxM3SparseForCausalLM",
        "MiniMaxM3SparseForConditionalGeneration",
    )
    model_types = ("minimax_m3_vl_text", "minimax_m3_text", "minimax_m3_vl")
    kinds = ("full_attention", "minimax_m3_sparse")
    # 23B published: 23.5B without tables and routers
    active_embeddings = "none"
    active_router = False
    head_norms = True
    balanced = True

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {
        "shared_expert_intermediate_size": ("shared_intermediate_size",),
    }
    unused = frozenset(
        """
        num_mtp_modules mtp_transformer_layers use_gemma_norm attention_output_gate max_model_len
        rotary_dim use_mtp
        """.split()  # noqa: SIM905
    )

    moe_intermediate_size: Width = 0
    dense_intermediate_size: Width
    moe_layer_freq: Flags | None = None  # type: ignore[assignment]
    num_shared_experts: Annotated[int, Field(ge=0, le=1 << 10)] | None = 1
    sparse_attention_config: SparseTable | None = None
    attention_output_gate: Literal[False] = False
    qk_norm: Literal[True] = True
    qk_norm_type: Literal["per_head"] = "per_head"
    use_routing_bias: bool = True

    @model_validator(mode="before")
    @classmethod
    def _widths(cls, values: Any) -> Any:
        return with_expert_width(values)

    @model_validator(mode="after")
    def _check_lists(self) -> MiniMaxM3:
        check_each("moe_layer_freq", self.moe_layer_freq, self.num_hidden_layers)
        if (table := self.sparse_attention_config) is not None:
            freq = table.sparse_attention_freq
            check_each("sparse_attention_freq", freq, self.num_hidden_layers)
        return self

    def mixtures(self) -> tuple[bool, ...]:
        """Those listed, or all."""
        if self.mlp_layer_types is not None:
            return super().mixtures()
        return tuple(map(bool, self.moe_layer_freq or (1,) * self.num_hidden_layers))

    def attentions(self) -> tuple[Attention, ...]:
        """Whole attention, or to chosen blocks."""
        full, table = self.softmax(), self.sparse_attention_config
        if table is None or not table.use_sparse_attention:
            return (full,) * self.num_hidden_layers
        sparse = replace(
            full,
            index_heads=table.sparse_num_index_heads,
            index_head_dim=table.sparse_index_dim,
            index_top_k=table.sparse_topk_blocks * table.sparse_block_size,
        )
        return tuple(sparse if flag else full for flag in table.sparse_attention_freq)

    def to_model(self, name: str) -> Model:
        """Return the shape: routed experts of ``intermediate_size`` and wider dense layers."""
        return replace(super().to_model(name), ffn_size=self.dense_intermediate_size)


class Gemma4(GroupedQuery):
    """Gemma 4: windows but in every sixth layer; with experts, a dense network next to them."""

    name = "gemma4"
    architectures = ("Gemma4ForConditionalGeneration", "Gemma4ForCausalLM")
    model_types = ("gemma4_text",)

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {"num_experts_per_tok": ("top_k_experts",)}
    unused = frozenset(
        """
        final_logit_softcapping vocab_size_per_layer_input use_bidirectional_attention
        expert_intermediate_size num_kv_shared_layers
        """.split()  # noqa: SIM905
    )

    intermediate_size: Width
    tie_word_embeddings: bool = True
    attention_bias: bool = False
    attention_k_eq_v: bool = False
    global_head_dim: Width | None = None
    num_global_key_value_heads: Heads | None = None
    enable_moe_block: bool = False
    num_experts: Experts | None = None
    num_experts_per_tok: Experts | None = None
    moe_intermediate_size: Width | None = None
    hidden_size_per_layer_input: Annotated[int, Field(ge=0, le=0)] | None = None
    use_double_wide_mlp: Literal[False] = False
    num_kv_shared_layers: Annotated[int, Field(ge=0, le=0)] = 0

    @model_validator(mode="after")
    def _check_experts(self) -> Gemma4:
        if self.layer_types is None:
            raise ValueError("layer_types is needed: which layers have windows")
        if self.enable_moe_block:
            if not (self.num_experts and self.num_experts_per_tok and self.moe_intermediate_size):
                raise ValueError(
                    "enable_moe_block needs num_experts, top_k_experts and moe_intermediate_size"
                )
            check_top_k(self.num_experts_per_tok, self.num_experts)
        return self

    def to_model(self, name: str) -> Model:
        """Return the shape: norms before and after every block, values that are keys."""
        bias = self.attention_bias
        local = replace(self.grouped_query(bias=bias, output_bias=bias), qk_norm=True)
        whole = replace(
            local,
            head_dim=self.global_head_dim or local.head_dim,
            num_kv_heads=self.num_global_key_value_heads or local.num_kv_heads,
            kv_projections=1 if self.attention_k_eq_v else 2,
        )
        routed = self.enable_moe_block
        return replace(
            self.base_model(name, local),
            attention_by_layer=tuple(
                local if kind == "sliding_attention" else whole for kind in self.layer_types or ()
            ),
            moe_layers=(routed,) * self.num_hidden_layers,
            ffn_size=self.intermediate_size,
            num_experts=self.num_experts or 0,
            experts_per_token=self.num_experts_per_tok or 0,
            expert_ffn_size=self.moe_intermediate_size or 0,
            shared_expert_ffn_size=self.intermediate_size if routed else 0,
            post_norms=True,
        )
