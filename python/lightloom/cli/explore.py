"""``lightloom explore``: a page to look through the rows of a sweep, or of any table."""

from __future__ import annotations

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, checked_outputs, json_output, write_each
from lightloom.cli.terminal import results_console
from lightloom.inputs.strict import File, Strict

EXAMPLES = (
    "lightloom explore results --html explore.html",
    "lightloom explore results --open",
    "lightloom explore rows.parquet --html explore.html",
)
NOTES = (
    "Without a page the best points are printed. The page is one file: axes, colors, facets,"
    " filters, a Pareto front, a heat map, parallel coordinates; a click says a point's command."
)


class ExploreOptions(Strict):
    """What is looked through."""

    results: File = Field(description="Folder of a sweep, or a table (Parquet, CSV).")


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(
            Panel("Arguments", (option(ExploreOptions, "results", "RESULTS", common=True),)),
            Panel(
                "Output",
                (
                    option(Outputs, "html", common=True, below="output"),
                    option(Outputs, "open", common=True, below="output"),
                    json_output(),
                ),
            ),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(call: CommandCall) -> None:
    from lightloom.output.sweep_results import SweepResults
    from lightloom.report.explored import explored, explored_sweep
    from lightloom.report.page_explore import write_explore_page
    from lightloom.report.sweep_table import print_sweep

    outputs = checked_outputs(call).with_page()
    path = call.build(ExploreOptions).results
    results = SweepResults.read(path) if path.is_dir() else None
    data = explored(path) if results is None else explored_sweep(results)
    if not outputs.on_stdout:
        if results is not None and results.manifest:
            print_sweep(results, results_console())
        else:
            outputs.say(f"{path}: {len(data.rows):,} rows of {len(data.rows.columns)} columns")
    columns = {name: str(kind) for name, kind in data.rows.schema.items()}
    outputs.write_json({"rows": len(data.rows), "columns": columns, "inputs": data.inputs})
    if (html := outputs.html) is not None:
        write_each({str(html): lambda: write_explore_page(data, html)})
    outputs.show_page()
