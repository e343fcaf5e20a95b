"""The GPU of this machine, driven by PyTorch; imported by ``lightloom calibrate`` alone.

Each operation runs as frameworks run it: products of experts in one grouped kernel where PyTorch
has it (one after the other elsewhere), attention by the fastest back end that takes the shape,
weight gradients as products over tokens. Where there is a choice, what was slower is remembered in
``remarks``. On a CPU, for tests, everything runs too, and is timed by the clock.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

from lightloom.errors import HardwareError
from lightloom.models.model import Model
from lightloom.study.calibration.measure import Run
from lightloom.study.calibration.operations import Operation

#: what PyTorch has is not known where it is not installed: a tensor, and the package itself
Tensor = Any
Package = Any
#: operators that are issued to see how long the host takes
ISSUED = 1000


def open_device(place: str = "cuda") -> TorchDevice:
    """The first CUDA device, or the CPU.

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
    if place == "cuda" and not torch.cuda.is_available():
        raise HardwareError(
            "calibrate gpu: PyTorch finds no CUDA GPU here; run it on a machine with the GPU"
        )
    return TorchDevice(torch, place)


class TorchDevice:
    """Operations with PyTorch's own kernels; times of a GPU are of events of its stream."""

    def __init__(self, torch: Package, place: str = "cuda") -> None:
        self._torch, self._place = torch, place
        self.title = "CPU" if place == "cpu" else str(torch.cuda.get_device_name(0))
        #: what was slower than a framework would choose, by what it was
        self.remarks: dict[str, str] = {}

    def seconds(self, run: Run, times: int) -> float:
        """Time of some runs, s: between two events, or by the clock."""
        if self._place == "cpu":
            begun = time.perf_counter()
            for _ in range(times):
                run()
            return time.perf_counter() - begun
        cuda = self._torch.cuda
        start, end = (cuda.Event(enable_timing=True) for _ in range(2))
        cuda.synchronize()
        start.record()
        for _ in range(times):
            run()
        end.record()
        cuda.synchronize()
        return float(start.elapsed_time(end)) * 1e-3

    def launches(self) -> dict[str, float]:
        """Host time of a kernel, gap between two, and wait for a result, s."""
        few = self._values(16)
        self._wait()
        begun = time.perf_counter()
        for _ in range(ISSUED):
            few.add_(1)
        host = (time.perf_counter() - begun) / ISSUED
        self._wait()
        begun = time.perf_counter()
        for _ in range(50):
            few.add_(1).sum().item()
        wait = (time.perf_counter() - begun) / 50 - 2 * host
        found = {"host_s": host, "synchronize_s": max(wait, 0.0)}
        if self._place == "cuda":
            found["graph_gap_s"] = self._gap(few)
        return found

    def _gap(self, few: Tensor) -> float:
        """Time of the smallest kernel of a graph: next to nothing, and the gap to the next."""
        cuda = self._torch.cuda
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            for _ in range(ISSUED):
                few.add_(1)
        self.seconds(graph.replay, 1)
        return self.seconds(graph.replay, 10) / 10 / ISSUED

    def prepare(self, operation: Operation) -> Run:
        """Allocate operands with normally distributed values, and bind the kernel to them."""
        name = operation.operator
        if name.startswith("attention"):
            return self._attention(operation.shape, backward=name.endswith("backward"))
        if name in {"permute", "unpermute"}:
            return self._permute(operation.shape, back=name == "unpermute")
        if name in {"norm", "add", "strided"}:
            return self._plain(name, *operation.shape)
        if name.startswith("grouped"):
            return self._grouped(name, *operation.shape)
        return self._product(name, *operation.shape)

    def _values(self, *shape: int) -> Any:
        return self._torch.randn(*shape, dtype=self._torch.bfloat16, device=self._place)

    def _wait(self) -> None:
        if self._place == "cuda":
            self._torch.cuda.synchronize()

    def _product(self, name: str, m: int, k: int, n: int) -> Run:
        torch = self._torch
        left, right = self._values(m, k), self._values(n, k).t()
        if name.endswith("_fp8"):
            scalar = torch.ones((), device=self._place)
            left, right = (value.to(torch.float8_e4m3fn) for value in (left, right))
            scales = {"scale_a": scalar, "scale_b": scalar, "out_dtype": torch.bfloat16}
            return lambda: torch._scaled_mm(left, right, **scales)
        if name.endswith("dgrad"):
            left, right = self._values(m, n), self._values(n, k)
        elif name.endswith("accumulate"):
            left, right = self._values(m, n).t(), self._values(m, k)
        return lambda: torch.mm(left, right)

    def _grouped(self, name: str, experts: int, rows: int, k: int, n: int) -> Run:
        """Products of all experts, by the faster of one kernel and one for each."""
        torch = self._torch
        kind = name.removesuffix("_fp8").rpartition("_")[2]
        tokens, weights = self._values(experts * rows, k), self._values(experts, k, n)
        if kind == "dgrad":
            tokens, weights = self._values(experts * rows, n), weights.transpose(1, 2)
        gradient = self._values(experts * rows, n)
        ends = torch.arange(1, experts + 1, device=self._place, dtype=torch.int32) * rows
        parts = [slice(rows * expert, rows * (expert + 1)) for expert in range(experts)]

        def grouped() -> None:
            if kind == "wgrad":
                torch._grouped_mm(tokens.t(), gradient, offs=ends)
            else:
                torch._grouped_mm(tokens, weights, offs=ends)

        def sequential() -> None:
            for expert, part in enumerate(parts):
                if kind == "wgrad":
                    torch.mm(tokens[part].t(), gradient[part])
                else:
                    torch.mm(tokens[part], weights[expert])

        if name.endswith("_fp8"):
            return self._grouped_fp8(tokens, weights, ends)
        return self._faster(f"{name} {experts} x {rows} x {k} x {n}", grouped, sequential)

    def _grouped_fp8(self, tokens: Tensor, weights: Tensor, ends: Tensor) -> Run:
        torch = self._torch
        experts, _, outputs = weights.shape
        left = tokens.to(torch.float8_e4m3fn)
        right = weights.transpose(1, 2).contiguous().to(torch.float8_e4m3fn).transpose(1, 2)
        scales = (
            torch.ones(len(tokens), device=self._place),
            torch.ones(experts, outputs, device=self._place),
        )
        return lambda: torch._scaled_grouped_mm(
            left, right, *scales, offs=ends, out_dtype=torch.bfloat16
        )

    def _faster(self, what: str, first: Run, second: Run) -> Run:
        """The faster of two ways; if it is not the one that frameworks prefer, that is said."""
        try:
            one, other = (self._once(run) for run in (first, second))
        except (RuntimeError, AttributeError, NotImplementedError):
            self.remarks["grouped"] = "one kernel for all experts is not in this PyTorch"
            return second
        if one <= other:
            return first
        self.remarks[what] = f"one kernel for all experts takes {one / other:.2f} times as long"
        return second

    def _once(self, run: Run) -> float:
        self.seconds(run, 2)
        return self.seconds(run, 5)

    def _attention(self, shape: tuple[int, ...], *, backward: bool) -> Run:
        batch, heads, key_heads, length, width, values = shape
        inputs = [
            self._values(batch, count, length, size).requires_grad_(backward)
            for count, size in ((heads, width), (key_heads, width), (key_heads, values))
        ]
        output = self._attend(*inputs)
        gradient = self._torch.randn_like(output)
        if not backward:
            return lambda: self._attend(*inputs)
        grad = self._torch.autograd.grad
        return lambda: grad(output, inputs, gradient, retain_graph=True)

    def _attend(self, *inputs: Tensor) -> Any:
        """Causal attention; of several back ends on a GPU, cuDNN's is first."""
        attend = self._torch.nn.functional.scaled_dot_product_attention
        grouped = inputs[0].shape[1] != inputs[1].shape[1]
        if self._place == "cpu":
            return attend(*inputs, is_causal=True, enable_gqa=grouped)
        nn = importlib.import_module("torch.nn.attention")
        order = [getattr(nn.SDPBackend, name) for name in ("CUDNN_ATTENTION", "FLASH_ATTENTION")]
        with nn.sdpa_kernel(order, set_priority=True):
            return attend(*inputs, is_causal=True, enable_gqa=grouped)

    def _permute(self, shape: tuple[int, ...], *, back: bool) -> Run:
        torch = self._torch
        tokens, copies, width = shape
        order = torch.randperm(tokens * copies, device=self._place) % tokens
        if not back:
            states = self._values(tokens, width)
            return lambda: states.index_select(0, order)
        states, sums = self._values(tokens * copies, width), self._values(tokens, width)
        return lambda: sums.index_add_(0, order, states)

    def _plain(self, name: str, tokens: int, width: int) -> Run:
        functional = self._torch.nn.functional
        states, weight = self._values(tokens, width), self._values(width)
        if name == "norm":
            return lambda: functional.rms_norm(states, (width,), weight, 1e-6)
        if name == "strided":
            gate, up = self._values(tokens, 2 * width).chunk(2, dim=-1)
            return lambda: functional.silu(gate) * up
        return lambda: states.add_(1.0)

    def prepare_layer(self, model: Model, tokens: int, seq_len: int) -> Run:
        """A layer of a model as PyTorch runs it eagerly, forward and backward."""
        found, hidden = model.attention, model.hidden_size
        heads, key_heads = found.num_heads, found.num_kv_heads or found.num_heads
        sizes = [heads * found.head_dim, key_heads * found.head_dim, key_heads * found.head_dim]
        weights = {
            "projection": self._values(sum(sizes), hidden),
            "output": self._values(hidden, sizes[0]),
            "norm": self._values(2, hidden),
        }
        gated = 2 if model.gated_ffn else 1
        if model.num_moe_layers:
            width, experts = model.expert_ffn_size, model.num_experts
            weights["router"] = self._values(experts, hidden)
            weights["up"] = self._values(experts, hidden, gated * width)
            weights["down"] = self._values(experts, width, hidden)
        else:
            weights["up"] = self._values(gated * model.ffn_size, hidden)
            weights["down"] = self._values(hidden, model.ffn_size)
        for name, value in weights.items():
            weights[name] = (value * 0.02).requires_grad_()
        states = self._values(tokens, hidden).requires_grad_()
        gradient = self._values(tokens, hidden)
        functional, grad = self._torch.nn.functional, self._torch.autograd.grad

        def run() -> None:
            first, second = weights["norm"]
            normed = functional.rms_norm(states, (hidden,), first, 1e-6)
            parts = (normed @ weights["projection"].t()).split(sizes, dim=-1)
            queries, keys, values = (
                part.view(tokens // seq_len, seq_len, -1, found.head_dim).transpose(1, 2)
                for part in parts
            )
            attended = self._attend(queries, keys, values).transpose(1, 2).reshape(tokens, -1)
            middle = states + attended @ weights["output"].t()
            normed = functional.rms_norm(middle, (hidden,), second, 1e-6)
            network = self._experts if model.num_moe_layers else self._network
            result = middle + network(model, normed, weights)
            grad(result, [states, *weights.values()], gradient)

        return run

    def _activated(self, model: Model, states: Tensor) -> Any:
        functional = self._torch.nn.functional
        if not model.gated_ffn:
            return functional.gelu(states)
        gate, up = states.chunk(2, dim=-1)
        return functional.silu(gate) * up

    def _network(self, model: Model, states: Tensor, weights: dict[str, Tensor]) -> Any:
        return self._activated(model, states @ weights["up"].t()) @ weights["down"].t()

    def _experts(self, model: Model, states: Tensor, weights: dict[str, Tensor]) -> Any:
        """Router, copies in the order of experts, their products, and the weighted sum."""
        torch = self._torch
        scores = (states @ weights["router"].t()).float().softmax(-1)
        chosen, experts = scores.topk(model.experts_per_token, dim=-1)
        order = experts.flatten().argsort(stable=True)
        rows = order // model.experts_per_token
        counts = experts.flatten().bincount(minlength=model.num_experts)
        ends = counts.cumsum(0).to(torch.int32)
        rows_out = self._activated(
            model, self._of_groups(states[rows], weights["up"], ends, counts)
        )
        rows_out = self._of_groups(rows_out, weights["down"], ends, counts)
        rows_out = rows_out * chosen.flatten()[order, None].to(rows_out.dtype)
        return torch.zeros_like(states).index_add(0, rows, rows_out)

    def _of_groups(self, states: Tensor, weights: Tensor, ends: Tensor, counts: Tensor) -> Any:
        if self._place == "cuda" and hasattr(self._torch, "_grouped_mm"):
            return self._torch._grouped_mm(states, weights, offs=ends)
        parts = states.split(counts.tolist())
        return self._torch.cat([part @ own for part, own in zip(parts, weights, strict=True)])
