"""``lightloom models``: the catalog, or one model's parameters by part."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from lightloom.models import catalog, load_model
from lightloom.report.models_table import print_catalog, print_model


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("models")(models)


def models(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|PATH]",
            help="A name of the catalog, or a config.json: its parameters by part.",
        ),
    ] = None,
) -> None:
    """List the models known by name, or show one model's shape, parameters and sources."""
    console = Console(highlight=False)
    if model is None:
        print_catalog(console, catalog())
    else:
        print_model(console, load_model(model))
