"""``lightloom control watch``: what the switches hold, whenever it changes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lightloom.cli.control.target import RegionArgument, log_of_command, outputs_and_options
from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.inputs.strict import Switch, quantity

if TYPE_CHECKING:
    from lightloom.control.controller import RegionController
    from lightloom.control.documents import Document
    from lightloom.control.optics import LossBudget
    from lightloom.control.port_map import NicPair

EXAMPLES = (
    "lightloom control watch region.toml",
    "lightloom control watch region.toml --every '1 s' --json -",
    "lightloom control watch region.toml --once",
)
NOTES = (
    "The switches are read, and nothing is changed; end it with Ctrl-C. --json is a line "
    "for each report."
)


class WatchOptions(RegionArgument):
    """A region, and how often it is looked at."""

    every_s: Annotated[float, quantity("second"), Field(ge=0.05, le=86_400)] = Field(
        5.0, description="Time between two readings of the switches."
    )
    once: Switch = Field(False, description="Report once, with the light of every circuit.")


def command() -> Command:
    """Describe the command."""
    panel = Panel(
        "Watching",
        (
            option(WatchOptions, "region", "REGION", common=True),
            option(WatchOptions, "every_s", "--every", common=True),
            option(WatchOptions, "once", common=True),
        ),
    )
    return Command(panels=(panel, json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    outputs, options = outputs_and_options(call, WatchOptions)
    asyncio.run(_watch(options, outputs))


async def _watch(options: WatchOptions, outputs: Outputs) -> None:
    from lightloom.cli.control.show import region_line
    from lightloom.control.documents import light_as_json, region_as_json
    from lightloom.control.running import looking_at, open_region
    from lightloom.control.switch import SwitchError

    region = open_region(options.region, log_of_command(), is_read_only=True)
    if not region.map_change.is_empty:
        outputs.say(f"{region.file_map.name} has changed: {region.map_change}")
    with _reports(outputs) as report:
        async with looking_at(region) as controller:
            content: Document
            facts = region_as_json(controller)
            shown = region_line(facts)
            if options.once:
                light = _light(controller)
                lines = (_light_line(circuit, budgets) for circuit, budgets in light.items())
                by_circuit = {str(one): light_as_json(budgets) for one, budgets in light.items()}
                content = {"region": facts, "light": by_circuit}
                report(content, shown, *_switches(controller), *lines)
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
        yield f"  {name}: {switch.vendor} {switch.model} {size}, serial {switch.serial}{software}"


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


def _light_line(circuit: NicPair, light: Iterable[LossBudget]) -> str:
    shown = (f"{reading.placed.cross_connect}: {_shown(reading.loss_db)}" for reading in light)
    return "  ".join((f"  {circuit}", *shown))


def _shown(loss_db: float | None) -> str:
    return "not measured" if loss_db is None else f"{loss_db:.1f} dB"
