"""``lightloom control audit``: the journal of a region."""

from __future__ import annotations

import contextlib
from typing import Annotated

from pydantic import Field

from lightloom.cli.control.target import RegionArgument, outputs_and_options
from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_output, say_written
from lightloom.cli.terminal import command_line
from lightloom.inputs.strict import Whole

EXAMPLES = (
    "lightloom control audit region.toml",
    "lightloom control audit region.toml --last 100",
    "lightloom control audit region.toml --json changes.json",
    "lightloom control audit region.toml --html changes.html",
)
NOTES = "Newest first. The journal is read; the region may be served at the same time."


class AuditOptions(RegionArgument):
    """A region, and how much of its journal is shown."""

    last: Annotated[Whole, Field(le=100_000)] = Field(20, description="Number of changes.")


def command() -> Command:
    """Describe the command."""
    panel = Panel(
        "Journal",
        (
            option(AuditOptions, "region", "REGION", common=True),
            option(AuditOptions, "last", common=True),
        ),
    )
    page = option(Outputs, "html", "--html", common=True, below="output")
    output = Panel("Output", (json_output(), page))
    return Command(panels=(panel, output), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    from lightloom.cli.control.show import entry_line
    from lightloom.control.journal import Journal, entry_as_json
    from lightloom.control.refusals import JournalError
    from lightloom.control.region_file import read_tables

    outputs, options = outputs_and_options(call, AuditOptions)
    file = read_tables(options.region)
    path = options.region.parent / file.journal
    if not path.exists():
        raise JournalError(f"{path}: no such file; nothing was changed in {file.name} so far")
    journal = Journal(path, file.name, is_read_only=True)
    try:
        damages = journal.damages()
        entries = journal.last(options.last, skips_damaged=True)
        maps = {}
        for number in {entry.map for entry in entries}:
            with contextlib.suppress(JournalError):
                maps[number] = journal.port_map(number)
        circuits = frozenset() if damages else journal.held() or frozenset()
    finally:
        journal.close()
    outputs.say(*(map(entry_line, entries) if entries else [f"{file.name}: no change so far"]))
    changes = [entry_as_json(entry) for entry in entries]
    outputs.write_json(
        {
            "region": file.name,
            "changes": changes,
            "maps": {
                str(number): {"servers": list(port_map.servers), "nics": list(port_map.rows)}
                for number, port_map in maps.items()
                if port_map is not None
            },
            "damages": damages,
        }
    )
    if outputs.html is not None:
        from lightloom.report.page_control import write_control_page

        servers = file.read_port_map(options.region.parent).servers
        write_control_page(file.name, servers, circuits, entries, outputs.html, command_line())
        say_written([outputs.html])
    if damages:
        raise JournalError(f"{path}: " + "; ".join(damages))
