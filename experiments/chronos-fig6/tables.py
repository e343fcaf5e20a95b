"""The table of the experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cases
import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]

#: name in the settings and title in the table
TITLES = {
    "tuned": "DCQCN, six parameters tuned, as in the paper",
    "published": "DCQCN, parameters of the ns-3 model",
    "timer": "DCQCN, seven parameters tuned: the increase timer too",
    "deep": "DCQCN, six parameters tuned, thresholds up to 100 MB",
    "roce": "RoCE with pauses (PFC), no congestion control",
}


def table(
    values: dict[str, Any], matrices: cases.Matrices, runs: Mapping[tuple[str, int], float]
) -> str:
    """Distribution of completion times and of what circuits gain, in Markdown."""
    circuits = matrices.circuits_s
    lines = [
        "# All-to-alls of 16 experts: circuits against packets",
        "",
        f"{values['matrices']['count']} matrices (synthetic), "
        f"{values['network']['rate_gbps']} Gb/s, round trip 1 us. The gain is the share of the",
        "packet network's time by which circuits (no switching time) are faster.",
        "",
        "| packet network | matrices | mean [ms] | gain: mean [%] | sd | min | 5 % | median "
        "| 95 % | max |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        "| *the paper: DCQCN, tuned (ns-3)* | 1000 | *13* | *22.04* | | | | | | *32* |",
    ]
    for name, packets in values["packet"].items():
        times = np.array([runs[name, index] for index in range(packets["count"])])
        lines.append(_row(TITLES[name], times, circuits[0, : len(times)]))
    lines.append(_row("ideal: max-min fair flows, no packets", matrices.fluid_s, circuits[0]))
    lines += [
        "",
        "| circuits | mean [ms] | over the busiest port, mean [%] | most [%] |",
        "|---|---:|---:|---:|",
    ]
    for delay_s, times in zip(values["circuits"]["delays_s"], circuits, strict=True):
        over = (times / matrices.lines_s - 1) * 100
        lines.append(
            f"| {delay_s * 1e9:g} ns to switch | {times.mean() * 1e3:.3f} | {over.mean():.4f} "
            f"| {over.max():.4f} |"
        )
    lines += ["", *_parameters(values)]
    return "\n".join(lines) + "\n"


def _row(title: str, times: Times, circuits: Times) -> str:
    gain = (1 - circuits / times) * 100
    points = (gain.min(), *np.percentile(gain, [5, 50, 95]), gain.max())
    # nothing below a hundredth, and no minus before zero
    cells = [gain.mean(), gain.std(), *points]
    shown = " | ".join(f"{round(float(cell), 2) + 0.0:.2f}" for cell in cells)
    return f"| {title} | {len(times)} | {times.mean() * 1e3:.2f} | {shown} |"


def _parameters(values: dict[str, Any]) -> list[str]:
    """Parameters of each DCQCN."""
    found = {
        name: cases.parameters(values, name)
        for name, packets in values["packet"].items()
        if packets["transport"] == "dcqcn" and "as" not in packets
    }
    keys = {
        "ecn_min_bytes": ("Kmin [kB]", 1e-3),
        "ecn_max_bytes": ("Kmax [kB]", 1e-3),
        "ecn_probability": ("Pmax", 1.0),
        "additive_gbps": ("R_AI [Mb/s]", 1e3),
        "hyper_gbps": ("R_HAI [Mb/s]", 1e3),
        "gain": ("g", 1.0),
        "increase_interval_s": ("increase timer [us]", 1e6),
    }
    lines = [f"| parameter | {' | '.join(found)} |", "|---|" + "---:|" * len(found)]
    for key, (title, factor) in keys.items():
        cells = " | ".join(f"{own[key] * factor:.5g}" for own in found.values())
        lines.append(f"| {title} | {cells} |")
    return lines
