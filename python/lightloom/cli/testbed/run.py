"""``lightloom testbed run``: run a command in each server, as the ranks of a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import json_panel
from lightloom.cli.testbed.options import TestbedFolder, folder_option, outputs_and_options
from lightloom.inputs.strict import Name

EXAMPLES = (
    "lightloom testbed run -- python train.py",
    "lightloom testbed run --server 2 -- bash",
    "lightloom testbed run --dir lab -- ip -brief address",
)
NOTES = (
    "Each process has RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, "
    "LIGHTLOOM_SERVER, and LIGHTLOOM_TESTBED, the folder with the region's file. gloo and NCCL are "
    "told to meet over eps0. The first rank that fails ends the others; its status is returned."
)


class RanksOptions(TestbedFolder):
    """A command, and where it runs."""

    program: tuple[Name, ...] = Field(description="The command, after --.", min_length=1)
    server: Annotated[int, Field(strict=True, ge=0)] | None = Field(
        None, description="Run it once in this server, with this terminal; in all by default."
    )


def command() -> Command:
    """Describe the command."""
    panel = Panel(
        "Ranks",
        (
            option(RanksOptions, "program", "PROGRAM", common=True, repeats=True),
            # no variable stands for it: ranks have one of this name
            replace(option(RanksOptions, "server", common=True), is_typed=True),
            folder_option(RanksOptions),
        ),
    )
    return Command(panels=(panel, json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    import typer

    from lightloom.testbed import Testbed
    from lightloom.testbed.ranks import RankStatus, run_here, run_ranks

    outputs, options = outputs_and_options(call, RanksOptions)
    testbed = Testbed.open(options.folder)
    if options.server is None:
        ended = run_ranks(testbed, options.program, outputs.say)
    else:
        status = run_here(testbed, options.server, options.program)
        ended = [
            RankStatus(options.server * testbed.layout.ranks_per_server, options.server, status)
        ]
    outputs.write_json({"ranks": [rank._asdict() for rank in ended]})
    # ranks that were ended because of another are not the reason
    failed = sorted((rank.status for rank in ended if rank.status), key=lambda code: code >= 128)
    if failed:
        raise typer.Exit(failed[0])
