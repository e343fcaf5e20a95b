"""What relaying over third servers gains, in wide regions and in those of the MixNet paper.

    python experiments/relay-wide-regions/run.py [--write | --check] [--resume]

Simulates a step of every job of ``experiment.toml`` on every fabric at every rate and prints the
tables. ``--write`` puts them into table.md and the values into steps.csv, job by job; ``--resume``
keeps what is there; ``--check`` says whether the files are what would be written.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightloom.fabric import job_context, load_fabric
from lightloom.simulate import Run, simulate
from lightloom.study.compare.job import Job, demand_source, prepare
from lightloom.study.compare.scenario import Scenario
from lightloom.workload.build import build
from lightloom.workload.options import WorkloadOptions

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from results import command_line, write_or_check  # noqa: E402

TABLE, STEPS = HERE / "table.md", HERE / "steps.csv"
COLUMNS = ("job", "fabric", "rate_gbps", "step_s", "all_to_all_s", "relayed_share", "switched")

#: cell of steps.csv by job, fabric and rate: step and all-to-all on the mean GPU in seconds, part
#: of the all-to-alls' bytes that was relayed, reconfigurations
Cells = dict[tuple[str, str, int], tuple[float, float, float, int]]


def prepared(values: dict[str, Any], job: dict[str, Any]) -> Job:
    """A job on its cluster."""
    stated = values["scenario"]
    scenario = {
        **stated,
        "model": job["model"],
        "gpus": job["gpus"],
        "fabrics": ("fat-tree",),
        "cluster": {"rate_gbps": values["rates_gbps"][0], "gpu": values["gpu"]},
        "demand": {"source": values["demand"]},
        "plan": {**stated["plan"], **job["plan"]},
        "seeds": 1,
    }
    return prepare(Scenario.model_validate(scenario))


def simulate_job(values: dict[str, Any], entry: dict[str, Any]) -> Cells:
    """Every fabric at every rate."""
    job = prepared(values, entry)
    demand = demand_source(job.scenario, job.model, job.plan, values["seed"])
    graph = build(
        job.model,
        job.plan,
        demand=demand,
        compute=job.compute,
        gpus_per_server=job.cluster.gpus_per_server,
        options=WorkloadOptions(rank_level=job.plan.etp < job.cluster.gpus_per_server),
    ).graph
    context = job_context([graph])
    cells: Cells = {}
    for fabric in values["fabrics"]:
        for rate in values["rates_gbps"]:
            started = time.perf_counter()
            cluster = dataclasses.replace(job.cluster, rate_gbps=float(rate))
            chosen = load_fabric(fabric["kind"], {**values["links"], **fabric.get("options", {})})
            run = simulate(graph, chosen.network(cluster, context))
            cells[entry["name"], fabric["name"], rate] = cell_of(run)
            took = time.perf_counter() - started
            print(f"{entry['name']}, {fabric['name']}, {rate}: {took:.0f} s", file=sys.stderr)
    return cells


def cell_of(run: Run) -> tuple[float, float, float, int]:
    """What the tables say of a run, rounded as in the file."""
    moved = run.purpose_bytes["ep"]
    carried = moved["eps"] + moved["ocs"]
    share = moved["relayed"] / carried if carried else 0.0
    waiting_s = run.mean_s["ep"] + run.mean_s["reconfiguration"]
    rounded = (round(run.step_time_s, 6), round(waiting_s, 6), round(share, 4))
    return (*rounded, run.circuits.reconfigurations)


def table(values: dict[str, Any], cells: Cells) -> str:
    """Step times and gains."""
    names = [fabric["name"] for fabric in values["fabrics"]]
    heads = [f"{name} [s]" for name in names]
    gains = ["gain over paper", "gain over ours", "relayed"]
    lines = [
        "# Relaying over third servers",
        "",
        "Step times; in brackets all-to-alls and waits for circuits on the mean GPU. The gains are",
        "those of `ours, relaying`: the other step time over its own, less 1. `relayed`: part of",
        "the all-to-alls' bytes between servers that a third server passed on.",
        "",
        "| " + " | ".join(["job", "servers", "Gb/s", *heads, *gains]) + " |",
        "|---|---:|---:|" + "---:|" * (len(heads) + len(gains)),
    ]
    for job in values["jobs"]:
        for rate in values["rates_gbps"]:
            if (job["name"], names[0], rate) not in cells:
                continue
            row = [cells[job["name"], name, rate] for name in names]
            steps = [f"{step:.3f} ({waiting:.3f})" for step, waiting, _, _ in row]
            relayed = row[names.index("ours, relaying")]
            over = [
                f"{100 * (row[names.index(name)][0] / relayed[0] - 1):.1f} %"
                for name in ("paper", "ours")
            ]
            texts = [job["name"], str(job["servers"]), str(rate), *steps, *over]
            lines.append("| " + " | ".join([*texts, f"{100 * relayed[2]:.0f} %"]) + " |")
    return "\n".join(lines) + "\n"


def read_cells() -> Cells:
    """The values of steps.csv."""
    with STEPS.open(encoding="utf-8") as lines:
        return {
            (row["job"], row["fabric"], int(row["rate_gbps"])): (
                float(row["step_s"]),
                float(row["all_to_all_s"]),
                float(row["relayed_share"]),
                int(row["switched"]),
            )
            for row in csv.DictReader(lines)
        }


def steps_csv(cells: Cells) -> str:
    """Text of steps.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for key in sorted(cells):
        writer.writerow([*key, *cells[key]])
    return text.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment."""
    options = command_line(__doc__, resume=True).parse_args(arguments)
    values = tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))
    cells = read_cells() if options.resume and STEPS.exists() else {}
    there = {job for job, _, _ in cells}
    for job in values["jobs"]:
        if job["name"] not in there:
            cells |= simulate_job(values, job)
            if options.write:
                STEPS.write_text(steps_csv(cells), encoding="utf-8")
    wanted = {TABLE: table(values, cells), STEPS: steps_csv(cells)}
    print(wanted[TABLE], end="")
    return write_or_check(wanted, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
