"""Packages that import what they export on its first use.

The command line has to describe its options before it does any work. A package whose ``__init__``
imports all of its modules would make that wait for numpy, scipy and every model of the package,
even for one that has nothing but fields. Such a package has a ``__getattr__`` (PEP 562) with a
table of where its exports are; type checkers see them imported below ``if TYPE_CHECKING:``.
"""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any


def exports(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports its exports on first use.

    Parameters
    ----------
    package
        Its ``__name__``.
    names
        What it exports, by the module below the package that has it.
    """
    module_of = {name: module for module, exported in names.items() for name in exported}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
