"""``lightloom explain``: where the milliseconds between two fabrics went."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lightloom.report.explain import print_explanation


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(name="explain", epilog="Example: lightloom explain results.json fat-tree mixnet")(
        explain
    )


def explain(
    results: Annotated[Path, typer.Argument(help="A file of compare --json.")],
    first: Annotated[str, typer.Argument(help="A fabric in it.")],
    second: Annotated[str, typer.Argument(help="Another one.")],
) -> None:
    """Say where the milliseconds between two fabrics went, by their critical paths."""
    print_explanation(results, first, second, Console())
