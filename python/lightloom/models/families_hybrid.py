"""Families with layers of Mamba or of linear attention next to softmax attention.

In some, a layer is an attention, a Mamba or a feed-forward alone. Shapes as in the reference
implementations (Hugging Face transformers); chunked and scanned products in ``attention_work``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from lightloom.inputs.strict import Strict
from lightloom.models.families_latent import Deepseek
from lightloom.models.families_mixed import LINEAR_NOTE, Interval
from lightloom.models.families_moe import Mixture
from lightloom.models.family import (
    Experts,
    Family,
    GroupedQuery,
    Heads,
    LayerIndices,
    OptionalWidth,
    Width,
    check_each,
    check_top_k,
)
from lightloom.models.model import NO_ATTENTION, Attention, Model

Kernel = Annotated[int, Field(ge=0, le=1024)]
#: letters of Nemotron-H's pattern, and what its newer files call them
_LETTERS = {"M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}
Pattern = Annotated[str, Field(pattern=r"^[M*E-]+$", max_length=4096)]


class NemotronH(GroupedQuery):
    """Nemotron-H and Nemotron 3: Mamba 2, attention, feed-forward and experts, each alone."""

    name = "nemotron_h"
    architectures = ("NemotronHForCausalLM",)
    kinds = ("mamba", "attention", "moe", "mlp")
    # published for Nano 3.2B, 3.6B with embeddings; for Super 12.1B and 12.7B; for Ultra 55B
    active_embeddings = "output"
    active_router = False

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {
        "layer_types": ("layers_block_type",),
        "head_dim": ("attention_head_dim",),
    }
    unused = frozenset(
        """
        chunk_size expand mamba_hidden_act mlp_hidden_act mamba_ssm_cache_dtype num_logits_to_keep
        rescale_prenorm_residual residual_in_fp32 time_step_floor time_step_limit time_step_max
        time_step_min time_step_rank use_mamba_kernels moe_shared_expert_overlap
        mtp_hybrid_override_pattern mtp_layers_block_type topk_group n_group num_shared_experts
        """.split()  # noqa: SIM905
    )

    num_hidden_layers: Annotated[int, Field(ge=1, le=4096)] = 0
    hybrid_override_pattern: Pattern | None = None
    intermediate_size: Width
    moe_intermediate_size: OptionalWidth = 0
    moe_shared_expert_intermediate_size: OptionalWidth = 0
    moe_latent_size: OptionalWidth | None = None
    num_experts: Annotated[int, Field(ge=0, le=1 << 16)] = 0
    num_experts_per_tok: Annotated[int, Field(ge=0, le=1 << 16)] = 0
    mamba_num_heads: Heads
    mamba_head_dim: Width
    n_groups: Heads
    ssm_state_size: Width
    conv_kernel: Kernel = 4
    use_bias: Literal[False] = False
    mamba_proj_bias: Literal[False] = False
    use_conv_bias: Literal[True] = True

    @model_validator(mode="before")
    @classmethod
    def _types(cls, values: Any) -> Any:
        """The pattern's letters, or the list that is as long as there are layers."""
        pattern, types = values.get("hybrid_override_pattern"), values.get("layer_types")
        if isinstance(pattern, str) and types is None and set(pattern) <= _LETTERS.keys():
            types = [_LETTERS[letter] for letter in pattern]
            values = {**values, "layer_types": types}
        if isinstance(types, list) and values.get("num_hidden_layers") is None:
            values = {**values, "num_hidden_layers": len(types)}
        return values

    @model_validator(mode="after")
    def _check_layers(self) -> NemotronH:
        if self.layer_types is None:
            raise ValueError("hybrid_override_pattern or layers_block_type is needed")
        if "moe" in self.layer_types:
            if not (self.num_experts and self.num_experts_per_tok and self.moe_intermediate_size):
                raise ValueError(
                    "layers of experts need n_routed_experts, num_experts_per_tok and "
                    "moe_intermediate_size"
                )
            check_top_k(self.num_experts_per_tok, self.num_experts)
        return self

    def to_model(self, name: str) -> Model:
        """Return the shape: every layer of one kind, without gates in its feed-forwards."""
        mixing = {
            "attention": self.grouped_query(bias=False, output_bias=False),
            "mamba": Attention(
                kind="mamba2",
                num_heads=self.mamba_num_heads,
                num_kv_heads=self.n_groups,
                head_dim=self.mamba_head_dim,
                key_head_dim=self.ssm_state_size,
                conv_width=self.conv_kernel,
                output_gate=True,
            ),
        }
        types = self.layer_types or []
        return replace(
            self.base_model(name, mixing["attention"]),
            attention_by_layer=tuple(mixing.get(kind, NO_ATTENTION) for kind in types),
            moe_layers=tuple(kind == "moe" for kind in types),
            ffn_by_layer=tuple(self.intermediate_size * (kind == "mlp") for kind in types),
            ffn_size=self.intermediate_size if "mlp" in types else 0,
            gated_ffn=False,
            num_experts=self.num_experts,
            experts_per_token=self.num_experts_per_tok,
            expert_ffn_size=self.moe_intermediate_size,
            expert_hidden_size=self.moe_latent_size or 0,
            shared_expert_ffn_size=self.moe_shared_expert_intermediate_size,
            router_bias=True,
        )

    def notes(self) -> tuple[str, ...]:
        """What of the configuration the shape leaves out, or takes from elsewhere."""
        return (*super().notes(), LINEAR_NOTE)


class NasAttention(Strict):
    """Attention of a layer that a search chose: so many query heads per key-value head, or none."""

    n_heads_in_group: Heads | None = None
    no_op: bool = False
    replace_with_linear: Literal[False] = False
    window_length: None = None
    num_sink_tokens: None = None
    sparsify: None = None
    unshifted_sink: Literal[False] = False
    use_prefill_window_in_sink_attention: bool = False


class NasNetwork(Strict):
    """Feed-forward of a layer that a search chose: its width in hidden sizes, or none."""

    ffn_mult: Annotated[float, Field(gt=0, le=64)] | None = None
    no_op: bool = False
    replace_with_linear: Literal[False] = False
    sparsify: None = None


class NasBlock(Strict):
    """A layer that a search chose."""

    attention: NasAttention
    ffn: NasNetwork


class NemotronNas(Family):
    """Llama-Nemotron: layers of Llama without attention, or with narrower feed-forwards."""

    name = "nemotron-nas"
    architectures = ("DeciLMForCausalLM",)

    unused = frozenset({"intermediate_size", "num_key_value_heads"})

    block_configs: Annotated[list[NasBlock], Field(max_length=4096)]
    attention_bias: Literal[False] = False
    mlp_bias: Literal[False] = False

    @model_validator(mode="after")
    def _check_blocks(self) -> NemotronNas:
        check_each("block_configs", self.block_configs, self.num_hidden_layers)
        for block in self.block_configs:
            group = block.attention.n_heads_in_group
            if not block.attention.no_op and (not group or self.num_attention_heads % group):
                raise ValueError(
                    f"n_heads_in_group {group} does not divide num_attention_heads "
                    f"{self.num_attention_heads}"
                )
        return self

    def to_model(self, name: str) -> Model:
        """Return the shape: widths in steps of 256, two thirds of the multiple."""
        heads, hidden = self.num_attention_heads, self.hidden_size
        attentions = tuple(
            NO_ATTENTION
            if block.attention.no_op
            else Attention(
                kind="gqa",
                num_heads=heads,
                num_kv_heads=heads // (block.attention.n_heads_in_group or 1),
                head_dim=hidden // heads,
            )
            for block in self.block_configs
        )
        multiples = [
            0 if block.ffn.no_op else block.ffn.ffn_mult or 0 for block in self.block_configs
        ]
        widths = tuple(-(-int(2 * multiple * hidden / 3) // 256) * 256 for multiple in multiples)
        return Model(
            name=name,
            family=self.name,
            hidden_size=hidden,
            vocab_size=self.vocab_size,
            attention=attentions[0],
            attention_by_layer=attentions,
            moe_layers=(False,) * self.num_hidden_layers,
            ffn_size=max(widths),
            ffn_by_layer=widths,
            tied_embeddings=self.tie_word_embeddings,
            notes=self.notes(),
        )


class Jamba(Mixture):
    """Jamba: Mamba 1 but in one layer of a period, experts in one of another."""

    name = "jamba"
    architectures = ("JambaForCausalLM",)

    unused = frozenset(
        """
        use_mamba_kernels use_mambapy use_associative_scan num_logits_to_keep
        calc_logits_for_entire_prompt
        """.split()  # noqa: SIM905
    )

    attn_layer_period: Interval = 8
    attn_layer_offset: Annotated[int, Field(ge=0, le=4096)] = 4
    expert_layer_period: Interval = 2
    expert_layer_offset: Annotated[int, Field(ge=0, le=4096)] = 1
    mamba_d_state: Width = 16
    mamba_d_conv: Kernel = 4
    mamba_expand: Annotated[int, Field(ge=1, le=1 << 10)] = 2
    #: ``auto`` is a sixteenth of the hidden size, rounded up
    mamba_dt_rank: Width | Literal["auto"] = "auto"
    mamba_conv_bias: Literal[True] = True
    mamba_proj_bias: Literal[False] = False
    mamba_inner_layernorms: Literal[True] = True

    def to_model(self, name: str) -> Model:
        """Return the shape: feed-forwards between the experts are as wide as one of them."""
        softmax = self.grouped_query(bias=False, output_bias=False)
        rank = self.mamba_dt_rank
        mamba = Attention(
            kind="mamba",
            num_heads=self.mamba_expand * self.hidden_size,
            num_kv_heads=1,
            head_dim=1,
            key_head_dim=self.mamba_d_state,
            decay_rank=-(-self.hidden_size // 16) if rank == "auto" else rank,
            conv_width=self.mamba_d_conv,
            output_gate=True,
        )
        layers = range(self.num_hidden_layers)
        return replace(
            self.mixture(name, softmax),
            attention_by_layer=tuple(
                softmax if layer % self.attn_layer_period == self.attn_layer_offset else mamba
                for layer in layers
            ),
            moe_layers=tuple(
                layer % self.expert_layer_period == self.expert_layer_offset for layer in layers
            ),
            ffn_size=self.intermediate_size,
        )

    def notes(self) -> tuple[str, ...]:
        """What of the configuration the shape leaves out, or takes from elsewhere."""
        return (*super().notes(), LINEAR_NOTE)


class GraniteHybrid(GroupedQuery):
    """Granite 4: Mamba 2 or attention, then a shared expert and perhaps routed ones."""

    name = "granitemoehybrid"
    architectures = ("GraniteMoeHybridForCausalLM",)
    kinds = ("mamba", "attention", "full_attention", "linear_attention")

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {"layer_types": ("layers_block_type",)}
    unused = frozenset(
        """
        mamba_chunk_size time_step_limit init_method normalization_function
        position_embedding_type
        """.split()  # noqa: SIM905
    )

    intermediate_size: OptionalWidth = 0
    shared_intermediate_size: Width
    num_experts: Annotated[int, Field(ge=0, le=1 << 16)] = 0
    num_experts_per_tok: Annotated[int, Field(ge=0, le=1 << 16)] = 0
    attention_bias: bool = False
    mamba_n_heads: Heads = 128
    mamba_d_head: Width | Literal["auto"] = "auto"
    mamba_n_groups: Heads = 1
    mamba_d_state: Width = 256
    mamba_d_conv: Kernel = 4
    mamba_expand: Annotated[int, Field(ge=1, le=1 << 10)] = 2
    mamba_conv_bias: Literal[True] = True
    mamba_proj_bias: Literal[False] = False

    @model_validator(mode="after")
    def _check_experts(self) -> GraniteHybrid:
        if self.layer_types is None:
            raise ValueError("layer_types is needed: which layers are Mamba")
        check_top_k(self.num_experts_per_tok, self.num_experts)
        return self

    def to_model(self, name: str) -> Model:
        """Return the shape; without routed experts, the shared one is the feed-forward."""
        bias = self.attention_bias
        softmax = self.grouped_query(bias=bias, output_bias=bias)
        width = self.mamba_d_head
        if width == "auto":
            width = self.mamba_expand * self.hidden_size // self.mamba_n_heads
        mamba = Attention(
            kind="mamba2",
            num_heads=self.mamba_n_heads,
            num_kv_heads=self.mamba_n_groups,
            head_dim=width,
            key_head_dim=self.mamba_d_state,
            conv_width=self.mamba_d_conv,
            output_gate=True,
        )
        routed = self.num_experts > 0
        return replace(
            self.base_model(name, softmax),
            attention_by_layer=tuple(
                softmax if "attention" in kind and kind != "linear_attention" else mamba
                for kind in self.layer_types or ()
            ),
            moe_layers=(routed,) * self.num_hidden_layers,
            ffn_size=self.shared_intermediate_size,
            num_experts=self.num_experts,
            experts_per_token=self.num_experts_per_tok,
            expert_ffn_size=self.intermediate_size,
            shared_expert_ffn_size=self.shared_intermediate_size,
        )

    def notes(self) -> tuple[str, ...]:
        """What of the configuration the shape leaves out, or takes from elsewhere."""
        return (*super().notes(), LINEAR_NOTE)


class LinearTable(Strict):
    """Kimi Linear's table of which layers are which, counted from 1, and of their heads."""

    full_attn_layers: LayerIndices
    kda_layers: LayerIndices
    head_dim: Width
    num_heads: Heads
    short_conv_kernel_size: Kernel = 4
    use_full_rank_gate: bool = False
    gate_lower_bound: float | None = None


class KimiLinear(Deepseek):
    """Kimi Linear and Kimi K3: Kimi Delta Attention, latent attention in some layers."""

    name = "kimi_linear"
    architectures = ("KimiLinearForCausalLM",)

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {
        "num_experts_per_tok": ("num_experts_per_token",),
        "n_group": ("num_expert_group",),
    }
    unused = Deepseek.unused | frozenset(
        """
        model_max_length moe_renormalize moe_router_activation_func use_grouped_topk topk_method
        mla_use_nope latent_moe_use_norm activation_situ_beta activation_situ_linear_beta
        """.split()  # noqa: SIM905
    )
    # 3B published for Kimi Linear, of 48B, and 104B for K3, of 2.8T: 3.1B and 104.2B so counted
    active_embeddings = "output"
    active_router = True

    n_group: Experts | None = 1
    topk_group: Experts | None = 1
    linear_attn_config: LinearTable
    mla_use_output_gate: bool = False
    routed_expert_hidden_size: OptionalWidth | None = None
    attn_res_block_size: OptionalWidth | None = None

    @model_validator(mode="after")
    def _check_kinds(self) -> KimiLinear:
        self.groups()
        table = self.linear_attn_config
        named = sorted([*table.full_attn_layers, *table.kda_layers])
        if named != list(range(1, self.num_hidden_layers + 1)):
            raise ValueError(
                "linear_attn_config must name each layer once, from 1, in full_attn_layers or "
                "kda_layers"
            )
        return self

    def to_model(self, name: str) -> Model:
        """Return the shape; a correction per expert balances the load."""
        table = self.linear_attn_config
        rank = table.head_dim
        linear = Attention(
            kind="kda",
            num_heads=table.num_heads,
            num_kv_heads=table.num_heads,
            head_dim=table.head_dim,
            key_head_dim=table.head_dim,
            conv_width=table.short_conv_kernel_size,
            output_gate=True,
            gate_rank=0 if table.use_full_rank_gate else rank,
            decay_rank=rank,
        )
        model = self.latent_model(name, self.groups())
        latent = replace(model.attention, output_gate=self.mla_use_output_gate)
        softmax = set(table.full_attn_layers)
        return replace(
            model,
            attention=latent,
            attention_by_layer=tuple(
                latent if layer + 1 in softmax else linear
                for layer in range(self.num_hidden_layers)
            ),
            expert_hidden_size=self.routed_expert_hidden_size or 0,
            router_bias=True,
        )

    def notes(self) -> tuple[str, ...]:
        """What of the configuration the shape leaves out, or takes from elsewhere."""
        residual = ("attention residuals left out",) if self.attn_res_block_size else ()
        return (*super().notes(), LINEAR_NOTE, *residual)
