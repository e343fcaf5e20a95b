"""The program of a role: what its recorded rank issued, on streams, in the order of issue."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lightloom.trace.check import MESSAGES
from lightloom.trace.computes import Compute, StreamWait
from lightloom.trace.step.demand import BlockUse, RoleBlocks, layer_of
from lightloom.trace.step.placement import DEMANDS, TracedRole, WorkerPlacement
from lightloom.trace.step.purposes import purpose_of
from lightloom.trace.step.times import OperatorTimes
from lightloom.trace.trace import Call, RankTrace
from lightloom.units import to_ps
from lightloom.workload.builder import Block, Entry, ProgramBuilder
from lightloom.workload.task_graph import NONE, Collective

#: what carries a buffer around a ring, and how many passes over the links inside a worker it takes
RINGS = {
    "all_reduce": (Collective.ALL_REDUCE, 2),
    "reduce_scatter": (Collective.REDUCE_SCATTER, 1),
    "all_gather": (Collective.ALL_GATHER, 1),
    "broadcast": (Collective.BROADCAST, 1),
    "reduce": (Collective.BROADCAST, 1),
}

#: categories of computation, by phase
COMPUTE = {"forward": "forward", "backward": "backward", "optimizer": "optimizer"}

#: after everything that was issued before a call
_LAST = 1 << 62


@dataclass(frozen=True)
class StepItems:
    """What one recorded rank did in a step.

    Attributes
    ----------
    calls
        Those that carry data.
    computes
        With their indices in the recording.
    waits
        Of streams for others.
    """

    calls: tuple[Call, ...]
    computes: tuple[tuple[int, Compute], ...]
    waits: tuple[StreamWait, ...]

    @classmethod
    def of(cls, recorded: RankTrace, calls: tuple[Call, ...], step: int) -> StepItems:
        """The computes and waits of a step."""
        computes = tuple(
            (index, compute)
            for index, compute in enumerate(recorded.computes)
            if compute.step == step and compute.phase != "setup"
        )
        inside = range(computes[0][0], computes[-1][0] + 2) if computes else range(0)
        waits = tuple(
            wait
            for wait in recorded.stream_waits
            if wait.at.computes in inside and wait.until.computes in inside
        )
        return cls(calls, computes, waits)


def buffer_of(call: Call) -> int:
    """Bytes of the buffer of a ring."""
    return max(call.input_bytes, call.output_bytes)


class RoleWriter:
    """Writes the program of one role.

    Parameters
    ----------
    placement, role
        Whose program it is.
    items
        What its recorded rank did.
    blocks
        Blocks of demand that its all-to-alls use.
    demands
        Demand table of each family that has one.
    times
        Of computes.
    """

    def __init__(
        self,
        placement: WorkerPlacement,
        role: TracedRole,
        items: StepItems,
        blocks: RoleBlocks,
        demands: dict[int, int],
        times: OperatorTimes,
    ) -> None:
        self.placement, self.role, self.items = placement, role, items
        self.blocks, self.demands, self.times = blocks, demands, times
        #: computes of experts: what they are, and whose rows they compute
        self.scaled: list[tuple[Compute, BlockUse]] = []
        self._handles = itertools.count(1)
        self._tags: Counter[tuple[bool, int]] = Counter()
        self._streams = _stream_numbers(items)
        self._pace = times.host_bound(compute for _, compute in items.computes)
        self._open: BlockUse | None = None

    def write(self, program: ProgramBuilder, table: int | None) -> None:
        """Write all tasks; ``table`` has the times of computes of experts."""
        self._program, self._table = program, table
        for _, write in sorted(self._tasks(), key=lambda task: task[0]):
            write()

    def _stream(self, number: int) -> int:
        return self._streams.setdefault(number, len(self._streams))

    def _tasks(self) -> Iterator[tuple[tuple[int, int, int], Any]]:
        """Tasks with what orders them: calls and computes before them, and their number."""
        number = itertools.count()

        def at(calls: int, computes: int, write: Any) -> tuple[tuple[int, int, int], Any]:
            return (calls, computes, next(number)), write

        for wait in self.items.waits:
            handle = next(self._handles)
            yield at(*wait.until[1:], lambda until=wait, handle=handle: self._mark(until, handle))
            yield at(*wait.at[1:], lambda until=wait, handle=handle: self._await(until, handle))
        for position, call in enumerate(self.items.calls):
            if len(call.ranks) > 1:
                for calls, computes, write in self._of_call(position, call):
                    yield at(calls, computes, write)
        for index, compute in self.items.computes:
            yield at(compute.before, index, lambda compute=compute: self._compute(compute))

    def _mark(self, wait: StreamWait, handle: int) -> None:
        """Nothing to do, but to be done in its turn."""
        stream = self._stream(wait.until.stream)
        self._program.compute("other", 0.0, handle=handle, stream=stream)

    def _await(self, wait: StreamWait, handle: int) -> None:
        self._program.wait(handle, "other", stream=self._stream(wait.at.stream))

    def _compute(self, compute: Compute) -> None:
        placed = {"stream": self._stream(compute.stream), "layer": _layer(compute.layer)}
        category = COMPUTE.get(compute.phase, "other")
        if self._open is not None and self._table is not None:
            entry = Entry(self._table, len(self.scaled))
            self.scaled.append((compute, self._open))
            self._program.compute(category, entry, **placed)
            return
        seconds = self.times.seconds(compute, self.pace(compute))
        if seconds > 0:
            self._program.compute(category, duration_ps=to_ps(seconds), **placed)

    def pace(self, compute: Compute) -> float:
        """How much longer the host makes a compute take."""
        return self._pace.get((compute.stream, compute.phase), 1.0)

    def _of_call(self, position: int, call: Call) -> Iterator[tuple[int, int, Any]]:
        """Tasks of a call: where it is issued, and where it is waited for."""
        calls, computes = call.call_id, _LAST
        later = self._wait_of(call)
        if call.op == "receive" and call.peer is not None:
            tag = self._tag(call, is_send=False)
            stream = call.stream
            if call.asynchronous:
                calls, computes, stream = later
            yield calls, computes, lambda: self._receive(call, tag, stream)
            return
        if call.op in MESSAGES:
            tag = self._tag(call, is_send=True)
            yield calls, computes, lambda: self._send(call, tag)
            return
        handle = next(self._handles) if call.asynchronous else None
        yield calls, computes, lambda: self._collective(position, call, handle)
        if handle is not None:
            waits = {"stream": self._stream(later[2])}
            name = purpose_of(call)
            yield *later[:2], lambda: self._program.wait(handle, name, **waits)

    def _wait_of(self, call: Call) -> tuple[int, int, int]:
        """Where a call is waited for, and by which stream; at the end where it never is."""
        if call.waited_at is not None:
            return call.waited_at.calls, call.waited_at.computes, call.waited_at.stream
        if call.waited_before is not None:
            return max(call.waited_before, call.call_id + 1), _LAST - 1, call.stream
        return _LAST, _LAST, call.stream

    def _tag(self, call: Call, *, is_send: bool) -> int:
        peer = self._peer(call)
        self._tags[is_send, peer] += 1
        return self._tags[is_send, peer] - 1

    def _peer(self, call: Call) -> int:
        assert call.peer is not None
        return self.role.peers[call.group, call.ranks, call.peer]

    def _send(self, call: Call, tag: int) -> None:
        size = call.input_bytes * self.placement.gpus_per_worker
        placed = self._placed(call)
        self._program.send(self._peer(call), tag, size, purpose_of(call), **placed)

    def _receive(self, call: Call, tag: int, stream: int) -> None:
        placed = self._placed(call) | {"stream": self._stream(stream)}
        self._program.receive(self._peer(call), tag, purpose_of(call), **placed)

    def _placed(self, call: Call) -> dict[str, Any]:
        layer, micro_batch = _layer(call.layer), NONE
        if call.routed in self.blocks.layers and call.routed is not None:
            layer, micro_batch = self.blocks.layers[call.routed]
        return {"stream": self._stream(call.stream), "layer": layer, "micro_batch": micro_batch}

    def _collective(self, position: int, call: Call, handle: int | None) -> None:
        placed = self._placed(call)
        if handle is not None:
            placed |= {"handle": handle, "asynchronous": True}
        index = self.placement.family_of(call)
        purpose = purpose_of(call)
        if call.op in DEMANDS:
            use = self.blocks.uses[position]
            block = Block(self.demands[index], use.block, use.unit_bytes, use.transposed, use.first)
            self._program.all_to_all(index, block, purpose, **placed)
            if use.routed is not None:
                self._open = None if use.transposed else use
            return
        family = self.placement.families[index]
        ring, passes = RINGS[call.op]
        buffer = buffer_of(call)
        self._program.ring(
            ring,
            index,
            family.crossing(buffer, self.placement.gpus_per_worker),
            purpose,
            inside=family.local(buffer, passes),
            peers=family.on_worker - 1,
            **placed,
        )


def _layer(name: str) -> int:
    return layer_of(name) if any(part.isdigit() for part in name.split(".")) else NONE


def _stream_numbers(items: StepItems) -> dict[int, int]:
    """The stream that computes most is the main one."""
    busy = Counter(compute.stream for _, compute in items.computes)
    busy.update(call.stream for call in items.calls)
    order = sorted(busy, key=lambda stream: (-busy[stream], stream))
    return {stream: place for place, stream in enumerate(order)}
