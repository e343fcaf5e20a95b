"""``lightloom control tour``: the whole controller on an emulated switch."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.inputs.strict import Strict

EXAMPLES = (
    "lightloom control tour",
    "lightloom control tour --seed 7",
    "lightloom control tour > tour.txt",
)
NOTES = "Nothing is needed for it, and nothing is left behind: the switch is emulated."


class TourOptions(Strict):
    """The tour."""

    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = Field(
        1, description="Seed of the random numbers; the first one where several are used."
    )


def command() -> Command:
    """Describe the command."""
    panel = Panel("Tour", (option(TourOptions, "seed", common=True),))
    return Command(panels=(panel, json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    from lightloom.control.journal import entry_as_json
    from lightloom.control.tour import tour

    outputs = call.take(Outputs, "output")
    outputs.check()
    seed = call.build(TourOptions).seed
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        outputs.say(line)

    changes = [entry_as_json(entry) for entry in asyncio.run(tour(say, seed))]
    outputs.write_json({"seed": seed, "lines": lines, "changes": changes})
