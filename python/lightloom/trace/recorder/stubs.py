"""Packages that need a GPU to be installed, replaced by the shapes that they return.

Only packages that are absent are replaced, and only the names that are here: asking for another one
is the ImportError that the program expects. Which of them a program imported is in its trace.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

#: what was imported of this file
USED: list[str] = []


class _LayerNorm(torch.autograd.Function):
    """The fused layer norm of Apex; differentiated as that of PyTorch is."""

    @staticmethod
    def forward(
        ctx: Any, data: Any, weight: Any, bias: Any, shape: Any, eps: float, *_: Any
    ) -> Any:
        raise NotImplementedError

    @classmethod
    def apply(cls, data: Any, weight: Any, bias: Any, shape: Any, eps: float, *_: Any) -> Any:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return torch.nn.functional.layer_norm(data, shape, weight, bias, eps)


class _RMSNorm(torch.autograd.Function):
    """The fused RMS norm of Apex; differentiated as that of PyTorch is."""

    @staticmethod
    def forward(ctx: Any, data: Any, weight: Any, shape: Any, eps: float, *_: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def apply(cls, data: Any, weight: Any, shape: Any, eps: float, *_: Any) -> Any:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return torch.nn.functional.rms_norm(data, shape, weight, eps)


#: module -> its names
MODULES: dict[str, dict[str, Any]] = {
    "apex": {},
    "apex.normalization": {},
    "apex.normalization.fused_layer_norm": {
        "FusedLayerNormAffineFunction": _LayerNorm,
        "FusedRMSNormAffineFunction": _RMSNorm,
    },
}


def _without_transformer_engine(module: Any) -> None:
    """Without Transformer Engine a name is missing that is asked whether it is None."""
    if not hasattr(module, "te_general_gemm"):
        module.te_general_gemm = None
        USED.append(f"{module.__name__}.te_general_gemm")


#: module -> what is done once it is imported
AFTER: dict[str, Callable[[Any], None]] = {
    "megatron.core.transformer.moe.moe_utils": _without_transformer_engine,
}


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of this file; asks nobody else for them."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name in MODULES:
            return importlib.machinery.ModuleSpec(name, _Stub(), is_package=True)
        if name in AFTER:
            sys.meta_path.remove(self)
            try:
                spec = importlib.util.find_spec(name)
            finally:
                sys.meta_path.insert(0, self)
            if spec is not None and spec.loader is not None:
                spec.loader = _Followed(spec.loader, AFTER[name])
            return spec
        return None


class _Stub(importlib.abc.Loader):
    def create_module(self, spec: Any) -> Any:
        return types.ModuleType(spec.name)

    def exec_module(self, module: Any) -> None:
        USED.append(module.__name__)
        module.__dict__.update(MODULES[module.__name__])


class _Followed(importlib.abc.Loader):
    """Loads as another loader does, and repairs what it made."""

    def __init__(self, loader: Any, after: Callable[[Any], None]) -> None:
        self.loader, self.after = loader, after

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.loader.exec_module(module)
        self.after(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


def install_stubs() -> None:
    """Let absent packages be imported."""
    for name in [name for name in MODULES if "." not in name]:
        if importlib.util.find_spec(name) is not None:
            for one in [one for one in MODULES if one.split(".")[0] == name]:
                del MODULES[one]
    sys.meta_path.insert(0, _Finder())
