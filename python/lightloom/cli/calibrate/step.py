"""``lightloom calibrate step``: how far a prediction is from a recorded step, term by term."""

from __future__ import annotations

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.errors import InputError, expected_one_of
from lightloom.inputs.strict import File, Name, Strict

EXAMPLES = (
    "lightloom calibrate step results.json profiles/",
    "lightloom calibrate step results.json rank0.json.gz fat-tree",
    "lightloom calibrate step results.json profiles/ rail --json errors.json",
)
NOTES = (
    "Write results.json with: lightloom compare ... --json results.json, of the job and plan that "
    "were recorded. A profile of one rank will do; of some ranks of each pipeline stage is better."
)


class StepOptions(Strict):
    """Predicted results, and a recorded step."""

    results: File = Field(description="Results that 'lightloom compare --json' has written.")
    recorded: File = Field(
        description="Steps of PyTorch's profiler (Kineto): a file, or a folder with one per rank."
    )
    fabric: Name | None = Field(None, description="A fabric in the results; by default the first.")


def command() -> Command:
    """Describe the command."""
    names = {"results": "RESULTS", "recorded": "STEP", "fabric": "FABRIC"}
    options = tuple(option(StepOptions, name, flag, common=True) for name, flag in names.items())
    return Command(
        panels=(Panel("Arguments", options), json_panel()),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(call: CommandCall) -> None:
    from lightloom.cli.terminal import remarks_console
    from lightloom.output.progress import TerminalMonitor
    from lightloom.report.explain import read_comparison
    from lightloom.report.step_error_table import print_step_error, step_error_as_json
    from lightloom.study.calibration.step_error import model_of_results, step_error
    from lightloom.trace.importers.kineto import read_kineto

    outputs = call.take(Outputs, "output")
    outputs.check(call.tables)
    options = call.build(StepOptions)
    comparison = read_comparison(options.results)
    by_name = {result.fabric: result for result in comparison.results}
    name = options.fabric or next(iter(by_name))
    if name not in by_name:
        raise InputError(f"FABRIC {expected_one_of(name, by_name)}")
    with TerminalMonitor(remarks_console(), lambda _: None, patience_s=1.0) as monitor:
        recorded = read_kineto(options.recorded, monitor.progress)
    error = step_error(
        name, by_name[name].mean_s, by_name[name].plan, recorded,
        model=model_of_results(comparison.inputs),
        recompute=comparison.memory.get("recompute", "none"),
    )  # fmt: skip
    outputs.print_and_write(
        lambda console: print_step_error(error, console), lambda: step_error_as_json(error)
    )
