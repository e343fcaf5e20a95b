"""Families with latent attention: DeepSeek-V2 to V4, GLM-4.7-Flash and 5, LongCat."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from lightloom.models.family import (
    Experts,
    GroupedQuery,
    Heads,
    LayerIndex,
    OptionalWidth,
    SharedExperts,
    Width,
    check_each,
)
from lightloom.models.model import Attention, EmbeddingConvention, Model


class Deepseek(SharedExperts):
    """Keys of DeepSeek-V2 and V3: latent attention, dense first layers, shared experts."""

    #: latent attention has as many key-value heads as query heads, of widths given apart
    unused = frozenset({"num_key_value_heads", "head_dim"})
    # 37B published for V3, 21B for V2, 2.4B for V2-Lite: 36.5B, 20.8B, 2.448B so counted; with the
    # input table 37.4B, 21.3B, 2.66B; with the routers 36.6B, 20.9B, 2.451B
    active_embeddings: ClassVar[EmbeddingConvention] = "output"
    active_router = False

    attention_bias: bool = False
    # null means a full-rank query: absent is not null, so the key is required.
    q_lora_rank: Width | None
    kv_lora_rank: Width
    qk_nope_head_dim: Width
    qk_rope_head_dim: Width
    v_head_dim: Width

    def latent(self) -> Attention:
        """Multi-head latent attention of the configured ranks and widths."""
        return Attention(
            kind="mla",
            num_heads=self.num_attention_heads,
            num_kv_heads=self.num_attention_heads,
            head_dim=self.v_head_dim,
            q_lora_rank=self.q_lora_rank or 0,
            kv_lora_rank=self.kv_lora_rank,
            qk_nope_head_dim=self.qk_nope_head_dim,
            qk_rope_head_dim=self.qk_rope_head_dim,
            v_head_dim=self.v_head_dim,
            bias=self.attention_bias,
            output_bias=self.attention_bias,
        )

    def latent_model(self, name: str, groups: tuple[int, int]) -> Model:
        """Shape with latent attention in every layer."""
        dense = Model(
            name=name,
            family=self.name,
            hidden_size=self.hidden_size,
            vocab_size=self.vocab_size,
            attention=self.latent(),
            moe_layers=(False,) * self.num_hidden_layers,
            tied_embeddings=self.tie_word_embeddings,
            mtp_modules=self.num_nextn_predict_layers or 0,
            notes=self.notes(),
        )
        return self.with_experts(dense, groups)


class DeepseekV2(Deepseek):
    """DeepSeek-V2: routing over all experts, or limited to some groups of them."""

    name = "deepseek_v2"
    architectures = ("DeepseekV2ForCausalLM",)

    topk_method: Literal["greedy", "group_limited_greedy"] = "greedy"

    @model_validator(mode="after")
    def _check_groups(self) -> DeepseekV2:
        if self.topk_method != "greedy":
            self.groups()
        return self

    def to_model(self, name: str) -> Model:
        """Return the shape; greedy routing ignores the groups."""
        return self.latent_model(name, (1, 1) if self.topk_method == "greedy" else self.groups())


class DeepseekV3(Deepseek):
    """DeepSeek-V3 and R1: balanced by a correction per expert instead of a loss."""

    name = "deepseek_v3"
    architectures: ClassVar[tuple[str, ...]] = ("DeepseekV3ForCausalLM", "Glm4MoeLiteForCausalLM")
    model_types: ClassVar[tuple[str, ...]] = ("kimi_k2", "glm4_moe_lite")

    topk_method: Literal["noaux_tc"] = "noaux_tc"

    @model_validator(mode="after")
    def _check_groups(self) -> DeepseekV3:
        self.groups()
        return self

    def to_model(self, name: str) -> Model:
        """Return the shape; the correction is one value per expert."""
        return replace(self.latent_model(name, self.groups()), router_bias=True)


class DeepseekV32(DeepseekV3):
    """DeepSeek-V3.2: an indexer chooses the keys that each query attends to."""

    name = "deepseek_v32"
    architectures = ("DeepseekV32ForCausalLM",)

    index_n_heads: Heads
    index_head_dim: Width
    index_topk: Width

    def to_model(self, name: str) -> Model:
        """Return the shape; every layer has an indexer of its own."""
        model = super().to_model(name)
        return replace(
            model,
            attention=replace(
                model.attention,
                index_heads=self.index_n_heads,
                index_head_dim=self.index_head_dim,
                index_top_k=self.index_topk,
            ),
        )

    def notes(self) -> tuple[str, ...]:
        """What the shape leaves out of the configuration, or takes from elsewhere."""
        sparse = (
            f"sparse attention: each query uses {self.index_topk} keys that an indexer chooses, or "
            "all of them where that is less work; at efficiencies measured for attention to all"
        )
        return (*super().notes(), sparse)


class GlmDsa(DeepseekV32):
    """GLM-5: as DeepSeek-V3.2; in 5.2 some layers use the keys that an earlier one chose."""

    name = "glm_moe_dsa"
    architectures = ("GlmMoeDsaForCausalLM",)
    # 40B published for GLM-5: 39.9B without tables, 40.8B with the output table
    active_embeddings = "none"
    active_router = True
    kinds = ("full_attention", "deepseek_sparse_attention")

    unused = Deepseek.unused | frozenset(
        """
        indexer_rope_interleave moe_router_dtype index_share_for_mtp_iteration index_topk_pattern
        """.split()  # noqa: SIM905
    )

    indexer_types: Annotated[list[Literal["full", "shared"]], Field(max_length=4096)] | None = None
    #: without a list: one layer in so many chooses, counted from the second after the offset
    index_topk_freq: Annotated[int, Field(ge=1, le=4096)] = 1
    index_skip_topk_offset: LayerIndex = 2

    def to_model(self, name: str) -> Model:
        """Return the shape; layers without an indexer use another one's keys."""
        model = super().to_model(name)
        shared = replace(model.attention, index_heads=0, index_head_dim=0)
        return replace(
            model,
            attention_by_layer=tuple(
                model.attention if chooses else shared for chooses in self._choosing()
            ),
        )

    def _choosing(self) -> tuple[bool, ...]:
        if self.indexer_types is not None:
            return tuple(kind == "full" for kind in self.indexer_types)
        first, every = self.index_skip_topk_offset - 1, self.index_topk_freq
        return tuple(max(layer - first, 0) % every == 0 for layer in range(self.num_hidden_layers))

    @model_validator(mode="after")
    def _check_indexers(self) -> GlmDsa:
        check_each("indexer_types", self.indexer_types, self.num_hidden_layers)
        return self


class LongcatFlash(Deepseek):
    """LongCat-Flash: two attentions and two dense networks, and experts next to all but the first.

    A layer here is an attention with its feed-forward, so that there are two for each of theirs:
    in the first, the experts and the dense network next to them. Theirs come back after the
    second, whose computation hides their all-to-alls; here nothing does.
    """

    name = "longcat_flash"
    architectures = ("LongcatFlashForCausalLM",)
    # 27B published, of 560B
    active_embeddings = "output"
    active_router = True

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {
        "num_hidden_layers": ("num_layers",),
        "intermediate_size": ("ffn_hidden_size",),
        "moe_intermediate_size": ("expert_ffn_hidden_size",),
        "num_experts_per_tok": ("moe_topk",),
    }
    unused = Deepseek.unused | frozenset(
        """
        mla_scale_q_lora mla_scale_kv_lora zero_expert_type attention_method moe_impl
        """.split()  # noqa: SIM905
    )

    zero_expert_num: OptionalWidth | None = 0
    router_bias: Literal[False] = False
    n_group: Experts | None = 1
    topk_group: Experts | None = 1

    def to_model(self, name: str) -> Model:
        """Return the shape: of a token's choices, as many cost nothing as chance makes it."""
        model = self.latent_model(name, (1, 1))
        zero, experts = self.zero_expert_num or 0, self.num_experts
        chosen = self.num_experts_per_tok * experts / (experts + zero)
        return replace(
            model,
            moe_layers=(True, False) * self.num_hidden_layers,
            experts_per_token=max(1, round(chosen)),
            shared_expert_ffn_size=self.intermediate_size,
            zero_experts=zero,
            router_bias=True,
        )

    def notes(self) -> tuple[str, ...]:
        """What the shape leaves out of the configuration, or takes from elsewhere."""
        zero = (
            f"{self.zero_expert_num} of the router's choices compute nothing: experts per token "
            "as if all were as likely; nothing hides the all-to-alls of the shortcut"
        )
        return (*super().notes(), zero) if self.zero_expert_num else super().notes()


class DeepseekV4(SharedExperts, GroupedQuery):
    """DeepSeek-V4: attention to a window and to compressed entries, hyper-connections."""

    name = "deepseek_v4"
    architectures = ("DeepseekV4ForCausalLM",)
    model_types = ("deepseek_ref",)
    kinds = (
        "sliding_attention",
        "compressed_sparse_attention",
        "heavily_compressed_attention",
    )
    windowed = False
    # 13B published for Flash, of 284B, and 49B for Pro, of 1.6T
    active_embeddings = "output"

    unused = frozenset(
        """
        hc_eps hc_sinkhorn_iters num_hash_layers topk_method compress_rope_theta expert_dtype
        intermediate_size first_k_dense_replace moe_layer_freq n_group topk_group
        """.split()  # noqa: SIM905
    )

    #: every layer has experts
    intermediate_size: OptionalWidth = 0
    head_dim: Width
    q_lora_rank: Width
    qk_rope_head_dim: Width
    o_groups: Heads
    o_lora_rank: Width
    index_n_heads: Heads
    index_head_dim: Width
    index_topk: Width
    hc_mult: Annotated[int, Field(ge=1, le=64)] = 1
    attention_bias: Literal[False] = False
    #: tokens of an entry in each layer (0: none), perhaps of the layers of prediction as well
    compress_ratios: Annotated[list[OptionalWidth], Field(max_length=4096)] | None = None
    compress_rates: dict[str, Width] | None = None

    @model_validator(mode="after")
    def _check_ratios(self) -> DeepseekV4:
        if len(self.compress_ratios or ()) < self.num_hidden_layers and self.layer_types is None:
            raise ValueError("compress_ratios or layer_types is needed, with one entry per layer")
        if not self.sliding_window:
            raise ValueError("sliding_window is needed: the tokens that are not compressed")
        return self

    def _ratios(self) -> tuple[int, ...]:
        if self.layer_types is None:
            return tuple(self.compress_ratios or ())[: self.num_hidden_layers]
        rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
        rates |= self.compress_rates or {}
        return tuple(rates.get(kind, 0) for kind in self.layer_types)

    def _attention(self, ratio: int, chosen: bool) -> Attention:
        return Attention(
            kind="csa",
            num_heads=self.num_attention_heads,
            num_kv_heads=1,
            head_dim=self.head_dim,
            q_lora_rank=self.q_lora_rank,
            o_groups=self.o_groups,
            o_lora_rank=self.o_lora_rank,
            window=self.sliding_window or 0,
            compress=ratio,
            index_heads=self.index_n_heads if chosen else 0,
            index_head_dim=self.index_head_dim if chosen else 0,
            index_top_k=self.index_topk if chosen else 0,
        )

    def to_model(self, name: str) -> Model:
        """Return the shape: an indexer where entries are of the fewest tokens."""
        ratios = self._ratios()
        shortest = min((ratio for ratio in ratios if ratio), default=0)
        attentions = tuple(
            self._attention(rate, bool(rate) and rate == shortest) for rate in ratios
        )
        model = self.with_experts(self.base_model(name, attentions[0]), (1, 1))
        return replace(
            model,
            attention_by_layer=attentions,
            router_bias=True,
            residual_streams=self.hc_mult,
        )

    def notes(self) -> tuple[str, ...]:
        """What the shape leaves out of the configuration, or takes from elsewhere."""
        return (
            *super().notes(),
            "compressed attention: at efficiencies measured for attention to all",
        )
