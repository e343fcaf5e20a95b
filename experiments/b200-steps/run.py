"""Measured training steps on eight B200, predicted by ``lightloom.compare``.

    python experiments/b200-steps/run.py [--write | --check]

Prints the table and the errors. ``--write`` puts them into table.md, and the errors into the page
of the documentation; ``--check`` says whether they are what is there.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]
from results import ROOT, command_line, replace_between, write_or_check  # noqa: E402

from lightloom import Scenario, compare  # noqa: E402
from lightloom.errors import InputError  # noqa: E402

#: the operators that were measured on this server; the file of B200 has those of faster ones
SERVER = HERE.parent / "compute-calibration" / "b200_server.toml"
PAGE = ROOT / "docs" / "explanation" / "against-real-systems.md"
#: columns of steps.csv that are degrees, with their short names
DEGREES = {"tp": "TP", "cp": "CP", "pp": "PP", "ep": "EP"}

#: experts have a capacity of their even share, and every copy is sent by an all-to-all
EXPERTS = {"source": "balanced", "capacity_factor": 1.0, "dispatcher": "alltoall"}


@dataclass(frozen=True)
class Step:
    """One measured step and its prediction, in all and by category, s; or why there is none."""

    values: dict[str, str]
    predicted_s: float = 0.0
    parts_s: dict[str, float] | None = None
    refused: str = ""

    @property
    def is_moe(self) -> bool:
        """Whether the model has experts."""
        return self.values["model"].startswith("deepseek")

    @property
    def has_cp(self) -> bool:
        """Whether sequences are divided over GPUs."""
        return int(self.values["cp"]) > 1

    @property
    def measured_s(self) -> float:
        """Measured time of the step, s."""
        return float(self.values["measured_s"])

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_s / self.measured_s - 1

    @property
    def plan(self) -> str:
        """The degrees above 1."""
        degrees = {name: int(self.values[key]) for key, name in DEGREES.items()}
        return " ".join(f"{name}{degree}" for name, degree in degrees.items() if degree > 1)


def scenario(values: dict[str, str]) -> Scenario:
    """One step as a comparison, with the options of the measured runs.

    Nothing overlaps, heads of long sequences are divided (Ulysses), experts have a capacity of
    their even share. Products of experts and permutations are those that were timed on the same
    server: Transformer Engine's grouped products, and its permutation as the host issues it, which
    takes as long as the file of B200 says of permutations by several kernels.
    """
    is_moe = values["model"].startswith("deepseek")
    plan: dict[str, Any] = {key: int(values[key]) for key in (*DEGREES, "micro_batches", "seq_len")}
    plan |= {
        "micro_batch_size": 1,
        "zero1": True,
        "overlap_gradients": False,
        "overlap_parameters": False,
    }
    if int(values["cp"]) > 1:
        plan["context_parallel"] = "ulysses"
    if is_moe:
        plan |= {"expert_mode": "folded", "etp": 1}
    return Scenario(
        model=str(HERE / "models" / f"{values['model']}.json"),
        gpus=8,
        cluster={"gpu": "b200", "rate_gbps": 400, "profile": str(SERVER)},
        plan=plan,
        demand=EXPERTS if is_moe else {},
        compute={"expert_products": "grouped", "permutation": "unfused"},
        fabrics=("fat-tree",),
        seeds=1,
        compute_spread=0.0,
        policies=False,
    )


def predict(values: dict[str, str]) -> Step:
    """Predict one measured step."""
    try:
        result = compare(scenario(values)).results[0]
    except InputError as error:
        return Step(values, refused=str(error))
    return Step(values, result.step_time_s, result.mean_s)


def step_table(steps: Sequence[Step]) -> str:
    """One line per step."""
    lines = [
        "| model, layers | plan | sequence | micro-batches | measured [ms] | predicted [ms] |"
        " error |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for step in steps:
        values = step.values
        name, _, layers = values["model"].rpartition("-")
        found = f"{1e3 * step.predicted_s:.1f} | {100 * step.error:+.1f} %"
        lines.append(
            f"| {name}, {layers} | {step.plan} | {int(values['seq_len']):,} |"
            f" {values['micro_batches']} | {1e3 * step.measured_s:.1f} |"
            f" {'refused | -' if step.refused else found} |"
        )
    return "\n".join(lines) + "\n"


def error_table(steps: Sequence[Step]) -> str:
    """Mean and largest error of kinds of steps."""
    kinds = {
        "dense": [s for s in steps if not s.is_moe],
        "dense, without context parallelism": [s for s in steps if not s.is_moe and not s.has_cp],
        "MoE": [s for s in steps if s.is_moe],
        "all": list(steps),
    }
    lines = ["| steps | number | mean error | mean absolute error | largest |"]
    lines.append("|---|---:|---:|---:|---:|")
    for name, chosen in kinds.items():
        errors = [100 * step.error for step in chosen if not step.refused]
        sizes = [abs(error) for error in errors]
        lines.append(
            f"| {name} | {len(errors)} | {mean(errors):+.1f} % | {mean(sizes):.1f} % |"
            f" {max(sizes):.1f} % |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Predict every step and print the tables."""
    options = command_line(__doc__).parse_args()
    with (HERE / "steps.csv").open(encoding="utf-8") as lines:
        steps = [predict(values) for values in csv.DictReader(lines)]
    refused = [f"- {step.values['model']} {step.plan}: {step.refused}" for step in steps]
    parts = ["<!-- written by experiments/b200-steps/run.py --write -->\n", error_table(steps)]
    parts.append(step_table(steps))
    if any(step.refused for step in steps):
        parts.append("\n".join(line for line, s in zip(refused, steps, strict=True) if s.refused))
    text = "\n".join(parts)
    print(text)
    page = replace_between(PAGE.read_text(encoding="utf-8"), "steps", error_table(steps))
    wanted = {HERE / "table.md": text, PAGE: page}
    return write_or_check(wanted, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
