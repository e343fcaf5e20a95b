"""What each fabric of a job costs and draws, with and without the GPUs around it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lightloom.cost import (
    ClusterCost,
    ClusterPower,
    Cost,
    CostModel,
    PartsCostModel,
    Power,
    cluster_cost,
    cluster_power,
)
from lightloom.errors import HardwareError
from lightloom.fabric import Cluster, Counting, Fabric
from lightloom.hardware import Gpu, Powers, Prices, load_power, load_prices
from lightloom.study.compare.scenario import Scenario


@dataclass(frozen=True)
class Costs:
    """Money and power of one fabric, and of the whole cluster with it."""

    network: Cost
    network_power: Power
    cluster: ClusterCost
    cluster_power: ClusterPower


@dataclass(frozen=True)
class Rates:
    """Price and power lists, and how parts are counted."""

    prices: Prices
    powers: Powers
    counting: Counting

    @classmethod
    def of(cls, scenario: Scenario) -> Rates:
        """The lists that a scenario names, and its counting.

        Raises
        ------
        HardwareError
            If a list cannot be used.
        """
        prices = load_prices(scenario.prices, scenario.price_list)
        powers = load_power(scenario.power, scenario.power_list)
        counting = Counting(**scenario.counting)
        if counting.between_rates == "affine":
            prices, powers = prices.affine(), powers.affine()
        return cls(prices, powers, counting)


def costs_by_name(
    fabrics: Iterable[Fabric], cluster: Cluster, gpu: Gpu, rates: Rates
) -> dict[str, Costs]:
    """Count and price the parts of fabrics; raises as :func:`costs_of`."""
    return {fabric.name: costs_of(fabric, cluster, gpu, rates) for fabric in fabrics}


def costs_of(fabric: Fabric, cluster: Cluster, gpu: Gpu, rates: Rates) -> Costs:
    """Count the fabric's parts and price them.

    GPUs are bought by the server: where the job uses a part of the last one, all of its GPUs
    count.

    Raises
    ------
    FabricError
        If the fabric cannot be built for this cluster.
    HardwareError
        If a price or power is missing, or if they sum to nothing, since performance per dollar
        and per watt would be undefined.
    """
    prices, powers = rates.prices, rates.powers
    bill = fabric.bill_of_materials(cluster, rates.counting)
    model: CostModel = PartsCostModel()
    cost, power = model.capital_cost(bill, prices), model.power(bill, powers)
    if cost.total_usd <= 0:
        raise HardwareError(
            f"{prices.name}: a {fabric.name} network would cost nothing, so that its performance "
            "per dollar is undefined; give prices above 0"
        )
    if power.total_w <= 0:
        raise HardwareError(
            f"{powers.name}: a {fabric.name} network would take no power, so that its performance "
            "per watt is undefined; give powers above 0"
        )
    gpus = fabric.adapt(cluster).installed_gpus
    return Costs(
        cost,
        power,
        cluster_cost(cost, gpu, prices, gpus),
        cluster_power(power, gpu, powers, gpus),
    )
