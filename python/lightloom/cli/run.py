"""``lightloom run``: an experiment from one strict TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lightloom.cli.show import run_and_report
from lightloom.study.scenario import load_study


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(name="run", epilog="Example: lightloom run examples/study.toml --html report.html")(
        run
    )


def run(
    study: Annotated[Path, typer.Argument(help="A study, see examples/study.toml.")],
    html: Annotated[Path | None, typer.Option("--html", help="A page with plots.")] = None,
    json: Annotated[str | None, typer.Option("--json", help="Results; - is stdout.")] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="A row per run, as they end.")] = None,
    parquet: Annotated[Path | None, typer.Option("--parquet", help="The same rows.")] = None,
    trace: Annotated[Path | None, typer.Option("--trace", help="A Perfetto timeline.")] = None,
) -> None:
    """Run the comparison that a TOML file describes."""
    run_and_report(
        load_study(study), html=html, json_path=json, csv=csv, parquet=parquet, trace=trace
    )
