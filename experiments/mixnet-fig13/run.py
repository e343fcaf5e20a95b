"""Performance per dollar and Pareto fronts, compared with section 7.4 of the MixNet paper.

    python experiments/mixnet-fig13/run.py [--write | --check | --fast]

Reads the step times of experiments/mixnet-fig12, prints the tables; ``--write`` puts them into
table.md and draws figure.svg, ``--check`` says whether they are what is there. It takes a second:
``--fast`` leaves nothing out.
"""

from __future__ import annotations

import csv
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lightloom.cost import PartsCostModel, cluster_cost, pareto_front
from lightloom.fabric import Cluster, load_fabric
from lightloom.hardware import load_gpu, load_prices

HERE = Path(__file__).parent
FIGURE_12 = HERE.parent / "mixnet-fig12"
sys.path[:0] = [str(FIGURE_12), str(HERE.parent)]
from drawing import Figure, Line  # noqa: E402
from results import command_line, finish  # noqa: E402
from tables import load  # noqa: E402

_figure_11 = load("mixnet-fig11", "run")
table = _figure_11.table
TABLE = HERE / "table.md"


@dataclass(frozen=True)
class Study:
    """Both experiment files and the step times, s, by assumptions, model, fabric and rate."""

    values: dict[str, Any]
    figure_12: dict[str, Any]
    steps: dict[tuple[str, str, str, int], float]

    @classmethod
    def load(cls) -> Study:
        """Read everything."""
        files = [folder / "experiment.toml" for folder in (HERE, FIGURE_12)]
        values, figure_12 = (tomllib.loads(path.read_text(encoding="utf-8")) for path in files)
        with (FIGURE_12 / "steps.csv").open(encoding="utf-8") as lines:
            steps = {
                (row["assumptions"], row["model"], row["fabric"], int(row["rate_gbps"])): float(
                    row["step_s"]
                )
                for row in csv.DictReader(lines)
            }
        return cls(values, figure_12, steps)

    @property
    def models(self) -> list[str]:
        """Both Mixtral models, then the wider ones."""
        return [*self.figure_12["models"], *self.figure_12["wide_models"]]

    @cached_property
    def costs(self) -> dict[tuple[str, int], tuple[float, float]]:
        """Network and whole cluster, $ per GPU, by fabric and rate."""
        prices, gpu, model = load_prices(), load_gpu(self.figure_12["gpu"]), PartsCostModel()
        found = {}
        for rate in self.values["rates_gbps"]:
            cluster = self._cluster(rate)
            for fabric in self.values["fabrics"]:
                priced = load_fabric(fabric, _figure_11.OPTIONS[fabric])
                bill = priced.bill_of_materials(cluster, _figure_11.PAPER)
                cost = model.capital_cost(bill, prices)
                whole = cluster_cost(cost, gpu, prices, cluster.installed_gpus)
                found[fabric, rate] = (cost.per_gpu_usd, whole.total_usd / cluster.gpus)
        return found

    @property
    def conventions(self) -> dict[str, str]:
        """How the costs were counted."""
        cluster = self._cluster(self.values["rates_gbps"][0])
        bill = load_fabric("mixnet", _figure_11.PORTS).bill_of_materials(cluster, _figure_11.PAPER)
        return dict(PartsCostModel().capital_cost(bill, load_prices()).conventions)

    def _cluster(self, rate: int) -> Cluster:
        return Cluster.of(
            gpus=self.figure_12["gpus"], rate_gbps=float(rate), gpu=self.figure_12["gpu"]
        )

    def runs(self, assumptions: str, model: str, rate: int) -> Iterator[tuple[str, float]]:
        """Fabrics that were simulated for a model, and their step times, s."""
        for fabric in self.values["fabrics"]:
            step_s = self.steps.get((assumptions, model, fabric, rate))
            if step_s is not None:
                yield fabric, step_s

    def gain(self, assumptions: str, model: str, rate: int, other: str, whole: bool) -> float:
        """Performance per dollar of MixNet over that of another fabric."""
        performance = (
            self.steps[assumptions, model, other, rate]
            / self.steps[assumptions, model, "mixnet", rate]
        )
        cost = self.costs[other, rate][whole] / self.costs["mixnet", rate][whole]
        return performance * cost


def gains(study: Study, other: str) -> str:
    """MixNet over another fabric: performance per dollar of network, with the paper's band."""
    rates, bands = study.values["rates_gbps"], study.values["bands"][other]
    rows = [["**paper, all models**", *(f"{low}-{high}" for low, high in bands.values())]]
    ours = [study.costs[other, rate][0] / study.costs["mixnet", rate][0] for rate in rates]
    rows.append(["cost alone (equal performance)", *(f"{ratio:.2f}" for ratio in ours)])
    for assumptions in ("authors", "authors-wide", "ours"):
        for model in study.models:
            if (assumptions, model, other, rates[0]) not in study.steps:
                continue
            found = [study.gain(assumptions, model, rate, other, False) for rate in rates]
            marked = [
                f"{gain:.2f}{'' if low - 0.1 <= gain <= high + 0.1 else ' *'}"
                for gain, (low, high) in zip(found, bands.values(), strict=True)
            ]
            rows.append([f"{model}, {assumptions}", *marked])
    header = [f"perf/$, MixNet over {other}", *(f"{rate} Gb/s" for rate in rates)]
    return table(header, rows) + "\n\\* outside the band by more than 0.1\n"


def stated(study: Study) -> str:
    """Single numbers of the text."""
    rows = []
    for model, value in study.values["stated"].items():
        wide = model in study.figure_12["wide_models"]
        found = [
            study.gain(assumptions, model, 400, "fat-tree", False)
            for assumptions in ("authors-wide" if wide else "authors", "ours")
        ]
        rows.append([model, f"{value:.1f}", *(f"{gain:.2f}" for gain in found)])
    return table(["over fat-tree, 400 Gb/s", "paper", "authors'", "ours"], rows)


def whole_cluster(study: Study) -> str:
    """The same gain if GPUs and servers are paid, too."""
    rates = study.values["rates_gbps"]
    rows = []
    for model in study.models:
        found = [study.gain("ours", model, rate, "fat-tree", True) for rate in rates]
        rows.append([model, *(f"{gain:.2f}" for gain in found)])
    header = "perf/$ of the whole cluster, MixNet over fat-tree"
    return table([header, *(f"{rate} Gb/s" for rate in rates)], rows)


def fronts(study: Study) -> str:
    """Cost and performance of every fabric; the Pareto front of each model and rate."""
    rows = []
    for model in study.models:
        for rate in study.values["rates_gbps"]:
            runs = dict(study.runs("ours", model, rate))
            names = list(runs)
            points = [(study.costs[name, rate][0], 1 / runs[name]) for name in names]
            front = {names[index] for index in pareto_front(points)}
            row = [model, str(rate)]
            for fabric in study.values["fabrics"]:
                if fabric not in runs:
                    row.append("-")
                    continue
                text = f"{study.costs[fabric, rate][0]:,.0f}, {runs['fat-tree'] / runs[fabric]:.3f}"
                row.append(f"**{text}**" if fabric in front else text)
            rows.append(row)
    header = ["model", "rate [Gb/s]", *study.values["fabrics"]]
    note = (
        "Network cost [$/GPU], and performance over that of fat-tree; our assumptions. **Bold**: on"
        " the Pareto front of the row.\n\n"
    )
    return note + table(header, rows)


def figure(study: Study) -> str:
    """Gains over the fat-tree under our assumptions, and the paper's band."""
    rates, bands = study.values["rates_gbps"], study.values["bands"]["fat-tree"]
    lines = [
        Line(model, [study.gain("ours", model, rate, "fat-tree", False) for rate in rates], color)
        for color, model in enumerate(study.models)
    ]
    for end, name in enumerate(("paper, lowest", "paper, highest")):
        band = [bands[str(rate)][end] for rate in rates]
        lines.append(Line(name, band, 6, is_dashed=True))
    drawn = Figure(
        "Performance per dollar of network: MixNet over a fat-tree",
        "rate of a link [Gb/s]",
        "performance per dollar over a fat-tree's",
        [str(rate) for rate in rates],
        lines,
    )
    return drawn.svg(HERE)


def render() -> str:
    """Every table as one Markdown text."""
    study = Study.load()
    parts = {
        "Over fat-tree": gains(study, "fat-tree"),
        "Over rail-optimized": gains(study, "rail"),
        "Single models": stated(study),
        "Whole cluster": whole_cluster(study),
        "Pareto fronts": fronts(study),
    }
    text = "".join(f"## {title}\n\n{body}\n" for title, body in parts.items())
    listed = "".join(f"- {name}: {value}\n" for name, value in study.conventions.items())
    return f"# Performance per dollar\n\n{text}## Counted as\n\n{listed}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print, write or check the tables."""
    options = command_line(__doc__, fast=True).parse_args(arguments)
    wanted = {TABLE: render(), HERE / "figure.svg": figure(Study.load())}
    return finish(wanted, options)


if __name__ == "__main__":
    sys.exit(main())
