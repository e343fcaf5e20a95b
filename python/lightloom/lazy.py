"""Packages that import what they export on its first use.

The command line has to describe its options before it does any work. A package whose ``__init__``
imports all of its modules would make that wait for numpy, scipy and every model of the package,
even for one that has nothing but fields. Such a package writes its exports as usual, but below
``if TYPE_CHECKING:``, where type checkers see them, and imports them by :func:`exports`.
"""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def exports(package: str, path: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports its exports on first use.

    Parameters
    ----------
    package, path
        ``__name__`` and ``__file__`` of the package.
    """
    modules: dict[str, str] = {}

    def get(name: str) -> Any:
        if not modules:
            modules.update(_modules(path))
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


def _modules(path: str) -> dict[str, str]:
    """The module of each name that a file imports below ``if TYPE_CHECKING:``."""
    import ast
    from pathlib import Path

    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    return {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }
