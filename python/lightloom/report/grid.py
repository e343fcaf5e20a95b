"""A table that is printed in a terminal and shown on a page alike."""

from __future__ import annotations

from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Grid:
    """A table, for the terminal and for a page.

    ``best`` is the row that is marked, -1 for none; a header is its words and its unit.
    """

    title: str
    headers: list[tuple[str, str]]
    rows: list[list[str]]
    best: int
    caption: str


def as_rich(grid: Grid) -> Table:
    """The table as rich prints it."""
    # Headers and titles are Text: rich would take the [s] of a unit for a style.
    table = Table(
        title=Text(grid.title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 0, 0, 1),
        caption=Text(grid.caption, style="dim"),
        caption_justify="left",
    )
    for number, (words, unit) in enumerate(grid.headers):
        header = f"{words}\n[{unit}]" if unit else words
        table.add_column(
            Text(f"  {header}" if number == 0 else header, style="bold"),
            justify="right" if number else "left",
            no_wrap=True,
            vertical="bottom",
        )
    for number, (name, *cells) in enumerate(grid.rows):
        best = number == grid.best
        marked = Text(f"{'*' if best else ' '} {name}")
        table.add_row(marked, *cells, style="bold green" if best else "")
    return table
