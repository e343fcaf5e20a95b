"""The operations of a recorded step one by one: flows, spans of time, and what joins others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lightloom.units import PS_PER_S

if TYPE_CHECKING:
    from lightloom.simulate.recording import RecordedStep


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """An operation that waits for earlier ones.

    Attributes
    ----------
    flow
        The flow that it sends, -1 for none.
    span_ps
        For how long it lasts, unless it sends.
    after
        Numbers of the operations that it waits for.
    begin_ps, end_ps
        When it began and ended in the recorded run.
    """

    flow: int
    span_ps: int
    after: tuple[int, ...]
    begin_ps: int
    end_ps: int


def rows_of(step: RecordedStep) -> list[RecordedRow]:
    """A row of each flow, each span between operations and each join; the last is the end."""
    return _Rows(step).all()


class _Rows:
    def __init__(self, step: RecordedStep) -> None:
        self._step = step
        self._rows: list[RecordedRow] = []
        #: rows of spans by operation and picoseconds after it
        self._spans: dict[tuple[int, int], int] = {}
        #: of each operation the row that ends with it
        self._ends: list[int] = []
        self._arrived_ps = np.rint(step.arrived_s * PS_PER_S).astype(np.int64)

    def all(self) -> list[RecordedRow]:
        step = self._step
        order = np.argsort(step.transfer, kind="stable")
        starts = np.searchsorted(step.transfer[order], np.arange(step.transfer.max() + 2))
        for operation, transfer in enumerate(step.operation_transfer.tolist()):
            after = list(self._waits(operation))
            ends = after
            if transfer >= 0:
                flows = order[starts[transfer] : starts[transfer + 1]].tolist()
                ends = [self._add(after, flow=flow) for flow in flows]
            self._ends.append(ends[0] if len(ends) == 1 else self._add(ends))
        return self._rows

    def _waits(self, operation: int) -> Iterator[int]:
        step = self._step
        first, last = step.wait_starts[operation : operation + 2].tolist()
        for place in range(first, last):
            other = int(step.waits[place])
            later_ps = round(float(step.later_s[place]) * PS_PER_S)
            if later_ps and (other, later_ps) not in self._spans:
                row = self._add([self._ends[other]], span_ps=later_ps)
                self._spans[other, later_ps] = row
            yield self._spans[other, later_ps] if later_ps else self._ends[other]

    def _add(self, after: Sequence[int], *, flow: int = -1, span_ps: int = 0) -> int:
        begin_ps = max((self._rows[row].end_ps for row in after), default=0)
        end_ps = begin_ps + span_ps if flow < 0 else int(self._arrived_ps[flow])
        self._rows.append(RecordedRow(flow, span_ps, tuple(dict.fromkeys(after)), begin_ps, end_ps))
        return len(self._rows) - 1
