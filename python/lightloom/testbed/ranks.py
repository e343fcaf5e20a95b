"""Ranks of a job: a command in every server, whose lines come out under the rank's number.

The first rank that fails ends the others, so that no job waits for what will not come.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import IO, NamedTuple

from lightloom.testbed.refusals import TestbedError
from lightloom.testbed.testbed import Testbed

#: time that ranks have to end after the first has failed, before they are killed
_GRACE_S = 5.0
#: time in which lines of ranks that have ended are read, and between looks at ranks
_READ_S, _LOOK_S = 5.0, 0.05
#: as a shell says that a command was ended by a signal
_BY_SIGNAL = 128

Say = Callable[[str], None]


class RankStatus(NamedTuple):
    """How a rank has ended: as a shell says it."""

    rank: int
    server: int
    status: int


def run_ranks(
    testbed: Testbed, words: Sequence[str], say: Say, servers: Iterable[int] | None = None
) -> list[RankStatus]:
    """Run a command in servers, as many times in each as it has ranks; return how each ended.

    Parameters
    ----------
    testbed
        Where.
    words
        The command.
    say
        Called with each line that a rank prints, one at a time; from several threads.
    servers
        Which servers; all by default.

    Raises
    ------
    TestbedError
        If the command cannot be started.
    """
    chosen = range(testbed.layout.servers) if servers is None else servers
    ranks = testbed.layout.ranks_per_server
    running: dict[tuple[int, int], subprocess.Popen[bytes]] = {}
    readers = []
    turn = threading.Lock()

    def say_in_turn(line: str) -> None:
        with turn:
            say(line)

    try:
        for server in chosen:
            for local_rank in range(ranks):
                rank = server * ranks + local_rank
                process = _start(testbed, server, local_rank, words)
                running[rank, server] = process
                assert process.stdout is not None
                reader = threading.Thread(
                    target=_read, args=(rank, process.stdout, say_in_turn), daemon=True
                )
                reader.start()
                readers.append(reader)
        # what a rank has started may hold its output when it has failed
        while any(reader.is_alive() for reader in readers) and not any(
            process.poll() for process in running.values()
        ):
            time.sleep(_LOOK_S)
    finally:
        _end(running.values())
        deadline = time.monotonic() + _READ_S
        for reader in readers:
            reader.join(max(0.0, deadline - time.monotonic()))
    return [RankStatus(*place, _status(process)) for place, process in running.items()]


def run_here(testbed: Testbed, server: int, words: Sequence[str]) -> int:
    """Run a command in one server, with this terminal; return how it has ended."""
    environment = {**os.environ, **testbed.environment(server)}
    try:
        process = subprocess.run(testbed.command(server, words), env=environment, check=False)
    except OSError as error:
        raise TestbedError(f"cannot start {words[0]}: {error.strerror}") from None
    code = process.returncode
    return _BY_SIGNAL - code if code < 0 else code


def _start(
    testbed: Testbed, server: int, local_rank: int, words: Sequence[str]
) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **testbed.environment(server, local_rank)}
    environment.setdefault("PYTHONUNBUFFERED", "1")
    try:
        return subprocess.Popen(
            testbed.command(server, words), env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise TestbedError(f"cannot start {words[0]}: {error.strerror}") from None


def _read(rank: int, output: IO[bytes], say: Say) -> None:
    with output:
        for line in output:
            say(f"[{rank}] {line.decode('utf-8', 'replace').rstrip()}")


def _end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """End what still runs: first by asking, then by force."""
    for process in processes:
        if process.poll() is None:
            _signal(process, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        # what it has started may hold its output
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _status(process: subprocess.Popen[bytes]) -> int:
    code = process.returncode
    return _BY_SIGNAL - code if code < 0 else code
