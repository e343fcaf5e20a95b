"""``lightloom control serve``: circuits for a training job, until it is stopped."""

from __future__ import annotations

import asyncio
import sys

from lightloom.cli.control.target import RegionArgument, region_argument
from lightloom.cli.options import Command, Given

EXAMPLES = (
    "lightloom control serve region.toml",
    "lightloom control serve region.toml > address.txt",
    "lightloom control serve region.toml 2> control.log",
)
NOTES = (
    "Prints the address for clients; the log goes to standard error, one JSON object per line. "
    "Ctrl-C and SIGTERM complete the change in flight."
)


def command() -> Command:
    """Describe the command."""
    return Command(panels=(region_argument(),), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(given: Given) -> None:
    from lightloom.control.running import open_region, serve

    region = open_region(given.build(RegionArgument).region, sys.stderr)
    asyncio.run(serve(region, lambda address: print(address, flush=True)))
