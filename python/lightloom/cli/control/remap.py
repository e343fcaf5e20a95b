"""``lightloom control remap``: takes up a port map that has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from lightloom.cli.control.target import (
    AT_ONCE,
    RegionArgument,
    at_once,
    log_of_command,
    outputs_and_options,
    run_until_complete,
)
from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.cli.terminal import confirm
from lightloom.inputs.strict import Switch
from lightloom.units import show_things

if TYPE_CHECKING:
    from lightloom.control.documents import Document
    from lightloom.control.remap import Remapping
    from lightloom.control.running import OpenRegion

EXAMPLES = (
    "lightloom control remap region.toml",
    "lightloom control remap region.toml --apply",
    "lightloom control remap region.toml --apply --yes --json remapped.json",
)
NOTES = (
    "Circuits of NICs that are gone, or have other ports, are deleted by the map of the journal; "
    "the others stay lit, under their new numbers. Nothing else is changed before that. Without "
    "--apply, what would be done is shown and no switch is touched."
)


class RemapOptions(RegionArgument):
    """A region whose port map has changed."""

    apply: Switch = Field(False, description="Touch the switches.")
    yes: Switch = Field(False, description="Do not ask.")
    at_once: Switch = AT_ONCE


def command() -> Command:
    """Describe the command."""
    panel = Panel(
        "Port map",
        (
            option(RemapOptions, "region", "REGION", common=True),
            option(RemapOptions, "apply", common=True),
            option(RemapOptions, "yes", common=True),
            at_once(RemapOptions),
        ),
    )
    return Command(panels=(panel, json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    outputs, options = outputs_and_options(call, RemapOptions)
    run_until_complete(_remap(options, outputs))


async def _remap(options: RemapOptions, outputs: Outputs) -> None:
    from lightloom.control.documents import report_as_json
    from lightloom.control.operations import in_window
    from lightloom.control.remap import plan_remap, remap
    from lightloom.control.running import looking_at, open_region, reason_of, running

    region = open_region(options.region, log_of_command(), is_read_only=not options.apply)
    context = running(region, remaps=True) if options.apply else looking_at(region)
    async with context as controller:
        if region.map_change.is_empty:
            outputs.say(f"{region.file_map.name}: as at the last change; nothing to take up")
            outputs.write_json({"map": [], "change": None})
            return
        planned = plan_remap(controller, region.file_map)
        content = _say(region, planned, outputs)
        if options.apply:
            text = f"take up {region.file_map.name}"
            why = reason_of(in_window(controller, text, at_once=options.at_once))
            dark = len(planned.change.deletes)
            if not options.yes:
                confirm(
                    f"Take up {region.file_map.name}? {show_things(dark, 'circuit')} will go dark",
                    "--yes",
                )
            seen = controller.fingerprint()
            report = await remap(controller, region.file_map, why, seen)
            outputs.say(f"taken up; {show_things(dark, 'circuit')} deleted")
            content |= report_as_json(report)
        outputs.write_json(content)


def _say(region: OpenRegion, planned: Remapping, outputs: Outputs) -> Document:
    """Show what changes; by names and ports, since numbers may change."""
    from lightloom.control.documents import change_as_json

    before = planned.maps.before
    lines = list(planned.maps.lines())
    outputs.say(f"{region.file_map.name}, since the last change:", *(f"  {line}" for line in lines))
    dark = [
        f"{before.servers[circuit.server]}/{circuit.nic} - "
        f"{before.servers[circuit.peer]}/{circuit.peer_nic} "
        f"({', '.join(map(str, before.cross_connects(circuit)))})"
        for circuit in planned.change.deletes
    ]
    stay = show_things(len(planned.change.unchanged), "circuit")
    outputs.say(*(f"  delete {line}" for line in dark), f"  {stay} not touched")
    return {"map": lines, "dark": dark, "change": change_as_json(planned.change)}
