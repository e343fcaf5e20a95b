"""``lightloom control watch``: what the switches hold, whenever it changes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lightloom.cli.control.show import alarm_lines
from lightloom.cli.control.target import RegionsArgument, log_of_command, outputs_and_options
from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.inputs.strict import Switch, quantity

if TYPE_CHECKING:
    from lightloom.control.controller import RegionController
    from lightloom.control.documents import Document
    from lightloom.control.loss_trend import LowestLoss
    from lightloom.control.optics import LossBudget
    from lightloom.control.port_map import NicPair, PlacedConnect
    from lightloom.control.running import OpenRegion

#: growth of a loss that is worth a word
_SHOWN_DB = 0.1
EXAMPLES = (
    "lightloom control watch region.toml",
    "lightloom control watch region.toml --every '1 s' --json -",
    "lightloom control watch region.toml --once",
    "lightloom control watch rack7.toml rack8.toml --once",
)
NOTES = (
    "The switches are read, and nothing is changed; end it with Ctrl-C. Several regions are a "
    "table, with a row for each. --json is a line for each report."
)


class WatchOptions(RegionsArgument):
    """Regions, and how often they are looked at."""

    every_s: Annotated[float, quantity("second"), Field(ge=0.05, le=86_400)] = Field(
        5.0, description="Time between two readings of the switches."
    )
    once: Switch = Field(
        False, description="Report once, of a single region with the light of every circuit."
    )


def command() -> Command:
    """Describe the command."""
    panel = Panel(
        "Watching",
        (
            option(WatchOptions, "regions", "REGION", common=True, repeats=True),
            option(WatchOptions, "every_s", "--every", common=True),
            option(WatchOptions, "once", common=True),
        ),
    )
    return Command(panels=(panel, json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    outputs, options = outputs_and_options(call, WatchOptions)
    watch = _watch if len(options.regions) == 1 else _watch_several
    asyncio.run(watch(options, outputs))


async def _watch(options: WatchOptions, outputs: Outputs) -> None:
    from lightloom.cli.control.show import region_line
    from lightloom.control.documents import light_as_json, region_as_json
    from lightloom.control.region_light import loss_growth, region_alarms
    from lightloom.control.running import looking_at, open_region
    from lightloom.control.switch import SwitchError

    region = open_region(options.regions[0], log_of_command(), is_read_only=True)
    if not region.map_change.is_empty:
        outputs.say(f"{region.file_map.name} has changed: {region.map_change}")
    with _reports(outputs) as report:
        async with looking_at(region) as controller:
            content: Document
            facts = region_as_json(controller)
            shown = region_line(facts)
            if options.once:
                light, alarms = _light(controller), region_alarms(controller)
                grown = loss_growth(controller)
                lines = (_light_line(circuit, light[circuit], grown) for circuit in light)
                by_circuit = {str(circuit): light_as_json(light[circuit]) for circuit in light}
                content = {"region": facts, "light": by_circuit, "alarms": alarms}
                report(content, shown, *_switches(controller), *lines, *alarm_lines(alarms))
                return
            report({"region": facts}, shown)
            while True:
                await asyncio.sleep(options.every_s)
                try:
                    await controller.inspect()
                    content = {"region": region_as_json(controller)}
                    text = region_line(content["region"])
                except SwitchError as error:
                    text = f"{region.file.name}: {error}"
                    content = {"region": {"name": region.file.name}, "error": str(error)}
                if text != shown:
                    shown = text
                    report(content, text)


async def _watch_several(options: WatchOptions, outputs: Outputs) -> None:
    from lightloom.cli.control.show import regions_lines
    from lightloom.control.refusals import ControlError
    from lightloom.control.running import looking_at, open_region

    regions = [open_region(path, log_of_command(), is_read_only=True) for path in options.regions]
    shown: list[str] = []
    with _reports(outputs) as report:
        async with contextlib.AsyncExitStack() as stack:
            for region in regions:
                await stack.enter_async_context(looking_at(region, reads=False))
            while True:
                glances = await asyncio.gather(*map(_glance, regions))
                lines = list(regions_lines(glances))
                if lines != shown:
                    shown = lines
                    report({"regions": glances}, *lines)
                if options.once:
                    break
                await asyncio.sleep(options.every_s)
    unread = sum("error" in glance for glance in glances)
    if unread:
        raise ControlError(f"{unread} of {len(glances)} regions could not be read; see above")


async def _glance(region: OpenRegion) -> Document:
    """A region, its alarms, and whether its port map has changed; or why it cannot be read."""
    from lightloom.control.documents import region_as_json
    from lightloom.control.refusals import ControlError
    from lightloom.control.region_light import region_alarms
    from lightloom.control.switch import SwitchError
    from lightloom.errors import InputError

    controller = region.controller
    try:
        await controller.inspect()
    except (SwitchError, ControlError, InputError) as error:
        return {"region": {"name": region.file.name}, "error": str(error)}
    change = "" if region.map_change.is_empty else str(region.map_change)
    return {
        "region": region_as_json(controller),
        "alarms": region_alarms(controller),
        "map_change": change,
    }


@contextlib.contextmanager
def _reports(outputs: Outputs) -> Iterator[Callable[..., None]]:
    """What writes a report as it comes: its lines, and one line of JSON where that is wanted."""
    from lightloom.output.files import TextSink, json_line

    sink = TextSink(outputs.json_target)

    def report(content: Document, *lines: str) -> None:
        outputs.say(*lines)
        sink.write(json_line({"at": time.time(), **content}))

    try:
        yield report
    finally:
        sink.close()


def _switches(controller: RegionController) -> Iterator[str]:
    """What each switch says of itself."""
    for name, switch in controller.switches.descriptions.items():
        size = "x".join(map(str, switch.size))
        software = f", software {switch.software}" if switch.software else ""
        named = " ".join(filter(None, (switch.vendor, switch.model)))
        serial = f", serial {switch.serial}" if switch.serial else ""
        yield f"  {name}: {named} {size}{serial}{software}"
        equipment = controller.equipment.get(name, ())
        if equipment:
            yield f"    {', '.join(map(str, equipment))}"


def _light(controller: RegionController) -> dict[NicPair, list[LossBudget]]:
    """The light of every circuit that is there."""
    from lightloom.control.optics import loss_budget

    return {
        circuit: loss_budget(
            controller.port_map.cross_connects(circuit),
            controller.statuses,
            controller.limits,
            connected=True,
        )
        for circuit in sorted(controller.observed.circuits)
    }


def _light_line(
    circuit: NicPair,
    light: Sequence[LossBudget],
    grown: Mapping[PlacedConnect, tuple[float, LowestLoss]],
) -> str:
    shown = [f"{budget.placed.cross_connect}: {_shown(budget.loss_db)}" for budget in light]
    places = [budget.placed for budget in light if budget.placed in grown]
    growth_db = max((grown[placed][0] for placed in places), default=0.0)
    if growth_db >= _SHOWN_DB:
        shown.append(f"grown by {growth_db:.1f} dB")
    return "  ".join((f"  {circuit}", *shown))


def _shown(loss_db: float | None) -> str:
    return "not measured" if loss_db is None else f"{loss_db:.1f} dB"
