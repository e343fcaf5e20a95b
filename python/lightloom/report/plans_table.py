"""The plans that a search considered, the chosen one first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from lightloom.report.grid import Grid, as_rich
from lightloom.report.terminal import print_table

#: plans that are shown
SHOWN = 10
#: degrees that are a column where they differ from 1
_OFTEN_ONE = ("cp", "etp", "vpp")


def print_plans(candidates: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print the ten best plans of a search; ``candidates`` are those of the results."""
    if not candidates:
        return
    print_table(as_rich(plans_grid(candidates)), console)


def plans_grid(candidates: Sequence[Mapping[str, Any]]) -> Grid:
    """A row for each of the best plans, steps scaled to the tokens of the first.

    Plans that were only estimated, from few layers, are left out.
    """
    shown = [one for one in candidates if not one["is_screened"]][:SHOWN]
    per_sequence = [one["predicted_step_time_s"] / _share(one) for one in shown]
    optional = [name for name in _OFTEN_ONE if any(one[name] > 1 for one in shown)]
    degrees = ["tp", "pp", "ep", *optional, "dp"]
    rows = []
    for one, each_s in zip(shown, per_sequence, strict=True):
        rows.append(
            [
                *(f"{one[name]:,}" for name in degrees),
                f"{one['micro_batches']:,} x {one['micro_batch_size']}",
                one["recompute"],
                one["peak_memory_bytes"] / 1e9,
                each_s * _share(shown[0]),
                f"{each_s / per_sequence[0]:.3f}",
            ]
        )
    return Grid(
        title=f"Plans: the best {len(rows)} of {len(candidates)} that fit",
        headers=[
            *((name.upper(), "") for name in degrees),
            ("micro-\nbatches", ""),
            ("recom-\nputed", ""),
            ("memory", "GB"),
            ("step", "s"),
            ("vs\nbest", ""),
        ],
        rows=rows,
        best=0,
        caption="DP: replicas of the experts; step: on a fat-tree, of equal tokens",
    )


def _share(one: Mapping[str, Any]) -> float:
    """Sequences of a step on so many GPUs, but for a factor that all plans share."""
    ranks: float = one["tp"] * one["pp"] * one["cp"]
    return float(one["micro_batches"] * one["micro_batch_size"]) / ranks
