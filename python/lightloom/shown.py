"""Results print and draw themselves, and know nothing of tables and drawings.

A result is a record. What it looks like is said above it, by the one module that the package names
with :func:`shown_by`; that is imported when the first result is shown.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Protocol, cast

    import polars
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

        def page(self, result: object) -> str:
            """Return the page of a result."""

        def as_polars(self, rows: list[dict[str, object]]) -> polars.DataFrame:
            """Return rows as a table of polars."""

        def as_pandas(self, rows: list[dict[str, object]]) -> Any:
            """Return rows as a table of pandas."""


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


class ShownRows(Shown):
    """A result of rows, which other tables, drawings and pages are made of."""

    def rows(self) -> list[dict[str, Any]]:
        """Return one dictionary per row, all with the same keys."""
        raise NotImplementedError

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a table of polars.

        Raises
        ------
        MissingPackageError
            If polars is not installed.
        """
        return views().as_polars(self.rows())

    def to_pandas(self) -> Any:
        """Return the rows as a table of pandas.

        Raises
        ------
        MissingPackageError
            If pandas is not installed.
        """
        return views().as_pandas(self.rows())

    def plot(self) -> Figure:
        """Draw it."""
        return views().draw(self)

    def to_html(self) -> str:
        """Return a page of one file."""
        return views().page(self)
