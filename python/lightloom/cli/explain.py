"""``lightloom explain``: where the milliseconds between two fabrics went."""

from __future__ import annotations

from pydantic import Field

from lightloom.cli.options import Command, Given, Panel, option
from lightloom.cli.terminal import results_console
from lightloom.inputs.strict import File, Name, Strict

EXAMPLES = (
    "lightloom explain results.json fat-tree mixnet",
    "lightloom explain results.json rail topoopt",
    "lightloom explain results.json mixnet mixnet-4",
)
NOTES = "Write results.json with: lightloom compare ... --json results.json"


class ExplainOptions(Strict):
    """Results and two of their fabrics."""

    results: File = Field(description="Results that 'lightloom compare --json' has written.")
    first: Name = Field(description="A fabric in the results.")
    second: Name = Field(description="The fabric that it is compared with.")


def command() -> Command:
    """Describe the command."""
    names = {"results": "RESULTS", "first": "FIRST", "second": "SECOND"}
    options = tuple(option(ExplainOptions, name, flag, common=True) for name, flag in names.items())
    return Command(panels=(Panel("Arguments", options),), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(given: Given) -> None:
    from lightloom.report.explain import print_explanation

    options = given.build(ExplainOptions)
    print_explanation(options.results, options.first, options.second, results_console())
