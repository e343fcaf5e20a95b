"""Training steps of Mixtral 8x7B on the fabrics of MixNet's Figure 12, with packets.

    python experiments/mixnet-fig12-packet/run.py [--write | --check] [--resume]

Plays a step on each fabric at each rate as flows and, with every transport, as flows that take as
long as a sample of their phases takes as packets. ``--write`` puts the table into table.md and step
times into steps.csv, after each rate; ``--resume`` takes what is already there from steps.csv;
``--check`` says whether the files are what would be written.
"""

from __future__ import annotations

import csv
import io
import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lightloom.simulate import Packets, Phases, simulate

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "mixnet-fig12"), str(HERE.parent)]
from cells import Experiment, Model  # noqa: E402
from results import command_line, write_or_check  # noqa: E402

TABLE, STEPS = HERE / "table.md", HERE / "steps.csv"
COLUMNS = ("rate_gbps", "transport", "fabric", "step_s", "ep_stretch")
FLOWS = "flows"

Steps = dict[tuple[str, str, str], tuple[float, float]]


def step_times(values: dict[str, Any], rate: int) -> Iterator[tuple[tuple[str, str, str], Any]]:
    """Step time and mean stretch of all-to-alls of every fabric and transport at a rate."""
    experiment = Experiment.load()
    model = Model(experiment, values["model"], experiment.assumptions[values["assumptions"]])
    graph = model.graph(values["seed"])

    def one(task: tuple[str, str]) -> tuple[tuple[str, str, str], tuple[float, float]]:
        transport, fabric = task
        network = model.network(fabric, rate)
        stretch = 1.0
        if transport == FLOWS:
            run = simulate(graph, network)
        else:
            phases = Phases(network, Packets(transport), values["phases"])
            phases.survey(graph, network)
            run = simulate(graph, network, network_model=phases)
            stretch = phases.counts()["ep"].mean
        print(f"{rate} Gb/s, {fabric}, {transport}", file=sys.stderr, flush=True)
        found = (float(f"{run.step_time_s:.6f}"), float(f"{stretch:.4f}"))
        return (str(rate), transport, fabric), found

    names = [FLOWS, *values["transports"]]
    tasks = [(transport, fabric) for transport in names for fabric in values["fabrics"]]
    assert model.context is not None  # made once, before threads ask for it
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        yield from pool.map(one, tasks)


def read_steps() -> Steps:
    """What is in steps.csv."""
    with STEPS.open(encoding="utf-8") as lines:
        rows = list(csv.reader(lines))[1:]
    return {(row[0], row[1], row[2]): (float(row[3]), float(row[4])) for row in rows}


def csv_text(steps: Steps) -> str:
    """Text of steps.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for key in sorted(steps):
        step_s, stretch = steps[key]
        writer.writerow([*key, f"{step_s:.6f}", f"{stretch:.4f}"])
    return text.getvalue()


def render(values: dict[str, Any], steps: Steps) -> str:
    """Step times over the fastest of each transport, and the order of the fabrics."""
    fabrics = values["fabrics"]
    lines = [
        "# Transports and the ranking of fabrics",
        "",
        f"{values['model']}, 1,024 GPUs: step time over that of the fastest fabric with the same"
        " transport; in brackets how much longer all-to-alls take alone than as flows. Of each"
        f" purpose {values['phases']} distinct phases per cell are simulated as packets.",
        "",
        "| rate [Gb/s] | transport | fastest [s] | " + " | ".join(fabrics) + " | order |",
        "|---|---|---:|" + "---:|" * len(fabrics) + "---|",
    ]
    for rate in map(str, values["rates_gbps"]):
        for transport in [FLOWS, *values["transports"]]:
            cells = {fabric: steps[rate, transport, fabric] for fabric in fabrics}
            best = min(step_s for step_s, _ in cells.values())
            shown = [f"{step_s / best:.3f} ({r:.2f})" for step_s, r in cells.values()]
            order = sorted(fabrics, key=lambda fabric: cells[fabric][0])
            lines.append(
                f"| {rate} | {transport} | {best:.2f} | {' | '.join(shown)} | {' '.join(order)} |"
            )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment."""
    options = command_line(__doc__, resume=True).parse_args(arguments)
    values = tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))
    steps: Steps = read_steps() if options.resume and STEPS.exists() else {}
    for rate in values["rates_gbps"]:
        names = [FLOWS, *values["transports"]]
        if not {(str(rate), t, f) for t in names for f in values["fabrics"]} <= steps.keys():
            steps |= dict(step_times(values, rate))
            if options.write:
                STEPS.write_text(csv_text(steps), encoding="utf-8")
    text = render(values, steps)
    print(text, end="")
    return write_or_check({TABLE: text, STEPS: csv_text(steps)}, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
