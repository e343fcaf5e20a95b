"""What ``torch.compile`` makes of operators: kernels that read and write once.

Nothing is compiled in a trace; functions run as they are, and what runs inside one that the program
would compile is noted as compiled. Element-wise operators and reductions that follow each other
become one kernel: it reads what comes from outside, once, and writes what is used outside. Products
and attention stay kernels of their own. A backward pass counts as compiled where most operators of
the forward passes before it were. Choices of the compiler (what is computed again in the backward
pass, reductions that do not fit one kernel) are left out.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .values import tensors_of


def compile_nothing(model: Any = None, *_: object, **__: object) -> Any:
    """Stands in for ``torch.compile``: runs what it is given, noted as compiled."""
    if model is None:
        return compile_nothing
    if isinstance(model, torch.nn.Module):
        model.register_forward_pre_hook(lambda *_: _enter())
        model.register_forward_hook(lambda *_: _leave(), always_call=True)
        return model

    @functools.wraps(model)
    def run(*args: object, **kwargs: object) -> Any:
        with region():
            return model(*args, **kwargs)

    return run


@contextlib.contextmanager
def region() -> Iterator[None]:
    """What runs inside is compiled."""
    _enter()
    try:
        yield
    finally:
        _leave()


def is_compiled() -> bool:
    """Whether what runs now is inside of what the program compiles."""
    return _DEPTH[0] > 0


#: nested regions of the program, each with what ends when the outermost one does
_DEPTH = [0]
_AT_END: list[Callable[[], None]] = []


def _enter() -> None:
    _DEPTH[0] += 1


def _leave() -> None:
    _DEPTH[0] -= 1
    if not _DEPTH[0]:
        for end in _AT_END:
            end()


class Fusion:
    """Element-wise operators in succession, as the kernel that they become.

    Parameters
    ----------
    add
        Is given the bytes that a kernel moves; returns what is noted of it, to add more to.
    """

    def __init__(self, add: Callable[[int], list[Any]]) -> None:
        self._add = add
        #: storages that the open kernel has read, and those that it made: used inside or not
        self._read: dict[int, object] = {}
        self._made: dict[int, tuple[object, int, bool]] = {}
        #: storages that stayed inside their kernel, as far as is known, and where that is noted
        self._inner: dict[int, tuple[object, int, list[Any]]] = {}
        self._moved = 0
        #: operators of forward passes, compiled or not
        self._counts = [0, 0]
        _AT_END[:] = [self.end]

    def applies(self, phase: str) -> bool:
        """Whether what is executed in a phase is compiled."""
        inside = is_compiled()
        if phase == "forward":
            self._counts[inside] += 1
            return inside
        return inside or (phase == "backward" and self._counts[1] > self._counts[0])

    def note(self, read: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        """An operator joins the open kernel, or begins one."""
        for tensor in read:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in self._made:
                kept, size, _ = self._made[key]
                self._made[key] = (kept, size, True)
            elif key not in self._read:
                self._read[key] = storage
                self._moved += _bytes(tensor)
                self._write_late(key)
        for tensor in made:
            storage = tensor.untyped_storage()
            self._made[storage._cdata] = (storage, _bytes(tensor), False)

    def use(self, values: object) -> None:
        """What is no part of kernels reads these: what kernels made of them has to be written."""
        if not (self._made or self._inner or self._moved):
            return
        for tensor in tensors_of(values):
            key = tensor.untyped_storage()._cdata
            if key in self._made:
                storage, size, _ = self._made[key]
                self._made[key] = (storage, size, False)
            self._write_late(key)
        self.end()

    def end(self, is_read: bool = False) -> None:
        """The open kernel ends: what nothing inside used is written, or all that it made.

        Parameters
        ----------
        is_read
            Whether what it made may be read by what comes next.
        """
        inner = {
            key: (storage, size)
            for key, (storage, size, inside) in self._made.items()
            if inside and not is_read
        }
        moved = self._moved + sum(
            size for key, (_, size, _) in self._made.items() if key not in inner
        )
        row = self._add(moved) if moved else []
        self._inner |= {key: (storage, size, row) for key, (storage, size) in inner.items()}
        self._moved = 0
        self._read.clear()
        self._made.clear()

    def _write_late(self, key: int) -> None:
        """What an earlier kernel made is written by it after all, if one did."""
        _, size, row = self._inner.pop(key, (None, 0, []))
        if row:
            row[_MOVED] += size
        elif size:
            self._add(size)


#: place of the bytes in what is noted of a kernel
_MOVED = 5


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
