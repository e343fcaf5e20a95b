"""What all ranks of a job agree on before a step: what they do, and how many rows go where.

The agreement is also the fence between steps: a rank joins it once it has ended the step before,
so nobody sends bytes of a step into memory that another one still reads.
"""

from __future__ import annotations

import hashlib
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from lightloom.errors import InputError
from lightloom.torch.waiting import Watch

Given = TypeVar("Given")

#: bits of a digest
_DIGEST = 62


class StepAgreement:
    """Counts the steps of a rank and agrees on them with the others.

    Parameters
    ----------
    group
        A process group of all ranks that nothing else uses.
    watch
        What waits.
    """

    def __init__(self, group: dist.ProcessGroup, watch: Watch) -> None:
        self._group, self._watch = group, watch
        self._ranks = dist.get_world_size(group)
        #: of the collective that is under way
        self.step = 0
        #: bytes that were to come for this rank since the job began
        self.expected = 0

    def agree(self, name: str, splits: list[int], problem: str) -> npt.NDArray[np.int64]:
        """Return how many rows go from whom to whom, ``(ranks, ranks)``, once all ranks agree.

        Parameters
        ----------
        name
            What this rank does, whatever its rows.
        splits
            Rows that it sends to each rank.
        problem
            What is wrong with its arguments; empty if they will do.

        Raises
        ------
        InputError
            On every rank, if one has a problem or they disagree.
        RankError
            If a rank does not answer.
        """
        self._watch.check()
        self.step += 1
        counts = (splits + [0] * self._ranks)[: self._ranks]
        if problem:
            counts = [0] * self._ranks
        digest = hashlib.blake2b(f"{self.step} {name}".encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "little") >> (64 - _DIGEST)
        mine = torch.tensor([int(bool(problem)), number, *counts], dtype=torch.int64)
        every = mine.new_empty(self._ranks * len(mine))
        self.wait(dist.all_gather_into_tensor(every, mine, self._group, async_op=True))
        rows = every.view(self._ranks, -1).numpy()
        if rows[:, 0].any() or (rows[:, 1] != rows[0, 1]).any():
            raise InputError(self._reason(name, problem))
        found: npt.NDArray[np.int64] = rows[:, 2:].copy()
        return found

    def _reason(self, name: str, problem: str) -> str:
        """What is wrong, and where: the same on every rank."""
        told = self.gather_objects((problem, name))
        for rank, (text, _) in enumerate(told):
            if text:
                return f"rank {rank}: {text}"
        other = next(rank for rank, (_, text) in enumerate(told) if text != told[0][1])
        return f"ranks 0 and {other} disagree: {told[0][1]} and {told[other][1]}"

    def wait(self, work: dist.Work | None, timeout_s: float | None = None) -> None:
        """Wait for an operation of a process group.

        Raises
        ------
        RankError
            If a rank does not answer.
        """
        assert work is not None, "asked to run beside others"
        future = work.get_future()  # it is done before the operation says so
        future.add_done_callback(lambda _future: self._watch.notify())
        try:
            self._watch.until(
                future.done,
                lambda: f"step {self.step} was not agreed on",
                timeout_s,
            )
            work.wait()
        except RuntimeError as error:
            self._watch.check()
            lines = str(error).strip().splitlines() or [type(error).__name__]
            said = lines[0].rpartition("] ")[2].partition(". ")[0][:100]
            self._watch.on_failure(self._watch.find_gone() or f"a rank does not answer ({said})")
            self._watch.check()

    def gather_objects(self, value: Given) -> list[Given]:
        """What each rank has given, in their order."""
        every = [value] * self._ranks
        dist.all_gather_object(every, value, group=self._group)
        return every
