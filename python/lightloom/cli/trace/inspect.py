"""``lightloom trace inspect``: what a trace holds, whoever recorded it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_output
from lightloom.errors import InputError
from lightloom.inputs.strict import File, Strict, Whole

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = (
    "lightloom trace inspect trace.json.gz",
    "lightloom trace inspect chakra_traces --json volumes.json",
    "lightloom trace inspect profiles --step 12 --html profile.html",
    "lightloom trace inspect workload.txt",
)
NOTES = (
    "What it is, is told by its content: a trace of lightloom trace record, Chakra execution "
    "traces (schema 0.0.4, a folder, an archive or a file), profiles (Kineto) and execution traces "
    "of PyTorch (a file or a folder with one per rank), a layer table of SimAI, or a routing log. "
    "Shown are volumes by group, the largest calls, skew, and the order of calls; where times were "
    "recorded, what of communication is exposed, and bandwidths; --step shows one step alone, by "
    "the number that a profile gives it. Ranks that were recorded together are checked: what "
    "one sends, another expects."
)


class InspectOptions(Strict):
    """Which trace is shown."""

    trace: File = Field(description="A file or a folder, which lightloom or another tool wrote.")
    step: Annotated[Whole, Field(ge=0)] | None = Field(
        None, description="Index of the training step."
    )


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(
            Panel(
                "Arguments",
                (
                    option(InspectOptions, "trace", "TRACE", common=True),
                    option(InspectOptions, "step", common=True),
                ),
            ),
            Panel("Output", (json_output(), option(Outputs, "html", common=True, below="output"))),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(call: CommandCall) -> None:
    from lightloom.cli.terminal import remarks_console, results_console
    from lightloom.output.files import write_json, write_text
    from lightloom.output.progress import TerminalMonitor
    from lightloom.report.page_trace import trace_page
    from lightloom.report.trace_details import print_details
    from lightloom.report.trace_table import print_trace
    from lightloom.report.trace_times import print_times
    from lightloom.trace.importers.open import Form, form_of, read_any
    from lightloom.trace.summary import imported_as_json

    outputs = call.take(Outputs, "output")
    options = call.build(InspectOptions)
    outputs.check(vars(options))
    console = remarks_console() if outputs.on_stdout else results_console()
    if form_of(options.trace) is Form.ROUTING:
        _inspect_log(options, outputs, console)
        return
    with TerminalMonitor(remarks_console(), lambda _: None, patience_s=1.0) as monitor:
        imported = read_any(options.trace, monitor.progress)
    if options.step is not None:
        imported = imported.at_step(options.step)
    for line in imported.remarks:
        remarks_console().print(line, highlight=False, markup=False, soft_wrap=True)
    console.print(imported.form, highlight=False, markup=False)
    print_trace(imported.trace, console)
    print_times(imported, console)
    print_details(imported.trace, console)
    if outputs.json_target is not None:
        write_json(imported_as_json(imported), outputs.json_target)
    if outputs.html is not None:
        write_text(trace_page(imported), outputs.html)


def _inspect_log(options: InspectOptions, outputs: Outputs, console: Console) -> None:
    from dataclasses import asdict

    from lightloom.demand import read_routing_log
    from lightloom.output.files import write_json
    from lightloom.report.routing_table import print_loads
    from lightloom.trace.importers.routing import layer_loads

    if outputs.html is not None or options.step is not None:
        raise InputError(
            f"{options.trace}: is a routing log, which has neither --html nor --step here; "
            "lightloom demand draws what ranks send each other"
        )
    log = read_routing_log(options.trace)
    loads = layer_loads(log)
    print_loads(log, loads, console)
    if outputs.json_target is not None:
        layers = [asdict(load) for load in loads]
        write_json({"form": "routing log", "log": log.form, "layers": layers}, outputs.json_target)
