"""The calls of a job as programs of sends and receives, which a packet simulation plays.

A collective is carried out as :mod:`.algorithms` says: by a ring, a tree, pairwise or one by one.
In each round a rank sends what it has received in the one before; of an all-to-all it sends to each
other rank what its call says, one round after the other. A call begins at a rank when the calls
that the program has waited for before it have ended, and the calls before it of the same group. An
asynchronous call is waited for where the program does, any other before the next call. Computation
is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lightloom.errors import InputError
from lightloom.packets import Flows, Milestone, OperationBuilder
from lightloom.packets.flows import MAX_FLOWS
from lightloom.packets.programs import MAX_OPERATIONS
from lightloom.trace.algorithms import IDLE, Algorithm, SizedCollective, rounds_of
from lightloom.trace.check import MESSAGES
from lightloom.trace.stack_build import size_bytes_of
from lightloom.trace.trace import Call

#: a message of a round: from one place to another, and bytes
_Round = list[tuple[int, int, int]]


def trace_programs(calls: Mapping[int, Sequence[Call]], name: str = "trace") -> Flows:
    """Programs of ranks from their calls.

    Parameters
    ----------
    calls
        Of every rank that takes part, as :meth:`~lightloom.trace.expand.Expansion.calls` has them;
        rank ``i`` becomes host ``i``.
    name
        Begins messages.

    Returns
    -------
    Flows
        A flow per message, with the programs that begin them.

    Raises
    ------
    InputError
        If ranks do not fit each other, if an operation is not known, if there are too many
        messages, or none.
    """
    builder = _Builder(calls, name)
    for rank in calls:
        builder.enter(rank)
    builder.expand()
    return builder.finish()


@dataclass
class _Entry:
    """A call at one of its ranks: what it begins with, and the operation that ends it."""

    rank: int
    call: Call
    begin: int
    end: int


@dataclass
class _Builder:
    calls: Mapping[int, Sequence[Call]]
    name: str
    operations: OperationBuilder = field(default_factory=OperationBuilder)
    flows: list[tuple[int, int, int]] = field(default_factory=list)
    #: entries of each group's calls by rank, and of messages by group, source and destination
    groups: dict[tuple[str, tuple[int, ...]], dict[int, list[_Entry]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    messages: dict[tuple[str, int, int], dict[str, list[_Entry]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def enter(self, rank: int) -> None:
        """Follow the program of a rank: what each of its calls waits for."""
        front = self.operations.add("", rank, "begin")
        ends: dict[object, int] = {}
        pending: dict[int, list[int]] = defaultdict(list)
        for call in self.calls[rank]:
            if len(call.ranks) < 2 or (call.op in MESSAGES and call.peer is None):
                continue
            due = [before for before in pending if before <= call.call_id]
            if due:
                previous, front = front, self.operations.add("", rank, f"before {call.call_id}")
                for end in [previous, *(end for before in due for end in pending.pop(before))]:
                    self.operations.wait(front, end)
            begin = self.operations.add("", rank, f"{call.op} {call.call_id}")
            end = self.operations.add("", rank, f"{call.op} {call.call_id} ends")
            self.operations.wait(begin, front)
            self.operations.wait(end, begin)
            self._keep(_Entry(rank, call, begin, end), ends)
            before = call.waited_before if call.asynchronous else call.call_id + 1
            if before is not None:
                pending[before].append(end)

    def _keep(self, entry: _Entry, ends: dict[object, int]) -> None:
        """Put a call where its other ranks find it, behind those before it."""
        call, rank = entry.call, entry.rank
        key: object = (call.group, call.ranks)
        if call.op in MESSAGES:
            peer = -1 if call.peer is None else call.peer
            route = (call.group, *((rank, peer) if call.op == "send" else (peer, rank)))
            self.messages[route][call.op].append(entry)
            key = (*route, call.op)
        else:
            self.groups[call.group, call.ranks][rank].append(entry)
        if key in ends:
            self.operations.wait(entry.begin, ends[key])
        ends[key] = entry.end

    def expand(self) -> None:
        """Turn calls that belong together into messages."""
        for (group, source, destination), ends in self.messages.items():
            sends, receives = ends["send"], ends["receive"]
            if len(sends) != len(receives):
                raise InputError(
                    f"{self.name}: group {group}: rank {source} sends {len(sends):,} messages to "
                    f"rank {destination}, which receives {len(receives):,}"
                )
            for pair in zip(sends, receives, strict=True):
                self._play([*pair], [[(0, 1, pair[0].call.input_bytes)]])
        for (group, ranks), by_rank in self.groups.items():
            lengths = {rank: len(by_rank.get(rank, ())) for rank in ranks}
            if len(set(lengths.values())) > 1:
                few = min(lengths, key=lengths.__getitem__)
                many = max(lengths, key=lengths.__getitem__)
                raise InputError(
                    f"{self.name}: group {group}: rank {few} issues {lengths[few]:,} calls and "
                    f"rank {many} {lengths[many]:,}; expected the calls of all its ranks"
                )
            for number in range(lengths[ranks[0]]):
                entries = [by_rank[rank][number] for rank in ranks]
                self._play(entries, self._rounds(group, entries))

    def _rounds(self, group: str, entries: list[_Entry]) -> Iterator[_Round]:
        """The messages of a collective, round by round."""
        calls = [entry.call for entry in entries]
        first, count = calls[0], len(calls)
        wrong = next((call for call in calls if call.op != first.op), None)
        if wrong is not None:
            raise InputError(
                f"{self.name}: group {group}: one rank calls {first.op} where another calls "
                f"{wrong.op}"
            )
        if first.op == "all_to_all" and all(call.input_splits for call in calls):
            for distance in range(1, count):
                yield [
                    (place, (place + distance) % count, _share(call, (place + distance) % count))
                    for place, call in enumerate(calls)
                ]
            return
        if first.op == "barrier":
            first = replace(first, op="all_reduce")
        root = 0 if first.root is None else first.ranks.index(first.root)
        sized = SizedCollective(first.op, count, size_bytes_of(calls), root)
        for turn in rounds_of(sized, Algorithm.RING)[1]:
            senders = np.flatnonzero(turn.destination != IDLE).tolist()
            messages = [(place, int(turn.destination[place]), turn.size_bytes) for place in senders]
            for _ in range(turn.repeats):
                yield messages

    def _play(self, entries: list[_Entry], rounds: Iterable[_Round]) -> None:
        """Add the messages of rounds.

        A rank takes part in one when it has received what the one before brings it; where that
        brings nothing, when it has sent its own.
        """
        ready = [[entry.begin] for entry in entries]
        last = [-1] * len(entries)
        for messages in rounds:
            received, sent = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
            for place, peer, size_bytes in messages:
                send, receive = self._message(entries[place], entries[peer], size_bytes)
                sent[place].append(send)
                received[peer].append(receive)
                for operation, end in ((send, place), (receive, peer)):
                    for other in ready[end]:
                        self.operations.wait(operation, other)
            for place in sent.keys() | received.keys():
                ready[place] = received.get(place) or sent[place]
                last[place] = sent[place][-1] if place in sent else last[place]
        for entry, operations, send in zip(entries, ready, last, strict=True):
            for operation in {*operations, *([send] if send >= 0 else [])}:
                self.operations.wait(entry.end, operation)

    def _message(self, source: _Entry, destination: _Entry, size_bytes: int) -> tuple[int, int]:
        flow = len(self.flows)
        if flow >= MAX_FLOWS or len(self.operations) + 2 > MAX_OPERATIONS:
            raise InputError(
                f"{self.name}: more than {flow - 1:,} messages; expand fewer calls, such as one "
                "--step"
            )
        self.flows.append((source.rank, destination.rank, size_bytes))
        send, receive = (
            self.operations.add(kind, end.rank, f"{end.call.op} {end.call.call_id}", flow=flow)
            for kind, end in (("send", source), ("receive", destination))
        )
        self.operations.wait(receive, send, Milestone.RECEIVED)
        return send, receive

    def finish(self) -> Flows:
        """All messages as flows."""
        if not self.flows:
            raise InputError(
                f"{self.name}: ranks send nothing to each other; expected a collective or message "
                "of two ranks or more"
            )
        programs = self.operations.build()
        programs.check(self.name)
        columns = np.array(self.flows, dtype=np.int64).T
        return Flows(
            source=columns[0],
            destination=columns[1],
            size_bytes=columns[2],
            start_s=np.zeros(len(self.flows)),
            name=self.name,
            programs=programs,
        )


def _share(call: Call, place: int) -> int:
    """What a rank sends to a place in an all-to-all."""
    splits = call.input_splits or ()
    rows = sum(splits)
    return -(-call.input_bytes * splits[place] // rows) if rows else 0
