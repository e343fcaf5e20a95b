"""``lightloom control watch``: what the switches hold, whenever it changes."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated

from pydantic import Field

from lightloom.cli.control.target import RegionArgument
from lightloom.cli.options import Command, Given, Panel, option
from lightloom.inputs.strict import Switch, quantity

EXAMPLES = (
    "lightloom control watch region.toml",
    "lightloom control watch region.toml --every '1 s'",
    "lightloom control watch region.toml --once",
)
NOTES = "The switches are read, and nothing is changed; end it with Ctrl-C."


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
    return Command(panels=(panel,), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(given: Given) -> None:
    asyncio.run(_watch(given.build(WatchOptions)))


async def _watch(options: WatchOptions) -> None:
    from lightloom.cli.control.show import region_line
    from lightloom.control.optics import loss_budget
    from lightloom.control.running import looking_at, open_region
    from lightloom.control.switch import SwitchError

    region = open_region(options.region)
    async with looking_at(region) as controller:
        print(region_line(controller), flush=True)
        if options.once:
            for circuit in sorted(controller.observed.circuits):
                placed = controller.port_map.cross_connects(circuit)
                light = loss_budget(placed, controller.statuses, controller.limits, connected=True)
                print(
                    f"  {circuit}",
                    *(f"{one.placed.cross_connect}: {_shown(one.loss_db)}" for one in light),
                    sep="  ",
                )
            return
        shown = region_line(controller)
        while True:
            await asyncio.sleep(options.every_s)
            text = ""
            try:
                await controller.inspect()
                text = region_line(controller)
            except SwitchError as error:
                text = f"{region.file.name}: {error}"
            if text != shown:
                shown = text
                with contextlib.suppress(BrokenPipeError):
                    print(text, flush=True)


def _shown(loss_db: float | None) -> str:
    return "not measured" if loss_db is None else f"{loss_db:.1f} dB"
