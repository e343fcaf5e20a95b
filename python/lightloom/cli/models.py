"""``lightloom models``: the catalog, or one model's parameters by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import checked_outputs, json_panel
from lightloom.inputs.strict import Name, Strict

if TYPE_CHECKING:
    from rich.console import Console

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
        panels=(
            Panel("Arguments", (option(ModelsOptions, "model", "MODEL", common=True),)),
            json_panel(),
        ),
        run=_run,
        examples=EXAMPLES,
    )


def _run(call: CommandCall) -> None:
    from lightloom.models import catalog
    from lightloom.report.models_table import model_as_json, print_catalog, print_model
    from lightloom.workload.programs.known import load_layers

    outputs = checked_outputs(call)
    model = call.build(ModelsOptions).model
    models = catalog() if model is None else {model: load_layers(model)}

    def show(console: Console) -> None:
        if model is None:
            print_catalog(console, models)
        else:
            print_model(console, models[model])

    outputs.print_and_write(
        show, lambda: {"models": [model_as_json(shape) for shape in models.values()]}
    )
