"""``lightloom control drain`` and ``resume``: parts of a region out of service, and in again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lightloom.cli.control.target import (
    AT_ONCE,
    RegionArgument,
    at_once,
    log_of_command,
    outputs_and_options,
    run_until_complete,
)
from lightloom.cli.options import Command, CommandCall, Option, Panel, option
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.inputs.strict import Name, Switch

if TYPE_CHECKING:
    from lightloom.control.documents import Document

EXAMPLES = (
    "lightloom control drain region.toml nic:2/1",
    "lightloom control drain region.toml server:3,switch:b --why 'new transceivers'",
    "lightloom control drain region.toml gpu:2/5 --json -",
)
NOTES = (
    "Parts are nic, link, transceiver, eps and gpu (server/number), server, port and switch. "
    "Their circuits are deleted, while the region is served once its job has drained them, and "
    "avoided until lightloom control resume, also after a restart."
)


class PartsOptions(RegionArgument):
    """A region and parts of it."""

    parts: tuple[Name, ...] = Field(description="Parts such as nic:2/1,server:3.", min_length=1)


class DrainOptions(PartsOptions):
    """Parts, and why they are taken out of service."""

    why: Annotated[Name, Field(max_length=200)] | None = Field(
        None, description="Why, for the journal."
    )
    at_once: Switch = AT_ONCE


def parts_panel(*further: Option) -> Panel:
    """The region and its parts."""
    return Panel(
        "Parts",
        (
            option(PartsOptions, "region", "REGION", common=True),
            option(PartsOptions, "parts", "PARTS", common=True),
            *further,
        ),
    )


def command() -> Command:
    """Describe the command."""
    further = (option(DrainOptions, "why", common=True), at_once(DrainOptions))
    panels = (parts_panel(*further), json_panel())
    return Command(panels=panels, run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    outputs, options = outputs_and_options(call, DrainOptions)
    run_until_complete(_drain(options, outputs))


async def _drain(options: DrainOptions, outputs: Outputs) -> None:
    from lightloom.cli.control.show import check_done
    from lightloom.control.operator import operator_of

    async with operator_of(options.region, log_of_command()) as operator:
        why = options.why or ""
        reply = await operator.drain(options.parts, why, at_once=options.at_once)
        say_response(reply, outputs)
        check_done(reply["failed"], "not deleted")


def say_response(reply: Document, outputs: Outputs) -> None:
    """Print what follows from the parts that are out of service."""
    from lightloom.cli.control.show import problem_lines

    outputs.say(*(reply["response"] or ["everything is in service"]))
    outputs.say(*problem_lines(reply.get("failed", {})))
    outputs.write_json(reply)
