"""``lightloom testbed train``: train a small GPT with experts over circuits of a testbed."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import json_panel
from lightloom.cli.testbed.options import TestbedFolder, folder_option, outputs_and_options
from lightloom.inputs.strict import Name

if TYPE_CHECKING:
    from lightloom.testbed.training import TrainedStep

EXAMPLES = (
    "lightloom testbed train",
    "lightloom testbed train --steps 20 --policy packets",
    "lightloom testbed train --python ~/torch/bin/python --json -",
)
NOTES = (
    "A testbed must be up (lightloom testbed up). Each rank is a process with PyTorch in its "
    "server; tokens go to experts over circuits that the region's controller changes, and over the "
    "packet switch. The losses are the same under every policy, to the bit."
)


class TrainOptions(TestbedFolder):
    """What is trained, and how."""

    steps: Annotated[int, Field(strict=True, ge=1, le=100_000)] = Field(
        8, description="Number of training steps; the demand drifts from step to step."
    )
    policy: Literal["break-even", "never", "packets"] = Field(
        "break-even",
        description="What circuits do: break-even (the controller decides at each all-to-all), "
        "never (they stay as they are) or packets (they carry nothing).",
    )
    python: Name | None = Field(
        None, description="A Python with PyTorch; by default the one that runs lightloom."
    )


def command() -> Command:
    """Describe the command."""
    names = ("steps", "policy", "python")
    options = tuple(option(TrainOptions, name, common=True) for name in names)
    panel = Panel("Training", (*options, folder_option(TrainOptions)))
    return Command(panels=(panel, json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    from dataclasses import asdict

    from lightloom.testbed import Testbed
    from lightloom.testbed.training import default_python, train

    outputs, options = outputs_and_options(call, TrainOptions)
    steps = train(
        Testbed.open(options.folder),
        steps=options.steps,
        policy=options.policy,
        python=options.python or default_python(),
        say=lambda step: outputs.say(_line(step)),
        warn=lambda text: warnings.warn(text, stacklevel=2),
    )
    outputs.write_json({"policy": options.policy, "steps": [asdict(step) for step in steps]})


def _line(step: TrainedStep) -> str:
    return (
        f"step {step.step}: loss {step.loss:.6f}, {step.step_time_s:.3f} s; all-to-alls "
        f"{step.all_to_all_s:.3f} s over {step.circuits} circuits, {step.exposed_s:.3f} s exposed"
    )
