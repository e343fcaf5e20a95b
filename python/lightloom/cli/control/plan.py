"""``lightloom control plan``: what would change, without touching a switch."""

from __future__ import annotations

import asyncio

from lightloom.cli.control.target import (
    TargetOptions,
    open_for_command,
    outputs_and_options,
    read_target,
    target_panel,
    wanted_circuits,
)
from lightloom.cli.options import Command, CommandCall
from lightloom.cli.outputs import Outputs, json_panel

EXAMPLES = (
    "lightloom control plan region.toml --demand-file demand.npy",
    "lightloom control plan region.toml --circuits circuits.txt --conflicts update",
    "lightloom control plan region.toml --reapply --json -",
)
NOTES = "The switches are read, and nothing is written: neither to them nor to the journal."


def command() -> Command:
    """Describe the command."""
    return Command(panels=(target_panel(), json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    outputs, options = outputs_and_options(call, TargetOptions)
    options.check_one()
    asyncio.run(_plan(options, outputs))


async def _plan(options: TargetOptions, outputs: Outputs) -> None:
    from lightloom.cli.control.documents import change_as_json, region_as_json
    from lightloom.cli.control.show import change_lines, region_line
    from lightloom.control.change import ConflictMode
    from lightloom.control.running import looking_at

    region = open_for_command(options.region)
    target = read_target(region, options)
    async with looking_at(region) as controller:
        outputs.say(region_line(controller))
        content = {"region": region_as_json(controller)}
        if options.adopt:
            adopted = [str(pair) for pair in sorted(controller.observed.circuits - controller.held)]
            outputs.say(f"  adopt     {len(adopted):4}  {'  '.join(adopted)}".rstrip())
            outputs.write_json({**content, "adopts": adopted})
            return
        wanted, why = wanted_circuits(controller, options, target)
        outputs.say(why)
        mode = ConflictMode(options.conflicts) if options.conflicts else None
        if options.reapply and mode is None:
            mode = ConflictMode.UPDATE
        change = controller.plan(wanted, mode)
        light = controller.loss_of(change)
        outputs.say(*change_lines(change, light))
        outputs.write_json({**content, "why": why, "change": change_as_json(change, light)})
