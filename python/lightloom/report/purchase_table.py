"""Advice on a purchase, as sentences and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from lightloom.report.components import COMPONENTS
from lightloom.report.grid import Grid, print_rows
from lightloom.report.terminal import print_sentence
from lightloom.study.compare.results import SAME
from lightloom.study.purchase.options import GOALS
from lightloom.study.purchase.results import CandidateResult, PurchaseAdvice
from lightloom.study.purchase.uncertainty import FlipPoint
from lightloom.units import show_number, show_time, show_usd

#: what inputs are called
INPUTS = {
    **COMPONENTS,
    "gpu": "GPUs",
    "server": "servers (per GPU)",
    "efficiency": "speed of computation",
    "load": "load of the experts",
    "overlap": "overlap of all-to-alls",
    "delay": "reconfiguration and bring-up",
}
#: what became of candidates, in words
OUTCOME_WORDS = {
    "recommended": "recommended",
    "listed": "among the best",
    "front": "on the front of price and speed",
    "setting": "same purchase, other plan or all-to-all",
    "twin": "same parts and step as another one",
    "dominated": "another one is no dearer and as fast",
    "bound": "too slow even with an ideal network",
    "deadline": "too late",
    "budget": "beyond the budget",
    "refused": "cannot carry the job",
}
#: what changes no answer where flips were sought and not found
STEADY = {
    "prices": "price up to four times or down to a quarter",
    "delay": "delay of a reconfiguration from a microsecond to 20 s",
    "efficiency": "speed of computation from half to twice",
}
#: rows of a table, and points at which the answer flips, in a terminal
MOST_ROWS, MOST_FLIPS = 10, 5


def print_purchase(advice: PurchaseAdvice, console: Console, *, details: bool = False) -> None:
    """Print the recommendation first, then the front, the best, why others lost, and what flips."""
    for number, sentence in enumerate(sentences(advice)):
        print_sentence(sentence, console, "" if number else "bold")
    for warning in advice.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)
    grids = [best_grid(advice), front_grid(advice), lost_grid(advice)]
    if advice.effects:
        grids.append(effects_grid(advice))
    if details:
        grids.append(plans_grid(advice))
    for grid in grids:
        print_rows(grid, console, left=("design", "why", "low", "high", "tried"))
    console.print()
    for text in flip_sentences(advice)[: None if details else MOST_FLIPS]:
        print_sentence(text, console)


def sentences(advice: PurchaseAdvice) -> list[str]:
    """What to buy and how sure that is, in words for who decides."""
    best = advice.recommended
    return [
        _buy(advice, best),
        *_instead(advice, best),
        *_sure(advice),
        f"Not considered: {'; '.join(advice.not_considered)}.",
    ]


def _buy(advice: PurchaseAdvice, best: CandidateResult) -> str:
    options, gpu = advice.inputs["options"], advice.inputs["scenario"].get("cluster", {}).get("gpu")
    text = (
        f"Buy {best.gpus:,} {(gpu or 'a100').upper()} on {best.design} at {best.rate_gbps:g} Gb/s"
        f" for {show_usd(best.cluster_cost_usd)} (network {show_usd(best.network_cost_usd)})"
    )
    if best.days is not None:
        limit = options["deadline_s"] / 86_400
        text += f": {options['tokens'] / 1e12:g} T tokens in {best.days:,.1f} days of {limit:,.4g}"
    else:
        text += f": {best.tokens_per_s:,.0f} tokens/s"
    text += (
        f", {show_usd(1e12 / best.tokens_per_usd)} per 10^12 tokens,"
        f" {_power(best.cluster_power_w)} without cooling; plan {best.practice}."
    )
    count = len(advice.candidates)
    return f"{text} It has the most {GOALS[advice.goal]} of {count:,} candidates."


def _instead(advice: PurchaseAdvice, best: CandidateResult) -> Iterator[str]:
    twins = [
        candidate
        for candidate in advice.candidates
        if candidate.outcome == "twin" and candidate.why.endswith(f"candidate {best.number}")
    ]
    names = [name for name in dict.fromkeys(t.design for t in twins) if name != best.design]
    if names:
        yield f"The same parts and step, by another name: {names[0]}{_more(len(names))}."
    others = [advice.candidates[number] for number in advice.best]
    close = [
        candidate
        for candidate in others[1:]
        if best.score(advice.goal) < SAME * candidate.score(advice.goal)
    ]
    if close:
        yield (
            f"As good within the half a percent that a simulation resolves: {_where(close[0])},"
            f" for {show_usd(close[0].cluster_cost_usd)}{_more(len(close))}."
        )
    rival = next((candidate for candidate in others if candidate.fabric != best.fabric), None)
    if rival is not None:
        behind = 1 - rival.score(advice.goal) / best.score(advice.goal)
        yield (
            f"The best of another fabric is {_where(rival)}, for"
            f" {show_usd(rival.cluster_cost_usd)}: {_percent(behind)} fewer {GOALS[advice.goal]}."
        )
    cheaper = [
        advice.candidates[number]
        for number in advice.front
        if round(best.cluster_cost_usd - advice.candidates[number].cluster_cost_usd, 2) > 0
        and advice.candidates[number].whole_s is not None
    ]
    if cheaper:
        candidate = cheaper[-1]
        saved = best.cluster_cost_usd - candidate.cluster_cost_usd
        slower = 1 - candidate.tokens_per_s / best.tokens_per_s
        yield (
            f"For {show_usd(saved)} less there is {_where(candidate)}, {_percent(slower)} slower in"
            " all."
        )


def _more(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""


def _power(power_w: float) -> str:
    scale, unit = (1e6, "MW") if power_w >= 1e6 else (1e3, "kW")
    return f"{show_number(power_w / scale, 3)} {unit}"


def _where(one: CandidateResult) -> str:
    return f"{one.design} of {one.gpus:,} GPUs at {one.rate_gbps:g} Gb/s"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _sure(advice: PurchaseAdvice) -> Iterator[str]:
    if advice.lead_share is None or not advice.effects:
        return
    share = 100 * advice.lead_share
    first = advice.effects[0]
    yield (
        f"It stays ahead of the others in {share:.3g} % of random cases with other prices,"
        f" loads, overlap and speed of computation; what moves its lead the most is the"
        f" {_kind(first.name)}{INPUTS[first.name]}."
    )


def _kind(name: str) -> str:
    return "price of " if name in COMPONENTS or name in ("gpu", "server") else ""


def flip_sentences(advice: PurchaseAdvice) -> list[str]:
    """Where the answer changes, the closest first; or what does not change it."""
    found = [_flip(advice, flip) for flip in advice.flips]
    if found:
        return found
    *most, last = [text for name, text in STEADY.items() if name in advice.examined] or [""]
    if not last:
        return []
    listed = f"{', '.join(most)} or {last}" if most else last
    return [f"No {listed} changes the answer among the best candidates."]


def _flip(advice: PurchaseAdvice, flip: FlipPoint) -> str:
    best = advice.recommended.design
    value, now = (_amount(flip, number) for number in (flip.value, flip.now))
    side = "less" if flip.holds_below else "more"
    if flip.name == "efficiency":
        words = "slower" if flip.holds_below else "faster"
        factor = flip.value if flip.holds_below else 1 / flip.value
        while_ = f"GPUs are less than {show_number(factor, 3)} times {words} than assumed"
    elif flip.name == "delay":
        while_ = f"a reconfiguration takes {side} than {value} (now {now})"
    else:
        while_ = f"{INPUTS[flip.name]} cost {side} than {value} each (now {now})"
    if flip.limit == "budget":
        return f"The budget buys {best} while {while_}."
    other = None if flip.other is None else advice.candidates[flip.other]
    if flip.limit == "deadline":
        then = "none of the best is" if other is None else f"{_where(other)} is the best that is"
        return f"{best} is in time while {while_}; beyond that {then}."
    assert other is not None
    reasons = {"budget": ", which the budget then buys", "deadline": ", which is in time then"}
    return (
        f"{best} stays ahead while {while_}; beyond that {_where(other)} is"
        f"{reasons.get(other.outcome, '')}."
    )


def _amount(flip: FlipPoint, value: float) -> str:
    if flip.unit == "s":
        return show_time(value, 3)
    if flip.unit == "usd":
        return f"${value:,.0f}" if value >= 100 else f"${value:,.2f}"
    return show_number(value, 3)


def best_grid(advice: PurchaseAdvice) -> Grid:
    """The best candidates, of which whole steps were simulated."""
    return _candidates(
        advice,
        [advice.candidates[number] for number in advice.best],
        f"The best by {GOALS[advice.goal]}",
        "whole steps, simulated; $: per 10^12 tokens, price over the life and electricity",
    )


def front_grid(advice: PurchaseAdvice) -> Grid:
    """Candidates that none is cheaper and faster than."""
    front = [advice.candidates[number] for number in advice.front]
    shown = front if len(front) <= MOST_ROWS else _spread(front)
    more = f"; {len(shown)} of {len(front)}" if len(shown) < len(front) else ""
    return _candidates(
        advice,
        shown,
        "Front of price and speed",
        f"none is cheaper and faster; steps predicted from few layers where not listed{more}",
    )


def _spread(front: Sequence[CandidateResult]) -> list[CandidateResult]:
    places = {round(n * (len(front) - 1) / (MOST_ROWS - 1)) for n in range(MOST_ROWS)}
    return [front[place] for place in sorted(places)]


def _candidates(
    advice: PurchaseAdvice, shown: Sequence[CandidateResult], title: str, caption: str
) -> Grid:
    days = advice.inputs["options"]["tokens"] is not None
    rows: list[list[str | float]] = [
        [
            f"{candidate.number}",
            f"{candidate.gpus:,}\n{candidate.rate_gbps:g}G",
            "\n".join(
                [candidate.fabric, *(f"{name}={value}" for name, value in candidate.bought.items())]
            ),
            _wrapped(candidate.practice, 12),
            candidate.step_time_s,
            candidate.cluster_cost_usd / 1e6,
            candidate.days if days and candidate.days is not None else candidate.tokens_per_s / 1e3,
            f"{1e12 / candidate.tokens_per_usd / 1e3:,.1f}",
        ]
        for candidate in shown
    ]
    return Grid(
        title,
        [
            *(("no.", ""), ("GPUs\nrate", ""), ("design", ""), ("plan", "")),
            *(("step", "s"), ("cluster", "M$"), ("time", "days") if days else ("pace", "k/s")),
            ("10^12", "k$"),
        ],
        rows,
        -1,
        caption,
    )


def lost_grid(advice: PurchaseAdvice) -> Grid:
    """What became of candidates, with an example of each."""
    rows: list[list[str]] = []
    for name, count in advice.outcomes.items():
        first = next(candidate for candidate in advice.candidates if candidate.outcome == name)
        rows.append(
            [
                _wrapped(OUTCOME_WORDS[name], 24),
                f"{count:,}",
                f"{first.number}",
                _wrapped(first.why),
            ]
        )
    return Grid(
        "What became of the candidates",
        [("outcome", ""), ("number", ""), ("such as\nno.", ""), ("why", "")],
        rows,
        -1,
        "--csv and --json have all of them",
    )


def _wrapped(text: str, width: int = 30) -> str:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


def effects_grid(advice: PurchaseAdvice) -> Grid:
    """What uncertain inputs do to the lead over the best other candidate."""
    return Grid(
        "What would change the answer",
        [
            *(("input", ""), ("low", ""), ("high", ""), ("lead\nat low", "%")),
            *(("lead\nat high", "%"), ("alone", "%"), ("with\nothers", "%")),
        ],
        [
            [
                _wrapped(INPUTS[effect.name], 16),
                _wrapped(effect.low, 12),
                _wrapped(effect.high, 12),
                f"{100 * effect.lead_low:.2f}",
                f"{100 * effect.lead_high:.2f}",
                f"{max(0.0, 100 * effect.first_order):.0f}",
                f"{max(0.0, 100 * effect.total_order):.0f}",
            ]
            for effect in advice.effects
        ],
        -1,
        "lead: over the best other one, below 0 where that is better; alone, with others:"
        " share of the lead's variance (Sobol indices)",
    )


def plans_grid(advice: PurchaseAdvice) -> Grid:
    """The plans that were tried."""
    return Grid(
        "Plans",
        [("GPUs", ""), ("considered", ""), ("fit the\nmemory", ""), ("tried", "")],
        [
            [
                f"{plan['gpus']:,}",
                f"{plan['considered']:,}",
                f"{plan['fitting']:,}",
                "\n".join(plan["tried"]) or plan["misfit"],
            ]
            for plan in advice.inputs["plans"]
        ],
        -1,
        "ranked by a closed form of their steps on a fat-tree",
    )
