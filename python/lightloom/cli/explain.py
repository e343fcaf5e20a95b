"""``lightloom explain``: where the milliseconds between two fabrics, or two results, went."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from lightloom.cli.options import Command, Given, Panel, option
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.cli.terminal import results_console
from lightloom.errors import InputError
from lightloom.inputs.strict import File, Name, Strict

EXAMPLES = (
    "lightloom explain results.json fat-tree mixnet",
    "lightloom explain results.json rail topoopt",
    "lightloom explain results.json mixnet mixnet-4",
    "lightloom explain before.json after.json.gz mixnet",
)
NOTES = "Write results.json with: lightloom compare ... --json results.json"


class ExplainOptions(Strict):
    """Results and two of their fabrics."""

    results: File = Field(description="Results that 'lightloom compare --json' has written.")
    first: Name = Field(description="A fabric in the results, or other results.")
    second: Name | None = Field(
        None, description="The fabric that it is compared with; of two results, one in both."
    )


def command() -> Command:
    """Describe the command."""
    names = {"results": "RESULTS", "first": "FIRST", "second": "SECOND"}
    options = tuple(option(ExplainOptions, name, flag, common=True) for name, flag in names.items())
    panels = (Panel("Arguments", options), json_panel())
    return Command(panels=panels, run=_run, examples=EXAMPLES, notes=NOTES)


def _run(given: Given) -> None:
    from lightloom.output.files import write_json
    from lightloom.report.explain import (
        explanation_as_json,
        files_as_json,
        print_explanation,
        print_files,
    )

    outputs = given.take(Outputs, "output")
    outputs.check(given.tables)
    target = outputs.json_target
    options = given.build(ExplainOptions)
    console = results_console()
    if _is_file(options.first):
        paths = (options.results, Path(options.first))
        if target is not None:
            write_json(files_as_json(paths), target)
        if not outputs.on_stdout:
            print_files(paths, options.second, console)
    elif options.second is None:
        raise InputError(
            f"SECOND is missing: the fabric that {options.first} is compared with; for example: "
            f"{EXAMPLES[0]}"
        )
    else:
        pair = options.first, options.second
        if target is not None:
            write_json(explanation_as_json(options.results, *pair), target)
        if not outputs.on_stdout:
            print_explanation(options.results, *pair, console)


def _is_file(name: str) -> bool:
    """Whether a name is that of results rather than of a fabric."""
    return name.endswith((".json", ".json.gz")) or Path(name).is_file()
