"""Runs of a program, each as one rank in a process of its own, several at a time.

All begin where PyTorch and what the program imports first have been imported. A rank may have to
hear what another one broadcasts: it waits for those that were asked for before it, and no others,
so that what it hears does not depend on how many run at a time.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .processes import end_descendants

POLL_S = 0.02


class Runs:
    """Starts runs and waits for their ends.

    Parameters
    ----------
    spec
        Its `folder` takes a file for each run, and `processes` says how many run at a time.
    record
        Runs the program and returns what was recorded, in the process of the rank.
    """

    def __init__(
        self, spec: dict[str, Any], record: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        self.spec, self.record = spec, record
        self.folder = Path(spec["folder"])
        self.running: dict[int, str] = {}
        #: of each program, the ranks that were asked for
        self.requested: dict[int, list[int]] = defaultdict(list)

    def carry_out(self, runs: list[list[int]]) -> bool:
        """Carry out runs, given as the number of a program and a rank; False if one has failed."""
        waiting = list(runs)
        at_once = len(runs) if self.spec["real"] else self.spec["processes"]
        while waiting or self.running:
            while waiting and len(self.running) < at_once:
                self._start(*waiting.pop(0))
            if not self._finish_one():
                end_descendants()
                return False
            if not self.spec["real"]:
                end_descendants(set(self.running))
        return True

    def give_up(self) -> None:
        """End everything; before, those that are running say where they are."""
        end = time.monotonic() + 2.0
        for child, name in self.running.items():
            stack = self.folder / f"{name}.stack"
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGUSR1)
                while not (stack.exists() and stack.stat().st_size) and time.monotonic() < end:
                    time.sleep(POLL_S)
        end_descendants()
        os._exit(1)

    def _start(self, program: int, rank: int) -> None:
        earlier = tuple(self.requested[program])
        self.requested[program].append(rank)
        name = f"{program}-{rank}"
        child = os.fork()
        if child:
            self.running[child] = name
            return
        number = os.getpid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)  # not what asks for runs
        sys.stdin = os.fdopen(nothing)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        spec = self.spec  # what answers for process groups reads it too
        spec |= {"rank": rank, "program": spec["programs"][program], "name": name}
        spec |= {"hear": _Heard(self.folder, program, earlier), "first": not earlier}
        with (self.folder / f"{name}.stack").open("w", encoding="utf-8") as stack:
            faulthandler.enable(stack, all_threads=False)
            faulthandler.register(signal.SIGUSR1, stack, all_threads=False)
            record = self.record(spec)
        if os.getpid() != number:  # the program forked, and both come back
            os._exit(0)
        _write(self.folder / f"{name}.said", record.pop("said"))
        _write(self.folder / f"{name}.json", record)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(bool(record["error"] or record["status"] or record["reason"])))

    def _finish_one(self) -> bool:
        """Wait until a run ends; whether it succeeded."""
        while True:
            child, status = os.wait()
            if child in self.running:  # else it is one that a program left behind
                break
        name = self.running.pop(child)
        output = self.folder / f"{name}.json"
        if not output.exists():
            _write(output, {"killed": status})
        return not status


class _Heard:
    """What earlier ranks broadcast."""

    def __init__(self, folder: Path, program: int, earlier: tuple[int, ...]) -> None:
        self.folder, self.program, self.earlier = folder, program, earlier
        self._known: dict[int, dict[str, list[Any]]] = {}

    def __call__(self, root: int, name: str) -> list[Any]:
        """The broadcasts of a rank in a group; none if it was not asked for before this one."""
        if root not in self.earlier:
            return []
        if root not in self._known:
            report = self.folder / f"{self.program}-{root}.said"
            while not report.exists():
                time.sleep(POLL_S)
            self._known[root] = json.loads(report.read_text(encoding="utf-8"))
        return self._known[root].get(name, [])


def _write(path: Path, content: Any) -> None:
    """Write a file that is there once it is whole."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content), encoding="utf-8")
    part.rename(path)
