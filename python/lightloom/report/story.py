"""The verdict of a comparison in one sentence, and what it depends on.

The sentence is about the fabric with the most training per dollar of the whole cluster, against the
fat-tree, or against the fastest fabric where no fat-tree was compared. A fabric that switches
circuits, if it is neither, gets a clause of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.study.compare.results import SAME, Comparison, FabricResult
from lightloom.units import show_time

#: kind of the fabric that others are compared with
REFERENCE = "fat-tree"
#: ratios closer to one than this are said to be equal
RESOLUTION = SAME - 1
#: and closer than this, to be as fast
CLOSE = 0.01


def story(comparison: Comparison) -> str:
    """The verdict, ties and loads respected."""
    results = comparison.results
    if len(results) == 1:
        return _alone(results[0])
    best, other = _compared(results)
    clauses = [f"{_speed(best, other)} {_cost(best, other)}"]
    loads = _loads(best, other)
    if loads:
        clauses.append(loads)
    switching = next((r for r in (best, other, *results) if r.link_up is not None), None)
    if switching is not None:
        if switching not in (best, other):
            reference = best if best.kind == REFERENCE else other
            ratio = switching.step_time_s / reference.step_time_s
            clauses.append(
                f"{switching.fabric} is {_against(ratio, reference)} {_cost(switching, reference)}"
            )
        clauses.append(_bring_up(switching, other if switching is best else best))
    return "; ".join(clauses) + "."


def _alone(result: FabricResult) -> str:
    text = f"{result.fabric} takes {show_time(result.step_time_s, 3)} per step"
    loads = " and ".join(
        f"{show_time(load.step_time_s, 3)} under {load.imbalance} load" for load in result.loads
    )
    text += f", {loads}" if loads else ""
    return f"{text}."


def _compared(results: Sequence[FabricResult]) -> tuple[FabricResult, FabricResult]:
    """The best per dollar of the cluster, and what it is compared with.

    Of several that are equally good the reference, else the fastest. Where the reference itself is
    best, it is compared with the second best that is not like it in speed and cost.
    """
    by_value = sorted(results, key=lambda r: -r.perf_per_cluster_usd)
    reference = next((r for r in results if r.kind == REFERENCE), None)
    if reference is None:
        reference = min(results, key=lambda r: r.step_time_s)
    enough = by_value[0].perf_per_cluster_usd * (1 - RESOLUTION)
    if reference.perf_per_cluster_usd >= enough:
        others = [r for r in by_value if r is not reference]
        return reference, next((r for r in others if not _is_alike(r, reference)), others[0])
    best = min(
        (r for r in by_value if r.perf_per_cluster_usd >= enough), key=lambda r: r.step_time_s
    )
    return best, reference


def _is_alike(one: FabricResult, other: FabricResult) -> bool:
    """Whether two fabrics are as fast and cost as much."""
    ratios = (
        one.step_time_s / other.step_time_s,
        one.network_cost_usd / other.network_cost_usd,
    )
    return all(abs(ratio - 1) <= RESOLUTION for ratio in ratios)


def _speed(best: FabricResult, other: FabricResult) -> str:
    ratio = best.step_time_s / other.step_time_s
    if RESOLUTION < abs(ratio - 1) < CLOSE:
        return f"{best.fabric} trains as fast as {other.fabric} (within {_percent(CLOSE)})"
    return f"{best.fabric} trains {_against(ratio, other)}"


def _against(ratio: float, other: FabricResult) -> str:
    """A ratio of step times in words, compared with another fabric."""
    if abs(ratio - 1) <= RESOLUTION:
        return f"as fast as {other.fabric}"
    return f"{_change(ratio)} than {other.fabric}"


def _change(ratio: float) -> str:
    """A ratio of step times in words; a shorter step is a higher speed."""
    if abs(ratio - 1) <= RESOLUTION:
        return "equally fast"
    return f"{_percent(ratio - 1)} slower" if ratio > 1 else f"{_percent(1 / ratio - 1)} faster"


def _percent(share: float) -> str:
    value = 100 * share
    return f"{value:.2g} %" if value < 10 else f"{value:,.0f} %"


def _cost(best: FabricResult, other: FabricResult) -> str:
    network = best.network_cost_usd / other.network_cost_usd
    value = best.perf_per_cluster_usd / other.perf_per_cluster_usd
    if abs(network - 1) <= RESOLUTION:
        return f"at the same cost of the network{_value(value)}"
    return f"at {network:.2f}x of the network's cost{_value(value)}"


def _value(value: float) -> str:
    if abs(value - 1) <= RESOLUTION:
        return ", and equally much per dollar of the cluster"
    return f": {value:.2f}x per dollar of the cluster"


def _loads(best: FabricResult, other: FabricResult) -> str:
    """How the two compare under balanced and skewed load."""
    texts = {}
    for load in best.loads:
        against = other.load(load.imbalance)
        if against is not None:
            texts[load.imbalance] = _change(load.step_time_s / against.step_time_s)
    if not texts:
        return ""
    names = " and ".join(texts)
    if set(texts.values()) == {_change(best.step_time_s / other.step_time_s)}:
        return f"so it does under {names} load"
    if len(set(texts.values())) == 1:
        return f"under {names} load it is {next(iter(texts.values()))}"
    return ", ".join(
        f"under {name} load {'it is ' if number == 0 else ''}{text}"
        for number, (name, text) in enumerate(texts.items())
    )


def _bring_up(result: FabricResult, other: FabricResult) -> str:
    """What the bring-up of links does to a fabric that switches circuits."""
    assert result.link_up is not None
    link_up = result.link_up
    delay = show_time(link_up.delay_s or link_up.other_delay_s, 3)
    change = link_up.other_step_time_s / link_up.step_time_s
    if link_up.delay_s:
        lead = f"{delay} of link bring-up per reconfiguration are included"
        if abs(change - 1) <= RESOLUTION:
            return f"{lead}, without which {result.fabric} would take the same time"
        return f"{lead}, without which {result.fabric} would be {_change(change)}"
    lead = f"with {delay} of link bring-up per reconfiguration, which is left out,"
    if abs(change - 1) <= RESOLUTION:
        return f"{lead} {result.fabric} would take the same time"
    ratio = result.step_time_s * change / other.step_time_s
    return f"{lead} {result.fabric} would be {_change(change)}, {_against(ratio, other)}"
