"""``lightloom control rollback``: the circuits before a change."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lightloom.cli.control.target import (
    ShownFirstOptions,
    log_of_command,
    outputs_and_options,
    run_until_complete,
    shown_first_panel,
)
from lightloom.cli.options import Command, CommandCall, option
from lightloom.cli.outputs import Outputs, json_panel

EXAMPLES = (
    "lightloom control rollback region.toml",
    "lightloom control rollback region.toml --change 17",
    "lightloom control rollback region.toml --change 17 --apply --yes",
)
NOTES = "Without --apply, what would change is shown and no switch is touched."


class RollbackOptions(ShownFirstOptions):
    """A region and the change to undo."""

    change: Annotated[int, Field(strict=True, ge=1)] | None = Field(
        None, description="Number of the change; the last one that changed circuits by default."
    )


def command() -> Command:
    """Describe the command."""
    change = option(RollbackOptions, "change", common=True)
    panel = shown_first_panel("Circuits", RollbackOptions, change)
    return Command(panels=(panel, json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    outputs, options = outputs_and_options(call, RollbackOptions)
    run_until_complete(_roll_back(options, outputs))


async def _roll_back(options: RollbackOptions, outputs: Outputs) -> None:
    from lightloom.cli.control.apply import apply_shown
    from lightloom.cli.control.show import plan_lines
    from lightloom.control.operations import Before, plan
    from lightloom.control.operator import operator_of
    from lightloom.control.running import looking_at, open_region

    target = Before(change=options.change)
    if options.apply:
        async with operator_of(options.region, log_of_command()) as operator:
            document = await operator.plan(target, None, None)
            await apply_shown(
                operator, document, outputs, asks=not options.yes, at_once=options.at_once
            )
        return
    region = open_region(options.region, log_of_command(), is_read_only=True)
    async with looking_at(region):
        region.map_change.check_empty()
        document = plan(region.controller, target)
    outputs.say(*plan_lines(document))
    outputs.write_json(document)
