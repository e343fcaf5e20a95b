"""``lightloom control service``: who uses the service of a region; pause it, cut clients off."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lightloom.cli.control.target import RegionArgument, outputs_and_options
from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.errors import InputError
from lightloom.inputs.strict import Name, Switch, Whole

if TYPE_CHECKING:
    from lightloom.control.documents import Document

EXAMPLES = (
    "lightloom control service region.toml",
    "lightloom control service region.toml --pause 'exchanging transceivers'",
    "lightloom control service region.toml --go-on",
    "lightloom control service region.toml --cut-off 3",
)
NOTES = (
    "While a region is paused, circuits stay as they are: the job is told to use the packet "
    "network for what it asks, and an operator may plan and apply."
)


class ServiceOptions(RegionArgument):
    """A region that is served, and what its service does."""

    pause: Annotated[Name, Field(max_length=200)] | None = Field(
        None, description="Refuse demands until --go-on; why, for the job and the log."
    )
    go_on: Switch = Field(False, description="Serve demands again.")
    cut_off: Whole | None = Field(None, description="Cut off the client of this number.")
    break_lease: Switch = Field(
        False, description="Free the lease of a controller that has ended without a trace."
    )


def command() -> Command:
    """Describe the command."""
    names = ("pause", "go_on", "cut_off", "break_lease")
    panel = Panel(
        "Service",
        (
            option(ServiceOptions, "region", "REGION", common=True),
            *(option(ServiceOptions, name, common=True) for name in names),
        ),
    )
    return Command(panels=(panel, json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    outputs, options = outputs_and_options(call, ServiceOptions)
    asked = [options.pause is not None, options.go_on, options.cut_off is not None]
    if sum([*asked, options.break_lease]) > 1:
        raise InputError("expected one of --pause, --go-on, --cut-off, --break-lease")
    asyncio.run(_ask(options, outputs))


async def _ask(options: ServiceOptions, outputs: Outputs) -> None:
    from lightloom.control.operator import rules_change, serving
    from lightloom.control.refusals import ServiceError
    from lightloom.control.region_file import read_tables

    async with serving(options.region) as served:
        if options.break_lease:
            if served is not None:
                raise InputError("--break-lease: the region is served; stop the service instead")
            _break_lease(options, outputs)
            return
        if served is None:
            name = read_tables(options.region).name
            raise ServiceError(f"{name}: no service listens; start lightloom control serve")
        if options.pause is not None:
            reply = await served.ask("pause", why=options.pause)
        elif options.go_on:
            reply = await served.ask("continue")
        elif options.cut_off is not None:
            reply = await served.ask("remove", number=options.cut_off)
        else:
            reply = await served.ask("clients")
    _say({**reply, "rules_change": await rules_change(options.region)}, outputs)


def _say(reply: Document, outputs: Outputs) -> None:
    from lightloom.cli.control.show import alarm_lines, region_line, rules_lines

    outputs.say(region_line(reply["region"]))
    if reply["paused"]:
        outputs.say(f"paused by {reply['paused']}")
    outputs.say(*alarm_lines(reply["alarms"]), *rules_lines(reply["rules_change"]))
    for client in reply["clients"]:
        server = "" if client["server"] is None else f", server {client['server']}"
        hung = ", does not answer" if client["hung"] else ""
        outputs.say(
            f"  client {client['number']}: {client['client']} ({client['role']}) from "
            f"{client['peer'] or 'this machine'}{server}{hung}"
        )
    outputs.write_json(reply)


def _break_lease(options: ServiceOptions, outputs: Outputs) -> None:
    from lightloom.control.lease import Lease
    from lightloom.control.running import open_region

    region = open_region(options.region)
    try:
        holder = Lease(region.journal).break_lease()
    finally:
        region.journal.close()
    outputs.say(f"the lease of {holder} is free" if holder else "nobody holds the lease")
    outputs.write_json({"holder": holder})
