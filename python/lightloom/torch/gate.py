"""Which circuits carry traffic: told by the controller, kept for all ranks of a server.

While the controller changes circuits of a server, its *fence* is closed: nobody begins to send over
circuits between the servers of the fence. It is drained when every byte that was sent is
acknowledged. When the controller says ``ready`` the fence opens, with the circuits that are there.

The first rank of a server writes; all ranks read. A version that is odd while it is written keeps
readers from halves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from lightloom.schedule.carrying import NicHop
from lightloom.torch.server_memory import GATE_WORDS, ServerMemory

_VERSION, _CHANGES, _CIRCUITS, _FENCED = range(4)
_SERVERS = 4
#: servers of a region, at most
_MOST_SERVERS = 1_024
_ROWS = _SERVERS + _MOST_SERVERS

GateState = Literal["open", "fenced", "dark"]


class DarkError(OSError):
    """A circuit is dark or behind a fence."""


class Gate:
    """Circuits and fence of a server, in memory that its ranks share."""

    def __init__(self, words: npt.NDArray[np.int64]) -> None:
        self._words = words
        self._seen: tuple[int, frozenset[tuple[int, ...]], frozenset[int]] | None = None

    @property
    def changes(self) -> int:
        """How often circuits were told."""
        return int(self._words[_CHANGES])

    def fence(self, servers: Collection[int]) -> None:
        """Let nobody begin to send over circuits between these servers."""
        self._write(self._circuits(), servers, 0)

    def open(self, circuits: Iterable[Sequence[int]]) -> None:
        """Let bytes over these circuits, rows of server, NIC, server, NIC."""
        self._write({tuple(map(int, row)) for row in circuits}, (), 1)

    def state(self, hop: NicHop) -> GateState:
        """Whether bytes may be sent over a hop."""
        if not hop.sender.is_optical:
            return "open"
        circuits, fenced = self._read()
        ends = (hop.sender.server, hop.receiver.server)
        if fenced.issuperset(ends):
            return "fenced"
        there = (ends[0], hop.sender.number, ends[1], hop.receiver.number)
        back = (*there[2:], *there[:2])
        return "open" if there in circuits or back in circuits else "dark"

    @contextlib.contextmanager
    def crossing(self, hop: NicHop, memory: ServerMemory, size: int) -> Iterator[None]:
        """Count bytes as on their way over a hop, which must be there if it is a circuit.

        Raises
        ------
        DarkError
            If it is dark or behind a fence.
        """
        server, charge = hop.receiver.server, size if hop.sender.is_optical else 0
        memory.add_over_circuits(server, charge)
        try:
            if self.state(hop) != "open":
                raise DarkError(f"{hop.sender} to {hop.receiver} is dark")
            yield
        finally:
            memory.add_over_circuits(server, -charge)

    def circuits(self) -> frozenset[tuple[int, ...]]:
        """Those that carry traffic, but between servers behind the fence."""
        circuits, fenced = self._read()
        return frozenset(row for row in circuits if not fenced.issuperset((row[0], row[2])))

    def _circuits(self) -> set[tuple[int, ...]]:
        count = int(self._words[_CIRCUITS])
        rows = self._words[_ROWS : _ROWS + 4 * count].reshape(-1, 4)
        return {tuple(row) for row in rows.tolist()}

    def _read(self) -> tuple[frozenset[tuple[int, ...]], frozenset[int]]:
        while True:
            version = int(self._words[_VERSION])
            if self._seen is not None and self._seen[0] == version:
                return self._seen[1:]
            if version % 2 == 0:
                circuits = frozenset(self._circuits())
                count = int(self._words[_FENCED])
                fenced = frozenset(self._words[_SERVERS : _SERVERS + count].tolist())
                if int(self._words[_VERSION]) == version:
                    self._seen = version, circuits, fenced
                    return circuits, fenced

    def _write(
        self, circuits: Collection[tuple[int, ...]], fenced: Collection[int], changes: int
    ) -> None:
        rows = np.array(sorted(circuits), np.int64).reshape(-1)
        assert _ROWS + len(rows) <= GATE_WORDS, "a region has fewer circuits"
        words = self._words
        words[_VERSION] += 1
        words[_CIRCUITS] = len(rows) // 4
        words[_ROWS : _ROWS + len(rows)] = rows
        words[_FENCED] = len(fenced)
        words[_SERVERS : _SERVERS + len(fenced)] = sorted(fenced)
        words[_CHANGES] += changes
        words[_VERSION] += 1
