"""``lightloom fabrics``: what can be compared, its options, what it costs, and a drawing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, checked_outputs, json_output, say_written
from lightloom.cli.terminal import remarks_console, results_console
from lightloom.errors import InputError
from lightloom.inputs.strict import File, Name, Strict, Switch, Whole, quantity

if TYPE_CHECKING:
    from lightloom.fabric import Cluster
    from lightloom.fabric.topology import Topology

#: of the servers that are charged
GPUS_PER_SERVER = 8
#: of the demands that laws are tried on
SEED = 1
EXAMPLES = (
    "lightloom fabrics",
    "lightloom fabrics --gpus 4096 --rate 800",
    "lightloom fabrics mixnet --gpus 4096",
    "lightloom fabrics rail-only --gpus 256 --svg rail-only.svg",
    "lightloom fabrics my.toml --gpus 256 --check --write my.json",
)
NOTES = (
    "A TOML file with kind = 'mixnet' and any of its options is a custom fabric: lightloom compare "
    "... --fabrics fat-tree,mine.toml"
)


class FabricsOptions(Strict):
    """Which fabric is shown, and for which cluster networks are charged."""

    fabric: Name | None = Field(
        None,
        description="The fabric whose options are shown, by name or as a file: TOML, or InfraGraph"
        " (.json).",
    )
    gpus: Annotated[Whole, Field(le=1_000_000)] = Field(
        1024, description="Number of GPUs of the job."
    )
    rate_gbps: Annotated[float, quantity("gigabit / second"), Field(gt=0, le=1e5)] = Field(
        400.0, description="Rate of one NIC and link, per direction."
    )
    prices: File | None = Field(
        None, description="Price list (TOML) that replaces the built-in one."
    )
    check: Switch = Field(
        False, description="Try laws on a topology file with demands drawn at random."
    )
    write: File | None = Field(
        None, description="Write a topology file as TOML or InfraGraph, by the ending of the name."
    )


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(
            Panel("Arguments", (option(FabricsOptions, "fabric", "FABRIC", common=True),)),
            Panel(
                "Cluster and prices",
                (
                    option(FabricsOptions, "gpus", common=True),
                    option(FabricsOptions, "rate_gbps", common=True),
                    option(FabricsOptions, "prices", common=True),
                ),
            ),
            Panel(
                "Topology files",
                (
                    option(FabricsOptions, "check", common=True),
                    option(FabricsOptions, "write", common=True),
                ),
            ),
            Panel(
                "Output",
                (json_output(), option(Outputs, "svg", common=True, below="output")),
            ),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(call: CommandCall) -> None:
    from lightloom.fabric import Cluster
    from lightloom.hardware import load_prices
    from lightloom.parallel.grid import unfilled_servers
    from lightloom.report.fabric_file import write_fabric_drawing
    from lightloom.report.fabrics_table import (
        fabrics_as_json,
        options_as_json,
        print_fabrics,
        print_options,
    )

    outputs = checked_outputs(call)
    options = call.build(FabricsOptions)
    if options.gpus > GPUS_PER_SERVER and options.gpus % GPUS_PER_SERVER:
        raise InputError(unfilled_servers(options.gpus, GPUS_PER_SERVER))
    cluster = Cluster.of(
        gpus=options.gpus, rate_gbps=options.rate_gbps, gpu="a100", gpus_per_server=GPUS_PER_SERVER
    )
    prices = load_prices(options.prices)
    if outputs.svg is not None and options.fabric is None:
        raise InputError("--svg draws a fabric: name it, as lightloom fabrics rail --svg rail.svg")
    if (fabric := options.fabric) is not None:
        topology = _topology(options)
        outputs.print_and_write(
            lambda console: print_options(fabric, cluster, prices, console),
            lambda: options_as_json(fabric, cluster, prices),
        )
        if (svg := outputs.svg) is not None:
            write_fabric_drawing(fabric, cluster, svg)
        if topology is not None:
            _write_and_check(topology, options, cluster, outputs)
        return
    if options.check or options.write:
        raise InputError("--check and --write are of a topology file: lightloom fabrics my.toml")
    outputs.print_and_write(
        lambda console: print_fabrics(cluster, prices, console),
        lambda: fabrics_as_json(cluster, prices),
    )


def _topology(options: FabricsOptions) -> Topology | None:
    """The topology that is to be written or checked, if it can be."""
    from lightloom.fabric import load_fabric
    from lightloom.output.files import check_writable
    from lightloom.output.topology_file import check_ending
    from lightloom.study.fabric_check import topology_of

    if options.fabric is None or not (options.check or options.write):
        return None
    topology = topology_of(load_fabric(options.fabric))
    if (path := options.write) is not None:
        check_ending(path)
        if path.resolve() == Path(options.fabric).resolve():
            raise InputError(f"{path}: is read as well; write to another file")
        check_writable(path)
    return topology


def _write_and_check(
    topology: Topology, options: FabricsOptions, cluster: Cluster, outputs: Outputs
) -> None:
    """Write a topology in another format, and try laws on it."""
    from lightloom.output.topology_file import write_topology
    from lightloom.report.topology_table import print_laws
    from lightloom.study.fabric_check import check_fabric

    if options.write is not None:
        write_topology(topology, cluster, options.write)
        say_written([options.write])
    if options.check:
        laws = check_fabric(topology, cluster, SEED)
        print_laws(laws, remarks_console() if outputs.on_stdout else results_console())
        if broken := sum(law.broken is not None for law in laws):
            raise InputError(f"{options.fabric}: breaks {broken} of {len(laws)} laws")
