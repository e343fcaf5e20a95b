"""``lightloom trace slots``: how long time slots are best, and what a step loses to them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_output
from lightloom.cli.trace.permutations import (
    FabricSizes,
    TraceOptions,
    expanded,
    fabric_panel,
    routed,
    trace_options,
)
from lightloom.errors import InputError
from lightloom.inputs.strict import quantity

EXAMPLES = (
    "lightloom trace slots trace.json --guard 1ms",
    "lightloom trace slots trace.json --rate 800 --latency 10us --guard 10ns",
    "lightloom trace slots trace.json --rate 800 --leaf 8 --latency 200ns --latency 10us",
)
NOTES = (
    "A slot carries its payload, and waits for the latency and the guard time (Chronos, section "
    "6). Transfers take whole slots. The best length is that with which the busiest role is done "
    "first; 'smallest' is the slot of the smallest transfer, as the paper chooses it. Times are of "
    "communication alone, one call after another."
)
Seconds = Annotated[float, quantity("second"), Field(ge=0, le=3600)]


class SlotOptions(TraceOptions):
    """What slots wait for."""

    rate_gbps: Annotated[float, quantity("gigabit / second"), Field(ge=1e-3, le=1e6)] = Field(
        800.0, description="Rate of one NIC and link, per direction."
    )
    latency_s: tuple[Seconds, ...] = Field(
        (),
        max_length=3,
        description="Largest one-way latency between ranks, 1 us by default; several times for "
        "the tiers of a fabric, leaves first.",
    )
    guard_s: Seconds = Field(
        10e-9, description="Time in which crossbars turn: 10 ns if electronic, 1 ms of MEMS."
    )


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(
            Panel("Arguments", trace_options(SlotOptions)),
            Panel(
                "Slots",
                (
                    option(SlotOptions, "rate_gbps", common=True),
                    option(SlotOptions, "latency_s", common=True, repeats=True),
                    option(SlotOptions, "guard_s", common=True),
                ),
            ),
            fabric_panel(),
            Panel("Output", (json_output(),)),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(call: CommandCall) -> None:
    from lightloom.cli.terminal import remarks_console, results_console
    from lightloom.report.slots_table import print_slots, slots_as_json
    from lightloom.trace.slots import SlotTiming, best_slots, smallest_chunk, transfers_of

    outputs = call.take(Outputs, "output")
    sizes = call.take(FabricSizes, "fabric")
    options = call.build(SlotOptions)
    outputs.check(vars(options))
    tiers = 1 if sizes.leaf is None else 2 if sizes.pod is None else 3
    given_s = options.latency_s or (1e-6,)
    if len(given_s) not in (1, tiers):
        raise InputError(
            f"--latency is given {len(given_s)} times: expected once"
            + (f", or once for each of {tiers} tiers" if tiers > 1 else "; --leaf has tiers")
        )
    latencies = given_s * (tiers if len(given_s) == 1 else 1)
    timings = [SlotTiming(options.rate_gbps, latency, options.guard_s) for latency in latencies]
    stack = expanded(options, timings[-1].overhead_bytes)
    stack.check()
    tables = []
    for transfers in transfers_of(stack, routed(stack, sizes)):
        timing = timings[transfers.tier - 1]
        tables.append((best_slots(transfers, timing), smallest_chunk(transfers, timing)))
    print_slots(tables, tiers, remarks_console() if outputs.on_stdout else results_console())
    outputs.write_json(slots_as_json(tables))
