"""``lightloom testbed train``: train a small GPT with experts over circuits of a testbed."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_output
from lightloom.cli.testbed.options import (
    PYTHON,
    STEPS,
    Steps,
    TestbedFolder,
    folder_option,
    outputs_and_options,
)
from lightloom.inputs.strict import Name

if TYPE_CHECKING:
    from lightloom.testbed.training import TrainedStep

EXAMPLES = (
    "lightloom testbed train",
    "lightloom testbed train --steps 20 --policy packets",
    "lightloom testbed train --timeline run.json.gz",
    "lightloom testbed train --python ~/torch/bin/python --json -",
)
NOTES = (
    "A testbed must be up (lightloom testbed up). Each rank is a process with PyTorch in its "
    "server; tokens go to experts over circuits that the region's controller changes, and over the "
    "packet switch. The losses are the same under every policy, to the bit."
)


class TrainOptions(TestbedFolder):
    """What is trained, and how."""

    steps: Steps = Field(8, description=STEPS)
    policy: Literal["break-even", "never", "packets"] = Field(
        "break-even",
        description="What circuits do: break-even (the controller decides at each all-to-all), "
        "never (they stay as they are) or packets (they carry nothing).",
    )
    python: Name | None = Field(None, description=PYTHON)


def command() -> Command:
    """Describe the command."""
    names = ("steps", "policy", "python")
    options = tuple(option(TrainOptions, name, common=True) for name in names)
    panel = Panel("Training", (*options, folder_option(TrainOptions)))
    timeline = option(Outputs, "timeline", common=True, below="output")
    output = Panel("Output", (json_output(), timeline))
    return Command(panels=(panel, output), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    from dataclasses import asdict

    from lightloom.cli.outputs import write_each
    from lightloom.report.training_timeline import write_training_timeline
    from lightloom.testbed import Testbed
    from lightloom.testbed.training import default_python, train

    outputs, options = outputs_and_options(call, TrainOptions)
    steps = train(
        Testbed.open(options.folder),
        steps=options.steps,
        policy=options.policy,
        python=options.python or default_python(),
        say=lambda step: outputs.say(step_line(step)),
        warn=lambda text: warnings.warn(text, stacklevel=2),
    )
    outputs.write_json({"policy": options.policy, "steps": [asdict(step) for step in steps]})
    if (path := outputs.timeline) is not None:
        name = f"testbed, {options.policy}"
        write_each({str(path): lambda: write_training_timeline(steps, path, name=name)})


def step_line(step: TrainedStep) -> str:
    """What is said of a step when it has ended."""
    return (
        f"step {step.step}: loss {step.loss:.6f}, {step.step_time_s:.3f} s; all-to-alls "
        f"{step.all_to_all_s:.3f} s, {step.demand_bytes / 1e6:.3g} MB between servers; "
        f"{step.circuits} circuits, {step.exposed_s:.3f} s exposed"
    )
