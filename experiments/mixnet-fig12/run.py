"""Compare training steps of MixNet's Figure 12 with ours, cell by cell.

    python experiments/mixnet-fig12/run.py [--write | --check | --fast] [--resume]

Simulates every cell under each set of assumptions of ``experiment.toml`` (some minutes on two
cores) and prints the tables. ``--write`` puts them into table.md and the step times into
steps.csv, after each model, and draws figure.svg; ``--resume`` takes what is already there from
steps.csv; ``--check`` says whether the files are what would be written. ``--fast`` simulates two
cells, takes the others from steps.csv, and says whether the tables follow.
"""

from __future__ import annotations

import csv
import io
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

import sweeps
import tables
from cells import HERE, Experiment, Model
from topologies import step_times

sys.path.insert(0, str(HERE.parent))
from results import command_line, finish

TABLE, STEPS = HERE / "table.md", HERE / "steps.csv"
COLUMNS = ("assumptions", "model", "fabric", "rate_gbps", "step_s")

#: sets of assumptions that Mixtral and the wider models run under
MIXTRAL = ("authors", "authors-even", "authors-even-server", "authors-25ms", "ours")
WIDE = ("authors-wide", "authors-wide-simulator", "authors-wide-simulator-server", "ours")


def jobs(experiment: Experiment) -> list[tuple[str, str]]:
    """Assumptions and model of every block of cells."""
    values = experiment.values
    mixtral = [(name, model) for name in MIXTRAL for model in values["models"]]
    return mixtral + [(name, model) for name in WIDE for model in values["wide_models"]]


def read_steps() -> tables.Steps:
    """Step times of steps.csv."""
    with STEPS.open(encoding="utf-8") as lines:
        return {
            (row["assumptions"], row["model"], row["fabric"], int(row["rate_gbps"])): float(
                row["step_s"]
            )
            for row in csv.DictReader(lines)
        }


def simulate_all(experiment: Experiment, known: tables.Steps, write: bool) -> tables.Steps:
    """Step time of every cell; a model that is known is not simulated again."""
    steps = dict(known)
    there = {key[:2] for key in known}
    todo = [job for job in jobs(experiment) if job not in there]

    def block(job: tuple[str, str]) -> tables.Steps:
        name, model_name = job
        started = time.perf_counter()
        model = Model(experiment, model_name, experiment.assumptions[name])
        found = {(*job, fabric, rate): step_s for fabric, rate, step_s in model.step_times()}
        _say(f"{model_name}, {name}: {time.perf_counter() - started:.0f} s")
        return found

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for done in as_completed([pool.submit(block, job) for job in todo]):
            # Rounded as in the file, so that a resumed run prints the same tables.
            steps |= {key: float(f"{step_s:.6f}") for key, step_s in done.result().items()}
            if write:
                STEPS.write_text(steps_csv(steps), encoding="utf-8")
    return steps


def simulate_some(experiment: Experiment) -> tables.Steps:
    """Step times of one model under the first assumptions, on two fabrics at the lowest rate."""
    assumptions, model_name = MIXTRAL[0], experiment.values["models"][-1]
    model = Model(experiment, model_name, experiment.assumptions[assumptions])
    found = model.step_times(experiment.values["fabrics"][:2], experiment.rates[:1])
    return {(assumptions, model_name, fabric, rate): step_s for fabric, rate, step_s in found}


def simulate_topologies(experiment: Experiment) -> tables.Planned:
    """Step times of each variant of TopoOpt, under the authors' assumptions."""
    found: tables.Planned = {}
    for model_name in experiment.values["models"]:
        model = Model(experiment, model_name, experiment.assumptions["authors"])
        for row in experiment.values["topologies"]:
            found[row["name"], model_name] = step_times(model, row)
            _say(f"{model_name}, TopoOpt: {row['name']}")
    return found


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def steps_csv(steps: tables.Steps) -> str:
    """Text of steps.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for key in sorted(steps):
        writer.writerow([*key, f"{steps[key]:.6f}"])
    return text.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment."""
    options = command_line(__doc__, resume=True, fast=True).parse_args(arguments)
    experiment = Experiment.load()
    if options.fast:
        steps = read_steps() | simulate_some(experiment)
        return finish({TABLE: tables.render(experiment, steps, None)}, options)
    known = read_steps() if options.resume and STEPS.exists() else {}
    steps = simulate_all(experiment, known, options.write)
    text = tables.render(experiment, steps, simulate_topologies(experiment))
    text += f"\n## Servers under a ToR\n\n{sweeps.oversub(experiment)}"
    text += f"\n## What MixNet's constant is made of\n\n{sweeps.constant(experiment)}"
    text += f"\n## Reconfiguration latency (D.7)\n\n{sweeps.latency(experiment)}"
    text += f"\n## Batch size (D.4)\n\n{sweeps.batches(experiment)}"
    drawn = tables.figure(experiment, steps)
    wanted = {TABLE: text, STEPS: steps_csv(steps), HERE / "figure.svg": drawn}
    return finish(wanted, options)


if __name__ == "__main__":
    sys.exit(main())
