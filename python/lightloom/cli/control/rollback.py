"""``lightloom control rollback``: the circuits before a change."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from lightloom.cli.control.target import (
    RegionArgument,
    open_for_command,
    outputs_and_options,
    run_until_complete,
)
from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_panel
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
    return Command(panels=(panel, json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    outputs, options = outputs_and_options(call, RollbackOptions)
    run_until_complete(_roll_back(options, outputs))


async def _roll_back(options: RollbackOptions, outputs: Outputs) -> None:
    from lightloom.cli.control.documents import change_as_json, region_as_json, report_as_json
    from lightloom.cli.control.show import change_lines, region_line, report_lines
    from lightloom.control.change import ConflictMode
    from lightloom.control.running import looking_at, reason_of, running

    region = open_for_command(options.region)
    context = running(region) if options.apply else looking_at(region)
    async with context as controller:
        outputs.say(region_line(controller))
        content: dict[str, Any] = {"region": region_as_json(controller)}
        change = controller.plan(controller.snapshot(options.change), ConflictMode.UPDATE)
        outputs.say(*change_lines(change))
        content["change"] = change_as_json(change)
        if options.apply:
            report = await controller.roll_back(options.change, reason_of("rollback"))
            outputs.say(*report_lines(report))
            content |= report_as_json(report)
        outputs.write_json(content)
