"""``lightloom control remap``: takes up a port map that has changed."""

from __future__ import annotations

from lightloom.cli.control.target import (
    ShownFirstOptions,
    log_of_command,
    outputs_and_options,
    run_until_complete,
    shown_first_panel,
)
from lightloom.cli.options import Command, CommandCall
from lightloom.cli.outputs import Outputs, json_panel

EXAMPLES = (
    "lightloom control remap region.toml",
    "lightloom control remap region.toml --apply",
    "lightloom control remap region.toml --apply --yes --json remapped.json",
)
NOTES = (
    "Circuits of NICs that are gone, or have other ports, are deleted by the map of the journal; "
    "the others stay lit, under their new numbers. While the region is served, the service does "
    "it, and jobs connect anew. Without --apply, what would be done is shown and no switch is "
    "touched."
)


def command() -> Command:
    """Describe the command."""
    panel = shown_first_panel("Port map", ShownFirstOptions)
    return Command(panels=(panel, json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    outputs, options = outputs_and_options(call, ShownFirstOptions)
    run_until_complete(_remap(options, outputs))


async def _remap(options: ShownFirstOptions, outputs: Outputs) -> None:
    from lightloom.cli.control.apply import apply_shown
    from lightloom.cli.control.show import plan_lines
    from lightloom.control.operations import Remapped, plan_map
    from lightloom.control.operator import operator_of
    from lightloom.control.running import looking_at, open_region

    if options.apply:
        log, asks = log_of_command(), not options.yes
        async with operator_of(options.region, log, remaps=True) as operator:
            document = await operator.plan(Remapped(), None, None)
            if document["map"]:
                await apply_shown(operator, document, outputs, asks=asks, at_once=options.at_once)
                return
        held = document["region"]["held"]
        document |= {"result": "unchanged", "number": None, "after": held, "failed": {}}
    else:
        region = open_region(options.region, log_of_command(), is_read_only=True)
        async with looking_at(region) as controller:
            document = plan_map(controller, region.file_map)
    outputs.say(*plan_lines(document))
    outputs.write_json(document)
