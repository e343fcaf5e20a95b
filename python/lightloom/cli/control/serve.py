"""``lightloom control serve``: circuits for a training job, until it is stopped."""

from __future__ import annotations

import asyncio
import sys

from lightloom.cli.control.target import RegionArgument, outputs_and_options, region_argument
from lightloom.cli.options import Command, CommandCall
from lightloom.cli.outputs import json_panel

EXAMPLES = (
    "lightloom control serve region.toml",
    "lightloom control serve region.toml > address.txt",
    "lightloom control serve region.toml --json address.json 2> control.log",
)
NOTES = (
    "Prints the address for clients; the log goes to standard error, one JSON object per line. "
    "Ctrl-C and SIGTERM complete the change in flight."
)


def command() -> Command:
    """Describe the command."""
    panels = (region_argument(), json_panel())
    return Command(panels=panels, run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    from lightloom.control.running import open_region, serve

    outputs, options = outputs_and_options(call, RegionArgument)
    region = open_region(options.region, sys.stderr)

    def ready(address: str) -> None:
        outputs.say(address)
        port = region.file.serve.metrics_port
        metrics = None if port is None else f"http://127.0.0.1:{port}/metrics"
        outputs.write_json({"region": region.file.name, "address": address, "metrics": metrics})

    asyncio.run(serve(region, ready))
