"""DeepSpeed's MoE layer, with the strategies of this package.

DeepSpeed's own drops of a TP rank's tokens what the others have, sends the rest to the EP ranks and
gathers it there; on the way back it does the same. Its forward pass calls three functions for that,
in whose place it finds here one all-to-all that does the work of all three.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from deepspeed.moe import sharded_moe
from deepspeed.utils import bwc, groups

from lightloom.torch.all_to_all import Route


def tp_group_of_experts() -> dist.ProcessGroup | None:
    """The TP ranks that hold the same experts; none where experts are not cut."""
    if groups.mpu is None or groups._get_expert_model_parallel_world_size() < 2:
        return None
    return bwc.bwc_tensor_model_parallel_group(groups.mpu)


class StrategyLayer(sharded_moe.MOELayer):
    """A layer that sends by ``send``, which is ``all_to_all_tp`` but for tokens and splits."""

    send: Callable[..., tuple[torch.Tensor, Route]]

    def forward(self, *given: torch.Tensor, **options: object) -> torch.Tensor:
        """Run DeepSpeed's forward pass."""
        with _names(
            sharded_moe,
            drop_tokens=_same,
            _AllToAll=_Passage(self.send, self.ep_size),
            gather_tokens=_same,
        ):
            return super().forward(*given, **options)


class _Passage:
    """The all-to-all of one forward pass, to the experts first and then back.

    It takes tokens by expert and by place, ``(experts, capacity, hidden)``.
    """

    def __init__(self, send: Callable[..., tuple[torch.Tensor, Route]], ep_size: int) -> None:
        self._send = send
        self._ep_size = ep_size
        self._route: Route | None = None

    def apply(self, _: dist.ProcessGroup, tokens: torch.Tensor) -> torch.Tensor:
        """Send tokens, or results."""
        rows = tokens.flatten(0, 1)
        if self._route is None:
            splits = [len(rows) // self._ep_size] * self._ep_size
            moved, self._route = self._send(rows, splits)
        else:
            # the experts have added up their parts
            moved = self._route.combine(rows, partial=False)
        return moved.view(tokens.shape)


def _same(tokens: torch.Tensor, dim: int = 0) -> torch.Tensor:  # noqa: ARG001
    """All tokens, where DeepSpeed drops or gathers some."""
    return tokens


@contextlib.contextmanager
def _names(module: object, **values: object) -> Iterator[None]:
    """Give names of a module other values for a while."""
    before = {name: getattr(module, name) for name in values}
    vars(module).update(values)
    try:
        yield
    finally:
        vars(module).update(before)
