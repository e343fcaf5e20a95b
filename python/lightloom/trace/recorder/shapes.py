"""What operators return for tensors without data, remembered by the sizes of their arguments.

PyTorch infers many shapes in Python, hundreds of microseconds each, and a step executes the same
operators on the same sizes over and over. Remembered is what depends on sizes alone: operators
that return new tensors, and operators that write into an argument that keeps its size.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch

aten = torch.ops.aten

#: entries, after which all are forgotten: sizes that depend on data are different each time
MAX_KNOWN = 1 << 16

#: tensors of an argument; beyond them a key costs more than it saves
MAX_TENSORS = 16

#: their results share storage with an argument, which their schema does not say
_SHARING = {aten._unsafe_view.default, aten.lift.default}


class Effect(Enum):
    """What an operator does to storage."""

    NEW = "returns new tensors"
    WRITES = "writes into arguments and returns the first, or nothing"
    VIEW = "returns what shares the storage of its first argument"
    OTHER = "shares storage, changes sizes, or returns no tensors"


_REMEMBERED = (Effect.NEW, Effect.WRITES)


class Unknown:
    """That nothing is remembered."""


UNKNOWN = Unknown()

_META = torch.device("meta")


class Shapes:
    """Remembers what operators returned."""

    def __init__(self) -> None:
        self._effects: dict[Any, Effect] = {}
        self._known: dict[Any, Any] = {}

    def is_view(self, func: Any) -> bool:
        """Whether an operator returns what shares the storage of its first argument."""
        return self._effect(func) is Effect.VIEW

    def _effect(self, func: Any) -> Effect:
        effect = self._effects.get(func)
        if effect is None:
            effect = self._effects[func] = _effect_of(func)
        return effect

    def key(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a result is remembered by; None where it cannot be."""
        if self._effect(func) not in _REMEMBERED:
            return None
        parts: list[Any] = [func]
        if not _describe(args, parts) or (kwargs and not _describe(kwargs.values(), parts)):
            return None
        return tuple(parts) + tuple(kwargs)

    def key_of_new(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The key of an operator that returns new tensors; None for others."""
        return self.key(func, args, kwargs) if self._effect(func) is Effect.NEW else None

    def recall(self, key: Any, args: tuple[Any, ...]) -> Any:
        """What the operator returns, or :data:`UNKNOWN`."""
        effect = self._known.get(key)
        if effect is None:
            return UNKNOWN
        kind, shapes = effect
        if kind is Effect.WRITES:
            return args[0] if shapes else None
        tensors = [
            torch.empty_strided(shape, stride, dtype=dtype, device=_META)
            for shape, stride, dtype in shapes
        ]
        return tensors[0] if kind is torch.Tensor else kind(tensors)

    def remember(self, key: Any, result: Any) -> None:
        """Keep what an operator returned, if its tensors have no data."""
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        if self._effects[key[0]] is Effect.WRITES:
            self._known[key] = (Effect.WRITES, result is not None)
        elif isinstance(result, torch.Tensor):
            if _is_plain(result):
                self._known[key] = (torch.Tensor, [_shape(result)])
        elif isinstance(result, (list, tuple)) and result and all(map(_is_plain, result)):
            self._known[key] = (type(result), list(map(_shape, result)))


def _effect_of(func: Any) -> Effect:
    schema = func._schema
    writes = [arg.alias_info is not None and arg.alias_info.is_write for arg in schema.arguments]
    shares = [arg.alias_info is not None for arg in (*schema.arguments, *schema.returns)]
    if func in _SHARING or torch.Tag.inplace_view in func.tags:
        return Effect.OTHER
    if not any(shares):
        return Effect.NEW
    name = schema.name.rpartition("::")[2]
    if any(writes) and name.endswith("_") and not name.startswith(("resize", "set", "as_strided")):
        if not schema.returns:
            return Effect.WRITES
        if len(schema.returns) == 1 and writes[0]:
            return Effect.WRITES
    only_first = shares[0] and not any(shares[1 : len(schema.arguments)])
    return Effect.VIEW if only_first and not any(writes) else Effect.OTHER


def _describe(values: Any, parts: list[Any]) -> bool:
    """Append what a result depends on; False if there are too many tensors."""
    for value in values:
        kind = value.__class__
        if isinstance(value, torch.Tensor):
            parts += (value.shape, value.stride(), value.dtype)
        elif kind is list or kind is tuple:
            if len(value) > MAX_TENSORS:
                return False
            parts.append(len(value))
            if not _describe(value, parts):
                return False
        elif kind is torch.Generator:
            return False
        else:
            parts += (kind, value)
    return True


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor is one without data, of floating-point numbers."""
    return (
        type(tensor) is torch.Tensor
        and tensor.dtype.is_floating_point
        and torch._C.TensorBase.is_meta.__get__(tensor)
    )


def _shape(tensor: torch.Tensor) -> tuple[Any, Any, torch.dtype]:
    return (tensor.shape, tensor.stride(), tensor.dtype)
