"""Money, energy and size of clusters from results, without simulating again.

Under a budget or a power limit each fabric gets as many GPUs as fit: whole replicas of the plan on
whole servers. Every replica is taken to train as fast as in the results, as the laws of a step
say of twice the replicas on twice the network.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightloom.errors import FabricError, InputError, echo
from lightloom.fabric import Cluster, Fabric
from lightloom.hardware import Gpu, Ownership, load_gpu, load_ownership
from lightloom.study.compare.advice import eligible
from lightloom.study.compare.costs import Costs, Rates, costs_of
from lightloom.study.compare.job import cluster_of, load_fabrics
from lightloom.study.compare.racks import installed
from lightloom.study.compare.results import Comparison, FabricResult
from lightloom.study.compare.scenario import ClusterOptions, Scenario
from lightloom.units import show_usd

#: no cluster is larger, in multiples of that of the results
MAX_GROWTH = 1024


@dataclass(frozen=True)
class PricedFabric:
    """One fabric with its cluster.

    Attributes
    ----------
    fabric
        Name.
    gpus, bought_gpus
        GPUs that train, and those that come with whole servers.
    network_cost_usd, cluster_cost_usd
        Of the network, and of network, servers and GPUs.
    power_w
        Of the cluster, without cooling.
    tokens_per_s
        Pace, in proportion to the replicas.
    is_eligible
        Whether a verdict may advise it: not where its circuits carry nothing, or it cannot be
        bought.
    """

    fabric: str
    gpus: int
    bought_gpus: int
    network_cost_usd: float
    cluster_cost_usd: float
    power_w: float
    tokens_per_s: float
    is_eligible: bool = True

    @property
    def tokens_per_day(self) -> float:
        """Tokens that train in a day."""
        return self.tokens_per_s * 86_400


@dataclass(frozen=True)
class Pricing:
    """All fabrics of results, priced; ``tokens`` are those that are to be trained."""

    fabrics: tuple[PricedFabric, ...]
    ownership: Ownership
    tokens: float
    budget_usd: float | None = None
    max_power_w: float | None = None

    def days(self, of: PricedFabric) -> float:
        """Days in which a fabric's cluster trains the tokens."""
        return self.tokens / of.tokens_per_day

    def usd(self, of: PricedFabric) -> float:
        """Share of the cluster's life, and electricity, that the tokens take."""
        each = self.ownership.usd_per_token(of.cluster_cost_usd, of.power_w, of.tokens_per_s)
        return each * self.tokens

    def hall_w(self, of: PricedFabric) -> float:
        """Power of the hall, cooling included."""
        return of.power_w * self.ownership.pue.value

    def energy_per_token_j(self, of: PricedFabric) -> float:
        """Energy of the hall per token, cooling included."""
        return self.ownership.energy_per_token_j(of.power_w, of.tokens_per_s)


def priced(
    comparison: Comparison,
    *,
    prices: Path | None = None,
    powers: Path | None = None,
    tokens: float = 1e12,
    budget_usd: float | None = None,
    max_power_w: float | None = None,
) -> Pricing:
    """Price results, with as many GPUs as a budget and a limit of power allow.

    Parameters
    ----------
    comparison
        Results of a model's job.
    prices, powers
        Lists in the place of those that the results were made with.
    tokens
        Tokens to train.
    budget_usd
        Dollars for network, servers and GPUs.
    max_power_w
        Watts of the hall, cooling included.

    Raises
    ------
    InputError
        If results are of a trace or were edited, or not one replica fits.
    """
    if any(result.tokens_per_s is None for result in comparison.results):
        raise InputError("results of a trace have no tokens per second to price")
    scenario = _scenario_of(comparison)
    gpu, ownership = load_gpu(scenario.cluster.gpu), load_ownership()
    lists: dict[str, object] = {}
    if prices:
        lists |= {"prices": prices, "price_list": None}
    if powers:
        lists |= {"power": powers, "power_list": None}
    rates = Rates.of(scenario.model_copy(update=lists))
    site = _Site(
        scenario.cluster,
        cluster_of(scenario, gpu),
        gpu,
        rates,
        math.inf if budget_usd is None else budget_usd,
        math.inf if max_power_w is None else max_power_w / ownership.pue.value,
    )
    is_limited = budget_usd is not None or max_power_w is not None
    fabrics = {fabric.name: fabric for fabric in load_fabrics(scenario)}
    priced_fabrics, advised = [], eligible(comparison.results)
    for result in comparison.results:
        fabric = _fabric_of(result, fabrics)
        quantum = _quantum(result.plan, scenario)
        gpus = site.largest(fabric, quantum) if is_limited else scenario.gpus
        costs, cluster = site.costs(fabric, gpus)
        assert result.tokens_per_s is not None
        priced_fabrics.append(
            PricedFabric(
                fabric=fabric.name,
                gpus=gpus,
                bought_gpus=cluster.installed_gpus,
                network_cost_usd=costs.network.total_usd,
                cluster_cost_usd=costs.cluster.total_usd,
                power_w=costs.cluster_power.total_w,
                tokens_per_s=result.tokens_per_s * gpus / scenario.gpus,
                is_eligible=result in advised,
            )
        )
    return Pricing(tuple(priced_fabrics), ownership, tokens, budget_usd, max_power_w)


def _scenario_of(comparison: Comparison) -> Scenario:
    """The scenario that results were made with."""
    content = comparison.inputs.get("scenario")
    if not isinstance(content, dict):
        raise InputError("results without their scenario cannot be priced; run compare again")
    scenario = Scenario.model_validate(content)
    for key in ("gpus_per_server", "nics_per_server"):
        if getattr(scenario.cluster, key) is None:
            raise InputError(f"inputs.scenario.cluster.{key}: missing; run compare again")
    return scenario


def _fabric_of(result: FabricResult, fabrics: Mapping[str, Fabric]) -> Fabric:
    """The fabric of the scenario that a result is of."""
    fabric = fabrics.get(result.fabric)
    if fabric is None:
        name = echo(result.fabric)
        raise InputError(f"result {name}: no fabric of the scenario; run compare again")
    return fabric


def _quantum(plan: Mapping[str, Any], scenario: Scenario) -> int:
    """GPUs by which a cluster can grow: whole replicas of a plan on whole servers."""
    if not {"gpus", "dp"} <= plan.keys():
        raise InputError("results without plans cannot be priced; run compare again")
    replica = int(plan["gpus"]) // int(plan["dp"])
    return math.lcm(replica, scenario.cluster.used_gpus_per_server)


@dataclass(frozen=True)
class _Site:
    """What clusters are built of, and the most that one may cost and draw."""

    options: ClusterOptions
    cluster: Cluster
    gpu: Gpu
    rates: Rates
    budget_usd: float
    power_w: float

    def costs(self, fabric: Fabric, gpus: int) -> tuple[Costs, Cluster]:
        """Money and power of a cluster of as many GPUs, and the cluster as it is bought."""
        bought = installed(dataclasses.replace(self.cluster, gpus=gpus), self.options)
        return costs_of(fabric, bought, self.gpu, self.rates), bought

    def _fits(self, fabric: Fabric, gpus: int) -> bool:
        try:
            costs, _ = self.costs(fabric, gpus)
        except FabricError:
            return False  # beyond what the fabric's switches reach
        is_affordable = costs.cluster.total_usd <= self.budget_usd
        return is_affordable and costs.cluster_power.total_w <= self.power_w

    def largest(self, fabric: Fabric, quantum: int) -> int:
        """The largest multiple of GPUs that fits, by bisection: more GPUs never cost less."""
        low, high = 0, MAX_GROWTH * -(-self.cluster.gpus // quantum) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._fits(fabric, middle * quantum) else (low, middle)
        if low == 0:
            costs, _ = self.costs(fabric, quantum)
            raise InputError(
                f"{fabric.name}: a cluster of {quantum} GPUs, one replica of the plan on whole "
                f"servers, costs {show_usd(costs.cluster.total_usd)} and draws "
                f"{costs.cluster_power.total_w / 1000:,.0f} kW: more than the limit"
            )
        return low * quantum
