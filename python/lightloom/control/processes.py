"""Which process something belongs to, and whether that one still runs.

A number alone says little: it is used again, and another container counts its own. A process is
known by its machine, the start of that machine, its name space of numbers, its number in there, and
when it was started.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path
from typing import NamedTuple

#: fields of ``/proc/PID/stat`` after the name, whose end is the last parenthesis (proc(5))
_STATE, _STARTED = 0, 19
#: states of processes that have ended and were not yet waited for
_ENDED = ("Z", "X", "x")


class ProcessIdentity(NamedTuple):
    """A process; None for what is not known.

    Attributes
    ----------
    host
        Name of its machine.
    boot
        Random name of the start of the machine since which it runs.
    namespace
        In which its number counts.
    number
        PID.
    started
        When it was started, in ticks since the start of the machine.
    """

    host: str | None
    boot: str | None
    namespace: int | None
    number: int | None
    started: int | None


@cache
def _machine() -> tuple[str, str | None]:
    return socket.gethostname(), _boot()


def this_process() -> ProcessIdentity:
    """Return the process that this is."""
    number = os.getpid()
    status = _status(number)
    return ProcessIdentity(*_machine(), _namespace(), number, status[1] if status else None)


def is_alive(process: ProcessIdentity, own: ProcessIdentity) -> bool | None:
    """Whether a process runs, seen from another one; None if that cannot be known from there."""
    if process.boot is None or own.boot is None:
        return None
    if process.boot != own.boot:
        # the machine was started again, or it is another one
        return False if process.host == own.host else None
    if process.namespace is None or process.namespace != own.namespace or process.number is None:
        return None
    try:
        os.kill(process.number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass  # of another user: it is there
    status = _status(process.number)
    if status is None:
        return None  # hidden from this user
    state, started = status
    return state not in _ENDED and started == process.started


def _boot() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() or None
    except OSError:
        return None


def _namespace() -> int | None:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None


def _status(number: int) -> tuple[str, int] | None:
    """State of a process and when it was started; None if it is not to be seen."""
    try:
        text = Path(f"/proc/{number}/stat").read_text("utf-8", "replace")
        fields = text.rpartition(")")[2].split()
        return fields[_STATE], int(fields[_STARTED])
    except (OSError, ValueError, IndexError):
        return None
