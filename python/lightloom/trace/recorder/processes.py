"""Processes that a traced program starts: none communicates unseen, and none is left."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
import os
import signal
import sys
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from .places import RefusedError, place

#: of prctl: whoever is left by a process that ends becomes ours; a signal when our parent ends
_SUBREAPER, _PARENT_ENDED = 36, 1

#: parameters of loaders of data that are of processes which load it
_OF_WORKERS = (
    *("num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context"),
    "timeout",
)

_ONE_RANK = "a trace is of one rank: start it as torchrun would, with RANK and WORLD_SIZE set"


def adopt_descendants() -> None:
    """Whoever this process starts, also by others, is ended with it."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        library.prctl(_SUBREAPER, 1, 0, 0, 0)
        library.prctl(_PARENT_ENDED, signal.SIGTERM, 0, 0, 0)


def end_descendants(kept: Collection[int] = ()) -> None:
    """End all processes that descend from this one, but for `kept` and what descends from these."""
    for _ in range(100):  # ending one may leave its own to us
        numbers = _descendants(os.getpid(), kept)
        if not numbers:
            return
        for number in numbers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        for number in numbers:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(number, os.WNOHANG)
        time.sleep(0.01)


def _descendants(root: int, kept: Collection[int]) -> list[int]:
    """Processes below one, by the parents that Linux tells."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    descendants: list[int] = []
    pending = [root]
    while pending:
        more = [child for child in children.get(pending.pop(), []) if child not in kept]
        descendants += more
        pending += more
    return descendants


def processor_s(processes: Iterable[int]) -> float:
    """Processor time of processes; 0 where the system does not tell."""
    ticks = 0
    for number in processes:
        with contextlib.suppress(OSError, ValueError):
            fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def follow_forks(session: Any, note: Path) -> None:
    """Refuse what processes communicate that the program starts; `note` tells who tried."""
    import torch.multiprocessing
    from torch.utils import data

    def refuse(*_: Any, **__: Any) -> None:
        raise RefusedError(f"{place()} starts ranks itself: {_ONE_RANK}")

    def refuse_call() -> None:
        reason = f"{place()} communicates in a process of its own: {_ONE_RANK}"
        note.write_text(reason, encoding="utf-8")
        raise RefusedError(reason)

    def in_child() -> None:
        session.refuse_call = refuse_call

    os.register_at_fork(after_in_child=in_child)
    torch.multiprocessing.spawn = refuse
    torch.multiprocessing.start_processes = refuse
    make = data.DataLoader.__init__
    signature = inspect.signature(make)

    @functools.wraps(make)  # what makes loaders anew asks which parameters there are
    def without_workers(*args: object, **kwargs: object) -> None:
        """Data is loaded where it is used: what workers would send has no data."""
        bound = signature.bind(*args, **kwargs)
        for name in _OF_WORKERS:
            bound.arguments.pop(name, None)
        make(*bound.args, **bound.kwargs)

    data.DataLoader.__init__ = without_workers  # type: ignore[method-assign]
