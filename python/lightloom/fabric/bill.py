"""Bills of materials: how many parts of which kind and rate a fabric needs.

Only ports that are used are counted, as in the MixNet paper (section 7.2), so that a cluster that
does not fill a tree is not charged for the empty part. What is counted how is in :class:`Counting`,
and is carried in the bill as ``conventions`` to be printed with the cost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pydantic import Field

from lightloom.fabric.option_types import OptionalPositive, OptionModel, Switch
from lightloom.hardware import Availability

#: mean length of a fiber inside one hall, whose links are 30 to 60 m long; assumed
HALL_LENGTH_M = 45.0

#: every component that a bill may name
COMPONENTS = (
    "nic",
    "eps_port",
    "crossbar_port",
    "ocs_port",
    "patch_port",
    "transceiver",
    "tunable_transceiver",
    "long_reach_transceiver",
    "linear_transceiver",
    "co_packaged",
    "dac",
    "aoc",
    "fiber",
    "switch_1x2",
)


class Counting(OptionModel):
    """How parts are counted.

    By default what is simulated is charged. The MixNet paper charges three tiers of packet
    switches, whatever the size: with ``tiers = 3`` its cost ratios are reproduced
    (docs/explanation/cost.md).
    """

    title: ClassVar[str] = "counting"

    tiers: Literal[1, 2, 3, "fit"] = Field(
        "fit",
        description="Tiers of packet switches that are charged: 'fit' for those that are simulated,"
        " the fewest that the switches allow, or 3 as in the MixNet paper.",
    )
    host_links: Literal["transceiver", "dac", "aoc"] = Field(
        "transceiver", description="Kind of the links between a server and its ToR."
    )
    ocs_ports_per_nic: Literal[1, 2] = Field(
        1,
        description="Circuit-switch ports charged per NIC: 1 where a duplex port is one unit of "
        "the price list, 2 where transmit and receive are charged separately.",
    )
    patch_panels: Literal["built", "flat"] = Field(
        "built",
        description="Patch panels that are charged: those that are built, or one of any size as in"
        " the MixNet paper.",
    )
    include_nics: Switch = Field(True, description="Include NICs in the cost.")
    optics: Literal["paper", "hall"] = Field(
        "paper",
        description="What links are built of: as the MixNet paper counts, multimode transceivers of"
        " short reach and fibers of the price list (500 m); or for one hall, fibers of 45 m, and"
        " transceivers of long reach, which are single-mode, where light passes a circuit switch or"
        " a patch panel.",
    )
    modules: Literal["dsp", "linear", "co-packaged"] = Field(
        "dsp",
        description="Optics of links between packet switches, and to NICs: pluggable with a signal"
        " processor, linear pluggable without, or co-packaged with the switch and pluggable at the"
        " NIC.",
    )
    fiber_length_m: OptionalPositive = Field(
        None, description="Mean length of a fiber; by default that of the optics."
    )

    between_rates: Literal["refuse", "affine"] = Field(
        "refuse",
        description="Prices and powers at link rates that the lists have no row for: refused, or on"
        " the line through the nearest two rows.",
    )

    @property
    def length_m(self) -> float | None:
        """Mean length of a fiber; ``None`` for that of the price list."""
        if self.fiber_length_m is None and self.optics == "hall":
            return HALL_LENGTH_M
        return self.fiber_length_m

    @property
    def circuit_transceiver(self) -> str:
        """The component that ends a link through circuit switches or panels."""
        return "long_reach_transceiver" if self.optics == "hall" else "transceiver"

    def as_in_mixnet_paper(self) -> Counting:
        """Charge three tiers of packet switches whatever the size, and one panel of any size."""
        paper = {"tiers": 3, "patch_panels": "flat", "optics": "paper"}
        return self.model_copy(update=paper)

    def conventions(self, tiers: int | None = None) -> dict[str, str]:
        """Return what was counted how, in words; ``tiers`` of packet switches, if there are any."""
        nics = "included" if self.include_nics else "left out"
        is_duplex = self.ocs_ports_per_nic == 1
        ocs = "one duplex port per NIC" if is_duplex else "two ports per NIC, transmit and receive"
        length = self.length_m
        optics = "multimode everywhere, as the MixNet paper counts"
        if self.optics == "hall":
            optics = "for one hall, single-mode through circuit switches and panels"
        simulated = " (as simulated)" if self.tiers == "fit" else ""
        return {
            "switch ports": "only used ones",
            "tiers of packet switches": "none" if tiers is None else f"{tiers}{simulated}",
            "host links": self.host_links,
            "OCS ports": ocs,
            "NICs": nics,
            "optics": optics,
            "modules of packet links": self.modules,
            "mean fiber length": "of the price file" if length is None else f"{length:g} m",
        }


@dataclass(frozen=True)
class Line:
    """So many of one component.

    ``rate_gbps`` is that of the link it serves; fibers count links. ``technology`` is the kind of
    circuit switch, which the price of a port depends on. ``price_usd`` and ``power_w`` of one are
    those of the lists where the fabric does not say them.
    """

    component: str
    rate_gbps: float
    count: int
    technology: str | None = None
    price_usd: float | None = None
    power_w: float | None = None

    def __post_init__(self) -> None:
        assert self.component in COMPONENTS, self.component
        assert self.count >= 0


@dataclass(frozen=True)
class Switches:
    """Switches of one kind, which are bought whole.

    Attributes
    ----------
    component
        The component of :data:`COMPONENTS` that counts their ports.
    rate_gbps
        Rate of a port; circuit switches pass any.
    ports, count
        Ports of a switch, and how many there are.
    used
        Ports of all of them that are used.
    tiers, planes
        Tiers of a network of them, and separate networks.
    widest
        The most servers that as many tiers take; ``None`` where more switches take any number.
    technology
        Kind of circuit switch or crossbar.
    availability
        Whether they can be bought: ``volume``, ``sampled`` or ``paper``.
    """

    component: str
    rate_gbps: float
    ports: int
    count: int
    used: int
    tiers: int = 1
    planes: int = 1
    widest: int | None = None
    technology: str | None = None
    availability: Availability = "volume"

    @property
    def spare(self) -> int:
        """Ports that are bought and not used."""
        return max(0, self.ports * self.count - self.used)


@dataclass(frozen=True)
class Bill:
    """The parts of a network for ``gpus`` GPUs in ``servers`` servers.

    ``lines`` count what is used; ``switches`` says in which boxes it comes.
    """

    fabric: str
    gpus: int
    servers: int
    lines: tuple[Line, ...]
    switches: tuple[Switches, ...] = ()
    fiber_length_m: float | None = None
    conventions: dict[str, str] = field(default_factory=dict)

    def count(self, component: str) -> int:
        """How many of one component, all rates together."""
        return sum(line.count for line in self.lines if line.component == component)


@dataclass(frozen=True)
class TreeLinks:
    """Links of a packet fabric, all at one rate.

    ``hosts`` join NICs to ToRs; ``fabric[t]`` join tier ``t + 1`` to the tier above it.
    """

    hosts: int
    fabric: tuple[int, ...]


def eps_lines(links: TreeLinks, rate_gbps: float, counting: Counting) -> list[Line]:
    """Parts of a packet fabric: a port per host link, two per link above, a transceiver per end.

    With three tiers at 1:1 that is 5 ports, 6 transceivers and 3 fibers per NIC. Copper (``dac``)
    or active optical cables (``aoc``) replace both transceivers and the fiber of host links only.
    """
    above = sum(links.fabric)
    hosts = links.hosts if counting.host_links == "transceiver" else 0
    at_switches = "co_packaged" if counting.modules == "co-packaged" else "transceiver"
    at_nics = "transceiver"
    if counting.modules == "linear":
        at_switches = at_nics = "linear_transceiver"
    lines = [
        Line("eps_port", rate_gbps, links.hosts + 2 * above),
        Line(at_switches, rate_gbps, hosts + 2 * above),
        Line(at_nics, rate_gbps, hosts),
        Line("fiber", rate_gbps, hosts + above),
    ]
    if counting.host_links != "transceiver":
        lines.append(Line(counting.host_links, rate_gbps, links.hosts))
    return lines


def nic_lines(nics: int, rate_gbps: float, counting: Counting) -> list[Line]:
    """NICs, if they are counted as part of the network."""
    return [Line("nic", rate_gbps, nics)] if counting.include_nics else []


def merged(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Lines of the same component, rate and kind added up, in the order of :data:`COMPONENTS`."""
    counts: dict[Line, int] = {}
    for line in lines:
        uncounted = dataclasses.replace(line, count=0)
        counts[uncounted] = counts.get(uncounted, 0) + line.count
    order = sorted(counts, key=lambda line: (COMPONENTS.index(line.component), line.rate_gbps))
    return tuple(dataclasses.replace(line, count=counts[line]) for line in order if counts[line])
