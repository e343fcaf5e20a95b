"""``lightloom trace inspect``: what a trace holds."""

from __future__ import annotations

from pydantic import Field

from lightloom.cli.options import Command, Given, Panel, option
from lightloom.cli.outputs import Outputs, json_output
from lightloom.inputs.strict import File, Strict

EXAMPLES = (
    "lightloom trace inspect trace.json",
    "lightloom trace inspect trace.json.gz",
    "lightloom trace inspect trace.json --json volumes.json",
)
NOTES = (
    "Shown are volumes by group, operation and phase, the largest calls, the skew of all-to-alls "
    "and the order of calls. Ranks that were recorded together are checked: what one sends, "
    "another expects."
)


class InspectOptions(Strict):
    """Which trace is shown."""

    trace: File = Field(description="JSON of lightloom trace record, which may be gzipped.")


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(
            Panel("Arguments", (option(InspectOptions, "trace", "TRACE", common=True),)),
            Panel("Output", (json_output(),)),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(given: Given) -> None:
    from lightloom.cli.terminal import remarks_console, results_console
    from lightloom.output.files import write_json
    from lightloom.report.trace_details import print_details
    from lightloom.report.trace_table import print_trace
    from lightloom.trace.summary import summary_as_json
    from lightloom.trace.trace import read_trace

    outputs = given.take(Outputs, "output")
    options = given.build(InspectOptions)
    outputs.check(vars(options))
    trace = read_trace(options.trace)
    console = remarks_console() if outputs.on_stdout else results_console()
    print_trace(trace, console)
    print_details(trace, console)
    if outputs.json_target is not None:
        write_json(summary_as_json(trace), outputs.json_target)
