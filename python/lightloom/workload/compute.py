"""Compute times of a training step on one GPU, layer by layer.

``tokens`` everywhere are the tokens of one micro-batch that a tensor-parallel group holds:
``micro_batch_size * seq_len / cp``, before the tensor-parallel split. Weight gradients accumulate
in FP32 as in Megatron, norms and residuals are split over the tensor-parallel group (sequence
parallelism). Backward is data gradient plus weight gradient; ``recompute`` adds the forward of a
whole layer (``"full"``), of attention scores (``"attention"``), of norms, activation functions and
the up-projections of latent attention (``"selective"``), or of norms, activation functions and
every second product (``"products"``) to it. Communication is none of this module's business.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt

from lightloom.errors import HardwareError, echo, expected_one_of
from lightloom.hardware.gpus import Gpu, load_gpu
from lightloom.models.model import Model
from lightloom.practice import (
    AttentionKernels,
    Casts,
    ExpertProducts,
    Permutation,
    Precision,
    Recompute,
    StatePrecision,
)
from lightloom.workload.compute_attention import core_work, gate_work, rotary_work
from lightloom.workload.compute_dispatch import (
    ALL_TO_ALL,
    DISPATCHERS,
    Dispatch,
    arrival_work,
    dispatch_work,
    expert_bias,
    expert_clamp,
)
from lightloom.workload.compute_kernels import (
    BF16,
    EXPERT_PRODUCTS,
    FP32,
    NOTHING,
    PERMUTATIONS,
    Kernels,
    Stage,
    Work,
)
from lightloom.workload.compute_operators import Array, Efficiencies, load_launches
from lightloom.workload.compute_operators import load_efficiencies as _load_efficiencies
from lightloom.workload.projections import (
    Linear,
    every_second,
    expert_projections,
    latent_projections,
    projections,
)

RECOMPUTE: tuple[Recompute, ...] = get_args(Recompute)
STATE_PRECISIONS: tuple[StatePrecision, ...] = get_args(StatePrecision)

#: Adam moves, per parameter: gradient and FP32 master in, master and BF16 weight out; and reads and
#: clears the gradient once more for its norm. Two moments go in and out in addition.
_OPTIMIZER_BYTES = FP32 + FP32 + FP32 + BF16 + 2 * FP32
_MOMENT_BYTES = {"fp32": 4 * FP32, "bf16": 4 * BF16}

#: kernels of one optimizer pass over fused buffers
_OPTIMIZER_KERNELS = 4

#: kernels of the router after its product: soft-max or sigmoid, top-k, auxiliary loss, maps
_ROUTER_KERNELS = 12

#: above this many entries, expert times are looked up in a table over whole token counts
_TABLE_FROM = 4096


@dataclass(frozen=True)
class ComputeModel:
    """Times of layers on one kind of GPU; build it with :meth:`load`.

    Attributes
    ----------
    kernels
        The operators that layers are made of.
    recompute
        What backward computes again: nothing, norms and activations, attention scores, or all of
        forward.
    state_precision
        Format of the moments of Adam.
    dispatch
        How copies of tokens get to the experts and back.
    """

    kernels: Kernels
    recompute: Recompute = "none"
    state_precision: StatePrecision = "fp32"
    dispatch: Dispatch = ALL_TO_ALL

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("recompute", self.recompute, RECOMPUTE),
            ("state precision", self.state_precision, STATE_PRECISIONS),
            ("permutation", self.kernels.permutation, PERMUTATIONS),
            ("expert products", self.kernels.expert_products, EXPERT_PRODUCTS),
            ("dispatcher", self.dispatch.dispatcher, DISPATCHERS),
        ):
            if value not in choices:
                raise HardwareError(f"{name} = {echo(value)}: {expected_one_of(value, choices)}")

    @classmethod
    def load(  # noqa: PLR0913
        cls,
        gpu: str,
        profile: Path | None = None,
        *,
        recompute: Recompute = "none",
        precision: Precision = "bf16",
        permutation: Permutation = "fused",
        cuda_graphs: bool = False,
        expert_products: ExpertProducts = "grouped",
        attention_kernels: AttentionKernels = "fastest",
        casts: Casts = "fused",
        state_precision: StatePrecision = "fp32",
        dispatch: Dispatch = ALL_TO_ALL,
    ) -> ComputeModel:
        """Build the model of a GPU.

        Parameters
        ----------
        gpu
            Name, see :func:`lightloom.hardware.gpu_names`.
        profile
            A user's measurements, TOML or CSV (see ``docs/explanation/compute-calibration.md``).
        recompute, state_precision, dispatch
            See the class.
        precision, permutation, cuda_graphs, expert_products, attention_kernels, casts
            See :class:`~lightloom.workload.compute_kernels.Kernels`.

        Raises
        ------
        HardwareError
            If the GPU is unknown or does not compute in ``precision``, or the profile is wrong.
        """
        description = load_gpu(gpu)
        kernels = Kernels(
            description,
            _load_efficiencies(description, profile),
            load_launches(profile),
            precision,
            permutation,
            cuda_graphs,
            expert_products,
            attention_kernels,
            casts,
        )
        return cls(kernels, recompute, state_precision, dispatch)

    @property
    def gpu(self) -> Gpu:
        """The GPU."""
        return self.kernels.gpu

    @property
    def attention_kernels(self) -> AttentionKernels:
        """Which kernels compute attention."""
        return self.kernels.attention_kernels

    @property
    def precision(self) -> Precision:
        """Format of the products of linear layers and experts."""
        return self.kernels.precision

    @property
    def efficiencies(self) -> Efficiencies:
        """Operator efficiencies, measured or assumed."""
        return self.kernels.efficiencies

    def with_efficiencies(self, efficiencies: Efficiencies) -> ComputeModel:
        """The same model with other operator efficiencies."""
        return replace(self, kernels=replace(self.kernels, efficiencies=efficiencies))

    @property
    def assumed(self) -> bool:
        """Whether any efficiency of a matrix product or attention was not measured."""
        return bool(self.efficiencies.assumed & self.efficiencies.curves.keys())

    @property
    def provenance(self) -> dict[str, str]:
        """Where each efficiency, launch time and peak comes from, and what was chosen."""
        peaks = {
            f"gpu.{key}": str(self.gpu.provenance[key])
            for key in ("peak_bf16_flops", "peak_fp8_flops", "hbm_rate_gbps")
            if key in self.gpu.provenance
        }
        chosen = {
            "precision": self.precision,
            "permutation": self.kernels.permutation,
            "cuda_graphs": str(self.kernels.cuda_graphs).lower(),
            "expert_products": self.kernels.expert_products,
            "attention_kernels": self.attention_kernels,
            "casts": self.kernels.casts,
            "state_precision": self.state_precision,
            "dispatcher": self.dispatch.dispatcher,
        }
        return {
            **self.efficiencies.provenance,
            **self.kernels.launches.provenance,
            **peaks,
            **chosen,
        }

    # Weight gradients alone

    def weight_gradient(self, tokens: float, k: float, n: float, *, linear: bool = True) -> float:
        """Time of the weight gradient of a layer from ``k`` to ``n``, s.

        ``linear`` layers compute in the model's precision; router and output projection in BF16.
        """
        product = self.kernels.matmul(k, tokens, n, accumulate=True, linear=linear)
        return float(product.kernel_s)

    def expert_weight_gradients(self, tokens_per_expert: npt.ArrayLike, k: int, n: int) -> Array:
        """Times of the weight gradients of every expert for its tokens, any shape, s."""
        return self.kernels.grouped_matmul(tokens_per_expert, k, n, "wgrad")

    # Layers

    def attention_layer(
        self, model: Model, tokens: float, seq_len: int, tp: int, cp: int, backward: bool
    ) -> float:
        """Time of norm, projections, attention and residual of a ``model.attention`` layer, s."""
        if model.attention.kind == "none":
            return 0.0
        again = NOTHING
        if self.recompute == "attention":
            again = self._scores(model, tokens, seq_len, tp, cp, False)
        elif self.recompute == "selective":
            again = self._norm(model, tokens / tp) + self._latent_up(model, tokens, tp)
        elif self.recompute == "products":
            again = self._norm(model, tokens / tp)
            again += self._linear(every_second(model, tokens, tp), False)
        return self._total(
            [self._attention_layer(model, tokens, seq_len, tp, cp, back) for back in (False, True)],
            backward,
            again,
        )

    def _total(self, passes: list[Work], backward: bool, again: Work = NOTHING) -> float:
        """Time of a part: forward, or backward with what it computes again."""
        forward, reverse = passes
        if not backward:
            return float(self.kernels.seconds(forward))
        total = float(self.kernels.seconds(reverse + again))
        if self.recompute == "full":
            total += float(self.kernels.seconds(forward))
        return total

    def _attention_layer(
        self, model: Model, tokens: float, seq_len: int, tp: int, cp: int, backward: bool
    ) -> Work:
        projections = self._mla if model.attention.kind == "mla" else self._gqa_projections
        return (
            self._norm_and_residual(model, tokens / tp, backward)
            + projections(model, tokens, tp, backward)
            + self._scores(model, tokens, seq_len, tp, cp, backward)
        )

    def _norm(self, model: Model, tokens: float) -> Work:
        return self.kernels.elementwise(tokens * model.hidden_size, 2)

    def _norm_and_residual(self, model: Model, tokens: float, backward: bool) -> Work:
        # Norm: in, out (backward: gradient, input, result); residual: two in, one out.
        # With several streams a block reads all to mix them, and writes all.
        streams = 3 * model.residual_streams
        passes = 3 + streams if backward else 2 + streams
        return self.kernels.elementwise(tokens * model.hidden_size, passes, 2)

    def _scores(
        self, model: Model, tokens: float, seq_len: int, tp: int, cp: int, backward: bool
    ) -> Work:
        return core_work(self.kernels, model, tokens * cp / seq_len, seq_len, tp * cp, backward)

    def _linear(self, layers: tuple[Linear, ...], backward: bool) -> Work:
        total = NOTHING
        for layer in layers:
            total += self.kernels.linear(*layer.sizes, backward, quantized=layer.quantized)
        return total

    def _gqa_projections(self, model: Model, tokens: float, tp: int, backward: bool) -> Work:
        attention, kernels = model.attention, self.kernels
        total = self._linear(projections(model, tokens, tp), backward)
        total += gate_work(kernels, model, tokens, tp, backward)
        if attention.linear:
            return total
        total += rotary_work(kernels, model, tokens, tp, backward)
        if attention.qk_norm:
            heads = attention.num_heads / tp + max(attention.num_kv_heads / tp, 1)
            normed = tokens * heads * attention.head_dim
            total += kernels.elementwise(normed, 3 if backward else 2, 2)
        return total

    def _mla(self, model: Model, tokens: float, tp: int, backward: bool) -> Work:
        attention = model.attention
        total = self._linear(projections(model, tokens, tp), backward)
        total += gate_work(self.kernels, model, tokens, tp, backward)
        total += self._joined_heads(model, tokens, tp)
        norms = tokens / tp * (attention.q_lora_rank + attention.kv_lora_rank)
        return total + self.kernels.elementwise(norms, 3 if backward else 2, 2)

    def _latent_up(self, model: Model, tokens: float, tp: int) -> Work:
        """Forward up-projections of latent attention, and what makes heads of them, if any."""
        if model.attention.kind != "mla":
            return NOTHING
        total = self._linear(latent_projections(model, tokens, tp), False)
        return total + self._joined_heads(model, tokens, tp)

    def _joined_heads(self, model: Model, tokens: float, tp: int) -> Work:
        """Rotary embedding, and the copies that join its part to each head of query and key."""
        query = model.attention.num_heads / tp * model.attention.qk_dim
        return self.kernels.elementwise(tokens * 2 * query, 4, 4)

    def dense_ffn(self, model: Model, tokens: float, tp: int, backward: bool) -> float:
        """Time of norm, dense feed-forward of ``ffn_size`` and residual of one layer, s."""
        width = model.ffn_size / tp
        again = self._selective(
            self._norm(model, tokens / tp)
            + self._activation(model, tokens, width, False)
            + self._gate_again(model, tokens, width)
        )
        passes = [
            self._norm_and_residual(model, tokens / tp, back)
            + self._ffn(model, tokens, width, back)
            for back in (False, True)
        ]
        return self._total(passes, backward, again)

    def _selective(self, again: Work) -> Work:
        return again if self.recompute in ("selective", "products") else NOTHING

    def _gate_again(self, model: Model, tokens: float, width: float) -> Work:
        """The second product of a gated feed-forward, where every second one is not kept."""
        if self.recompute != "products" or not model.gated_ffn:
            return NOTHING
        return self.kernels.linear(tokens, model.hidden_size, width, False, quantized=True)

    def _ffn(self, model: Model, tokens: float, width: float, backward: bool) -> Work:
        up = (2 if model.gated_ffn else 1) * width
        kernels, hidden = self.kernels, model.hidden_size
        total = kernels.linear(tokens, hidden, up, backward, quantized=True)
        # what an activation function gives is cast apart but for fused casts
        fused = kernels.casts == "fused"
        total += kernels.linear(tokens, width, hidden, backward, quantized=fused)
        return total + self._activation(model, tokens, width, backward)

    def _activation(
        self, model: Model, tokens: float | Array, width: float, backward: bool
    ) -> Work:
        # Forward reads up, writes width; backward reads both and the gradient, writes up.
        up = (2 if model.gated_ffn else 1) * width
        return self.kernels.elementwise(tokens * (2 * up + width if backward else up + width), 1)

    def gate(self, model: Model, tokens: float, backward: bool, tp: int = 1) -> float:
        """Time of norm, router, permutation of tokens, its inverse, and residual, s.

        The permutation before dispatch and the inverse after combine are both counted here (see
        :mod:`.compute_dispatch`), and the wait of the host for the numbers of tokens.
        """
        share = tokens / tp
        again = self._selective(self._norm(model, share))
        return self._total(
            [self._gate(model, share, back) for back in (False, True)], backward, again
        )

    def _gate(self, model: Model, tokens: float, backward: bool) -> Work:
        kernels = self.kernels
        total = self._norm_and_residual(model, tokens, backward)
        choices = model.num_experts + model.zero_experts
        total += kernels.linear_bf16(tokens, model.hidden_size, choices, backward)
        for sizes in expert_projections(model, tokens):
            total += kernels.linear(*sizes, backward, quantized=False)
        # Scores in FP32: soft-max, top-k, auxiliary loss, maps.
        scores = 6 * tokens * choices * FP32
        total += kernels.moved(scores, "elementwise", _ROUTER_KERNELS)
        return total + dispatch_work(kernels, self.dispatch, model, tokens, backward)

    def experts(
        self,
        model: Model,
        tokens_per_gpu: npt.ArrayLike,
        experts_per_gpu: int,
        etp: int,
        backward: bool,
    ) -> Array:
        """Time of the routed experts of one layer on each GPU, s.

        Parameters
        ----------
        model
            Its hidden size, expert width and gating are used.
        tokens_per_gpu
            Token copies that arrive at each GPU, any shape; taken as even over its experts.
        experts_per_gpu
            Experts on a GPU.
        etp
            Tensor parallelism within an expert.
        backward
            Both gradients instead of the forward pass.

        Returns
        -------
        Times of the shape of ``tokens_per_gpu``. Whole numbers in large arrays are looked up.
        """
        tokens = np.asarray(tokens_per_gpu)
        sizes = (experts_per_gpu, model.expert_ffn_size / etp)
        if tokens.size < _TABLE_FROM or not np.issubdtype(tokens.dtype, np.integer):
            return self._experts(model, tokens.astype(np.float64), sizes, backward)
        largest = int(tokens.max())
        if largest > 8 * tokens.size:
            return self._experts(model, tokens.astype(np.float64), sizes, backward)
        every = np.arange(largest + 1, dtype=np.float64)
        table = self._experts(model, every, sizes, backward)
        return np.asarray(table[tokens])

    def _experts(
        self, model: Model, tokens: Array, sizes: tuple[int, float], backward: bool
    ) -> Array:
        forward = self._experts_once(model, tokens, sizes, False)
        seconds = self._expert_seconds(tokens, forward)
        if not backward:
            return seconds
        again = self._selective(self._expert_activation(model, tokens, sizes[1], False))
        reverse = self._experts_once(model, tokens, sizes, True)
        total = self._expert_seconds(tokens, reverse + again)
        return total + seconds if self.recompute == "full" else total

    def _expert_seconds(self, tokens: Array, work: Work) -> Array:
        # numbers of tokens that differ from pass to pass cannot be captured in a CUDA graph
        seconds = self.kernels.seconds(work, captured=not self.dispatch.dropless)
        return np.asarray(np.where(tokens > 0, seconds, 0.0))

    def _experts_once(
        self, model: Model, tokens: Array, sizes: tuple[int, float], backward: bool
    ) -> Work:
        kernels, hidden = self.kernels, model.expert_hidden
        experts, width = sizes
        up = (2 if model.gated_ffn else 1) * width
        stages: tuple[Stage, ...] = ("dgrad", "wgrad") if backward else ("forward",)
        total = self._expert_activation(model, tokens, width, backward)
        for product in ((hidden, up), (width, hidden)):
            # a product quantizes its input, or the gradient of its output
            total += kernels.quantize_experts(tokens * product[1 if backward else 0], experts)
            for stage in stages:
                total += kernels.expert_products_of(tokens / experts, experts, product, stage)
        total += arrival_work(kernels, self.dispatch, tokens * hidden, experts, backward)
        if model.expert_bias:
            total += expert_bias(kernels, self.dispatch, tokens * hidden, experts, backward)
        return total

    def _expert_activation(self, model: Model, tokens: Array, width: float, backward: bool) -> Work:
        total = self._activation(model, tokens, width, backward)
        if model.expert_clamp:
            total += expert_clamp(self.kernels, tokens * 2 * width, backward)
        return total

    def shared_experts(self, model: Model, tokens: float, tp: int, backward: bool) -> float:
        """Time of the shared experts of one layer, s; 0 where there are none."""
        if not model.shared_expert_ffn_size:
            return 0.0
        width = model.shared_expert_ffn_size / tp
        again = self._selective(
            self._activation(model, tokens, width, False) + self._gate_again(model, tokens, width)
        )
        passes = [self._ffn(model, tokens, width, back) for back in (False, True)]
        return self._total(passes, backward, again)

    def copied(self, size_bytes: Array) -> Array:
        """Time of one copy of so many bytes within the GPU's memory, s."""
        return np.asarray(self.kernels.seconds(self.kernels.moved(2 * size_bytes, "elementwise")))

    def embedding(self, model: Model, tokens: float, tp: int, backward: bool) -> float:
        """Time of the embedding lookup on the first stage, s."""
        # Backward adds rows into FP32 gradients; each rank holds its share of the sequence.
        work = self.kernels.elementwise(tokens / tp * model.hidden_size, 5 if backward else 2)
        return float(self.kernels.seconds(work))

    def head(self, model: Model, tokens: float, tp: int, backward: bool) -> float:
        """Time of final norm, output projection and loss on the last stage, s.

        For each module of multi-token prediction once more, with its projection, two more norms
        and the embedding of the next tokens.
        """
        kernels, vocabulary, hidden = self.kernels, model.vocab_size / tp, model.hidden_size
        norm = kernels.elementwise(tokens / tp * hidden, 3 if backward else 2)
        total = norm + kernels.linear_bf16(tokens, hidden, vocabulary, backward)
        # Logits in and out once each way: the fused loss that was measured.
        total += kernels.moved(2 * tokens * vocabulary * BF16, "cross_entropy")
        seconds = float(kernels.seconds(total))
        if not model.mtp_layers:
            return seconds
        module = norm + norm + kernels.linear(tokens, 2 * hidden, hidden / tp, backward)
        own = float(kernels.seconds(module))
        if backward and self.recompute == "full":
            # computed again with the layer behind it
            first = kernels.elementwise(tokens / tp * hidden, 2)
            module = first + first + kernels.linear(tokens, 2 * hidden, hidden / tp, False)
            own += float(kernels.seconds(module))
        own += seconds + self.embedding(model, tokens, tp, backward)
        return seconds + model.mtp_layers * own

    def optimizer(self, parameters_per_gpu: float) -> float:
        """Time of Adam on the parameters that this GPU updates, s."""
        if not parameters_per_gpu:
            return 0.0
        size_bytes = parameters_per_gpu * (_OPTIMIZER_BYTES + _MOMENT_BYTES[self.state_precision])
        work = self.kernels.moved(size_bytes, "optimizer", _OPTIMIZER_KERNELS)
        return float(self.kernels.seconds(work))
