"""``lightloom testbed repair``: put a part that was let fail right again."""

from __future__ import annotations

from lightloom.cli.options import Command, CommandCall
from lightloom.cli.testbed.fail import panels
from lightloom.cli.testbed.options import PartArgument, failed_as_text, outputs_and_options

EXAMPLES = (
    "lightloom testbed repair nic:2/1",
    "lightloom testbed repair server:2",
    "lightloom testbed repair switch:ocs --json -",
)
NOTES = (
    "What has not failed stays as it is. The control of the switch takes up the circuits that its "
    "mirrors have, at the address that the region's file has."
)


def command() -> Command:
    """Describe the command."""
    return Command(panels=panels(), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    from lightloom.testbed import Testbed

    outputs, options = outputs_and_options(call, PartArgument)
    failed = Testbed.open(options.folder).repair(options.part)
    outputs.say(failed_as_text(failed))
    outputs.write_json({"failed": failed})
