"""``lightloom models``: the catalog, or one model's parameters by part."""

from __future__ import annotations

from pydantic import Field

from lightloom.cli.options import Command, Given, Panel, option
from lightloom.cli.terminal import results_console
from lightloom.inputs.strict import Name, Strict

EXAMPLES = (
    "lightloom models",
    "lightloom models deepseek-v3",
    "lightloom models path/to/config.json",
)


class ModelsOptions(Strict):
    """Which model is shown."""

    model: Name | None = Field(
        None, description="A name of the list, or the path of a config.json; all by default."
    )


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(Panel("Arguments", (option(ModelsOptions, "model", "MODEL", common=True),)),),
        run=_run,
        examples=EXAMPLES,
    )


def _run(given: Given) -> None:
    from lightloom.models import catalog, load_model
    from lightloom.report.models_table import print_catalog, print_model

    model = given.build(ModelsOptions).model
    console = results_console()
    if model is None:
        print_catalog(console, catalog())
    else:
        print_model(console, load_model(model))
