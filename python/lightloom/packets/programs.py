"""Programs: what ranks do, operation by operation, where flows begin once others have ended.

A rank is a host. An operation sends a flow, computes, or receives: it ends when the flow of a rank
has arrived. Each waits for a milestone of others. They come from a file in GOAL (:mod:`.goal`), or
from the column ``after`` of flows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, echo
from lightloom.units import to_ps

if TYPE_CHECKING:
    from lightloom.packets.flows import Flows

Whole = npt.NDArray[np.int64]

#: operations of a run at most, and the longest computation
MAX_OPERATIONS, MAX_SPAN_S = 2**23, 1000.0
#: operations that a message names
_NAMED = 4
_NONE = 2**32 - 1


class Milestone(IntEnum):
    """The part of an operation that others wait for; a computation's last two are one."""

    BEGUN = 0
    RECEIVED = 1
    ENDED = 2


@dataclass(frozen=True, eq=False)
class Programs:
    """Operations, numbered from 0; arrays are ``(operations,)`` unless said otherwise.

    Attributes
    ----------
    kind
        ``send``, ``receive``, ``compute``, or nothing where one only joins others.
    rank
        Whose it is.
    label
        What its rank's program calls it.
    flow
        The flow that it sends or receives, -1 where there is none.
    span_ps
        For how long it computes.
    unit
        What computes one operation at a time, -1 where it needs none.
    wait_starts, waits, milestones
        Operation ``i`` waits for ``waits[wait_starts[i]:wait_starts[i + 1]]``, until each has
        reached its milestone, a :class:`Milestone`.
    """

    kind: tuple[str, ...]
    rank: Whole
    label: tuple[str, ...]
    flow: Whole
    span_ps: Whole
    unit: Whole
    wait_starts: Whole
    waits: Whole
    milestones: Whole

    def __len__(self) -> int:
        return len(self.kind)

    def title(self, operation: int) -> str:
        """What a user calls an operation: ``l3 of rank 7``."""
        return f"{self.label[operation]} of rank {self.rank[operation]}"

    def for_core(self) -> dict[str, npt.NDArray[Any]]:
        """The same as the core reads it."""
        sends = np.array([kind == "send" for kind in self.kind], dtype=np.bool_)
        return {
            "flow": np.where(sends, self.flow, _NONE).astype(np.uint32),
            "span_ps": self.span_ps.astype(np.uint64),
            "unit": np.where(self.unit < 0, _NONE, self.unit).astype(np.uint32),
            "wait_starts": self.wait_starts.astype(np.uint64),
            "waits": self.waits.astype(np.uint32),
            "milestones": self.milestones.astype(np.uint8),
        }

    def check(self, name: str) -> None:
        """Refuse operations that wait for each other; ``name`` begins the message.

        Raises
        ------
        InputError
            Naming some of them.
        """
        waiting = np.repeat(np.arange(len(self)), np.diff(self.wait_starts))
        themselves = waiting[waiting == self.waits]
        if len(themselves):
            title = self.title(int(themselves[0]))
            raise InputError(f"{name}: {title} waits for itself; expected another one, or none")
        cycle = self._cycle(waiting)
        # those that only join others are named where there are no others
        cycle = [operation for operation in cycle if self.kind[operation]] or cycle
        if cycle:
            named = ", ".join(self.title(operation) for operation in cycle[:_NAMED])
            more = f" and {len(cycle) - _NAMED:,} more" if len(cycle) > _NAMED else ""
            raise InputError(f"{name}: {named}{more} wait for one another; none can ever begin")

    def _cycle(self, waiting: Whole) -> list[int]:
        """Operations that wait for each other in a circle, in order; none if all can begin."""
        order = np.argsort(self.waits, kind="stable")
        later = waiting[order].tolist()
        starts = np.searchsorted(self.waits[order], np.arange(len(self) + 1)).tolist()
        left = np.diff(self.wait_starts).tolist()
        ready = [one for one, number in enumerate(left) if not number]
        while ready:
            at = ready.pop()
            for other in later[starts[at] : starts[at + 1]]:
                left[other] -= 1
                if not left[other]:
                    ready.append(other)
        at = next((place for place, number in enumerate(left) if number), -1)
        if at < 0:
            return []
        # each of those left waits for another one of them
        seen: dict[int, int] = {}
        while at not in seen:
            seen[at] = len(seen)
            waits = self.waits[self.wait_starts[at] : self.wait_starts[at + 1]].tolist()
            at = next(other for other in waits if left[other])
        return sorted(list(seen)[seen[at] :])


class OperationBuilder:
    """Collects operations one by one."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, int, str, int, int, int]] = []
        self._waits: list[list[tuple[int, Milestone]]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self, kind: str, rank: int, label: str, *, flow: int = -1, span_ps: int = 0, unit: int = -1
    ) -> int:
        """Add an operation; its number."""
        self._rows.append((kind, rank, label, flow, span_ps, unit))
        self._waits.append([])
        return len(self._rows) - 1

    def wait(self, operation: int, other: int, milestone: Milestone = Milestone.ENDED) -> None:
        """Let an operation wait for another."""
        self._waits[operation].append((other, milestone))

    def kind(self, operation: int) -> str:
        """What an operation does."""
        return self._rows[operation][0]

    def name(self, operation: int) -> tuple[int, str]:
        """Its rank and label."""
        return self._rows[operation][1:3]

    def set_flow(self, operation: int, flow: int) -> None:
        """Say which flow an operation sends or receives."""
        kind, rank, label, _, span_ps, unit = self._rows[operation]
        self._rows[operation] = (kind, rank, label, flow, span_ps, unit)

    def waits_of(self, operation: int) -> list[tuple[int, Milestone]]:
        """What an operation waits for, to be changed."""
        return self._waits[operation]

    def build(self) -> Programs:
        """All operations."""
        kinds, ranks, labels, *rest = zip(*self._rows, strict=True) if self._rows else [()] * 6
        flows, spans, units = (np.array(column, dtype=np.int64) for column in rest)
        flat = np.array([pair for pairs in self._waits for pair in pairs], dtype=np.int64)
        flat = flat.reshape(-1, 2)
        counts = np.array([len(pairs) for pairs in self._waits], dtype=np.int64)
        return Programs(
            kind=tuple(kinds),
            rank=np.array(ranks, dtype=np.int64),
            label=tuple(labels),
            flow=flows,
            span_ps=spans,
            unit=units,
            wait_starts=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            waits=flat[:, 0],
            milestones=flat[:, 1],
        )


@dataclass(frozen=True, eq=False)
class OperationTimes:
    """When the operations of programs began and ended; not a number where they did not.

    Attributes
    ----------
    begin_s, end_s
        Of each operation, ``(operations,)``; a flow that is sent ends when its sender has the last
        acknowledgment.
    critical
        The critical path: the operations from the first one to the last, each of which began when
        the one before it let it, ``(length,)``.
    makespan_s
        Until everything had been received and computed.
    """

    begin_s: npt.NDArray[np.float64]
    end_s: npt.NDArray[np.float64]
    critical: npt.NDArray[np.uint32]
    makespan_s: float


def programs_of(flows: Flows) -> Programs | None:
    """What decides when flows begin: their programs, or those that the column ``after`` asks for.

    Flow ``i`` is operation ``i`` in the latter case. It begins when all that it waits for has been
    received and its delay has passed, but not before its start.

    Raises
    ------
    InputError
        If a flow waits for one that is not there, or flows wait for each other; if there is a
        delay of a flow that waits for none.
    """
    if flows.programs is not None or flows.after is None:
        return flows.programs
    builder, delays_ps = OperationBuilder(), _delays_ps(flows)
    for flow, rank in enumerate(flows.source.tolist()):
        builder.add("send", rank, f"flow {flow}", flow=flow)
    for flow, start_ps in enumerate(flows.start_ps.tolist()):
        others = _flows_of_cell(flows, flow)
        delay_ps = delays_ps[flow]
        waits = flow
        if delay_ps and not others:
            raise InputError(
                f"{flows.place(flow)}: delay_us is for flows that wait; name others in 'after', or "
                "use start_us"
            )
        if delay_ps:
            waits = builder.add("", int(flows.source[flow]), "", span_ps=delay_ps)
            builder.wait(flow, waits)
        for other in others:
            builder.wait(waits, other, Milestone.RECEIVED)
        if start_ps:
            builder.wait(flow, builder.add("", int(flows.source[flow]), "", span_ps=start_ps))
    programs = builder.build()
    programs.check(flows.name)
    return programs


def _delays_ps(flows: Flows) -> Sequence[int]:
    if flows.delay_s is None:
        return [0] * len(flows)
    wrong = np.flatnonzero(~((flows.delay_s >= 0) & (flows.delay_s <= MAX_SPAN_S)))
    if len(wrong):
        flow = int(wrong[0])
        raise InputError(
            f"{flows.place(flow)}: waits {flows.delay_s[flow] * 1e6:g} us more: expected 0 to "
            f"{MAX_SPAN_S * 1e6:g} us"
        )
    return [to_ps(delay) for delay in flows.delay_s.tolist()]


def _flows_of_cell(flows: Flows, flow: int) -> list[int]:
    """The flows that a cell of the column ``after`` names."""
    assert flows.after is not None
    text, numbers = flows.after[flow], list[int]()
    for word in text.split():
        number = int(word) if word.isascii() and word.isdigit() and len(word) < 10 else -1
        if not 0 <= number < len(flows):
            raise InputError(
                f"{flows.place(flow)}: after {echo(text)}: expected numbers of flows from 0 to "
                f"{len(flows) - 1:,}, parted by spaces"
            )
        numbers.append(number)
    return numbers


def operation_rows(flows: Flows, times: OperationTimes) -> dict[str, npt.NDArray[Any]]:
    """A row per operation of programs, but for those that only join others."""
    programs = programs_of(flows)
    assert programs is not None
    return _rows(flows, times, programs, np.arange(len(programs)))


def critical_rows(flows: Flows, times: OperationTimes) -> dict[str, npt.NDArray[Any]]:
    """The same of the critical path, in its order."""
    programs = programs_of(flows)
    assert programs is not None
    return _rows(flows, times, programs, times.critical.astype(np.int64))


def _rows(
    flows: Flows, times: OperationTimes, programs: Programs, chosen: Whole
) -> dict[str, npt.NDArray[Any]]:
    shown = chosen[[bool(programs.kind[i]) for i in chosen.tolist()]]
    flow = programs.flow[shown]
    there = flow >= 0
    receives = np.array([programs.kind[i] == "receive" for i in shown.tolist()], dtype=np.bool_)
    peer = np.where(receives, flows.source[flow], flows.destination[flow])
    return {
        "rank": programs.rank[shown],
        "label": np.array([programs.label[i] for i in shown.tolist()], dtype=np.str_),
        "kind": np.array([programs.kind[i] for i in shown.tolist()], dtype=np.str_),
        "flow": np.where(there, flow, -1),
        "peer": np.where(there, peer, -1),
        "bytes": np.where(there, flows.size_bytes[flow], 0),
        "begin_us": np.round(times.begin_s[shown] * 1e6, 6),
        "end_us": np.round(times.end_s[shown] * 1e6, 6),
        "critical": np.isin(shown, times.critical),
    }
