"""Which NIC of which server ends at which ports of which circuit switch.

The light of a NIC enters the switch at an *ingress* port, and what leaves at an *egress* port
reaches the NIC; a circuit between two NICs is then two cross-connects. Where a fiber carries both
directions, a NIC has one port, and a circuit is one cross-connect. A port that no NIC has is not
owned, and never used.

Servers are counted from 0 in the order in which the map names them first. Several switches must be
planes: NIC i of every server sends into switch i.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from lightloom.control.refusals import PortMapError
from lightloom.control.switch import CrossConnect, Port, PortSide, SwitchDescription
from lightloom.errors import did_you_mean, echo

#: circuits whose cross-connects are remembered
_MAX_REMEMBERED = 16_384
_new = tuple.__new__
#: name of the server, NIC, and switch and port of both directions
MapRow: TypeAlias = tuple[str, int, str, Port, str, Port]


class SwitchPort(NamedTuple):
    """A port of one of the switches."""

    switch: str
    port: Port

    def __str__(self) -> str:
        return f"port {self.port} of {self.switch}"


class NicPair(NamedTuple):
    """A circuit by the NICs that it joins; ``server`` is the smaller of the two."""

    server: int
    nic: int
    peer: int
    peer_nic: int

    def __str__(self) -> str:
        return f"{self.server}/{self.nic}-{self.peer}/{self.peer_nic}"

    @property
    def servers(self) -> tuple[int, int]:
        """The servers that it joins."""
        return self.server, self.peer


class PlacedConnect(NamedTuple):
    """A cross-connect of one of the switches."""

    switch: str
    cross_connect: CrossConnect

    def __str__(self) -> str:
        return f"{self.cross_connect} of {self.switch}"


@dataclass(frozen=True)
class NicPorts:
    """The ports of one NIC.

    Attributes
    ----------
    server, nic
        The server's index in the map, and the NIC's in the server.
    ingress
        Where the light that the NIC sends enters the switch.
    egress
        Where the light that the NIC receives leaves the switch; the same port where a fiber
        carries both directions.
    """

    server: int
    nic: int
    ingress: SwitchPort
    egress: SwitchPort


@dataclass(frozen=True)
class ObservedCircuits:
    """What cross-connects of the switches mean for a region.

    Attributes
    ----------
    circuits
        Circuits that are there in both directions.
    strangers
        Other cross-connects between two owned ports: one direction of a circuit, a loop, or what is
        broken.
    crossing
        Cross-connects between an owned port and one that is not.
    broken
        Cross-connects that the switch has, but that carry no light.
    """

    circuits: frozenset[NicPair]
    strangers: frozenset[PlacedConnect]
    crossing: frozenset[PlacedConnect]
    broken: frozenset[PlacedConnect] = frozenset()


@dataclass(frozen=True)
class PortMap:
    """The ports of all NICs of a region; checked when it is made.

    Attributes
    ----------
    name
        Where it comes from, for messages.
    servers
        Names of the servers, in the order of their indices.
    nics
        The ports of every NIC, sorted by server and NIC.

    Raises
    ------
    PortMapError
        If a NIC or a port is there twice, a NIC index is missing, only some NICs have one port for
        both directions, or several switches are no planes.
    """

    name: str
    servers: tuple[str, ...]
    nics: tuple[NicPorts, ...]

    def __post_init__(self) -> None:
        if not self.nics:
            raise PortMapError(f"{self.name}: no NIC is connected to a circuit switch")
        self._check_nics()
        self._check_ports()
        _ = self.planes

    def _check_nics(self) -> None:
        counts = Counter((entry.server, entry.nic) for entry in self.nics)
        for (server, nic), count in counts.items():
            if count > 1:
                raise PortMapError(
                    f"{self.name}: NIC {nic} of {self.servers[server]} is there {count} times; "
                    "keep one"
                )
        for server, name in enumerate(self.servers):
            nics = sorted(nic for place, nic in counts if place == server)
            if nics != list(range(len(nics))):
                raise PortMapError(
                    f"{self.name}: {name} has NICs {', '.join(map(str, nics))}: "
                    f"expected 0 to {len(nics) - 1}"
                )

    def _check_ports(self) -> None:
        simplex = [entry for entry in self.nics if entry.ingress == entry.egress]
        if simplex and len(simplex) != len(self.nics):
            other = next(entry for entry in self.nics if entry.ingress != entry.egress)
            raise PortMapError(
                f"{self.name}: {self.shown(simplex[0])} has one port for both directions and "
                f"{self.shown(other)} has two; expected the same of all"
            )
        seen: dict[SwitchPort, NicPorts] = {}
        for entry in self.nics:
            for port in {entry.ingress, entry.egress}:
                if port in seen:
                    raise PortMapError(
                        f"{self.name}: {port} is there twice: for {self.shown(seen[port])} and "
                        f"for {self.shown(entry)}"
                    )
                seen[port] = entry

    def shown(self, entry: NicPorts) -> str:
        """A NIC for a message."""
        return f"NIC {entry.nic} of {self.servers[entry.server]}"

    @cached_property
    def rows(self) -> tuple[MapRow, ...]:
        """Name of the server, NIC, and switch and port of both directions, of every NIC."""
        return tuple(
            (self.servers[entry.server], entry.nic, *entry.ingress, *entry.egress)
            for entry in self.nics
        )

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the names of the servers, in their order, and of the ports of every NIC."""
        return sha256(json.dumps([self.servers, self.rows]).encode()).hexdigest()

    @classmethod
    def from_rows(cls, name: str, servers: Sequence[str], rows: Iterable[MapRow]) -> PortMap:
        """Return the map of these :attr:`rows`.

        Raises
        ------
        PortMapError
            As the map itself.
        """
        index = {server: number for number, server in enumerate(servers)}
        nics = tuple(
            NicPorts(index[server], nic, SwitchPort(sends, ingress), SwitchPort(gets, egress))
            for server, nic, sends, ingress, gets, egress in rows
        )
        return cls(name, tuple(servers), nics)

    @cached_property
    def is_duplex(self) -> bool:
        """Whether a NIC has one port for both directions."""
        return self.nics[0].ingress == self.nics[0].egress

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """Names of the switches, by the NICs that send into them."""
        order = sorted(self.nics, key=lambda entry: (entry.nic, entry.server))
        return tuple(dict.fromkeys(entry.ingress.switch for entry in order))

    @cached_property
    def nics_per_server(self) -> tuple[int, ...]:
        """Optical NICs of each server."""
        counts = Counter(entry.server for entry in self.nics)
        return tuple(counts[server] for server in range(len(self.servers)))

    @cached_property
    def planes(self) -> str | None:
        """How fibers are laid over several switches, as ``Decider`` takes it; None for one.

        Raises
        ------
        PortMapError
            If NIC i of every server does not send into switch i.
        """
        if len(self.switches) == 1:
            others = {entry.egress.switch for entry in self.nics} - set(self.switches)
            if others:
                raise PortMapError(
                    f"{self.name}: no NIC sends into {others.pop()}, but one receives from it"
                )
            return None
        sends = self._switch_by_nic("sends into", [entry.ingress for entry in self.nics])
        receives = self._switch_by_nic("receives from", [entry.egress for entry in self.nics])
        if len(set(sends.values())) < len(sends):
            raise PortMapError(
                f"{self.name}: {len(sends)} NICs per server on {len(self.switches)} switches: "
                "expected one switch, or one per NIC"
            )
        if len(set(self.nics_per_server)) > 1:
            raise PortMapError(f"{self.name}: planes expect as many NICs at every server")
        if receives == sends:
            return "duplex"
        # the last of an odd number has nobody to cross with
        if all(receives[nic] == sends.get(nic ^ 1, sends[nic]) for nic in sends):
            return "crossed"
        raise PortMapError(
            f"{self.name}: expected every NIC to receive from the switch that it sends into, or "
            "NICs 2j and 2j + 1 crossed and the last of an odd number not"
        )

    def _switch_by_nic(self, verb: str, ports: Sequence[SwitchPort]) -> dict[int, str]:
        switches: dict[int, str] = {}
        for entry, port in zip(self.nics, ports, strict=True):
            if switches.setdefault(entry.nic, port.switch) != port.switch:
                raise PortMapError(
                    f"{self.name}: {self.shown(entry)} {verb} {port.switch}, that of another "
                    f"server {verb} {switches[entry.nic]}: with several switches, NIC i of every "
                    "server belongs to switch i"
                )
        return switches

    @cached_property
    def by_nic(self) -> Mapping[tuple[int, int], NicPorts]:
        """The ports of each NIC, by server and NIC."""
        return {(entry.server, entry.nic): entry for entry in self.nics}

    @cached_property
    def by_port(self) -> Mapping[SwitchPort, NicPorts]:
        """The NIC of each owned port."""
        return {port: entry for entry in self.nics for port in (entry.ingress, entry.egress)}

    def owned(self, switch: str) -> frozenset[Port]:
        """The ports of a switch that belong to the region."""
        return self._owned.get(switch, frozenset())

    @cached_property
    def _owned(self) -> dict[str, frozenset[Port]]:
        ports: dict[str, set[Port]] = {}
        for owned in self.by_port:
            ports.setdefault(owned.switch, set()).add(owned.port)
        return {switch: frozenset(ports) for switch, ports in ports.items()}

    def cross_connects(self, circuit: NicPair) -> tuple[PlacedConnect, ...]:
        """Return the cross-connects that make a circuit: two, or one where ports are duplex."""
        connects = self._cross_connects.get(circuit)
        if connects is None:
            server, nic, peer, peer_nic = circuit
            (switch, ingress), (_, egress) = self._ends[server, nic]
            (peer_switch, peer_ingress), (_, peer_egress) = self._ends[peer, peer_nic]
            # named tuples are made several times as fast this way
            there = _new(PlacedConnect, (switch, _new(CrossConnect, (ingress, peer_egress))))
            back = _new(PlacedConnect, (peer_switch, _new(CrossConnect, (peer_ingress, egress))))
            if len(self._cross_connects) >= _MAX_REMEMBERED:
                self._cross_connects.clear()
            connects = self._cross_connects[circuit] = (there,) if self.is_duplex else (there, back)
        return connects

    @cached_property
    def _ends(self) -> dict[tuple[int, int], tuple[SwitchPort, SwitchPort]]:
        """The ingress and egress ports of each NIC, by server and NIC."""
        return {(entry.server, entry.nic): (entry.ingress, entry.egress) for entry in self.nics}

    @cached_property
    def _cross_connects(self) -> dict[NicPair, tuple[PlacedConnect, ...]]:
        return {}

    def observe(
        self,
        present: Mapping[str, Iterable[CrossConnect]],
        broken: frozenset[PlacedConnect] = frozenset(),
    ) -> ObservedCircuits:
        """Return what the cross-connects of the switches mean for the region.

        Cross-connects between ports that are not owned are ignored; those that are ``broken`` make
        no circuit.
        """
        directed: dict[tuple[NicPorts, NicPorts], PlacedConnect] = {}
        strangers: set[PlacedConnect] = set()
        crossing: set[PlacedConnect] = set()
        for switch, cross_connects in present.items():
            for connect in cross_connects:
                placed = PlacedConnect(switch, connect)
                a = self.by_port.get(_new(SwitchPort, (switch, connect[0])))
                b = self.by_port.get(_new(SwitchPort, (switch, connect[1])))
                if a is None and b is None:
                    continue
                if a is None or b is None:
                    crossing.add(placed)
                elif a.server != b.server and self._fits(a, b, placed) and placed not in broken:
                    directed[a, b] = placed
                else:
                    strangers.add(placed)
        circuits = set()
        for (a, b), placed in directed.items():
            if self.is_duplex or (b, a) in directed:
                first, second = (a, b) if a.server < b.server else (b, a)
                circuits.add(NicPair(first.server, first.nic, second.server, second.nic))
            else:
                strangers.add(placed)
        return ObservedCircuits(
            frozenset(circuits), frozenset(strangers), frozenset(crossing), broken & strangers
        )

    def _fits(self, a: NicPorts, b: NicPorts, placed: PlacedConnect) -> bool:
        """Whether a cross-connect leads from what one NIC sends to what another receives."""
        return self.is_duplex or _joined(a, b) == placed

    def canonical(self, switch: str, connect: CrossConnect) -> CrossConnect:
        """A duplex cross-connect between owned ports in the order of the map, others as given."""
        if not self.is_duplex:
            return connect
        a = self.by_port.get(SwitchPort(switch, connect.ingress))
        b = self.by_port.get(SwitchPort(switch, connect.egress))
        if a is None or b is None or (a.server, a.nic) < (b.server, b.nic):
            return connect
        return CrossConnect(connect.egress, connect.ingress)

    def check_switch(self, switch: str, description: SwitchDescription) -> None:
        """Check that a switch has the ports of the map, on the sides where they must be.

        Raises
        ------
        PortMapError
            Naming the first port that is missing or on the wrong side.
        """
        for owned, entry in sorted(self.by_port.items(), key=lambda item: str(item[0])):
            if owned.switch != switch:
                continue
            side = description.ports.get(owned.port)
            if side is None:
                hint = did_you_mean(owned.port, description.ports)
                size = "x".join(map(str, description.size))
                raise PortMapError(
                    f"{self.name}: {self.shown(entry)}: {switch} ({description.vendor} {size}) has "
                    f"no port {echo(owned.port)}{hint}"
                )
            if self.is_duplex or side is PortSide.ANY:
                continue
            wanted = PortSide.INGRESS if owned == entry.ingress else PortSide.EGRESS
            if side is not wanted:
                raise PortMapError(
                    f"{self.name}: {self.shown(entry)}: {owned} is on the {side} side, expected "
                    f"the {wanted} side; are the two fibers swapped?"
                )


def _joined(a: NicPorts, b: NicPorts) -> PlacedConnect:
    switch, port = a.ingress
    return PlacedConnect(switch, CrossConnect(port, b.egress[1]))
