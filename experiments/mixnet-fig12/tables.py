"""The tables of table.md."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
from cells import Experiment

from lightloom.hardware import load_gpu
from lightloom.workload.compute import ComputeModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawing import Figure, Line
from results import markdown as table

#: mean step time, s, by assumptions, model, fabric, rate
Steps = dict[tuple[str, str, str, int], float]

#: mean hops and step times by rate, by variant of TopoOpt and model
Planned = dict[tuple[str, str], tuple[float, list[float]]]

EXPERIMENTS = Path(__file__).parents[1]


def load(folder: str, module: str) -> ModuleType:
    """Load a module of another experiment."""
    name = f"{folder}/{module}"
    if name not in sys.modules:
        path = EXPERIMENTS / folder / f"{module}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


figures = load("compute-calibration", "mixnet_figures")


def times(experiment: Experiment, steps: Steps, name: str, model: str, fabric: str) -> list[float]:
    """Step times by rate; ``name`` is a set of assumptions or "published"."""
    if name == "published":
        return experiment.published(model, fabric)
    return [steps[name, model, fabric, rate] for rate in experiment.rates]


def ratios(
    experiment: Experiment, steps: Steps, name: str, model: str, pair: tuple[str, str]
) -> list[float]:
    """Step time of one fabric over that of another, by rate."""
    one, other = (times(experiment, steps, name, model, fabric) for fabric in pair)
    return [x / y for x, y in zip(one, other, strict=True)]


def cells(experiment: Experiment, steps: Steps) -> str:
    """All 32 published cells and ours."""
    values = experiment.values
    rows = []
    for model in values["models"]:
        fastest = {
            name: min(
                min(times(experiment, steps, name, model, fabric)) for fabric in values["fabrics"]
            )
            for name in ("published", "authors", "ours")
        }
        for fabric in values["fabrics"]:
            for place, rate in enumerate(experiment.rates):
                published, *found = (
                    times(experiment, steps, name, model, fabric)[place] / fastest[name]
                    for name in fastest
                )
                row = [f"{model}, {fabric}", str(rate), f"{published:.3f}"]
                for cell in found:
                    row += [f"{cell:.3f}", f"{cell / published:.3f}"]
                rows.append([*row, f"{steps['ours', model, fabric, rate]:.2f}"])
    header = ["cell", "rate [Gb/s]", "published", "authors' assumptions", "/ published"]
    return table([*header, "our assumptions", "/ published", "our step [s]"], rows)


def mixnet_over_tree(experiment: Experiment, steps: Steps) -> str:
    """MixNet / fat-tree, and how far each set of assumptions is off."""
    names = ["authors", "authors-even", "authors-even-server", "authors-25ms", "ours"]
    errors: dict[str, list[float]] = {name: [] for name in ["1.0", *names]}
    rows = []
    for model in experiment.values["models"]:
        pair = ("mixnet", "fat-tree")
        published = ratios(experiment, steps, "published", model, pair)
        found = {name: ratios(experiment, steps, name, model, pair) for name in names}
        for place, rate in enumerate(experiment.rates):
            row = [model, str(rate), f"{published[place]:.3f}"]
            errors["1.0"].append(1 - published[place])
            for name in names:
                error = found[name][place] - published[place]
                errors[name].append(error)
                row += [f"{found[name][place]:.3f}", f"{error:+.3f}"]
            rows.append(row)
    header = ["model", "rate [Gb/s]", "published"]
    for name in names:
        header += [name, "off by"]
    return f"{table(header, rows)}\n{_scores(errors, experiment.values['aim'])}"


def _scores(errors: dict[str, list[float]], aim: float) -> str:
    rows = []
    for name, found in errors.items():
        size = np.abs(found)
        title = "the constant 1.0" if name == "1.0" else name
        within = f"{np.count_nonzero(size <= aim)} of {len(found)}"
        rows.append([title, f"{size.mean():.3f}", f"{size.max():.3f}", within])
    return table(["prediction", "mean error", "largest error", f"within {aim}"], rows)


def by_rate(experiment: Experiment, steps: Steps) -> str:
    """T(rate) / T(800) of each fabric."""
    titles = ("published", "authors", "authors-even", "ours")
    rows = []
    for model in experiment.values["models"]:
        for fabric in experiment.values["fabrics"]:
            row = [f"{model}, {fabric}"]
            for name in titles:
                found = times(experiment, steps, name, model, fabric)
                row += [f"{found[place] / found[-1]:.3f}" for place in range(len(found) - 1)]
            rows.append(row)
    rates = experiment.rates[:-1]
    header = [f"{title} {rate}" for title in titles for rate in rates]
    return table([f"T(rate) / T({experiment.rates[-1]}), rate in Gb/s", *header], rows)


def topoopt_over_mixnet(experiment: Experiment, steps: Steps) -> str:
    """TopoOpt / MixNet."""
    rows = []
    pair = ("topoopt", "mixnet")
    for model in experiment.values["models"]:
        for name in ("published", "authors", "ours"):
            found = ratios(experiment, steps, name, model, pair)
            mean = f"{np.mean(found):.2f}"
            rows.append([f"{model}, {name}", *(f"{ratio:.3f}" for ratio in found), mean])
    rates = [f"{rate} Gb/s" for rate in experiment.rates]
    return table(["TopoOpt / MixNet", *rates, "mean"], rows)


def topologies(experiment: Experiment, steps: Steps, planned: Planned) -> str:
    """TopoOpt / MixNet for other ways to plan its circuits."""
    rows = []
    for model in experiment.values["models"]:
        published = ratios(experiment, steps, "published", model, ("topoopt", "mixnet"))
        rows.append([f"**{model}, published**", "", *(f"{ratio:.3f}" for ratio in published), ""])
        mixnet = times(experiment, steps, "authors", model, "mixnet")
        for row in experiment.values["topologies"]:
            hops, found = planned[row["name"], model]
            over = [x / y for x, y in zip(found, mixnet, strict=True)]
            off = float(np.mean(np.abs(np.array(over) - published)))
            cells = [f"{ratio:.3f}" for ratio in over]
            rows.append([f"{model}, {row['name']}", f"{hops:.2f}", *cells, f"{off:.3f}"])
    rates = [f"{rate} Gb/s" for rate in experiment.rates]
    return table(["TopoOpt / MixNet", "hops of a route", *rates, "mean error"], rows)


def fits(experiment: Experiment, steps: Steps) -> str:
    """Step = C + V / rate, published and ours, in units of each model's fat-tree C."""
    rows = []
    rates = tuple(float(rate) for rate in experiment.rates)
    for model in experiment.values["models"]:
        base: dict[str, tuple[float, float]] = {}
        for fabric in experiment.values["fabrics"]:
            row = [f"{model}, {fabric}"]
            for name in ("published", "authors", "ours"):
                found = tuple(times(experiment, steps, name, model, fabric))
                constant, volume, residual = figures.Column(model, fabric, rates, found).fit()
                base.setdefault(name, (constant, volume))
                row += [f"{constant / base[name][0]:.3f}", f"{volume / base[name][0]:.1f}"]
                row += [f"{volume / base[name][1]:.2f}", f"{100 * residual:.1f}"]
            rows.append(row)
    header = ["step = C + V / rate"]
    for name in ("published", "authors'", "ours"):
        header += [f"{name} C", "V [Gb/s]", "V / fat-tree's", "worst residual [%]"]
    return table(header, rows)


def blocked(experiment: Experiment) -> str:
    """How slow compute must be for 25 ms per layer and micro-batch to cost 1 % of a step."""
    assumptions = experiment.assumptions["authors-25ms"]
    peak = load_gpu(experiment.values["gpu"]).peak_bf16_flops
    rows = []
    for model in experiment.values["models"]:
        layer = figures.Layer.published(model)
        flops = figures.PASSES * layer.flops
        excess = [
            ratio - 1
            for ratio in ratios(experiment, {}, "published", model, ("mixnet", "fat-tree"))
        ]
        needed_s = assumptions.first_delay_s / 0.01
        _, ours_s = layer.compute_s(ComputeModel.load(experiment.values["gpu"]))
        rows.append(
            [model, f"{100 * min(excess):+.1f} to {100 * max(excess):+.1f}",
             f"{1e3 * ours_s:.0f}", f"{100 * flops / ours_s / peak:.0f}",
             f"{100 * assumptions.first_delay_s / ours_s:.0f}",
             f"{1e3 * needed_s:.0f}", f"{100 * flops / needed_s / peak:.1f}"]
        )  # fmt: skip
    return table(
        ["model", "published MixNet over fat-tree [%]", "our compute of a layer [ms]",
         "of A100 peak [%]", "25 ms of it [%]", "layer of which 25 ms is 1 % [ms]",
         "of A100 peak [%]"],
        rows,
    )  # fmt: skip


def wide(experiment: Experiment, steps: Steps, pair: tuple[str, str]) -> str:
    """All models, also those without published cells, and the statements of the text."""
    claims = {
        claim["model"]: f"{claim['value']} ({claim['where'].rpartition(', ')[2]})"
        for claim in experiment.values["claims"]
        if claim["what"] == " / ".join(pair)
    }
    rows = []
    models = [*experiment.values["models"], *experiment.values["wide_models"]]
    for model in models:
        wider = model in experiment.values["wide_models"]
        wide_sets = ("authors-wide", "authors-wide-simulator", "authors-wide-simulator-server")
        for name in (*(wide_sets if wider else ("authors",)), "ours"):
            found = ratios(experiment, steps, name, model, pair)
            row = [f"{model}, {name}", *(f"{ratio:.3f}" for ratio in found)]
            rows.append([*row, f"{np.mean(found):.2f}", claims.get(model, "-")])
    rates = [f"{rate} Gb/s" for rate in experiment.rates]
    return table([" / ".join(pair), *rates, "mean", "paper"], rows)


def as_simulated(experiment: Experiment, steps: Steps) -> str:
    """All models as the public simulator has them, beside ours.

    Its set has one name for Mixtral, whose eight ranks it sends what the gate chose, and another
    for wider EP, where its loader sends EP / 8 times as much.
    """
    rows = []
    for model in [*experiment.values["models"], *experiment.values["wide_models"]]:
        is_wide = model in experiment.values["wide_models"]
        theirs = "authors-wide-simulator-server" if is_wide else "authors-even-server"
        for pair in (("mixnet", "fat-tree"), ("topoopt", "mixnet")):
            for words, name in (("as their simulator", theirs), ("ours", "ours")):
                found = ratios(experiment, steps, name, model, pair)
                cells = [f"{ratio:.3f}" for ratio in found]
                rows.append([f"{model}, {' / '.join(pair)}, {words}", *cells])
    return table(["", *(f"{rate} Gb/s" for rate in experiment.rates)], rows)


def figure(experiment: Experiment, steps: Steps) -> str:
    """MixNet over the fat-tree by rate, as published and under both sets of assumptions."""
    lines = [
        Line(
            f"{model}, {name}",
            ratios(experiment, steps, name, model, ("mixnet", "fat-tree")),
            color,
            is_dashed=name == "published",
        )
        for color, model in enumerate(experiment.values["models"])
        for name in ("published", "authors", "ours")
    ]
    drawn = Figure(
        "Steps on MixNet are about as long as on a fat-tree",
        "rate of a link [Gb/s]",
        "step on MixNet / step on a fat-tree",
        [str(rate) for rate in experiment.rates],
        lines,
    )
    return drawn.svg(Path(__file__).parent)


def render(experiment: Experiment, steps: Steps, planned: Planned | None) -> str:
    """Every table as one Markdown text; without plans of TopoOpt those of step times alone."""
    parts = {
        "All cells": cells(experiment, steps),
        "MixNet over fat-tree": mixnet_over_tree(experiment, steps),
        "Each fabric by rate": by_rate(experiment, steps),
        "TopoOpt over MixNet": topoopt_over_mixnet(experiment, steps),
        "TopoOpt planned in other ways": planned and topologies(experiment, steps, planned),
        "Constant and volume": fits(experiment, steps),
        "What a delay of 25 ms would need": blocked(experiment),
        "All models, MixNet over fat-tree": wide(experiment, steps, ("mixnet", "fat-tree")),
        "All models, TopoOpt over MixNet": wide(experiment, steps, ("topoopt", "mixnet")),
        "All models, 3:1 fat-tree over MixNet": wide(experiment, steps, ("oversub", "mixnet")),
        "As their simulator has it": as_simulated(experiment, steps),
    }
    text = "".join(f"\n## {title}\n\n{body}" for title, body in parts.items() if body)
    intro = "Times are normalized per model to its fastest cell, as published.\n"
    return f"# Training speed\n\nMade by run.py. {intro}{text}"


__all__: Sequence[str] = ("Planned", "Steps", "figure", "render")
