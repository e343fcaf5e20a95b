"""What a network costs to buy and to run, and what one gets for it.

The counting of parts is the fabric's (``fabric/bill.py``); here they meet prices and powers. Every
result carries the conventions it was made under, to be printed with it. Left out: installation,
cabling labour, cooling, financing, and what a half-used switch costs beyond its used ports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lightloom.fabric.bill import Bill, Line
from lightloom.hardware import Gpu, Powers, Prices, Row

#: the name of a component's price, without ``_usd``, and of its power, without ``_w``
_PRICE = {"eps_port": "switch_port"}
_RATE_POWER = {
    "nic": "nic_w",
    "eps_port": "switch_port_w",
    "crossbar_port": "crossbar_port_w",
    "transceiver": "transceiver_w",
    "tunable_transceiver": "tunable_transceiver_w",
    "long_reach_transceiver": "transceiver_w",
    "linear_transceiver": "linear_transceiver_w",
    "co_packaged": "co_packaged_w",
    "aoc": "transceiver_w",
}
_PORT_POWER = {"ocs_port": "ocs_port_w", "patch_port": "patch_port_w", "dac": "dac_w"}
_PASSIVE = {"fiber", "switch_1x2"}


@dataclass(frozen=True)
class Cost:
    """Capital cost of a network in USD, by component, in total and per GPU."""

    by_component_usd: dict[str, float]
    gpus: int
    conventions: dict[str, str] = field(default_factory=dict)

    @property
    def total_usd(self) -> float:
        """Sum over the components."""
        return sum(self.by_component_usd.values())

    @property
    def per_gpu_usd(self) -> float:
        """Total over the GPUs of the job (not over those that the servers could hold)."""
        return self.total_usd / self.gpus


@dataclass(frozen=True)
class Power:
    """Electrical power of a network in watts, by component, in total and per GPU."""

    by_component_w: dict[str, float]
    gpus: int
    conventions: dict[str, str] = field(default_factory=dict)

    @property
    def total_w(self) -> float:
        """Sum over the components."""
        return sum(self.by_component_w.values())

    @property
    def per_gpu_w(self) -> float:
        """Total over the GPUs of the job."""
        return self.total_w / self.gpus


class CostModel(Protocol):
    """Turns a bill of materials into money and power."""

    def capital_cost(self, bill: Bill, prices: Prices) -> Cost:
        """Cost of every part of the bill."""
        ...

    def power(self, bill: Bill, powers: Powers) -> Power:
        """Power of every part of the bill."""
        ...


class PartsCostModel:
    """Count times price, and count times power."""

    def capital_cost(self, bill: Bill, prices: Prices) -> Cost:
        """Cost of every part of the bill.

        Raises
        ------
        HardwareError
            If the price file lacks a component at its rate.
        """
        costs: dict[str, float] = {}
        for line in bill.lines:
            usd = line.count * unit_price_usd(line, bill, prices)
            costs[line.component] = costs.get(line.component, 0.0) + usd
        fiber = prices.file.fiber
        length_m = bill.fiber_length_m or fiber.mean_length_m.value
        paid = {
            "mean fiber length": f"{length_m:g} m at ${fiber.price_usd_per_m.value:.2f} per m",
            "prices": prices.name,
        }
        return Cost(costs, bill.gpus, {**bill.conventions, **paid})

    def power(self, bill: Bill, powers: Powers) -> Power:
        """Power of every part of the bill; fibers and optical 1x2 switches take none.

        An active optical cable is counted as the two transceivers that it replaces.

        Raises
        ------
        HardwareError
            If the power file lacks a component at its rate.
        """
        total: dict[str, float] = {}
        for line in bill.lines:
            watts = line.count * unit_power_w(line, powers)
            total[line.component] = total.get(line.component, 0.0) + watts
        return Power(total, bill.gpus, {**bill.conventions, "powers": powers.name})


def unit_price_usd(line: Line, bill: Bill, prices: Prices) -> float:
    """Price of one part of a line.

    Raises
    ------
    HardwareError
        If the price file lacks it.
    """
    if line.price_usd is not None:
        return line.price_usd
    if line.component == "fiber":
        if bill.fiber_length_m is None:
            return prices.fiber_usd
        return bill.fiber_length_m * prices.file.fiber.price_usd_per_m.value
    if line.component == "switch_1x2":
        return prices.look_ahead_switch_usd
    row, name = _price_of(line, prices)
    return row.get(name)


def is_price_assumed(line: Line, prices: Prices) -> bool:
    """Whether nobody published the price of a part of a line.

    Raises
    ------
    HardwareError
        If the price file lacks it.
    """
    if line.price_usd is not None:
        return False
    if line.component == "fiber":
        return prices.file.fiber.price_usd_per_m.assumed
    if line.component == "switch_1x2":
        value = prices.file.switches.look_ahead_switch_usd
        return value is not None and value.assumed
    row, name = _price_of(line, prices)
    row.get(name)
    return row.provenance[name].assumed


def _price_of(line: Line, prices: Prices) -> tuple[Row, str]:
    """The row of a price list that has a part, and what the part is called there."""
    name = f"{_PRICE.get(line.component, line.component)}_usd"
    if line.component == "ocs_port":
        return prices.circuit_switch(line.technology, line.rate_gbps), name
    return prices.at(line.rate_gbps), name


def unit_power_w(line: Line, powers: Powers) -> float:
    """Power of one part of a line; fibers and optical 1x2 switches take none.

    Raises
    ------
    HardwareError
        If the power file lacks it.
    """
    if line.power_w is not None:
        return line.power_w
    if line.component in _PASSIVE:
        return 0.0
    if line.component == "ocs_port":
        return powers.circuit_switch(line.technology).get(_PORT_POWER[line.component])
    if line.component in _PORT_POWER:
        return powers.ports.get(_PORT_POWER[line.component])
    ends = 2 if line.component == "aoc" else 1
    return ends * powers.at(line.rate_gbps).get(_RATE_POWER[line.component])


def unused_ports_usd(bill: Bill, prices: Prices) -> float:
    """Price of the ports that are bought with whole switches and not used.

    Raises
    ------
    HardwareError
        If the price file lacks such a port.
    """
    ports = [Line(box.component, box.rate_gbps, box.spare, box.technology) for box in bill.switches]
    return sum(line.count * unit_price_usd(line, bill, prices) for line in ports)


@dataclass(frozen=True)
class ClusterCost:
    """Capital cost of a whole cluster in USD: network, GPUs, and servers without both."""

    network_usd: float
    gpus_usd: float
    servers_usd: float

    @property
    def total_usd(self) -> float:
        """Sum of the three."""
        return self.network_usd + self.gpus_usd + self.servers_usd


@dataclass(frozen=True)
class ClusterPower:
    """Electrical power of a whole cluster in watts."""

    network_w: float
    gpus_w: float
    servers_w: float

    @property
    def total_w(self) -> float:
        """Sum of the three."""
        return self.network_w + self.gpus_w + self.servers_w


def cluster_cost(network: Cost, gpu: Gpu, prices: Prices, gpus: int) -> ClusterCost:
    """Cost of ``gpus`` GPUs with their servers and network.

    Parameters
    ----------
    network
        Cost of the network, NICs included or not as its conventions say.
    gpu, prices
        Prices of a GPU and of a server.
    gpus
        GPUs that are bought; whole servers of them.

    Raises
    ------
    HardwareError
        If the price of the GPU or of a server is unknown.
    """
    return ClusterCost(network.total_usd, gpus * gpu.price(), gpus * prices.server_usd_per_gpu())


def cluster_power(network: Power, gpu: Gpu, powers: Powers, gpus: int) -> ClusterPower:
    """Power of ``gpus`` GPUs with their servers and network; see :func:`cluster_cost`."""
    return ClusterPower(network.total_w, gpus * gpu.power_w, gpus * powers.server_w_per_gpu())


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return indices of the points that no other point beats.

    Parameters
    ----------
    points
        ``(cost, performance)`` of each; less cost and more performance are better.

    Returns
    -------
    list of int
        By ascending cost. A point is left out if another one is no worse in both and better in
        one; of equal points all stay.
    """
    best, front = -math.inf, list[int]()
    ordered = sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1], i))
    for index in ordered:
        cost, performance = points[index]
        tied = bool(front) and points[front[-1]] == (cost, performance)
        if performance > best or tied:
            front.append(index)
            best = performance
    return front
