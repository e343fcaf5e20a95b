"""Tables of a single result."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from lightloom.report.grid import Grid, as_rich
from lightloom.schedule.results import ResultTable


def print_tables(tables: Sequence[ResultTable], console: Console) -> None:
    """Print tables one below the other."""
    for table in tables:
        # not those of the grid, which are as narrow as it
        console.print(Text(table.title, style="bold"))
        headers = [(words, "") for words in table.headers]
        console.print(as_rich(Grid("", headers, [list(row) for row in table.rows], -1, "")))
        if table.caption:
            console.print(Text(table.caption, style="dim"))
