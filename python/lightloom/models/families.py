"""The families of models whose ``config.json`` is understood, one class each.

A family's class declares the keys it reads, with bounds; its ``to_model`` turns them into a shape.
``mapping`` chooses the class. Aliases are resolved before: keys here are the canonical ones.

Shapes follow the reference implementations (Hugging Face transformers, ``models/*/modeling_*.py``).
Left out, and noted on the model: sliding windows and multi-token prediction layers.
"""

from __future__ import annotations

import abc
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from lightloom.errors import InputError, ModelError
from lightloom.inputs.strict import Strict
from lightloom.models.model import Attention, EmbeddingConvention, Model

#: bounds far above any published model, low enough that no input costs memory or overflows
Width = Annotated[int, Field(ge=1, le=1 << 20)]
OptionalWidth = Annotated[int, Field(ge=0, le=1 << 20)]
Vocabulary = Annotated[int, Field(ge=1, le=1 << 24)]
Layers = Annotated[int, Field(ge=1, le=4096)]
LayerIndex = Annotated[int, Field(ge=0, le=4096)]
Heads = Annotated[int, Field(ge=1, le=1 << 14)]
Experts = Annotated[int, Field(ge=1, le=1 << 16)]
LayerTypes = Annotated[list[Literal["full_attention", "sliding_attention"]], Field(max_length=4096)]
LayerIndices = Annotated[list[LayerIndex], Field(max_length=4096)]


class Family(Strict, abc.ABC):
    """Keys that every family reads."""

    model_config = ConfigDict(strict=True)

    error_class: ClassVar[type[InputError]] = ModelError

    name: ClassVar[str]
    architectures: ClassVar[tuple[str, ...]]
    #: canonical key -> names that only this family's files have for it
    aliases: ClassVar[dict[str, tuple[str, ...]]] = {}
    #: keys that other families read and that shape nothing here
    unused: ClassVar[frozenset[str]] = frozenset()
    #: whether ``sliding_window`` counts where ``use_sliding_window`` is not given
    windowed: ClassVar[bool] = True
    #: how the publisher counts active parameters: embedding tables, and whether the routers
    active_embeddings: ClassVar[EmbeddingConvention] = "both"
    active_router: ClassVar[bool] = True

    hidden_size: Width
    num_hidden_layers: Layers
    vocab_size: Vocabulary
    num_attention_heads: Heads
    tie_word_embeddings: bool = False
    sliding_window: OptionalWidth | None = None
    use_sliding_window: bool | None = None
    layer_types: LayerTypes | None = None
    num_nextn_predict_layers: Annotated[int, Field(ge=0, le=4096)] | None = None

    @abc.abstractmethod
    def to_model(self, name: str) -> Model:
        """Return the shape that the keys describe."""

    @model_validator(mode="after")
    def _check_layer_types(self) -> Family:
        types = self.layer_types
        if types is not None and len(types) != self.num_hidden_layers:
            raise ValueError(
                f"layer_types has {len(types)} entries, num_hidden_layers is "
                f"{self.num_hidden_layers}; expected one entry per layer"
            )
        return self

    def notes(self) -> tuple[str, ...]:
        """What of the configuration the shape leaves out."""
        notes = []
        used = self.windowed if self.use_sliding_window is None else self.use_sliding_window
        listed = self.layer_types is None or "sliding_attention" in self.layer_types
        if self.sliding_window and used and listed:
            notes.append(
                f"sliding window of {self.sliding_window} tokens left out: attention is full"
            )
        if self.num_nextn_predict_layers:
            notes.append(
                f"{self.num_nextn_predict_layers} multi-token prediction layer(s) left out"
            )
        return tuple(notes)


class GroupedQuery(Family):
    """Families with grouped-query (or plain multi-head) attention."""

    num_key_value_heads: Heads
    head_dim: Width | None = None

    @model_validator(mode="after")
    def _check_heads(self) -> GroupedQuery:
        heads, groups = self.num_attention_heads, self.num_key_value_heads
        if heads % groups:
            raise ValueError(
                f"num_key_value_heads {groups} does not divide num_attention_heads {heads}"
            )
        if self.head_dim is None and self.hidden_size % heads:
            raise ValueError(
                f"num_attention_heads {heads} does not divide hidden_size {self.hidden_size}, "
                "and head_dim is not given"
            )
        return self

    def grouped_query(self, *, bias: bool, output_bias: bool) -> Attention:
        """Attention of the configured heads."""
        return Attention(
            kind="gqa",
            num_heads=self.num_attention_heads,
            num_kv_heads=self.num_key_value_heads,
            head_dim=self.head_dim or self.hidden_size // self.num_attention_heads,
            bias=bias,
            output_bias=output_bias,
        )

    def base_model(self, name: str, attention: Attention) -> Model:
        """Shape of the parts that all families share, as if every layer were dense."""
        return Model(
            name=name,
            family=self.name,
            hidden_size=self.hidden_size,
            vocab_size=self.vocab_size,
            attention=attention,
            moe_layers=(False,) * self.num_hidden_layers,
            tied_embeddings=self.tie_word_embeddings,
            notes=self.notes(),
        )


class Llama(GroupedQuery):
    """Dense decoder: Llama 1 to 3."""

    name = "llama"
    architectures = ("LlamaForCausalLM",)

    intermediate_size: Width
    # Configurations older than grouped-query attention do not have the key.
    num_key_value_heads: Heads = 0
    attention_bias: bool = False
    mlp_bias: bool = False

    @model_validator(mode="before")
    @classmethod
    def _default_heads(cls, values: Any) -> Any:
        if values.get("num_key_value_heads") is None and "num_attention_heads" in values:
            values = {**values, "num_key_value_heads": values["num_attention_heads"]}
        return values

    def to_model(self, name: str) -> Model:
        """Return the shape: every layer dense."""
        bias = self.attention_bias
        attention = self.grouped_query(bias=bias, output_bias=bias)
        return replace(
            self.base_model(name, attention),
            ffn_size=self.intermediate_size,
            ffn_bias=self.mlp_bias,
        )


class Nemotron(GroupedQuery):
    """Nemotron-4 and Minitron: dense, squared ReLU without a gate, layer norms with bias."""

    name = "nemotron"
    architectures = ("NemotronForCausalLM",)

    intermediate_size: Width
    attention_bias: bool = False
    mlp_bias: bool = False

    def to_model(self, name: str) -> Model:
        """Return the shape: every layer dense, two matrices in each feed-forward."""
        bias = self.attention_bias
        attention = self.grouped_query(bias=bias, output_bias=bias)
        return replace(
            self.base_model(name, attention),
            ffn_size=self.intermediate_size,
            ffn_bias=self.mlp_bias,
            gated_ffn=False,
            norm_bias=True,
        )


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


class Mixture(GroupedQuery):
    """Families in which every layer has routed experts of width ``intermediate_size``."""

    intermediate_size: Width
    num_experts: Experts
    num_experts_per_tok: Experts

    @model_validator(mode="after")
    def _check_experts(self) -> Mixture:
        _check_top_k(self.num_experts_per_tok, self.num_experts)
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
    """gpt-oss: biases on router and experts, one attention sink per query head."""

    name = "gpt_oss"
    architectures = ("GptOssForCausalLM",)
    # as its model card says (arXiv 2508.10925, Table 1)
    active_embeddings = "output"

    attention_bias: bool = True

    def to_model(self, name: str) -> Model:
        """Return the shape: router and experts always have biases."""
        bias = self.attention_bias
        attention = replace(self.grouped_query(bias=bias, output_bias=bias), sinks=True)
        return replace(self.mixture(name, attention), router_bias=True, expert_bias=True)


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
        _check_top_k(self.num_experts_per_tok, self.num_experts)
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

    attention_bias: bool = False
    qk_norm: Literal[True] = True

    def to_model(self, name: str) -> Model:
        """Return the shape."""
        bias = self.attention_bias
        attention = self.grouped_query(bias=bias, output_bias=bias)
        return self.mixture(name, replace(attention, qk_norm=True))


class Deepseek(Family):
    """Keys of DeepSeek-V2 and V3: latent attention, dense first layers, shared experts."""

    #: latent attention has as many key-value heads as query heads, of widths given apart
    unused = frozenset({"num_key_value_heads", "head_dim"})
    # 37B published for V3, 21B for V2, 2.4B for V2-Lite: 36.5B, 20.8B, 2.448B so counted; with the
    # input table 37.4B, 21.3B, 2.66B; with the routers 36.6B, 20.9B, 2.451B
    active_embeddings = "output"
    active_router = False

    intermediate_size: Width
    moe_intermediate_size: Width
    num_experts: Experts
    num_experts_per_tok: Experts
    num_shared_experts: Annotated[int, Field(ge=0, le=1 << 10)] | None = None
    first_k_dense_replace: LayerIndex = 0
    moe_layer_freq: Annotated[int, Field(ge=1, le=4096)] = 1
    n_group: Experts | None = None
    topk_group: Experts | None = None
    attention_bias: bool = False
    # null means a full-rank query: absent is not null, so the key is required.
    q_lora_rank: Width | None
    kv_lora_rank: Width
    qk_nope_head_dim: Width
    qk_rope_head_dim: Width
    v_head_dim: Width

    @model_validator(mode="after")
    def _check_experts(self) -> Deepseek:
        _check_top_k(self.num_experts_per_tok, self.num_experts)
        return self

    def groups(self) -> tuple[int, int]:
        """Groups of experts, and how many of them a token may use.

        Raises
        ------
        ValueError
            If the groups are not given, do not divide the experts or hold too few of them.
        """
        if self.n_group is None or self.topk_group is None:
            raise ValueError("n_group and topk_group are needed for routing limited by groups")
        groups, chosen = self.n_group, self.topk_group
        if self.num_experts % groups:
            raise ValueError(f"n_group {groups} does not divide {self.num_experts} experts")
        if chosen > groups:
            raise ValueError(f"topk_group {chosen} is more than n_group {groups}")
        if self.num_experts_per_tok > chosen * (self.num_experts // groups):
            raise ValueError(
                f"{chosen} of {groups} groups hold fewer experts than num_experts_per_tok "
                f"{self.num_experts_per_tok}"
            )
        return groups, chosen

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

    def mixture(self, name: str, groups: tuple[int, int]) -> Model:
        """Shape with dense first layers, then a mixture every ``moe_layer_freq`` layers."""
        moe_layers = tuple(
            layer >= self.first_k_dense_replace and layer % self.moe_layer_freq == 0
            for layer in range(self.num_hidden_layers)
        )
        return Model(
            name=name,
            family=self.name,
            hidden_size=self.hidden_size,
            vocab_size=self.vocab_size,
            attention=self.latent(),
            moe_layers=moe_layers,
            ffn_size=self.intermediate_size,
            num_experts=self.num_experts,
            experts_per_token=self.num_experts_per_tok,
            expert_ffn_size=self.moe_intermediate_size,
            shared_expert_ffn_size=self.moe_intermediate_size * (self.num_shared_experts or 0),
            tied_embeddings=self.tie_word_embeddings,
            num_groups=groups[0],
            top_groups=groups[1],
            notes=self.notes(),
        )


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
        return self.mixture(name, (1, 1) if self.topk_method == "greedy" else self.groups())


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
        return replace(self.mixture(name, self.groups()), router_bias=True)


FAMILIES: tuple[type[Family], ...] = (
    Mixtral,
    Qwen2Moe,
    Qwen3Moe,
    DeepseekV2,
    DeepseekV3,
    Olmoe,
    PhiMoe,
    GraniteMoe,
    GptOss,
    Llama,
    Nemotron,
    Gpt2,
)


def _check_top_k(top_k: int, num_experts: int) -> None:
    if top_k > num_experts:
        raise ValueError(f"num_experts_per_tok {top_k} is more than the {num_experts} experts")
