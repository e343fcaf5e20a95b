"""Whole steps on every fabric: time, cost and power."""

from __future__ import annotations

import csv
import dataclasses
import io
import sys
from pathlib import Path
from typing import Any

from lightloom.cost import PartsCostModel
from lightloom.fabric import job_context, load_fabric
from lightloom.hardware import load_power, load_prices
from lightloom.simulate import simulate
from lightloom.study.compare.job import Job, demand_source, prepare
from lightloom.study.compare.scenario import Scenario
from lightloom.workload.build import build
from lightloom.workload.options import WorkloadOptions

#: of a step: its time, and of the mean GPU all-to-alls, rings and pipeline messages; cost and power
#: of the network per GPU
COLUMNS = ("step_s", "all_to_all_s", "rings_s", "pipeline_s", "usd_per_gpu", "watts_per_gpu")
#: these by job and fabric
Steps = dict[tuple[str, str], tuple[float, ...]]


def prepared(values: dict[str, Any], job: dict[str, Any]) -> Job:
    """A job on its cluster."""
    stated = values["scenario"]
    scenario = {
        **stated,
        "model": job["model"],
        "gpus": job["gpus"],
        "fabrics": ("fat-tree",),
        "cluster": {"rate_gbps": values["rate_gbps"], "gpu": values["gpu"]},
        "demand": {"source": values["demand"]},
        "plan": {**stated["plan"], **job["plan"]},
        "seeds": 1,
    }
    return prepare(Scenario.model_validate(scenario))


def simulate_job(values: dict[str, Any], entry: dict[str, Any]) -> Steps:
    """One job on every fabric."""
    job = prepared(values, entry)
    graph = build(
        job.model,
        job.plan,
        demand=demand_source(job.scenario, job.model, job.plan, values["seed"]),
        compute=job.compute,
        gpus_per_server=job.cluster.gpus_per_server,
        options=WorkloadOptions(rank_level=job.plan.etp < job.cluster.gpus_per_server),
    ).graph
    context = job_context([graph])
    prices, powers, model = load_prices(), load_power(), PartsCostModel()
    cells: Steps = {}
    for fabric in values["fabrics"]:
        cluster = dataclasses.replace(job.cluster, rate_gbps=float(values["rate_gbps"]))
        chosen = load_fabric(fabric["kind"], {**values["links"], **fabric.get("options", {})})
        run = simulate(graph, chosen.network(cluster, context))
        bill = chosen.bill_of_materials(cluster)
        mean = run.mean_s
        cells[entry["name"], fabric["name"]] = (
            round(run.step_time_s, 6),
            *(round(mean.get(name, 0.0), 6) for name in ("ep", "dp", "pp")),
            round(model.capital_cost(bill, prices).per_gpu_usd, 1),
            round(model.power(bill, powers).per_gpu_w, 2),
        )
        print(f"{entry['name']}, {fabric['name']}: {run.step_time_s:.3f} s", file=sys.stderr)
    return cells


def simulate_all(values: dict[str, Any], known: Steps) -> Steps:
    """Every job; one of which all is known is not simulated again."""
    found: Steps = {}
    for job in values["jobs"]:
        keys = [(job["name"], fabric["name"]) for fabric in values["fabrics"]]
        if all(key in known for key in keys):
            found |= {key: known[key] for key in keys}
        else:
            found |= simulate_job(values, job)
    return found


def text_of(found: Steps) -> str:
    """Text of steps.csv."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("job", "fabric", *COLUMNS))
    lines.writerows((*key, *cells) for key, cells in found.items())
    return text.getvalue()


def read(path: Path) -> Steps:
    """The steps of a file, none if there is no such."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8") as lines:
        return {
            (row["job"], row["fabric"]): tuple(float(row[name]) for name in COLUMNS)
            for row in csv.DictReader(lines)
        }


def table(values: dict[str, Any], found: Steps) -> list[str]:
    """Lines of the table of steps."""
    lines = [
        "",
        "## A whole step",
        "",
        f"Step of {values['gpu'].upper()} at {values['rate_gbps']} Gb/s; all-to-alls, rings and"
        " pipeline messages of the mean GPU; cost and power of the network, those of crossbars"
        " assumed.",
        "",
        "| job | fabric | step [s] | over fat-tree | all-to-all [s] | rings [s] | pipeline [s]"
        " | $ per GPU | W per GPU |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for (job, fabric), (step, all_to_all, rings, pipeline, usd, watts) in found.items():
        base = found[job, "fat-tree"][0]
        lines.append(
            f"| {job} | {fabric} | {step:.3f} | {step / base:.3f} | {all_to_all:.3f} | {rings:.3f}"
            f" | {pipeline:.3f} | {usd:,.0f} | {watts:.1f} |"
        )
    return lines
