"""Memory of a training step per GPU and pipeline stage: a model, not a measurement.

Counted: parameters, gradients, optimizer states (Adam), activations of the micro-batches in flight,
logits, and the weight gradients of one dense layer before they are added up. Left out: workspace
of kernels and communication libraries, fragmentation, the framework (``MemoryOptions.reserve``
leaves room for them). Activations follow Korthikanti et al. (arXiv 2205.05198), section 4, without
the quadratic term, since attention is computed in tiles; routed tokens are taken as balanced over
ranks. Checked against measured peaks in ``tests/crosscheck/test_memory_measured.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from lightloom.errors import PlanError, echo, expected_one_of
from lightloom.models.attention_work import CHUNK_TOKENS
from lightloom.models.model import NO_ATTENTION, Attention, Model
from lightloom.models.parameters import (
    attention_parameters,
    dense_ffn_parameters,
    embedding_parameters,
    expert_parameters,
    expert_projection_parameters,
    norm_parameters,
    output_parameters,
    router_parameters,
    shared_expert_parameters,
    stream_parameters,
)
from lightloom.parallel.pipeline import peak_in_flight
from lightloom.parallel.plan import Plan
from lightloom.practice import Precision, Recompute, StatePrecision

RECOMPUTE: tuple[Recompute, ...] = get_args(Recompute)

#: bytes of an FP8 value with its scale
_FP8_BYTES = 1 + 1 / 32

#: bytes per parameter of Adam: FP32 master copy and two moments in each format
_OPTIMIZER_BYTES = {"fp32": 12.0, "bf16": 8.0}


@dataclass(frozen=True)
class MemoryOptions:
    """What the memory model assumes.

    Attributes
    ----------
    recompute
        Activations that the backward pass computes again: ``none``, ``selective`` (norms,
        activation functions, up-projections of latent attention), ``attention`` (scores and
        their product with the values) or ``full`` (every layer, only its input is kept).
    precision
        Format of linear layers: in FP8 and MXFP8 their inputs are kept in it, and layers have
        copies of their weights in it, by rows and by columns.
    state_precision
        Format of the two moments of Adam, in addition to an FP32 master copy.
    parameter_bytes, gradient_bytes, activation_bytes
        Bytes per element. Gradients are accumulated in FP32 as Megatron does by default.
    reserve
        Share of GPU memory that is not for the model.
    """

    recompute: Recompute = "none"
    precision: Precision = "bf16"
    state_precision: StatePrecision = "fp32"
    parameter_bytes: float = 2.0
    gradient_bytes: float = 4.0
    activation_bytes: float = 2.0
    reserve: float = 0.04

    def __post_init__(self) -> None:
        """Refuse what is not a size or a share."""
        if self.recompute not in RECOMPUTE:
            raise PlanError(
                f"recompute = {echo(self.recompute)}: {expected_one_of(self.recompute, RECOMPUTE)}"
            )
        if self.state_precision not in _OPTIMIZER_BYTES:
            known = expected_one_of(self.state_precision, _OPTIMIZER_BYTES)
            raise PlanError(f"state precision = {echo(self.state_precision)}: {known}")
        if not 0 <= self.reserve < 1:
            raise PlanError(f"memory reserve = {self.reserve}: expected a share from 0 to below 1")

    @property
    def optimizer_bytes(self) -> float:
        """Bytes per parameter of Adam in mixed precision."""
        return _OPTIMIZER_BYTES[self.state_precision]

    @property
    def input_bytes(self) -> float:
        """Bytes per element of the kept input of a linear layer."""
        return self.activation_bytes if self.precision == "bf16" else _FP8_BYTES

    @property
    def weight_copy_bytes(self) -> float:
        """Bytes per parameter of a layer's copies in FP8; none in BF16."""
        return 0.0 if self.precision == "bf16" else 2 * _FP8_BYTES


@dataclass(frozen=True)
class StageMemory:
    """Peak bytes per GPU of one pipeline stage."""

    stage: int
    parameters_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    logits_bytes: float
    workspace_bytes: float

    @property
    def total_bytes(self) -> float:
        """Sum of all parts."""
        return (
            self.parameters_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.activations_bytes
            + self.logits_bytes
            + self.workspace_bytes
        )


@dataclass(frozen=True)
class LayerParameters:
    """Parameters on one GPU: of dense parts (replicated over dense DP) and of experts."""

    dense: float
    expert: float


def layer_parameters(model: Model, plan: Plan, layer: int) -> LayerParameters:
    """Parameters of one layer that one GPU holds; norms and router are on every TP rank."""
    variant = model.variants[model.attention_index(layer)]
    width = model.ffn_width(layer)
    blocks = (variant.attention != NO_ATTENTION) + (width > 0 or model.moe_layers[layer])
    norms = (2 if model.post_norms else 1) * norm_parameters(model)
    dense = attention_parameters(variant) / plan.tp
    dense += blocks * (norms + stream_parameters(model))
    if not model.moe_layers[layer]:
        return LayerParameters(dense + dense_ffn_parameters(model, width) / plan.tp, 0.0)
    dense += router_parameters(model) + expert_projection_parameters(model)
    dense += shared_expert_parameters(model) / plan.tp
    experts = model.num_experts * expert_parameters(model) / (plan.ep * plan.etp)
    return LayerParameters(dense, experts)


def embedding_per_gpu(model: Model, plan: Plan) -> float:
    """Parameters of the input embedding on each GPU of the first stage."""
    return embedding_parameters(model) / plan.tp


def output_per_gpu(model: Model, plan: Plan) -> float:
    """Parameters of the final norm and output projection on each GPU of the last stage.

    A tied table is held by the last stage, too, if that is not the first (as in Megatron).
    """
    count = output_parameters(model)
    if model.tied_embeddings and plan.pp > 1:
        count += model.vocab_size * model.hidden_size
    return norm_parameters(model) + count / plan.tp


def stage_parameters(model: Model, plan: Plan, stage: int) -> LayerParameters:
    """Parameters of a pipeline stage that one GPU holds."""
    chunks = plan.layers(model.num_layers)[stage]
    parts = [layer_parameters(model, plan, layer) for chunk in chunks for layer in chunk]
    dense = sum(part.dense for part in parts)
    if stage == 0:
        dense += embedding_per_gpu(model, plan)
    if stage == plan.pp - 1:
        dense += output_per_gpu(model, plan)
    return LayerParameters(dense, sum(part.expert for part in parts))


def layer_activations(
    model: Model, plan: Plan, layer: int, options: MemoryOptions
) -> tuple[float, float]:
    """Bytes that one layer keeps of one micro-batch per GPU, and when nothing is recomputed."""
    tokens = plan.micro_batch_size * plan.seq_len / plan.cp
    sharded = tokens / plan.tp
    # tensors between the tensor-parallel regions: sharded over TP only with sequence parallelism
    between = sharded if plan.sequence_parallel else tokens
    inputs, other = options.input_bytes, options.activation_bytes
    hidden = model.hidden_size
    attention = model.variants[model.attention_index(layer)].attention
    # what goes from block to block
    layer_input = between * hidden * model.residual_streams * other
    feed, made = _feed_forward_activations(model, plan, layer, between, options)
    if attention.kind == "none":
        full = layer_input + feed
        return {"full": layer_input, "selective": full - made}.get(options.recompute, full), full
    heads = _kept_heads(attention, plan.tp)
    # output of the core; attention keeps it in BF16, the projection after it reads that
    core = sharded * attention.num_heads * attention.v_dim * other
    # the normalized input, queries, keys, values, residual between attention and feed-forward
    normalized = between * hidden * inputs
    attended = normalized + sharded * heads * other + core + (layer_input if feed else 0.0)
    again = normalized
    if attention.kind == "mla":
        # heads are made again from the latents, which are kept instead
        latent = attention.q_lora_rank + attention.kv_lora_rank + attention.qk_rope_head_dim
        again += max(0.0, sharded * (heads - latent) * other)
    full = layer_input + attended + feed
    kept = {
        "none": full,
        "selective": full - again - made,
        "attention": full - core,
        "full": layer_input,
    }
    return kept[options.recompute], full


def _kept_heads(attention: Attention, tp: int) -> float:
    """What attention keeps per token, but for its result: queries, keys, values and its gate."""
    if attention.linear:
        return _linear_heads(attention)
    values = attention.num_heads * attention.v_dim
    heads = max(1.0, attention.num_kv_heads / tp) * tp
    if attention.kind == "mla":
        heads = attention.num_heads
    kept = attention.num_heads * attention.qk_dim + heads * attention.kv_dim
    return kept + (values if attention.output_gate else 0)


def _linear_heads(attention: Attention) -> float:
    """What linear attention keeps per token, but for its result; states are computed again.

    Queries, keys and values, before and after a convolution; the gate; of the delta rule, the
    products of keys within a chunk.
    """
    values = attention.num_heads * attention.v_dim
    made = 2 * attention.num_kv_heads * attention.qk_dim + values
    kept = 2 * made if attention.conv_width else made
    if attention.kind in {"delta", "kda"}:
        kept += attention.num_heads * CHUNK_TOKENS[attention.kind]
    if attention.kind == "kda":
        kept += attention.num_heads * attention.qk_dim  # a decay per channel
    if attention.kind == "mamba":
        kept += values  # a step per channel
    return kept + (values if attention.output_gate else 0)


def _feed_forward_activations(
    model: Model, plan: Plan, layer: int, between: float, options: MemoryOptions
) -> tuple[float, float]:
    """Bytes of the second norm and the feed-forward network, and those of norm and activation."""
    sharded = plan.micro_batch_size * plan.seq_len / plan.cp / plan.tp
    inputs, other = options.input_bytes, options.activation_bytes
    hidden, branches = model.hidden_size, 2 if model.gated_ffn else 1

    def network(width: float) -> tuple[float, float]:
        """Widths before the activation function, and after it."""
        return branches * width * other, width * inputs

    normalized = between * hidden * inputs
    if not model.moe_layers[layer]:
        width = model.ffn_width(layer)
        if not width:
            return 0.0, 0.0
        before, after = (sharded * size for size in network(width))
        return normalized + before + after, normalized + after
    routed = plan.tokens_per_ep_rank * model.experts_per_token
    before, after = (routed * size for size in network(model.expert_ffn_size / plan.etp))
    # gathered copies; outputs of experts back at their source, which the gate weights
    copies = routed * model.expert_hidden * (inputs + other / plan.etp)
    shared = [sharded * size for size in network(model.shared_expert_ffn_size)]
    made = normalized + after + shared[1]
    return normalized + copies + before + after + sum(shared), made


def stage_memory(
    model: Model, plan: Plan, stage: int, options: MemoryOptions | None = None
) -> StageMemory:
    """Peak memory of each GPU of a pipeline stage.

    The activations in flight are those of the stage's own schedule (1F1B or interleaved); with
    recomputation one layer's full set is added, since it is rebuilt in the backward pass.
    """
    options = options or MemoryOptions()
    held = plan.held_stages(stage)
    by_stage = plan.layers(model.num_layers)
    chunks = [chunk for one in held for chunk in by_stage[one]]
    layers = [layer for chunk in chunks for layer in chunk]
    parameters = [stage_parameters(model, plan, one) for one in held]
    dense, expert = sum(one.dense for one in parameters), sum(one.expert for one in parameters)
    count = dense + expert
    parts = [layer_parameters(model, plan, layer) for layer in layers]
    copies = sum(part.dense + part.expert for part in parts) * options.weight_copy_bytes
    # a layer's BF16 weight gradients exist in addition to the accumulated ones
    unadded = max((part.dense for part in parts), default=0.0)
    shards = plan.copies * plan.dense_dp * plan.cp if plan.zero1 else 1
    expert_shards = plan.copies * plan.groups_per_stage if plan.zero1 else 1
    states = dense / shards + expert / expert_shards
    sizes = {layer: layer_activations(model, plan, layer, options) for layer in layers}
    weights = tuple(float(sum(sizes[layer][0] for layer in chunk)) for chunk in chunks)
    activations = peak_in_flight(plan, stage, weights)
    activations += max((full - kept for kept, full in sizes.values()), default=0.0)
    logits = 0.0
    if plan.pp - 1 in held:
        tokens = plan.micro_batch_size * plan.seq_len / plan.cp
        # FP32 logits and their gradient, sharded over the vocabulary
        logits = 2 * 4.0 * tokens * model.vocab_size / plan.tp
    return StageMemory(
        stage=stage,
        parameters_bytes=count * options.parameter_bytes + copies,
        gradients_bytes=count * options.gradient_bytes,
        optimizer_bytes=states * options.optimizer_bytes,
        activations_bytes=activations,
        logits_bytes=logits,
        workspace_bytes=unadded * options.parameter_bytes,
    )


def memory_per_stage(
    model: Model, plan: Plan, options: MemoryOptions | None = None
) -> list[StageMemory]:
    """Peak memory per GPU of every stage."""
    return [stage_memory(model, plan, stage, options) for stage in range(plan.pp)]


def does_not_fit(stages: list[StageMemory], gpu_memory_bytes: float, reserve: float) -> str | None:
    """One line that says which stage exceeds the GPU's memory, or ``None`` if all fit."""
    worst = max(stages, key=lambda memory: memory.total_bytes)
    room = gpu_memory_bytes * (1 - reserve)
    if worst.total_bytes <= room:
        return None
    return (
        f"stage {worst.stage} needs {worst.total_bytes / 1e9:.1f} GB per GPU, {room / 1e9:.1f} GB "
        f"of {gpu_memory_bytes / 1e9:.0f} GB are for the model"
    )
