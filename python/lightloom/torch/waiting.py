"""Waiting for what other threads and ranks do: bounded, and ended at once by an error of any rank.

A wait looks at its condition whenever something has changed in this process or another rank of the
server says so, and now and then, and asks whether the others are still there. The first error of a
rank is that of all: whoever waits raises it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from lightloom.torch.agreement import RankError

#: seconds between looks at a condition that nobody has announced
_LOOK_S = 0.1
#: seconds that an error waits until the others know of it, lest the end of this rank seem the first
_TELL_S = 2.0


class Watch:
    """What the threads of a rank wait by.

    Parameters
    ----------
    rank
        Of the job, for messages.
    timeout_s
        Seconds that any wait may take.
    """

    def __init__(self, rank: int, timeout_s: float) -> None:
        self.rank, self.timeout_s = rank, timeout_s
        self.changed = threading.Condition()
        #: why the job cannot go on; empty while it can
        self.error = ""
        #: set once the others know of the error
        self.told = threading.Event()
        #: called with what goes wrong while something waits, to tell all ranks
        self.on_failure: Callable[[str], object] = self.fail
        #: called now and then while something waits; what it returns is an error
        self.look: Callable[[], str] = str
        #: called when something has waited too long; who is the reason, if that is known
        self.find_gone: Callable[[], str] = str

    def notify(self) -> None:
        """Let all who wait look again."""
        with self.changed:
            self.changed.notify_all()

    def fail(self, error: str) -> bool:
        """Note why the job cannot go on; whether it is the first reason."""
        with self.changed:
            is_first = not self.error
            self.error = self.error or error
            self.changed.notify_all()
        return is_first

    def check(self) -> None:
        """Raise the error of the job, if it has one.

        Raises
        ------
        RankError
            If a rank does not answer.
        """
        if self.error:
            self.told.wait(_TELL_S)
            raise RankError(f"rank {self.rank}: {self.error}")

    def until(
        self, is_so: Callable[[], bool], what: Callable[[], str], timeout_s: float | None = None
    ) -> None:
        """Wait until a condition is so.

        Parameters
        ----------
        is_so
            Looked at whenever something may have changed.
        what
            What has not happened, if it does not.
        timeout_s
            By default that of every wait.

        Raises
        ------
        RankError
            If a rank does not answer, or the time is over.
        """
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        looked = time.monotonic()
        while True:
            with self.changed:
                if not self.error and not is_so():
                    self.changed.wait(min(_LOOK_S, max(0.0, deadline - time.monotonic())))
                if not self.error and is_so():
                    return
            self.check()
            now = time.monotonic()
            if now > looked + _LOOK_S:
                looked = now
                if gone := self.look():
                    self.on_failure(gone)
            if now >= deadline:
                self.on_failure(self.find_gone() or f"{what()} within {limit_s:g} s")
