"""The lease of a region: who may act, until when, and a revision that rises with every holder.

It is a row in the journal's file, which both of two controllers must use for it to protect them
from each other: the same file on the same machine. A controller elsewhere is noticed by what it
does to the switch, as drift.

Time is that since the start of the machine, so that a clock that is set neither ends nor prolongs a
lease; the time of day counts only for a holder of another machine. A holder whose process has
ended, or that ran before the machine was started last, holds nothing.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from typing import NamedTuple

from lightloom.control.journal import Journal
from lightloom.control.processes import ProcessIdentity, is_alive, this_process
from lightloom.control.refusals import LeaseError
from lightloom.inputs.files import shown_path

#: seconds for which a lease holds
LEASE_S = 30.0
#: of a lease, beside its region; those of a process in the order of its type
_COLUMNS = "holder, revision, expires, host, boot, namespace, process, started, until"


def this_holder() -> str:
    """Name of this process among holders of leases."""
    process = this_process()
    return f"{process.host}:{process.number}"


def since_start() -> float:
    """Seconds since the machine was started, asleep or awake."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class _Row(NamedTuple):
    """A lease as it is written: ``expires`` in time of day, ``until`` since the machine's start."""

    holder: str
    revision: int
    expires: float
    process: ProcessIdentity
    until: float | None


class Lease:
    """The lease of a journal's region.

    Parameters
    ----------
    journal
        Where it is kept.
    holder
        Name of who wants it, for messages.
    duration_s
        Seconds for which it holds, from each renewal.
    clock
        Seconds since the epoch.
    uptime
        Seconds since the machine was started.
    process
        Which process wants it.
    """

    def __init__(
        self,
        journal: Journal,
        holder: str = "",
        duration_s: float = LEASE_S,
        clock: Callable[[], float] = time.time,
        uptime: Callable[[], float] = since_start,
        process: ProcessIdentity | None = None,
    ) -> None:
        self._journal, self._duration_s = journal, duration_s
        self._clock, self._uptime = clock, uptime
        self._process = process or this_process()
        self._file = _inode(journal)
        self.holder = holder or this_holder()
        #: rises whenever the lease is taken; 0 before
        self.revision = 0
        self.expires = self._until = 0.0

    def now(self) -> float:
        """Seconds since the epoch, by the clock of this lease."""
        return self._clock()

    @property
    def is_held(self) -> bool:
        """Whether it was taken and has not expired."""
        return self.revision > 0 and self._uptime() < self._until

    @property
    def is_due(self) -> bool:
        """Whether it was taken and is to be renewed before anything is done by it.

        That is so also where the time of day was set, within which alone an intent is written, or
        the journal was replaced, which the renewal refuses.
        """
        if self.revision == 0:
            return False
        early_s = self._duration_s / 3
        is_late = self._uptime() > self._until - early_s
        return (
            is_late
            or self._clock() > self.expires - early_s
            or _inode(self._journal) != (self._file)
        )

    def take(self) -> int:
        """Take the lease and return its revision.

        Raises
        ------
        LeaseError
            If another holds it, or the journal was replaced.
        JournalError
            If the journal cannot be written.
        """
        self._check_file()
        region = self._journal.region
        with self._journal.altering() as connection:
            row = _read(connection, region)
            left_s = 0.0 if row is None else self._left_s(row)
            if row is not None and left_s > 0:
                raise LeaseError(
                    f"{region}: {row.holder} holds the lease for another {left_s:.0f} s; "
                    "stop it, or wait"
                )
            self.revision = 1 if row is None else row.revision + 1
            self._write(connection)
        return self.revision

    def renew(self) -> None:
        """Hold it for longer.

        Raises
        ------
        LeaseError
            If another took it, or the journal was replaced.
        JournalError
            If the journal cannot be written.
        """
        self._check_file()
        with self._journal.altering() as connection:
            row = _read(connection, self._journal.region)
            if row is None or row.revision != self.revision:
                raise LeaseError(f"{self._journal.region}: another controller took the lease")
            self._write(connection)

    def release(self) -> None:
        """Let others take it; does nothing if it is not held."""
        if self.revision == 0:
            return
        with self._journal.altering() as connection:
            connection.execute(
                "UPDATE leases SET expires = 0 WHERE region = ? AND revision = ?",
                (self._journal.region, self.revision),
            )
        self.expires = self._until = 0.0

    def break_lease(self) -> str:
        """End the lease of a holder that is dead, for an operator who knows.

        Return the name of the holder, empty if there was none.

        The revision rises, so that a holder that lives after all does nothing more.

        Raises
        ------
        LeaseError
            If the holder is a process that runs.
        JournalError
            If the journal cannot be written.
        """
        self._check_file()
        region = self._journal.region
        with self._journal.altering() as connection:
            row = _read(connection, region)
            if row is None or row.expires <= 0:
                return ""
            if is_alive(row.process, self._process):
                raise LeaseError(f"{region}: {row.holder} holds the lease and runs; stop it")
            connection.execute(
                "UPDATE leases SET expires = 0, revision = revision + 1 WHERE region = ?",
                (region,),
            )
        return row.holder

    def _left_s(self, row: _Row) -> float:
        """Seconds for which another must still wait."""
        other, this = row.process, self._process
        if row.expires <= 0 or is_alive(other, this) is False:
            return 0.0
        if other.boot is not None and other.boot == this.boot and row.until is not None:
            return row.until - self._uptime()
        return row.expires - self._clock()

    def _write(self, connection: sqlite3.Connection) -> None:
        until, expires = self._uptime() + self._duration_s, self._clock() + self._duration_s
        process = self._process
        connection.execute(
            f"INSERT OR REPLACE INTO leases (region, {_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)",
            (self._journal.region, self.holder, self.revision, expires, *process, until),
        )
        self._until, self.expires = until, expires

    def _check_file(self) -> None:
        """Check that the journal's path still leads to the file that is open.

        Raises
        ------
        LeaseError
            If it was moved, deleted or replaced: another controller would see another lease.
        """
        if _inode(self._journal) != self._file:
            raise LeaseError(
                f"{shown_path(self._journal.path)}: the journal was moved or replaced; this "
                "controller does nothing more"
            )


def _read(connection: sqlite3.Connection, region: str) -> _Row | None:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM leases WHERE region = ?", (region,)
    ).fetchone()
    if row is None:
        return None
    holder, revision, expires, *process, until = row
    return _Row(holder, revision, expires, ProcessIdentity(*process), until)


def _inode(journal: Journal) -> tuple[int, int] | None:
    try:
        status = os.stat(journal.path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
