"""A custom model by its shapes: a TOML file, for what no family of ``config.json`` describes.

::

    hidden_size = 4096
    vocab_size = 128000

    [attention.full]               # as many kinds as layers have, each by its name
    num_heads = 32
    num_kv_heads = 8
    head_dim = 128

    [experts]
    count = 64
    per_token = 6
    width = 1536
    shared_width = 1536

    [[layers]]                     # in order; repeat = how often
    repeat = 2
    attention = "full"
    dense_width = 12288            # without it, the layer has the experts

    [[layers]]
    repeat = 30
    attention = "full"

Keys of attention are those of :class:`~lightloom.models.model.Attention`. A layer without
``attention`` is a feed-forward alone; with ``dense_width = 0`` it is an attention alone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from lightloom.errors import InputError, ModelError, did_you_mean, echo
from lightloom.inputs.formats import read_toml
from lightloom.inputs.strict import Name, Strict, Switch, check
from lightloom.models.family import Experts, Heads, Layers, OptionalWidth, Vocabulary, Width
from lightloom.models.model import NO_ATTENTION, Attention, Model

Kind = Literal["gqa", "mla", "csa", "delta", "kda", "lightning", "mamba", "mamba2"]

#: keys that a kind of attention cannot do without, in addition to heads and their width
_NEEDED = {
    "gqa": (),
    "mla": ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
    "csa": ("q_lora_rank", "o_groups", "o_lora_rank", "window"),
    "delta": ("key_head_dim",),
    "kda": ("key_head_dim",),
    "lightning": ("key_head_dim",),
    "mamba": ("key_head_dim", "decay_rank"),
    "mamba2": ("key_head_dim",),
}
#: those that may have an indexer
_INDEXED = ("mla", "gqa", "csa")


class _Table(Strict):
    model_config = ConfigDict(strict=True)

    error_class: ClassVar[type[InputError]] = ModelError


class AttentionTable(_Table):
    """One kind of attention."""

    kind: Kind = "gqa"
    num_heads: Heads
    num_kv_heads: Heads | None = None
    head_dim: Width
    q_lora_rank: OptionalWidth = 0
    kv_lora_rank: OptionalWidth = 0
    qk_nope_head_dim: OptionalWidth = 0
    qk_rope_head_dim: OptionalWidth = 0
    v_head_dim: OptionalWidth = 0
    kv_projections: Annotated[int, Field(ge=0, le=2)] = 2
    o_groups: OptionalWidth = 0
    o_lora_rank: OptionalWidth = 0
    compress: OptionalWidth = 0
    bias: Switch = False
    output_bias: Switch = False
    qk_norm: Switch = False
    qk_norm_per_head: Switch = True
    sinks: Switch = False
    scaled_rotary: Switch = False
    output_gate: Switch = False
    gate_rank: OptionalWidth = 0
    head_gate: Switch = False
    span: OptionalWidth = 0
    window: OptionalWidth = 0
    index_heads: Annotated[int, Field(ge=0, le=1 << 14)] = 0
    index_head_dim: OptionalWidth = 0
    index_top_k: OptionalWidth = 0
    key_head_dim: OptionalWidth = 0
    decay_rank: OptionalWidth = 0
    conv_width: Annotated[int, Field(ge=0, le=1024)] = 0

    def to_attention(self, where: str) -> Attention:
        """The attention.

        Raises
        ------
        ModelError
            If its kind needs a key that is missing, or heads do not divide.
        """
        missing = [key for key in _NEEDED[self.kind] if not getattr(self, key)]
        if self.index_top_k:
            needed = ("index_heads", "index_head_dim")
            missing += [key for key in needed if not getattr(self, key)]
        if missing:
            raise ModelError(f"{where}: {missing[0]} is missing; kind {self.kind} needs it")
        if self.index_top_k and self.kind not in _INDEXED:
            indexed = ", ".join(_INDEXED)
            raise ModelError(f"{where}: index_top_k is for kinds {indexed}, got {self.kind}")
        kv_heads = self.num_kv_heads or self.num_heads
        if self.num_heads % kv_heads:
            raise ModelError(
                f"{where}: num_kv_heads {kv_heads} does not divide num_heads {self.num_heads}"
            )
        return Attention(**{**self.model_dump(), "num_kv_heads": kv_heads})


class ExpertTable(_Table):
    """The experts of every layer that has some."""

    count: Experts
    per_token: Experts
    width: Width
    hidden_size: OptionalWidth = 0
    shared_width: OptionalWidth = 0
    shared_gate: Switch = False
    bias: Switch = False
    router_bias: Switch = False
    groups: Experts = 1
    groups_per_token: Experts = 1


class LayerTable(_Table):
    """Some layers that are alike, one after another."""

    repeat: Layers = 1
    attention: Name | None = None
    dense_width: OptionalWidth | None = None


class ShapeFile(_Table):
    """The file."""

    name: Name | None = None
    hidden_size: Width
    vocab_size: Vocabulary
    tied_embeddings: Switch = False
    gated_ffn: Switch = True
    norm_bias: Switch = False
    attention: Annotated[dict[str, AttentionTable], Field(min_length=1, max_length=16)]
    experts: ExpertTable | None = None
    layers: Annotated[list[LayerTable], Field(min_length=1, max_length=4096)]


def read_shapes(path: Path) -> Model:
    """Return the model that a file describes.

    Raises
    ------
    ModelError
        If the file cannot be read, has an unknown key or a wrong value, or contradicts itself.
    """
    where = str(path)
    file = check(ShapeFile, read_toml(path, "description of a model", ModelError), where)
    kinds = {
        key: table.to_attention(f"{where}: attention.{key}")
        for key, table in file.attention.items()
    }
    attentions, mixtures, widths = [], [], []
    for number, layers in enumerate(file.layers):
        if layers.attention is None and layers.dense_width == 0:
            raise ModelError(f"{where}: layers[{number}] has neither attention nor a feed-forward")
        if layers.attention is not None and layers.attention not in kinds:
            hint = did_you_mean(layers.attention, kinds)
            raise ModelError(
                f"{where}: layers[{number}].attention = {echo(layers.attention)}{hint}; known: "
                f"{', '.join(kinds)}"
            )
        attention = NO_ATTENTION if layers.attention is None else kinds[layers.attention]
        attentions += [attention] * layers.repeat
        mixtures += [layers.dense_width is None] * layers.repeat
        widths += [layers.dense_width or 0] * layers.repeat
        if len(attentions) > 4096:
            raise ModelError(f"{where}: more than 4,096 layers")
    _check(file, mixtures, where)
    dense = {width for width, mixture in zip(widths, mixtures, strict=True) if not mixture}
    model = Model(
        name=file.name or path.stem,
        family="shapes",
        hidden_size=file.hidden_size,
        vocab_size=file.vocab_size,
        attention=attentions[0],
        attention_by_layer=() if len(set(attentions)) == 1 else tuple(attentions),
        moe_layers=tuple(mixtures),
        ffn_size=max(dense, default=0),
        ffn_by_layer=tuple(widths) if len(dense) > 1 else (),
        tied_embeddings=file.tied_embeddings,
        gated_ffn=file.gated_ffn,
        norm_bias=file.norm_bias,
        sources={"config": where},
    )
    return _with_experts(model, file.experts)


def _check(file: ShapeFile, mixtures: list[bool], where: str) -> None:
    experts = file.experts
    if any(mixtures) and experts is None:
        raise ModelError(f"{where}: a layer without dense_width has experts; add [experts]")
    if experts is None:
        return
    if not any(mixtures):
        raise ModelError(f"{where}: [experts], but every layer has dense_width; leave one out")
    if experts.per_token > experts.count:
        raise ModelError(
            f"{where}: experts.per_token {experts.per_token} is more than the {experts.count} "
            "experts"
        )
    groups, chosen = experts.groups, experts.groups_per_token
    if experts.count % groups or chosen > groups:
        raise ModelError(
            f"{where}: experts.groups {groups} must divide {experts.count} experts, and "
            f"groups_per_token {chosen} not be more"
        )
    if chosen * (experts.count // groups) < experts.per_token:
        raise ModelError(
            f"{where}: {chosen} groups hold fewer than {experts.per_token} experts per token"
        )


def _with_experts(model: Model, experts: ExpertTable | None) -> Model:
    if experts is None:
        return model
    return replace(
        model,
        num_experts=experts.count,
        experts_per_token=experts.per_token,
        expert_ffn_size=experts.width,
        expert_hidden_size=experts.hidden_size,
        shared_expert_ffn_size=experts.shared_width,
        shared_expert_gate=experts.shared_gate,
        expert_bias=experts.bias,
        router_bias=experts.router_bias,
        num_groups=experts.groups,
        top_groups=experts.groups_per_token,
    )
