"""How much longer all-to-alls of MoE models take as packets than as flows, alone, by fabric.

    python experiments/packet-against-flow/run.py [--write | --check] [--resume]

Plays one step of each model on each fabric as flows, takes some of its all-to-alls with their bytes
as they are, and simulates each alone as packets with every transport. ``--write`` puts the table
into table.md and the numbers into phases.csv, after each model; ``--resume`` takes what is already
there from phases.csv; ``--check`` says whether the files are what would be written.
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

from lightloom.simulate import Packets, Phases
from lightloom.study.compare import Scenario
from lightloom.study.compare.builds import Networks, Workloads
from lightloom.study.compare.job import prepare

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from results import command_line, write_or_check  # noqa: E402

TABLE, PHASES = HERE / "table.md", HERE / "phases.csv"
KEY = ("model", "transport", "fabric")
COLUMNS = (*KEY, "simulated", "distinct", "packet_hops", "mean", "least", "greatest")

Rows = dict[tuple[str, ...], list[str]]


def values_of(values: dict[str, Any], model: str) -> dict[str, Any]:
    """What holds for a model."""
    return values | values["large"].get(model, {})


def measure(values: dict[str, Any], model: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """What all-to-alls of a model take on every fabric with every transport."""
    values = values_of(values, model)
    scenario = {
        **values["scenario"],
        "model": model,
        "gpus": values["gpus"],
        "fabrics": values["fabrics"],
        "cluster": {"rate_gbps": values["rate_gbps"], "gpu": values["gpu"]},
        # each copy of a token is a message, as in the papers' simulations
        "demand": {"source": values["demand"], "deduplicate": False},
        "seeds": 1,
        "seed": values["seed"],
    }
    job = prepare(Scenario.model_validate(scenario))
    workloads = Workloads(job)
    networks = Networks(job, workloads)

    def one(task: tuple[Any, str]) -> tuple[tuple[str, ...], list[str]]:
        fabric, transport = task
        network = networks.get(fabric)
        graph = workloads.get(job.samples()[0], networks.server_size(fabric)).graph
        phases = Phases(network, Packets(transport), values["phases"], purposes=["ep"])
        phases.survey(graph, network)
        phases.simulate()
        count = phases.counts()["ep"]
        found = [f"{x:.4f}" for x in (count.mean, count.minimum, count.maximum)]
        whole = [str(x) for x in (count.simulated, count.distinct, count.packet_hops)]
        print(f"{model}, {fabric.name}, {transport}: {found[0]}", file=sys.stderr, flush=True)
        return (model, transport, fabric.name), whole + found

    tasks = [(fabric, transport) for fabric in job.fabrics for transport in values["transports"]]
    for fabric in job.fabrics:
        networks.get(fabric)
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        yield from pool.map(one, tasks)


def read_rows() -> Rows:
    """What is in phases.csv."""
    with PHASES.open(encoding="utf-8") as lines:
        return {tuple(row[: len(KEY)]): row[len(KEY) :] for row in list(csv.reader(lines))[1:]}


def csv_text(rows: Rows) -> str:
    """Text of phases.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([*key, *rows[key]] for key in sorted(rows))
    return text.getvalue()


def render(values: dict[str, Any], rows: Rows) -> str:
    """The table: a line per model and transport, a column per fabric."""
    fabrics, aim = values["fabrics"], values["aim"]
    large = "".join(f", {own['phases']} of {name}" for name, own in values["large"].items())
    lines = [
        "# All-to-alls as packets against flows",
        "",
        f"Time of an all-to-all alone, as packets over as flows, less 1, in percent: the mean by"
        f" bytes of {values['phases']} per cell{large}. {values['gpus']:,} GPUs, NICs of"
        f" {values['rate_gbps']} Gb/s. **Bold**: beyond {100 * aim:.0f} %.",
        "",
        "| model | transport | " + " | ".join(fabrics) + " |",
        "|---|---|" + "---:|" * len(fabrics),
    ]
    for model in values["models"]:
        for transport in values_of(values, model)["transports"]:
            cells = []
            for fabric in fabrics:
                excess = float(rows[model, transport, fabric][3]) - 1
                text = f"{100 * excess:+.1f}"
                cells.append(f"**{text}**" if abs(excess) > aim else text)
            lines.append(f"| {model} | {transport} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment."""
    options = command_line(__doc__, resume=True).parse_args(arguments)
    values = tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))
    rows: Rows = read_rows() if options.resume and PHASES.exists() else {}
    for model in values["models"]:
        transports = values_of(values, model)["transports"]
        cells = {(model, t, f) for t in transports for f in values["fabrics"]}
        if not cells <= rows.keys():
            rows |= dict(measure(values, model))
            if options.write:
                PHASES.write_text(csv_text(rows), encoding="utf-8")
    text = render(values, rows)
    print(text, end="")
    return write_or_check({TABLE: text, PHASES: csv_text(rows)}, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
