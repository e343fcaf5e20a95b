"""How much of their links all-to-alls and gathers use, by volume (MoNTA, Figure 13).

    python experiments/monta-fig13/run.py [--write | --check | --fast]

Prints the table; ``--write`` puts it into table.md and draws figure.svg.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawing import Figure, Line
from monta import EP, NIC_GBPS, NVLINK_GBPS, TP, all_to_alls
from results import markdown, run, settings

HERE = Path(__file__).parent
VALUES = settings(HERE)


def used_percent(operation: str, volume_mb: float) -> float:
    """The rate of an operation over that of its link; of a volume, own tokens do not travel."""
    cluster = all_to_alls().cluster
    curve, stays, gbps = {
        "all_to_all": (cluster.all_to_all, 1 / EP, NIC_GBPS),
        "gather": (cluster.gather, 1 / TP, NVLINK_GBPS),
    }[operation]
    moved = volume_mb * 1e6 * (1 - stays)
    return 100 * moved / curve.time_s(moved) / (gbps * 1e9 / 8)


def render(*, fast: bool) -> dict[Path, str]:
    """The table and the figure."""
    volumes = VALUES["volumes_mb"][:: 4 if fast else 1]
    lines, columns = [], []
    for color, (operation, name) in enumerate(
        {"all_to_all": "all-to-all, 200 Gb/s", "gather": "gather, 200 GB/s"}.items()
    ):
        here = [used_percent(operation, volume) for volume in volumes]
        paper = [VALUES["published"][operation].get(f"{volume:g}") for volume in volumes]
        lines += [Line(name, here, color), Line(f"{name}, paper", paper, color, is_dashed=True)]
        columns += [here, paper]
    rows = [
        [f"{volume:g}", *("-" if cell is None else f"{cell:.1f}" for cell in cells)]
        for volume, *cells in zip(volumes, *columns, strict=True)
    ]
    header = ["volume [MB]", "all-to-all [%]", "paper [%]", "gather [%]", "paper [%]"]
    text = (
        "# Rates of all-to-alls and gathers over those of their links\n\n"
        f"Made by run.py; see [README.md](README.md).\n\n{markdown(header, rows)}"
    )
    figure = Figure(
        "A start-up and a rate explain each published efficiency",
        "volume [MB]",
        "of the rate of the link [%]",
        volumes,
        lines,
        log_x=True,
    )
    return figure.beside(HERE, text, fast=fast)


if __name__ == "__main__":
    sys.exit(run(__doc__, render))
