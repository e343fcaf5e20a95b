"""Prices and powers of what a fabric is built from, by link rate.

Rates between the rows of a table are refused, unless a list is asked to be affine between them
(:meth:`Prices.affine`): then a value is on the line through those of the two nearest rows, also
beyond the ends of the table, and counts as assumed. A price or power that a file leaves out is an
error where it is asked for, not before.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from lightloom.errors import HardwareError, did_you_mean
from lightloom.hardware.values import (
    Availability,
    Provenance,
    Source,
    Table,
    Value,
    check_rates,
    read_toml,
    resolve,
    row_at_rate,
    values_of,
)


class LinkPrices(Table):
    """Prices at one link rate, USD, and whether its parts can be bought.

    A transceiver is one end of a link; ``ocs_port_usd`` is of circuit switches whose kind has no
    price of its own.
    """

    availability: Availability = "volume"
    transceiver_usd: Value | None = None
    nic_usd: Value | None = None
    switch_port_usd: Value | None = None
    crossbar_port_usd: Value | None = None
    tunable_transceiver_usd: Value | None = None
    ocs_port_usd: Value | None = None
    patch_port_usd: Value | None = None
    dac_usd: Value | None = None
    aoc_usd: Value | None = None
    long_reach_transceiver_usd: Value | None = None
    linear_transceiver_usd: Value | None = None
    co_packaged_usd: Value | None = None


class CircuitSwitchPrices(Table):
    """Price of one kind of circuit switch, USD; ports pass any rate."""

    ocs_port_usd: Value


class FiberPrices(Table):
    """Fiber: USD per meter, mean length of a link."""

    price_usd_per_m: Value
    mean_length_m: Value


class SwitchPrices(Table):
    """Small parts of optical fabrics, USD."""

    look_ahead_switch_usd: Value | None = None


class ServerPrice(Table):
    """A server without GPUs, NICs and transceivers, USD, and how many GPUs share it."""

    price_usd: Value | None = None
    gpus: Value


class PriceFile(Table):
    """A file of prices."""

    sources: dict[str, Source]
    links: dict[str, LinkPrices]
    circuit_switches: dict[str, CircuitSwitchPrices] = Field(default_factory=dict)
    fiber: FiberPrices
    switches: SwitchPrices
    server: ServerPrice


class LinkPowers(Table):
    """Powers at one link rate, W; ports of switches and crossbars exclude their transceivers."""

    switch_port_w: Value | None = None
    crossbar_port_w: Value | None = None
    transceiver_w: Value | None = None
    tunable_transceiver_w: Value | None = None
    linear_transceiver_w: Value | None = None
    co_packaged_w: Value | None = None
    nic_w: Value | None = None


class CircuitSwitchPowers(Table):
    """Power of one kind of circuit switch, W."""

    ocs_port_w: Value


class PortPowers(Table):
    """Powers that do not depend on the link rate, W.

    ``ocs_port_w`` is of circuit switches whose kind has no power of its own.
    """

    ocs_port_w: Value | None = None
    patch_port_w: Value | None = None
    dac_w: Value | None = None


class ServerPower(Table):
    """A server without GPUs, NICs and transceivers, W, and how many GPUs share it."""

    power_w: Value | None = None
    gpus: Value


class PowerFile(Table):
    """A file of powers."""

    sources: dict[str, Source]
    links: dict[str, LinkPowers]
    circuit_switches: dict[str, CircuitSwitchPowers] = Field(default_factory=dict)
    ports: PortPowers
    server: ServerPower


@dataclass(frozen=True)
class Row:
    """Named numbers of one kind; a missing one is an error when asked for."""

    what: str
    provenance: Mapping[str, Provenance] = field(repr=False)

    def get(self, name: str) -> float:
        """Return the number called ``name``.

        Raises
        ------
        HardwareError
            If the file has no such number.
        """
        if name not in self.provenance:
            hint = did_you_mean(name, self.provenance)
            raise HardwareError(f"{self.what}: no '{name}'{hint}; add it to the file")
        return self.provenance[name].value


def _row(what: str, table: Table, sources: Mapping[str, Source]) -> Row:
    return Row(what, resolve(values_of(table), sources))


def _row_at(
    what: str,
    file: PriceFile | PowerFile,
    rate_gbps: float,
    *,
    is_affine: bool,
) -> Row:
    """The row of a rate; between rows, if they may be joined, that of the line through two."""
    name = f"{what} at {rate_gbps:g} Gb/s"
    links: Mapping[str, Table] = file.links
    if is_affine and 0 < rate_gbps < math.inf and f"{rate_gbps:g}" not in links and len(links) > 1:
        listed_gbps = sorted(map(float, links))
        place = min(max(bisect.bisect(listed_gbps, rate_gbps), 1), len(listed_gbps) - 1)
        ends = listed_gbps[place - 1], listed_gbps[place]
        rows = [resolve(values_of(links[f"{end:g}"]), file.sources) for end in ends]
        share = (rate_gbps - ends[0]) / (ends[1] - ends[0])
        return Row(name, _between(rows[0], rows[1], share, ends))
    return _row(name, row_at_rate(links, rate_gbps, what), file.sources)


def _between(
    low: Mapping[str, Provenance],
    high: Mapping[str, Provenance],
    share: float,
    ends: tuple[float, float],
) -> dict[str, Provenance]:
    """Values on the lines through two rows, ``share`` of the way from one to the other."""
    source = f"affine between {ends[0]:g} and {ends[1]:g} Gb/s"
    return {
        name: Provenance(
            max(0.0, value.value + share * (high[name].value - value.value)),
            f"{source}: {value.source}", value.date, assumed=True,
        )
        for name, value in low.items()
        if name in high
    }  # fmt: skip


def _by_path(file: PriceFile | PowerFile, parts: Iterable[str]) -> dict[str, Provenance]:
    """Every value of a file by its path: links by rate, then the named parts."""
    tables: dict[str, Table] = {f"links.{rate}": table for rate, table in file.links.items()}
    tables |= {f"circuit_switches.{kind}": table for kind, table in file.circuit_switches.items()}
    tables |= {part: getattr(file, part) for part in parts}
    return {
        f"{path}.{name}": value
        for path, table in tables.items()
        for name, value in resolve(values_of(table), file.sources).items()
    }


@dataclass(frozen=True)
class Prices:
    """Prices of one file.

    ``at(rate_gbps)`` gives the row of a link rate with ``transceiver_usd``, ``nic_usd``,
    ``switch_port_usd``, ``crossbar_port_usd``, ``ocs_port_usd``, ``patch_port_usd``, ``dac_usd``,
    ``aoc_usd``, ``long_reach_transceiver_usd``, ``tunable_transceiver_usd``,
    ``linear_transceiver_usd`` and ``co_packaged_usd`` (a port's optics at the switch).
    """

    name: str
    file: PriceFile = field(repr=False)
    is_affine: bool = False

    def affine(self) -> Prices:
        """The same prices, with those of other rates on the line through the nearest two."""
        return replace(self, is_affine=True)

    def at(self, rate_gbps: float) -> Row:
        """Prices at a link rate.

        Raises
        ------
        HardwareError
            If the file has no row for this very rate, and is not to be affine between rows.
        """
        what = f"prices ({self.name})"
        return _row_at(what, self.file, rate_gbps, is_affine=self.is_affine)

    def circuit_switch(self, kind: str | None, rate_gbps: float) -> Row:
        """The row with ``ocs_port_usd`` of a kind of circuit switch; else that of the rate.

        Raises
        ------
        HardwareError
            If the kind has no price and the file has no row for this very rate.
        """
        if kind not in self.file.circuit_switches:
            return self.at(rate_gbps)
        what = f"prices ({self.name}), circuit switch '{kind}'"
        return _row(what, self.file.circuit_switches[kind], self.file.sources)

    def availability(self, rate_gbps: float) -> Availability:
        """Whether NICs and transceivers of a rate can be bought; of rates between, ``paper``.

        Raises
        ------
        HardwareError
            If the file has no row for this very rate, and is not to be affine between rows.
        """
        if self.is_affine and f"{rate_gbps:g}" not in self.file.links:
            return "paper"
        return row_at_rate(self.file.links, rate_gbps, f"prices ({self.name})").availability

    def rates_gbps(self) -> list[float]:
        """Link rates that have a row, ascending."""
        return sorted(float(key) for key in self.file.links)

    @property
    def fiber_usd(self) -> float:
        """Mean price of one fiber link: price per meter times mean length (TopoOpt's method)."""
        fiber = self.file.fiber
        return fiber.price_usd_per_m.value * fiber.mean_length_m.value

    @property
    def look_ahead_switch_usd(self) -> float:
        """Price of the 1x2 switch of TopoOpt's look-ahead option."""
        return _row(f"prices ({self.name})", self.file.switches, self.file.sources).get(
            "look_ahead_switch_usd"
        )

    def server_usd_per_gpu(self) -> float:
        """Share of one GPU in its server's price, GPUs, NICs and transceivers excluded.

        Raises
        ------
        HardwareError
            If the file has no server price, or no GPUs to share it.
        """
        row = _row(f"prices ({self.name}), server", self.file.server, self.file.sources)
        return row.get("price_usd") / _at_least_one(row, "gpus")

    def provenance(self) -> dict[str, Provenance]:
        """Every value of the file by its path, for reports."""
        return _by_path(self.file, ("fiber", "switches", "server"))


@dataclass(frozen=True)
class Powers:
    """Powers of one file.

    ``at(rate_gbps)`` gives the row of a link rate with ``switch_port_w``, ``crossbar_port_w``,
    ``transceiver_w``, ``tunable_transceiver_w``, ``linear_transceiver_w``, ``co_packaged_w`` and
    ``nic_w``; ``ports`` has ``ocs_port_w``,
    ``patch_port_w`` and ``dac_w``.
    """

    name: str
    file: PowerFile = field(repr=False)
    is_affine: bool = False

    def affine(self) -> Powers:
        """The same powers, with those of other rates on the line through the nearest two."""
        return replace(self, is_affine=True)

    def at(self, rate_gbps: float) -> Row:
        """Powers at a link rate.

        Raises
        ------
        HardwareError
            If the file has no row for this very rate, and is not to be affine between rows.
        """
        what = f"powers ({self.name})"
        return _row_at(what, self.file, rate_gbps, is_affine=self.is_affine)

    @property
    def ports(self) -> Row:
        """Powers per port that do not depend on the rate."""
        return _row(f"powers ({self.name}), ports", self.file.ports, self.file.sources)

    def circuit_switch(self, kind: str | None) -> Row:
        """The row with ``ocs_port_w`` of a kind of circuit switch; else that of all ports."""
        if kind not in self.file.circuit_switches:
            return self.ports
        what = f"powers ({self.name}), circuit switch '{kind}'"
        return _row(what, self.file.circuit_switches[kind], self.file.sources)

    def server_w_per_gpu(self) -> float:
        """Share of one GPU in its server's power, GPUs, NICs and transceivers excluded.

        Raises
        ------
        HardwareError
            If the file has no server power, or no GPUs to share it.
        """
        row = _row(f"powers ({self.name}), server", self.file.server, self.file.sources)
        return row.get("power_w") / _at_least_one(row, "gpus")

    def provenance(self) -> dict[str, Provenance]:
        """Every value of the file by its path, for reports."""
        return _by_path(self.file, ("ports", "server"))


def _at_least_one(row: Row, name: str) -> float:
    number = row.get(name)
    if number < 1:
        raise HardwareError(f"{row.what}: {name} must be at least 1, got {number:g}")
    return number


def load_prices(path: Path | None = None, recorded: Mapping[str, Any] | None = None) -> Prices:
    """Read prices from ``path``, or the packaged ones (MixNet's Table 4 and assumptions).

    ``recorded`` is what was read of the path before.

    Raises
    ------
    HardwareError
        If the file cannot be read, has an unknown key, a wrong value or an unlisted source.
    """
    file = read_toml(path, "prices.toml", PriceFile, recorded)
    name = "prices.toml" if path is None else str(path)
    check_rates(file.links, name)
    prices = Prices(name, file)
    prices.provenance()
    return prices


def load_power(path: Path | None = None, recorded: Mapping[str, Any] | None = None) -> Powers:
    """Read powers from ``path``, or the packaged ones; ``recorded`` is what was read before.

    Raises
    ------
    HardwareError
        If the file cannot be read, has an unknown key, a wrong value or an unlisted source.
    """
    file = read_toml(path, "power.toml", PowerFile, recorded)
    name = "power.toml" if path is None else str(path)
    check_rates(file.links, name)
    powers = Powers(name, file)
    powers.provenance()
    return powers
