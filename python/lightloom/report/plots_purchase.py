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
    pairs = dict.fromkeys((one.fabric, one.kind) for one in advice.candidates)
    return fabric_styles(list(pairs))


def candidates_drawing(advice: PurchaseAdvice) -> Markup:
    """Price against pace of what was simulated; the front is joined, the answer is larger."""
    styles = styles_of(advice)
    shown = [one for one in advice.candidates if one.predicted_s is not None]
    x = Axis(*padded([one.cluster_cost_usd / 1e6 for one in shown]), 74, _WIDTH - 18)
    y = Axis(*padded([one.tokens_per_s / 1e3 for one in shown]), _HEIGHT - 58, 16)
    names = axis_names(x, y, "cost of the cluster [M$]", "thousand tokens/s")
    parts = [*grid_lines(x, y), *names, _front(advice, x, y)]
    best = advice.recommended
    # the answer last, above all others
    parts += [
        _mark(one, styles[one.fabric], x, y, is_best=one is best)
        for one in sorted(shown, key=lambda each: each is best)
    ]
    return drawing(_WIDTH, _HEIGHT, "Price and pace of the candidates", parts, "plot")


def _front(advice: PurchaseAdvice, x: Axis, y: Axis) -> Markup:
    front = [advice.candidates[number] for number in advice.front]
    corners = [(x(one.cluster_cost_usd / 1e6), y(one.tokens_per_s / 1e3)) for one in front]
    path = [f"M{corners[0][0]:.1f},{corners[0][1]:.1f}"]
    for at_x, at_y in corners[1:]:
        path += [f"H{at_x:.1f}", f"V{at_y:.1f}"]
    return tag("path", d="".join([*path, f"H{x.end:.1f}"]), class_="front")


def _mark(one: CandidateResult, style: FabricStyle, x: Axis, y: Axis, *, is_best: bool) -> Markup:
    at = f"translate({x(one.cluster_cost_usd / 1e6):.1f} {y(one.tokens_per_s / 1e3):.1f})"
    tip = (
        f"{one.number}: {one.design}, {one.gpus:,} GPUs, {one.rate_gbps:g} Gb/s, {one.practice}:"
        f" {one.tokens_per_s:,.0f} tokens/s, {show_usd(one.cluster_cost_usd)}; {one.outcome}"
        f"{': ' if one.why else ''}{one.why}"
    )
    look = f"{style.class_} mark" + (" best" if is_best else "")
    size = 1.5 if is_best else 0.6
    return tag("path", d=style.mark, transform=f"{at} scale({size})", class_=look, data_tip=tip)


def tornado(effects: Sequence[InputEffect]) -> Markup:
    """The lead at the low and the high end of each input, the largest swing first."""
    shown = effects[:MOST_BARS]
    ends = [100 * lead for one in shown for lead in (one.lead_low, one.lead_high)]
    low, high = padded([0.0, *ends])
    height = 16 + _BAR * len(shown) + 58
    x = Axis(min(low, min(0.0, *ends) * 1.1), high, 220, _WIDTH - 16)
    foot = Axis(0.0, 1.0, height - 58, 16)
    words = "lead over the best other candidate [%]"
    parts = [*grid_lines(x, foot, None, []), *axis_names(x, foot, words, "")]
    for row, one in enumerate(shown):
        top = 16 + _BAR * row + 4
        parts.append(
            tag("text", INPUTS[one.name], x=210, y=top + 16, text_anchor="end", class_="name")
        )
        base = x(_middle(one))
        for lead, what, look in (
            (one.lead_low, one.low, "series-0"),
            (one.lead_high, one.high, "series-1"),
        ):
            at = x(100 * lead)
            parts.append(
                tag("rect", x=min(base, at), y=top, width=abs(at - base), height=_BAR - 8,
                    class_=f"mark {look}",
                    data_tip=f"{INPUTS[one.name]}, {what}: lead {100 * lead:.2f} %")
            )  # fmt: skip
    zero = x(0.0)
    parts.append(tag("line", x1=zero, x2=zero, y1=16, y2=height - 58, class_="axis"))
    return drawing(_WIDTH, height, "What moves the lead", parts, "plot")


def _middle(one: InputEffect) -> float:
    """Where a bar begins: the lead as it is."""
    return 100 * one.lead_now
