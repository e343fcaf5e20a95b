"""How certain it is which fabric trains the most per dollar, and what would change it.

Prices, load of the experts, overlap and the error of the simulation are drawn, from results alone.
Parts have the same price on every fabric. What is drawn for all fabrics alike, such as the speed
of computation, cancels and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lightloom.hardware import communication_deviation

if TYPE_CHECKING:
    from lightloom.study.compare.results import FabricResult

DRAWS = 10_000
#: a part costs from one over this to this many times its price; GPUs and servers less
PARTS, MACHINES = 2.0, 1.3
#: by how much more or less of the communication is hidden, on all fabrics alike
OVERLAP = 0.25
#: changes of a price beyond this factor are no news
FAR = 4.0

#: categories of the critical path that are communication
COMMUNICATION = ("tp", "cp", "ep", "pp", "dp", "transfers", "reconfiguration")


@dataclass(frozen=True)
class Flip:
    """A price at which another fabric trains as much per dollar.

    Attributes
    ----------
    fabric
        The other fabric.
    component
        Of :data:`~lightloom.fabric.COMPONENTS`, or ``machines`` for GPUs and servers.
    factor
        By which its price would have to change.
    """

    fabric: str
    component: str
    factor: float


@dataclass(frozen=True)
class Certainty:
    """How often each fabric trains the most per dollar, and the closest change that matters."""

    shares: dict[str, float]
    flip: Flip | None

    @property
    def best(self) -> str:
        """The fabric that is best most often."""
        return max(self.shares, key=lambda name: self.shares[name])


def certainty(results: Sequence[FabricResult], *, draws: int = DRAWS) -> Certainty:
    """Draw prices, loads and errors, and see who trains the most per dollar of the cluster.

    Parameters
    ----------
    results
        Two or more fabrics of one job.
    draws
        How many; the same in every call.
    """
    random = np.random.default_rng(0)
    prices = _prices(results, random, draws)
    steps = _steps(results, random, draws)
    best = np.argmin(steps * prices, axis=0)
    counts = np.bincount(best, minlength=len(results)) / draws
    return Certainty(
        {result.fabric: float(share) for result, share in zip(results, counts, strict=True)},
        _closest_flip(results),
    )


def _prices(
    results: Sequence[FabricResult], random: np.random.Generator, draws: int
) -> npt.NDArray[np.float64]:
    """Price of each cluster in each draw."""
    parts = [_parts(result) for result in results]
    factors = {}
    for name in sorted({name for bill in parts for name in bill}):
        widest = np.log(MACHINES if name == "machines" else PARTS)
        factors[name] = np.exp(random.uniform(-widest, widest, draws))
    rows = (sum(usd * factors[name] for name, usd in bill.items()) for bill in parts)
    return np.array(list(rows))


def _steps(
    results: Sequence[FabricResult], random: np.random.Generator, draws: int
) -> npt.NDArray[np.float64]:
    """Step time of each fabric in each draw."""
    loads = [load.imbalance for load in results[0].loads]
    load = random.integers(0, 1 + len(loads), draws)
    overlap = random.uniform(1 - OVERLAP, 1 + OVERLAP, draws)
    rows = []
    for result in results:
        times_s = [result.step_time_s, *(load.step_time_s for load in result.loads)]
        share = _exposed(result)
        error = np.exp(random.normal(0.0, communication_deviation(), draws))
        rows.append(np.array(times_s)[load] * (1 - share + share * overlap * error))
    return np.array(rows)


def _exposed(result: FabricResult) -> float:
    """Share of the step in which communication is not hidden."""
    exposed_s = sum(result.critical_path_s.get(name, 0.0) for name in COMMUNICATION)
    return exposed_s / result.step_time_s


def _closest_flip(results: Sequence[FabricResult]) -> Flip | None:
    """The smallest change of one price that makes another fabric as good per dollar."""
    best = max(results, key=lambda r: r.perf_per_cluster_usd)
    flips = []
    for other in results:
        if other is best:
            continue
        mine, its = _parts(best), _parts(other)
        gap = other.step_time_s * other.cluster_cost_usd - best.step_time_s * best.cluster_cost_usd
        for name in sorted({*mine, *its}):
            slope = mine.get(name, 0.0) * best.step_time_s - its.get(name, 0.0) * other.step_time_s
            factor = 1 + gap / slope if slope else 0.0
            if 1 / FAR <= factor <= FAR:
                flips.append(Flip(other.fabric, name, factor))
    return min(flips, key=lambda flip: abs(np.log(flip.factor)), default=None)


def _parts(result: FabricResult) -> dict[str, float]:
    """What a cluster's price is made of."""
    machines_usd = result.cluster_cost_usd - result.network_cost_usd
    return {**result.cost_by_component_usd, "machines": machines_usd}
