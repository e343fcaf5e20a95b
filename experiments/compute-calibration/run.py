"""Calibrate compute times against 43 measured steps on 8 B200.

    python experiments/compute-calibration/run.py [--shared ../shared] [--write | --check]

Fits one number, the sustained factor, on the dense rows, predicts all rows, and prints the
tables. ``--write`` puts the factor into ``b200_server.toml``, the steps into
``table.md``, MixNet's figures into ``mixnet-figures.md`` and the other tables into
``docs/explanation/compute-calibration.md``; ``--check`` says whether all are up to date.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mixnet_figures
import numpy as np
from cases import ROOT, SUMMARY, load_cases, load_collectives, read_experiment
from composer import Case, Collectives, Composer
from scipy.optimize import minimize_scalar

from lightloom.workload.compute import ComputeModel
from lightloom.workload.compute_operators import OPERATORS

sys.path.insert(0, str(ROOT / "experiments"))
from results import replace_between, write_or_check

TABLE = Path(__file__).parent / "table.md"
TABLE_HEAD = """<!-- written by experiments/compute-calibration/run.py --write -->

Steps on 8 B200 (MooreThreads/SimuMax, Apache-2.0), measured and predicted with one fitted number
([How compute times are calibrated](../../docs/explanation/compute-calibration.md)). "Of it compute"
is the compute time of the busiest stage, without collectives, bubbles and the end of the step.

"""
FIGURES = Path(__file__).parent / "mixnet-figures.md"
DOCUMENT = ROOT / "docs" / "explanation" / "compute-calibration.md"
DATA = ROOT / "python" / "lightloom" / "hardware" / "data"
#: the operators of the server whose steps were measured
SERVER = Path(__file__).parent / "b200_server.toml"


@dataclass(frozen=True)
class Score:
    """Relative errors of predictions."""

    mean: float
    mean_absolute: float
    largest: float

    @classmethod
    def of(cls, errors: Sequence[float]) -> Score:
        """Score relative errors."""
        array = np.array(errors)
        return cls(float(array.mean()), float(abs(array).mean()), float(abs(array).max()))

    def __str__(self) -> str:
        return (
            f"mean {100 * self.mean:+.1f} %, mean absolute {100 * self.mean_absolute:.1f} %,"
            f" largest {100 * self.largest:.1f} %"
        )


class Calibration:
    """Predictions of the cases for any sustained factor."""

    def __init__(self, cases: list[Case], collectives: Collectives) -> None:
        self.cases = cases
        self.collectives = collectives
        # the permutation that was measured on the same server
        self.base = ComputeModel.load("b200", SERVER, permutation="unfused")

    def composer(self, sustained: float) -> Composer:
        """A composer with this factor."""
        efficiencies = dataclasses.replace(self.base.efficiencies, sustained=sustained)
        compute = self.base.with_efficiencies(efficiencies)
        return Composer(compute, self.collectives)

    def errors(self, sustained: float, cases: Sequence[Case]) -> list[float]:
        """Relative errors of predicted steps."""
        composer = self.composer(sustained)
        return [composer.step_s(case) / case.measured_s - 1 for case in cases]

    def fit(self, cases: Sequence[Case]) -> float:
        """The factor with the least mean absolute log ratio, to three digits."""

        def loss(sustained: float) -> float:
            return float(np.mean(np.abs(np.log1p(self.errors(sustained, cases)))))

        found = minimize_scalar(loss, bounds=(0.5, 1.5), method="bounded", options={"xatol": 1e-5})
        return round(float(found.x), 3)


def _plan(case: Case) -> str:
    degrees = {"TP": case.tp, "CP": case.cp, "PP": case.pp, "EP": case.ep, "DP": case.dp}
    return " ".join(f"{name}{degree}" for name, degree in degrees.items() if degree > 1)


def operator_table() -> str:
    """How well the shipped curves fit the operators that they condense."""
    files = {
        name: tomllib.loads((DATA / f"efficiency_{name}.toml").read_text(encoding="utf-8"))
        for name in ("b200", "gb300", "a100", "h100")
    }
    lines = [
        "| operator | B200 | rms | GB300 | rms | A100 | rms | Hopper | rms |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for operator in OPERATORS:
        cells = [f"`{operator}`"]
        for file in files.values():
            table = file["operators"][operator]
            if table.get("assumed"):
                cells += ["assumed", ""]
            else:
                cells += [f"{table['rows']}", f"{100 * table['error']:.1f} %"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def case_table(calibration: Calibration, sustained: float) -> str:
    """One row per measured step."""
    composer = calibration.composer(sustained)
    lines = [
        "| model, layers | plan | sequence | micro-batches | measured [ms] | predicted [ms] |"
        " error [%] | of it compute [ms] | SimuMax error [%] |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for case in sorted(calibration.cases, key=lambda case: (case.is_moe, case.name)):
        step_s = composer.step_s(case)
        busiest = max(composer.stage(case, index).compute_s for index in range(case.pp))
        lines.append(
            f"| {case.model.name}, {case.layers} | {_plan(case)} | {case.seq_len:,} |"
            f" {case.micro_batches} | {1e3 * case.measured_s:.1f} | {1e3 * step_s:.1f} |"
            f" {100 * (step_s / case.measured_s - 1):+.1f} |"
            f" {1e3 * busiest * case.micro_batches:.1f} |"
            f" {100 * (case.simumax_s / case.measured_s - 1):+.1f} |"
        )
    return "\n".join(lines)


def summary(calibration: Calibration, sustained: float) -> str:
    """Scores: fitted, unfitted, and fitted on one model and tested on the other."""
    dense = [case for case in calibration.cases if not case.is_moe]
    moe = [case for case in calibration.cases if case.is_moe]
    simumax = [case.simumax_s / case.measured_s - 1 for case in dense]
    simumax_moe = [case.simumax_s / case.measured_s - 1 for case in moe]
    fitted = Score.of(calibration.errors(sustained, dense))
    lines = [
        f"Fitted on the {len(dense)} dense rows: sustained = **{sustained:.3f}**.",
        "",
        "| rows | prediction | score |",
        "|---|---|---|",
        f"| {len(dense)} dense | nothing fitted (sustained = 1) |"
        f" {Score.of(calibration.errors(1.0, dense))} |",
        f"| {len(dense)} dense | fitted on them | {fitted} |",
        f"| {len(moe)} MoE | nothing fitted (sustained = 1) |"
        f" {Score.of(calibration.errors(1.0, moe))} |",
        f"| {len(moe)} MoE | fitted on the dense rows |"
        f" {Score.of(calibration.errors(sustained, moe))} |",
    ]
    for name in sorted({case.model.name for case in dense}):
        inside = [case for case in dense if case.model.name == name]
        outside = [case for case in dense if case.model.name != name]
        factor = calibration.fit(outside)
        score = Score.of(calibration.errors(factor, inside))
        lines.append(
            f"| {len(inside)} of {name} | fitted on the other dense model"
            f" (sustained = {factor:.3f}) | {score} |"
        )
    lines += [
        f"| {len(dense)} dense | SimuMax's own prediction | {Score.of(simumax)} |",
        f"| {len(moe)} MoE | SimuMax's own prediction | {Score.of(simumax_moe)} |",
    ]
    return "\n".join(lines)


def server_toml(sustained: float) -> str:
    """The profile of the server with its factor."""
    text = SERVER.read_text(encoding="utf-8")
    return re.sub(r"^value = .*$", f"value = {sustained:.3f}", text, count=1, flags=re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the calibration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    if not (options.shared / "data" / "simumax" / SUMMARY).is_file():
        print(f"{options.shared}/data/simumax: not found; give --shared", file=sys.stderr)
        return 2
    experiment = read_experiment()
    cases = load_cases(options.shared, experiment)
    calibration = Calibration(cases, load_collectives(options.shared, experiment))
    dense = [case for case in cases if not case.is_moe]
    sustained = calibration.fit(dense)
    parts = {
        "operators": operator_table(),
        "summary": summary(calibration, sustained),
    }
    figures = mixnet_figures.parts(options.shared, sustained)
    steps = case_table(calibration, sustained)
    for part in (*parts.values(), steps, *figures.values()):
        print(part, end="\n\n")
    wanted = {SERVER: server_toml(sustained)}
    for path, tables in ((DOCUMENT, parts), (FIGURES, figures)):
        text = path.read_text(encoding="utf-8")
        for name, body in tables.items():
            text = replace_between(text, name, body)
        wanted[path] = text
    wanted[TABLE] = f"{TABLE_HEAD}{steps}\n"
    return write_or_check(wanted, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
