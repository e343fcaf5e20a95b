"""Families with multi-head latent attention: DeepSeek-V2, V3 and V3.2."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import model_validator

from lightloom.models.family import Heads, SharedExperts, Width
from lightloom.models.model import Attention, Model


class Deepseek(SharedExperts):
    """Keys of DeepSeek-V2 and V3: latent attention, dense first layers, shared experts."""

    #: latent attention has as many key-value heads as query heads, of widths given apart
    unused = frozenset({"num_key_value_heads", "head_dim"})
    # 37B published for V3, 21B for V2, 2.4B for V2-Lite: 36.5B, 20.8B, 2.448B so counted; with the
    # input table 37.4B, 21.3B, 2.66B; with the routers 36.6B, 20.9B, 2.451B
    active_embeddings = "output"
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
    architectures = ("DeepseekV3ForCausalLM",)

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
        """What of the configuration the shape leaves out, or takes from elsewhere."""
        sparse = (
            f"sparse attention: each query uses {self.index_topk} keys that an indexer chooses, or "
            "all of them where that is less work; at efficiencies measured for attention to all"
        )
        return (*super().notes(), sparse)
