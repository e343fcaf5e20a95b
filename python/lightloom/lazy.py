"""Packages that import what they export on its first use.

The command line has to describe its options before it does any work. A package whose ``__init__``
imports all of its modules would make that wait for numpy, scipy and every model of the package,
even for one that has nothing but fields. Such a package lists its exports once, below ``if
TYPE_CHECKING:``, where type checkers and editors see them: ``from package.module import name as
name``. That block does not run; :func:`export_on_use` reads the names of the compiled block.
"""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any


def export_on_use() -> None:
    """Give the calling package a ``__getattr__`` (PEP 562) that imports its exports.

    It also gets ``__all__`` and a ``__dir__``. A name that the package has already is no export;
    one that begins with ``_`` is not in ``__all__``.
    """
    caller = sys._getframe(1)
    package, namespace = caller.f_globals["__name__"], caller.f_globals
    imported = {
        name for names in caller.f_code.co_consts if isinstance(names, tuple) for name in names
    }
    module_of: dict[str, str] = {}
    module = ""
    for name in caller.f_code.co_names:  # in order of use: a module, then what it has
        if name.startswith(f"{package}."):
            module = name
        elif name in imported and name not in namespace:
            module_of[name] = module

    def get(name: str) -> Any:
        if name not in module_of:
            from lightloom.errors import did_you_mean

            hint = did_you_mean(name, module_of)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        value = getattr(importlib.import_module(module_of[name]), name)
        namespace[name] = value
        return value

    namespace["__getattr__"] = get
    namespace["__dir__"] = lambda: sorted(module_of)
    namespace["__all__"] = sorted(name for name in module_of if not name.startswith("_"))
