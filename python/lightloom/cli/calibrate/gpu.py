"""``lightloom calibrate gpu``: measure the operators of this machine's GPU for ``--profile``."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.cli.terminal import remarks_console
from lightloom.hardware.gpus import gpu_names
from lightloom.inputs.fields import Choices
from lightloom.inputs.strict import File, Name, Strict, Whole

if TYPE_CHECKING:
    from lightloom.study.calibration.measure import Rows
    from lightloom.study.calibration.operations import Operation

EXAMPLES = (
    "lightloom calibrate gpu --gpu h100 --write-profile h100.toml",
    "lightloom calibrate gpu --gpu b200 --write-profile b200.toml --model qwen3-30b-a3b",
    "lightloom calibrate gpu --gpu h200 --write-profile h200.toml --json h200.json",
)


class GpuOptions(Strict):
    """What is measured, and where the profile goes."""

    gpu: Annotated[Name, Choices(gpu_names)] = Field(
        description="Type of the GPUs: {choices}, or a TOML file of one."
    )
    write_profile: File = Field(
        description="Write the profile, a TOML file that --profile of other commands reads."
    )
    model: Name | None = Field(None, description="A name of 'lightloom models', or a config.json.")
    repeats: Annotated[Whole, Field(le=1000)] = Field(
        5, description="Measurements, of which the median counts."
    )


def command() -> Command:
    """Describe the command."""
    names = ("gpu", "write_profile", "model", "repeats")
    return Command(
        panels=(
            Panel(
                "Arguments",
                tuple(option(GpuOptions, name, common=True) for name in names),
            ),
            json_panel(),
        ),
        run=_run,
        examples=EXAMPLES,
        notes="Measured are products as training runs them, forward and for both gradients, those "
        "of experts and in FP8, attention, permutations, strided kernels, launches, and a few "
        "whole layers. Rows are kept beside the profile as they are measured "
        "(PROFILE.rows.csv): started again, the command goes on. Links of the profile stay. "
        "Operators of --model are measured where it is given.",
    )


def _run(call: CommandCall) -> None:
    from lightloom.hardware import load_gpu
    from lightloom.models import load_model
    from lightloom.output.files import check_all_writable, write_text
    from lightloom.study.calibration import layers, torch_device
    from lightloom.study.calibration.measure import (
        condense,
        line_of,
        measure,
        profile_text,
        sustained_ratio,
    )
    from lightloom.study.calibration.network.profile import existing_profile, kept_links
    from lightloom.study.calibration.operations import TriedShapes, operations
    from lightloom.study.calibration.rows import keep_row, read_rows

    outputs = call.take(Outputs, "output")
    outputs.check(call.tables.get("gpu"))
    options = call.build(GpuOptions)
    gpu = load_gpu(options.gpu)
    shapes = TriedShapes() if options.model is None else TriedShapes.of(load_model(options.model))
    kept = Path(f"{options.write_profile}.rows.csv")
    check_all_writable([options.write_profile, kept, *outputs.files()])
    links = kept_links(existing_profile(options.write_profile), str(options.write_profile))
    device = torch_device.open_device()
    console = remarks_console()
    measured = read_rows(kept, device.title)
    wanted = list(operations(shapes, "fp8" in gpu.formats))

    def report(operation: Operation, seconds: float) -> None:
        keep_row(kept, device.title, operation, seconds)
        console.print(line_of(operation, seconds))

    rows = measure(device, wanted, options.repeats, measured, report)
    condensed = condense(wanted, rows, gpu)
    profile = replace(condensed, launches=device.launches(), sustained=sustained_ratio(device))
    date = datetime.now(tz=UTC).strftime("%Y-%m-%d")
    write_text(profile_text(profile, device.title, gpu, date) + links, options.write_profile)
    for what, remark in device.remarks.items():
        console.print(f"{what}: {remark}; the faster way is in the profile")
    tried = layers.try_layers(
        device, options.gpu, options.write_profile, options.model, console.print
    )
    outputs.write_json(
        {
            "gpu": gpu.name,
            "device": device.title,
            "date": date,
            "operators": _points(rows, wanted),
            "layers": [
                {
                    "model": layer.model,
                    "tokens": layer.tokens,
                    "predicted_s": layer.predicted_s,
                    "measured_s": layer.measured_s,
                }
                for layer in tried
            ],
        }
    )
    if any(abs(layer.error) > layers.GOOD for layer in tried):
        console.print(f"a layer is off by more than {layers.GOOD:.0%}: say so with the result")
    console.print(f"written: {options.write_profile}")


def _points(rows: Rows, wanted: list[Operation]) -> dict[str, list[dict[str, object]]]:
    """Seconds of every shape, by operator."""
    found: dict[str, list[dict[str, object]]] = {}
    for operation in wanted:
        seconds = rows[operation.operator, operation.shape]
        row: dict[str, object] = {"shape": list(operation.shape), "time_s": seconds}
        found.setdefault(operation.operator, []).append(row)
    return found
