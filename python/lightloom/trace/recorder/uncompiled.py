"""PyTorch's compiler, which a trace does without, and whose import takes as long as all others.

PyTorch imports it for a line or two: optimizers and data parallelism ask it to leave code alone.
A module stands in for it that does so. Whoever asks for more is given the compiler itself.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from pathlib import Path
from typing import Any

import torch

NAME = "torch._dynamo"


def leave_compiler_out(note: Path) -> None:
    """Put a module in the place of the compiler, unless that is there already.

    Parameters
    ----------
    note
        A file that is made once a program needs the compiler itself.
    """
    if NAME not in sys.modules:
        sys.modules[NAME] = vars(torch)["_dynamo"] = stand_in = _StandIn(note)
        sys.meta_path.insert(0, _Parts(stand_in))


def bring_compiler() -> None:
    """Import the compiler, if a program has needed it."""
    module = sys.modules[NAME]
    if isinstance(module, _StandIn) and module.note.exists():
        module.compiler()


class _StandIn(types.ModuleType):
    """What is asked of the compiler where nothing is compiled."""

    def __init__(self, note: Path) -> None:
        super().__init__(NAME)
        self.__spec__ = importlib.machinery.ModuleSpec(NAME, None)
        self.__path__: list[str] = []
        self.note = note
        self.disable = _leave
        self.graph_break = _nothing
        self.trace_rules = types.SimpleNamespace(clear_lru_cache=_nothing)
        self.utils = types.SimpleNamespace(get_optimize_ddp_mode=lambda: "ddp_optimizer")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # whoever looks at all modules
            raise AttributeError(name)
        return getattr(self.compiler(), name)

    def compiler(self) -> types.ModuleType:
        """The compiler itself."""
        if sys.modules.get(NAME) is self:
            self.note.touch()
            del sys.modules[NAME]
            vars(torch).pop("_dynamo", None)
        return importlib.import_module(NAME)


class _Parts(importlib.abc.MetaPathFinder):
    """Finds parts of the compiler where the stand-in has none: those of the compiler itself."""

    def __init__(self, stand_in: _StandIn) -> None:
        self._stand_in = stand_in

    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        if not name.startswith(f"{NAME}.") or path is not self._stand_in.__path__:
            return None
        compiler = self._stand_in.compiler()
        if name in sys.modules:
            return importlib.machinery.ModuleSpec(name, _Kept(sys.modules[name]))
        return importlib.machinery.PathFinder.find_spec(name, compiler.__path__)


class _Kept(importlib.abc.Loader):
    """Loads a module that is there."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: object) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec


def _leave(function: object = None, *_: object, **__: object) -> object:
    """A function as it is, or what leaves one so."""
    return (lambda given: given) if function is None else function


def _nothing(*_: object, **__: object) -> None:
    """Nothing has to be done."""
