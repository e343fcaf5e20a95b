"""``lightloom calibrate network``: links from what other tools measured, for ``--profile``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.errors import InputError
from lightloom.hardware.gpus import gpu_names
from lightloom.inputs.fields import Choices
from lightloom.inputs.strict import File, Name, Strict, Whole, quantity

if TYPE_CHECKING:
    from pathlib import Path

    from lightloom.study.calibration.network.fit import Machines
    from lightloom.study.calibration.network.readings import Reading

EXAMPLES = (
    "lightloom calibrate network alltoall_perf.txt --rate 400 --write-profile ours.toml",
    "lightloom calibrate network in.txt,between.txt --gpu h200 --rate 400 --write-profile o.toml",
    "lightloom calibrate network deepep.log --gpus 32 --gpu h800 --rate 400 --write-profile o.toml",
    "lightloom calibrate network profiles/ --gpu h100 --rate 400 --write-profile ours.toml",
)
NOTES = (
    "Read are tables of NCCL's and RCCL's tests (all_reduce, all_gather, reduce_scatter, alltoall "
    "and sendrecv; text or -J), best bandwidths of DeepEP's tests, and steps of PyTorch's profiler "
    "(the shortest call of each size). What else a profile has stays: one of calibrate gpu may get "
    "links. A comparison with it prints steps with packaged links beside its own."
)


class NetworkOptions(Strict):
    """What was measured, where, and where the profile goes."""

    measurements: tuple[File, ...] = Field(
        min_length=1,
        description="What NCCL's or DeepEP's tests printed, or steps of PyTorch's profiler.",
    )
    gpu: Annotated[Name, Choices(gpu_names)] | None = Field(
        None, description="Type of the GPUs: {choices}, or a TOML file of one."
    )
    rate_gbps: Annotated[float, quantity("gigabit / second"), Field(gt=0, le=1e5)] | None = Field(
        None, description="Rate of one NIC and link, per direction."
    )
    gpus: Annotated[Whole, Field(le=1_000_000)] | None = Field(
        None, description="Number of GPUs of the job."
    )
    gpus_per_server: Annotated[Whole, Field(le=1024)] | None = Field(
        None,
        description="GPUs that share NVLink, in a server or a rack; by default as the GPU comes: 72"
        " of gb200 and gb300, 8 of others.",
    )
    nics_per_server: Annotated[Whole, Field(le=1024)] | None = Field(
        None, description="NICs of a server; by default as the GPU comes, one for each GPU."
    )
    write_profile: File = Field(
        description="Write the profile, a TOML file that --profile of other commands reads."
    )


def command() -> Command:
    """Describe the command."""
    names = (*("gpu", "rate_gbps", "gpus", "gpus_per_server", "nics_per_server", "write_profile"),)
    return Command(
        panels=(
            Panel(
                "Arguments",
                (
                    option(NetworkOptions, "measurements", "FILES", common=True),
                    *(option(NetworkOptions, name, common=True) for name in names),
                ),
            ),
            json_panel(),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(call: CommandCall) -> None:
    from lightloom.cli.terminal import results_console
    from lightloom.fabric.interconnect import Interconnect
    from lightloom.hardware import load_gpu
    from lightloom.output.files import check_all_writable, write_text
    from lightloom.report.links_table import links_as_json, print_links
    from lightloom.study.calibration.network.fit import fit_links
    from lightloom.study.calibration.network.profile import existing_profile, with_links

    outputs = call.take(Outputs, "output")
    outputs.check(call.tables.get("measurements"))
    options = call.build(NetworkOptions)
    check_all_writable([options.write_profile, *outputs.files()])
    existing = existing_profile(options.write_profile)
    name = options.gpu or _gpu_of(options.measurements)
    readings = _readings(options, name)
    machines = _machines(options, name, readings)
    gpu = load_gpu(machines.gpu)
    fitted = fit_links(readings, machines, Interconnect.named("measured", gpu.like or gpu.name))
    if not outputs.on_stdout:
        print_links(fitted, results_console())
    date = datetime.now(tz=UTC).strftime("%Y-%m-%d")
    write_text(with_links(existing, fitted, readings, date), options.write_profile)
    outputs.write_json({"gpu": machines.gpu, "date": date, **links_as_json(fitted)})
    if not outputs.on_stdout:
        results_console().print(f"written: {options.write_profile}", markup=False, soft_wrap=True)


def _readings(options: NetworkOptions, name: str | None) -> list[Reading]:
    from lightloom.cli.terminal import remarks_console
    from lightloom.hardware import load_gpu
    from lightloom.output.progress import TerminalMonitor
    from lightloom.study.calibration.network.read import readings_of
    from lightloom.study.calibration.network.readings import Given

    given = Given(options.gpus, options.gpus_per_server)
    per_server = 8 if name is None else load_gpu(name).gpus_per_server
    with TerminalMonitor(remarks_console(), lambda _: None, patience_s=1.0) as monitor:
        return [
            reading
            for path in options.measurements
            for reading in readings_of(path, given, per_server, monitor.progress)
        ]


def _machines(options: NetworkOptions, name: str | None, readings: list[Reading]) -> Machines:
    """The servers of a GPU by name."""
    from lightloom.hardware import load_gpu
    from lightloom.study.calibration.network.fit import Machines

    if name is None:
        raise InputError(
            "--gpu is missing: the files name no GPU that is known; one of "
            f"{', '.join(gpu_names())}"
        )
    if options.rate_gbps is None and any(r.servers.tier == "between servers" for r in readings):
        raise InputError("--rate is missing: add the rate of a NIC, such as --rate 400")
    gpu = load_gpu(name)
    size = options.gpus_per_server or gpu.gpus_per_server
    nics = options.nics_per_server or -(-size * gpu.nics_per_server // gpu.gpus_per_server)
    return Machines(name, options.rate_gbps or 400.0, size, nics)


def _gpu_of(paths: tuple[Path, ...]) -> str | None:
    """The GPU of the catalog that all files are of, by what they call it."""
    from lightloom.study.calibration.network.read import gpus_named

    gpus = set()
    for called in {called for path in paths for called in gpus_named(path)}:
        words = called.lower().replace("-", " ").split()
        gpus |= {name for name in gpu_names() if name in words}
    return gpus.pop() if len(gpus) == 1 else None
