"""Which network to build, by one rule, and why there may be no answer.

The cheapest network is built of the fabrics that are as fast as the fastest, or between it and one
that is. It is compared with the cheapest other one of these: the saving on offer. What trades speed
for money is the fastest of the fabrics whose networks cost less still. A fabric whose circuits
carry no byte is never advised: what its packet network does alone costs less without them. Nor is
one of parts that cannot be bought, unless nothing else remains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lightloom.study.compare.results import SAME, Comparison, FabricResult

#: kind of the fabric that is named first, of several alike
REFERENCE = "fat-tree"
#: model FLOPs of the fastest fabric, as a share of the peak, below which nobody would run a job so
MIN_MFU = 0.10
#: copies per expert that a log of tokens needs, so that its loads are known to 10 %
MIN_COPIES = 100


@dataclass(frozen=True)
class Advice:
    """What to build, and what there is instead.

    Attributes
    ----------
    build
        The recommended fabric.
    rival
        The cheapest other fabric that is as fast, if there is one.
    cheaper
        The fastest of the fabrics whose networks cost less, if there is one.
    """

    build: FabricResult
    rival: FabricResult | None
    cheaper: FabricResult | None


def advise(results: Sequence[FabricResult]) -> Advice:
    """Apply the rule to results of one job or more."""
    results = eligible(results)
    fastest = min(results, key=lambda r: r.step_time_s)
    alike = [r.step_time_s for r in results if r is fastest or r.is_as_fast_as(fastest)]
    fast = [r for r in results if r.step_time_s <= max(alike)]
    build = _cheapest(fast)
    others = [r for r in fast if r is not build]
    cheaper = [r for r in results if r.network_cost_usd * SAME < build.network_cost_usd]
    return Advice(
        build,
        _cheapest(others) if others else None,
        min(cheaper, key=lambda r: r.step_time_s) if cheaper else None,
    )


def eligible(results: Sequence[FabricResult]) -> Sequence[FabricResult]:
    """Results of fabrics that may be advised; all of them where none may."""
    results = [r for r in results if r.supply.availability != "paper"] or results
    return [r for r in results if not r.has_idle_circuits] or results


def _cheapest(results: Iterable[FabricResult]) -> FabricResult:
    """The one whose network costs the least; of equals the fat-tree, or the first."""
    cheapest = list(results)
    minimum = min(r.network_cost_usd for r in cheapest)
    alike = [r for r in cheapest if r.network_cost_usd <= minimum * SAME]
    return next((r for r in alike if r.kind == REFERENCE), alike[0])


def undecided(comparison: Comparison) -> str | None:
    """Why the results decide nothing between fabrics; ``None`` if they do."""
    results = comparison.results
    if not any(map(_crossing, results)):
        return "no byte leaves a server, so that every network is as good"
    copies = comparison.demand.get("copies_per_expert")
    if copies is not None and copies < MIN_COPIES:
        spread = 100 / math.sqrt(copies)
        return (
            f"the log has {copies:.2g} token copies per expert, from which loads are known to "
            f"{spread:.0f} % at best; log {MIN_COPIES} or more"
        )
    utilizations = [r.mfu for r in results if r.mfu is not None]
    if utilizations and max(utilizations) < MIN_MFU:
        return (
            f"the GPUs reach {100 * max(utilizations):.2g} % of their peak on the fastest fabric, "
            "so that nobody would run the job so; change the plan or give it more micro-batches"
        )
    return None


def _crossing(result: FabricResult) -> int:
    """Bytes that a network carries."""
    return sum(size for name, size in result.carried_bytes.items() if name != "nvswitch")
