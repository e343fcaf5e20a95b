"""Tables of a single result."""

from __future__ import annotations

from rich.console import Console

from lightloom.report.grid import Grid, as_rich
from lightloom.report.terminal import print_table
from lightloom.schedule.results import Result


def print_result(result: Result, console: Console) -> None:
    """Print the tables of a result one below the other."""
    for table in result.tables():
        headers = [(words, "") for words in table.headers]
        rows = [list(row) for row in table.rows]
        print_table(as_rich(Grid(table.title, headers, rows, -1, table.caption)), console)
