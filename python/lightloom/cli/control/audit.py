"""``lightloom control audit``: the journal of a region."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lightloom.cli.control.target import RegionArgument
from lightloom.cli.options import Command, Given, Panel, option
from lightloom.inputs.strict import Name, Whole

EXAMPLES = (
    "lightloom control audit region.toml",
    "lightloom control audit region.toml --last 100",
    "lightloom control audit region.toml --journal-json changes.json",
)
NOTES = "Newest first. The journal is read; the region may be served at the same time."


class AuditOptions(RegionArgument):
    """A region, and how much of its journal is shown."""

    last: Annotated[Whole, Field(le=100_000)] = Field(20, description="Number of changes.")
    journal_json: Name | None = Field(
        None, description="Write the changes as JSON, with all circuits; '-' is standard output."
    )


def command() -> Command:
    """Describe the command."""
    panel = Panel(
        "Journal",
        (
            option(AuditOptions, "region", "REGION", common=True),
            option(AuditOptions, "last", common=True),
            option(AuditOptions, "journal_json", "--journal-json", common=True, metavar="PATH|-"),
        ),
    )
    return Command(panels=(panel,), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(given: Given) -> None:
    import json
    from pathlib import Path

    from lightloom.cli.control.show import entry_line
    from lightloom.control.journal import Journal, entry_as_json
    from lightloom.control.refusals import JournalError
    from lightloom.control.region_file import read_region
    from lightloom.output.files import STDOUT, write_text

    options = given.build(AuditOptions)
    file = read_region(options.region)
    path = options.region.parent / file.journal
    if not path.exists():
        raise JournalError(f"{path}: no such file; nothing was changed in {file.name} so far")
    journal = Journal(path, file.name)
    entries = journal.last(options.last)
    journal.close()
    if options.journal_json is not None:
        text = json.dumps([entry_as_json(entry) for entry in entries], indent=1) + "\n"
        if options.journal_json == STDOUT:
            print(text, end="")
        else:
            write_text(text, Path(options.journal_json))
        return
    for entry in entries:
        print(entry_line(entry))
    if not entries:
        print(f"{file.name}: no change so far")
