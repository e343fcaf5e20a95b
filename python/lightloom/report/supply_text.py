"""Sentences on parts that cannot be bought in volume, and on prices that are assumed."""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.report.components import COMPONENTS
from lightloom.report.switches_table import BOXES
from lightloom.study.compare.results import FabricResult
from lightloom.study.compare.supply import ScarcePart

#: share of a network's cost from which assumed prices are said
_WORTH = 0.03


def scarcity(results: Sequence[FabricResult]) -> str:
    """Sentences on parts that are not sold in volume, with the fabrics built of them; or none."""
    sentences = []
    unbuyable = [r.fabric for r in results if r.supply.availability == "paper"]
    if unbuyable:
        parts = _parts([r for r in results if r.fabric in unbuyable], "paper")
        are = "is" if len(unbuyable) == 1 else "are"
        left = "cannot be built today"
        if len(unbuyable) < len(results):
            left = f"{are} left out of the advice"
        sentences.append(f"{_capital(parts)} cannot be bought: {listed(unbuyable)} {left}.")
    sampled = [r for r in results if any(p.availability == "sampled" for p in r.supply.scarce)]
    if sampled:
        names = "every fabric" if len(sampled) == len(results) else ""
        names = names or listed([r.fabric for r in sampled])
        parts = _parts(sampled, "sampled")
        sentences.append(f"{_capital(parts)} ({names}) are not sold in volume yet.")
    return " ".join(sentences)


def assumptions(results: Sequence[FabricResult]) -> str:
    """A sentence on assumed prices that make up much of a network's cost; or none."""
    shares: dict[str, list[str]] = {}
    for result in results:
        for component, share in result.supply.assumed_shares.items():
            if share >= _WORTH:
                shares.setdefault(component, []).append(f"{share:.0%} of {result.fabric}")
    parts = [f"{COMPONENTS[part]} ({', '.join(of)})" for part, of in shares.items()]
    return f"Assumed prices: {'; '.join(parts)}.".replace("%", " %") if parts else ""


def listed(names: Sequence[str]) -> str:
    """Names joined by commas and "and"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _parts(results: Sequence[FabricResult], availability: str) -> str:
    """Parts with their kind, or else their rate."""
    parts = [p for r in results for p in r.supply.scarce if p.availability == availability]
    kinds = {f"{p.technology.replace('-', ' ')} {_words(p)}" for p in parts if p.technology}
    by_rate: dict[float, dict[str, None]] = {}
    for part in parts:
        if part.technology is None:
            by_rate.setdefault(part.rate_gbps, {})[_words(part)] = None
    rates = [f"{listed(list(words))} of {rate:g} Gb/s" for rate, words in by_rate.items()]
    return ", ".join([*sorted(kinds), *rates])


def _words(part: ScarcePart) -> str:
    return BOXES[part.component][1] if part.component in BOXES else COMPONENTS[part.component]


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
