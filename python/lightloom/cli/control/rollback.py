"""``lightloom control rollback``: the circuits before a change."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lightloom.cli.control.target import RegionArgument, run_until_complete
from lightloom.cli.options import Command, Given, Panel, option
from lightloom.inputs.strict import Switch

EXAMPLES = (
    "lightloom control rollback region.toml",
    "lightloom control rollback region.toml --change 17",
    "lightloom control rollback region.toml --change 17 --apply",
)
NOTES = "Without --apply, what would change is shown and no switch is touched."


class RollbackOptions(RegionArgument):
    """A region and the change to undo."""

    change: Annotated[int, Field(strict=True, ge=1)] | None = Field(
        None, description="Number of the change; the last one that changed circuits by default."
    )
    apply: Switch = Field(False, description="Touch the switches.")


def command() -> Command:
    """Describe the command."""
    panel = Panel(
        "Circuits",
        (
            option(RollbackOptions, "region", "REGION", common=True),
            option(RollbackOptions, "change", common=True),
            option(RollbackOptions, "apply", common=True),
        ),
    )
    return Command(panels=(panel,), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(given: Given) -> None:
    run_until_complete(_roll_back(given.build(RollbackOptions)))


async def _roll_back(options: RollbackOptions) -> None:
    from lightloom.cli.control.show import change_lines, region_line, report_lines
    from lightloom.control.change import ConflictMode
    from lightloom.control.running import looking_at, open_region, reason_of, running

    region = open_region(options.region)
    context = running(region) if options.apply else looking_at(region)
    async with context as controller:
        print(region_line(controller))
        change = controller.plan(controller.snapshot(options.change), ConflictMode.UPDATE)
        print(*change_lines(change), sep="\n")
        if options.apply:
            report = await controller.roll_back(options.change, reason_of("rollback"))
            print(*report_lines(report), sep="\n")
