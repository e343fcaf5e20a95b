"""How one port map of a region differs from another, and which circuits mean the same in both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from lightloom.control.port_map import NicPair, NicPorts, PortMap
from lightloom.control.refusals import PortMapError
from lightloom.units import show_things


@dataclass(frozen=True)
class MapChange:
    """A port map, and the one that shall follow it.

    A NIC is the same in both if its server has the same name, its index is the same, and so are its
    ports; a new server that has the same NICs as one that is gone, or most of them, is that one.

    Attributes
    ----------
    before, after
        The maps.
    """

    before: PortMap
    after: PortMap

    @property
    def is_empty(self) -> bool:
        """Whether servers, their order, and ports are the same."""
        return self.before.fingerprint == self.after.fingerprint

    def check_empty(self) -> None:
        """Refuse whatever counts servers and NICs while the maps differ.

        Raises
        ------
        PortMapError
            If they do.
        """
        if not self.is_empty:
            raise PortMapError(
                f"{self.after.name} has changed since the last change of circuits: {self}; look at "
                "it, and take it up, with lightloom control remap"
            )

    @cached_property
    def renamed(self) -> dict[str, str]:
        """New names of servers by old ones: of a name that is gone, who has most of its NICs."""
        gone = set(self.before.servers) - set(self.after.servers)
        new = set(self.after.servers) - set(self.before.servers)
        places = {
            (entry.nic, _path(entry)): self.after.servers[entry.server] for entry in self.after.nics
        }
        shared = Counter(
            (self.before.servers[entry.server], places.get((entry.nic, _path(entry)), ""))
            for entry in self.before.nics
        )
        renamed: dict[str, str] = {}
        for old, name in sorted(shared, key=lambda names: (-shared[names], names)):
            if old in gone - renamed.keys() and name in new.difference(renamed.values()):
                renamed[old] = name
        return renamed

    @cached_property
    def same(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Server and NIC in the map after, by those in the map before, of NICs that stay."""
        index = {name: number for number, name in enumerate(self.after.servers)}
        same = {}
        for entry in self.before.nics:
            name = self.before.servers[entry.server]
            server = index.get(self.renamed.get(name, name))
            there = None if server is None else self.after.by_nic.get((server, entry.nic))
            if there is not None and _path(there) == _path(entry):
                same[entry.server, entry.nic] = there.server, there.nic
        return same

    def kept(self, circuits: Iterable[NicPair]) -> frozenset[NicPair]:
        """Return those circuits of the map before whose NICs stay."""
        return frozenset(
            circuit
            for circuit in circuits
            if {(circuit.server, circuit.nic), (circuit.peer, circuit.peer_nic)} <= self.same.keys()
        )

    def translate(self, circuits: Iterable[NicPair]) -> frozenset[NicPair]:
        """Return the circuits that are kept as the map after counts them."""
        translated = set()
        for circuit in self.kept(circuits):
            ends = self.same[circuit.server, circuit.nic], self.same[circuit.peer, circuit.peer_nic]
            first, second = sorted(ends)
            translated.add(NicPair(*first, *second))
        return frozenset(translated)

    def lines(self) -> Iterator[str]:
        """Say what differs, a line for each server or NIC."""
        before, after = self.before, self.after
        for name, new in self.renamed.items():
            yield f"{name} is called {new}"
        for name in before.servers:
            if name not in after.servers and name not in self.renamed:
                yield f"{name} is gone ({_nics(before, name)})"
        for name in after.servers:
            if name not in before.servers and name not in self.renamed.values():
                yield f"{name} is new ({_nics(after, name)})"
        yield from self._moved()
        order = [self.renamed.get(name, name) for name in before.servers]
        stay = [name for name in order if name in after.servers]
        if stay != [name for name in after.servers if name in stay]:
            yield "servers are in another order, and with them the ranks of a job"
        elif stay and order.index(stay[0]) != after.servers.index(stay[0]):
            yield "servers have other numbers, and with them the ranks of a job"

    def _moved(self) -> Iterator[str]:
        before, after = self.before, self.after
        names = [self.renamed.get(name, name) for name in before.servers]
        index = {name: number for number, name in enumerate(after.servers)}
        for entry in before.nics:
            name = names[entry.server]
            if name not in index:
                continue
            there = after.by_nic.get((index[name], entry.nic))
            if there is None:
                yield f"{before.shown(entry)} is gone"
            elif _path(there) != _path(entry):
                yield f"{before.shown(entry)} moves from {_shown(entry)} to {_shown(there)}"
        for there in after.nics:
            name = after.servers[there.server]
            if name in names:
                was = (names.index(name), there.nic)
                if was not in before.by_nic:
                    yield f"{after.shown(there)} is new"

    def __str__(self) -> str:
        lines = list(self.lines())
        return lines[0] + (f", and {len(lines) - 1:,} more" if lines[1:] else "")


def _path(entry: NicPorts) -> tuple[object, object]:
    return entry.ingress, entry.egress


def _nics(port_map: PortMap, name: str) -> str:
    return show_things(port_map.nics_per_server[port_map.servers.index(name)], "NIC")


def _shown(entry: NicPorts) -> str:
    if entry.ingress == entry.egress:
        return str(entry.ingress)
    return f"ports {entry.ingress.port} and {entry.egress.port} of {entry.ingress.switch}"
