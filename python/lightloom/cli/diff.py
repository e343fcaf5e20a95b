"""``lightloom diff``: what moved between two results, and by how much."""

from __future__ import annotations

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import checked_outputs, json_panel
from lightloom.cli.terminal import terminal
from lightloom.inputs.strict import File, Strict

EXAMPLES = (
    "lightloom diff before.json after.json",
    "lightloom diff before.json.gz after.json.gz --json -",
    "lightloom diff monday.json friday.json --json moved.json",
)
NOTES = (
    "Both are what one command has written with --json: compare, run, sweep, map, goodput, advise,"
    " price and others. Inputs that differ are named first, then what moved, the most first."
)


class DiffOptions(Strict):
    """Two results."""

    before: File = Field(description="Results (JSON) to compare with.")
    after: File = Field(description="Results (JSON) of the same command.")


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(
            Panel(
                "Arguments",
                (
                    option(DiffOptions, "before", "BEFORE", common=True),
                    option(DiffOptions, "after", "AFTER", common=True),
                ),
            ),
            json_panel(),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(call: CommandCall) -> None:
    from lightloom.report.difference_table import print_difference
    from lightloom.study.difference import read_difference

    outputs = checked_outputs(call)
    options = call.build(DiffOptions)
    difference = read_difference(options.before, options.after)
    outputs.print_and_write(
        lambda console: print_difference(difference, console, details=terminal().verbose),
        difference.to_json,
    )
