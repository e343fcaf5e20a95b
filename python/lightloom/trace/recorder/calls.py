"""One recorded call of a collective, and how arguments of PyTorch's operators become one."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from .groups import group_name
from .values import tensors_of

#: operators that carry bytes between ranks
NAMESPACES = {"c10d", "_c10d_functional"}

#: operators of those namespaces that communicate nothing
LOCAL = {"wait_tensor", "wait_tensors", "_wrap_tensor_autograd", "check_for_nan"}

#: what a call is, by the name of PyTorch's operator
OPERATIONS = {
    "_allgather_base_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "all_gather_into_tensor_out": "all_gather",
    "all_reduce": "all_reduce",
    "all_reduce_": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "all_reduce_coalesced_": "all_reduce",
    "all_to_all_single": "all_to_all",
    "allgather_": "all_gather",
    "allgather_coalesced_": "all_gather",
    "allgather_into_tensor_coalesced_": "all_gather",
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce",
    "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all",
    "barrier": "barrier",
    "monitored_barrier_": "barrier",
    "broadcast": "broadcast",
    "broadcast_": "broadcast",
    "gather_": "gather",
    "gather_into_tensor_": "gather",
    "irecv": "receive",
    "isend": "send",
    "recv_": "receive",
    "recv_any_source_": "receive",
    "reduce_": "reduce",
    "reduce_scatter_": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter",
    "reduce_scatter_tensor_out": "reduce_scatter",
    "scatter_": "scatter",
    "send": "send",
}


@dataclass
class IssuedCall:
    """A collective or a message, as one rank issued it.

    Attributes
    ----------
    op
        What is done; a key of :data:`OPERATIONS` as `function`.
    call_id
        Counts the calls of this rank from 0, in the order in which they were issued.
    group, ranks
        Name of the process group and its ranks, in its order.
    shape, dtype
        Of the data that this rank puts in (of a receive, that it gets out); of the first tensor if
        there are several.
    input_bytes, output_bytes
        Of all tensors that go in and come out.
    input_splits, output_splits
        Elements of the first dimension for and from each rank of the group, where they are given.
    reduction, peer, tag, root
        Of those operations that have them; `peer` and `root` are ranks of the job.
    phase, layer, step, micro_batch
        Where in the step it was issued.
    stream, asynchronous, waited_before
        The stream that was current; whether the program waits for it elsewhere, and before which
        call it does.
    waited_at
        The same with the stream that waits, and the number of entries of computes.
    """

    op: str
    call_id: int
    function: str
    group: str
    ranks: list[int]
    shape: list[int]
    dtype: str
    input_bytes: int
    output_bytes: int
    input_splits: list[int] | None = None
    output_splits: list[int] | None = None
    reduction: str | None = None
    peer: int | None = None
    tag: int | None = None
    root: int | None = None
    phase: str = ""
    layer: str = ""
    step: int = 0
    stream: int = 0
    asynchronous: bool = False
    waited_before: int | None = None
    call_site: str = ""
    routed: int | None = None
    tensors: int = field(default=1)
    waited_at: tuple[int, int, int] | None = None
    micro_batch: int | None = None


@dataclass
class Arguments:
    """Arguments of a communication operator by their meaning."""

    name: str
    group: Any
    inputs: Any
    outputs: Any
    input_splits: list[int] | None
    output_splits: list[int] | None
    reduction: str | None
    #: index in the group
    peer: int | None
    root: int | None
    tag: int | None
    asynchronous: bool


_INPUT = ("input_tensor", "input_tensors", "input_list", "input", "inputs")
_OUTPUT = ("output_tensor", "output_tensors", "output_lists", "output", "outputs", "out")
_BOTH = ("tensors", "tensor")


def read_arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """Give the arguments of a communication operator their meaning."""
    bound = dict(zip((arg.name for arg in func._schema.arguments), args, strict=False)) | kwargs
    name = func._schema.name.split("::")[1]
    inputs = _first(bound, _INPUT)
    outputs = _first(bound, _OUTPUT)
    both = _first(bound, _BOTH)
    if both is not None:
        operation = OPERATIONS[name]
        inputs = None if operation == "receive" else both
        outputs = None if operation == "send" else both
    elif outputs is None:
        outputs = inputs if name.endswith("_") else None
    operation = bound.get("reduce_op")
    sizes = _splits_of_lists(inputs, outputs) if name == "alltoall_" else (
        _splits(bound.get("input_split_sizes")), _splits(bound.get("output_split_sizes")),
    )  # fmt: skip
    return Arguments(
        name=name,
        group=_group(bound),
        inputs=inputs,
        outputs=outputs,
        input_splits=sizes[0],
        output_splits=sizes[1],
        reduction=None if operation is None else _reduction(operation),
        peer=bound.get("dst", bound.get("src"))
        if OPERATIONS[name] in ("send", "receive")
        else None,
        root=bound.get("root_rank", bound.get("src") if OPERATIONS[name] == "broadcast" else None),
        tag=bound.get("tag"),
        asynchronous=bool(bound.get("async_op", _is_asynchronous(func, name))),
    )


def _is_asynchronous(func: Any, name: str) -> bool:
    """Whether a call that does not say so is waited for elsewhere: PyTorch leaves out defaults."""
    defaults = [arg.default_value for arg in func._schema.arguments if arg.name == "async_op"]
    return bool(defaults[0]) if defaults else name in ("send", "recv_")


def _first(bound: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((bound[name] for name in names if bound.get(name) is not None), None)


def _splits(sizes: Any) -> list[int] | None:
    return [int(size) for size in sizes] if sizes else None


def _splits_of_lists(*lists: Any) -> list[list[int] | None]:
    """The rows of tensors, of which one is for or from each rank."""
    return [[tensor.shape[0] if tensor.dim() else 1 for tensor in tensors] for tensors in lists]


def _group(bound: dict[str, Any]) -> Any:
    if "process_group" in bound:
        return dist.ProcessGroup.unbox(bound["process_group"])
    name = bound["group_name"]
    return c10d._resolve_process_group(name) if isinstance(name, str) else name


def _reduction(operation: Any) -> str:
    """The name of a reduction, from any of the forms that PyTorch hands it over in."""
    if isinstance(operation, str):
        return operation.lower()
    with contextlib.suppress(AttributeError, TypeError, RuntimeError):
        operation = dist.ReduceOp.unbox(operation)
    text = str(getattr(operation, "op", operation))
    return re.sub(r".*\.", "", text).lower().removesuffix(">")


def _name(group: Any) -> str:
    return group_name(group.group_desc)


def bytes_of(values: Any) -> int:
    """Bytes of all tensors of an argument."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_of(values))


def describe(arguments: Arguments) -> IssuedCall:
    """The record of a call, without its number and where and when it was made."""
    tensors = list(tensors_of(arguments.inputs)) or list(tensors_of(arguments.outputs))
    ranks = list(dist.get_process_group_ranks(arguments.group))
    first = tensors[0] if tensors else None
    return IssuedCall(
        op=OPERATIONS[arguments.name],
        call_id=-1,
        function=arguments.name,
        group=_name(arguments.group),
        ranks=ranks,
        shape=[] if first is None else list(first.shape),
        dtype="" if first is None else str(first.dtype).removeprefix("torch."),
        input_bytes=bytes_of(arguments.inputs),
        output_bytes=bytes_of(arguments.outputs),
        input_splits=arguments.input_splits,
        output_splits=arguments.output_splits,
        reduction=arguments.reduction,
        peer=None if arguments.peer is None else ranks[arguments.peer],
        root=None if arguments.root is None else ranks[arguments.root],
        tag=arguments.tag,
        asynchronous=arguments.asynchronous,
        tensors=len(tensors),
    )
