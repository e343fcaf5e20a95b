"""Compute times of a training step on one GPU, layer by layer.

``tokens`` everywhere are the tokens of one micro-batch that a tensor-parallel group holds:
``micro_batch_size * seq_len / cp``, before the tensor-parallel split. Matrices are bf16, weight
gradients accumulate in fp32 as in Megatron, norms and residuals are split over the
tensor-parallel group (sequence parallelism). Backward is data gradient plus weight gradient;
``recompute`` adds the forward of a whole layer (``"full"``) or of attention scores
(``"attention"``) to it. Communication is none of this module's business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from lightloom.errors import HardwareError
from lightloom.hardware.gpus import Gpu, load_gpu
from lightloom.models.model import Model
from lightloom.workload.compute_operators import MEMORY_KINDS, Array, Efficiencies
from lightloom.workload.compute_operators import load_efficiencies as _load_efficiencies

Recompute = Literal["none", "attention", "full"]
Stage = Literal["forward", "dgrad", "wgrad"]

#: bytes of one bf16 and one fp32 element
_BF16, _FP32 = 2, 4

#: Adam with fp32 master weights moves, per parameter: gradient, master, two moments in; master,
#: two moments, bf16 weight out; and reads and clears the gradient once more for its norm.
_OPTIMIZER_BYTES = 4 * _FP32 + 3 * _FP32 + _BF16 + 2 * _FP32

#: kernels of one optimizer pass over fused buffers
_OPTIMIZER_KERNELS = 4

#: above this many entries, expert times are looked up in a table over whole token counts
_TABLE_FROM = 4096


@dataclass(frozen=True)
class ComputeModel:
    """Times of operators and layers on one kind of GPU; build it with :meth:`load`.

    Attributes
    ----------
    gpu
        The GPU.
    efficiencies
        Operator efficiencies, measured or assumed.
    recompute
        What backward computes again: nothing, attention scores, or all of forward.
    """

    gpu: Gpu
    efficiencies: Efficiencies = field(repr=False)
    recompute: Recompute = "none"

    def __post_init__(self) -> None:
        if self.recompute not in ("none", "attention", "full"):
            raise HardwareError(
                f"recompute: expected none, attention or full, got '{self.recompute}'"
            )

    @classmethod
    def load(
        cls,
        gpu: str,
        profile: Path | None = None,
        *,
        recompute: Recompute = "none",
    ) -> ComputeModel:
        """Build the model of a GPU.

        Parameters
        ----------
        gpu
            Name, see :func:`lightloom.hardware.gpu_names`.
        profile
            A user's measurements, TOML or CSV (see ``docs/explanation/compute-calibration.md``).
        recompute
            See the class.

        Raises
        ------
        HardwareError
            If the GPU is unknown or the profile is wrong.
        """
        found = load_gpu(gpu)
        return cls(found, _load_efficiencies(found, profile), recompute)

    @property
    def assumed(self) -> bool:
        """Whether any efficiency of a matrix product or attention was not measured."""
        return bool(self.efficiencies.assumed & self.efficiencies.curves.keys())

    @property
    def provenance(self) -> dict[str, str]:
        """Where each efficiency, and the peaks that they are fractions of, come from."""
        peaks = {
            f"gpu.{key}": str(self.gpu.provenance[key])
            for key in ("peak_bf16_flops", "hbm_rate_gbps")
        }
        return {**self.efficiencies.provenance, **peaks}

    # Operators

    def _curve(self, name: str, flops: npt.ArrayLike, size_bytes: npt.ArrayLike) -> Array:
        curve = self.efficiencies.curves[name]
        peak, bandwidth = self.gpu.peak_bf16_flops, self.gpu.hbm_bytes_per_s
        return curve.seconds(flops, size_bytes, peak, bandwidth) / self.efficiencies.sustained

    def matmul(self, m: float, k: float, n: float, *, accumulate: bool = False) -> float:
        """Time of an ``m x k`` by ``k x n`` product, s.

        ``accumulate`` adds the result to an fp32 matrix in memory, as weight gradients do.
        """
        output = m * n * (2 * _FP32 if accumulate else _BF16)
        name = "matmul_accumulate" if accumulate else "matmul"
        return float(self._curve(name, 2.0 * m * k * n, (m * k + k * n) * _BF16 + output))

    def linear(self, tokens: float, k: float, n: float, backward: bool) -> float:
        """Time of a linear layer from ``k`` to ``n``: forward, or both gradients."""
        if not backward:
            return self.matmul(tokens, k, n)
        return self.matmul(tokens, n, k) + self.matmul(k, tokens, n, accumulate=True)

    def grouped_matmul(
        self, tokens_per_expert: npt.ArrayLike, k: int, n: int, stage: Stage = "forward"
    ) -> Array:
        """Time of the products of all experts on a GPU, s.

        Parameters
        ----------
        tokens_per_expert
            ``(..., experts)`` tokens of each expert on the GPU.
        k, n
            Input and output width of the forward product.
        stage
            ``"forward"``, ``"dgrad"`` or ``"wgrad"``.

        Returns
        -------
        ``(...)`` sums over the experts.
        """
        return np.asarray(self._per_expert(tokens_per_expert, k, n, stage).sum(axis=-1))

    def _per_expert(self, tokens: npt.ArrayLike, k: float, n: float, stage: Stage) -> Array:
        tokens = np.asarray(tokens, dtype=np.float64)
        weights = k * n * (2 * _FP32 if stage == "wgrad" else _BF16)
        size_bytes = tokens * (k + n) * _BF16 + weights
        name = "grouped_matmul" if stage == "forward" else f"grouped_matmul_{stage}"
        return self._curve(name, 2.0 * tokens * k * n, size_bytes)

    def attention(
        self,
        seq_len: float,
        heads: float,
        qk_dim: int,
        v_dim: int,
        batch: float,
        backward: bool,
        causal: bool = True,
    ) -> float:
        """Time of attention scores and their product with the values, s.

        ``2 s^2 h (d_qk + d_v)`` FLOPs forward and 2.5 times as many backward (recomputed scores
        included), half of them where ``causal``. Heads may be a fraction of one: under context
        parallelism a GPU computes ``1/cp`` of each head's work.
        """
        flops = 2.0 * seq_len**2 * heads * (qk_dim + v_dim) * batch * (0.5 if causal else 1.0)
        flops *= 2.5 if backward else 1.0
        family = "attention" if qk_dim == v_dim else "attention_latent"
        return float(self._curve(f"{family}_{'backward' if backward else 'forward'}", flops, 0.0))

    def memory_bound(self, size_bytes: float, kind: str, kernels: int = 1) -> float:
        """Time of ``kernels`` kernels that move ``size_bytes`` in all, s.

        Raises
        ------
        HardwareError
            If ``kind`` is none of elementwise, permute, cross_entropy, optimizer.
        """
        if kind not in self.efficiencies.memory:
            known = ", ".join(MEMORY_KINDS)
            raise HardwareError(f"memory-bound operator '{kind}': known are {known}")
        if size_bytes == 0:
            return 0.0
        memory = self.efficiencies.memory[kind]
        rate = self.gpu.hbm_bytes_per_s * memory.bandwidth_efficiency
        return (size_bytes / rate + kernels * memory.launch_s) / self.efficiencies.sustained

    def _elementwise(self, elements: float, passes: float, kernels: int = 1) -> float:
        """Time to move ``elements`` bf16 numbers ``passes`` times (a read or write is a pass)."""
        return self.memory_bound(elements * passes * _BF16, "elementwise", kernels)

    # Layers

    def attention_layer(
        self, model: Model, tokens: float, seq_len: int, tp: int, cp: int, backward: bool
    ) -> float:
        """Time of norm, projections, attention and residual of one layer, s."""
        forward = self._attention_layer(model, tokens, seq_len, tp, cp, False)
        if not backward:
            return forward
        total = self._attention_layer(model, tokens, seq_len, tp, cp, True)
        if self.recompute == "full":
            total += forward
        elif self.recompute == "attention":
            total += self._scores(model, tokens, seq_len, tp, cp, False)
        return total

    def _attention_layer(
        self, model: Model, tokens: float, seq_len: int, tp: int, cp: int, backward: bool
    ) -> float:
        projections = self._gqa_projections if model.attention.kind == "gqa" else self._mla
        return (
            self._norm_and_residual(model, tokens / tp, backward)
            + projections(model, tokens, tp, backward)
            + self._scores(model, tokens, seq_len, tp, cp, backward)
        )

    def _norm_and_residual(self, model: Model, tokens: float, backward: bool) -> float:
        # Norm: in, out (backward: gradient, input, result); residual: two in, one out.
        return self._elementwise(tokens * model.hidden_size, 3 + 3 if backward else 2 + 3, 2)

    def _scores(
        self, model: Model, tokens: float, seq_len: int, tp: int, cp: int, backward: bool
    ) -> float:
        attention = model.attention
        sequences = tokens * cp / seq_len
        heads = attention.num_heads / (tp * cp)
        return self.attention(
            seq_len, heads, attention.qk_dim, attention.v_dim, sequences, backward
        )

    def _gqa_projections(self, model: Model, tokens: float, tp: int, backward: bool) -> float:
        attention = model.attention
        query = attention.num_heads * attention.head_dim / tp
        # Fewer key-value heads than ranks are repeated, so that each rank has one.
        key = max(attention.num_kv_heads / tp, 1) * attention.head_dim
        rotated = tokens * (query + key)
        total = self.linear(tokens, model.hidden_size, query + 2 * key, backward)
        total += self.linear(tokens, query, model.hidden_size, backward)
        # Rotary embedding of query and key, and the copy that splits the projection.
        total += self._elementwise(rotated, 4, 3)
        if attention.qk_norm:
            total += self._elementwise(rotated, 3 if backward else 2, 2)
        return total

    def _mla(self, model: Model, tokens: float, tp: int, backward: bool) -> float:
        attention = model.attention
        heads = attention.num_heads / tp
        query = heads * attention.qk_dim
        share = tokens / tp
        # Down-projections are whole on every rank and work on its share of the sequence.
        if attention.q_lora_rank:
            total = self.linear(share, model.hidden_size, attention.q_lora_rank, backward)
            total += self.linear(tokens, attention.q_lora_rank, query, backward)
        else:
            total = self.linear(tokens, model.hidden_size, query, backward)
        latent = attention.kv_lora_rank + attention.qk_rope_head_dim
        expanded = heads * (attention.qk_nope_head_dim + attention.v_head_dim)
        total += self.linear(share, model.hidden_size, latent, backward)
        total += self.linear(tokens, attention.kv_lora_rank, expanded, backward)
        total += self.linear(tokens, heads * attention.v_head_dim, model.hidden_size, backward)
        norms = share * (attention.q_lora_rank + attention.kv_lora_rank)
        total += self._elementwise(norms, 3 if backward else 2, 2)
        # Rotary embedding, and the copies that join its part to each head of query and key.
        total += self._elementwise(tokens * 2 * query, 4, 4)
        return total

    def dense_ffn(self, model: Model, tokens: float, tp: int, backward: bool) -> float:
        """Time of norm, dense feed-forward and residual of one layer, s."""
        forward = self._dense_ffn(model, tokens, tp, False)
        return self._with_recompute(
            forward, self._dense_ffn(model, tokens, tp, True) if backward else None
        )

    def _dense_ffn(self, model: Model, tokens: float, tp: int, backward: bool) -> float:
        return self._norm_and_residual(model, tokens / tp, backward) + self._ffn(
            model, tokens, model.ffn_size / tp, backward
        )

    def _with_recompute(self, forward: float, backward: float | None) -> float:
        if backward is None:
            return forward
        return backward + (forward if self.recompute == "full" else 0.0)

    def _ffn(self, model: Model, tokens: float, width: float, backward: bool) -> float:
        up = (2 if model.gated_ffn else 1) * width
        total = self.linear(tokens, model.hidden_size, up, backward)
        total += self.linear(tokens, width, model.hidden_size, backward)
        return total + self._activation(tokens, up, width, backward)

    def _activation(self, tokens: float, up: float, width: float, backward: bool) -> float:
        # Forward reads up, writes width; backward reads both and the gradient, writes up.
        return self._elementwise(tokens * (2 * up + width if backward else up + width), 1)

    def gate(self, model: Model, tokens: float, backward: bool, tp: int = 1) -> float:
        """Time of norm, router, permutation of tokens, its inverse, and residual, s.

        The permutation before dispatch and the inverse after combine are both counted here.
        """
        forward = self._gate(model, tokens / tp, False)
        return self._with_recompute(
            forward, self._gate(model, tokens / tp, True) if backward else None
        )

    def _gate(self, model: Model, tokens: float, backward: bool) -> float:
        copies = tokens * model.experts_per_token
        total = self._norm_and_residual(model, tokens, backward)
        total += self.linear(tokens, model.hidden_size, model.num_experts, backward)
        # Scores in fp32: soft-max, top-k, auxiliary loss, maps.
        total += self.memory_bound(6 * tokens * model.num_experts * _FP32, "elementwise", 6)
        moved = 2 * (tokens + copies) * model.hidden_size * _BF16
        return total + self.memory_bound(moved, "permute", 2)

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
        shape = (
            model.hidden_size,
            model.expert_ffn_size / etp,
            2 if model.gated_ffn else 1,
            experts_per_gpu,
        )
        if tokens.size < _TABLE_FROM or not np.issubdtype(tokens.dtype, np.integer):
            return self._experts(tokens.astype(np.float64), shape, backward)
        largest = int(tokens.max())
        if largest > 8 * tokens.size:
            return self._experts(tokens.astype(np.float64), shape, backward)
        table = self._experts(np.arange(largest + 1, dtype=np.float64), shape, backward)
        return np.asarray(table[tokens])

    def _experts(self, tokens: Array, shape: tuple[int, float, int, int], backward: bool) -> Array:
        forward = self._experts_once(tokens, shape, False)
        if not backward:
            return forward
        total = self._experts_once(tokens, shape, True)
        return total + forward if self.recompute == "full" else total

    def _experts_once(
        self, tokens: Array, shape: tuple[int, float, int, int], backward: bool
    ) -> Array:
        hidden, width, branches, experts = shape
        each = tokens / experts
        stages: tuple[Stage, ...] = ("dgrad", "wgrad") if backward else ("forward",)
        products = sum(
            self._per_expert(each, hidden, branches * width, stage)
            + self._per_expert(each, width, hidden, stage)
            for stage in stages
        )
        up = branches * width
        elements = tokens * (2 * up + width if backward else up + width)
        total = experts * products + self._elementwise_array(elements, "elementwise", 1)
        if experts > 1:
            # Sorted by expert on arrival, and back again: in and out, twice.
            total += self._elementwise_array(tokens * hidden * 4, "permute", 2)
        return np.asarray(total)

    def _elementwise_array(self, elements: Array, kind: str, kernels: int) -> Array:
        memory = self.efficiencies.memory[kind]
        rate = self.gpu.hbm_bytes_per_s * memory.bandwidth_efficiency
        seconds = elements * _BF16 / rate + kernels * memory.launch_s
        return np.asarray(np.where(elements > 0, seconds, 0.0) / self.efficiencies.sustained)

    def shared_experts(self, model: Model, tokens: float, tp: int, backward: bool) -> float:
        """Time of the shared experts of one layer, s; 0 where there are none."""
        if not model.shared_expert_ffn_size:
            return 0.0
        width = model.shared_expert_ffn_size / tp
        forward = self._ffn(model, tokens, width, False)
        return self._with_recompute(
            forward, self._ffn(model, tokens, width, True) if backward else None
        )

    def embedding(self, model: Model, tokens: float, tp: int, backward: bool) -> float:
        """Time of the embedding lookup on the first stage, s."""
        # Backward adds rows into fp32 gradients; each rank holds its share of the sequence.
        passes = 5 if backward else 2
        return self._elementwise(tokens / tp * model.hidden_size, passes)

    def head(self, model: Model, tokens: float, tp: int, backward: bool) -> float:
        """Time of final norm, output projection and loss on the last stage, s."""
        vocabulary = model.vocab_size / tp
        total = self._elementwise(tokens / tp * model.hidden_size, 3 if backward else 2)
        total += self.linear(tokens, model.hidden_size, vocabulary, backward)
        # Logits in and out once each way: the fused loss that was measured.
        return total + self.memory_bound(2 * tokens * vocabulary * _BF16, "cross_entropy")

    def optimizer(self, parameters_per_gpu: float) -> float:
        """Time of Adam on the parameters that this GPU updates, s."""
        size_bytes = parameters_per_gpu * _OPTIMIZER_BYTES
        return self.memory_bound(size_bytes, "optimizer", _OPTIMIZER_KERNELS)
