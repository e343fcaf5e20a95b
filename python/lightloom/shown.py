"""Results print and draw themselves, and know nothing of tables and drawings.

A result is a record. What it looks like is said above it, by the one module that the package names
with :func:`shown_by`; that is imported when the first result is shown.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Protocol, cast

    from rich.console import Console

    from lightloom.report.figure import Figure

    class Views(Protocol):
        """How results look."""

        def show(self, result: object, console: Console | None, **options: bool) -> None:
            """Print a result."""

        def html(self, result: Shown) -> str:
            """Return what a result prints, for a notebook."""

        def draw(self, result: object, *more: Any) -> Figure:
            """Draw a result."""


_modules: list[str] = []


def shown_by(module: str) -> None:
    """Name the module that has the functions of ``Views``."""
    _modules[:] = [module]


def views() -> Views:
    """Return how results look."""
    module = importlib.import_module(_modules[0])
    return cast("Views", module) if TYPE_CHECKING else module


class Shown:
    """A result that prints itself, and that a notebook shows."""

    def print(self, console: Console | None = None) -> None:
        """Print the tables, to the terminal by default."""
        views().show(self, console)

    def _repr_html_(self) -> str:
        return views().html(self)
