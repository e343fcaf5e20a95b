"""Length over the lower bound by method and reconfiguration delay: a table and a figure.

    python experiments/schedule-methods/run.py [--write | --check]

Prints the table; ``--write`` writes it and the figure of docs/explanation/scheduling.md to their
files, ``--check`` says whether these are up to date.
"""

from __future__ import annotations

import functools
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.schedule import decompose
from lightloom.units import show_time

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from drawn_demand import dispatch_tokens  # noqa: E402
from figure import draw  # noqa: E402
from results import command_line, write_or_check  # noqa: E402

TABLE = HERE / "table.md"
FIGURE = HERE.parents[1] / "docs" / "images" / "schedule-methods.svg"

#: length over bound of a regime: a row per ratio, a column per method
Lengths = dict[str, npt.NDArray[np.float64]]


@functools.cache
def settings() -> dict[str, Any]:
    """The experiment's file."""
    return tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))


def measure() -> Lengths:
    """Mean length over bound of every regime, ``(ratios, methods)``."""
    values = settings()
    return {
        regime: np.mean([_one_draw(regime, seed) for seed in values["seeds"]], axis=0)
        for regime in values["regimes"]
    }


def _one_draw(regime: str, seed: int) -> list[list[float]]:
    values = settings()
    tokens = dispatch_tokens(
        regime,
        seed,
        ranks=values["servers"],
        experts=values["servers"],
        tokens_per_rank=values["tokens_per_server"],
        top_k=values["top_k"],
    )
    demand = tokens.astype(np.uint64) * np.uint64(values["token_bytes"])
    line_bytes = max(int(demand.sum(axis=axis).max()) for axis in (0, 1))
    line_s = line_bytes * 8 / (values["rate_gbps"] * 1e9)
    return [
        [_over_bound(demand, ratio * line_s, method) for method in values["methods"]]
        for ratio in values["ratios"]
    ]


def _over_bound(demand: npt.NDArray[np.uint64], delay_s: float, method: str) -> float:
    partial = method == "partial"
    found = decompose(
        demand,
        delay_s=delay_s,
        rate_gbps=settings()["rate_gbps"],
        method="open-shop" if partial else method,
        partial=partial,
    )
    return found.over_bound


def table(lengths: Lengths) -> str:
    """The table in Markdown."""
    values = settings()
    lines = ["# Length over the lower bound", ""]
    lines.append(
        f"{values['servers']} servers, mean of {len(values['seeds'])} draws; delay over line time "
        "in the first column."
    )
    for regime, title in values["regimes"].items():
        lines += ["", f"## {title}", ""]
        lines.append("| delay / line time | " + " | ".join(values["methods"]) + " |")
        lines.append("|---:|" + "---:|" * len(values["methods"]))
        for ratio, row in zip(values["ratios"], lengths[regime].tolist(), strict=True):
            cells = " | ".join(f"{value:.3f}" for value in row)
            lines.append(f"| {ratio:g} | {cells} |")
    return "\n".join(lines) + "\n"


def figure(lengths: Lengths) -> str:
    """The figure of docs/explanation/scheduling.md."""
    values = settings()
    columns = [values["methods"].index(name) for name in values["drawn"]]
    marks = [
        (delay_s / values["marks"]["line_s"], show_time(delay_s))
        for delay_s in values["marks"]["delays_s"]
    ]
    panels = {values["regimes"][regime]: rows[:, columns] for regime, rows in lengths.items()}
    note = (
        f"{values['servers']} servers, mean of {len(values['seeds'])} draws of synthetic demand; "
        f"dotted: delays where the line time is {show_time(values['marks']['line_s'])}"
    )
    return draw(values["ratios"], values["drawn"], panels, marks, note)


def main() -> int:
    """Print, write or check."""
    options = command_line(__doc__).parse_args()
    lengths = measure()
    made = {TABLE: table(lengths), FIGURE: figure(lengths)}
    if not (options.write or options.check):
        print(made[TABLE], end="")
    return write_or_check(made, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
