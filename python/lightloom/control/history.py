"""What an overview shows of a journal: the last changes, and since when each circuit is there.

Only what is new is read each time, and circuits stay texts, so that a service may look often.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lightloom.control.journal import ChangeReason, Journal

#: changes that are shown, and those that are looked at again while one before them is open
_SHOWN, _OPEN = 20, 100


class Since(NamedTuple):
    """When a circuit was made, in seconds since the epoch, and by which change."""

    at: float
    change: int


@dataclass(frozen=True)
class ChangeSummary:
    """A change as an overview shows it; circuits are texts such as ``0/1-3/0``.

    Attributes
    ----------
    number, map
        Of the change, and of the port map by which its circuits count.
    at, ended
        When it was begun and when it ended, in seconds since the epoch; None if it is open.
    result
        As :class:`~lightloom.control.journal.ChangeOutcome` has it; ``open`` if it is.
    created, deleted
        Circuits that are there since, and that are not there any more.
    failed
        What is wrong, by circuit.
    seconds
        That it took.
    """

    number: int
    map: int
    at: float
    kind: str
    reason: ChangeReason
    ended: float | None
    result: str
    created: frozenset[str]
    deleted: frozenset[str]
    failed: Mapping[str, str]
    seconds: float


class ChangeHistory:
    """The last changes of a region, kept up to date with its journal.

    Parameters
    ----------
    journal
        The journal; changes by another port map than the last are left out.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        #: all changes up to this number have ended
        self._settled = 0
        #: the port map by which circuits count
        self._map = 0
        #: the last changes, newest first
        self.changes: tuple[ChangeSummary, ...] = ()
        #: since when circuits are there, as far back as was looked
        self.since: dict[str, Since] = {}

    def refresh(self) -> None:
        """Read what the journal has had since the last time.

        Raises
        ------
        JournalError
            If it cannot be read.
        """
        new = list(_summaries(self._journal.rows_after(self._settled)))
        if not new:
            return
        if new[-1].map != self._map:
            self._map = new[-1].map
            self.since.clear()
        for change in new:
            if change.map != new[-1].map:
                continue
            for circuit in change.deleted:
                self.since.pop(circuit, None)
            ended = change.at if change.ended is None else change.ended
            self.since |= dict.fromkeys(change.created, Since(ended, change.number))
        shown = deque(reversed(self.changes), _SHOWN)
        shown = deque((change for change in shown if change.number < new[0].number), _SHOWN)
        shown.extend(new)
        self.changes = tuple(reversed(shown))
        is_open = next(
            (change.number for change in new if change.ended is None), new[-1].number + 1
        )
        self._settled = max(is_open - 1, new[-1].number - _OPEN, self._settled)


def _summaries(rows: list[dict[str, Any]]) -> Iterator[ChangeSummary]:
    """Changes as the journal has them; a damaged one is left out."""
    for row in rows:
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            yield _summary(row)


def _summary(row: dict[str, Any]) -> ChangeSummary:
    before, after = (frozenset((row[name] or "").split()) for name in ("before", "after"))
    is_open = row["result"] is None
    timings = {} if is_open else json.loads(row["timings"])
    return ChangeSummary(
        row["id"],
        row["map"],
        float(row["at"]),
        str(row["kind"]),
        ChangeReason(str(row["who"]), row["reason"], row["job"], row["step"], row["layer"]),
        None if is_open else float(row["ended"]),
        row["result"] or "open",
        frozenset() if is_open else after - before,
        frozenset() if is_open else before - after,
        {} if is_open else dict(json.loads(row["failed"])),
        sum(timings.values()),
    )
