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
        for one in compute.operators:
            total += self._work(one, ratios)
        return self.scale * np.asarray(self.kernels.seconds(total), dtype=np.float64)

    def kernel_seconds(self, one: Operator) -> float:
        """Time of operators alone, without gaps between kernels and a slower host, s."""
        return self.scale * float(np.asarray(self._work(one, np.ones(1)).kernel_s)[0])

    def _work(self, one: Operator, ratios: Array) -> Work:
        if one.kind in MEMORY_KINDS:
            found = self.kernels.moved(one.moved_bytes * ratios, one.kind, one.kernels)
            return Work.of(found.kernel_s, one.kernels)
        if one.kind not in OPERATORS:
            known = ", ".join((*OPERATORS, *MEMORY_KINDS))
            raise InputError(f"operator {echo(one.kind)} of a trace: known are {known}")
        seconds = self.kernels.operator_seconds(
            self._curve(one), ratios * one.flops / one.number, ratios * one.moved_bytes / one.number
        )
        return Work.of(one.number * _SLOWER.get(one.dtype, 1.0) * seconds, one.kernels)

    def _curve(self, one: Operator) -> str:
        """The measured operator: its own in FP8 where the GPU computes in it."""
        in_fp8 = (
            one.dtype.startswith("float8") and one.kind + FP8 in self.kernels.efficiencies.curves
        )
        return one.kind + FP8 if in_fp8 else one.kind
