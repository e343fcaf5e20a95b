"""Packet switches that are sold in one box, by the rate of their ports."""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.hardware.values import (
    Availability,
    Provenance,
    Source,
    Table,
    Value,
    check_rates,
    read_toml,
    resolve,
)

PACKAGED = "packet_switches.toml"


class PacketSwitchTable(Table):
    """One switch as its file has it."""

    title: str
    availability: Availability
    ports: Value


class PacketSwitchFile(Table):
    """The file of packet switches; rows are rates in Gb/s."""

    sources: dict[str, Source]
    rates: dict[str, list[PacketSwitchTable]]


@dataclass(frozen=True)
class PacketSwitch:
    """A packet switch in one box.

    Attributes
    ----------
    rate_gbps
        Rate of a port, per direction.
    ports
        Ports at that rate.
    availability
        ``volume``, ``sampled`` or ``paper``.
    """

    title: str
    rate_gbps: float
    ports: int
    availability: Availability
    provenance: Provenance


def packet_switches(rate_gbps: float) -> tuple[PacketSwitch, ...]:
    """Return the switches with ports of a rate, the usual choice first.

    Between two rates of the file the faster switches are taken, whose ports run at the lower rate;
    above its highest rate, those of that one.
    """
    file = read_toml(None, PACKAGED, PacketSwitchFile)
    check_rates(file.rates, PACKAGED)
    rates = sorted(file.rates, key=float)
    row = next((key for key in rates if float(key) >= rate_gbps), rates[-1])
    return tuple(
        PacketSwitch(
            title=table.title,
            rate_gbps=float(row),
            ports=int(table.ports.value),
            availability=table.availability,
            provenance=resolve({"ports": table.ports}, file.sources)["ports"],
        )
        for table in file.rates[row]
    )
