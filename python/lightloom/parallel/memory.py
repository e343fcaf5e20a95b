"""Memory of a training step per GPU and pipeline stage: a model, not a measurement.

Counted: parameters, gradients, optimizer states (Adam), activations of the micro-batches in flight
(:mod:`.activations`), logits, and the weight gradients of one dense layer before they are added up.
Left out: workspace of kernels and communication libraries, fragmentation, the framework
(``MemoryOptions.reserve`` leaves room for them). Nothing is fitted to a measured peak; the model is
held against those of ``tests/crosscheck/test_memory_measured.py`` (:data:`ERROR`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from lightloom.errors import PlanError, echo, expected_one_of
from lightloom.models.model import NO_ATTENTION, Model
from lightloom.models.parameters import (
    attention_parameters,
    dense_ffn_parameters,
    embedding_parameters,
    expert_parameters,
    expert_projection_parameters,
    mtp_parameters,
    norm_parameters,
    output_parameters,
    router_parameters,
    shared_expert_parameters,
    stream_parameters,
)
from lightloom.parallel.activations import (
    CACHES,
    FP8_BYTES,
    TENSORS,
    Format,
    Keeps,
    kept_tensors,
    module_tensors,
)
from lightloom.parallel.pipeline import peak_in_flight
from lightloom.parallel.plan import Plan, balanced_layout
from lightloom.practice import ActivationCache, Precision, Recompute, Sharded, StatePrecision

#: what a plan may recompute where nobody says it, from less to more
RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "attention", "full")

Floats = npt.NDArray[np.float64]

#: bytes per parameter of Adam: FP32 master copy and two moments in each format
_OPTIMIZER_BYTES = {"fp32": 12.0, "bf16": 8.0}


def recomputation_from(level: Recompute) -> tuple[Recompute, ...]:
    """A level of recomputation, and those that keep less and are chosen without being named."""
    if level in RECOMPUTE:
        return RECOMPUTE[RECOMPUTE.index(level) :]
    return (level, RECOMPUTE[-1])


@dataclass(frozen=True)
class MeasuredPeaks:
    """How far the model is from measured peaks: errors as shares of what was measured."""

    gpu: str
    number: int
    mean: float
    lowest: float
    highest: float

    @property
    def text(self) -> str:
        """In words."""
        low, high = (f"{100 * error:+.0f}" for error in (self.lowest, self.highest))
        return (
            f"{self.number} on {self.gpu.upper()} {low} to {high} %, {100 * self.mean:.1f} % off in"
            " the mean"
        )


#: what ``tests/crosscheck/test_memory_measured.py`` finds, and where the peaks are from
ERRORS = (
    # MooreThreads/SimuMax, b200_release_v1.2, 2026-05-01
    MeasuredPeaks("b200", 23, 0.018, -0.049, 0.052),
    # NVIDIA-NeMo/Megatron-Bridge, 2026-08-22: Qwen3 30B and Moonlight 16B
    MeasuredPeaks("h100", 3, 0.062, -0.095, -0.023),
)


@dataclass(frozen=True)
class MemoryOptions:
    """What the memory model assumes.

    Attributes
    ----------
    recompute
        Activations that the backward pass computes again: ``none``, ``selective`` (norms,
        activation functions, up-projections of latent attention), ``attention`` (scores and
        their product with the values), ``products`` (as ``selective``, and every second product
        of a layer) or ``full`` (every layer, only its input is kept).
    precision
        Format of linear layers: in FP8 and MXFP8 their inputs are kept in it, and layers have
        copies of their weights in it, by rows and by columns.
    state_precision
        Format of the two moments of Adam, in addition to an FP32 master copy.
    activation_cache
        What activations are kept as: see :data:`~lightloom.parallel.activations.CACHES`.
    keeps_outputs
        Whether outputs of experts are kept at their source, as Megatron-Core did before 0.12.
    keeps_scores
        Whether the soft-max of all scores is kept, as attention that is not fused does.
    sharded
        What data-parallel ranks share out where the plan has ZeRO: the optimizer's ``states``,
        ``gradients``, too, or all, so that ``parameters`` are gathered layer by layer.
    parameter_bytes, gradient_bytes, activation_bytes
        Bytes per element. Gradients are accumulated in FP32 as Megatron does by default. FP8
        parameters are themselves one of the copies that layers have; embedding and output stay
        BF16.
    logit_bytes
        Bytes per logit: FP32 and its gradient, as the fused kernel of Megatron-Core; that of
        Transformer Engine writes gradients over BF16 logits, 2.
    reserve
        Share of GPU memory that is not for the model.
    """

    recompute: Recompute = "none"
    precision: Precision = "bf16"
    state_precision: StatePrecision = "fp32"
    activation_cache: ActivationCache = "framework"
    keeps_outputs: bool = False
    keeps_scores: bool = False
    sharded: Sharded = "states"
    parameter_bytes: float = 2.0
    gradient_bytes: float = 4.0
    activation_bytes: float = 2.0
    logit_bytes: float = 8.0
    reserve: float = 0.04

    def __post_init__(self) -> None:
        """Refuse what is not a size or a share."""
        if self.recompute not in get_args(Recompute):
            choices = expected_one_of(self.recompute, get_args(Recompute))
            raise PlanError(f"recompute = {echo(self.recompute)}: {choices}")
        if self.state_precision not in _OPTIMIZER_BYTES:
            choices = expected_one_of(self.state_precision, _OPTIMIZER_BYTES)
            raise PlanError(f"state precision = {echo(self.state_precision)}: {choices}")
        if not 0 <= self.reserve < 1:
            raise PlanError(f"memory reserve = {self.reserve}: expected a share from 0 to below 1")

    @property
    def keeps(self) -> Keeps:
        """Which of the tensors that frameworks need not keep are kept."""
        return Keeps(self.keeps_outputs, self.keeps_scores)

    @property
    def optimizer_bytes(self) -> float:
        """Bytes per parameter of Adam in mixed precision."""
        return _OPTIMIZER_BYTES[self.state_precision]

    @property
    def is_fp8(self) -> bool:
        """Whether linear layers multiply in FP8, of which kind whatsoever."""
        return self.precision != "bf16"

    def bytes_as(self, kept_as: Format) -> float:
        """Bytes per element of an activation that is kept as this."""
        if kept_as == "linear" and self.is_fp8:
            return FP8_BYTES
        return CACHES[self.activation_cache].get(kept_as, self.activation_bytes)

    @property
    def layer_parameter_bytes(self) -> float:
        """Bytes per parameter of a layer: in FP8 by rows and by columns as well."""
        if not self.is_fp8:
            return self.parameter_bytes
        copies = 2 * FP8_BYTES
        return copies if self.parameter_bytes < 2 else self.parameter_bytes + copies


#: gathered chunks of an all-to-all that are on their way to their places, by strategy
BUFFERED_CHUNKS = {"O2": 1, "O3": 2, "O4": 0}
#: chunks of one whose number is open
FEWEST_CHUNKS = 2


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
class MemoryByStage:
    """Peak bytes per GPU of all pipeline stages, ``(pp,)`` each."""

    parameters_bytes: Floats
    gradients_bytes: Floats
    optimizer_bytes: Floats
    activations_bytes: Floats
    logits_bytes: Floats
    workspace_bytes: Floats

    @property
    def peak_bytes(self) -> float:
        """Of the stage that needs most."""
        return float(sum(vars(self).values(), start=np.zeros(1)).max())

    def stages(self) -> list[StageMemory]:
        """Stage by stage."""
        columns = {name: values.tolist() for name, values in vars(self).items()}
        rows = zip(*columns.values(), strict=True)
        return [
            StageMemory(stage, **dict(zip(columns, row, strict=True)))
            for stage, row in enumerate(rows)
        ]


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

    A tied table is held by the last stage, too, if that is not the first (as in Megatron), and so
    is the table that a module of multi-token prediction reads.
    """
    count = output_parameters(model)
    if (model.tied_embeddings or model.mtp_layers) and plan.pp > 1:
        count += model.vocab_size * model.hidden_size
    modules = model.mtp_layers * mtp_parameters(model)
    return norm_parameters(model) + (count + modules) / plan.tp


@functools.lru_cache(maxsize=4096)
def _layers_by_kind(
    first_alike: tuple[int, ...], pp: int, vpp: int, layout: tuple[int, ...]
) -> tuple[tuple[int, ...], Floats]:
    """Kinds of layers, each by the first of it, and how many a chunk has, ``(pp, vpp, kinds)``."""
    counts = layout or balanced_layout(len(first_alike), pp * vpp)
    kinds = tuple(sorted(set(first_alike)))
    kind_of = np.array([kinds.index(first) for first in first_alike], dtype=np.int64)
    chunk_of = np.repeat(np.arange(pp * vpp), counts)
    table = np.zeros((vpp * pp, len(kinds)))
    np.add.at(table, (chunk_of, kind_of), 1)
    return kinds, table.reshape(vpp, pp, len(kinds)).transpose(1, 0, 2)


def layers_by_kind(model: Model, plan: Plan) -> tuple[tuple[int, ...], Floats]:
    """Kinds of layers that are alike, and how many of each a stage holds in its chunks.

    Returns
    -------
    The first layer of each kind, and numbers of layers, ``(pp, vpp, kinds)``.
    """
    return _layers_by_kind(model.first_alike, plan.pp, plan.vpp, plan.pp_layout)


def stage_parameters(model: Model, plan: Plan, stage: int) -> LayerParameters:
    """Parameters of a pipeline stage that one GPU holds."""
    dense, expert = parameters_by_stage(model, plan)
    return LayerParameters(float(dense[stage]), float(expert[stage]))


def parameters_by_stage(model: Model, plan: Plan) -> tuple[Floats, Floats]:
    """Dense and expert parameters of each pipeline stage that one GPU holds, ``(pp,)`` each."""
    kinds, counts = layers_by_kind(model, plan)
    parts = [layer_parameters(model, plan, layer) for layer in kinds]
    return _with_tables(model, plan, counts.sum(axis=1), parts)


def _with_tables(
    model: Model, plan: Plan, held: Floats, parts: Sequence[LayerParameters]
) -> tuple[Floats, Floats]:
    """Parameters of the layers that each stage holds, and of embedding and output."""
    dense = held @ np.array([part.dense for part in parts])
    dense[0] += embedding_per_gpu(model, plan)
    dense[-1] += output_per_gpu(model, plan)
    return dense, held @ np.array([part.expert for part in parts])


def kept_bytes(tensors: Iterable[tuple[str, float]], options: MemoryOptions) -> tuple[float, float]:
    """Bytes of tensors that are kept for the backward pass, and when nothing is recomputed."""
    kept = full = 0.0
    for name, elements in tensors:
        tensor = TENSORS[name]
        size = elements * options.bytes_as(tensor.kept_as)
        full += size
        kept += 0.0 if options.recompute in tensor.recomputed_by else size
    return kept, full


def memory_by_stage(
    model: Model, plan: Plan, options: MemoryOptions | None = None
) -> MemoryByStage:
    """Peak memory per GPU of all stages.

    The activations in flight are those of the stage's own schedule (:func:`.peak_in_flight`). With
    recomputation one layer's full set is added, since it is rebuilt in the backward pass; where
    passes alternate, what one layer keeps, since its forward pass ends before it frees another.

    Raises
    ------
    PlanError
        If gradients are shared out by ranks that compute them in different orders.
    """
    return PlanMemory(model, plan).by_stage(options or MemoryOptions())


class PlanMemory:
    """What the memory of a plan follows from, whatever its options; see :func:`memory_by_stage`."""

    def __init__(self, model: Model, plan: Plan) -> None:
        self._model, self._plan = model, plan
        self._kinds, self._chunks = layers_by_kind(model, plan)
        self._tensors: dict[Keeps, list[list[tuple[str, float]]]] = {}
        parts = [layer_parameters(model, plan, layer) for layer in self._kinds]
        of_stages = self._chunks.sum(axis=1)
        self._layers_held = held = _held(plan, of_stages)
        self._largest = _largest(held, [part.dense + part.expert for part in parts])
        self._largest_dense = _largest(held, [part.dense for part in parts])
        all_ = [_held(plan, each) for each in _with_tables(model, plan, of_stages, parts)]
        self._shards = _Shards(plan, all_)
        inside = (np.array([vars(part)[name] for part in parts]) for name in ("dense", "expert"))
        self._layers = _Shards(plan, [held @ of_kinds for of_kinds in inside])

    def by_stage(self, options: MemoryOptions) -> MemoryByStage:
        """Peak memory per GPU of all stages; see :func:`memory_by_stage` for errors."""
        model, plan = self._model, self._plan
        if plan.zero1 and options.sharded != "states" and plan.copies > 1:
            raise PlanError(
                f"sharded {options.sharded} with schedule {plan.schedule}: the two places that hold"
                " a layer reduce its gradients in different orders; use 1f1b, or share states alone"
            )
        shares_parameters = options.sharded == "parameters"
        inside, all_ = (of.count(shares_parameters) for of in (self._layers, self._shards))
        parameters = inside * options.layer_parameter_bytes
        parameters += (all_ - inside) * max(options.parameter_bytes, options.activation_bytes)
        logits = np.zeros(plan.pp)
        # sharded over the vocabulary
        tokens = plan.micro_batch_size * plan.seq_len / plan.cp
        tokens *= 1 + model.mtp_layers
        logits[-1] = options.logit_bytes * tokens * model.vocab_size / plan.tp
        gradients = self._shards.count(options.sharded != "states")
        return MemoryByStage(
            parameters_bytes=parameters,
            gradients_bytes=gradients * options.gradient_bytes,
            optimizer_bytes=self._shards.count(True) * options.optimizer_bytes,
            activations_bytes=self._activations(options),
            logits_bytes=_held(plan, logits),
            workspace_bytes=self._workspace(options),
        )

    def _workspace(self, options: MemoryOptions) -> Floats:
        """What is there besides, of one layer at a time."""
        # a layer's BF16 weight gradients exist in addition to the accumulated ones
        size = self._largest_dense * options.activation_bytes
        if options.sharded == "parameters" and self._plan.zero1:
            # the next layer is gathered during the passes of one
            size = size + 2 * self._largest * options.layer_parameter_bytes
        if options.sharded != "states" and self._plan.zero1:
            # of a layer, until they are reduced
            size = size + self._largest * options.gradient_bytes
        return size + self._chunk_buffers(options)

    def _chunk_buffers(self, options: MemoryOptions) -> Floats:
        """What an all-to-all in chunks needs beside the copies that it leaves, ``(pp,)``.

        A chunk is received while TP ranks gather the part of it that is there. O4 gathers it to its
        place, O2 to a buffer that is copied from, and O3 to another one meanwhile. Where the
        number of chunks is open, there are as few as :data:`FEWEST_CHUNKS`.
        """
        model, plan = self._model, self._plan
        received = BUFFERED_CHUNKS.get("O3" if plan.strategy == "auto" else plan.strategy)
        if received is None:
            return np.zeros(plan.pp)
        chunks = plan.overlap_chunks * (plan.strategy_chunks or FEWEST_CHUNKS)
        copies = plan.tokens_per_ep_rank * model.experts_per_token / chunks
        size = copies * model.expert_hidden * options.activation_bytes
        buffers = (2 / plan.etp + received) * size
        return _largest(self._layers_held, [buffers * model.moe_layers[k] for k in self._kinds])

    def _activations(self, options: MemoryOptions) -> Floats:
        """Activations at the peak of each place, ``(pp,)``."""
        plan, keeps = self._plan, options.keeps
        if keeps not in self._tensors:
            self._tensors[keeps] = [
                list(kept_tensors(self._model, plan, layer, keeps)) for layer in self._kinds
            ]
        sizes = [kept_bytes(tensors, options) for tensors in self._tensors[keeps]]
        by_chunk = self._chunks @ np.array([kept for kept, _ in sizes])
        of_module, whole_module = kept_bytes(module_tensors(self._model, plan), options)
        modules = np.zeros(plan.pp)
        modules[-1] = self._model.mtp_layers
        by_chunk[:, -1] += modules * of_module
        if plan.copies > 1:
            by_chunk = np.concatenate([by_chunk, by_chunk[::-1]], axis=1)
        alternates = plan.overlap_all_to_all == "batch"
        added = _largest(
            self._layers_held, [full if alternates else full - kept for kept, full in sizes]
        )
        # a module is computed again with its layer
        added += np.where(_held(plan, modules) > 0, whole_module - of_module, 0.0)
        peaks = [
            peak_in_flight(plan, stage, tuple(weights))
            for stage, weights in enumerate(by_chunk.tolist())
        ]
        return np.array(peaks) + added


def _held(plan: Plan, by_stage: Floats) -> Floats:
    """What each place of the pipeline holds: with DualPipe that of the opposite stage, too."""
    return by_stage if plan.copies == 1 else by_stage + by_stage[::-1]


def _largest(held: Floats, of_kinds: Sequence[float]) -> Floats:
    """The largest value of the layers that each place holds, ``(pp,)``; 0 where it has none."""
    largest: Floats = np.where(held > 0, np.array(of_kinds), 0.0).max(axis=1)
    return largest


@dataclass(frozen=True)
class _Shards:
    """Dense and expert parameters of places, and what is left on one GPU where ranks share."""

    plan: Plan
    parts: Sequence[Floats]

    def count(self, is_shared: bool) -> Floats:
        """Parameters that one GPU has; its share only, if they are shared out and ZeRO is on."""
        dense, expert = self.parts
        plan = self.plan
        if is_shared and plan.zero1:
            dense = dense / (plan.copies * plan.dense_dp * plan.cp)
            expert = expert / (plan.copies * plan.groups_per_stage)
        return dense + expert


def memory_per_stage(
    model: Model, plan: Plan, options: MemoryOptions | None = None
) -> list[StageMemory]:
    """Peak memory per GPU of every stage."""
    return memory_by_stage(model, plan, options).stages()


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
