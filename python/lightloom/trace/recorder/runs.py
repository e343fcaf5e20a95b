"""Runs of a program, each as one rank in a process of its own, several at a time.

All begin where PyTorch and what the program imports first have been imported. A rank may have to
know what another one sends: it waits for that (see `post`), while others run in its place.
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

import torch.distributed

from .post import ANY_NUMBER, STUCK, WAITING, WAITS
from .processes import end_descendants, processor_s
from .uncompiled import bring_compiler

POLL_S = 0.01

#: how long all may wait before it is said that they wait for each other, and the share of a
#: processor that each takes for it
STUCK_S, IDLE = 2.0, 0.03


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
        #: of each program, the run of each rank that was asked for: the last one
        self.requested: dict[int, dict[int, str]] = defaultdict(dict)
        self.told = str(self.folder / "told")
        self.store = torch.distributed.FileStore(self.told, ANY_NUMBER)
        self._batch = 0
        self._quiet = (0, 0.0, 0.0)

    def carry_out(self, runs: list[list[int]]) -> None:
        """Carry out runs, given as the number of a program and a rank, up to one that fails.

        Of those that it ends it is noted that they were left out. Where a run has to hear a rank
        that is not recorded, those beside it go on: they may have to, too.
        """
        self._batch += 1
        self.store.delete_key(STUCK)
        for program, rank in runs:
            self.requested[program][rank] = f"{program}.{self._batch} {rank}"
        waiting, at_once = list(runs), self.spec["processes"]
        if self.spec["real"]:
            at_once = len(runs)
        while waiting or self.running:
            while waiting and self._busy() < at_once:
                self._start(*waiting.pop(0))
            if failed := self._finish_one():
                for program, rank in waiting:
                    _write(self.folder / f"{self._name(program, rank)}.json", {"left_out": True})
                waiting = []
                # those that all wait for each other say so, each of them
                if failed.get("needs") is None and not self.store.check([STUCK]):
                    self._end_all()
            self._look_for_stuck(bool(waiting))
            if not self.spec["real"]:
                end_descendants(set(self.running))

    def _name(self, program: int, rank: int) -> str:
        """Of the files of a run of this batch."""
        return f"{self._batch}-{program}-{rank}"

    def _end_all(self) -> None:
        end_descendants()
        for name in self.running.values():
            _write(self.folder / f"{name}.json", {"left_out": True})
        self.running.clear()

    def _busy(self) -> int:
        """Runs that do not wait for others."""
        return len(self.running) - self.store.add(WAITING, 0)

    def _look_for_stuck(self, more: bool) -> None:
        """Tell runs that all wait for each other."""
        waits = self.store.add(WAITS, 0)
        now_s = time.monotonic()
        if more or not self.running or self._busy() > 0 or waits != self._quiet[0]:
            self._quiet = (waits, now_s, processor_s(self.running))
        elif now_s - self._quiet[1] > STUCK_S:
            # another thread of a rank that waits may compute
            spent_s = processor_s(self.running) - self._quiet[2]
            if spent_s < IDLE * len(self.running) * (now_s - self._quiet[1]):
                self.store.set(STUCK, "")
            self._quiet = (waits, now_s, processor_s(self.running))

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
        name = self._name(program, rank)
        if not self.spec["real"]:
            bring_compiler()  # once for all that follow
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
        spec |= {"told": self.told, "runs": self.requested[program]}
        with (self.folder / f"{name}.stack").open("w", encoding="utf-8") as stack:
            faulthandler.enable(stack, all_threads=False)
            faulthandler.register(signal.SIGUSR1, stack, all_threads=False)
            record = self.record(spec)
        if os.getpid() != number:  # the program forked, and both come back
            os._exit(0)
        _write(self.folder / f"{name}.json", record)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(bool(record["error"] or record["status"] or record["reason"])))

    def _finish_one(self) -> dict[str, Any]:
        """Wait a moment for the end of a run; what it reports if it has failed."""
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            time.sleep(POLL_S)
        if child not in self.running:  # also those that a program left behind
            return {}
        name = self.running.pop(child)
        output = self.folder / f"{name}.json"
        if not output.exists():
            _write(output, {"killed": status})
        _, program, rank = name.split("-")
        self.store.set(f"{self.requested[int(program)][int(rank)]} ended", "")
        report: dict[str, Any] = json.loads(output.read_text(encoding="utf-8")) if status else {}
        return report


def _write(path: Path, content: Any) -> None:
    """Write a file that is there once it is whole."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content), encoding="utf-8")
    part.rename(path)
