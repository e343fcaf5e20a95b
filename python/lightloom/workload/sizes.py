"""Bytes and times of the operations of one stage, from model, plan and options.

All bytes of collectives inside a server are per GPU and pass; sends are per worker. Those of routed
copies differ from block to block and worker to worker: see :mod:`.tokens`. The correspondence with
Megatron-Core: with sequence parallelism a tensor-parallel region begins with an all-gather and ends
with a reduce-scatter of the micro-batch's hidden states, in the backward pass the other way round,
with the all-gather once more, for the gradients of weights; without, it ends with an all-reduce,
which moves as much as both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from lightloom.demand.placement import bytes_per_token
from lightloom.models.model import Attention, Model
from lightloom.parallel import Plan
from lightloom.units import to_ps
from lightloom.workload.compute import ComputeModel
from lightloom.workload.compute_kernels import FP32
from lightloom.workload.options import WorkloadOptions


@dataclass(frozen=True)
class ContextSizes:
    """Bytes that context parallelism moves around one kind of attention; see :func:`sizes`."""

    key_value: float
    heads_in: float
    heads_out: float


@dataclass(frozen=True)
class Sizes:
    """Bytes; see :func:`sizes`."""

    tp: int
    expert_tp: int
    send: int
    context: tuple[ContextSizes, ...]
    dispatch: int
    combine: int
    combine_gradient: int
    dispatch_gradient: int


def sizes(model: Model, plan: Plan, options: WorkloadOptions, gpus_per_worker: int) -> Sizes:
    """Bytes that follow from the model.

    Returns
    -------
    ``tp`` is one all-gather or reduce-scatter of the hidden states, ``expert_tp`` the same over the
    expert-TP ranks where ``moe_tp = "sequence"`` counts so, else 0 (per GPU both); ``send`` is what
    one worker sends to the next stage: each GPU its 1/TP share of the sequence part of its CP rank,
    so that no state is sent twice; ``context`` has, for each of ``model.attentions``: in
    ``key_value`` the buffer of one GPU when the keys and values of all CP ranks are gathered, or
    the states of linear attention, in FP32 (LASP-2, arXiv 2502.07563); in ``heads_in`` its queries,
    keys and values and in ``heads_out`` the result of attention, which the all-to-alls of Ulysses
    move; ``dispatch``, ``combine``,
    ``combine_gradient`` and ``dispatch_gradient`` are bytes per token copy.
    """
    element = options.activation_element_bytes
    states = plan.micro_batch_size * plan.seq_len // plan.cp * model.hidden_size * element
    split = (plan.tp - 1) / plan.tp
    counted = states if options.moe_tp == "sequence" else 0.0
    hidden = model.expert_hidden
    return Sizes(
        tp=round(states * split),
        expert_tp=round(counted * (plan.etp - 1) / plan.etp),
        send=round(states * model.residual_streams / plan.tp * gpus_per_worker),
        context=tuple(_context_sizes(kind, plan, element) for kind in model.attentions),
        dispatch=bytes_per_token(hidden, options.dispatch_element_bytes),
        combine=bytes_per_token(hidden, options.combine_element_bytes),
        combine_gradient=bytes_per_token(hidden, options.combine_gradient_element_bytes),
        dispatch_gradient=bytes_per_token(hidden, options.dispatch_gradient_element_bytes),
    )


def _context_sizes(attention: Attention, plan: Plan, element: float) -> ContextSizes:
    tokens = plan.micro_batch_size * plan.seq_len / plan.cp
    queries = attention.num_heads / plan.tp
    if attention.kind == "none":
        return ContextSizes(0.0, 0.0, 0.0)
    if attention.linear:
        keys = max(1.0, attention.num_kv_heads / plan.tp) * attention.qk_dim
        state = queries * attention.qk_dim * attention.v_dim * FP32
        values = tokens * queries * attention.v_dim * element
        return ContextSizes(
            key_value=plan.micro_batch_size * plan.cp * state,
            heads_in=tokens * 2 * keys * element + values,
            heads_out=values,
        )
    if attention.kind == "mla":
        heads = attention.num_heads / plan.tp
    else:
        heads = max(1.0, attention.num_kv_heads / plan.tp)
    width = heads * attention.kv_dim
    return ContextSizes(
        key_value=plan.micro_batch_size * plan.seq_len * width * element,
        heads_in=tokens * (queries * attention.qk_dim + width) * element,
        heads_out=tokens * queries * attention.v_dim * element,
    )


@dataclass(frozen=True)
class Times:
    """Picoseconds of one pass over one micro-batch: of one layer's parts and of the tables.

    ``attention`` is that of each of ``model.attentions``, ``dense_ffn`` that of each of
    ``model.ffn_widths``.
    """

    attention: tuple[int, ...]
    dense_ffn: tuple[int, ...]
    gate: int
    shared_experts: int
    embedding: int
    head: int


def times(
    model: Model, plan: Plan, compute: ComputeModel, scale: float, *, backward: bool
) -> Times:
    """Times of one pass.

    With full recomputation the backward times are without the forward pass before them.
    """
    tokens = plan.micro_batch_size * plan.seq_len / plan.cp
    tp, cp = plan.tp, plan.cp

    def attention(variant: Model, back: bool) -> float:
        return compute.attention_layer(variant, tokens, plan.seq_len, tp, cp, back)

    def dense(width: int, back: bool) -> float:
        return compute.dense_ffn(replace(model, ffn_size=width), tokens, tp, back)

    def gate(back: bool) -> float:
        # with sequence parallelism each TP rank routes its share of the tokens
        ranks = tp if plan.sequence_parallel else 1
        return compute.gate(model, tokens, back, ranks) if model.num_moe_layers else 0.0

    def shared(back: bool) -> float:
        return compute.shared_experts(model, tokens, tp, back) if model.num_moe_layers else 0.0

    again = backward and compute.recompute == "full"

    def once(part: Callable[[bool], float]) -> int:
        return to_ps(scale * (part(backward) - (part(False) if again else 0.0)))

    return Times(
        attention=tuple(once(functools.partial(attention, variant)) for variant in model.variants),
        dense_ffn=tuple(once(functools.partial(dense, width)) for width in model.ffn_widths),
        gate=once(gate),
        shared_experts=once(shared),
        embedding=to_ps(scale * compute.embedding(model, tokens, tp, backward)),
        head=to_ps(scale * compute.head(model, tokens, tp, backward)),
    )
