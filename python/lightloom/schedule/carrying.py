"""Which bytes of an all-to-all take which NICs: from ranks over circuits, packets and relays.

The paths between servers, and what each of them carries, are those that a simulated run takes
(:meth:`Decider.carry <lightloom.schedule.Decider.carry>`, one function of Rust). Here they become
bytes of pairs of ranks over pairs of NICs, which a runtime can send.

The bytes of a pair of servers stand in one line: by source rank, then by destination rank. Its
paths take consecutive parts of it, in the order in which they are carried, and the NICs of a path
take consecutive, equal parts of what the path carries: they differ by one byte at most.
A GPU next to each NIC, its *delegate*, gathers what leaves over the NIC and scatters what arrives
(MixNet, section 5.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lightloom.errors import DemandError, InputError
from lightloom.schedule.decider import Decider, Held
from lightloom.schedule.named_sets import choices

#: of each kind of path, whether its hops are over circuits
_OVER_CIRCUITS = {
    "circuit": (True,),
    "eps": (False,),
    "circuit-circuit": (True, True),
    "circuit-eps": (True, False),
    "eps-circuit": (False, True),
}


class UnjoinedError(InputError):
    """Nothing that works joins two servers."""


class NicPlace(NamedTuple):
    """A NIC: its server, whether it is on circuits, and its number among those of its kind."""

    server: int
    is_optical: bool
    number: int

    def __str__(self) -> str:
        """As the controller names it: ``nic:2/1`` on circuits, ``eps:2/0`` on packet switches."""
        return f"{'nic' if self.is_optical else 'eps'}:{self.server}/{self.number}"


class NicHop(NamedTuple):
    """From one NIC to another."""

    sender: NicPlace
    receiver: NicPlace


class CarriedPart(NamedTuple):
    """Bytes from one rank to another that take the same NICs.

    Attributes
    ----------
    source, destination
        Ranks of the job.
    offset, size_bytes
        Where they are among the bytes from one rank to the other, and how many.
    hops
        From NIC to NIC; two of them where a server relays, three where both ends have lost all
        NICs on packet switches.
    """

    source: int
    destination: int
    offset: int
    size_bytes: int
    hops: tuple[NicHop, ...]


class _ServerPath(NamedTuple):
    """Bytes of a pair of servers that take one path: servers, and the kinds of hops."""

    hops: tuple[tuple[int, int, bool], ...]
    size_bytes: int


def gpu_of_nic(nic: int, nics: int, gpus: int) -> int:
    """Return the GPU next to a NIC: the NICs of a server are divided evenly among its GPUs."""
    return nic * gpus // nics


@dataclass(frozen=True)
class JobNics:
    """The NICs that the ranks of a job send over.

    Attributes
    ----------
    ranks_per_server
        Ranks are numbered server by server.
    optical
        NICs on circuits of each server.
    packet
        NICs on packet switches of every server.
    failed
        Those that nothing may take.
    """

    ranks_per_server: int
    optical: tuple[int, ...]
    packet: int
    failed: frozenset[NicPlace] = field(default=frozenset())

    @property
    def servers(self) -> int:
        """Number of servers."""
        return len(self.optical)

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.servers * self.ranks_per_server

    def all_of(self, server: int) -> Iterator[NicPlace]:
        """All NICs of a server, those on circuits first."""
        for number in range(self.optical[server]):
            yield NicPlace(server, True, number)
        for number in range(self.packet):
            yield NicPlace(server, False, number)

    def delegate(self, nic: NicPlace) -> int:
        """The rank next to a NIC."""
        count = self.optical[nic.server] if nic.is_optical else self.packet
        local = gpu_of_nic(nic.number, count, self.ranks_per_server)
        return nic.server * self.ranks_per_server + local

    def packet_hops(self, source: int, destination: int) -> list[NicHop]:
        """NIC to NIC of the same number on packet switches; beside failed ones others take over."""
        ends = [
            [nic for nic in self.all_of(server) if not nic.is_optical and nic not in self.failed]
            for server in (source, destination)
        ]
        if not (ends[0] and ends[1]):
            return []
        count = max(map(len, ends))
        return [NicHop(ends[0][n % len(ends[0])], ends[1][n % len(ends[1])]) for n in range(count)]


class AllToAllPlanner:
    """Plans which bytes of an all-to-all take which NICs.

    Parameters
    ----------
    nics
        Of the job.
    decider
        Of its region, without what has failed; None where there are no circuits.
    """

    def __init__(self, nics: JobNics, decider: Decider | None) -> None:
        self.nics, self._decider = nics, decider
        self._held: tuple[tuple[tuple[int, ...], ...], Held] | None = None

    def plan(
        self,
        demand: npt.NDArray[np.uint64],
        circuits: Iterable[Sequence[int]] = (),
        *,
        relays: Mapping[int, int] | None = None,
        server: int | None = None,
    ) -> list[CarriedPart]:
        """Plan an all-to-all, sorted by server pair.

        Parameters
        ----------
        demand
            Bytes from rank to rank, ``(ranks, ranks)``; the part inside servers crosses no NIC.
        circuits
            Those that carry traffic: rows of server, NIC, server, NIC.
        relays
            For each server whose NICs on packet switches have all failed, the server that it
            reaches these through.
        server
            What leaves this server alone; by default all.

        Raises
        ------
        DemandError
            If the demand has another shape.
        InputError
            If circuits cannot be held.
        UnjoinedError
            If nothing that works joins two servers that have bytes for each other.
        """
        count, each = self.nics.servers, self.nics.ranks_per_server
        if demand.shape != (self.nics.ranks, self.nics.ranks):
            raise DemandError(
                f"demand: expected {self.nics.ranks} x {self.nics.ranks}, got {demand.shape}"
            )
        rows = tuple(sorted(tuple(map(int, row)) for row in circuits))
        rows = tuple(row for row in rows if not self._has_failed(row))
        wires = _wires(rows)
        by_servers = demand.reshape(count, each, count, each).sum(axis=(1, 3), dtype=np.uint64)
        parts: list[CarriedPart] = []
        for source, destination, paths in self._paths(by_servers, rows):
            if server is None or source == server:
                cells = demand[source * each :, destination * each :][:each, :each]
                cuts = self._over_nics(self._reached(paths, relays or {}), wires)
                parts += _cut(cells, source * each, destination * each, cuts)
        return parts

    def _has_failed(self, row: tuple[int, ...]) -> bool:
        ends = (NicPlace(row[0], True, row[1]), NicPlace(row[2], True, row[3]))
        return any(end in self.nics.failed for end in ends)

    def _paths(
        self, demand: npt.NDArray[np.uint64], rows: tuple[tuple[int, ...], ...]
    ) -> Iterator[tuple[int, int, list[_ServerPath]]]:
        """Each pair of servers with the paths of its bytes."""
        if self._decider is None or not rows:
            for source, destination in zip(*np.nonzero(demand), strict=True):
                if source != destination:
                    ends = (int(source), int(destination))
                    size = int(demand[source, destination])
                    yield *ends, [_ServerPath(((*ends, False),), size)]
            return
        if self._held is None or self._held[0] != rows:
            self._held = rows, self._decider.hold_on(np.array(rows, np.uint32))
        carried = self._decider.carry(self._held[1], demand)
        kinds = [_OVER_CIRCUITS[name] for name in choices("relay kind")]
        found: dict[tuple[int, int], list[_ServerPath]] = {}
        for (source, relay, destination, kind), size in zip(
            carried.paths.tolist(), carried.size_bytes.tolist(), strict=True
        ):
            stops = [source, destination] if relay < 0 else [source, relay, destination]
            hops = zip(pairwise(stops), kinds[kind], strict=True)
            path = _ServerPath(tuple((*ends, over) for ends, over in hops), size)
            found.setdefault((source, destination), []).append(path)
        for pair, paths in found.items():
            yield *pair, paths

    def _reached(
        self, paths: list[_ServerPath], relays: Mapping[int, int]
    ) -> Iterator[_ServerPath]:
        """The same paths where hops over packets that end at a cut-off server are led around."""
        for path in paths:
            hops: list[tuple[int, int, bool]] = []
            for source, destination, over_circuits in path.hops:
                if over_circuits:
                    hops.append((source, destination, True))
                    continue
                enter, leave = relays.get(source, source), relays.get(destination, destination)
                if enter != source:
                    hops.append((source, enter, True))
                if enter != leave:
                    hops.append((enter, leave, False))
                if leave != destination:
                    hops.append((leave, destination, True))
            yield _ServerPath(tuple(hops), path.size_bytes)

    def _over_nics(
        self, paths: Iterable[_ServerPath], wires: Mapping[tuple[int, int], list[NicHop]]
    ) -> Iterator[tuple[int, tuple[NicHop, ...]]]:
        """Consecutive bytes of a pair of servers, each with its NICs."""
        for path in paths:
            choices_of_hops = []
            for source, destination, over_circuits in path.hops:
                choices = (
                    wires.get((source, destination), [])
                    if over_circuits
                    else self.nics.packet_hops(source, destination)
                )
                if not choices:
                    raise UnjoinedError(f"nothing joins servers {source} and {destination}")
                choices_of_hops.append(choices)
            marks = sorted({m for wire in choices_of_hops for m in _marks(path.size_bytes, wire)})
            for begin, end in pairwise(marks):
                hops = tuple(
                    choices[_holder(begin, path.size_bytes, len(choices))]
                    for choices in choices_of_hops
                )
                yield end - begin, hops


def _wires(rows: Iterable[tuple[int, ...]]) -> dict[tuple[int, int], list[NicHop]]:
    """The NICs of the circuits of each ordered pair of servers."""
    wires: dict[tuple[int, int], list[NicHop]] = {}
    for server, nic, peer, peer_nic in rows:
        ends = NicPlace(server, True, nic), NicPlace(peer, True, peer_nic)
        wires.setdefault((server, peer), []).append(NicHop(*ends))
        wires.setdefault((peer, server), []).append(NicHop(*ends[::-1]))
    return wires


def _marks(size: int, wires: Sequence[NicHop]) -> Iterator[int]:
    """Where the equal parts of some bytes begin and end."""
    return (size * n // len(wires) for n in range(len(wires) + 1))


def _holder(byte: int, size: int, count: int) -> int:
    """Which of so many equal parts a byte is in."""
    return ((byte + 1) * count - 1) // size


def _cut(
    cells: npt.NDArray[np.uint64],
    first_source: int,
    first_destination: int,
    cuts: Iterable[tuple[int, tuple[NicHop, ...]]],
) -> Iterator[CarriedPart]:
    """Deal the bytes of pairs of ranks out to consecutive parts of their line."""
    line = iter(
        (first_source + row, first_destination + column, int(size))
        for (row, column), size in np.ndenumerate(cells)
        if size
    )
    source = destination = offset = left = 0
    for size, hops in cuts:
        rest = size
        while rest:
            if not left:
                source, destination, left = next(line)
                offset = 0
            taken = min(rest, left)
            yield CarriedPart(source, destination, offset, taken, hops)
            offset, left, rest = offset + taken, left - taken, rest - taken
