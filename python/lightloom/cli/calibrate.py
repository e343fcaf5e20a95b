"""``lightloom calibrate``: measure the operators of this machine's GPU for ``--profile``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.cli.terminal import remarks_console
from lightloom.hardware.gpus import gpu_names
from lightloom.inputs.fields import Choices
from lightloom.inputs.strict import File, Name, Strict, Whole

EXAMPLES = (
    "lightloom calibrate gpu --gpu h100 --write-profile h100.toml",
    "lightloom calibrate gpu --gpu b200 --write-profile b200.toml --repeats 9",
    "lightloom calibrate gpu --gpu h200 --write-profile h200.toml --json h200.json",
)


class CalibrateOptions(Strict):
    """What is measured, and where the profile goes."""

    target: Literal["gpu"] = Field(
        description="What is measured: the matrix products, grouped products, attention, "
        "permutation and copies of the GPU of this machine."
    )
    gpu: Annotated[Name, Choices(gpu_names)] = Field(
        description="Type of the GPUs: {choices}, or a TOML file of one."
    )
    write_profile: File = Field(
        description="Write the profile, a TOML file that --profile of other commands reads."
    )
    repeats: Annotated[Whole, Field(le=1000)] = Field(
        5, description="Measurements of each operation, of which the median counts."
    )


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(
            Panel(
                "Arguments",
                (
                    option(CalibrateOptions, "target", "TARGET", common=True),
                    option(CalibrateOptions, "gpu", common=True),
                    option(CalibrateOptions, "write_profile", common=True),
                    option(CalibrateOptions, "repeats", common=True),
                ),
            ),
            json_panel(),
        ),
        run=_run,
        examples=EXAMPLES,
    )


def _run(call: CommandCall) -> None:
    from lightloom.hardware import load_gpu
    from lightloom.output.files import check_all_writable, write_text
    from lightloom.study.calibration.measure import measure, profile_text
    from lightloom.study.calibration.torch_device import open_device

    outputs = call.take(Outputs, "output")
    outputs.check(call.tables.get("gpu"))
    options = call.build(CalibrateOptions)
    gpu = load_gpu(options.gpu)
    check_all_writable([options.write_profile, *outputs.files()])
    device = open_device()
    console = remarks_console()
    points = measure(device, gpu, options.repeats, console.print)
    date = datetime.now(tz=UTC).strftime("%Y-%m-%d")
    write_text(profile_text(points, device.title, gpu, date), options.write_profile)
    operators = {
        name: [{"flops": flops, "efficiency": efficiency} for flops, efficiency in sizes]
        for name, sizes in points.items()
    }
    outputs.write_json(
        {"gpu": gpu.name, "device": device.title, "date": date, "operators": operators}
    )
    console.print(f"written: {options.write_profile}")
