"""What a rank computes between its calls: operators by kind, size and number.

Products and attention are noted with their FLOPs and sizes, everything else with the bytes that it
reads and writes; views cost nothing. What a kernel computes that is not there, and whose results
are made by shape alone, is noted by :func:`note_kernel`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .compiled import Fusion
from .values import tensors_of

#: of one rank; installed by its session
CURRENT: list[Computes] = []

#: operators that only make room, or ask for a number
_FREE = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
    "_local_scalar_dense", "item", "_unsafe_view", "resize_", "set_", "lift_fresh", "is_pinned",
    "_has_compatible_shallow_copy_type", "record_stream",
}  # fmt: skip

#: operators that write their first argument, and do not read it
_OVERWRITE = {
    "copy_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_", "random_", "exponential_",
}  # fmt: skip

#: read or write some rows of an argument: their bytes are those of the rows, twice
_SOME_ROWS = {"embedding", "gather", "index", "index_select", "take_along_dim"}
_INTO_ROWS = {
    "index_put_", "_index_put_impl_", "index_add_", "index_copy_", "scatter_", "scatter_add_",
    "masked_scatter_",
}  # fmt: skip

#: name of the rule of operators that a compiler joins
_FUSABLE = "moved"

#: kinds of memory-bound operators whose accesses are not in order
_PERMUTE = _SOME_ROWS | _INTO_ROWS | {
    "argsort", "embedding_dense_backward", "index_add", "index_copy", "index_put", "scatter",
    "masked_scatter", "scatter_add", "sort", "topk", "masked_select", "nonzero",
} - {"embedding"}  # fmt: skip


@dataclass
class ComputeEntry:
    """What one stream computed in succession; `operators` are lists of an operator's values."""

    before: int
    stream: int
    phase: str
    layer: str
    step: int
    operators: list[list[Any]]


class Computes:
    """Collects what one rank computes.

    Parameters
    ----------
    session
        Its recording: how many calls there are, and where the program is.
    """

    def __init__(self, session: Any) -> None:
        self.session = session
        self.entries: list[ComputeEntry] = []
        self.waits: list[dict[str, Any]] = []
        self._rules: dict[Any, Callable[..., None] | None] = {}
        #: what is being executed: stream, phase, layer -> kind and size -> sums
        self._open: dict[tuple[int, str, str], dict[Any, list[Any]]] = {}
        self._awaited: dict[tuple[int, int], tuple[int, ...]] = {}
        self._fusion = Fusion(lambda moved: self.add_moved("elementwise", moved))
        CURRENT[:] = [self]

    def note(self, func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        """An operator was executed."""
        if self.session.phase == "setup":
            return
        try:
            rule = self._rules[func]
        except KeyError:
            rule = self._rules[func] = _rule_of(func)
        if rule is None:
            return
        args = (*args, list(kwargs.values())) if "out" in kwargs else args
        if self._fusion.applies(self.session.where()) and rule.__name__ == _FUSABLE:
            self._fusion.note(tensors_of(args), tensors_of(result))
            return
        self._fusion.use(args)
        rule(self, args, result)

    def note_call(self, inputs: object) -> None:
        """A call comes, which reads its inputs."""
        self._fusion.use(inputs)
        self.close()

    def add(
        self, kind: str, dtype: str, flops: int, moved_bytes: int, number: int = 1, kernels: int = 1
    ) -> list[Any]:
        """So many operators, whose FLOPs and bytes are given all together; sums of their kind."""
        session = self.session
        where = (session.stream, session.where(), session.blocks[-1])
        sizes = self._open.get(where)
        if sizes is None:
            sizes = self._open[where] = {}
        size = (kind, dtype, flops // number, moved_bytes // number) if flops else kind
        sums = sizes.get(size)
        if sums is None:
            sums = sizes[size] = [kind, dtype, number, kernels, flops, moved_bytes]
            return sums
        sums[2] += number
        sums[3] += kernels
        sums[4] += flops
        sums[5] += moved_bytes
        return sums

    def add_moved(self, kind: str, moved_bytes: int) -> list[Any]:
        """A kernel whose time is set by the bytes that it moves; sums of its kind."""
        if not moved_bytes:
            return []
        kind = "optimizer" if self.session.phase == "optimizer" else kind
        return self.add(kind, "", 0, moved_bytes)

    def end_fusion(self) -> None:
        """A kernel comes, which may read whatever the kernel before has made."""
        self._fusion.end(is_read=True)

    def close(self) -> None:
        """A call, a step or a place that streams are ordered by: what comes later is apart."""
        self._fusion.end()
        calls, step = len(self.session.calls), self.session.step
        for (stream, phase, layer), operators in self._open.items():
            rows = list(operators.values())
            self.entries.append(ComputeEntry(calls, stream, phase, layer, step, rows))
        self._open.clear()

    def place(self, stream: int) -> tuple[int, int, int]:
        """A place on a stream: its number, and how many calls and entries there are."""
        self.close()
        return stream, len(self.session.calls), len(self.entries)

    def wait(self, stream: int, until: tuple[int, int, int]) -> None:
        """What `stream` is given from now on begins after what another was given until then."""
        pair = (stream, until[0])
        if stream == until[0] or self._awaited.get(pair) == until:
            return
        self._awaited[pair] = until
        self.waits.append({"at": self.place(stream), "until": until})


def note_kernel(
    kind: str, dtype: torch.dtype, flops: int, moved_bytes: int, number: int = 1, kernels: int = 1
) -> None:
    """A kernel that is not there would have been executed.

    Parameters
    ----------
    kind
        As the roofline calls it; see ``lightloom.trace.computes.Operator``.
    dtype
        Of what is multiplied.
    flops, moved_bytes
        Of all operators together; no FLOPs where the time is set by the bytes.
    number, kernels
        Operators, and kernels that they are launched as.
    """
    for computes in CURRENT:
        if computes.session.phase != "setup":
            computes.end_fusion()
            if flops:
                computes.add(kind, _name(dtype), flops, moved_bytes, number, kernels)
            else:
                computes.add_moved(kind, moved_bytes)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _rule_of(func: Any) -> Callable[..., None] | None:
    """How an operator is noted; None if it costs nothing."""
    name = func._schema.name.split("::")[1]
    if func.is_view or name in _FREE:
        return None
    if name in _PRODUCTS:
        return _PRODUCTS[name]
    if "attention" in name:
        return _attention(func, name.endswith("_backward"))
    kind = "permute" if name in _PERMUTE else "elementwise"
    kind = "cross_entropy" if ("softmax" in name and "log" in name) or "nll_loss" in name else kind
    if name in _SOME_ROWS:
        return _some_rows(kind)
    if name in _INTO_ROWS:
        return _into_rows(kind)
    return _moved(func, kind, name in _OVERWRITE)


def _moved(func: Any, kind: str, overwrites: bool) -> Callable[..., None]:
    """Everything that goes in and comes out; of what is changed in place, both."""
    written = [
        place
        for place, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    silent = written if not func._schema.returns else []

    def moved(computes: Computes, args: Any, result: Any) -> None:
        size = sum(map(_bytes, tensors_of(result)))
        for place, value in enumerate(args):
            if isinstance(value, torch.Tensor):
                if not (overwrites and place == 0):
                    size += value.numel() * value.element_size()
            elif isinstance(value, (list, tuple)):
                size += sum(map(_bytes, tensors_of(value)))
        for place in silent:
            if place < len(args):
                size += sum(map(_bytes, tensors_of(args[place])))
        computes.add_moved(kind, size)

    return moved


def _some_rows(kind: str) -> Callable[..., None]:
    def rule(computes: Computes, args: Any, result: Any) -> None:
        indices = sum(map(_bytes, tensors_of(args[1:])))
        computes.add_moved(kind, indices + 2 * _bytes(result))

    return rule


def _into_rows(kind: str) -> Callable[..., None]:
    def rule(computes: Computes, args: Any, result: Any) -> None:
        sizes = sorted(map(_bytes, tensors_of(args[1:])))
        computes.add_moved(kind, sum(sizes) + (sizes[-1] if sizes else 0))

    return rule


def _product(computes: Computes, sizes: tuple[int, int, int, int], tensors: Any) -> None:
    """A batch of products of m x k and k x n matrices, which move their tensors once."""
    batch, m, k, n = sizes
    moved = sum(map(_bytes, tensors))
    computes.add("matmul", _name(tensors[0].dtype), 2 * batch * m * k * n, moved)


def _mm(computes: Computes, args: Any, result: Any) -> None:
    left, right = args[:2]
    _product(computes, (1, *left.shape, right.shape[1]), (left, right, result))


def _addmm(computes: Computes, args: Any, result: Any) -> None:
    added, left, right = args[:3]
    _product(computes, (1, *left.shape, right.shape[1]), (left, right, added, result))


def _bmm(computes: Computes, args: Any, result: Any) -> None:
    left, right = args[:2]
    _product(computes, (*left.shape, right.shape[2]), (left, right, result))


def _baddbmm(computes: Computes, args: Any, result: Any) -> None:
    _, left, right = args[:3]
    _product(computes, (*left.shape, right.shape[2]), (left, right, result))


def _mv(computes: Computes, args: Any, result: Any) -> None:
    matrix, vector = args[-2:]
    _product(computes, (1, *matrix.shape, 1), (matrix, vector, result))


def _dot(computes: Computes, args: Any, result: Any) -> None:
    computes.add_moved("elementwise", _bytes(args[0]) + _bytes(args[1]))


def _grouped_mm(computes: Computes, args: Any, result: Any) -> None:
    """One product per group: rows of the left matrix are divided among groups, or its columns."""
    left, right = args[:2]
    groups = right.shape[0] if right.dim() == 3 else (result.shape[0] if result.dim() == 3 else 1)
    groups = left.shape[0] if left.dim() == 3 else groups
    per_group = left.shape[0] if left.dim() == 3 and right.dim() == 3 else 1
    flops = 2 * per_group * left.shape[-2] * left.shape[-1] * right.shape[-1]
    moved = _bytes(left) + _bytes(right) + _bytes(result)
    kind = "grouped_matmul" if right.dim() == 3 else "grouped_matmul_wgrad"
    computes.add(kind, _name(left.dtype), flops, moved, max(1, groups))


def _convolution(computes: Computes, args: Any, result: Any) -> None:
    weight = args[1]
    flops = 2 * result.numel() * weight.numel() // max(1, weight.shape[0])
    moved = _bytes(args[0]) + _bytes(weight) + _bytes(result)
    computes.add("matmul", _name(weight.dtype), flops, moved)


def _convolution_backward(computes: Computes, args: Any, result: Any) -> None:
    gradient, features, weight = args[:3]
    flops = 2 * gradient.numel() * weight.numel() // max(1, weight.shape[0])
    moved = _bytes(gradient) + _bytes(features) + _bytes(weight)
    wanted = len([part for part in result[:2] if part is not None])
    computes.add("matmul", _name(weight.dtype), flops * wanted, moved * wanted, wanted, wanted)


_PRODUCTS: dict[str, Callable[..., None]] = {
    "_grouped_mm": _grouped_mm,
    "_scaled_grouped_mm": _grouped_mm,
    "_scaled_mm": _mm,
    "addmm": _addmm,
    "addmv": _mv,
    "baddbmm": _baddbmm,
    "bmm": _bmm,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "dot": _dot,
    "mm": _mm,
    "mv": _mv,
}


def attention_flops(
    queries: tuple[int, ...], keys: tuple[int, ...], value_width: int, causal: bool
) -> int:
    """FLOPs of scores and of their product with the values.

    Parameters
    ----------
    queries, keys
        Shapes: batch, heads, tokens, width.
    value_width
        Width of values.
    causal
        Half of the scores are computed.
    """
    batch, heads, tokens, width = queries
    return 2 * batch * heads * tokens * keys[2] * (width + value_width) // (2 if causal else 1)


def note_attention(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, causal: bool, backward: bool
) -> None:
    """Attention in one kernel, of tensors of batch, heads, tokens and width.

    The backward pass has 2.5 times the FLOPs of the forward one, as it computes scores again.
    """
    flops = attention_flops(queries.shape, keys.shape, values.shape[-1], causal)
    moved = 2 * _bytes(queries) + _bytes(keys) + _bytes(values)
    direction, kernels = ("backward", 3) if backward else ("forward", 1)
    latent = "latent_" if queries.shape[-1] != values.shape[-1] else ""
    if backward:
        flops, moved = flops * 5 // 2, 2 * moved
    note_kernel(f"attention_{latent}{direction}", queries.dtype, flops, moved, 1, kernels)


def _attention(func: Any, backward: bool) -> Callable[..., None]:
    """Attention of PyTorch: its operators have tokens before heads where they are not of SDPA."""
    names = [argument.name for argument in func._schema.arguments]
    place = names.index("is_causal") if "is_causal" in names else len(names)
    in_order = "scaled_dot_product" in func._schema.name

    def rule(computes: Computes, args: Any, result: Any) -> None:
        causal = len(args) > place and bool(args[place])
        tensors = args[1:4] if backward else args[:3]
        if not in_order:
            tensors = [tensor.transpose(-2, -3) for tensor in tensors]
        if tensors[0].dim() == 3:  # sequences of one batch, one after the other
            tensors = [tensor[None] for tensor in tensors]
        note_attention(*tensors, causal, backward)

    return rule
