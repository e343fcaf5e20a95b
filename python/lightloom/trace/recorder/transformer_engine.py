"""Transformer Engine by shape: its layers communicate as those of release 2.10 do on a Hopper GPU.

Megatron-Core needs it for context parallelism and for its default layers. Its kernels run on GPUs
only; what stands for them here multiplies and attends by PyTorch's operators, in parts of the same
sizes, and issues the same collectives and messages in the same order. What it computes is of the
right shape, not of the right value: parts of attention are added without their softmax's scales.
FP8, fused optimizers and operations, CUDA graphs and user buffers are not here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

functional = torch.nn.functional


def _refused(name: str) -> type:
    """A class that can be named and inherited from, but not be made."""

    def refuse(self: Any, *_: Any, **__: Any) -> None:
        raise NotImplementedError(f"{name} of Transformer Engine has no replacement in a trace")

    return type(name, (), {"__init__": refuse})


class QuantizedTensor(torch.Tensor):
    """The class of FP8 tensors, of which there are none."""


class FP8GlobalStateManager:
    """Says that FP8 is off."""

    @staticmethod
    def is_fp8_enabled() -> bool:
        return False

    is_fp8_calibration = is_first_fp8_module = is_fp8_enabled


@contextlib.contextmanager
def fp8_autocast(enabled: bool = True, **_: Any) -> Any:
    """Nothing is cast; FP8, which changes what is communicated, is refused."""
    if enabled:
        raise NotImplementedError("FP8 of Transformer Engine has no replacement in a trace")
    yield


@contextlib.contextmanager
def activation_recompute_forward(**_: Any) -> Any:
    """Only FP8 has to know whether a forward pass is one of recomputation."""
    yield


# -- layers -----------------------------------------------------------------------------------


class _Multiply(torch.autograd.Function):
    """A linear layer, with what its part of tensor parallelism communicates."""

    @staticmethod
    def forward(ctx: Any, data: Any, weight: Any, bias: Any, layer: Any) -> Any:
        ctx.save_for_backward(data, weight)
        ctx.layer, ctx.biased = layer, bias is not None
        total = _gathered(data, layer.tp_group)[0] if layer.gathers else data
        product = functional.linear(total, weight, bias)
        if layer.parallel_mode == "row" and layer.tp_size > 1:
            if layer.sequence_parallel:
                return _scattered(product, layer.tp_group)[0]
            dist.all_reduce(product, group=layer.tp_group)
        return product

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        data, weight = ctx.saved_tensors
        layer, work, done = ctx.layer, None, None
        if layer.parallel_mode == "row" and layer.sequence_parallel and layer.tp_size > 1:
            gradient = _gathered(gradient, layer.tp_group)[0]
        if layer.gathers and ctx.needs_input_grad[1]:
            data, work = _gathered(data, layer.tp_group, asynchronous=True)
        of_data = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_data = gradient.matmul(weight)
            if layer.gathers:
                of_data, done = _scattered(of_data, layer.tp_group, asynchronous=True)
            elif layer.parallel_mode == "column" and layer.tp_size > 1:
                done = dist.all_reduce(of_data, group=layer.tp_group, async_op=True)
        if ctx.needs_input_grad[1]:
            if work is not None:
                work.wait()
            rows = gradient.reshape(-1, gradient.shape[-1])
            of_weight = rows.t().matmul(data.reshape(-1, data.shape[-1]))
            if layer.fuse_wgrad_accumulation:
                weight.main_grad.add_(of_weight)
                weight.grad_added_to_main_grad = True
        if ctx.biased and ctx.needs_input_grad[2]:
            of_bias = gradient.reshape(-1, gradient.shape[-1]).sum(0)
        if done is not None:
            done.wait()
        return of_data, of_weight, of_bias, None


def _gathered(data: Any, group: Any, asynchronous: bool = False) -> Any:
    """The parts of all ranks, one after another, and what to wait for."""
    shape = (data.shape[0] * dist.get_world_size(group), *data.shape[1:])
    total = torch.empty(shape, dtype=data.dtype, device=data.device)
    work = dist.all_gather_into_tensor(total, data.contiguous(), group=group, async_op=asynchronous)
    return total, work


def _scattered(data: Any, group: Any, asynchronous: bool = False) -> Any:
    """The rank's part of the sum over ranks, and what to wait for."""
    shape = (data.shape[0] // dist.get_world_size(group), *data.shape[1:])
    part = torch.empty(shape, dtype=data.dtype, device=data.device)
    work = dist.reduce_scatter_tensor(part, data.contiguous(), group=group, async_op=asynchronous)
    return part, work


class _Layer(nn.Module):
    """What linear layers share: their sizes, and how their weights are told to be split."""

    def __init__(self, in_features: int, out_features: int, **extra: Any) -> None:
        super().__init__()
        self.tp_group = extra.get("tp_group")
        size = extra.get("tp_size", 1)
        self.tp_size = size if self.tp_group is None else dist.get_world_size(self.tp_group)
        self.parallel_mode = extra.get("parallel_mode")
        self.sequence_parallel = bool(extra.get("sequence_parallel")) and self.tp_size > 1
        self.in_features, self.out_features = in_features, out_features
        if self.parallel_mode == "column":
            self.out_features //= self.tp_size
        if self.parallel_mode == "row":
            self.in_features //= self.tp_size
        self.use_bias, self.return_bias = extra.get("bias", True), extra.get("return_bias", False)
        self.fuse_wgrad_accumulation = extra.get("fuse_wgrad_accumulation", False)
        self.save_original_input = extra.get("save_original_input", False)
        self.options = {"dtype": extra.get("params_dtype"), "device": extra.get("device", "cuda")}
        self.init_method = extra.get("init_method")
        if extra.get("delay_wgrad_compute"):
            raise NotImplementedError("delay_wgrad_compute has no replacement in a trace")

    @property
    def gathers(self) -> bool:
        """Whether its input is gathered from ranks that hold parts of the sequence."""
        return self.parallel_mode == "column" and self.sequence_parallel

    def make_weight(self, number: str = "") -> None:
        """Make a weight and its bias, and mark them as Transformer Engine does."""
        weight = nn.Parameter(torch.empty(self.out_features, self.in_features, **self.options))
        if self.init_method is not None:
            with torch.no_grad():
                self.init_method(weight)
        _mark(weight, dim=1 if self.parallel_mode == "row" else 0)
        self.register_parameter(f"weight{number}", weight)
        bias = torch.zeros(self.out_features, **self.options) if self.use_bias else torch.Tensor()
        if not self.use_bias:
            setattr(self, f"bias{number}", bias)
            return
        bias = nn.Parameter(bias)
        if self.parallel_mode == "row":
            bias.sequence_parallel = self.sequence_parallel
        elif self.parallel_mode == "column":
            _mark(bias, dim=0)
        self.register_parameter(f"bias{number}", bias)

    def multiply(self, data: Any) -> Any:
        """The layer's output; and its bias where that is wanted."""
        bias = self.bias if self.use_bias else None
        if self.return_bias:
            return _Multiply.apply(data, self.weight, None, self), bias
        if self.parallel_mode == "row" and bias is not None:  # once, after the sum
            return _Multiply.apply(data, self.weight, None, self) + bias
        return _Multiply.apply(data, self.weight, bias, self)

    def set_tensor_parallel_group(self, group: Any) -> None:
        self.tp_group = group

    def get_extra_state(self) -> Any:
        return None

    def set_extra_state(self, state: Any) -> None:
        """There is none: it is of FP8."""


def _mark(parameter: Any, dim: int) -> None:
    parameter.tensor_model_parallel, parameter.partition_dim = True, dim
    parameter.partition_stride = 1


class SplitLinear(_Layer):
    """A linear layer, split by rows or columns or not at all."""

    def __init__(self, in_features: int, out_features: int, **extra: Any) -> None:
        super().__init__(in_features, out_features, **extra)
        self.make_weight()

    def forward(self, data: Any, is_first_microbatch: Any = None) -> Any:
        return self.multiply(data)


class GroupedLinear(_Layer):
    """Linear layers of several experts, each for its own rows."""

    def __init__(self, num_gemms: int, in_features: int, out_features: int, **extra: Any) -> None:
        super().__init__(in_features, out_features, **extra)
        self.num_gemms = num_gemms
        for number in range(num_gemms):
            self.make_weight(str(number))

    def forward(self, data: Any, m_splits: Any, is_first_microbatch: Any = None) -> Any:
        products, biases = [], []
        for number, rows in enumerate(data.split([int(size) for size in m_splits])):
            bias = getattr(self, f"bias{number}") if self.use_bias else None
            biases.append(bias)
            used = None if self.return_bias else bias
            products.append(_Multiply.apply(rows, getattr(self, f"weight{number}"), used, self))
        return (torch.cat(products), biases) if self.return_bias else torch.cat(products)


class _Norm(nn.Module):
    """A norm over the last dimension."""

    biased = True

    def __init__(self, hidden_size: int, eps: float = 1e-5, **extra: Any) -> None:
        super().__init__()
        placed = {"dtype": extra.get("params_dtype"), "device": extra.get("device", "cuda")}
        self.eps, self.shape = eps, (hidden_size,)
        self.weight = nn.Parameter(torch.ones(hidden_size, **placed))
        self.weight.sequence_parallel = bool(extra.get("sequence_parallel"))
        if self.biased:
            self.bias = nn.Parameter(torch.zeros(hidden_size, **placed))
            self.bias.sequence_parallel = bool(extra.get("sequence_parallel"))

    def forward(self, data: Any) -> Any:
        if self.biased:
            return functional.layer_norm(data, self.shape, self.weight, self.bias, self.eps)
        return functional.rms_norm(data, self.shape, self.weight, self.eps)


class LayerNorm(_Norm):
    """Layer norm."""


class RMSNorm(_Norm):
    """RMS norm."""

    biased = False


class LayerNormLinear(_Layer):
    """A norm, and a linear layer of what it gives."""

    def __init__(self, in_features: int, out_features: int, **extra: Any) -> None:
        super().__init__(in_features, out_features, **extra)
        if extra.get("return_layernorm_output"):
            raise NotImplementedError("return_layernorm_output has no replacement in a trace")
        norms = {"LayerNorm": LayerNorm, "RMSNorm": RMSNorm}
        norm = norms[extra.get("normalization", "LayerNorm")](
            in_features, extra.get("eps", 1e-5), sequence_parallel=extra.get("sequence_parallel"),
            params_dtype=extra.get("params_dtype"), device=extra.get("device", "cuda"),
        )  # fmt: skip
        self.shape, self.eps, self.biased = norm.shape, norm.eps, norm.biased
        self.layer_norm_weight = norm.weight
        if norm.biased:
            self.layer_norm_bias = norm.bias
        self.make_weight()

    def forward(self, data: Any, is_first_microbatch: Any = None) -> Any:
        if self.biased:
            norm = functional.layer_norm(
                data, self.shape, self.layer_norm_weight, self.layer_norm_bias, self.eps
            )
        else:
            norm = functional.rms_norm(data, self.shape, self.layer_norm_weight, self.eps)
        return self.multiply(norm)


# -- attention --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Context:
    """How a sequence is spread: the group, its ranks in the job, and the second stream."""

    group: Any
    ranks: Sequence[int]
    stream: Any
    causal: bool

    @property
    def size(self) -> int:
        return dist.get_world_size(self.group)

    @property
    def place(self) -> int:
        return dist.get_rank(self.group)


def _attend(query: Any, key: Any, value: Any, causal: bool) -> Any:
    """Attention of tensors that are sequence x batch x heads x channels."""
    attended = functional.scaled_dot_product_attention(
        *(tensor.permute(1, 2, 0, 3) for tensor in (query, key, value)),
        is_causal=causal, enable_gqa=query.shape[2] != key.shape[2],
    )  # fmt: skip
    return attended.permute(2, 0, 1, 3)


class _Part:
    """Attention of a part of the queries to a part of the keys, and its gradients."""

    def __init__(self, query: Any, key: Any, value: Any, causal: bool) -> None:
        with torch.enable_grad():
            self.inputs = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
            self.output = _attend(*self.inputs, causal)

    def gradients(self, of_output: Any) -> Any:
        return torch.autograd.grad(self.output, self.inputs, of_output)


def _send_around(context: _Context, sent: Any, to: int, received: Any, source: int) -> list[Any]:
    """Send to one rank and receive from another; what to wait for.

    Both as one batch where two ranks would else wait for each other, as Transformer Engine does.
    """
    to, source = (context.ranks[place % context.size] for place in (to, source))
    pair = [(dist.isend, sent, to), (dist.irecv, received, source)]
    if context.place % 2:
        pair.reverse()
    if context.size == 2 or int(os.environ.get("NVTE_BATCH_MHA_P2P_COMM", "0")):
        return list(dist.batch_isend_irecv([dist.P2POp(*op, context.group) for op in pair]))
    return [do(tensor, peer, context.group) for do, tensor, peer in pair]


class _Ring(torch.autograd.Function):
    """Keys and values go around; of a causal sequence each rank holds an early and a late part."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, context: _Context) -> Any:
        shapes, parts, pending = (key.shape, value.shape), [], []
        both = torch.cat([key.reshape(-1), value.reshape(-1)])
        streams = [torch.cuda.current_stream(), context.stream]
        for step in range(context.size):
            with torch.cuda.stream(streams[step % 2]):
                for request in pending:
                    request.wait()
                following = torch.empty_like(both)
                if step < context.size - 1:
                    pending = _send_around(
                        context, both, context.place + 1, following, context.place - 1
                    )
                parts.append(_part_of_ring(query, both, shapes, context, step))
                both = following if step < context.size - 1 else both
        ctx.context, ctx.parts = context, parts
        ctx.save_for_backward(query, both)
        output = query.new_zeros(*query.shape[:-1], value.shape[-1])
        for part in parts:
            output[-part.output.shape[0] :] += part.output.detach()
        return output

    @staticmethod
    def backward(ctx: Any, of_output: Any) -> Any:
        query, both = ctx.saved_tensors
        context, of_query, whole = ctx.context, torch.zeros_like(query), ctx.parts[0].inputs
        buffers = [both.new_zeros(2, both.numel()) for _ in range(2)]
        buffers[0][0].copy_(both)
        last, size = context.size - 1, whole[1].numel()
        for step, part in enumerate(reversed(ctx.parts)):
            sent, received = buffers[step % 2], buffers[(step + 1) % 2]
            # keys and values, then also their gradients, and in the end only these
            row = {0: 0, last: 1}.get(step, slice(None))
            pending = _send_around(
                context, sent[row], context.place - 1, received[row], context.place + 1
            )
            rows = part.output.shape[0]
            mine, *others = part.gradients(of_output[-rows:])
            of_query[-rows:] += mine
            for gradient in pending:
                gradient.wait()
            sums = received[1][:size].view_as(whole[1]), received[1][size:].view_as(whole[2])
            for total, gradient in zip(sums, others, strict=True):
                total[: gradient.shape[0]] += gradient
        return of_query, *sums, None


def _part_of_ring(query: Any, both: Any, shapes: Any, context: _Context, step: int) -> _Part:
    """Causal: half of the keys that come from earlier ranks, half of the queries for later ones."""
    size = shapes[0].numel()
    key, value = both[:size].view(shapes[0]), both[size:].view(shapes[1])
    if step and context.causal:
        if step <= context.place:
            key, value = (tensor[: tensor.shape[0] // 2] for tensor in (key, value))
        else:
            query = query[query.shape[0] // 2 :]
    return _Part(query, key, value, context.causal and step == 0)


class _Gather(torch.autograd.Function):
    """Keys and values of all ranks are gathered, and again for gradients."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, context: _Context) -> Any:
        keys, values = (_gathered(tensor, context.group)[0] for tensor in (key, value))
        half = query.shape[0] // 2
        parts = []
        for number, chunk in enumerate((context.place, 2 * context.size - 1 - context.place)):
            seen = (chunk + 1) * half if context.causal else keys.shape[0]
            part = query[number * half : (number + 1) * half]
            parts.append(_Part(part, keys[:seen], values[:seen], False))
        ctx.context, ctx.parts = context, parts
        ctx.save_for_backward(key, value)
        return torch.cat([part.output.detach() for part in parts])

    @staticmethod
    def backward(ctx: Any, of_output: Any) -> Any:
        group = ctx.context.group
        whole = [torch.zeros_like(_gathered(tensor, group)[0]) for tensor in ctx.saved_tensors]
        of_query = []
        for part, gradient in zip(ctx.parts, of_output.chunk(2), strict=True):
            mine, *others = part.gradients(gradient)
            of_query.append(mine)
            for total, summand in zip(whole, others, strict=True):
                total[: summand.shape[0]] += summand
        of_key, of_value = (_scattered(tensor, group)[0] for tensor in whole)
        return torch.cat(of_query), of_key, of_value, None


class _Spread(torch.autograd.Function):
    """Tensors by sequence become tensors by heads, or back, each in an all-to-all."""

    @staticmethod
    def forward(ctx: Any, context: _Context, to_heads: bool, *tensors: Any) -> Any:
        ctx.context, ctx.to_heads = context, to_heads
        return _spread(context, to_heads, tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, None, *_spread(ctx.context, not ctx.to_heads, gradients)


def _spread(context: _Context, to_heads: bool, tensors: Any) -> Any:
    size, outs, pending = context.size, [], []
    for tensor in tensors:
        if to_heads:
            sequence, batch, heads, channels = tensor.shape
            parts = tensor.view(sequence, batch, size, heads // size, channels).movedim(2, 0)
        else:
            parts = tensor.reshape(size, tensor.shape[0] // size, *tensor.shape[1:])
        parts = parts.contiguous()
        outs.append(torch.empty_like(parts))
        pending.append(dist.all_to_all_single(outs[-1], parts, group=context.group, async_op=True))
        if len(pending) > 1:
            pending[-2].wait()
    pending[-1].wait()
    if to_heads:
        return tuple(part.flatten(0, 1) for part in outs)
    return tuple(part.movedim(0, 2).flatten(2, 3) for part in outs)


class DotProductAttention(nn.Module):
    """Attention, over ranks that hold parts of the sequence where `cp_group` has more than one."""

    def __init__(self, num_attention_heads: int, kv_channels: Any, **extra: Any) -> None:
        super().__init__()
        self.mask, self.format = extra.get("attn_mask_type", "causal"), extra.get("qkv_format")
        self.set_context_parallel_group(
            extra.get("cp_group"), extra.get("cp_global_ranks"), extra.get("cp_stream"),
            extra.get("cp_comm_type", "p2p"),
        )  # fmt: skip
        for name in ("return_max_logit",):
            if extra.get(name):
                raise NotImplementedError(f"{name} has no replacement in a trace")

    def set_context_parallel_group(self, group: Any, ranks: Any, stream: Any, kind: Any) -> None:
        self.cp_group, self.cp_global_ranks, self.cp_stream = group, ranks, stream
        self.cp_comm_type = kind

    def forward(
        self, query: Any, key: Any, value: Any, attention_mask: Any = None, **extra: Any
    ) -> Any:
        layout = extra.get("qkv_format") or self.format or "sbhd"
        causal = "causal" in (extra.get("attn_mask_type") or self.mask)
        data = [_sequence_first(tensor, layout) for tensor in (query, key, value)]
        attended = self._attend(data, causal).flatten(2)
        if layout == "thd":
            return attended.squeeze(1)
        return attended.transpose(0, 1) if layout == "bshd" else attended

    def _attend(self, data: list[Any], causal: bool) -> Any:
        groups = self.cp_group if isinstance(self.cp_group, (list, tuple)) else [self.cp_group]
        if self.cp_group is None or max(map(dist.get_world_size, groups)) == 1:
            return _attend(*data, causal)
        contexts = [
            _Context(group, dist.get_process_group_ranks(group), self.cp_stream, causal)
            for group in groups
        ]
        if self.cp_comm_type == "p2p":
            return _Ring.apply(*data, contexts[0])
        if self.cp_comm_type == "all_gather":
            return _Gather.apply(*data, contexts[0])
        data = _Spread.apply(contexts[0], True, *data)
        attended = _attend(*data, causal) if len(groups) == 1 else _Ring.apply(*data, contexts[1])
        return _Spread.apply(contexts[0], False, attended)[0]


def _sequence_first(data: Any, layout: str) -> Any:
    """Sequences of several lengths count as one of all their tokens."""
    if layout == "thd":
        return data.unsqueeze(1)
    return data.transpose(0, 1) if layout == "bshd" else data


_PYTORCH = "transformer_engine.pytorch"

#: module -> its names
MODULES: dict[str, dict[str, Any]] = {
    "transformer_engine": {"__version__": "2.10.0"},
    "transformer_engine.common": {},
    "transformer_engine.common.recipe": {
        "DelayedScaling": _refused("DelayedScaling"), "Format": _refused("Format"),
    },
    _PYTORCH: {
        "DotProductAttention": DotProductAttention, "GroupedLinear": GroupedLinear,
        "LayerNorm": LayerNorm, "LayerNormLinear": LayerNormLinear, "Linear": SplitLinear,
        "RMSNorm": RMSNorm,
    },
    f"{_PYTORCH}.distributed": {
        "CudaRNGStatesTracker": _refused("CudaRNGStatesTracker"),
        "activation_recompute_forward": activation_recompute_forward,
    },
    f"{_PYTORCH}.fp8": {
        "FP8GlobalStateManager": FP8GlobalStateManager, "fp8_autocast": fp8_autocast,
    },
    f"{_PYTORCH}.ops": {
        "FusibleOperation": _refused("FusibleOperation"), "Sequential": _refused("Sequential"),
    },
    f"{_PYTORCH}.router": dict.fromkeys(
        ("fused_compute_score_for_moe_aux_loss", "fused_moe_aux_loss",
         "fused_topk_with_score_function")
    ),
    f"{_PYTORCH}.tensor": {"QuantizedTensor": QuantizedTensor},
}  # fmt: skip
