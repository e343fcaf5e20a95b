"""What NCCL does and gloo does not, for real runs of programs that believe to have GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from .calls import Arguments


def execute(arguments: Arguments) -> bool:
    """Execute a call that gloo would refuse, by others; False where gloo can do it itself."""
    if arguments.name == "allgather_" and _is_uneven(arguments.outputs[0]):
        _gather(arguments.group, arguments.inputs[0], arguments.outputs[0])
        return True
    if arguments.name == "reduce_scatter_" and _is_uneven(arguments.inputs[0]):
        _reduce_parts(arguments.group, arguments.inputs[0], arguments.outputs[0])
        return True
    return False


def _is_uneven(tensors: list[torch.Tensor]) -> bool:
    return len({tensor.shape for tensor in tensors}) > 1


def _gather(group: Any, mine: torch.Tensor, parts: list[torch.Tensor]) -> None:
    """Each rank broadcasts its part."""
    for root, part in enumerate(parts):
        if root == group.rank():
            part.copy_(mine)
        options = dist.BroadcastOptions()
        options.rootRank = root
        group.broadcast([part], options).wait()


def _reduce_parts(group: Any, parts: list[torch.Tensor], mine: torch.Tensor) -> None:
    """Each part is summed for its rank."""
    for root, part in enumerate(parts):
        summed = part.clone()
        group.allreduce([summed]).wait()
        if root == group.rank():
            mine.copy_(summed)
