"""``lightloom explain``: where the milliseconds between two fabrics went."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lightloom.report.explain import print_explanation

EXAMPLE = "lightloom explain results.json fat-tree mixnet"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(name="explain", epilog=f"Example\n\n{EXAMPLE}")(explain)


def explain(
    results: Annotated[Path, typer.Argument(help="A file of compare --json.")],
    first: Annotated[str, typer.Argument(help="A fabric in it.")],
    second: Annotated[str, typer.Argument(help="Another one.")],
) -> None:
    """Say where the milliseconds between two fabrics went, by their critical paths."""
    print_explanation(results, first, second, Console())
