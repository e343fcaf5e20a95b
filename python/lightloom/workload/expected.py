"""Bytes that a training step must move, in closed form from model, plan and options.

``b s h e`` are the bytes of a micro-batch's hidden states, ``t``, ``c``, ``p`` TP, CP and PP, ``k``
the experts per token, ``m`` micro-batches. Per GPU and micro-batch (MixNet, section 2.1): TP
``4 (t-1)/t b s h e / c`` for the attention of each layer, 5 in place of 4 with sequence parallelism
(Megatron gathers the input again in the backward pass), as much again for the feed-forward, EP
``4 k (1 - stayed) b s h e / (t c)`` for each MoE layer, PP ``2 b s h e / (t c)`` between stages. DP
moves ``2 (n-1)/n`` of the gradients on each GPU of a group of ``n``.

Independent of the programs: this module knows the model, not the graph.
"""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.demand.placement import bytes_per_token
from lightloom.models.model import Model
from lightloom.parallel import Plan, RankGrid
from lightloom.parallel.grid import gradient_groups
from lightloom.parallel.memory import embedding_per_gpu, stage_parameters
from lightloom.workload.collectives import shares_embedding
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.tokens import Folded, gathers_results


@dataclass(frozen=True)
class Implied:
    """What the model implies: bytes sent in a step by purpose, inside and across servers."""

    tp: float
    ep: float
    pp: float
    dp: float
    cp: float


def expected_bytes(
    model: Model,
    plan: Plan,
    options: WorkloadOptions,
    folded: Folded | None,
    *,
    recompute: bool,
    context_servers: int = 1,
) -> dict[str, float]:
    """Bytes that all GPUs send in one step, by purpose.

    Parameters
    ----------
    model, plan, options
        What the step trains, how, and what it moves.
    folded
        The step's demand, of which only the sums before folding are used; ``None`` without
        experts.
    recompute
        Whether the backward pass repeats every layer's forward pass.
    context_servers
        Servers that a CP group spans.
    """
    implied = Implied(
        tp=_tensor(model, plan, options, recompute)
        + _expert_tensor(model, plan, options, folded, recompute),
        ep=_expert(model, plan, options, folded, recompute),
        pp=_pipeline(model, plan, options),
        dp=_data(model, plan, options),
        cp=_context(model, plan, options, recompute, context_servers),
    )
    return dict(vars(implied))


def _states(model: Model, plan: Plan, options: WorkloadOptions) -> float:
    """Bytes of the hidden states of one micro-batch on one CP rank: ``b s h e / c``."""
    tokens = plan.micro_batch_size * plan.seq_len / plan.cp
    return tokens * model.hidden_size * options.activation_element_bytes


def _tensor(model: Model, plan: Plan, options: WorkloadOptions, recompute: bool) -> float:
    once = _states(model, plan, options) * (plan.tp - 1) / plan.tp
    # two collectives a half and pass: forward, backward, and forward again
    passes = 2 * (3 if recompute else 2) + plan.sequence_parallel
    # a collective before and one after each block, but for routed experts
    blocks = model.num_blocks - (0 if model.shared_expert_ffn_size else model.num_moe_layers)
    shared = passes * blocks * once
    # embedding and output projection: one collective each, forward and backward
    tables = (4 + plan.sequence_parallel) * once
    # a module of multi-token prediction: its embedding, both inputs of its projection and their
    # results, its output projection; all but the first again where layers are
    module = (13 + 3 * recompute) if plan.sequence_parallel else (3 + 6 + recompute)
    tables += model.mtp_layers * module * once
    # of the results of the experts, forward and backward
    results = (3 if recompute else 2) * model.num_moe_layers * once
    results *= gathers_results(plan, options)
    received = 0.0 if plan.sequence_parallel else 2 * (plan.virtual_stages - 1) * once
    per_stage = plan.gpus / plan.pp * plan.micro_batches
    return per_stage * (shared + tables + received + results)


def _expert_tensor(
    model: Model,
    plan: Plan,
    options: WorkloadOptions,
    folded: Folded | None,
    recompute: bool,
) -> float:
    """Gathers before and scatters after the experts; t - 1 of t ranks are sent each 1/t."""
    if folded is None or options.moe_tp == "none":
        return 0.0
    passes = 2 * (3 if recompute else 2)
    if options.moe_tp == "dispatched":
        # wherever the routing sends them, all copies are gathered
        copy = model.expert_hidden * options.activation_element_bytes
        return passes * folded.copies * copy * (plan.etp - 1)
    per_gpu = _states(model, plan, options) * (plan.etp - 1) / plan.etp
    return passes * model.num_moe_layers * per_gpu * plan.gpus / plan.pp * plan.micro_batches


def _expert(
    model: Model, plan: Plan, options: WorkloadOptions, folded: Folded | None, recompute: bool
) -> float:
    if folded is None or plan.ep == 1:
        return 0.0
    hidden = model.expert_hidden
    forward = sum(
        bytes_per_token(hidden, element)
        for element in (options.dispatch_element_bytes, options.combine_element_bytes)
    )
    backward = sum(
        bytes_per_token(hidden, element)
        for element in (
            options.combine_gradient_element_bytes,
            options.dispatch_gradient_element_bytes,
        )
    )
    moved = folded.copies - folded.stayed
    if plan.strategy == "baseline":
        # every TP rank sends all copies
        moved *= plan.etp
    return (forward * (2 if recompute else 1) + backward) * moved


def _pipeline(model: Model, plan: Plan, options: WorkloadOptions) -> float:
    crossings = 2 * (plan.virtual_stages - 1)
    per_gpu = _states(model, plan, options) * model.residual_streams / plan.tp
    return crossings * per_gpu * plan.gpus / plan.pp * plan.micro_batches


def _data(model: Model, plan: Plan, options: WorkloadOptions) -> float:
    gradients, parameters = 2 * options.gradient_bytes, 0.0
    tables = 1.0
    if plan.zero1:
        gradients, parameters = options.gradient_bytes, options.parameter_bytes
        if options.sharded != "states":
            gradients *= plan.micro_batches
        if options.sharded == "parameters":
            # forward and backward; the embedding is of no use backward
            parameters *= 2 * plan.micro_batches
            tables = 0.5
    passes = gradients + parameters
    parts = [stage_parameters(model, plan, stage) for stage in range(plan.pp)]
    grid = RankGrid(plan)
    total = 0.0
    for kind, moved in (
        ("dense-gradient", passes * sum(part.dense for part in parts)),
        ("expert-dp", passes * sum(part.expert for part in parts)),
    ):
        ranks = gradient_groups(grid, kind).shape[1]
        less = 0.0
        if kind == "dense-gradient":
            less = (1 - tables) * parameters * embedding_per_gpu(model, plan)
        holders = plan.copies * plan.gpus / plan.pp
        total += (ranks - 1) / ranks * (moved - less) * holders
    if shares_embedding(model, plan):
        tied = embedding_per_gpu(model, plan) * options.gradient_bytes
        total += 2 * tied * plan.gpus / plan.pp
    return total


def _context(
    model: Model, plan: Plan, options: WorkloadOptions, recompute: bool, servers: int
) -> float:
    if plan.cp == 1:
        return 0.0
    if plan.context_parallel == "ulysses":
        return _moved_heads(model, plan, options, recompute, servers)
    tokens = plan.micro_batch_size * plan.seq_len / plan.cp
    blocks = 0.0
    for attention, layers in model.attentions.items():
        if attention.kind == "none":
            continue
        if attention.linear:
            # one FP32 state per head, whatever the number of tokens
            state = attention.num_heads / plan.tp * attention.qk_dim * attention.v_dim
            blocks += layers * plan.micro_batch_size * state * 4.0
            continue
        heads = attention.num_heads if attention.kind == "mla" else attention.num_kv_heads
        on_rank = max(1.0, heads / plan.tp)
        block = tokens * on_rank * attention.kv_dim
        blocks += layers * block * options.activation_element_bytes
    # keys and values pass every other rank: forward once, backward with their gradients
    passes = 4 if recompute else 3
    return passes * (plan.cp - 1) * blocks * plan.micro_batches * plan.gpus / plan.pp


def _moved_heads(
    model: Model, plan: Plan, options: WorkloadOptions, recompute: bool, servers: int
) -> float:
    """Ulysses: queries, keys and values to the owners of the heads, results back; all twice.

    Across servers, what a GPU keeps counts as well.
    """
    widths = 0.0
    for attention, layers in model.attentions.items():
        if attention.kind == "none":
            continue
        keys = attention.num_heads if attention.kind == "mla" else attention.num_kv_heads
        queries, on_rank = attention.num_heads / plan.tp, max(1.0, keys / plan.tp)
        if attention.linear:
            # as many queries as keys, as many results as values
            width = 2 * on_rank * attention.qk_dim + 2 * queries * attention.v_dim
        else:
            width = queries * (attention.qk_dim + attention.v_dim) + on_rank * attention.kv_dim
        widths += layers * width
    tokens = plan.micro_batch_size * plan.seq_len / plan.cp
    passes = 3 if recompute else 2
    sent = passes * tokens * widths * options.activation_element_bytes
    moved = sent if servers > 1 else sent * (plan.cp - 1) / plan.cp
    return moved * plan.micro_batches * plan.gpus / plan.pp
