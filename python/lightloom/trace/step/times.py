"""How long what was traced takes on a GPU: each operator by the roofline, and their launches.

Operators were measured one after another, so that the end of one and the start of the next are in
their times; what is added between two kernels is the gap that was measured between kernels that are
ready to run. In eager mode the host issues kernels ahead of the GPU, as far as it is faster: the
kernels of a phase (all forward passes of a step on a stream, say) take what they take, or what the
host takes to issue them all. Memory is not slowed by the limits of power that slow long series of
products. Left out: reads that the GPU's cache serves, waits of the host for a result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, echo
from lightloom.trace.computes import Compute, Operator
from lightloom.workload.compute_kernels import Kernels, Work
from lightloom.workload.compute_operators import FP8, MEMORY_KINDS, OPERATORS

Array = npt.NDArray[np.float64]

#: products of FP32 run as TF32, at half of the rate of BF16 (data sheets of A100, H100 and B200)
_SLOWER = {"float32": 2.0}


class OperatorTimes:
    """Times of computes on one kind of GPU.

    Parameters
    ----------
    kernels
        The GPU and its measured operators.
    scale
        Factor on every time.
    """

    def __init__(self, kernels: Kernels, scale: float = 1.0) -> None:
        self.kernels, self.scale = kernels, scale
        self._known: dict[tuple[Operator, ...], tuple[float, int]] = {}

    def host_bound(self, computes: Iterable[Compute]) -> dict[tuple[int, str], float]:
        """How much longer than its kernels the host takes to issue a phase of a stream; 1 if less.

        Times of all computes of the phase are longer by this factor. Where seconds were measured,
        the host is in them.
        """
        gpu_s: dict[tuple[int, str], float] = defaultdict(float)
        host_s: dict[tuple[int, str], float] = defaultdict(float)
        for compute in computes:
            if compute.duration_s is None:
                place = (compute.stream, compute.phase)
                seconds, count = self._gpu(compute)
                gpu_s[place] += seconds
                if not self.kernels.cuda_graphs:
                    host_s[place] += count * self.kernels.launches.host_s
        return {
            place: max(1.0, host_s[place] / seconds) for place, seconds in gpu_s.items() if seconds
        }

    def seconds(self, compute: Compute, pace: float = 1.0) -> float:
        """Time of what a stream computed in succession, s; as measured where that is known.

        ``pace`` is the factor by which a slower host stretches it (:meth:`host_bound`).

        Raises
        ------
        InputError
            If an operator has a kind that no roofline is known for.
        """
        if compute.duration_s is not None:
            return self.scale * compute.duration_s
        return self.scale * pace * self._gpu(compute)[0]

    def _gpu(self, compute: Compute) -> tuple[float, int]:
        """Time on a GPU that never waits, s, and how many kernels."""
        key = compute.operators
        if key not in self._known:
            seconds = float(self._kernel_seconds(compute, np.ones(1))[0])
            self._known[key] = seconds, sum(op.kernels for op in key)
        return self._known[key]

    def scaled(self, compute: Compute, ratios: Array, pace: float = 1.0) -> Array:
        """Seconds with so many times the FLOPs and bytes, in the shape of ``ratios``."""
        if compute.duration_s is not None:
            return self.scale * compute.duration_s * ratios
        return self.scale * pace * self._kernel_seconds(compute, ratios)

    def _kernel_seconds(self, compute: Compute, ratios: Array) -> Array:
        total = Work(np.zeros(ratios.shape), 0, 0)
        for op in compute.operators:
            total += self._work(op, ratios)
        gaps = total.gaps * self.kernels.launches.graph_gap_s
        return np.asarray(total.kernel_s, dtype=np.float64) + gaps

    def kernel_seconds(self, op: Operator) -> float:
        """Time of operators alone, without gaps between kernels and a slower host, s."""
        return self.scale * float(np.asarray(self._work(op, np.ones(1)).kernel_s)[0])

    def _work(self, op: Operator, ratios: Array) -> Work:
        if op.kind in MEMORY_KINDS:
            # a loss is noted pass by pass, each an element-wise kernel
            kind = "elementwise" if op.kind == "cross_entropy" else op.kind
            moved = self.kernels.moved(op.moved_bytes * ratios, kind, op.kernels)
            return Work.of(moved.kernel_s * self.kernels.efficiencies.sustained, op.kernels)
        if op.kind not in OPERATORS:
            kinds = ", ".join((*OPERATORS, *MEMORY_KINDS))
            raise InputError(f"operator {echo(op.kind)} of a trace: known are {kinds}")
        seconds = self.kernels.operator_seconds(
            self._curve(op), ratios * op.flops / op.number, ratios * op.moved_bytes / op.number
        )
        return Work.of(op.number * _SLOWER.get(op.dtype, 1.0) * seconds, op.kernels)

    def _curve(self, op: Operator) -> str:
        """The measured operator: its own in FP8 where the GPU computes in it."""
        in_fp8 = op.dtype.startswith("float8") and op.kind + FP8 in self.kernels.efficiencies.curves
        return op.kind + FP8 if in_fp8 else op.kind
