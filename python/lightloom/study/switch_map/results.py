"""A map of circuit switches: step times, what they are held against, and the borders between."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lightloom.shown import ShownRows
from lightloom.study.compare.results import SAME
from lightloom.study.switch_map.curve import LONGEST_S, SHORTEST_S, StepCurve

SCHEMA_VERSION = 1
#: what a border may be of: steps, and work per dollar of the network and of the cluster
METRICS = ("time", "network", "cluster")


@dataclass(frozen=True)
class RivalFabric:
    """A fabric that is not reconfigured: its step, and what it costs."""

    fabric: str
    step_time_s: float
    network_usd: float
    cluster_usd: float

    def per_work(self, metric: str) -> float:
        """Step time, or dollars times seconds per step."""
        if metric == "time":
            return self.step_time_s
        return self.step_time_s * (self.network_usd if metric == "network" else self.cluster_usd)


@dataclass(frozen=True)
class MapCurve:
    """The reconfigurable fabric at one rate and degree, under one load and plan.

    Attributes
    ----------
    variant
        What is changed of the job, in words; empty for the job itself.
    rate_gbps, degree
        Rate of a NIC, and optical ports of a server.
    curve
        Its step over the delay.
    ports
        Ports of circuit switches.
    port_usd
        Price of such a port today.
    network_usd, cluster_usd
        What network and cluster cost without these ports.
    rivals
        The other fabrics at the rate.
    """

    variant: str
    rate_gbps: float
    degree: int
    curve: StepCurve
    ports: int
    port_usd: float
    network_usd: float
    cluster_usd: float
    rivals: tuple[RivalFabric, ...]

    def rival(self, metric: str) -> RivalFabric:
        """The best of the other fabrics by a metric."""
        return min(self.rivals, key=lambda one: one.per_work(metric))

    def pays(self, metric: str, step_s: float, port_usd: float) -> bool:
        """Whether a step does as much as the best other fabric does."""
        if metric == "time":
            return step_s <= self.rival(metric).step_time_s
        return port_usd <= self.highest_port_usd(metric, step_s)

    def highest_port_usd(self, metric: str, step_s: float) -> float:
        """Highest price of a port with which a step pays per dollar; below 0 where none does.

        A step pays where its time times the cost is at most that of the best other fabric, and the
        cost is linear in the price of a port.
        """
        base = self.network_usd if metric == "network" else self.cluster_usd
        return (self.rival(metric).per_work(metric) / step_s - base) / self.ports

    def border_s(self, metric: str, port_usd: float | None = None) -> float:
        """Longest delay with which it pays, s: 0 for none, infinity for static circuits, too."""
        price = self.port_usd if port_usd is None else port_usd
        return self.curve.border_s(lambda step_s: self.pays(metric, step_s, price))

    @property
    def switching_border_s(self) -> float:
        """Longest delay with which changing circuits makes a step shorter than never, s.

        By more than a simulation resolves.
        """
        return self.curve.border_s(lambda step_s: step_s * SAME <= self.curve.never_s)

    @property
    def gain(self) -> float:
        """By what share a step is shorter with circuits that change at once than with fixed."""
        return self.curve.never_s / self.curve.step_s(SHORTEST_S) - 1

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file; ``null`` for a border that is never reached."""
        borders = {f"{metric}_border_s": self.border_s(metric) for metric in METRICS}
        borders["switching_border_s"] = self.switching_border_s
        return {
            "variant": self.variant,
            "rate_gbps": self.rate_gbps,
            "degree": self.degree,
            "delays_s": list(self.curve.steps_s),
            "step_times_s": list(self.curve.steps_s.values()),
            "never_step_time_s": self.curve.never_s,
            "interpolation_error": self.curve.error,
            "interpolation_checks": self.curve.checks,
            "ports": self.ports,
            "port_usd": self.port_usd,
            "network_without_ports_usd": self.network_usd,
            "cluster_without_ports_usd": self.cluster_usd,
            "rivals": [vars(rival) for rival in self.rivals],
            "gain": self.gain,
            **{key: None if math.isinf(value) else value for key, value in borders.items()},
        }


@dataclass(frozen=True)
class Product:
    """A circuit switch of today: how long it takes, and what a port costs."""

    name: str
    title: str
    availability: str
    delay_s: float
    port_usd: float


@dataclass(frozen=True, repr=False)
class SwitchMap(ShownRows):
    """For which circuit switches a reconfigurable fabric pays.

    Attributes
    ----------
    inputs
        The job and the options.
    curves
        The job itself, by rate and degree.
    variants
        The job with other loads, overlap and copies, at the last rate and degree.
    products
        Circuit switches of today.
    bring_ups
        What a new link may wait for: title and time, s.
    summary, warnings
        The job in lines.
    """

    inputs: dict[str, Any]
    curves: tuple[MapCurve, ...]
    variants: tuple[MapCurve, ...] = ()
    products: tuple[Product, ...] = ()
    bring_ups: Mapping[str, tuple[str, float]] = None  # type: ignore[assignment]
    summary: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"SwitchMap({len(self.curves)} curves, {len(self.variants)} variants)"

    @property
    def main(self) -> MapCurve:
        """The curve of the last rate and degree."""
        return self.curves[-1]

    @property
    def today_s(self) -> float:
        """How long a new link of today waits, s."""
        return max(time_s for _, time_s in self.bring_ups.values())

    def rows(self) -> list[dict[str, Any]]:
        """A row for each curve and delay, three a decade, and those that were simulated."""
        return [row for curve in (*self.curves, *self.variants) for row in _rows(curve)]

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {
            "schema_version": SCHEMA_VERSION,
            "inputs": self.inputs,
            "curves": [curve.to_json() for curve in self.curves],
            "variants": [curve.to_json() for curve in self.variants],
            "products": [vars(product) for product in self.products],
            "bring_ups": [
                {"name": name, "title": title, "delay_s": time_s}
                for name, (title, time_s) in self.bring_ups.items()
            ],
            "warnings": list(self.warnings),
        }


def _rows(curve: MapCurve) -> Iterator[dict[str, Any]]:
    simulated = set(curve.curve.steps_s)
    count = round(3 * math.log10(LONGEST_S / SHORTEST_S))
    grid = {SHORTEST_S * 10 ** (number / 3) for number in range(count + 1)}
    for delay_s in sorted(grid | simulated):
        step_s = curve.curve.step_s(delay_s)
        yield {
            "variant": curve.variant,
            "rate_gbps": curve.rate_gbps,
            "degree": curve.degree,
            "delay_s": delay_s,
            "is_simulated": delay_s in simulated,
            "step_time_s": step_s,
            "never_step_time_s": curve.curve.never_s,
            "rival_step_time_s": curve.rival("time").step_time_s,
            "highest_port_usd_per_network": curve.highest_port_usd("network", step_s),
            "highest_port_usd_per_cluster": curve.highest_port_usd("cluster", step_s),
        }
