"""Processes of a testbed that go on when whoever started them has ended.

Each has the testbed's mark among its arguments, by which it is found again, whatever else was lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from lightloom.testbed.refusals import TestbedError

#: name of the file that says which testbed is in a folder
RECORD = "testbed.json"
_START_S = 30.0
#: time in which a command that asks or tells the kernel ends
_ANSWER_S = 30.0
#: time in which a process that was killed is gone
_END_S = 5.0
#: field of ``/proc/PID/stat``, counted from the state (proc(5))
_NUM_THREADS = 17
Facts = dict[str, Any]
Tell = Callable[[Facts], None]


def launch(module: str, *arguments: str, before: Iterable[str] = ()) -> Facts:
    """Start a process that goes on; return what it says of itself.

    Parameters
    ----------
    module
        Its module; the ``main`` of it calls :func:`go_on`.
    arguments
        Of the process.
    before
        Words of a command that starts others, such as ``nsenter``.

    Raises
    ------
    TestbedError
        If it does not start; the message is what it says.
    """
    command = [*before, sys.executable, "-P", "-m", module, *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_START_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TestbedError(f"{module} did not start within {_START_S:g} s") from None
    except FileNotFoundError as error:
        raise TestbedError(f"{error.filename} is not installed (util-linux)") from None
    try:
        facts: Facts = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise TestbedError(f"{module} did not start: {lines[-1]}") from None
    if "error" in facts:
        raise TestbedError(facts["error"])
    return facts


def run_bounded(words: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command of which an answer is expected soon; what it prints.

    Raises
    ------
    TestbedError
        If it does not end.
    """
    try:
        return subprocess.run(
            words, input=text, capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise TestbedError(f"{words[0]} did not end within {_ANSWER_S:g} s") from None


def go_on(work: Callable[[Tell], None], log: Path) -> None:
    """Do the work in a process without parent, terminal and input, whose output is in a file.

    Returns once the work has said what is to be known of it, or has ended.
    """
    reading, writing = os.pipe()
    if os.fork() != 0:
        os.close(writing)
        with os.fdopen(reading) as told:
            print(told.read(), flush=True)
        return
    os.close(reading)
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _redirect(log)

    def tell(facts: Facts) -> None:
        with os.fdopen(writing, "w") as stream:
            json.dump({"pid": os.getpid(), **facts}, stream)

    try:
        work(tell)
    except Exception as error:
        traceback.print_exc()
        with contextlib.suppress(OSError):  # it has said that it runs
            tell({"error": str(error) or type(error).__name__})
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _redirect(log: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    for old, new in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(old, new)
    os.close(nothing)
    os.close(output)


def marked(mark: str) -> list[int]:
    """Processes of this user that have a mark among their arguments."""
    return [process for process in processes() if is_marked(process, mark)]


def is_marked(process: int, mark: str) -> bool:
    """Whether a process of this user runs and has a mark among its arguments."""
    place = Path(f"/proc/{process}")
    try:
        if place.stat().st_uid != os.geteuid():
            return False
        words = (place / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return mark.encode() in words  # a process that has ended has no arguments


def processes() -> list[int]:
    """Numbers of all processes but this one."""
    this_process = os.getpid()
    names = (path.name for path in Path("/proc").iterdir())
    return [int(name) for name in names if name.isdecimal() and int(name) != this_process]


def kill(numbers: Iterable[int]) -> None:
    """Kill processes and wait until they are gone.

    Raises
    ------
    TestbedError
        If one stays.
    """
    waiting = set(numbers)
    for number in tuple(waiting):
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            waiting.discard(number)
        except PermissionError:
            raise TestbedError(f"process {number} belongs to another user") from None
    end = time.monotonic() + _END_S
    while waiting:
        waiting = {number for number in waiting if not _has_ended(number)}
        if waiting and time.monotonic() > end:
            raise TestbedError(f"process {min(waiting)} cannot be killed")
        time.sleep(0.002)


def _has_ended(number: int) -> bool:
    """Whether a process is gone, or waited for, with all of its threads and open files."""
    try:
        status = Path(f"/proc/{number}/stat").read_text("utf-8", "replace")
    except OSError:
        return True
    facts = status.rpartition(")")[2].split()
    return facts[0] in {"Z", "X", "x"} and int(facts[_NUM_THREADS]) <= 1
