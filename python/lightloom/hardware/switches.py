"""Optical circuit switches: ports, reconfiguration delay, and the delays measured on a real one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from lightloom.errors import HardwareError
from lightloom.hardware.values import (
    Availability,
    Provenance,
    Source,
    Table,
    Value,
    entry_of,
    read_toml,
    resolve,
    values_of,
)

PACKAGED = "switches.toml"

#: 99th percentile of the standard normal distribution
_Z99 = 2.3263478740408408


class TechnologyTable(Table):
    """One technology as its file has it; no delay where none was reported."""

    title: str
    availability: Availability
    ports: Value
    delay_min_s: Value | None = None
    delay_max_s: Value | None = None


class TurnaroundTable(Table):
    """Measured time from command to settled circuits."""

    base_s: Value
    per_pair_s: Value
    p99_over_mean: Value


class ActivationTable(Table):
    """Measured time until a network interface carries traffic again."""

    mean_s: Value
    p99_s: Value


class BringUpTable(Table):
    """What a new link waits for, as the file has it."""

    title: str
    delay_s: Value


class SwitchFile(Table):
    """The file of switches."""

    sources: dict[str, Source]
    technologies: dict[str, TechnologyTable]
    turnaround: TurnaroundTable
    nic_activation: ActivationTable
    bring_up: dict[str, BringUpTable]


@dataclass(frozen=True)
class SwitchTechnology:
    """A kind of optical circuit switch: whether it can be bought, most ports, reported delays."""

    name: str
    title: str
    availability: Availability
    ports: int
    delay_min_s: float | None
    delay_max_s: float | None
    provenance: Mapping[str, Provenance] = field(repr=False, compare=False)

    @property
    def reconfig_delay_s(self) -> float:
        """The longest reported delay, the one to plan with.

        Raises
        ------
        HardwareError
            If none was reported.
        """
        if self.delay_max_s is None:
            raise HardwareError(
                f"switch '{self.name}': no reconfiguration delay was reported; give one"
            )
        return self.delay_max_s


@dataclass(frozen=True)
class DelayDistribution:
    """A delay known by its mean and 99th percentile.

    Between the two a log-normal is assumed: no more than these two numbers was published.
    """

    mean_s: float
    p99_s: float

    @property
    def sigma(self) -> float:
        """Shape of the log-normal: the smaller root of ``z sigma - sigma^2 / 2 = ln(p99/mean)``."""
        log_ratio = math.log(self.p99_s / self.mean_s)
        return _Z99 - math.sqrt(_Z99**2 - 2 * log_ratio)

    @property
    def mu(self) -> float:
        """Location of the log-normal: ``ln(mean) - sigma^2 / 2``."""
        return math.log(self.mean_s) - self.sigma**2 / 2


def _file() -> SwitchFile:
    return read_toml(None, PACKAGED, SwitchFile)


def switch_names() -> list[str]:
    """Names that :func:`switch_technology` knows."""
    return list(_file().technologies)


def switch_technology(name: str) -> SwitchTechnology:
    """Return a kind of optical circuit switch by name.

    Raises
    ------
    HardwareError
        If the name is unknown.
    """
    file = _file()
    key = name.strip().lower()
    table = entry_of(file.technologies, key, "switch technology", name)
    return SwitchTechnology(
        name=key,
        title=table.title,
        availability=table.availability,
        ports=int(table.ports.value),
        delay_min_s=None if table.delay_min_s is None else table.delay_min_s.value,
        delay_max_s=None if table.delay_max_s is None else table.delay_max_s.value,
        provenance=resolve(values_of(table), file.sources),
    )


def measured_turnaround(pairs: int) -> DelayDistribution:
    """Return the delay measured on a piezo switch for setting ``pairs`` circuit pairs at once.

    Raises
    ------
    HardwareError
        If ``pairs`` is negative.

    Notes
    -----
    MixNet, Appendix C: the mean grows by 0.35 ms per pair from 41.1 ms, the 99th percentile is
    1.455 times the mean.
    """
    if pairs < 0:
        raise HardwareError(f"circuit pairs: expected 0 or more, got {pairs}")
    table = _file().turnaround
    mean_s = table.base_s.value + table.per_pair_s.value * pairs
    return DelayDistribution(mean_s, mean_s * table.p99_over_mean.value)


def nic_activation() -> DelayDistribution:
    """Time from settled circuits until a NIC of today carries traffic (MixNet, Appendix C)."""
    table = _file().nic_activation
    return DelayDistribution(table.mean_s.value, table.p99_s.value)


def bring_ups() -> dict[str, tuple[str, Provenance]]:
    """What a new link may wait for: its title and time, s, by name, the longest first."""
    file = _file()
    times = resolve({name: table.delay_s for name, table in file.bring_up.items()}, file.sources)
    return {name: (file.bring_up[name].title, time) for name, time in times.items()}
