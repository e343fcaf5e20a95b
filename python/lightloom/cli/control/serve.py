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
    "With http_port in the region's file, http://127.0.0.1:PORT/ is a page of what goes on. "
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
    port = region.file.serve.http_port
    page = None if port is None else f"http://127.0.0.1:{port}/"

    def ready(address: str) -> None:
        outputs.say(address)
        metrics = None if page is None else f"{page}metrics"
        facts = {"region": region.file.name, "address": address, "page": page, "metrics": metrics}
        outputs.write_json(facts)

    asyncio.run(serve(region, ready, "" if page is None else _page(region.file.name)))


def _page(name: str) -> str:
    from lightloom.report.page_region import render_region

    return render_region(name)
