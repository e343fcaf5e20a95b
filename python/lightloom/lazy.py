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


def exports(package: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports its exports on first use.

    Parameters
    ----------
    package
        Its ``__name__``.
    """
    modules: dict[str, str] = {}

    def get(name: str) -> Any:
        if not modules:
            modules.update(_modules(package))
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


def _modules(package: str) -> dict[str, str]:
    """The module of each name that a package imports, also below ``if TYPE_CHECKING:``.

    They are read off the compiled code, which is there without the source, too.
    """
    import dis

    spec = sys.modules[package].__spec__
    modules, module = {}, ""
    for step in dis.get_instructions(spec.loader.get_code(package)):  # type: ignore[union-attr]
        if step.opname == "IMPORT_NAME":
            module = step.argval
        elif step.opname == "IMPORT_FROM":
            modules[step.argval] = module
    return modules
