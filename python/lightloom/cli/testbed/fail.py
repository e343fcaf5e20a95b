"""``lightloom testbed fail``: let a part of the testbed fail."""

from __future__ import annotations

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import json_panel
from lightloom.cli.testbed.options import (
    PartArgument,
    failed_as_text,
    folder_option,
    outputs_and_options,
)

EXAMPLES = (
    "lightloom testbed fail nic:2/1",
    "lightloom testbed fail eps:0/0",
    "lightloom testbed fail server:2 --json -",
    "lightloom testbed fail switch:ocs",
)
NOTES = (
    "A NIC loses its cable: its device has no carrier, and its light at the switch goes out. A "
    "server loses all cables; its processes go on. The control of the switch ends, while its "
    "mirrors stay where they are. lightloom testbed repair puts parts right again."
)


def command() -> Command:
    """Describe the command."""
    return Command(panels=panels(), run=_run, examples=EXAMPLES, notes=NOTES)


def panels() -> tuple[Panel, ...]:
    """A part, and which testbed."""
    part = option(PartArgument, "part", "PART", common=True)
    return (Panel("Part", (part, folder_option(PartArgument))), json_panel())


def _run(call: CommandCall) -> None:
    from lightloom.testbed import Testbed

    outputs, options = outputs_and_options(call, PartArgument)
    failed = Testbed.open(options.folder).fail(options.part)
    outputs.say(failed_as_text(failed))
    outputs.write_json({"failed": failed})
