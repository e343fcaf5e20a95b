"""Designs of equal cost: each network with links as fast as the money for the first one buys.

A network that is cheaper at the same rate may be had with faster links. Here the rate of the NICs
and links of a fabric is moved until its network costs what that of the first fabric costs. Prices
and powers are affine between the rows of their lists, and marked as assumed there. How a network is
counted decides: see :class:`~lightloom.fabric.Counting`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lightloom.errors import FabricError
from lightloom.fabric import Fabric
from lightloom.study.compare.costs import Rates, costs_of
from lightloom.study.compare.designs import with_options
from lightloom.study.compare.job import Job

#: rates that are looked at, Gb/s
LOWEST_GBPS, HIGHEST_GBPS = 1.0, 6400.0
#: how far the costs may be apart, of the first; and the digits of a rate
TOLERANCE, DIGITS = 2e-3, 5


@dataclass(frozen=True)
class EqualCost:
    """The rate at which a network costs as much as another.

    Attributes
    ----------
    fabric, rate_gbps
        Its name, and the rate.
    network_cost_usd
        What the network then costs.
    """

    fabric: str
    rate_gbps: float
    network_cost_usd: float


def at_equal_cost(jobs: Sequence[Job]) -> tuple[list[Job], list[EqualCost]]:
    """Jobs whose networks cost as much as that of the first fabric, and their rates.

    Parameters
    ----------
    jobs
        Those of one scenario; the first fabric of the first one stays as it is.

    Raises
    ------
    FabricError
        If no rate makes a network cost as much.
    """
    scenario = jobs[0].scenario
    counting = {**scenario.counting, "between_rates": "affine"}
    scenario = scenario.model_copy(update={"counting": counting})
    rates = Rates.of(scenario)
    jobs = [dataclasses.replace(job, scenario=scenario, rates=rates) for job in jobs]
    first = jobs[0].fabrics[0]
    target_usd = _cost_usd(jobs[0], first)
    equals = [
        _solved(job, fabric, first.name, target_usd)
        for job in jobs
        for fabric in job.fabrics
        if fabric is not first
    ]
    options = {equal.fabric: {"rate_gbps": equal.rate_gbps} for equal in equals}
    return [with_options(job, options) for job in jobs], equals


def fastest_rate_gbps(cost_usd: Callable[[float], float], budget_usd: float) -> float:
    """The fastest rate that a budget buys, Gb/s, of costs that grow with the rate.

    Raises
    ------
    FabricError
        If every rate costs more, or none.
    """
    low, high = LOWEST_GBPS, HIGHEST_GBPS
    if not cost_usd(low) <= budget_usd <= cost_usd(high):
        raise FabricError(
            f"no rate from {low:g} to {high:g} Gb/s costs ${budget_usd:,.0f}: "
            f"${cost_usd(low):,.0f} to ${cost_usd(high):,.0f}"
        )
    while high / low > 1 + 10.0**-DIGITS:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if cost_usd(middle) <= budget_usd else (low, middle)
    return low


def _cost_usd(job: Job, fabric: Fabric) -> float:
    return costs_of(fabric, job.installed, job.gpu, job.rates).network.total_usd


def _solved(job: Job, fabric: Fabric, first: str, target_usd: float) -> EqualCost:
    """Costs grow with the rate, in steps where switches change."""

    def cost_usd(rate_gbps: float) -> float:
        return _cost_usd(job, fabric.replace(rate_gbps=rate_gbps))

    try:
        fastest = fastest_rate_gbps(cost_usd, target_usd)
    except FabricError as refusal:
        raise FabricError(
            f"{fabric.name}: its network cannot cost what that of {first} does: {refusal}; leave "
            f"{fabric.name} out"
        ) from None
    rate_gbps = float(f"{fastest:.{DIGITS}g}")
    equal = EqualCost(fabric.name, rate_gbps, cost_usd(rate_gbps))
    if abs(equal.network_cost_usd / target_usd - 1) > TOLERANCE:
        raise FabricError(
            f"{fabric.name}: at {rate_gbps:g} Gb/s its network costs "
            f"${equal.network_cost_usd:,.0f}, and a little faster more than the "
            f"${target_usd:,.0f} of {first}: its switches change there; leave {fabric.name} out"
        )
    return equal
