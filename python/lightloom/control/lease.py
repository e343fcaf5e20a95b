"""The lease of a region: who may act, until when, and a revision that rises with every holder.

It is a row in the journal's file, which both of two controllers must use for it to protect them
from each other: the same file on the same machine. A controller elsewhere is noticed by what it
does to the switch, as drift.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

from lightloom.control.journal import Journal
from lightloom.control.refusals import LeaseError

#: seconds for which a lease holds
LEASE_S = 30.0


def this_holder() -> str:
    """Name of this process among holders of leases."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Lease:
    """The lease of a journal's region.

    Parameters
    ----------
    journal
        Where it is kept.
    holder
        Who wants it.
    duration_s
        Seconds for which it holds, from each renewal.
    clock
        Seconds since the epoch.
    """

    def __init__(
        self,
        journal: Journal,
        holder: str = "",
        duration_s: float = LEASE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._journal, self._duration_s, self._clock = journal, duration_s, clock
        self.holder = holder or this_holder()
        #: rises whenever the lease is taken; 0 before
        self.revision = 0
        self.expires = 0.0

    @property
    def is_held(self) -> bool:
        """Whether it was taken and has not expired."""
        return self.revision > 0 and self._clock() < self.expires

    @property
    def is_due(self) -> bool:
        """Whether it was taken and is to be renewed before anything is done by it."""
        return self.revision > 0 and self._clock() > self.expires - self._duration_s / 3

    def take(self) -> int:
        """Take the lease and return its revision.

        Raises
        ------
        LeaseError
            If another holds it.
        JournalError
            If the journal cannot be written.
        """
        now, region = self._clock(), self._journal.region
        with self._journal.lease_transaction() as connection:
            row = connection.execute(
                "SELECT holder, revision, expires FROM leases WHERE region = ?", (region,)
            ).fetchone()
            if row is not None and row[2] > now and _is_alive(row[0]):
                raise LeaseError(
                    f"{region}: {row[0]} holds the lease for another {row[2] - now:.0f} s; "
                    "stop it, or wait"
                )
            self.revision = 1 if row is None else row[1] + 1
            self.expires = now + self._duration_s
            connection.execute(
                "INSERT OR REPLACE INTO leases VALUES (?,?,?,?)",
                (region, self.holder, self.revision, self.expires),
            )
        return self.revision

    def renew(self) -> None:
        """Hold it for longer.

        Raises
        ------
        LeaseError
            If another took it.
        JournalError
            If the journal cannot be written.
        """
        expires = self._clock() + self._duration_s
        with self._journal.lease_transaction() as connection:
            cursor = connection.execute(
                "UPDATE leases SET expires = ? WHERE region = ? AND revision = ?",
                (expires, self._journal.region, self.revision),
            )
            if cursor.rowcount != 1:
                raise LeaseError(f"{self._journal.region}: another controller took the lease")
        self.expires = expires

    def release(self) -> None:
        """Let others take it; does nothing if it is not held."""
        if self.revision == 0:
            return
        with self._journal.lease_transaction() as connection:
            connection.execute(
                "UPDATE leases SET expires = 0 WHERE region = ? AND revision = ?",
                (self._journal.region, self.revision),
            )
        self.expires = 0.0


def _is_alive(holder: str) -> bool:
    """Whether a holder may still run: one of this machine that has ended does not."""
    host, _, process = holder.rpartition(":")
    if host != socket.gethostname() or not process.isdecimal():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
