"""Automatic mixed precision, which PyTorch does not apply to tensors without data.

Functions that autocast runs in the lower format, and those that it runs in FP32, cast what they
are given as it does: weights once for as long as autocast is entered. So products run in the format
that they would have, casts are counted, and what is communicated has the right size. Functions that
take the widest format of what they are given do so anyway.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

#: what runs in the lower format, by PyTorch's documentation of autocast
_LOWER = (
    "__matmul__", "__rmatmul__", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bilinear", "bmm",
    "chain_matmul", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "einsum", "linear", "matmul", "mm", "mv", "prelu",
    "scaled_dot_product_attention",
)  # fmt: skip
#: what runs in FP32
_WIDE = (
    "__pow__", "__rpow__", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cdist",
    "cosine_similarity", "cross_entropy", "cumprod", "cumsum", "dist", "exp", "expm1", "group_norm",
    "kl_div", "l1_loss", "layer_norm", "log", "log10", "log_softmax", "log1p", "log2", "mse_loss",
    "nll_loss", "norm", "normalize", "pow", "prod", "reciprocal", "rms_norm", "rsqrt",
    "smooth_l1_loss", "softmax", "softmin", "softplus", "sum",
)  # fmt: skip

#: casts of leaves that are differentiated, until autocast is left; with the leaf, so that it lives
_CACHE: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}


def spoof_autocast() -> None:
    """Replace the functions that autocast is about; outside of it they do as before."""
    functional: Any = torch.nn.functional
    tensor: Any = torch.Tensor
    for names, wide in ((_LOWER, False), (_WIDE, True)):
        for name in names:
            for holder in (functional, torch, tensor):
                if (function := getattr(holder, name, None)) is not None:
                    setattr(holder, name, _casting(function, wide))
    clear = torch.clear_autocast_cache

    def clear_both() -> None:
        _CACHE.clear()
        clear()

    torch.clear_autocast_cache = clear_both


def _casting(function: Callable[..., Any], wide: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: object, **kwargs: object) -> Any:
        dtype = _format()
        if dtype is None or kwargs.get("out") is not None:  # PyTorch leaves the latter alone
            return function(*args, **kwargs)
        dtype = torch.float32 if wide else dtype
        args = tuple(_cast(value, dtype) for value in args)
        kwargs = {key: _cast(value, dtype) for key, value in kwargs.items()}
        return function(*args, **kwargs)

    return run


def _format() -> torch.dtype | None:
    """The lower format, if autocast is entered."""
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device):
            return torch.get_autocast_dtype(device)
    return None


def _cast(value: object, dtype: torch.dtype) -> object:
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(part, dtype) for part in value) if _plain(value) else value
    if not isinstance(value, torch.Tensor) or value.dtype is dtype:
        return value
    if not value.is_floating_point() or value.dtype is torch.float64:
        return value
    if not (value.is_leaf and value.requires_grad and torch.is_autocast_cache_enabled()):
        return value.to(dtype)
    kept = _CACHE.get(id(value))
    if kept is None or kept[0] is not value or kept[1].dtype is not dtype:
        kept = _CACHE[id(value)] = value, value.to(dtype)
    return kept[1]


def _plain(value: object) -> bool:
    return type(value) in (list, tuple)
