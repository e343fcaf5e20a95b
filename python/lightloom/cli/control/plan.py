"""``lightloom control plan``: what would change, without touching a switch."""

from __future__ import annotations

import asyncio

from lightloom.cli.control.target import (
    TargetOptions,
    log_of_command,
    outputs_and_options,
    read_wanted,
    target_panel,
)
from lightloom.cli.options import Command, CommandCall
from lightloom.cli.outputs import Outputs, json_panel

EXAMPLES = (
    "lightloom control plan region.toml --demand-file demand.npy",
    "lightloom control plan region.toml --circuits circuits.txt --json plan.json",
    "lightloom control plan region.toml --add 0/1-3/0 --remove 0/1-2/0,3/0-4/1",
    "lightloom control plan region.toml --reapply --conflicts update",
)
NOTES = (
    "The switches are read, and nothing is written: neither to them nor to the journal. The file "
    "of --json is what lightloom control apply takes as its plan."
)


def command() -> Command:
    """Describe the command."""
    return Command(panels=(target_panel(), json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    outputs, options = outputs_and_options(call, TargetOptions)
    options.check_one()
    asyncio.run(_plan(options, outputs))


async def _plan(options: TargetOptions, outputs: Outputs) -> None:
    from lightloom.cli.control.show import plan_lines, rules_lines
    from lightloom.control.change import ConflictMode
    from lightloom.control.operations import plan
    from lightloom.control.operator import rules_change
    from lightloom.control.running import looking_at, open_region

    wanted = read_wanted(options)
    region = open_region(options.region, log_of_command(), is_read_only=True)
    async with looking_at(region):
        region.map_change.check_empty()
        conflicts = None if options.conflicts is None else ConflictMode(options.conflicts)
        decider = region.controller.decider
        demand = None if wanted.demand is None else decider.fold(wanted.demand)
        document = plan(region.controller, wanted.target, conflicts, demand)
    changed = await rules_change(options.region, region.file)
    outputs.say(*plan_lines(document), *rules_lines(changed))
    outputs.write_json({**document, "rules_change": changed})
