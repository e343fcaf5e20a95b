"""``lightloom control resume``: parts of a region that are in service again."""

from __future__ import annotations

from lightloom.cli.control.drain import PartsOptions, parts_panel, say_response
from lightloom.cli.control.target import log_of_command, outputs_and_options, run_until_complete
from lightloom.cli.options import Command, CommandCall
from lightloom.cli.outputs import Outputs, json_panel

EXAMPLES = (
    "lightloom control resume region.toml nic:2/1",
    "lightloom control resume region.toml server:3,switch:b",
    "lightloom control resume region.toml gpu:2/5 --json -",
)
NOTES = "Circuits may use the parts again with the next change."


def command() -> Command:
    """Describe the command."""
    panels = (parts_panel(), json_panel())
    return Command(panels=panels, run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    outputs, options = outputs_and_options(call, PartsOptions)
    run_until_complete(_resume(options, outputs))


async def _resume(options: PartsOptions, outputs: Outputs) -> None:
    from lightloom.control.operator import operator_of

    async with operator_of(options.region, log_of_command()) as operator:
        say_response(await operator.resume(options.parts), outputs)
