"""What families of models have in common: keys with bounds, notes, grouped-query attention.

A family's class declares the keys it reads, with bounds; its ``to_model`` turns them into a shape.
``mapping`` chooses the class. Aliases are resolved before: keys here are the canonical ones.

Shapes follow the reference implementations (Hugging Face transformers, ``models/*/modeling_*.py``).
Left out, and noted on the model: multi-token prediction layers, unless a plan trains them.
"""

from __future__ import annotations

import abc
from collections.abc import Sized
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

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
LayerType = Literal[
    "full_attention",
    "sliding_attention",
    "chunked_attention",
    "linear_attention",
    "attention",
    "mamba",
    "moe",
    "mlp",
    "minimax_m3_sparse",
    "deepseek_sparse_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
]
LayerTypes = Annotated[list[LayerType], Field(max_length=4096)]
LayerIndices = Annotated[list[LayerIndex], Field(max_length=4096)]
#: of each layer, whether it is of the kind that the key names (1) or not (0)
Flags = Annotated[list[Literal[0, 1]], Field(max_length=4096)]
#: of each layer, its feed-forward
FeedForwards = Annotated[
    list[Literal["dense", "sparse", "moe", "hash_moe"]], Field(max_length=4096)
]


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
    #: other values of ``model_type`` that its files have
    model_types: ClassVar[tuple[str, ...]] = ()
    #: tables of the file whose keys are read as if they were keys of the file
    nested: ClassVar[tuple[str, ...]] = ()
    #: kinds of layers that ``layer_types`` may name
    kinds: ClassVar[tuple[LayerType, ...]] = ("full_attention", "sliding_attention")
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
    max_window_layers: LayerIndex | None = None
    layer_types: LayerTypes | None = None
    num_nextn_predict_layers: Annotated[int, Field(ge=0, le=4096)] | None = None
    #: how rotary positions are stretched for longer sequences, and the same in later files
    rope_scaling: object = None
    rope_parameters: object = None

    @abc.abstractmethod
    def to_model(self, name: str) -> Model:
        """Return the shape that the keys describe."""

    @model_validator(mode="after")
    def _check_layer_types(self) -> Family:
        check_each("layer_types", self.layer_types, self.num_hidden_layers)
        for kind in self.layer_types or ():
            if kind not in self.kinds:
                raise ValueError(
                    f"layer_types has {kind}; layers of {self.name} models are "
                    f"{' or '.join(self.kinds)}"
                )
        return self

    def notes(self) -> tuple[str, ...]:
        """What the shape leaves out of the configuration."""
        count = self.num_nextn_predict_layers
        return (f"{count} multi-token prediction layer(s) left out",) if count else ()

    def windowed_layers(self) -> tuple[bool, ...]:
        """Whether each layer has a window, where the configuration has one and does not list them.

        All from ``max_window_layers`` on, as in Qwen2.
        """
        return tuple(
            layer >= (self.max_window_layers or 0) for layer in range(self.num_hidden_layers)
        )

    def with_windows(self, model: Model) -> Model:
        """The model with the sliding windows of its softmax attention."""
        used = self.windowed if self.use_sliding_window is None else self.use_sliding_window
        if not self.sliding_window or not used:
            return model
        slides = self.windowed_layers()
        if self.layer_types is not None:
            slides = tuple(kind == "sliding_attention" for kind in self.layer_types)
        layers = model.attention_by_layer or (model.attention,) * model.num_layers
        return replace(
            model,
            attention_by_layer=tuple(
                replace(layer, window=self.sliding_window) if slid and not layer.linear else layer
                for layer, slid in zip(layers, slides, strict=True)
            ),
        )


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
            scaled_rotary=any(map(_is_scaled, (self.rope_scaling, self.rope_parameters))),
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
            mtp_modules=self.num_nextn_predict_layers or 0,
            notes=self.notes(),
        )


def _is_scaled(rotary: object) -> bool:
    """Whether rotary positions are scaled by a factor, as by YaRN; other ways only stretch them."""
    return isinstance(rotary, dict) and "yarn" in (rotary.get("rope_type"), rotary.get("type"))


class SharedExperts(Family):
    """Families with dense first layers, then experts of which some are shared by all tokens."""

    intermediate_size: Width
    moe_intermediate_size: Width
    num_experts: Experts
    num_experts_per_tok: Experts
    num_shared_experts: Annotated[int, Field(ge=0, le=1 << 10)] | None = None
    first_k_dense_replace: LayerIndex = 0
    moe_layer_freq: Annotated[int, Field(ge=1, le=4096)] = 1
    mlp_layer_types: FeedForwards | None = None
    n_group: Experts | None = None
    topk_group: Experts | None = None

    @model_validator(mode="after")
    def _check_experts(self) -> SharedExperts:
        check_top_k(self.num_experts_per_tok, self.num_experts)
        check_each("mlp_layer_types", self.mlp_layer_types, self.num_hidden_layers)
        return self

    def mixtures(self) -> tuple[bool, ...]:
        """Which layers have experts: those listed, or all after the dense ones."""
        if self.mlp_layer_types is not None:
            return tuple(kind != "dense" for kind in self.mlp_layer_types)
        return tuple(
            layer >= self.first_k_dense_replace and layer % self.moe_layer_freq == 0
            for layer in range(self.num_hidden_layers)
        )

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

    def with_experts(self, dense: Model, groups: tuple[int, int]) -> Model:
        """Shape with experts in some layers, of which some are shared by all tokens."""
        return replace(
            dense,
            moe_layers=self.mixtures(),
            ffn_size=self.intermediate_size,
            num_experts=self.num_experts,
            experts_per_token=self.num_experts_per_tok,
            expert_ffn_size=self.moe_intermediate_size,
            shared_expert_ffn_size=self.moe_intermediate_size * (self.num_shared_experts or 0),
            num_groups=groups[0],
            top_groups=groups[1],
        )


def check_each(key: str, values: Sized | None, layers: int) -> None:
    """Refuse a list that has not one entry per layer.

    Raises
    ------
    ValueError
        If so.
    """
    if values is not None and len(values) != layers:
        raise ValueError(
            f"{key} has {len(values)} entries, num_hidden_layers is {layers}; expected one entry "
            "per layer"
        )


def check_top_k(top_k: int, num_experts: int) -> None:
    """Refuse more experts per token than there are.

    Raises
    ------
    ValueError
        If so.
    """
    if top_k > num_experts:
        raise ValueError(f"num_experts_per_tok {top_k} is more than the {num_experts} experts")
