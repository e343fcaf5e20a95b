"""The verdict of a comparison in one sentence, what it depends on in another, and differences.

The sentence compares every fabric with the fastest one, sample by sample: what is as fast comes
first, then what is slower and cheaper. Of fabrics that are as fast as the fastest, the one whose
network costs the most is what others are compared with, so that the sentence says what may be
saved. Fabrics that cost more than another without being faster are named last. Which fabric trains
the most per dollar of the whole cluster ends the sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.study.compare.results import SAME, Comparison, FabricResult
from lightloom.units import show_time

#: kind of the fabric that others are compared with, of several alike
REFERENCE = "fat-tree"
#: ratios closer to one than this are said to be equal
RESOLUTION = SAME - 1
#: a load changes how two fabrics compare if it changes their ratio by more than this
CLOSE = 0.01


def story(comparison: Comparison) -> str:
    """The verdict, one sentence by rule."""
    results = comparison.results
    if len(results) == 1:
        return _alone(results[0])
    reference = _reference(results)
    others = [result for result in results if result is not reference]
    useless = {r.fabric: better for r in others if (better := _better(r, results)) is not None}
    useful = sorted(
        (r for r in others if r.fabric not in useless),
        key=lambda r: (not r.is_as_fast_as(reference), r.ratio_to(reference)[1]),
    )
    clauses = [
        _clause(result, reference, is_first=number == 0) for number, result in enumerate(useful)
    ]
    for better in dict.fromkeys(useless.values()):
        names = [name for name, other in useless.items() if other == better]
        verb = "costs" if len(names) == 1 else "cost"
        be = "is" if len(names) == 1 else "are"
        clauses.append(f"{_listed(names)} {verb} more than {better} and {be} no faster")
    clauses.append(_value(results))
    return "; ".join(clauses) + "."


def doubts(comparison: Comparison) -> str:
    """How far the verdict holds: samples, load of the experts, bring-up of links, memory."""
    results = comparison.results
    clauses = [_samples(results)]
    if len(results) > 1:
        reference = _reference(results)
        others = [result for result in results if result is not reference]
        clauses += _loads(others, reference)
    clauses += [_bring_up(result) for result in results if result.link_up is not None]
    if not comparison.memory.get("fits", True):
        clauses.append("the plan does not fit the memory of the GPUs")
    text = "; ".join(clauses)
    return f"{text[:1].upper()}{text[1:]}."


def _samples(results: Sequence[FabricResult]) -> str:
    """How many samples decide."""
    count = len(results[0].sample_step_times_s)
    return f"{count} samples per fabric" if count > 1 else "one sample, so that no spread is known"


def _alone(result: FabricResult) -> str:
    text = f"{result.fabric} takes {show_time(result.step_time_s, 3)} per step"
    loads = " and ".join(
        f"{show_time(load.step_time_s, 3)} under {load.imbalance} load" for load in result.loads
    )
    text += f", {loads}" if loads else ""
    return f"{text}."


def _reference(results: Sequence[FabricResult]) -> FabricResult:
    """The costliest network of those that are as fast as the fastest; of equals the fat-tree."""
    fastest = min(results, key=lambda r: r.step_time_s)
    fast = [r for r in results if r is fastest or r.is_as_fast_as(fastest)]
    costliest = max(r.network_cost_usd for r in fast)
    alike = [r for r in fast if r.network_cost_usd >= costliest * (1 - RESOLUTION)]
    return next((r for r in alike if r.kind == REFERENCE), alike[0])


def _better(result: FabricResult, results: Sequence[FabricResult]) -> str | None:
    """The cheapest of the fabrics that cost less and are as fast or faster."""
    better = [
        other
        for other in results
        if other.network_cost_usd < result.network_cost_usd * (1 - RESOLUTION)
        and (other.is_as_fast_as(result) or other.step_time_s < result.step_time_s)
    ]
    return min(better, key=lambda r: r.network_cost_usd).fabric if better else None


def _clause(result: FabricResult, reference: FabricResult, *, is_first: bool) -> str:
    ratio = result.ratio_to(reference)[1]
    if result.is_as_fast_as(reference):
        speed = f"as fast as {reference.fabric}" if is_first else "as fast"
        speed += f" ({ratio:.3f}x)"
    else:
        speed = _difference(ratio) + (f" than {reference.fabric}" if is_first else "")
    return f"{result.fabric} is {speed} {_cost(result, reference, is_first=is_first)}"


def _cost(result: FabricResult, reference: FabricResult, *, is_first: bool) -> str:
    share = result.network_cost_usd / reference.network_cost_usd
    if abs(share - 1) <= RESOLUTION:
        return "at the same network cost"
    return f"at {_percent(share)} of its network cost" if is_first else f"at {_percent(share)}"


def _value(results: Sequence[FabricResult]) -> str:
    """Which fabrics train the most per dollar of the cluster."""
    highest = max(r.perf_per_cluster_usd for r in results)
    best = [r for r in results if r.perf_per_cluster_usd >= highest * (1 - RESOLUTION)]
    if len(best) == len(results):
        return "all train equally much per dollar of the cluster"
    verb = "trains" if len(best) == 1 else "train"
    return f"{_listed([r.fabric for r in best])} {verb} the most per dollar of the cluster"


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _change(ratio: float) -> str:
    """A ratio of step times in words; a shorter step is a higher speed."""
    if abs(ratio - 1) <= RESOLUTION:
        return "as fast"
    return _difference(ratio)


def _difference(ratio: float) -> str:
    return f"{_percent(ratio - 1)} slower" if ratio > 1 else f"{_percent(1 / ratio - 1)} faster"


def _percent(share: float) -> str:
    value = 100 * share
    return f"{value:.2g} %" if value < 10 else f"{value:,.0f} %"


def _loads(others: Sequence[FabricResult], reference: FabricResult) -> list[str]:
    """Loads under which fabrics compare otherwise than in the verdict."""
    clauses = []
    for load in reference.loads:
        changed = []
        for result in others:
            own = result.load(load.imbalance)
            if own is None:
                continue
            ratio = own.step_time_s / load.step_time_s
            if abs(ratio - result.ratio_to(reference)[1]) > CLOSE:
                changed.append(f"{result.fabric} is {_change(ratio)}")
        if changed:
            clauses.append(f"under {load.imbalance} load {_listed(changed)}")
    if clauses:
        clauses[0] += f" as compared with {reference.fabric}"
    elif reference.loads:
        names = _listed([load.imbalance for load in reference.loads])
        verb = "changes" if len(reference.loads) == 1 else "change"
        clauses.append(f"{names} load {verb} no ratio by more than {_percent(CLOSE)}")
    return clauses


def _bring_up(result: FabricResult) -> str:
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
    return f"{lead} {result.fabric} would be {_change(change)}"


def difference(ratios: tuple[float, float, float]) -> str:
    """Ratios of step times (least, of the means, largest) as "+6.3 % (5.3 to 6.7)"."""
    low, middle, high = (100 * (ratio - 1) for ratio in ratios)
    return f"{_signed(middle)} % ({_plain(low)} to {_plain(high)})"


def _signed(percent: float) -> str:
    text = f"{percent:+.1f}"
    return "0.0" if text in {"+0.0", "-0.0"} else text


def _plain(percent: float) -> str:
    text = f"{percent:.1f}"
    return "0.0" if text == "-0.0" else text
