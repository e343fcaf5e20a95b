"""What a packet simulation will cost, told before it begins.

The work of a run is its packet-hops: one for each packet of data and link that it crosses. Their
number is known beforehand but for packets that are sent twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.errors import InputError
from lightloom.packets.flows import Flows
from lightloom.packets.scenario import PacketScenario
from lightloom.packets.settings import PacketSettings
from lightloom.units import show_count

#: data hops per second of one core; ``crates/packetsim/examples/speed.rs`` measures 3.5 to 5.7
#: million over 1,024 hosts, acknowledgments included (see benches/RESULTS.md)
_HOPS_PER_S = 3e6
#: a run that takes longer is announced, and one that takes longer than a day is refused, seconds
_LONG_S, _TOO_LONG_S = 60.0, 86_400.0


@dataclass(frozen=True)
class Forecast:
    """The work of a run.

    Attributes
    ----------
    packets
        Packets of data.
    hops
        Packet-hops of data.
    payload_bytes, wire_bytes
        Bytes of a full packet without and with its header.
    stops_early
        Whether the run has a time at which it stops.
    """

    packets: float
    hops: float
    payload_bytes: int
    wire_bytes: int
    stops_early: bool

    @property
    def seconds(self) -> float:
        """Time that the run will take, at a rate that every transport reaches."""
        return self.hops / _HOPS_PER_S

    def remark(self) -> str | None:
        """What to know before the run; ``None`` where it is short and its packets are full."""
        headers = self.wire_bytes - self.payload_bytes
        if self.payload_bytes < max(headers, 64):
            wire = f" and {headers} B of header" if headers else ""
            return (
                f"packets of {self.payload_bytes} B of data{wire}: {self._work()}; a larger MTU "
                "needs fewer"
            )
        return f"{self._work()}" if self.seconds > _LONG_S else None

    def check(self) -> None:
        """Refuse a run without an end that would take days.

        Raises
        ------
        InputError
            If it would take over a day; says what makes it shorter.
        """
        if self.seconds > _TOO_LONG_S and not self.stops_early:
            raise InputError(
                f"the flows are {self._work()}; expected at most a day: make them smaller, "
                "enlarge the MTU, or stop the run at a time (--until, until_s)"
            )

    def _work(self) -> str:
        return (
            f"{show_count(self.packets)} packets, which cross {show_count(self.hops)} links in "
            f"all, about {_span(self.seconds)}"
        )


def forecast(
    expected_hops: int, flows: Flows, scenario: PacketScenario, settings: PacketSettings
) -> Forecast:
    """Estimate the work of a run.

    Parameters
    ----------
    expected_hops
        Packet-hops if every flow ends and no packet is sent twice.
    flows, scenario
        What is simulated.
    settings
        The parameters of the run, of which the sizes of packets are read.
    """
    sizes = settings.tables["packet"]
    payload = int(sizes["mtu_bytes"])
    wire = payload + int(sizes["header_bytes"])
    packets = float(np.maximum(1.0, np.ceil(flows.size_bytes / payload)).sum())
    hops = float(expected_hops)
    if scenario.until_s is not None:
        # no more than every sender can send until then
        rate = len(np.unique(flows.source)) * scenario.network.rate_gbps * 1e9 / 8
        share = min(1.0, rate * scenario.until_s / wire / packets)
        packets, hops = packets * share, hops * share
    return Forecast(packets, hops, payload, wire, scenario.until_s is not None)


def _span(seconds: float) -> str:
    """A time in words, to two digits."""
    for unit, length_s in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.2g} {unit}"
    return f"{max(1.0, seconds):.2g} s"
