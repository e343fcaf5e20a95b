"""The table of the scores of predictors of expert loads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightloom.report.demand_table import print_provenance
from lightloom.report.terminal import plain_table, print_table
from lightloom.study.prediction import Evaluation, Prediction, Score
from lightloom.study.prediction.score import STATIC
from lightloom.units import show_column, show_time, time_unit

#: regrets that differ by less are the same: the core's times are whole picoseconds
SAME_S = 1e-12


def print_prediction(
    prediction: Prediction, console: Console, *, with_sources: bool = False
) -> None:
    """Print the loads, with the sources of their parameters or not, the scores and remarks."""
    evaluation, inputs = prediction.evaluation, prediction.inputs
    history = evaluation.history
    kind = "SYNTHETIC loads, drawn by the generator" if history.synthetic else "log"
    console.print(
        Text(
            f"{history.name}: {kind}; {history.steps} steps x {history.layers} layers x "
            f"{history.experts} experts"
        ),
        soft_wrap=True,
    )
    print_provenance(history.provenance, console, with_sources=with_sources)
    print_table(_table(evaluation, prediction.scores), console)
    console.print()
    for line in _remarks(evaluation, inputs):
        console.print(Text(line, style="dim"), soft_wrap=True)
    for reason in inputs["too_short"]:
        console.print(
            Text(f"warning: too short to judge a predictor: {reason}", style="yellow"),
            soft_wrap=True,
        )
    if prediction.interrupted:
        console.print(Text("warning: interrupted; finished predictors only", style="yellow"))
    console.print(Text(f"\n{verdict(prediction.scores)}"), soft_wrap=True)


def verdict(scores: Sequence[Score]) -> str:
    """Whether predictions are worth anything to circuits, in one sentence."""
    regrets = {item.predictor: item.regret_s for item in scores if item.regret_s is not None}
    static = regrets.pop(STATIC, None)
    if static is None or not regrets:
        return "No predictor has been scored."
    best, lowest = min(regrets.items(), key=lambda item: item[1])
    if all(math.isclose(regret, static, abs_tol=SAME_S) for regret in regrets.values()):
        return (
            "Prediction does not change the time here: circuits chosen for any predictor lose "
            f"{show_time(static)}, as static circuits do."
        )
    return (
        f"Circuits chosen for the prediction of {best} lose least, {show_time(lowest)}; static "
        f"circuits lose {show_time(static)}."
    )


def _remarks(evaluation: Evaluation, inputs: dict[str, Any]) -> list[str]:
    """Remarks on the table."""
    setting, history = evaluation.setting, evaluation.history
    first = "layer 1, the first with a layer before it" if setting.first_layer else "layer 0"
    lines = [
        f"Scores begin at step {setting.first_step} and {first}.",
        f"L1: random sampling alone gives about {inputs['sampling_noise_l1']:.3f}.",
        f"regret: dispatch over {evaluation.servers} servers with {inputs['ports']} circuits of "
        f"{inputs['circuit_gbps']:g} Gb/s and {inputs['eps_gbps']:g} Gb/s of EPS each, above the "
        f"{show_time(inputs['optimum_s'])} of circuits chosen for the true demand",
    ]
    lines.append("held: the regret if circuits stay static until the prediction promises a gain")
    if evaluation.equal_sources:
        lines.append("the log does not distinguish servers: each sends the same")
    if history.synthetic:
        lines.append("synthetic loads: they do not show how predictable a real model is")
    return lines


def _table(evaluation: Evaluation, scores: Sequence[Score]) -> Table:
    overlap = f"top-{evaluation.setting.top_k}\noverlap"
    unit_s, unit = time_unit(max((score.regret_s or 0.0 for score in scores), default=0.0))
    regrets = show_column(
        (None if score.regret_s is None else score.regret_s / unit_s for score in scores), 3
    )
    headers = ["predictor", overlap, "L1", f"regret\n[{unit}]", "of opti-\nmum [%]", "worst\n[%]"]
    table = plain_table("Predictors", [*headers, "held\n[%]", "time\n[ms]"])
    for score, regret in zip(scores, regrets, strict=True):
        cells = [
            _cell(score.top_k_overlap, "{:.3f}"),
            _cell(score.l1, "{:.3f}"),
            regret,
            _cell(score.regret_ratio, "{:.2f}", 100),
            _cell(score.worst_regret_ratio, "{:.1f}", 100),
            _cell(score.held_regret_ratio, "{:.2f}", 100),
            _cell(score.best_time_s, "{:.3f}", 1e3),
        ]
        table.add_row(score.predictor, *cells)
    return table


def _cell(value: float | None, form: str, factor: float = 1.0) -> str:
    return "-" if value is None else form.format(value * factor)
