"""The table of the experiment."""

from __future__ import annotations

from collections.abc import Mapping

import cases
import numpy as np
import numpy.typing as npt
from settings import Settings

Times = npt.NDArray[np.float64]


def table(
    settings: Settings, matrices: cases.Matrices, runs: Mapping[tuple[str, int], float]
) -> str:
    """Distribution of completion times and of what circuits gain, in Markdown."""
    circuits = matrices.circuits_s
    round_trip_us = 4 * settings.network.link_delay_s * 1e6
    lines = [
        "# All-to-alls of 16 experts: circuits against packets",
        "",
        f"{settings.matrices.count} matrices (synthetic), {settings.network.rate_gbps} Gb/s, "
        f"round trip {round_trip_us:g} us. The gain is the share of the",
        "packet network's time by which circuits (no switching time) are faster.",
        "",
        "| packet network | matrices | mean [ms] | gain: mean [%] | sd | min | 5 % | median "
        "| 95 % | max |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        "| *the paper: DCQCN, tuned (ns-3)* | 1000 | *13* | *22.04* | | | | | | *32* |",
    ]
    for name, packets in settings.packet.items():
        times = np.array([runs[name, index] for index in range(packets.count)])
        lines.append(_row(packets.title, times, circuits[0, : len(times)]))
    lines.append(_row("ideal: max-min fair flows, no packets", matrices.fluid_s, circuits[0]))
    lines += [
        "",
        "| circuits | mean [ms] | over the busiest port, mean [%] | most [%] |",
        "|---|---:|---:|---:|",
    ]
    for delay_s, times in zip(settings.circuits.delays_s, circuits, strict=True):
        over = (times / matrices.lines_s - 1) * 100
        lines.append(
            f"| {delay_s * 1e9:g} ns to switch | {times.mean() * 1e3:.3f} | {over.mean():.4f} "
            f"| {over.max():.4f} |"
        )
    lines += ["", *_parameters(settings)]
    return "\n".join(lines) + "\n"


def _row(title: str, times: Times, circuits: Times) -> str:
    gain = (1 - circuits / times) * 100
    points = (gain.min(), *np.percentile(gain, [5, 50, 95]), gain.max())
    # nothing below a hundredth, and no minus before zero
    cells = [gain.mean(), gain.std(), *points]
    shown = " | ".join(f"{round(float(cell), 2) + 0.0:.2f}" for cell in cells)
    return f"| {title} | {len(times)} | {times.mean() * 1e3:.2f} | {shown} |"


def _parameters(settings: Settings) -> list[str]:
    """Parameters of each DCQCN."""
    sections = {own.tuned: None for own in settings.packet.values() if own.transport == "dcqcn"}
    found = {name or "published": cases.parameters(settings, name) for name in sections}
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
