"""Delays of MixNet's prototype, drawn by the switch emulator, and what hides them (Figures 20-23).

    python experiments/mixnet-prototype/run.py [--write | --check | --fast]

Prints the tables; ``--write`` puts them into table.md and draws figure.svg.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom import Scenario, compare
from lightloom.control.emulator.timing import MeasuredTime
from lightloom.hardware import nic_activation

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawing import Figure, Line
from one_sample import ONE_SAMPLE
from results import markdown, run, settings

HERE = Path(__file__).parent
VALUES = settings(HERE)
#: quantiles of the figure, %
QUANTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)


def turnarounds_ms(pairs: int) -> npt.NDArray[np.float64]:
    """Times in which the emulated switch turns some pairs, ms."""
    rng, time = random.Random(VALUES["seed"]), MeasuredTime()
    return np.array([1e3 * time.draw_s(pairs, rng) for _ in range(VALUES["draws"])])


def activations_s() -> npt.NDArray[np.float64]:
    """Times until a NIC carries traffic, s."""
    rng, delay = random.Random(VALUES["seed"]), nic_activation()
    drawn = [rng.lognormvariate(delay.mu, delay.sigma) for _ in range(VALUES["draws"])]
    return np.array(drawn)


def delays() -> tuple[str, Figure]:
    """Figures 21 and 23."""
    rows, lines = [], []
    published = zip(VALUES["pairs"], VALUES["mean_ms"], VALUES["p99_ms"], strict=True)
    for color, (pairs, mean, p99) in enumerate(published):
        drawn = turnarounds_ms(pairs)
        below = 100 * float(np.mean(drawn < VALUES["below_ms"]))
        cells = [f"{drawn.mean():.2f}", f"{mean}", f"{np.quantile(drawn, 0.99):.1f}", f"{p99}"]
        rows.append([f"switch turns {pairs} pairs [ms]", *cells, f"{below:.1f}"])
        quantiles = np.quantile(drawn, [q / 100 for q in QUANTILES])
        lines.append(Line(f"{pairs} pairs", quantiles.tolist(), color))
    drawn = activations_s()
    cells = [f"{drawn.mean():.2f}", f"{VALUES['nic_mean_s']}", f"{np.quantile(drawn, 0.99):.2f}"]
    rows.append(["NIC carries traffic again [s]", *cells, f"{VALUES['nic_p99_s']}", "-"])
    header = ["drawn", "mean", "paper", "99 % below", "paper", f"below {VALUES['below_ms']} ms [%]"]
    figure = Figure(
        "How long the emulated switch takes to turn",
        "share of turns that take no longer [%]",
        "time [ms]",
        QUANTILES,
        lines,
    )
    return markdown(header, rows), figure


def timeline() -> str:
    """Figure 22: from a command to the first bytes, for four pairs."""
    turn = float(turnarounds_ms(VALUES["pairs"][1]).mean()) / 1e3
    up = float(activations_s().mean())
    rows = [
        ["mirrors settle", f"{turn:.3f}", f"{turn:.3f}", f"{100 * turn / (turn + up):.1f}"],
        ["NIC active", f"{up:.3f}", f"{turn + up:.3f}", f"{100 * up / (turn + up):.1f}"],
    ]
    return markdown(["stage", "takes [s]", "ends [s]", "of all [%]"], rows)


def hidden(row: dict[str, Any]) -> list[str]:
    """Figure 20: what of the delays of a step computation hides."""
    scenario = Scenario(
        model=row["model"],
        gpus=row["gpus"],
        cluster={
            "gpu": "a100",
            "rate_gbps": row["rate_gbps"],
            "nics_per_server": row["nics_per_server"],
        },
        plan=row["plan"],
        demand={"source": "mixtral"},
        fabrics=("mixnet",),
        fabric_options={
            "mixnet": {
                "ports": row["ports"],
                "switch_ports": 64,
                "fixed_s": "measured",
                "link_up_s": 0,
                "when": "always",
                "first": "reuse",
            }
        },
        whole_steps=True,
        **ONE_SAMPLE,
    )
    found = compare(scenario).results[0].reconfiguration
    count, delay_s, hidden_s = (found[key] for key in ("reconfigurations", "delay_s", "hidden_s"))
    share = f"{100 * hidden_s / delay_s:.1f}" if delay_s else "-"
    return [row["name"], f"{found['decisions']:.0f}", f"{count:.0f}", f"{delay_s:.2f}", share]


def render(*, fast: bool) -> dict[Path, str]:
    """The tables and the figure."""
    shown, figure = delays()
    rows = [hidden(row) for row in VALUES["steps"][: 1 if fast else None]]
    header = ["step", "decisions", "reconfigurations", "delay of all [s]", "hidden [%]"]
    text = (
        "# Delays of MixNet's prototype\n\nMade by run.py; see [README.md](README.md).\n\n"
        "## Switch and NIC (Figures 21 and 23)\n\n"
        f"**Drawn**, not measured: {VALUES['draws']:,} times from log-normals with the published"
        f" mean and 99th percentile.\n\n{shown}\n"
        f"## From a command to the first bytes (Figure 22), four pairs\n\n{timeline()}\n"
        f"## What computation hides (Figure 20)\n\n{markdown(header, rows)}"
    )
    return figure.beside(HERE, text, fast=fast)


if __name__ == "__main__":
    sys.exit(run(__doc__, render))
