"""Packages that need a GPU to be installed, replaced by the shapes that they return.

Only packages that are absent are replaced, and only the names that are here: asking for another one
is the ImportError that the program expects. Which of them a program imported is in its trace.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from typing import Any

import torch

from . import transformer_engine
from .values import is_known, tensors_of

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
    **transformer_engine.MODULES,
}


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of this file; asks nobody else for them."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name in MODULES:
            return importlib.machinery.ModuleSpec(name, _Stub(), is_package=True)
        return None


class _Stub(importlib.abc.Loader):
    def create_module(self, spec: Any) -> Any:
        return types.ModuleType(spec.name)

    def exec_module(self, module: Any) -> None:
        if "." not in module.__name__:
            USED.append(module.__name__)
        module.__dict__.update(MODULES[module.__name__])
        for name in MODULES:  # packages import their parts
            if name.rpartition(".")[0] == module.__name__:
                importlib.import_module(name)


def replace_kernels(real: bool) -> None:
    """Let kernels of Triton, which GPUs run, be interpreted where their numbers are known.

    Others are left out: what they would write keeps its shape. A real run interprets all.
    """
    if importlib.util.find_spec("triton") is None:
        return
    os.environ["TRITON_INTERPRET"] = "1"
    from triton.runtime.jit import KernelInterface

    launch = KernelInterface.__getitem__

    def chosen(kernel: Any, grid: Any) -> Any:
        launched = launch(kernel, grid)
        while hasattr(kernel, "fn"):
            kernel = kernel.fn
        name = f"kernel {kernel.__module__}.{kernel.__name__}"

        def replaced(*args: Any, **kwargs: Any) -> Any:
            if name not in USED:
                USED.append(name)
            all_known = all(map(is_known, tensors_of([args, kwargs])))
            return launched(*args, **kwargs) if real or all_known else None

        return replaced

    KernelInterface.__getitem__ = chosen


def install_stubs() -> None:
    """Let absent packages be imported."""
    for name in [name for name in MODULES if "." not in name]:
        if importlib.util.find_spec(name) is not None:
            for module in [module for module in MODULES if module.split(".")[0] == name]:
                del MODULES[module]
    sys.meta_path.insert(0, _Finder())
