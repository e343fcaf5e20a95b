"""Automatic mixed precision, which PyTorch does not apply to tensors without data.

PyTorch says for which operators a device has rules of autocast; here is which rule each has:
products cast what they are given to the lower format (weights once for as long as autocast is
entered), a few take the widest format of what they are given, all others compute in FP32. So
products run in the format that they would have, casts are counted, and what is communicated has
the right size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeGuard

import torch

from .places import RefusedError, place

#: what runs in the lower format
_LOWER = {
    "_addmm_activation", "_convolution", "_cudnn_rnn", "_native_multi_head_attention",
    "_scaled_dot_product_flash_attention", "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell",
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "conv1d", "conv2d",
    "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "convolution", "cudnn_convolution", "cudnn_convolution_transpose", "einsum", "gru_cell",
    "linalg_multi_dot", "linalg_vecdot", "linear", "lstm_cell", "matmul", "mkldnn_rnn_layer", "mm",
    "mv", "prelu", "rnn_relu_cell", "rnn_tanh_cell", "scaled_dot_product_attention",
}  # fmt: skip
#: what runs in the widest format that it is given, by device
_WIDEST = {
    "cpu": {"cat", "index_copy", "stack"},
    "cuda": {
        "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "grid_sampler", "index_put",
        "scatter_add", "tensordot", "vdot",
    },
}  # fmt: skip
#: what takes the format of its result as an argument on GPUs, so that nothing is cast before
_DTYPED = {
    "cumprod", "cumsum", "linalg_matrix_norm", "linalg_vector_norm", "log_softmax", "norm", "prod",
    "softmax", "sum",
}  # fmt: skip
#: functions that C++ makes of others: they do as the first of these that a device has rules for
_MADE_OF = {
    "__matmul__": ("matmul",), "__rmatmul__": ("matmul",), "__pow__": ("pow",),
    "__rpow__": ("pow",), "chain_matmul": ("mm",), "cross_entropy_loss": ("nll_loss",),
    "einsum": ("bmm",), "gru": ("_cudnn_rnn",), "cov": ("matmul",), "inner": ("matmul",),
    "linalg_matmul": ("matmul",), "linalg_norm": ("linalg_vector_norm",),
    "linalg_multi_dot": ("mm",), "lstm": ("_cudnn_rnn", "mkldnn_rnn_layer"),
    "matrix_power": ("mm",), "rnn_relu": ("_cudnn_rnn", "linear"),
    "rnn_tanh": ("_cudnn_rnn", "linear"), "tensordot": ("mm",),
}  # fmt: skip

#: casts of leaves that are differentiated, until autocast is left; with the leaf, so that it lives
_CACHE: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}


def spoof_autocast(device: str) -> None:
    """Replace the functions that autocast is about; outside of it they do as before.

    Parameters
    ----------
    device
        That tensors are on: ``cpu`` or ``cuda``.
    """
    for name, rule in _rules(device).items():
        for holder, attribute in _holders(name):
            if (function := getattr(holder, attribute, None)) is not None:
                setattr(holder, attribute, _casting(function, device, rule))
    clear = torch.clear_autocast_cache

    def clear_both() -> None:
        _CACHE.clear()
        clear()

    torch.clear_autocast_cache = clear_both


def _rules(device: str) -> dict[str, str]:
    """What autocast of a device does with what functions are given, by their names."""
    listed = torch._C._dispatch_get_registrations_for_dispatch_key(f"Autocast{device.upper()}")
    names = {name.partition("::")[2].partition(".")[0] for name in listed}
    rules = {name: _rule(name, device) for name in names}
    for name, parts in _MADE_OF.items():
        rule = next((rules[part] for part in parts if part in names), None)
        if rule is not None:
            rules.setdefault(name, rule)
    return rules


def _rule(name: str, device: str) -> str:
    if name in _LOWER:
        return "lower"
    if name in _WIDEST[device]:
        return "widest"
    if device == "cuda" and name == "binary_cross_entropy":
        return "refused"
    return "dtype" if device == "cuda" and name in _DTYPED else "float32"


def _holders(name: str) -> list[tuple[Any, str]]:
    """Where programs find a function, and what it is called there."""
    functional: Any = torch.nn.functional
    holders: list[Any] = [functional, torch, torch.Tensor, torch._C._nn, torch._VF]
    family, _, rest = name.partition("_")
    if family in ("linalg", "fft"):
        return [(torch, name), (getattr(torch, family), rest)]
    return [(holder, name) for holder in holders]


def _casting(function: Callable[..., Any], device: str, rule: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: object, **kwargs: object) -> Any:
        if not torch.is_autocast_enabled(device) or kwargs.get("out") is not None:
            return function(*args, **kwargs)  # PyTorch leaves the latter alone
        dtype = torch.float32
        if rule == "refused":
            raise RefusedError(
                f"{place()} calls {function.__name__} under autocast, as PyTorch refuses to: let "
                "it take logits (binary_cross_entropy_with_logits)"
            )
        if rule == "lower":
            dtype = torch.get_autocast_dtype(device)
        elif rule == "widest":
            dtype = _widest(device, args, kwargs)
        elif rule == "dtype":
            given = args[0] if args else kwargs.get("input", kwargs.get("self", kwargs.get("x")))
            has_dtype = any(isinstance(value, torch.dtype) for value in (*args, *kwargs.values()))
            if not has_dtype and _is_lower(given):
                kwargs["dtype"] = dtype
            return function(*args, **kwargs)
        args = tuple(_cast(value, dtype) for value in args)
        kwargs = {key: _cast(value, dtype) for key, value in kwargs.items()}
        return function(*args, **kwargs)

    return run


def _is_lower(value: object) -> bool:
    return _is_cast(value) and value.dtype is not torch.float32


def _is_cast(value: object) -> TypeGuard[torch.Tensor]:
    """Whether autocast may change the format of a value."""
    if not isinstance(value, torch.Tensor) or value.dtype is torch.float64:
        return False
    return value.is_floating_point()


def _widest(device: str, args: tuple[object, ...], kwargs: dict[str, object]) -> torch.dtype:
    flat: list[object] = []
    for value in (*args, *kwargs.values()):
        flat += value if isinstance(value, (list, tuple)) else [value]
    formats = {value.dtype for value in flat if _is_cast(value)}
    lower = torch.get_autocast_dtype(device)
    return lower if formats <= {lower} else torch.float32


def _cast(value: object, dtype: torch.dtype) -> object:
    if type(value) in (list, tuple):
        return type(value)(_cast(part, dtype) for part in value)
    if not _is_cast(value) or value.dtype is dtype:
        return value
    is_kept = value.dtype is torch.float32 and value.is_leaf and value.requires_grad
    if not (is_kept and torch.is_autocast_cache_enabled()):
        return value.to(dtype)
    kept = _CACHE.get(id(value))
    if kept is None or kept[0] is not value or kept[1].dtype is not dtype:
        kept = _CACHE[id(value)] = value, value.to(dtype)
    return kept[1]
