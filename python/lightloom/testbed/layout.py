"""Servers and NICs of a testbed: names, addresses, rates. Pure: nothing here touches the kernel.

Server ``s`` has ``eps_nics`` NICs at a packet switch, ``eps0`` and on, and its other NICs at a
circuit switch, ``nic0`` and on, as a controller counts them: ``nic:2/1`` is ``nic1`` of server 2.
An address belongs to its NIC for good, as a /32, and every server knows every address's MAC, so
that nothing has a new address where a circuit moves, and no switch has to flood a question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lightloom.testbed.refusals import LayoutError

MAX_SERVERS, MAX_NICS = 64, 16
#: size of a frame's payload: long frames cost less time per byte and have shorter headers
MTU_BYTES = 9000
#: names of the namespaces of the switches
CIRCUITS, PACKETS = "circuits", "packets"


@dataclass(frozen=True)
class ServerNic:
    """One NIC, and the port of a switch that its cable ends at.

    Attributes
    ----------
    server, number
        Of which server, and its index among those at the same switch.
    is_optical
        Whether it is at the circuit switch, else at the packet switch.
    rate_gbps
        Per direction.
    """

    server: int
    number: int
    is_optical: bool
    rate_gbps: float

    @property
    def device(self) -> str:
        """Name of the device in the server."""
        return f"{'nic' if self.is_optical else 'eps'}{self.number}"

    @property
    def part(self) -> str:
        """What a controller calls it."""
        return f"{'nic' if self.is_optical else 'eps'}:{self.server}/{self.number}"

    @property
    def port(self) -> str:
        """Name of the device at the switch's end of the cable."""
        return f"s{self.server}{self.device}"

    @property
    def address(self) -> str:
        """IPv4 address, for good."""
        return f"10.{int(self.is_optical)}.{self.server}.{self.number + 1}"

    @property
    def mac(self) -> str:
        """Ethernet address, for good."""
        return f"02:4c:4c:{int(self.is_optical):02x}:{self.server:02x}:{self.number:02x}"


@dataclass(frozen=True, kw_only=True)
class ServerLayout:
    """How many servers with how many NICs of which rates.

    Attributes
    ----------
    servers
        2 to 64.
    nics
        NICs of each server, at both switches together.
    eps_nics
        Those of them that are at the packet switch; at least 1.
    rate_gbps, eps_gbps
        Rate of a NIC at the circuit switch, and at the packet switch, per direction.
    ranks_per_server
        Processes of a job in each server.

    Raises
    ------
    LayoutError
        If a number is out of range.
    """

    servers: int
    nics: int
    eps_nics: int = 1
    rate_gbps: float
    eps_gbps: float
    ranks_per_server: int = 1

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("servers", self.servers, 2, MAX_SERVERS),
            ("nics", self.nics, 1, MAX_NICS),
            ("eps_nics", self.eps_nics, 1, self.nics),
            ("ranks_per_server", self.ranks_per_server, 1, MAX_NICS),
        ):
            if not least <= value <= most:
                raise LayoutError(f"{name} {value}: expected {least} to {most}")
        for name, gbps in (("rate", self.rate_gbps), ("eps_rate", self.eps_gbps)):
            if not 1e-3 <= gbps <= 100:
                raise LayoutError(f"{name} {gbps:g} Gb/s: expected 1 Mb/s to 100 Gb/s")

    @property
    def optical_nics(self) -> int:
        """NICs of each server at the circuit switch."""
        return self.nics - self.eps_nics

    @property
    def ports(self) -> int:
        """Ingress ports of the circuit switch; as many are egress ports."""
        return self.servers * self.optical_nics

    @property
    def sum_gbps(self) -> float:
        """Rates of all NICs together."""
        per_server = self.optical_nics * self.rate_gbps + self.eps_nics * self.eps_gbps
        return self.servers * per_server

    def nics_of(self, server: int) -> Iterator[ServerNic]:
        """NICs of a server: those at the packet switch, then those at the circuit switch."""
        for number in range(self.eps_nics):
            yield ServerNic(server, number, False, self.eps_gbps)
        for number in range(self.optical_nics):
            yield ServerNic(server, number, True, self.rate_gbps)

    def all_nics(self) -> Iterator[ServerNic]:
        """NICs of all servers, in the order of these."""
        for server in range(self.servers):
            yield from self.nics_of(server)

    def ingress_of(self, nic: ServerNic) -> int:
        """Ingress port of the circuit switch at which the cable of a NIC ends, from 1."""
        return nic.server * self.optical_nics + nic.number + 1

    def nic_at(self, ingress: int) -> ServerNic:
        """NIC at an ingress port, the inverse of :meth:`ingress_of`."""
        server, number = divmod(ingress - 1, self.optical_nics)
        return ServerNic(server, number, True, self.rate_gbps)

    def places(self) -> tuple[str, ...]:
        """Names of all namespaces."""
        return (*(server_place(server) for server in range(self.servers)), CIRCUITS, PACKETS)


def server_place(server: int) -> str:
    """Name of the namespace of a server."""
    return f"server{server}"
