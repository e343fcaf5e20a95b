"""Which parts of a network cannot be bought in volume, and how much of its price is assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self, get_args

from lightloom.cost import is_price_assumed, unit_price_usd
from lightloom.fabric import Bill
from lightloom.hardware import Availability, Prices

#: parts that run at the rate of their link and do not belong to a switch
_ENDS = ("nic", "transceiver", "tunable_transceiver", "long_reach_transceiver", "dac", "aoc")


@dataclass(frozen=True)
class ScarcePart:
    """A part that is not sold in volume.

    Attributes
    ----------
    component, technology
        The component of :data:`~lightloom.fabric.COMPONENTS`, and its kind where it has some.
    rate_gbps
        Rate of its links.
    availability
        ``sampled`` or ``paper``.
    """

    component: str
    rate_gbps: float
    availability: Availability
    technology: str | None = None


@dataclass(frozen=True)
class Supply:
    """What a network's buyer has to know of its parts.

    Attributes
    ----------
    scarce
        Those that are not sold in volume.
    assumed_shares
        Share of the network's cost by component whose price nobody published.
    """

    scarce: tuple[ScarcePart, ...] = ()
    assumed_shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def availability(self) -> Availability:
        """Availability of the part that is the hardest to buy."""
        order: tuple[Availability, ...] = get_args(Availability)
        return max((part.availability for part in self.scarce), key=order.index, default="volume")

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` made plain values of."""
        return cls(
            scarce=tuple(ScarcePart(**part) for part in content["scarce_parts"]),
            assumed_shares=content["assumed_price_shares"],
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {
            "availability": self.availability,
            "scarce_parts": [asdict(part) for part in self.scarce],
            "assumed_price_shares": dict(self.assumed_shares),
        }


def supply_of(bill: Bill, prices: Prices) -> Supply:
    """Look up the parts of a bill.

    Raises
    ------
    HardwareError
        If the price list lacks a part.
    """
    switches = [
        ScarcePart(switch.component, switch.rate_gbps, switch.availability, switch.technology)
        for switch in bill.switches
        if switch.count
    ]
    ends = [
        ScarcePart(line.component, line.rate_gbps, prices.availability(line.rate_gbps))
        for line in bill.lines
        if line.component in _ENDS
    ]
    paid = [(line, line.count * unit_price_usd(line, bill, prices)) for line in bill.lines]
    total_usd = sum(usd for _, usd in paid)
    shares: dict[str, float] = {}
    for line, usd in paid:
        if usd and is_price_assumed(line, prices):
            shares[line.component] = shares.get(line.component, 0.0) + usd / total_usd
    scarce = tuple(part for part in (*switches, *ends) if part.availability != "volume")
    return Supply(scarce, shares)
