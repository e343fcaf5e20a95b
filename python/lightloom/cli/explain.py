"""``lightloom explain``: where milliseconds between fabrics or results went; a page of results."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, checked_outputs, json_output, write_each
from lightloom.cli.terminal import results_console, terminal
from lightloom.errors import InputError
from lightloom.inputs.strict import File, Name, Strict

EXAMPLES = (
    "lightloom explain results.json fat-tree mixnet",
    "lightloom explain results.json rail topoopt",
    "lightloom explain results.json mixnet mixnet-4",
    "lightloom explain before.json after.json.gz mixnet",
    "lightloom explain results.json --html report.html",
)
NOTES = (
    "Write results.json with: lightloom compare ... --json results.json. Its page is that of "
    "compare --html without timelines and circuits, which files do not have."
)


class ExplainOptions(Strict):
    """Results and two of their fabrics."""

    results: File = Field(description="Results that 'lightloom compare --json' has written.")
    first: Name | None = Field(
        None, description="A fabric in the results, or other results; none for a page of them."
    )
    second: Name | None = Field(
        None, description="The fabric that it is compared with; of two results, one in both."
    )


def command() -> Command:
    """Describe the command."""
    names = {"results": "RESULTS", "first": "FIRST", "second": "SECOND"}
    options = tuple(option(ExplainOptions, name, flag, common=True) for name, flag in names.items())
    page = option(Outputs, "html", "--html", common=True, below="output")
    panels = (Panel("Arguments", options), Panel("Output", (json_output(), page)))
    return Command(panels=panels, run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    from lightloom.report.explain import (
        explanation_as_json,
        files_as_json,
        print_explanation,
        print_files,
    )

    outputs = checked_outputs(call)
    options = call.build(ExplainOptions)
    if options.first is None or outputs.html is not None:
        _page(options, outputs)
    elif _is_file(options.first):
        paths = (options.results, Path(options.first))
        outputs.print_and_write(
            lambda console: print_files(paths, options.second, console),
            lambda: files_as_json(paths),
        )
    elif options.second is None:
        raise InputError(
            f"SECOND is missing: the fabric that {options.first} is compared with; for example: "
            f"{EXAMPLES[0]}"
        )
    else:
        pair = options.first, options.second
        outputs.print_and_write(
            lambda console: print_explanation(options.results, *pair, console),
            lambda: explanation_as_json(options.results, *pair),
        )


def _page(options: ExplainOptions, outputs: Outputs) -> None:
    """Print what was compared and its verdict, and write the page."""
    from lightloom.report.explain import read_comparison
    from lightloom.report.page import write_page
    from lightloom.report.table import print_comparison

    if outputs.html is None:
        raise InputError(
            "FIRST is missing: a fabric in the results or other results; for example: "
            f"{EXAMPLES[0]}; or --html PATH for a page of the results"
        )
    if options.first is not None or outputs.json_target is not None:
        raise InputError("--html is a page of RESULTS alone: leave out FIRST, SECOND and --json")
    comparison = read_comparison(options.results)
    print_comparison(comparison, results_console(), details=terminal().verbose)
    page = outputs.html
    write_each({str(page): lambda: write_page(comparison, page)})


def _is_file(name: str) -> bool:
    """Whether a name is that of results rather than of a fabric."""
    return name.endswith((".json", ".json.gz")) or Path(name).is_file()
