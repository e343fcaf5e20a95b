"""Cost against speed of a comparison: what its drawing and its chart show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lightloom.report.plots import Point, speed_unit, usd_unit
from lightloom.report.plots_svg import FabricStyle
from lightloom.study.compare.results import FabricResult


def pareto_points(
    results: Sequence[FabricResult], styles: Mapping[str, FabricStyle]
) -> list[Point]:
    """Cost and speed of each fabric; intervals are those of the ratio to the fastest.

    The interval of the step time would show how fast the GPUs might be, which is the same for all.
    """
    best = max(r.pace for r in results)
    return [
        Point(
            styles[r.fabric],
            r.network_cost_usd,
            r.pace,
            min(r.pace, best / r.ratio_to_fastest[2]),
            max(r.pace, best / r.ratio_to_fastest[0]),
            r.pace_unit,
        )
        for r in results
    ]


def pareto_data(
    results: Sequence[FabricResult], styles: Mapping[str, FabricStyle]
) -> dict[str, Any]:
    """What the chart of cost against speed draws, and its units."""
    points = pareto_points(results, styles)
    costs = {
        "network": [r.network_cost_usd for r in results],
        "cluster": [r.cluster_cost_usd for r in results],
    }
    units = {of: usd_unit(max(values)) for of, values in costs.items()}
    unit, name = speed_unit(points)
    return {
        "points": [
            {
                "name": p.style.name,
                "color": p.style.color,
                "mark": p.style.mark,
                "speed": p.speed,
                "low": p.low,
                "high": p.high,
                **{of: values[i] for of, values in costs.items()},
            }
            for i, p in enumerate(points)
        ],
        "usd_unit": {of: unit for of, (unit, _) in units.items()},
        "usd_name": {of: name for of, (_, name) in units.items()},
        "speed_unit": unit,
        "speed_name": name,
        "pace_unit": points[0].unit,
    }
