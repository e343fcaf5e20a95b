"""What a layer keeps of a micro-batch for its backward pass: tensors, formats, who recomputes what.

:data:`TENSORS` is the recipe: a row for each tensor, the kind of format that it is kept in, and
under which recomputation it is not kept. Sources of the rows:

- Korthikanti et al. (arXiv 2205.05198), section 4, without the quadratic term, since attention is
  computed in tiles; ``attention`` recomputes its core.
- Megatron-Core, ``--recompute-modules``: ``selective`` is ``layernorm``, ``moe_act`` (here of dense
  layers, too) and ``mla_up_proj``.
- torchtitan, ``SelectiveAC`` (``distributed/activation_checkpoint.py``): results of attention,
  reductions and every second product of a layer are kept (``products`` computes the others again),
  of a feed-forward its gate's and its result, which is as large as the residual here.
- Megatron-Core, ``--moe-token-dispatcher-type``: since 0.12 ("Memory efficient token permutation",
  2659630721 of 2025-04-09) every dispatcher weights tokens between the two products of an expert,
  so that ``allgather``, ``alltoall`` and ``flex`` keep the copies that experts read and none of
  what they return. Before, the gate's gradient needed each output of an expert at its source
  (``keeps_outputs``).
- DeepSeek-V3 technical report (arXiv 2412.19437), sections 3.2.3 and 3.3.3: norms, up-projections
  and SwiGLU are computed again; inputs of SwiGLU are cached in FP8, results of attention (which are
  inputs of its output projection) in E5M6, 12 bits (``activation_cache``).

Routed tokens are taken as balanced over ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lightloom.models.attention_work import CHUNK_TOKENS
from lightloom.models.model import Attention, Model
from lightloom.parallel.plan import Plan
from lightloom.practice import ActivationCache, Recompute

#: an input of a linear layer, an input of an activation function, a result of attention, or other
Format = Literal["linear", "function", "attention", "other"]

#: bytes of an FP8 value with its scale
FP8_BYTES = 1 + 1 / 32
#: bytes of an element, where they are not those of activations; ``linear`` follows the products
CACHES: dict[ActivationCache, dict[Format, float]] = {
    "framework": {},
    "fp8": {"function": FP8_BYTES, "attention": 12 / 8},
}


@dataclass(frozen=True)
class Tensor:
    """A tensor that the backward pass needs: in which kind of format, and who recomputes it."""

    kept_as: Format
    recomputed_by: tuple[Recompute, ...] = ("full",)


TENSORS = {
    # what goes from block to block: into a layer, and from attention to feed-forward
    "input": Tensor("other", ()),
    "residual": Tensor("other"),
    # before attention and before the feed-forward
    "normalized": Tensor("linear", ("selective", "products", "full")),
    # queries, values, gates; of latent attention no more than its latents
    "projected": Tensor("other"),
    # keys of grouped-query attention, before and after what they pass on their way
    "keys": Tensor("other", ("products", "full")),
    # what heads of latent attention have more than the latents
    "up_projected": Tensor("other", ("selective", "products", "full")),
    "attended": Tensor("attention", ("attention", "full")),
    # all scores after their soft-max, where attention is not fused
    "scores": Tensor("other", ("attention", "full")),
    # states that a module of multi-token prediction joins, before its projection
    "joined": Tensor("linear"),
    # copies of tokens at their experts
    "dispatched": Tensor("linear"),
    # outputs of experts, back at their source
    "returned": Tensor("other"),
    # before and after the activation function of feed-forwards and experts
    "widened": Tensor("function"),
    # what it is multiplied with in gated feed-forwards that every token passes
    "gated": Tensor("function", ("products", "full")),
    "activated": Tensor("linear", ("selective", "products", "full")),
}


class Keeps(NamedTuple):
    """What frameworks need not keep: outputs of experts at their source, scores of attention."""

    outputs: bool = False
    scores: bool = False


def kept_tensors(
    model: Model,
    plan: Plan,
    layer: int,
    keeps: Keeps = Keeps(),  # noqa: B008
) -> Iterator[tuple[str, float]]:
    """Names in :data:`TENSORS` and elements of what a layer keeps of a micro-batch per GPU."""
    tokens = plan.micro_batch_size * plan.seq_len / plan.cp
    sharded = tokens / plan.tp
    # tensors between the tensor-parallel regions: sharded over TP only with sequence parallelism
    between = sharded if plan.sequence_parallel else tokens
    stream = between * model.hidden_size * model.residual_streams
    yield "input", stream
    attention = model.variants[model.attention_index(layer)].attention
    has_feed_forward = model.moe_layers[layer] or model.ffn_width(layer) > 0
    if attention.kind != "none":
        heads = _head_widths(attention, plan.tp)
        keys = _key_widths(attention, plan.tp)
        kept = heads - keys
        if attention.kind == "mla":
            # heads can be made again from the latents, which are kept instead
            latents = attention.q_lora_rank + attention.kv_lora_rank + attention.qk_rope_head_dim
            kept = min(kept, latents)
        yield "normalized", between * model.hidden_size
        yield "projected", sharded * kept
        yield "keys", sharded * keys
        yield "up_projected", sharded * (heads - keys - kept)
        yield "attended", sharded * attention.num_heads * attention.v_dim
        if keeps.scores:
            yield "scores", sharded * attention.num_heads * plan.seq_len
        if has_feed_forward:
            yield "residual", stream
    if has_feed_forward:
        yield "normalized", between * model.hidden_size
        yield from _feed_forward(model, plan, layer, keeps.outputs)


def module_tensors(model: Model, plan: Plan) -> Iterator[tuple[str, float]]:
    """Names and elements of what a module of multi-token prediction keeps beside its layer.

    As in Megatron-Core (``multi_token_prediction.py``): the embedding of the next tokens and the
    state before it, which two norms read; what these give, joined, which is the input of the
    projection; the result of the layer and its norm, which the output projection reads. With full
    recomputation the first two are what its checkpoint keeps.
    """
    tokens = plan.micro_batch_size * plan.seq_len / plan.cp
    state = (tokens / plan.tp if plan.sequence_parallel else tokens) * model.hidden_size
    yield "input", 2 * state
    yield "joined", 2 * state
    yield "residual", 2 * state


def _head_widths(attention: Attention, tp: int) -> float:
    """What attention keeps per token, but for its result: queries, keys, values and its gate."""
    if attention.linear:
        return _linear_widths(attention)
    values = attention.num_heads * attention.v_dim
    heads = max(1.0, attention.num_kv_heads / tp) * tp
    if attention.kind == "mla":
        heads = attention.num_heads
    kept = attention.num_heads * attention.qk_dim + heads * attention.kv_dim
    if attention.qk_norm:
        # queries and keys before their norms, too
        kept += (attention.num_heads + heads) * attention.qk_dim
    return kept + (values if attention.output_gate else 0)


def _key_widths(attention: Attention, tp: int) -> float:
    """What of it are keys of grouped-query attention, which one product makes alone."""
    if attention.linear or attention.kind != "gqa" or attention.kv_projections < 2:
        return 0.0
    heads = max(1.0, attention.num_kv_heads / tp) * tp
    return heads * attention.qk_dim * (2 if attention.qk_norm else 1)


def _linear_widths(attention: Attention) -> float:
    """What linear attention keeps per token, but for its result; states are computed again.

    Queries, keys and values, before and after a convolution; the gate; of the delta rule, the
    products of keys within a chunk.
    """
    values = attention.num_heads * attention.v_dim
    width = 2 * attention.num_kv_heads * attention.qk_dim + values
    kept = 2 * width if attention.conv_width else width
    if attention.kind in {"delta", "kda"}:
        kept += attention.num_heads * CHUNK_TOKENS[attention.kind]
    if attention.kind == "kda":
        kept += attention.num_heads * attention.qk_dim  # a decay per channel
    if attention.kind == "mamba":
        kept += values  # a step per channel
    return kept + (values if attention.output_gate else 0)


def _feed_forward(
    model: Model, plan: Plan, layer: int, keeps_outputs: bool
) -> Iterator[tuple[str, float]]:
    """What the feed-forward network keeps, or experts do."""
    sharded = plan.micro_batch_size * plan.seq_len / plan.cp / plan.tp
    #: tokens of networks, and how wide these are: dense, and of routed experts
    dense = [(sharded, float(model.ffn_width(layer)))]
    routed: list[tuple[float, float]] = []
    if model.moe_layers[layer]:
        copies = plan.tokens_per_ep_rank * model.experts_per_token
        yield "dispatched", copies * model.expert_hidden
        if keeps_outputs:
            yield "returned", copies * model.expert_hidden / plan.etp
        routed = [(copies, model.expert_ffn_size / plan.etp)]
        dense = [(sharded, float(model.shared_expert_ffn_size))]
    for tokens, width in routed:
        yield "widened", tokens * width * (2 if model.gated_ffn else 1)
        yield "activated", tokens * width
    for tokens, width in dense:
        yield "widened", tokens * width
        if model.gated_ffn:
            yield "gated", tokens * width
        yield "activated", tokens * width
