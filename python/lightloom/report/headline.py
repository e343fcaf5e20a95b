"""What a page says first: the verdict, how far it holds, and differences in words."""

from __future__ import annotations

from lightloom.report.story import story
from lightloom.study.compare.results import SAME, Comparison, FabricResult


def verdict(comparison: Comparison) -> str:
    """The answer in one sentence."""
    return story(comparison)


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


def doubt(comparison: Comparison) -> str:
    """How far the verdict holds, in one line: samples, near ties, other loads, the plan."""
    results = comparison.results
    fastest = min(results, key=lambda r: r.step_time_s)
    count = len(fastest.sample_step_times_s)
    if count > 1:
        parts = [f"{count} samples per fabric, compared one by one"]
    else:
        parts = ["one sample: no spread is known"]
    close = [r.fabric for r in results if r is not fastest and r.tied_with_fastest]
    if close:
        parts.append(f"too close to {fastest.fabric} to tell: {', '.join(close)}")
    parts += _loads(results)
    if not comparison.memory.get("fits", True):
        parts.append("the plan does not fit the GPUs' memory")
    return "; ".join(parts) + "."


def _loads(results: tuple[FabricResult, ...]) -> list[str]:
    """Whether another fabric is the fastest under other loads of the experts."""
    fastest = min(results, key=lambda r: r.step_time_s)
    texts, same = [], []
    for load in fastest.loads:
        if load.ratio_to_fastest <= SAME:
            same.append(load.imbalance)
            continue
        steps = {r.fabric: r.load(load.imbalance) for r in results}
        other = min((s.step_time_s, name) for name, s in steps.items() if s is not None)[1]
        texts.append(f"under {load.imbalance} load {other} is faster")
    if same:
        texts.append(f"{fastest.fabric} stays the fastest under {' and '.join(same)} load")
    return texts
