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
        Is given the bytes that a kernel moves.
    """

    def __init__(self, add: Callable[[int], None]) -> None:
        self._add = add
        #: storages that the open kernel has read, and those that it made: used inside or not
        self._read: dict[int, object] = {}
        self._made: dict[int, tuple[object, int, bool]] = {}
        #: storages that stayed inside their kernel, as far as is known
        self._inner: dict[int, tuple[object, int]] = {}
        self._moved = 0
        #: operators of forward passes, compiled or not
        self._counts = [0, 0]
        _AT_END[:] = [self.end]

    def applies(self, phase: str) -> bool:
        """Whether what is executed in a phase is compiled."""
        inside = _DEPTH[0] > 0
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
                self._moved += self._written_late(key) + _bytes(tensor)
        for tensor in made:
            storage = tensor.untyped_storage()
            self._made[storage._cdata] = (storage, _bytes(tensor), False)

    def use(self, tensors: list[torch.Tensor]) -> None:
        """Another operator reads these: what the open kernel made of them has to be written."""
        for tensor in tensors:
            key = tensor.untyped_storage()._cdata
            if key in self._made:
                storage, size, _ = self._made[key]
                self._made[key] = (storage, size, False)
            self._moved += self._written_late(key)
        self.end()

    def end(self) -> None:
        """The open kernel ends; what nothing inside used is written."""
        for key, (storage, size, inside) in self._made.items():
            if inside:
                self._inner[key] = (storage, size)
            else:
                self._moved += size
        moved, self._moved = self._moved, 0
        self._read.clear()
        self._made.clear()
        if moved:
            self._add(moved)

    def _written_late(self, key: int) -> int:
        """Bytes of what an earlier kernel made and has to write after all."""
        return self._inner.pop(key, (None, 0))[1]


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
