"""A table that is printed in a terminal and shown on a page alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightloom.report.terminal import plain_table, print_table
from lightloom.units import show_column

#: a value over its bound that is proved to be the bound
OPTIMAL = "optimal"


@dataclass(frozen=True)
class Grid:
    """A table, for the terminal and for a page; its cells are texts and numbers.

    The numbers of a column are shown with the same decimals, percentages with three digits.
    ``best`` is the row that is marked, -1 for none; a header is its words and its unit. In columns
    whose words are in ``less_is_better``, a page marks the best values, and those of ``marked``:
    rows and columns.
    """

    title: str
    headers: list[tuple[str, str]]
    rows: Sequence[Sequence[str | float]]
    best: int
    caption: str
    less_is_better: tuple[str, ...] = ()
    marked: frozenset[tuple[int, int]] = frozenset()

    @property
    def texts(self) -> list[list[str]]:
        """The rows as they are shown."""
        columns: list[list[str]] = []
        for (_, unit), cells in zip(self.headers, zip(*self.rows, strict=True), strict=False):
            numbers = show_column(
                [None if isinstance(cell, str) else cell for cell in cells],
                3 if unit.startswith("%") else 4,
            )
            columns.append(
                [
                    cell if isinstance(cell, str) else number
                    for cell, number in zip(cells, numbers, strict=True)
                ]
            )
        return [list(row) for row in zip(*columns, strict=True)]

    def best_cells(self) -> set[tuple[int, int]]:
        """Rows and columns that are marked, and of the least values where less is better."""
        cells = set(self.marked)
        rows = self.texts
        for column, (words, _) in enumerate(self.headers):
            if words.replace("-\n", "").replace("\n", " ") not in self.less_is_better:
                continue
            values = [_number(row[column]) for row in rows]
            distinct = {value for value in values if value is not None}
            # where all are equal none is better
            if len(distinct) > 1:
                cells |= {(row, column) for row, v in enumerate(values) if v == min(distinct)}
        return cells


def _number(text: str) -> float | None:
    if text == OPTIMAL:
        return 1.0
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def as_rich(grid: Grid) -> Table:
    """The table as rich prints it."""
    headers = [f"{words}\n[{unit}]" if unit else words for words, unit in grid.headers]
    headers[0] = f"  {headers[0]}"
    table = plain_table(grid.title, headers, caption=grid.caption)
    for number, (name, *cells) in enumerate(grid.texts):
        best = number == grid.best
        marked = Text(f"{'*' if best else ' '} {name}")
        table.add_row(marked, *cells, style="bold green" if best else "")
    return table


def print_rows(
    grid: Grid, console: Console, *, left: Collection[str] = (), best: Collection[int] = ()
) -> None:
    """Print the table with no row marked but by its color.

    Parameters
    ----------
    grid, console
        What is printed, and where.
    left
        Words of the columns after the first that have names rather than numbers.
    best
        Rows that are better than others.
    """
    headers = [f"{words}\n[{unit}]" if unit else words for words, unit in grid.headers]
    table = plain_table(grid.title, headers, caption=grid.caption, left=left)
    for number, row in enumerate(grid.texts):
        table.add_row(*row, style="bold green" if number in best else "")
    print_table(table, console)
