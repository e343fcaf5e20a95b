"""Tables of a single result."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from lightloom.report.grid import Grid, as_rich
from lightloom.report.terminal import print_table
from lightloom.schedule.results import ResultTable


def print_tables(tables: Sequence[ResultTable], console: Console) -> None:
    """Print tables one below the other."""
    for table in tables:
        headers = [(words, "") for words in table.headers]
        rows = [list(row) for row in table.rows]
        print_table(as_rich(Grid(table.title, headers, rows, -1, table.caption)), console)
