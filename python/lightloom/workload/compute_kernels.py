"""Kernels of one GPU: matrix products, attention, copies, and what launching them costs.

Every method returns :class:`Work`, the time that kernels take and how many they are; the time of a
part of a layer follows from the sum over its kernels (:meth:`Kernels.seconds`). In FP8 and NVFP4,
linear layers quantize their operands: BF16 values are read, values with scales are written twice,
along rows for this product and along columns for the weight gradient (:data:`CASTS`). Where the
kernel before writes them at once, that costs nothing more; routed experts have no such kernel
before them. Weights are quantized once per step, which is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from lightloom.errors import HardwareError, echo, expected_one_of
from lightloom.hardware.gpus import Gpu
from lightloom.practice import AttentionKernels, Casts, ExpertProducts, Permutation, Precision
from lightloom.workload.compute_operators import (
    FLASH,
    FP8_ATTENTION,
    MEMORY_KINDS,
    SUFFIXES,
    Array,
    Curve,
    Efficiencies,
    Launches,
)

PERMUTATIONS: tuple[Permutation, ...] = get_args(Permutation)
EXPERT_PRODUCTS: tuple[ExpertProducts, ...] = get_args(ExpertProducts)
Stage = Literal["forward", "dgrad", "wgrad"]

#: bytes of one element: BF16, FP32, and by format of products, with their scales (FP8: 4 bytes per
#: 128 or 1 per 32 elements, NVFP4: 1 per 16)
BF16, FP32 = 2.0, 4.0
ELEMENT_BYTES = {"bf16": BF16, "fp8": 1 + 1 / 32, "mxfp8": 1 + 1 / 32, "nvfp4": 1 / 2 + 1 / 16}

#: kernels that permute copies of tokens once: one that makes the map and one that moves, or in
#: addition sorts, histograms, index copies and products with the probabilities
_PERMUTE_KERNELS = {"fused": 2, "unfused": 6}

#: streams over which kernels of different experts are launched, as Transformer Engine does
_EXPERT_STREAMS = 4

#: family of curves and name of attention that is not the fastest in BF16
_ATTENTION: dict[AttentionKernels, tuple[str, str]] = {
    "flash-2": (FLASH, "FlashAttention 2 was not measured beside its fastest attention"),
    "fp8": (FP8_ATTENTION, "attention in FP8 was not measured on it"),
}

#: width of the heads that curves of attention were measured with
MEASURED_HEADS = 128

#: kernels that quantize a matrix: FP8 takes its largest value first, and the scale from it
_QUANTIZE_KERNELS = {"fp8": 3, "mxfp8": 1, "nvfp4": 3}


class Cast(NamedTuple):
    """Passes over an operand: readings in BF16, writings in the narrow format, and kernels."""

    readings: int
    writings: int
    kernels: int


#: casts of an operand, and of one that a norm writes. Transformer Engine's norms (``normalization``
#: in its extensions for PyTorch) write narrow values themselves with delayed scales, and in MXFP8
#: where cuDNN does them; with current scales they find the largest value since 2.8, which other
#: operands are read for first; blocks, those of MXFP8 among them, are cast in a pass of their own
CASTS: dict[Casts, tuple[Cast, Cast]] = {
    "fused": (Cast(1, 2, 1), Cast(0, 0, 0)),
    "current": (Cast(2, 2, 3), Cast(1, 2, 2)),
    "block": (Cast(1, 2, 1), Cast(1, 2, 1)),
    # the largest value, the cast, its transposed copy
    "separate": (Cast(2, 3, 3), Cast(2, 3, 3)),
}

#: kernels that make the mask of causal attention
_MASK_KERNELS = 8

#: kernels of a product: block scales of both operands are reordered first
_PRODUCT_KERNELS = {"bf16": 1, "fp8": 1, "mxfp8": 3, "nvfp4": 3}


@dataclass(frozen=True)
class Work:
    """Time of kernels in s, a number or an array; how many they are, and gaps between them.

    ``kernels`` are what the host launches; ``gaps`` how often the GPU idles between one kernel and
    the next, which is less where kernels run on several streams.
    """

    kernel_s: float | Array
    kernels: float
    gaps: float

    @classmethod
    def of(cls, kernel_s: float | Array, kernels: float) -> Work:
        """Kernels of one stream."""
        return cls(kernel_s, kernels, kernels)

    def __add__(self, other: Work) -> Work:
        return Work(
            self.kernel_s + other.kernel_s, self.kernels + other.kernels, self.gaps + other.gaps
        )


NOTHING = Work(0.0, 0, 0)


@dataclass(frozen=True)
class Kernels:
    """Kernels of one kind of GPU.

    Attributes
    ----------
    gpu
        The GPU.
    efficiencies
        Operator efficiencies, measured or assumed.
    launches
        What launching costs.
    precision
        Format of the products of linear layers and experts. Router, embedding and output projection
        are BF16 in any, and attention scores but for ``attention_kernels``.
    permutation
        Whether one kernel moves the copies of tokens, or several do.
    cuda_graphs
        Whether kernels are captured in CUDA graphs. Kernels of routed experts are only where
        their numbers of tokens do not differ from pass to pass.
    expert_products
        One kernel for all experts of a GPU, or one after the other.
    attention_kernels
        The fastest attention in BF16 that was measured on the GPU, FlashAttention 2, FP8, or none
        that is fused.
    casts
        Who writes operands of products, see :data:`CASTS`. With ``fused`` activation functions
        write them as norms do, which those of Megatron-Core do not, and GPUs that need no
        transposed copy have one: sustained factors were chosen with both.
    """

    gpu: Gpu
    efficiencies: Efficiencies = field(repr=False)
    launches: Launches = field(repr=False)
    precision: Precision = "bf16"
    permutation: Permutation = "fused"
    cuda_graphs: bool = False
    expert_products: ExpertProducts = "grouped"
    attention_kernels: AttentionKernels = "fastest"
    casts: Casts = "fused"

    def __post_init__(self) -> None:
        self.gpu.peak_flops(self.precision)
        if f"matmul{SUFFIXES[self.precision]}" not in self.efficiencies.curves:
            raise HardwareError(
                f"{self.gpu.name}: no measured products in {self.precision}; choose another"
                " precision, or give a profile that has them"
            )
        if self.casts not in CASTS:
            raise HardwareError(f"casts = {echo(self.casts)}: {expected_one_of(self.casts, CASTS)}")
        if self.casts != "fused" and not self.quantizes:
            raise HardwareError(
                f"casts = {self.casts}: products in {self.precision} have no casts; give another"
                " precision, or leave casts out"
            )
        if self.attention_kernels in _ATTENTION:
            family, missing = _ATTENTION[self.attention_kernels]
            if f"{family}_forward" not in self._curves:
                raise HardwareError(f"{self.gpu.name}: {missing}; leave attention_kernels out")
        if self.attention_kernels == "fp8" and not self.quantizes:
            raise HardwareError(
                f"attention_kernels = fp8: products are in {self.precision}; give another"
                " precision, or leave attention_kernels out"
            )

    @property
    def _curves(self) -> Mapping[str, Curve]:
        return self.efficiencies.curves

    @property
    def quantizes(self) -> bool:
        """Whether linear layers compute in a narrower format than BF16."""
        return self.precision != "bf16"

    @property
    def element_bytes(self) -> float:
        """Bytes of an operand's element in the products of linear layers."""
        return ELEMENT_BYTES[self.precision]

    def seconds(self, work: Work, *, captured: bool = True) -> float | Array:
        """Time of a part of a layer: of its kernels with their gaps, or of a slower host."""
        graph = self.cuda_graphs and captured
        total = self.launches.seconds(work.kernel_s, (work.kernels, work.gaps), graph)
        return float(total) if total.ndim == 0 else total

    def operator_seconds(self, name: str, flops: npt.ArrayLike, size_bytes: npt.ArrayLike) -> Array:
        """Time of one measured operator that computes and moves so much, s."""
        curve = self._curves[name]
        narrow = self.quantizes and name.endswith(SUFFIXES[self.precision])
        peak = self.gpu.peak_flops(self.precision if narrow else "bf16")
        seconds = curve.seconds(flops, size_bytes, peak, self.gpu.hbm_bytes_per_s)
        return seconds / self.efficiencies.sustained

    def matmul(
        self, m: float, k: float, n: float, *, accumulate: bool = False, linear: bool = False
    ) -> Work:
        """An ``m x k`` by ``k x n`` product, in BF16 or, of ``linear`` layers, the model's format.

        ``accumulate`` adds the result to an FP32 matrix in memory, as weight gradients do.
        """
        element = self.element_bytes if linear else BF16
        output = m * n * (2 * FP32 if accumulate else BF16)
        name = "matmul_accumulate" if accumulate else "matmul"
        size_bytes = (m * k + k * n) * element + output
        name += SUFFIXES[self.precision] if linear else ""
        seconds = self.operator_seconds(name, 2.0 * m * k * n, size_bytes)
        return Work.of(float(seconds), 1)

    def linear(
        self, tokens: float, k: float, n: float, backward: bool, *, quantized: bool = False
    ) -> Work:
        """A linear layer from ``k`` to ``n`` in the model's precision: forward, or both gradients.

        ``quantized`` says that the kernel before may write the input in FP8.
        """
        if not backward:
            cast = self.quantize(tokens * k, normed=quantized)
            return self.matmul(tokens, k, n, linear=True) + cast
        return (
            self.quantize(tokens * n)
            + self.matmul(tokens, n, k, linear=True)
            + self.matmul(k, tokens, n, accumulate=True, linear=True)
        )

    def linear_bf16(self, tokens: float, k: float, n: float, backward: bool) -> Work:
        """A linear layer that stays in BF16 in any precision: router, output projection."""
        if not backward:
            return self.matmul(tokens, k, n)
        return self.matmul(tokens, n, k) + self.matmul(k, tokens, n, accumulate=True)

    def quantize(self, elements: float | Array, *, normed: bool = False) -> Work:
        """BF16 values to a narrower format along rows and columns; nothing in BF16.

        ``normed`` values are what a norm has written just before.
        """
        if not self.quantizes:
            return NOTHING
        cast = CASTS[self.casts][normed]
        if not cast.kernels:
            return NOTHING
        each = cast.readings * BF16 + self._copies(cast) * self.element_bytes
        return self.moved(np.asarray(elements) * each, "elementwise", cast.kernels)

    def _copies(self, cast: Cast) -> int:
        """How often an operand is written.

        GPUs that multiply in FP4 take one with a single scale in any layout, so that it needs no
        transposed copy (``nvte_is_non_tn_fp8_gemm_supported`` of Transformer Engine).
        """
        any_layout = self.gpu.peak_fp4_flops is not None and self.precision == "fp8"
        return 1 if any_layout and self.casts == "current" else cast.writings

    def by_expert(self, work: Work, experts: int) -> Work:
        """Kernels that each of a GPU's experts has, whose time in all is that of ``work``.

        One kernel does it for all, or one follows the other, over several streams.
        """
        if self.expert_products == "grouped":
            return work
        launched = work.kernels * experts
        return Work(work.kernel_s, launched, launched / min(experts, _EXPERT_STREAMS))

    def quantize_experts(self, elements: Array, experts: int) -> Work:
        """The rows of each of a GPU's experts to FP8; nothing in BF16."""
        if not self.quantizes:
            return NOTHING
        seconds = self.quantize(elements).kernel_s
        return self.by_expert(Work.of(seconds, _QUANTIZE_KERNELS[self.precision]), experts)

    def expert_products_of(
        self, tokens_per_expert: Array, experts: int, sizes: tuple[float, float], stage: Stage
    ) -> Work:
        """One product of every expert on a GPU, of the given input and output width."""
        seconds = experts * self.grouped_matmul(tokens_per_expert, *sizes, stage)
        kernels = _PRODUCT_KERNELS[self.precision]
        return self.by_expert(Work.of(np.asarray(seconds), kernels), experts)

    def grouped_matmul(
        self, tokens_per_expert: npt.ArrayLike, k: float, n: float, stage: Stage = "forward"
    ) -> Array:
        """Time of one product of every expert on a GPU, s.

        Parameters
        ----------
        tokens_per_expert
            Tokens of each expert, any shape.
        k, n
            Input and output width of the forward product.
        stage
            ``"forward"``, ``"dgrad"`` or ``"wgrad"``.
        """
        tokens = np.asarray(tokens_per_expert, dtype=np.float64)
        element = self.element_bytes
        weights = k * n * (2 * FP32 if stage == "wgrad" else element)
        sent = (k + n) * element if stage == "wgrad" else 0.0
        if stage != "wgrad":
            sent = k * element + n * BF16 if stage == "forward" else n * element + k * BF16
        if self.expert_products == "sequential":
            name = "matmul_accumulate" if stage == "wgrad" else "matmul"
        else:
            name = "grouped_matmul" if stage == "forward" else f"grouped_matmul_{stage}"
        name += SUFFIXES[self.precision]
        return self.operator_seconds(name, 2.0 * tokens * k * n, tokens * sent + weights)

    def attention(
        self,
        seq_len: float,
        heads: float,
        dims: tuple[int, int],
        batch: float,
        backward: bool,
        causal: bool = True,
    ) -> Work:
        """Attention scores and their product with the values.

        ``2 s^2 h (d_qk + d_v)`` FLOPs forward and 2.5 times as many backward (recomputed scores
        included), half of them where ``causal``; ``dims`` are ``d_qk`` and ``d_v``. Heads may be a
        fraction of one: under context parallelism a GPU computes ``1/cp`` of each head's work.
        """
        flops = 2.0 * seq_len**2 * heads * sum(dims) * batch * (0.5 if causal else 1.0)
        return self.scores(flops, dims, backward)

    def scores(self, flops: float, dims: tuple[int, int] | None, backward: bool) -> Work:
        """Attention whose forward pass computes ``flops``, at the speed of attention as measured.

        ``dims`` are ``d_qk`` and ``d_v``, or ``None`` where no scores are taken the exponential of.
        A score is ``2 (d_qk + d_v)`` FLOPs, and its exponential takes as long in narrow heads as in
        the measured ones of 128.
        """
        latent = dims is not None and dims[0] != dims[1]
        family = "attention_latent" if latent else "attention"
        if self.attention_kernels in _ATTENTION and not latent:
            family = _ATTENTION[self.attention_kernels][0]
        name = f"{family}_{'backward' if backward else 'forward'}"
        seconds = self.operator_seconds(name, flops * (2.5 if backward else 1.0), 0.0)
        if dims is not None and not latent:
            more = flops / (2 * sum(dims)) - flops / (4 * MEASURED_HEADS)
            extra = more * self._curves[name].score_s / self.efficiencies.sustained
            # products and exponentials overlap in part: what wide heads save is at most half
            seconds = np.maximum(seconds + extra, seconds / 2)
        # backward: row sums, gradients, and the query gradient from FP32 to BF16
        return Work.of(float(seconds), 3 if backward else 1)

    def unfused_attention(
        self, seq_len: float, heads: float, dims: tuple[int, int], batch: float, backward: bool
    ) -> Work:
        """Attention whose scores are all in memory, masked ones among them.

        As ``UnfusedDotProductAttention`` of Transformer Engine: two products with a soft-max of
        BF16 scores between, and a copy of the result; backward four products and the gradient of
        the soft-max, which reads its result. The mask is made anew, in small kernels.
        """
        rows = seq_len * heads * batch
        if not backward:
            products = self.matmul(rows, dims[0], seq_len) + self.matmul(rows, seq_len, dims[1])
            return (
                products
                + self.elementwise(rows * seq_len, 2, 1 + _MASK_KERNELS)
                + self.elementwise(rows * dims[1], 2)
            )
        queries = self.matmul(rows, seq_len, dims[0])
        values = self.matmul(rows, dims[1], seq_len) + self.matmul(rows, seq_len, dims[1])
        return queries + queries + values + self.elementwise(rows * seq_len, 3)

    def moved(self, size_bytes: float | Array, kind: str, kernels: int = 1) -> Work:
        """``kernels`` kernels that move ``size_bytes`` in all.

        Raises
        ------
        HardwareError
            If ``kind`` is none of the memory-bound operators.
        """
        if kind not in self.efficiencies.memory:
            kinds = ", ".join(MEMORY_KINDS)
            raise HardwareError(f"memory-bound operator '{kind}': known are {kinds}")
        memory = self.efficiencies.memory[kind]
        rate = self.gpu.hbm_bytes_per_s * memory.bandwidth_efficiency
        some = np.asarray(size_bytes) > 0
        seconds = np.where(some, np.asarray(size_bytes) / rate + kernels * memory.launch_s, 0.0)
        seconds = seconds / self.efficiencies.sustained
        return Work.of(float(seconds) if seconds.ndim == 0 else seconds, kernels)

    def strided(self, elements: float | Array, size_bytes: float | Array, kernels: int) -> Work:
        """``kernels`` kernels that take ``elements`` numbers one by one, and move so many bytes.

        PyTorch does not vectorize them: operands are not contiguous, or broadcast.
        """
        work = self.moved(size_bytes, "strided", kernels)
        element_s = self.efficiencies.memory["strided"].element_s / self.efficiencies.sustained
        seconds = np.maximum(work.kernel_s, np.asarray(elements) * element_s)
        return Work.of(float(seconds) if seconds.ndim == 0 else seconds, kernels)

    def elementwise(self, elements: float | Array, passes: float, kernels: int = 1) -> Work:
        """Move ``elements`` BF16 numbers ``passes`` times (a read or a write is a pass)."""
        return self.moved(elements * passes * BF16, "elementwise", kernels)

    def permuted(self, elements: float | Array, element_bytes: float = BF16) -> Work:
        """Read and write ``elements`` numbers in all, in another order."""
        kind = "permute" if self.permutation == "fused" else "permute_unfused"
        return self.moved(elements * element_bytes, kind, _PERMUTE_KERNELS[self.permutation])
