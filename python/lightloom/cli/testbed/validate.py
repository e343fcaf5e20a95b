"""``lightloom testbed validate``: does a step take as long as the simulator says?"""

from __future__ import annotations

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import checked_outputs, json_panel
from lightloom.cli.testbed.options import PYTHON, Rate, SizeOptions, Steps, size_options
from lightloom.inputs.strict import Name

EXAMPLES = (
    "lightloom testbed validate",
    "lightloom testbed validate --repeats 9 --rate 100M",
    "lightloom testbed validate --python ~/torch/bin/python --json -",
)
NOTES = (
    "Makes testbeds of its own and removes them; one that is up is left alone. A job with a given "
    "demand, in which computation is a wait of given length, runs over packets alone, over "
    "circuits that stay, and over circuits that follow the demand; the simulator gets the same "
    "demand, rates and delays. The status is 1 if a step differs by more than 10 %, an all-to-all "
    "by more than 15 %, or policies come in another order."
)


class ValidateOptions(SizeOptions):
    """A testbed, and a job on it."""

    rate_gbps: Rate = Field(0.05, description=SizeOptions.model_fields["rate_gbps"].description)
    settle_time: Name = Field(
        "20ms", description=SizeOptions.model_fields["settle_time"].description
    )
    repeats: Steps = Field(5, description="Measurements, of which the median counts.")
    python: Name | None = Field(None, description=PYTHON)


def command() -> Command:
    """Describe the command."""
    job = (option(ValidateOptions, name, common=True) for name in ("repeats", "python"))
    panel = Panel("Testbed", (*size_options(ValidateOptions), *job))
    return Command(panels=(panel, json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    from dataclasses import asdict

    import typer

    from lightloom.cli.testbed.train import step_line
    from lightloom.report.grid import print_rows
    from lightloom.report.validation_table import validation_grid
    from lightloom.testbed.replay import ReplayJob
    from lightloom.testbed.training import default_python
    from lightloom.testbed.validation import same_order, validate

    outputs = checked_outputs(call)
    options = call.build(ValidateOptions)
    job = ReplayJob.drawn(
        options.servers, rate_gbps=options.rate_gbps, steps=options.repeats, seed=options.seed
    )
    validated = validate(
        options.sizes(),
        job,
        python=options.python or default_python(),
        say=lambda policy, step: outputs.say(f"{policy}: {step_line(step)}"),
    )
    results = list(validated)
    is_ordered = same_order(results)
    outputs.print_and_write(
        lambda console: print_rows(validation_grid(results), console),
        lambda: {
            "job": asdict(job),
            "policies": [asdict(result) for result in results],
            "same_order": is_ordered,
        },
    )
    order = "the same" if is_ordered else "not the same"
    outputs.say(f"Policies come in {order} order on the testbed and in the simulator.")
    if not (is_ordered and all(result.is_met for result in results)):
        raise typer.Exit(1)
