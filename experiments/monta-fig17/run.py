"""Steps by strategy over the baseline (MoNTA, Figure 17).

    python experiments/monta-fig17/run.py [--write | --check | --fast]

Prints the table; ``--write`` puts it into table.md and draws figure.svg. All-to-alls are a share
of the baseline's step, which is taken from the paper; the rest of the step stays as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lightloom.planner.strategy import AllToAllStrategy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawing import Figure, Line
from monta import step
from results import markdown, run, settings

HERE = Path(__file__).parent
VALUES = settings(HERE)


def render(*, fast: bool) -> dict[Path, str]:
    """The table and the figure."""
    names, share = VALUES["strategies"][: 1 if fast else None], VALUES["share"]
    tokens = 1024 * VALUES["length_k"]
    steps = [step(AllToAllStrategy(name), tokens, share) for name in names]
    rows = []
    for name, time in zip(names, steps, strict=True):
        after = 100 * (1 - (1 - share) / time)
        paper = VALUES["published"].get(name)
        shown = "worse than O1 and O2" if paper is None else f"{paper:.2f}"
        rows.append([name, f"{time:.3f}", shown, f"{after:.1f}"])
    # what the paper's two shares, and no other number, say of the step
    implied = (1 - share) / (1 - VALUES["share_after"])
    text = (
        "# Steps by strategy over the baseline\n\n"
        f"The paper's shares of all-to-alls, 22 and 10 %, alone give {implied:.3f}. Made by run.py;"
        " see [README.md](README.md).\n\n"
        f"{markdown(['strategy', 'step', 'paper', 'all-to-alls of it [%]'], rows)}"
    )
    figure = Figure(
        "At 8K tokens O1 and O2 shorten a step by an eighth, O3 by less",
        "strategy",
        "step over the baseline's",
        names,
        [
            Line("here", steps, 0),
            Line("paper", [VALUES["published"].get(name) for name in names], 0, is_dashed=True),
        ],
    )
    return figure.beside(HERE, text, fast=fast)


if __name__ == "__main__":
    sys.exit(run(__doc__, render))
