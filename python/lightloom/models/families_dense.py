"""Families without experts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from lightloom.models.family import Family, GroupedQuery, Heads, Width
from lightloom.models.model import Attention, Model


class BiasedDense(GroupedQuery):
    """Keys of dense decoders that say which of their projections have biases."""

    intermediate_size: Width
    attention_bias: bool = False
    mlp_bias: bool = False

    def to_model(self, name: str) -> Model:
        """Return the shape: every layer dense."""
        bias = self.attention_bias
        attention = self.grouped_query(bias=bias, output_bias=bias)
        return replace(
            self.base_model(name, attention),
            ffn_size=self.intermediate_size,
            ffn_bias=self.mlp_bias,
        )


class Llama(BiasedDense):
    """Dense decoder: Llama 1 to 3, Mistral."""

    name = "llama"
    architectures = ("LlamaForCausalLM", "MistralForCausalLM")
    model_types = ("mistral", "ministral", "ministral3")

    # Configurations older than grouped-query attention do not have the key.
    num_key_value_heads: Heads = 0

    @model_validator(mode="before")
    @classmethod
    def _default_heads(cls, values: Any) -> Any:
        if values.get("num_key_value_heads") is None and "num_attention_heads" in values:
            values = {**values, "num_key_value_heads": values["num_attention_heads"]}
        return values


class Nemotron(BiasedDense):
    """Nemotron-4 and Minitron: dense, squared ReLU without a gate, layer norms with bias."""

    name = "nemotron"
    architectures = ("NemotronForCausalLM",)

    def to_model(self, name: str) -> Model:
        """Return the shape: every layer dense, two matrices in each feed-forward."""
        return replace(super().to_model(name), gated_ffn=False, norm_bias=True)


class Gpt2(Family):
    """GPT-2, GPT-3 and Megatron's GPT: learned positions, biases everywhere, a tied table."""

    name = "gpt2"
    architectures = ("GPT2LMHeadModel",)

    aliases: ClassVar[dict[str, tuple[str, ...]]] = {
        "hidden_size": ("n_embd",),
        "num_hidden_layers": ("n_layer",),
        "num_attention_heads": ("n_head",),
        "intermediate_size": ("n_inner",),
    }

    #: each position has a learned vector
    n_positions: Width
    #: null is four times the hidden size
    intermediate_size: Width | None = None
    tie_word_embeddings: bool = True

    @model_validator(mode="after")
    def _check_heads(self) -> Gpt2:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"num_attention_heads {self.num_attention_heads} does not divide hidden_size "
                f"{self.hidden_size}"
            )
        return self

    def to_model(self, name: str) -> Model:
        """Return the shape: every layer dense, as many key-value heads as query heads."""
        heads = self.num_attention_heads
        attention = Attention(
            kind="gqa",
            num_heads=heads,
            num_kv_heads=heads,
            head_dim=self.hidden_size // heads,
            bias=True,
            output_bias=True,
        )
        return Model(
            name=name,
            family=self.name,
            hidden_size=self.hidden_size,
            vocab_size=self.vocab_size,
            attention=attention,
            moe_layers=(False,) * self.num_hidden_layers,
            ffn_size=self.intermediate_size or 4 * self.hidden_size,
            ffn_bias=True,
            gated_ffn=False,
            norm_bias=True,
            learned_positions=self.n_positions,
            tied_embeddings=self.tie_word_embeddings,
            notes=self.notes(),
        )


class Qwen2(GroupedQuery):
    """Qwen2 and Qwen2.5, dense, and MiMo-7B: biases on query, key and value."""

    name = "qwen2"
    architectures = ("Qwen2ForCausalLM", "MiMoForCausalLM")
    model_types = ("mimo", "qwen2_5_vl_text", "qwen2_vl_text")
    unused = frozenset({"use_mrope"})
    windowed = False

    intermediate_size: Width
    attention_bias: Literal[True] = True

    def to_model(self, name: str) -> Model:
        """Return the shape: every layer dense."""
        attention = self.grouped_query(bias=True, output_bias=False)
        return replace(self.base_model(name, attention), ffn_size=self.intermediate_size)


class Qwen3(GroupedQuery):
    """Qwen3, dense: norms on query and key heads."""

    name = "qwen3"
    architectures = ("Qwen3ForCausalLM",)
    model_types = ("qwen3_vl_text",)
    windowed = False

    intermediate_size: Width
    attention_bias: bool = False

    def to_model(self, name: str) -> Model:
        """Return the shape: every layer dense."""
        bias = self.attention_bias
        attention = replace(self.grouped_query(bias=bias, output_bias=bias), qk_norm=True)
        return replace(self.base_model(name, attention), ffn_size=self.intermediate_size)
