"""All-to-alls by strategy over the baseline, by sequence length (MoNTA, Figure 14).

    python experiments/monta-fig14/run.py [--write | --check | --fast]

Prints the table; ``--write`` puts it into table.md and draws figure.svg.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lightloom.planner.strategy import AllToAllStrategy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawing import Figure, Line
from monta import CHUNKS, all_to_alls, ratio, volume
from results import markdown, run, settings

HERE = Path(__file__).parent
VALUES = settings(HERE)


def render(*, fast: bool) -> dict[Path, str]:
    """The table and the figure."""
    lengths = VALUES["lengths_k"][:: 3 if fast else 1]
    found = {
        name: [ratio(AllToAllStrategy(name), 1024 * k, fitted=True) for k in lengths]
        for name in VALUES["strategies"]
    }
    runs = all_to_alls(fitted=True)
    rows = []
    for place, k in enumerate(lengths):
        base_ms = 1e3 * runs.time_s(AllToAllStrategy.BASELINE, volume(1024 * k))
        plain = all_to_alls().choose(volume(1024 * k), CHUNKS).chosen
        taken = runs.choose(volume(1024 * k), CHUNKS).chosen
        ratios = (f"{values[place]:.3f}" for values in found.values())
        paper = VALUES["chosen"].get(str(k), "-")
        rows.append([f"{k}K", f"{base_ms:.2f}", *ratios, str(taken), paper, str(plain)])
    header = ["tokens", "baseline [ms]", *found, "taken", "paper", "without costs"]
    text = (
        "# All-to-alls by strategy over the baseline, four chunks\n\n"
        "Ratios have costs of a chunk that are fitted to what the paper takes; *without costs*:"
        " what is taken by the\npaper's own model. O4 is not the paper's and is not chosen from."
        f" Made by run.py; see [README.md](README.md).\n\n{markdown(header, rows)}"
    )
    lines = [Line(name, values, color) for color, (name, values) in enumerate(found.items())]
    for name, points in VALUES["published"].items():
        values = [points.get(str(k)) for k in lengths]
        color = VALUES["strategies"].index(name)
        lines.append(Line(f"{name}, paper", values, color, is_dashed=True))
    figure = Figure(
        "The volume decides which strategy is the fastest",
        "tokens of a sequence [K]",
        "time over the baseline",
        lengths,
        lines,
        log_x=True,
    )
    return figure.beside(HERE, text, fast=fast)


if __name__ == "__main__":
    sys.exit(run(__doc__, render))
