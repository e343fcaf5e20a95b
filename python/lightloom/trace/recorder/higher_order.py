"""PyTorch's operators of functions, which a mode is asked for one by one.

Attention by functions that a program gives (FlexAttention) is compiled for a GPU, and has no
gradient on a CPU: attention of the same sizes stands for it, also in a real run.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from .session import Session
from .stubs import USED


def register() -> None:
    """Let a session answer operators of functions."""
    try:
        from torch._prims.rng_prims import run_dtensor_rng_op
    except ImportError:  # before PyTorch 2.12 sharded tensors draw numbers without it
        pass
    else:
        run_dtensor_rng_op.py_impl(Session)(_draw)
    from torch.nn.attention import flex_attention

    flex_attention.flex_attention = _attend  # type: ignore[assignment]


def _draw(session: Session, start: Any, end: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Random numbers of a sharded tensor: where their state begins and ends is of no matter."""
    with session:
        return operator(*args, **kwargs)


def _attend(query: Any, key: Any, value: Any, *_: Any, **extra: Any) -> Any:
    """Attention; with the logarithms of its sums where they are wanted."""
    name = "torch.nn.attention.flex_attention"
    if name not in USED:
        USED.append(name)
    attended = functional.scaled_dot_product_attention(
        query, key, value,
        is_causal=extra.get("block_mask") is not None, enable_gqa=extra.get("enable_gqa", False),
    )  # fmt: skip
    sums = query.new_zeros(query.shape[:-1], dtype=torch.float32)
    if (wanted := extra.get("return_aux")) is not None:
        from torch.nn.attention.flex_attention import AuxOutput

        return attended, AuxOutput(lse=sums if wanted.lse else None)
    return (attended, sums) if extra.get("return_lse") else attended
