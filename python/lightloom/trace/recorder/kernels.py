"""Kernels that a GPU has for what PyTorch otherwise composes of many operators.

On tensors without data PyTorch takes attention and RMS norm apart, as no kernel is there for them.
A program that believes to be on a GPU is given the operators that it would have there, so that what
is noted is what would run; their shapes, and what is communicated, are the same.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from .compiled import is_compiled
from .computes import note_kernel
from .values import aten

#: attention as PyTorch composes it, and dimensions of what its kernels take
_COMPOSED: Any = torch.nn.functional.scaled_dot_product_attention
_FUSED_DIMS = 4


def spoof_kernels() -> None:
    """Replace the functions of PyTorch that are one kernel on a GPU."""
    functional: Any = torch.nn.functional
    functional.scaled_dot_product_attention = attention
    functional.rms_norm = torch.rms_norm = _rms_norm_by(functional.rms_norm)


def attention(  # noqa: PLR0913 - as PyTorch's
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention in one kernel: that of cuDNN where there is a mask or values are of other width.

    Only of batch, heads, tokens and width: PyTorch, too, takes other shapes apart.
    """
    if query.dim() != _FUSED_DIMS:
        return _COMPOSED(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    scaling = () if scale is None else (("scale", scale),)
    if attn_mask is None and query.shape[-1] == value.shape[-1]:
        result = aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, is_causal, **dict(scaling)
        )
    else:
        result = aten._scaled_dot_product_cudnn_attention(
            query, key, value, attn_mask, True, dropout_p, is_causal, **dict(scaling)
        )
    return result[0]


def _rms_norm_by(composed: Any) -> Any:
    """RMS norm in one kernel; what is sharded or compiled is left to PyTorch."""

    @functools.wraps(composed)
    def rms_norm(
        input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
    ) -> Any:
        if is_compiled() or type(input) is not torch.Tensor or type(weight) not in _PLAIN:
            return composed(input, normalized_shape, weight, eps)
        return _RMSNorm.apply(input, weight)

    return rms_norm


_PLAIN = (torch.Tensor, torch.nn.Parameter, type(None))


class _RMSNorm(torch.autograd.Function):
    """Reads its input and writes as much; backward reads gradient and input, and writes one."""

    @staticmethod
    def forward(ctx: Any, data: Any, weight: Any) -> Any:
        ctx.save_for_backward(data, weight)
        note_kernel("elementwise", data.dtype, 0, 2 * _bytes(data))
        # the kernel lays out its result in order, however its input lies
        return torch.empty_like(data, memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        data, weight = ctx.saved_tensors
        note_kernel("elementwise", data.dtype, 0, 3 * _bytes(data), kernels=2)
        return torch.empty_like(data), None if weight is None else torch.empty_like(weight)


def _bytes(tensor: Any) -> int:
    return math.prod(tensor.shape) * int(tensor.element_size())
