"""A table of how unevenly tokens chose experts in a routing log."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from lightloom.demand import RoutingLog
from lightloom.report.terminal import plain_table, print_table
from lightloom.trace.importers.routing import LayerLoad


def print_loads(log: RoutingLog, loads: Sequence[LayerLoad], console: Console) -> None:
    """Print the load of experts, layer by layer."""
    parts = [f"routing log ({log.form}): top-{log.top_k}", f"{len(loads):,} layers"]
    if not log.streamed:
        parts += [f"{len(log.ranks):,} ranks", f"{len(log.steps):,} steps"]
    console.print(", ".join(parts), highlight=False, markup=False, soft_wrap=True)
    table = plain_table(
        "Load of experts",
        ["layer", "token copies", "experts", "used", "largest over mean", "top quarter [%]"],
        caption="Over all steps and ranks. lightloom demand shows what ranks send each other.",
    )
    for load in loads:
        table.add_row(
            str(load.layer), f"{load.copies:,}", f"{load.experts:,}", f"{load.used:,}",
            f"{load.largest:.2f}", f"{100 * load.top_share:.1f}",
        )  # fmt: skip
    print_table(table, console)
