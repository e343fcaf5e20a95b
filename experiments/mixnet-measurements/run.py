"""Traffic by parallelism, and the share of all-to-alls by micro-batch (MixNet, Figures 2, 3, 17).

    python experiments/mixnet-measurements/run.py [--write | --check | --fast]

Prints the tables; ``--write`` puts them into table.md and draws figure.svg.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from lightloom import Scenario
from lightloom.study.compare.job import demand_source, prepare
from lightloom.workload.build import build
from lightloom.workload.options import WorkloadOptions

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawing import Figure, Line
from one_sample import ONE_SAMPLE, one_step
from results import markdown, run, settings

HERE = Path(__file__).parent
VALUES = settings(HERE)
#: what a GPU does in a layer besides all-to-alls; experts wait for the busiest of them
COMPUTE = ("attention", "gate", "expert", "straggler")
WORDS = {"balanced": "balanced", "mixtral": "skewed"}


def shares(model: str, load: str, size: int) -> tuple[float, float]:
    """All-to-alls, %: of the critical path of a step, and of what a layer does without TP."""
    fabrics: dict[str, dict[str, str]] = {VALUES["fabric"]: {}}
    plan = {"micro_batch_size": size}
    (result,) = one_step(VALUES, model, fabrics, load, plan=plan).results
    path = result.critical_path_s
    layer = path["ep"] + sum(path[category] for category in COMPUTE)
    return 100 * path["ep"] / result.step_time_s, 100 * path["ep"] / layer


def volumes(model: str, moe_tp: str) -> dict[str, float]:
    """Shares of bytes by parallelism under the published plan; TP as the paper has it."""
    scenario = Scenario(
        model=model,
        gpus=VALUES["gpus"],
        cluster={"gpu": VALUES["gpu"], "rate_gbps": VALUES["rate_gbps"]},
        demand={"source": "balanced"},
        fabrics=(VALUES["fabric"],),
        **ONE_SAMPLE,
    )
    job = prepare(scenario)
    plan = dataclasses.replace(job.plan, sequence_parallel=False)
    options = WorkloadOptions(moe_tp=moe_tp)
    demand = demand_source(job.scenario, job.model, plan, 0)
    built = build(
        job.model,
        plan,
        demand=demand,
        compute=job.compute,
        gpus_per_server=8,
        options=options,
    )
    return built.traffic_shares()


def traffic(*, fast: bool) -> str:
    """Figure 2."""
    values = VALUES["volume"]
    rows = []
    for model in [row["name"] for row in VALUES["models"]][: 1 if fast else None]:
        for number, moe_tp in enumerate(values["moe_tp"]):
            found = volumes(model, moe_tp)
            if number and not found["tp"]:
                continue  # without TP there is nothing to count in other ways
            cells = [f"{100 * found[kind]:.1f}" for kind in ("tp", "ep", "pp", "dp")]
            ratio = f"{found['tp'] / found['ep']:.1f}" if found["tp"] else "-"
            rows.append([f"{model}, {moe_tp}", *cells, ratio, values["published"][model]])
    header = ["model, TP of the expert half", "TP [%]", "EP [%]", "PP [%]", "DP [%]", "TP : EP"]
    return markdown([*header, "paper, TP / EP / PP + DP [%]"], rows)


def timeline(*, fast: bool) -> tuple[str, Figure]:
    """Figures 3 and 17."""
    sizes = VALUES["micro_batch_sizes"]
    rows, lines = [], []
    for color, row in enumerate(VALUES["models"][: 1 if fast else None]):
        for load in VALUES["loads"]:
            found = [shares(row["name"], load, size) for size in sizes]
            for name, line in zip(("step", "layer"), zip(*found, strict=True), strict=True):
                words = f"{row['name']}, {WORDS[load]}, of a {name}"
                rows.append([words, *(f"{share:.1f}" for share in line), row["published"]])
            of_layer = [layer for _, layer in found]
            label = f"{row['name']}, {WORDS[load]}"
            lines.append(Line(label, of_layer, color, is_dashed=load == "balanced"))
    header = ["all-to-alls [%], by micro-batch", *(str(size) for size in sizes)]
    figure = Figure(
        "The micro-batch hardly changes the share of all-to-alls",
        "sequences of a micro-batch",
        "all-to-alls of a layer [%]",
        [str(size) for size in sizes],
        lines,
    )
    return markdown([*header, "paper"], rows), figure


def render(*, fast: bool) -> dict[Path, str]:
    """The table and the figure."""
    shown, figure = timeline(fast=fast)
    text = (
        "# What MixNet's authors measured on 128 H800\n\n"
        "Made by run.py; see [README.md](README.md).\n\n"
        f"## Share of all-to-alls (Figures 3 and 17)\n\n{shown}\n"
        f"## Bytes by parallelism (Figure 2)\n\n{traffic(fast=fast)}"
    )
    return figure.beside(HERE, text, fast=fast)


if __name__ == "__main__":
    sys.exit(run(__doc__, render))
