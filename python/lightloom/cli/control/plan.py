"""``lightloom control plan``: what would change, without touching a switch."""

from __future__ import annotations

import asyncio

from lightloom.cli.control.target import TargetOptions, target_panel
from lightloom.cli.options import Command, Given

EXAMPLES = (
    "lightloom control plan region.toml --demand-file demand.npy",
    "lightloom control plan region.toml --circuits circuits.txt --conflicts update",
    "lightloom control plan region.toml --reapply",
)
NOTES = "The switches are read, and nothing is written: neither to them nor to the journal."


def command() -> Command:
    """Describe the command."""
    return Command(panels=(target_panel(),), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(given: Given) -> None:
    options = given.build(TargetOptions)
    options.check_one()
    asyncio.run(_plan(options))


async def _plan(options: TargetOptions) -> None:
    from lightloom.cli.control.show import change_lines, region_line
    from lightloom.cli.control.target import wanted_circuits
    from lightloom.control.change import ConflictMode
    from lightloom.control.running import looking_at, open_region

    region = open_region(options.region)
    async with looking_at(region) as controller:
        print(region_line(controller))
        if options.adopt:
            found = controller.observed.circuits - controller.held
            print(f"  adopt     {len(found):4}  {'  '.join(map(str, sorted(found)))}".rstrip())
            return
        wanted, why = wanted_circuits(controller, options)
        print(why)
        mode = ConflictMode(options.conflicts) if options.conflicts else None
        if options.reapply and mode is None:
            mode = ConflictMode.UPDATE
        change = controller.plan(wanted, mode)
        print(*change_lines(change, controller.loss_of(change)), sep="\n")
