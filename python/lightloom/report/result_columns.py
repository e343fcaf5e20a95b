"""Values of results as columns: one unit and one number of digits each, in text and page alike."""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.study.compare.results import FabricResult
from lightloom.units import show_column

#: values of a result in tables: what they are multiplied by, and their digits
_SHOWN: dict[str, tuple[float, int]] = {
    "step_time_s": (1, 4),
    "mfu": (100, 3),
    "tokens_per_s_per_gpu": (1, 4),
    "days_per_trillion_tokens": (1, 3),
    "pace": (1, 4),
    "network_cost_usd": (1e-6, 3),
    "cluster_cost_usd": (1e-6, 3),
    "network_power_w": (1e-3, 3),
    "cluster_power_w": (1e-6, 3),
    "tokens_per_day": (1e-9, 3),
    "perf_per_usd": (1e3, 4),
    "perf_per_cluster_usd": (1e3, 4),
    "tokens_per_s_per_w": (1, 3),
    "energy_per_token_j": (1, 3),
    "usd_per_token": (1e9, 4),
}


def column(results: Sequence[FabricResult], name: str) -> list[str]:
    """A value of all fabrics as it is shown: the same decimals, in the unit of :data:`_SHOWN`."""
    factor, digits = _SHOWN[name]
    found: list[float | None] = [getattr(r, name) for r in results]
    scaled = [None if value is None else factor * value for value in found]
    if name.endswith("_cost_usd"):
        return [f"{value:,.2f}" for value in scaled]
    if name == "pace" and max(value or 0.0 for value in scaled) >= 1e7:
        millions = show_column((None if value is None else value / 1e6 for value in scaled), digits)
        return [f"{text}M" for text in millions]
    return show_column(scaled, digits)
