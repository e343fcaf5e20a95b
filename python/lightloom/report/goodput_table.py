"""The goodput of a job, as tables and sentences."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from lightloom.report.grid import Grid, print_rows
from lightloom.report.terminal import print_sentence
from lightloom.study.goodput.results import FabricGoodput, Goodput
from lightloom.study.goodput.walk import SPENT
from lightloom.units import show_things, show_time, show_usd

#: what time goes to, in words
SPENT_WORDS = {
    "useful": "useful",
    "slower": "slower\nsteps",
    "checkpoints": "check-\npoints",
    "again": "done\nagain",
    "detection": "detec-\ntion",
    "restart": "restart",
    "waiting": "waits for\nrepair",
}


def print_goodput(goodput: Goodput, console: Console, *, details: bool = False) -> None:
    """Print the job, the useful share of its time, what the rest goes to, and the verdict, last."""
    for line in goodput.summary:
        console.print(Text(line), soft_wrap=True)
    for warning in goodput.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)
    shown = [useful_grid(goodput), spent_grid(goodput), kinds_grid(goodput), spares_grid(goodput)]
    if details:
        shown += [intervals_grid(goodput), published_grid(goodput)]
    for grid in shown:
        print_rows(grid, console)
    console.print()
    for sentence in verdicts(goodput):
        print_sentence(sentence, console, "bold")


def useful_grid(goodput: Goodput) -> Grid:
    """The useful share of the time, and what comes of it."""
    inputs = goodput.inputs
    rows: list[list[str | float]] = [
        [
            result.fabric,
            result.step_time_s,
            f"{100 * result.useful_share:.2f} +-{50 * (result.useful_high - low):.2f}",
            f"{result.useful_steps_per_day:,.0f}",
            f"{result.interruptions_per_day:.2f}",
            f"{result.spares}",
            f"{result.usd_per_trillion_tokens / 1e3:,.0f}",
            f"{result.energy_per_token_j:.3g}",
        ]
        for result in goodput.results
        for low in [result.useful_low]
    ]
    recovery, repair_days = inputs["recovery"], inputs["repair_s"] / 86_400
    return Grid(
        f"Useful time: {recovery['runs']} runs of {recovery['days']:g} days",
        [
            ("fabric", ""),
            ("step", "s"),
            ("useful", "% of time"),
            ("useful\nsteps/day", ""),
            ("stops\nper day", ""),
            ("spare\nservers", ""),
            ("k$ per\n10^12", ""),
            ("J per\ntoken", ""),
        ],
        rows,
        -1,
        f"+-: 95 % interval; a checkpoint takes {show_time(inputs['checkpoint_s'], 3)}, detection"
        f" {show_time(inputs['detection_s'], 3)}, restart {show_time(inputs['restart_s'], 3)},"
        f" repair {repair_days:.3g} day{'s' * (repair_days != 1)}; 10^12: useful tokens",
    )


def spent_grid(goodput: Goodput) -> Grid:
    """Where the time goes."""
    return Grid(
        "Where the time goes [% of the time]",
        [("fabric", ""), *((SPENT_WORDS[name], "") for name in SPENT), ("written\nevery", "min")],
        [
            [
                result.fabric,
                *(f"{100 * result.shares[name]:.2f}" for name in SPENT),
                f"{result.interval_s / 60:.3g}",
            ]
            for result in goodput.results
        ],
        -1,
        "slower steps: parts are out; done again: what no checkpoint had; written: checkpoints",
    )


def kinds_grid(goodput: Goodput) -> Grid:
    """What failures of each kind cost on each fabric."""
    kinds = list(dict.fromkeys(kind.kind for result in goodput.results for kind in result.kinds))
    of = {result.fabric: {kind.kind: kind for kind in result.kinds} for result in goodput.results}
    rows: list[list[str]] = []
    for kind in kinds:
        there = [of[result.fabric][kind] for result in goodput.results if kind in of[result.fabric]]
        lost = [
            f"{100 * of[result.fabric][kind].lost_share:.2f}" if kind in of[result.fabric] else "-"
            for result in goodput.results
        ]
        rows.append([kind, f"{max(result.per_day for result in there):.2g}", *lost])
    return Grid(
        "What failures cost [% of the time]",
        [
            ("failure of", ""),
            ("per\nday", ""),
            *((result.fabric, "") for result in goodput.results),
        ],
        rows,
        -1,
        "rack and row: servers that lose their power at once; software and maintenance: of the job",
    )


def spares_grid(goodput: Goodput) -> Grid:
    """What spare servers bring."""
    rows: list[list[str]] = []
    for number, first in enumerate(goodput.results[0].by_spares):
        there = [result.by_spares[number] for result in goodput.results]
        shares = [f"{100 * row.useful_share:.2f}" for row in there]
        # more of them than any fabric can use are left out
        if rows and rows[-1][1:] == shares and first.spares > goodput.results[0].spares:
            break
        mark = "*" if first.spares == goodput.results[0].spares else ""
        rows.append([f"{mark}{first.spares}", *shares])
    return Grid(
        "Spare servers [useful % of the time]",
        [("spares", ""), *((result.fabric, "") for result in goodput.results)],
        rows,
        -1,
        "*: as above; unless given, that with which useful steps cost the least over all fabrics",
    )


def intervals_grid(goodput: Goodput) -> Grid:
    """Checkpoints more and less often, simulated and in closed form."""
    rows: list[list[str]] = [
        [
            result.fabric,
            f"{row.interval_s / 60:.3g}",
            f"{100 * row.useful_share:.2f}",
            f"{100 * row.closed_form_share:.2f}",
        ]
        for result in goodput.results
        for row in result.by_interval
    ]
    return Grid(
        "Checkpoints more and less often",
        [("fabric", ""), ("every", "min"), ("useful", "%"), ("Daly", "%")],
        rows,
        -1,
        "Daly: in closed form, which knows no longer steps, no lack of spares",
    )


def published_grid(goodput: Goodput) -> Grid:
    """What published runs reported, and what the model says."""
    return Grid(
        "Published runs [useful % of the time]",
        [("run", ""), ("GPUs", ""), ("reported", ""), ("model", ""), ("source", "")],
        [published_row(run) for run in goodput.published],
        -1,
        "model: the same rates and recovery in closed form, on that number of GPUs",
    )


def published_row(run: dict[str, Any]) -> list[str]:
    """A published run in a table."""
    share, least = run["share"], run["least_share"]
    reported = f"> {100 * least:.0f}" if share is None else f"{100 * share:.0f}"
    checked = "verified" if run["is_verified"] else "recalled"
    return [run["title"], f"{run['gpus']:,}", reported, f"{100 * run['model_share']:.1f}", checked]


def verdicts(goodput: Goodput) -> list[str]:
    """What costs the most on each fabric, which spares pay, and which fabric steps the most."""
    best = max(goodput.results, key=lambda result: result.useful_steps_per_day)
    sentences = [_loses(best), _spares(best)]
    sentences += [
        _loses(result)
        for result in goodput.results
        if result is not best and abs(result.useful_share - best.useful_share) > 0.005
    ]
    most = f"{best.fabric} trains the most: {best.useful_steps_per_day:,.0f} useful steps a day"
    cheapest = min(goodput.results, key=lambda result: result.usd_per_trillion_tokens)
    cost = show_usd(cheapest.usd_per_trillion_tokens)
    if cheapest is best:
        return [*sentences, f"{most}, at the least cost: {cost} per 10^12 tokens."]
    return [*sentences, f"{most}; a token costs the least on {cheapest.fabric}: {cost} per 10^12."]


def _loses(one: FabricGoodput) -> str:
    worst = max(one.kinds, key=lambda kind: kind.lost_share)
    return (
        f"{one.fabric}: {100 * one.useful_share:.2f} % of the time is useful (19 of 20 runs:"
        f" more than {100 * one.run_low:.1f} %); failures of kind {worst.kind} cost the most,"
        f" {100 * worst.lost_share:.2g} %."
    )


def _spares(one: FabricGoodput) -> str:
    chosen = next((row for row in one.by_spares if row.spares == one.spares), None)
    first = one.by_spares[0]
    if chosen is None or not one.spares:
        return f"{one.fabric}: {show_things(one.spares, 'spare server')}."
    gained = chosen.useful_steps_per_day - first.useful_steps_per_day
    each = chosen.cost_usd / gained if gained > 0 else float("nan")
    return (
        f"{one.fabric}: {show_things(one.spares, 'spare server')} for {show_usd(chosen.cost_usd)}"
        f" bring {gained:,.0f} useful steps a day, {show_usd(each)} each."
    )
