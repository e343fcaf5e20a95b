"""How long what was traced takes on a GPU: each operator by the roofline, and their launches."""

from __future__ import annotations

from typing import Any

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
        self._known: dict[tuple[Any, ...], float] = {}

    def seconds(self, compute: Compute) -> float:
        """Time of what a stream computed in succession, s; as measured where that is known.

        Raises
        ------
        InputError
            If an operator has a kind that no roofline is known for.
        """
        key = (compute.duration_s, compute.operators)
        if key not in self._known:
            self._known[key] = float(self.scaled(compute, np.ones(1))[0])
        return self._known[key]

    def scaled(self, compute: Compute, ratios: Array) -> Array:
        """The same with so many times the FLOPs and bytes, in the shape of ``ratios``."""
        if compute.duration_s is not None:
            return self.scale * compute.duration_s * ratios
        total = Work(np.zeros(ratios.shape), 0, 0)
        for op in compute.operators:
            total += self._work(op, ratios)
        return self.scale * np.asarray(self.kernels.seconds(total), dtype=np.float64)

    def kernel_seconds(self, op: Operator) -> float:
        """Time of operators alone, without gaps between kernels and a slower host, s."""
        return self.scale * float(np.asarray(self._work(op, np.ones(1)).kernel_s)[0])

    def _work(self, op: Operator, ratios: Array) -> Work:
        if op.kind in MEMORY_KINDS:
            moved = self.kernels.moved(op.moved_bytes * ratios, op.kind, op.kernels)
            return Work.of(moved.kernel_s, op.kernels)
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
