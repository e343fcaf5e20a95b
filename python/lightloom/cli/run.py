"""``lightloom run``: an experiment from one strict TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lightloom.cli.outputs import Outputs
from lightloom.cli.show import run_and_report
from lightloom.study.compare.scenario import load_study

EXAMPLE = "lightloom run examples/study.toml --html report.html"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(name="run", epilog=f"Example\n\n{EXAMPLE}")(run)


def run(
    study: Annotated[
        Path,
        typer.Argument(help="A study, such as examples/study.toml; its paths are relative to it."),
    ],
    html: Annotated[Path | None, typer.Option("--html", help="A page with plots.")] = None,
    json: Annotated[
        str | None, typer.Option("--json", metavar="PATH|-", help="Results; - is stdout.")
    ] = None,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="PATH|-", help="A row per run, as they end.")
    ] = None,
    parquet: Annotated[Path | None, typer.Option("--parquet", help="The same rows.")] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="A Perfetto timeline: GPUs and circuits.")
    ] = None,
) -> None:
    """Run the comparison that a TOML file describes."""
    outputs = Outputs(html=html, json=json, csv=csv, parquet=parquet, trace=trace)
    outputs.check()
    run_and_report(load_study(study), outputs)
