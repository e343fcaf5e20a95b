"""Writes what a controller intends and what came of it, under its lease.

An outcome that cannot be written is owed: no further intent is written before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lightloom.control.journal import ChangeIntent, ChangeOutcome, Journal, JournalEntry
from lightloom.control.lease import Lease
from lightloom.control.map_change import MapChange
from lightloom.control.port_map import NicPair, PortMap
from lightloom.control.refusals import JournalError
from lightloom.units import show_things

#: called with the names of events and what is known about them
Listener = Callable[[str, Mapping[str, object]], None]


class ChangeRecorder:
    """The hand of one controller in its journal.

    Parameters
    ----------
    journal
        Where changes are written.
    lease
        Without which none is.
    notify
        Called where an outcome cannot be written.
    """

    def __init__(self, journal: Journal, lease: Lease, notify: Listener) -> None:
        self._journal, self._lease, self._notify = journal, lease, notify
        #: an outcome that could not be written yet
        self._owed: tuple[int, ChangeOutcome] | None = None

    def begin(self, intent: ChangeIntent) -> int:
        """Write an intent, after what is owed; return its number.

        Raises
        ------
        LeaseError, JournalError
            If it is not written; no circuit may be touched.
        """
        self.settle_debt()
        if self._lease.is_due:
            self._lease.renew()
        return self._journal.begin(intent, self._lease.revision, self._lease.now())

    def end(self, number: int, outcome: ChangeOutcome) -> None:
        """Write an outcome; if that fails, it is owed, and nothing more is changed before."""
        self._owed = (number, outcome)
        try:
            self.settle_debt()
        except JournalError as error:
            self._notify("journal-failed", {"error": str(error)})

    def settle_debt(self) -> None:
        """Write the outcome that is owed, if there is one.

        Raises
        ------
        JournalError
            If it still cannot be written.
        """
        if self._owed is None:
            return
        number, outcome = self._owed
        self._journal.end(number, outcome, self._lease.now())
        self._owed = None

    def snapshot(self, port_map: PortMap, number: int | None = None) -> frozenset[NicPair]:
        """Return the circuits before a change, by default the last one that changed any.

        Raises
        ------
        JournalError
            If there is no such change, or it was made with other ports.
        """
        if number is not None:
            return self._before(self._journal.entry(number), port_map)
        for entry in self._journal.last(1_000):
            if entry.outcome is not None and entry.outcome.after != entry.intent.before:
                return self._before(entry, port_map)
        raise JournalError(f"{self._journal.region}: no change to roll back")

    def _before(self, entry: JournalEntry, port_map: PortMap) -> frozenset[NicPair]:
        """The circuits before a change, as the map of today counts them."""
        then = self._journal.port_map(entry.map)
        before = entry.intent.before
        if then is None or then.fingerprint == port_map.fingerprint:
            return before
        maps = MapChange(then, port_map)
        lost = before - maps.kept(before)
        if lost:
            count = show_things(len(lost), "circuit")
            raise JournalError(
                f"{self._journal.region}: before change {entry.id}, {count} joined NICs that the "
                f"port map does not have any more: {maps}"
            )
        return maps.translate(before)


def recovered_outcome(
    intent: ChangeIntent, observed: frozenset[NicPair], held: frozenset[NicPair]
) -> ChangeOutcome:
    """Return what became of a change whose outcome was never written.

    Parameters
    ----------
    intent
        The change.
    observed
        Circuits that are there.
    held
        Those of the controller among them.
    """
    there = observed & (intent.before | intent.wanted)
    result = "partial"
    if there == intent.wanted:
        result = "done"
    elif there == intent.before:
        result = "not-applied"
    missing = {
        str(circuit): "not there when the switch was read back"
        for circuit in sorted(intent.wanted - there)
    }
    return ChangeOutcome(f"recovered-{result}", held, missing)
