"""A recorded step in GOAL, for LogGOPSim and ATLAHS: a rank per server.

GOAL knows waits within a rank alone. A rank that waits for what others sent one another, as a ring
begins once all of its members are there, is told by a message of one byte; what it waits for beyond
messages is computed by every rank that waits for it. So a replay takes longer by the latency of
what is told. Spans that overlapped in the recorded run are on different processors.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lightloom.packets.goal import goal_bytes
from lightloom.simulate.recorded_operations import RecordedRow

if TYPE_CHECKING:
    from lightloom.simulate.recording import RecordedStep

#: processors of a rank, by which LogGOPSim counts
_PROCESSORS = 256
#: bytes of a message that only tells
_TOLD = goal_bytes(0)


def recorded_goal(step: RecordedStep, rows: Sequence[RecordedRow]) -> str:
    """Programs in GOAL, as :func:`~lightloom.packets.read_goal` and ``txt2bin`` read them."""
    writer = _Writer(step, rows)
    for number, row in enumerate(rows):
        if row.flow >= 0:
            writer.send(number)
    writer.place(len(rows) - 1, 0)
    return writer.text()


@dataclass
class _Rank:
    """What a rank does so far: the text of each operation, and what waits for what."""

    operations: list[str] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)
    #: begin, end and operation of each span
    spans: list[tuple[int, int, int]] = field(default_factory=list)

    def add(self, text: str, after: Sequence[int] = ()) -> int:
        self.operations.append(text)
        label = len(self.operations) - 1
        self.waits += [(label, other) for other in dict.fromkeys(after)]
        return label

    def text(self) -> str:
        cpus = _processors(self.spans)
        lines = [
            f"l{label}: {text}{f' cpu {cpus[label]}' if label in cpus else ''}"
            for label, text in enumerate(self.operations)
        ]
        lines += [f"l{label} requires l{other}" for label, other in self.waits]
        return "\n".join(lines)


def _processors(spans: Sequence[tuple[int, int, int]]) -> dict[int, int]:
    """The first processor from 1 on that is free when each span begins; 0 joins others."""
    cpus: dict[int, int] = {}
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    count = 0
    for begin_ps, end_ps, operation in sorted(spans):
        while busy and busy[0][0] <= begin_ps:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            count = min(count + 1, _PROCESSORS - 1)
            free.append(count)
        cpus[operation] = heapq.heappop(free)
        heapq.heappush(busy, (end_ps, cpus[operation]))
    return cpus


class _Writer:
    def __init__(self, step: RecordedStep, rows: Sequence[RecordedRow]) -> None:
        self._rows = rows
        self._ends = list(zip(step.source.tolist(), step.destination.tolist(), strict=True))
        self._sizes = step.size_bytes.tolist()
        nics = step.source_nic.tolist(), step.destination_nic.tolist()
        self._nics = list(zip(*nics, strict=True))
        self._ranks = [_Rank() for _ in range(step.servers)]
        #: operations by row and rank; none where there is nothing to wait for
        self._placed: dict[tuple[int, int], int | None] = {}
        self._tags = len(step)

    def send(self, number: int) -> None:
        """A flow, at both of its ends."""
        row = self._rows[number]
        source, destination = self._ends[row.flow]
        after = self._waits(row, source)
        size, nics = self._sizes[row.flow], self._nics[row.flow]
        sent = f"send {size}b to {destination} tag {row.flow} nic {nics[0]}"
        received = f"recv {size}b from {source} tag {row.flow} nic {nics[1]}"
        self._placed[number, source] = self._ranks[source].add(sent, after)
        self._placed[number, destination] = self._ranks[destination].add(received)

    def place(self, number: int, rank: int) -> int | None:
        """The operation of a rank that ends with a row, which is there from then on."""
        if (number, rank) not in self._placed:
            row = self._rows[number]
            after = self._waits(row, rank)
            if row.span_ps == 0 and len(after) <= 1:
                self._placed[number, rank] = after[0] if after else None
            else:
                # at least as long, in whole nanoseconds
                label = self._ranks[rank].add(f"calc {-(-row.span_ps // 1000)}", after)
                self._placed[number, rank] = label
                if row.span_ps:
                    self._ranks[rank].spans.append((row.begin_ps, row.end_ps, label))
        return self._placed[number, rank]

    def _waits(self, row: RecordedRow, rank: int) -> list[int]:
        """The operations of a rank that a row waits for there."""
        labels = list[int | None]()
        told = defaultdict[int, list[int]](list)
        for other in row.after:
            flow = self._rows[other].flow
            if flow < 0 or rank in self._ends[flow]:
                labels.append(self.place(other, rank))
            else:
                told[self._ends[flow][1]].append(other)
        for teller, others in told.items():
            known = [self._placed[other, teller] for other in others]
            after = [label for label in known if label is not None]
            self._ranks[teller].add(f"send {_TOLD}b to {rank} tag {self._tags}", after)
            labels.append(self._ranks[rank].add(f"recv {_TOLD}b from {teller} tag {self._tags}"))
            self._tags += 1
        return [label for label in labels if label is not None]

    def text(self) -> str:
        blocks = [f"rank {number} {{\n{rank.text()}\n}}" for number, rank in enumerate(self._ranks)]
        return f"num_ranks {len(blocks)}\n\n" + "\n\n".join(blocks) + "\n"
