"""The GPU of this machine, driven by PyTorch; imported by ``lightloom calibrate`` alone."""

from __future__ import annotations

import importlib
from typing import Any

from lightloom.errors import HardwareError
from lightloom.study.calibration.measure import Operation, Run


def open_device() -> TorchDevice:
    """The first CUDA device.

    Raises
    ------
    HardwareError
        If PyTorch is not installed or finds no GPU.
    """
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise HardwareError(
            "calibrate gpu: PyTorch is not installed here; run it where PyTorch and the GPU are"
        ) from None
    if not torch.cuda.is_available():
        raise HardwareError(
            "calibrate gpu: PyTorch finds no CUDA GPU here; run it on a machine with the GPU"
        )
    return TorchDevice(torch)


class TorchDevice:
    """Operations in BF16 with PyTorch's own kernels, timed by events of the stream."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.title = str(torch.cuda.get_device_name(0))

    def seconds(self, run: Run, times: int) -> float:
        """Time of some runs between two events, s."""
        start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._torch.cuda.synchronize()
        start.record()
        for _ in range(times):
            run()
        end.record()
        self._torch.cuda.synchronize()
        return float(start.elapsed_time(end)) * 1e-3

    def prepare(self, operation: Operation) -> Run:
        """Allocate operands with normally distributed values, and bind the kernel to them."""
        name = operation.operator
        if name.startswith("attention"):
            return self._attention(operation.shape, backward=name.endswith("backward"))
        if name == "permute":
            return self._permute(*operation.shape)
        if name == "elementwise":
            return self._copy(operation.shape[0])
        return self._product(name, *operation.shape)

    def _values(self, *shape: int) -> Any:
        torch = self._torch
        return torch.randn(*shape, dtype=torch.bfloat16, device="cuda")

    def _product(self, name: str, experts: int, m: int, k: int, n: int) -> Run:
        torch = self._torch
        if name.endswith("dgrad"):
            k, n = n, k
        if name.endswith(("wgrad", "accumulate")):
            left, right = self._values(experts, m, k).transpose(1, 2), self._values(experts, m, n)
            total = torch.zeros(experts, k, n, dtype=torch.float32, device="cuda")

            def accumulate() -> None:
                total.add_(torch.bmm(left, right))

            return accumulate
        left, right = self._values(experts, m, k), self._values(experts, k, n)
        output = torch.empty(experts, m, n, dtype=torch.bfloat16, device="cuda")

        def product() -> None:
            torch.bmm(left, right, out=output)

        return product

    def _attention(self, shape: tuple[int, ...], *, backward: bool) -> Run:
        torch = self._torch
        batch, heads, seq_len, qk_dim, v_dim = shape
        inputs = [self._values(batch, heads, seq_len, dim) for dim in (qk_dim, qk_dim, v_dim)]
        attend = torch.nn.functional.scaled_dot_product_attention
        if not backward:

            def forward() -> None:
                attend(*inputs, is_causal=True)

            return forward
        for tensor in inputs:
            tensor.requires_grad_()
        output = attend(*inputs, is_causal=True)
        gradient = torch.randn_like(output)

        def gradients() -> None:
            torch.autograd.grad(output, inputs, gradient, retain_graph=True)

        return gradients

    def _permute(self, tokens: int, copies: int, hidden: int) -> Run:
        torch = self._torch
        states = self._values(tokens, hidden)
        order = torch.randperm(tokens * copies, device="cuda") % tokens
        output = torch.empty(tokens * copies, hidden, dtype=torch.bfloat16, device="cuda")

        def permute() -> None:
            torch.index_select(states, 0, order, out=output)

        return permute

    def _copy(self, size_bytes: int) -> Run:
        torch = self._torch
        source, target = (
            torch.zeros(size_bytes, dtype=torch.uint8, device="cuda") for _ in range(2)
        )

        def copy() -> None:
            target.copy_(source)

        return copy
