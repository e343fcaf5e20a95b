"""Drawings of an advice: candidates by price and pace, and a tornado of what moves the lead."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from lightloom.report.plots_svg import (
    Axis,
    FabricStyle,
    axis_names,
    drawing,
    fabric_styles,
    grid_lines,
    padded,
    tag,
)
from lightloom.report.purchase_table import INPUTS
from lightloom.study.purchase.results import CandidateResult, PurchaseAdvice
from lightloom.study.purchase.uncertainty import InputEffect
from lightloom.units import show_usd

_WIDTH, _HEIGHT, _BAR = 760.0, 420.0, 30.0
#: inputs that a tornado shows
MOST_BARS = 12


def styles_of(advice: PurchaseAdvice) -> dict[str, FabricStyle]:
    """Color and mark of each fabric."""
    pairs = dict.fromkeys((candidate.fabric, candidate.kind) for candidate in advice.candidates)
    return fabric_styles(list(pairs))


def candidates_drawing(advice: PurchaseAdvice) -> Markup:
    """Price against pace of what was simulated; the front is joined, the answer is larger."""
    styles = styles_of(advice)
    shown = [candidate for candidate in advice.candidates if candidate.predicted_s is not None]
    x = Axis(*padded([candidate.cluster_cost_usd / 1e6 for candidate in shown]), 74, _WIDTH - 18)
    y = Axis(*padded([candidate.tokens_per_s / 1e3 for candidate in shown]), _HEIGHT - 58, 16)
    names = axis_names(x, y, "cost of the cluster [M$]", "thousand tokens/s")
    parts = [*grid_lines(x, y), *names, _front(advice, x, y)]
    best = advice.recommended
    # the answer last, above all others
    parts += [
        _mark(candidate, styles[candidate.fabric], x, y, is_best=candidate is best)
        for candidate in sorted(shown, key=lambda each: each is best)
    ]
    return drawing(_WIDTH, _HEIGHT, "Price and pace of the candidates", parts, "plot")


def _front(advice: PurchaseAdvice, x: Axis, y: Axis) -> Markup:
    front = [advice.candidates[number] for number in advice.front]
    corners = [
        (x(candidate.cluster_cost_usd / 1e6), y(candidate.tokens_per_s / 1e3))
        for candidate in front
    ]
    path = [f"M{corners[0][0]:.1f},{corners[0][1]:.1f}"]
    for at_x, at_y in corners[1:]:
        path += [f"H{at_x:.1f}", f"V{at_y:.1f}"]
    return tag("path", d="".join([*path, f"H{x.end:.1f}"]), class_="front")


def _mark(
    candidate: CandidateResult, style: FabricStyle, x: Axis, y: Axis, *, is_best: bool
) -> Markup:
    x_at, y_at = x(candidate.cluster_cost_usd / 1e6), y(candidate.tokens_per_s / 1e3)
    at = f"translate({x_at:.1f} {y_at:.1f})"
    tip = (
        f"{candidate.number}: {candidate.design}, {candidate.gpus:,} GPUs,"
        f" {candidate.rate_gbps:g} Gb/s, {candidate.practice}:"
        f" {candidate.tokens_per_s:,.0f} tokens/s, {show_usd(candidate.cluster_cost_usd)};"
        f" {candidate.outcome}{': ' if candidate.why else ''}{candidate.why}"
    )
    look = f"{style.class_} mark" + (" best" if is_best else "")
    size = 1.5 if is_best else 0.6
    return tag("path", d=style.mark, transform=f"{at} scale({size})", class_=look, data_tip=tip)


def tornado(effects: Sequence[InputEffect]) -> Markup:
    """The lead at the low and the high end of each input, the largest swing first."""
    shown = effects[:MOST_BARS]
    ends = [100 * lead for effect in shown for lead in (effect.lead_low, effect.lead_high)]
    low, high = padded([0.0, *ends])
    height = 16 + _BAR * len(shown) + 58
    x = Axis(min(low, min(0.0, *ends) * 1.1), high, 220, _WIDTH - 16)
    foot = Axis(0.0, 1.0, height - 58, 16)
    words = "lead over the best other candidate [%]"
    parts = [*grid_lines(x, foot, None, []), *axis_names(x, foot, words, "")]
    for row, effect in enumerate(shown):
        top = 16 + _BAR * row + 4
        parts.append(
            tag("text", INPUTS[effect.name], x=210, y=top + 16, text_anchor="end", class_="name")
        )
        base = x(_middle(effect))
        for lead, what, look in (
            (effect.lead_low, effect.low, "series-0"),
            (effect.lead_high, effect.high, "series-1"),
        ):
            at = x(100 * lead)
            parts.append(
                tag("rect", x=min(base, at), y=top, width=abs(at - base), height=_BAR - 8,
                    class_=f"mark {look}",
                    data_tip=f"{INPUTS[effect.name]}, {what}: lead {100 * lead:.2f} %")
            )  # fmt: skip
    zero = x(0.0)
    parts.append(tag("line", x1=zero, x2=zero, y1=16, y2=height - 58, class_="axis"))
    return drawing(_WIDTH, height, "What moves the lead", parts, "plot")


def _middle(effect: InputEffect) -> float:
    """Where a bar begins: the lead as it is."""
    return 100 * effect.lead_now
