"""Processes of this machine that work on one thing after another, and outlive none of their work.

A worker calls a function with each piece of work and a function that sends parts of the result. It
may end at any moment (killed, out of memory): the piece that it had is then told to be lost.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, Literal, Protocol, TypeVar

Work = TypeVar("Work")
Work_contra = TypeVar("Work_contra", contravariant=True)
#: sends a part of a result
Send = Callable[[Any], None]


@dataclass(frozen=True)
class Answer:
    """What a worker says of a piece of work.

    ``kind`` tells whether ``content`` is a part of its result, its whole result, or why it is lost.
    """

    worker: int
    kind: Literal["part", "done", "lost"]
    content: Any


class WorkerCrew(Protocol[Work_contra]):
    """Workers wherever they are; each has a number below ``count`` and one piece of work."""

    count: int

    def idle(self) -> list[int]:
        """Workers that have no work; starts those that are missing."""
        ...

    def give(self, worker: int, work: Work_contra) -> None:
        """Give an idle worker work."""
        ...

    def answers(self, timeout_s: float) -> list[Answer]:
        """What came in, after this time at the latest."""
        ...

    def stop(self) -> None:
        """End all of them at once."""
        ...


class LocalWorkers(Generic[Work]):
    """Processes of this machine.

    Parameters
    ----------
    function
        What is done with a piece of work: a function of a module, so that a new process finds it.
    count
        How many at once; none is started before it is given work.
    """

    def __init__(self, function: Callable[[Work, Send], object], count: int) -> None:
        self.count = count
        self._function = function
        self._context = multiprocessing.get_context("spawn")
        self._processes: dict[int, tuple[Connection, Any]] = {}
        self._busy: set[int] = set()

    def idle(self) -> list[int]:
        """Workers that have no work."""
        return [worker for worker in range(self.count) if worker not in self._busy]

    def give(self, worker: int, work: Work) -> None:
        """Give an idle worker work; starts its process if there is none."""
        if worker not in self._processes:
            ours, theirs = self._context.Pipe()
            process = self._context.Process(
                target=_serve, args=(self._function, theirs), daemon=True
            )
            process.start()
            theirs.close()
            self._processes[worker] = ours, process
        self._busy.add(worker)
        with contextlib.suppress(ConnectionError):  # it has ended, as `answers` will see
            self._processes[worker][0].send(work)

    def answers(self, timeout_s: float) -> list[Answer]:
        """What came in, after this time at the latest."""
        busy = {self._processes[worker][0]: worker for worker in self._busy}
        ready = [end for end in wait(list(busy), timeout_s) if isinstance(end, Connection)]
        return [self._answer(busy[end]) for end in ready]

    def _answer(self, worker: int) -> Answer:
        connection, process = self._processes[worker]
        try:
            kind, content = connection.recv()
        except (EOFError, OSError):  # also in the middle of what it sent
            process.join()
            connection.close()
            del self._processes[worker]
            kind, content = "lost", f"the process ended with status {process.exitcode}"
        if kind != "part":
            self._busy.discard(worker)
        return Answer(worker, kind, content)

    def stop(self) -> None:
        """End all processes."""
        for connection, process in self._processes.values():
            process.terminate()
            process.join()
            connection.close()
        self._processes.clear()
        self._busy.clear()


def _serve(function: Callable[[Work, Send], object], connection: Connection) -> None:
    """Work in a process of its own, which Ctrl-C leaves to the one that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # its end leaves no part of a file
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while True:
            work = connection.recv()
            content = function(work, lambda part: connection.send(("part", part)))
            connection.send(("done", content))
    except (EOFError, OSError, KeyboardInterrupt):
        return  # there is no more work, or whoever started this has gone
    finally:
        connection.close()


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
