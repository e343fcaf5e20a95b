"""Tables of time slots."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from lightloom.report.terminal import plain_table, print_table
from lightloom.trace.slots import SlotPlan
from lightloom.units import show_number, show_time

Pairs = list[tuple[SlotPlan, SlotPlan]]
_CHOICES = ("best", "smallest")
_TIERS = {1: ("crossbar",), 2: ("leaf", "spine"), 3: ("leaf", "spine", "core")}


def print_slots(pairs: Pairs, tiers: int, console: Console) -> None:
    """Print the slots of each tier: the best length, and the one for the smallest transfer."""
    table = plain_table(
        "Time slots of the busiest role",
        ["tier", "slot for", "length", "payload [MB]", "slots", "time", "latency, guard",
         "rounding", "efficiency [%]"],
    )  # fmt: skip
    for pair in pairs:
        for choice, plan in zip(_CHOICES, pair, strict=True):
            table.add_row(
                _TIERS[tiers][plan.tier - 1], choice, show_time(plan.slot_s),
                show_number(plan.payload_bytes / 1e6), f"{plan.slots:,}", show_time(plan.time_s),
                show_time(plan.overhead_s), show_time(max(plan.rounding_s, 0.0)),
                f"{100 * plan.efficiency:.1f}",
            )  # fmt: skip
    print_table(table, console)
    if not pairs:
        console.print("\nnothing is sent in this step")


def slots_as_json(pairs: Pairs) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "tiers": [
            {
                "tier": pair[0].tier,
                **{name: _as_json(plan) for name, plan in zip(_CHOICES, pair, strict=True)},
            }
            for pair in pairs
        ]
    }


def _as_json(plan: SlotPlan) -> dict[str, Any]:
    return {
        "slot_s": plan.slot_s, "payload_bytes": plan.payload_bytes, "role": plan.role,
        "slots": plan.slots, "time_s": plan.time_s, "sending_s": plan.sending_s,
        "overhead_s": plan.overhead_s, "rounding_s": plan.rounding_s,
        "efficiency": plan.efficiency,
    }  # fmt: skip
