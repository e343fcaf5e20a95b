"""The shape of a transformer with (or without) mixture-of-experts layers.

Plain data; what follows from it (parameter counts, FLOPs) is in the other modules of this package.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

from lightloom.practice import (
    ActivationCache,
    AllToAllOverlap,
    Dispatcher,
    Gate,
    PipelineSchedule,
    Precision,
    Recompute,
    StatePrecision,
)

#: Which embedding tables a parameter count includes: the input table and the output projection
#: (``both``), the output projection only (``output``: a lookup multiplies nothing) or ``none``.
#: A tied table is counted once under ``both`` and under ``output``.
EmbeddingConvention = Literal["both", "output", "none"]


#: how a layer mixes tokens: softmax attention (grouped-query, multi-head latent, or over compressed
#: keys), a linear attention, whose state does not grow (the gated delta rule, with a decay per head
#: or per channel; lightning, a decaying sum; Mamba 1 and 2), or not at all
AttentionKind = Literal["gqa", "mla", "csa", "delta", "kda", "lightning", "mamba", "mamba2", "none"]
#: the kinds that are linear attention
LINEAR = frozenset({"delta", "kda", "lightning", "mamba", "mamba2"})


@dataclass(frozen=True)
class Attention:
    """How one layer mixes tokens: softmax attention, linear attention, or ``none``.

    For ``gqa``: ``num_heads`` query heads, ``num_kv_heads`` key-value heads of ``head_dim``
    (values of ``v_head_dim``, where it is not 0). ``kv_projections`` of keys and values are
    made: 2, or 1 where values are keys (Gemma 4), or 0 where both are another layer's
    (Hunyuan-Large).
    For ``mla`` (DeepSeek-V2): low-rank query (``q_lora_rank``, 0 where the query is full rank)
    and key-value (``kv_lora_rank``) with ``qk_nope_head_dim + qk_rope_head_dim`` per query-key
    head and ``v_head_dim`` per value head; ``head_dim`` is then ``v_head_dim``.
    For ``csa`` (DeepSeek-V4): low-rank queries, one vector of ``head_dim`` per token that is key
    and value of all heads, and one per ``compress`` tokens (0: none); the output projection has
    ``o_groups`` groups of rank ``o_lora_rank``.
    For ``delta`` (Gated DeltaNet, arXiv 2412.06464; Qwen3-Next), ``kda`` (Kimi Delta Attention,
    arXiv 2510.26692; decays of rank ``decay_rank``), ``lightning`` (arXiv 2501.08313), ``mamba2``
    (arXiv 2405.21060) and ``mamba`` (arXiv 2312.00752; a head per channel, steps of rank
    ``decay_rank``): ``num_heads`` value heads of ``head_dim``, ``num_kv_heads`` query-key heads of
    ``key_head_dim`` (the groups and the state of Mamba); ``conv_width`` tokens enter a short
    convolution before it (0: none).

    ``bias`` is on the query, key and value projections (for ``mla``, on the down-projections),
    ``output_bias`` on the output projection. ``qk_norm`` normalizes queries and keys, one weight
    per element of a head, or of all heads together where ``qk_norm_per_head`` is false (OLMoE).
    ``sinks`` adds one learned logit per query head (gpt-oss). ``scaled_rotary`` says that rotary
    positions are stretched and scaled by a factor (YaRN). ``output_gate`` multiplies the
    result by a gate of its width (of rank ``gate_rank``, 0: full), ``head_gate`` by one value per
    head. ``span`` is the length of the chunks within which tokens see
    each other (Llama 4; 0: all of the sequence), ``window`` the number of tokens up to itself that
    one sees (gpt-oss; 0: all of them). ``index_top_k`` keys per query are chosen by an
    indexer of ``index_heads`` heads of ``index_head_dim`` (DeepSeek-V3.2; 0: all are used);
    with no such heads, those that an earlier layer chose.
    """

    kind: AttentionKind
    num_heads: int
    num_kv_heads: int
    head_dim: int
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    qk_nope_head_dim: int = 0
    qk_rope_head_dim: int = 0
    v_head_dim: int = 0
    kv_projections: int = 2
    o_groups: int = 0
    o_lora_rank: int = 0
    compress: int = 0
    bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    qk_norm_per_head: bool = True
    sinks: bool = False
    scaled_rotary: bool = False
    output_gate: bool = False
    gate_rank: int = 0
    head_gate: bool = False
    span: int = 0
    window: int = 0
    index_heads: int = 0
    index_head_dim: int = 0
    index_top_k: int = 0
    key_head_dim: int = 0
    decay_rank: int = 0
    conv_width: int = 0

    @property
    def linear(self) -> bool:
        """Whether its state does not grow with the sequence."""
        return self.kind in LINEAR

    @property
    def qk_dim(self) -> int:
        """Width of one query-key head."""
        if self.kind == "mla":
            return self.qk_nope_head_dim + self.qk_rope_head_dim
        return self.key_head_dim if self.linear else self.head_dim

    @property
    def v_dim(self) -> int:
        """Width of one value head."""
        return self.v_head_dim or self.head_dim

    @property
    def kv_dim(self) -> int:
        """Elements of one key-value head: of its key and its value, if they are not the same."""
        return self.head_dim if self.kind == "csa" else self.qk_dim + self.v_dim


#: no mixing of tokens: a layer that is a feed-forward alone
NO_ATTENTION = Attention(kind="none", num_heads=0, num_kv_heads=0, head_dim=0)


@dataclass(frozen=True)
class PublishedPlan:
    """A parallelism plan published with a model, before scaling in data parallelism.

    ``source`` names the publication and says of each value that it does not give what was chosen.
    ``None`` stands for what a publication does not say; the fields from ``vpp`` on are those of
    :class:`~lightloom.parallel.Plan`, then bytes per element of
    :class:`~lightloom.workload.WorkloadOptions`, then what the backward pass computes again.
    """

    tp: int
    pp: int
    ep: int
    seq_len: int
    micro_batch_size: int
    source: str
    etp: int | None = None
    vpp: int | None = None
    micro_batches: int | None = None
    zero1: bool | None = None
    schedule: PipelineSchedule | None = None
    overlap_all_to_all: AllToAllOverlap | None = None
    overlap_chunks: int | None = None
    overlap_shared_experts: bool | None = None
    overlap_tp: bool | None = None
    communication_sms: int | None = None
    dispatch_element_bytes: float | None = None
    combine_element_bytes: float | None = None
    dispatch_gradient_element_bytes: float | None = None
    combine_gradient_element_bytes: float | None = None
    gradient_bytes: float | None = None
    parameter_bytes: float | None = None
    recompute: Recompute | None = None
    precision: Precision | None = None
    state_precision: StatePrecision | None = None
    activation_cache: ActivationCache | None = None


@dataclass(frozen=True)
class Model:
    """A model's shape. Widths count elements, not bytes.

    ``attention`` is that of every layer, unless ``attention_by_layer`` has one for each.
    ``moe_layers[i]`` says whether layer ``i`` is a mixture of experts. ``ffn_size`` is the width
    of dense layers' feed-forward, unless ``ffn_by_layer`` has one for each layer (0: the layer has
    none, or is a mixture); ``expert_ffn_size`` that of one routed expert, and
    ``shared_expert_ffn_size`` the total width of the shared experts (0 where there are none),
    and of a dense feed-forward next to the experts.
    ``gated_ffn`` is true for SwiGLU-like feed-forwards of three matrices. ``ffn_size`` is 0 where
    every layer is a mixture, ``num_experts`` where none is. Where ``expert_hidden_size`` is not
    0, tokens are projected to it before dispatch and back after combine. ``zero_experts`` counts
    choices of the router that compute nothing; ``experts_per_token`` is without them.
    ``residual_streams`` of the hidden size go from block to block (DeepSeek-V4's
    hyper-connections); ``post_norms``: a norm after each block as well as before it.
    ``learned_positions`` counts positions
    that have a learned vector, added to the embedding (0 for rotary positions); ``max_positions``
    those that the configuration names (0: none). ``router_bias`` is
    one value per expert (added to the logits, or the balance correction of DeepSeek-V3).
    ``expert_clamp``: what the activation functions of experts read is limited first.
    ``active_embeddings`` and ``active_router`` say how the publisher counts active parameters.
    ``gate`` is how evenly the gate loads the experts and ``dispatcher`` how copies get to them,
    where a publication says so.
    ``mtp_layers`` are the last layers that are modules of multi-token prediction (see
    :mod:`lightloom.models.next_tokens`), ``mtp_modules`` those that the configuration has.
    ``notes`` says what of the configuration is left out; ``sources`` maps ``config``,
    ``parameters``, ``plan`` and ``training`` to text.
    """

    name: str
    hidden_size: int
    vocab_size: int
    attention: Attention
    moe_layers: tuple[bool, ...]
    ffn_size: int = 0
    num_experts: int = 0
    experts_per_token: int = 0
    expert_ffn_size: int = 0
    shared_expert_ffn_size: int = 0
    shared_expert_gate: bool = False
    gated_ffn: bool = True
    tied_embeddings: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    expert_clamp: bool = False
    lm_head_bias: bool = False
    norm_bias: bool = False
    num_groups: int = 1
    top_groups: int = 1
    published_parameters: float | None = None
    published_active: float | None = None
    plan: PublishedPlan | None = None
    gate: Gate | None = None
    dispatcher: Dispatcher | None = None
    family: str = ""
    ffn_bias: bool = False
    learned_positions: int = 0
    active_embeddings: EmbeddingConvention = "both"
    active_router: bool = True
    attention_by_layer: tuple[Attention, ...] = ()
    ffn_by_layer: tuple[int, ...] = ()
    expert_hidden_size: int = 0
    zero_experts: int = 0
    residual_streams: int = 1
    post_norms: bool = False
    mtp_layers: int = 0
    mtp_modules: int = field(default=0, compare=False)
    max_positions: int = field(default=0, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)
    sources: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def num_layers(self) -> int:
        """Number of transformer layers."""
        return len(self.moe_layers)

    @functools.cached_property
    def num_moe_layers(self) -> int:
        """Number of layers with routed experts."""
        return sum(self.moe_layers)

    @property
    def num_blocks(self) -> int:
        """Residual blocks: every attention, feed-forward and mixture of all layers."""
        mixing = sum(count for kind, count in self.attentions.items() if kind.kind != "none")
        return mixing + self.num_moe_layers + sum(self.ffn_widths.values())

    @property
    def expert_hidden(self) -> int:
        """Elements of a token on its way to the experts."""
        return self.expert_hidden_size or self.hidden_size

    def ffn_width(self, layer: int) -> int:
        """Width of the dense feed-forward of a layer, 0 where it has none."""
        if self.moe_layers[layer]:
            return 0
        return self.ffn_by_layer[layer] if self.ffn_by_layer else self.ffn_size

    @functools.cached_property
    def first_alike(self) -> tuple[int, ...]:
        """For each layer, the first one with its attention, feed-forward and experts."""
        firsts: dict[tuple[int, int, bool], int] = {}
        return tuple(
            firsts.setdefault(
                (self.attention_index(layer), self.ffn_width(layer), self.moe_layers[layer]), layer
            )
            for layer in range(self.num_layers)
        )

    @functools.cached_property
    def ffn_widths(self) -> dict[int, int]:
        """Each width of dense feed-forwards, in order of the first, and how many have it."""
        widths = (self.ffn_width(layer) for layer in range(self.num_layers))
        return dict(Counter(width for width in widths if width))

    def ffn_index(self, layer: int) -> int:
        """Index in :attr:`ffn_widths` of the width of a dense layer."""
        return list(self.ffn_widths).index(self.ffn_width(layer))

    @functools.cached_property
    def attentions(self) -> dict[Attention, int]:
        """Each attention that layers have, in order of the first, and how many have it."""
        return dict(Counter(self.attention_by_layer or (self.attention,) * self.num_layers))

    def attention_index(self, layer: int) -> int:
        """Index in :attr:`attentions` of the attention of a layer."""
        if not self.attention_by_layer:
            return 0
        return list(self.attentions).index(self.attention_by_layer[layer])

    @functools.cached_property
    def variants(self) -> tuple[Model, ...]:
        """For each of :attr:`attentions`, the model as if every layer had it."""
        if not self.attention_by_layer:
            return (self,)
        return tuple(
            replace(self, attention=kind, attention_by_layer=()) for kind in self.attentions
        )
