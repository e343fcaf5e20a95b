"""Crossbars of a fabric without packet switches, and how long it takes to decide on matchings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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

PACKAGED = "crossbars.toml"


class CrossbarTable(Table):
    """One technology as its file has it."""

    title: str
    medium: Literal["electronic", "grating", "mirrors"]
    availability: Availability
    switch: str | None = None
    ports: Value
    guard_s: Value


class CrossbarFile(Table):
    """The file of crossbars; ``decisions`` are times by the number of ports."""

    sources: dict[str, Source]
    technologies: dict[str, CrossbarTable]
    decisions: dict[str, dict[str, Value]]


@dataclass(frozen=True)
class CrossbarTechnology:
    """A kind of crossbar.

    Attributes
    ----------
    medium
        What signals cross: ``electronic`` switches end every link, light passes through
        ``mirrors`` as it is, and through a ``grating`` by its wavelength.
    availability
        ``volume``, ``sampled`` or ``paper``.
    switch
        The kind of circuit switch whose ports it has, where it is one.
    ports
        Ports of one crossbar.
    guard_s
        Time in which it turns and carries nothing.
    """

    name: str
    title: str
    medium: str
    availability: Availability
    switch: str | None
    ports: int
    guard_s: float
    provenance: Mapping[str, Provenance] = field(repr=False, compare=False)


@dataclass(frozen=True)
class DecisionTimes:
    """How long the matchings of an all-to-all take to find, by the ports that take part.

    Between two numbers of ports a power law is assumed, beyond them that of the nearest two. A
    single one is a limit: it holds for fewer ports, and for more nothing is known.
    """

    name: str
    times: Mapping[int, Provenance]

    def time_s(self, ports: int) -> float:
        """Time for so many ports.

        Parameters
        ----------
        ports
            Members of the all-to-all; none for fewer than two.

        Raises
        ------
        HardwareError
            If nothing is known of so many.
        """
        if ports < 2:
            return 0.0
        sizes = sorted(self.times)
        if len(sizes) == 1:
            if ports > sizes[0]:
                raise HardwareError(
                    f"decision '{self.name}' is known for up to {sizes[0]} ports, not for {ports}:"
                    " give a time"
                )
            return self.times[sizes[0]].value
        above = next((place for place, size in enumerate(sizes) if size >= ports), len(sizes) - 1)
        low, high = sizes[max(above, 1) - 1], sizes[max(above, 1)]
        first, last = self.times[low].value, self.times[high].value
        exponent = math.log(last / first) / math.log(high / low)
        return float(first * (ports / low) ** exponent)


def _file() -> CrossbarFile:
    return read_toml(None, PACKAGED, CrossbarFile)


def crossbar_names() -> list[str]:
    """Names that :func:`crossbar_technology` knows."""
    return list(_file().technologies)


def crossbar_technology(name: str) -> CrossbarTechnology:
    """Return a kind of crossbar by name.

    Raises
    ------
    HardwareError
        If the name is unknown.
    """
    file = _file()
    table = entry_of(file.technologies, name, "crossbar technology")
    return CrossbarTechnology(
        name=name,
        title=table.title,
        medium=table.medium,
        availability=table.availability,
        switch=table.switch,
        ports=int(table.ports.value),
        guard_s=table.guard_s.value,
        provenance=resolve(values_of(table), file.sources),
    )


def decision_names() -> list[str]:
    """Names that :func:`decision_times` knows."""
    return list(_file().decisions)


def decision_times(name: str) -> DecisionTimes:
    """Return how long decisions take by the name of who makes them.

    Raises
    ------
    HardwareError
        If the name is unknown.
    """
    file = _file()
    table = entry_of(file.decisions, name, "decision")
    values = resolve(table, file.sources)
    return DecisionTimes(name, {int(ports): value for ports, value in values.items()})
