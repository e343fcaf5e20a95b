"""What NCCL does and gloo does not, for real runs of programs that believe to have GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from .calls import Arguments


def summed(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of an operator with a plain sum instead of a scaled one, which gloo refuses."""
    names = [argument.name for argument in func._schema.arguments]
    place = names.index("reduce_op")
    plain: Any = dist.ReduceOp(dist.ReduceOp.SUM)
    return (*args[:place], plain.boxed(), *args[place + 1 :])


def execute(arguments: Arguments) -> bool:
    """Execute a call that gloo would refuse, by others; False where gloo can do it itself."""
    if arguments.name == "allgather_" and _is_uneven(arguments.outputs[0]):
        _gather(arguments.group, arguments.inputs[0], arguments.outputs[0])
        return True
    if arguments.name == "reduce_scatter_" and _is_uneven(arguments.inputs[0]):
        _reduce_parts(arguments.group, arguments.inputs[0], arguments.outputs[0])
        return True
    if arguments.name == "alltoall_":  # of all ranks, or they would not meet
        _all_to_all(arguments.group, arguments.inputs, arguments.outputs)
        return True
    return False


def _all_to_all(group: Any, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
    """Tensors of any sizes are parts of one."""
    sent = torch.cat([tensor.reshape(-1) for tensor in inputs])
    received = sent.new_empty(sum(output.numel() for output in outputs))
    sizes = [[tensor.numel() for tensor in tensors] for tensors in (outputs, inputs)]
    group.alltoall_base(received, sent, *sizes).wait()
    for target, part in zip(outputs, received.split(sizes[0]), strict=True):
        target.copy_(part.view(target.shape))


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
