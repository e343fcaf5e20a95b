"""``lightloom testbed down``: remove the testbed, or what a crash has left of it."""

from __future__ import annotations

from lightloom.cli.options import Command, CommandCall, Panel
from lightloom.cli.outputs import json_panel
from lightloom.cli.testbed.options import TestbedFolder, folder_option, outputs_and_options

EXAMPLES = (
    "lightloom testbed down",
    "lightloom testbed down --dir lab",
    "lightloom testbed down --json -",
)
NOTES = (
    "Ends the processes in its servers. Namespaces, devices, processes and files of the testbed "
    "are gone afterwards; what somebody else has put into its folder stays."
)


def command() -> Command:
    """Describe the command."""
    panels = (Panel("Testbed", (folder_option(),)), json_panel())
    return Command(panels=panels, run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    from lightloom.testbed import Testbed

    outputs, options = outputs_and_options(call, TestbedFolder)
    was_there = Testbed.clear(options.folder)
    outputs.say("the testbed is removed" if was_there else "no testbed is up: nothing to do")
    outputs.write_json({"removed": was_there})
