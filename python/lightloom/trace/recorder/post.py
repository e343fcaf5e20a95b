"""What ranks that are recorded together tell each other: the numbers that they would communicate.

Only what a program may read is told: integers, flags, single numbers. Each rank is a process of its
own; what one puts under a name is there for the others, which wait for it. A rank that waits for
one that has ended, or where all wait for each other, is told so: the program would hang. So is one
that asks again and again whether something has come.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

from .places import HangError, RefusedError, place
from .values import common_origin

#: of processes that open a store
ANY_NUMBER = -1

#: how soon, and later on how often, a rank looks for what it waits for
FIRST_LOOK_S, LOOK_S = 0.001, 0.05

#: how long a rank lets others run that asks whether something has come
GLANCE_S = 0.005

#: how long a rank asks in vain, and does nothing else, before it counts as one that waits
POLLED_S = 10.0

#: larger tensors are data, not control
MAX_TOLD_BYTES = 1 << 20

Found = TypeVar("Found")
Answer = TypeVar("Answer", bytes, int)

#: counts ranks that wait, and how often any began to wait; set once all wait for each other
WAITING, WAITS, STUCK = "waiting", "waits", "stuck"


@dataclass(frozen=True)
class Told:
    """What one rank puts into a call.

    Attributes
    ----------
    op
        The operation, and where in the program it is.
    tensors
        Dtype, shape and bytes of each tensor; None of those without data.
    splits
        Rows for each rank of the group, where the program says so.
    origin
        Where numbers were invented that these are derived from.
    """

    op: str
    tensors: list[tuple[torch.dtype, tuple[int, ...], bytes] | None]
    splits: list[int] | None = None
    origin: str | None = None

    def tensor(self, number: int) -> torch.Tensor | None:
        """A tensor of these; None where it has no data."""
        if number >= len(self.tensors) or (told := self.tensors[number]) is None:
            return None
        dtype, shape, content = told
        if not content:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(bytearray(content), dtype=dtype).view(shape)


def told_of(op: str, tensors: list[torch.Tensor | None], splits: list[int] | None) -> Told:
    """What a rank tells of tensors of which some have data (the others are None)."""
    with_data = [tensor for tensor in tensors if tensor is not None]
    contents = [None if tensor is None else _content(tensor) for tensor in tensors]
    return Told(op, contents, splits, common_origin(with_data))


def _content(tensor: torch.Tensor) -> tuple[torch.dtype, tuple[int, ...], bytes] | None:
    if tensor.numel() * tensor.element_size() > MAX_TOLD_BYTES:
        return None
    flat = torch._C.TensorBase.contiguous(tensor.detach()).view(-1)
    content = torch._C.TensorBase.numpy(flat.view(torch.uint8)).tobytes() if flat.numel() else b""
    return tensor.dtype, tuple(tensor.shape), content


class Polling(threading.local):
    """Since when a thread only asks whether something has come, and if it counts as waiting."""

    def __init__(self) -> None:
        self.since_s, self.is_counted = 0.0, False


class Post:
    """Where ranks put what they tell, and find what others told.

    Parameters
    ----------
    path
        Of the store, a file in the recorder's folder, which nobody else may read.
    rank
        The rank that is recorded.
    runs
        The ranks that are recorded, and the name of the run of each.
    """

    def __init__(self, path: str, rank: int, runs: dict[int, str]) -> None:
        self.rank, self.runs = rank, runs
        #: of all that is told
        self.store = dist.FileStore(path, ANY_NUMBER)
        #: threads of this rank that wait
        self._waiting = 0
        self._counting = threading.Lock()
        self._polling = Polling()

    def put(self, name: str, told: Told) -> None:
        """Tell the others something."""
        self.go_on()
        self.store.set(f"{self.runs[self.rank]} {name}", pickle.dumps(told))

    def take(self, rank: int, name: str, what: str) -> Told:
        """What a recorded rank tells; waits until it does.

        Raises
        ------
        HangError
            If it never does.
        """
        key = f"{self.runs[rank]} {name}"
        told: Told = pickle.loads(self.read(key, {rank}, what))
        return told

    def has_all(self, ranks: list[int], name: str, what: str) -> bool:
        """Whether all recorded ranks of some have told something; if not, after a moment.

        Raises
        ------
        HangError
            If one never does.
        """
        awaited = [rank for rank in ranks if rank in self.runs and rank != self.rank]
        ended = set(filter(self._has_ended, awaited))
        keys = {rank: f"{self.runs[rank]} {name}" for rank in awaited}
        missing = {rank for rank, key in keys.items() if not self.store.check([key])}
        if not missing:
            self.go_on()
            return True
        if missing & ended:
            raise _hang(missing & ended, "ends", what)
        self.ask_in_vain(missing, what)
        return False

    def ask_in_vain(self, ranks: set[int], what: str) -> None:
        """Let others run for a moment, as what the program asks for has not come.

        Raises
        ------
        HangError
            If the program has asked for long, and all others wait.
        """
        polling, now_s = self._polling, time.monotonic()
        polling.since_s = polling.since_s or now_s
        if not polling.is_counted and now_s - polling.since_s > POLLED_S:
            polling.is_counted = True
            self._count(1)
        if polling.is_counted:
            if self.store.check([STUCK]):
                raise _hang(ranks, "waits, too,", what)
            time.sleep(LOOK_S)
            return
        self._count(1)
        time.sleep(GLANCE_S)
        self._count(-1)

    def go_on(self) -> None:
        """Note that this thread does something else than to ask whether something has come."""
        polling = self._polling
        polling.since_s = 0.0
        if polling.is_counted:
            polling.is_counted = False
            self._count(-1)

    def end(self) -> None:
        """Note that this rank waits for nothing any more."""
        if self._waiting:
            self.store.add(WAITING, -1)

    def read(self, key: str, ranks: set[int], what: str) -> bytes:
        """What some of these ranks put into the store; waits until one does.

        Raises
        ------
        HangError
            If none ever does.
        """

        def found() -> bytes | None:
            return bytes(self.store.get(key)) if self.store.check([key]) else None

        content = found()
        return self._wait(found, ranks, what) if content is None else content

    def first(self, names: dict[int, str]) -> int:
        """The lowest of the ranks that have told something of the name that it has here.

        Raises
        ------
        HangError
            If none ever does.
        """
        keys = {rank: f"{self.runs[rank]} {name}" for rank, name in names.items()}

        def found() -> int | None:
            return next((rank for rank, key in keys.items() if self.store.check([key])), None)

        rank = found()
        if rank is None:
            rank = self._wait(found, set(names), "sending")
        return rank

    def _wait(self, found: Callable[[], Found | None], ranks: set[int], what: str) -> Found:
        """Wait until something is found that one of some ranks puts into the store."""
        self.go_on()
        self._count(1)
        pause_s = FIRST_LOOK_S
        try:
            while True:
                have_ended = all(map(self._has_ended, ranks))
                is_stuck = self.store.check([STUCK])
                if (result := found()) is not None:
                    return result
                if have_ended or is_stuck:
                    raise _hang(ranks, "waits, too," if is_stuck else "ends", what)
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LOOK_S)
        finally:
            self._count(-1)

    def _has_ended(self, rank: int) -> bool:
        return bool(self.store.check([f"{self.runs[rank]} ended"]))

    def _count(self, more: int) -> None:
        """Count this rank among those that wait, while any of its threads does."""
        with self._counting:
            before, self._waiting = self._waiting, self._waiting + more
            if not before or not self._waiting:
                self.store.add(WAITING, more)
            self.store.add(WAITS, 1)


def _hang(ranks: set[int], why: str, what: str) -> HangError:
    whom = ", ".join(map(str, sorted(ranks)))
    return HangError(
        f"{place()} waits for rank {whom}, which {why} without {what}: the program would hang"
    )


class JobStore(dist.Store):
    """The store of the job's process groups, as the ranks have it that are recorded."""

    def __init__(self, post: Post) -> None:
        super().__init__()
        self._post = post
        self._name = self._name_of(post.runs[post.rank])
        #: what the program was told of each key when it last asked
        self._answers: dict[str, bytes | int] = {}

    def set(self, key: str, value: str) -> None:
        self._post.go_on()
        self._post.store.set(self._name + key, value)

    def get(self, key: str) -> bytes:
        post = self._post
        # ranks that were recorded earlier wrote under another name
        for name in {self._name_of(run) for run in post.runs.values()} - {self._name}:
            if post.store.check([name + key]) and not post.store.check([self._name + key]):
                return self._answered(key, bytes(post.store.get(name + key)))
        others = post.runs.keys() - {post.rank}
        if not (others or post.store.check([self._name + key])):
            raise RefusedError(
                f"{place()} reads {key!r} of the job's store, which another rank sets: record "
                "that one, too, by --rank"
            )
        what = f"setting {key!r} in the job's store"
        return self._answered(key, post.read(self._name + key, others, what))

    def _answered(self, key: str, answer: Answer) -> Answer:
        """An answer; to be told the same again is to wait for something else."""
        if self._answers.get(key) == answer:
            self._ask_in_vain([key])
        self._answers[key] = answer
        return answer

    def _ask_in_vain(self, keys: list[str]) -> None:
        post = self._post
        named = ", ".join(map(repr, keys))
        post.ask_in_vain(set(post.runs) - {post.rank}, f"changing {named} in the job's store")

    @staticmethod
    def _name_of(run: str) -> str:
        return run.partition(" ")[0] + " store "

    def add(self, key: str, value: int) -> int:
        count = int(self._post.store.add(self._name + key, value))
        if not value:
            return self._answered(key, count)
        self._post.go_on()
        return count

    def check(self, keys: list[str]) -> bool:
        is_there = bool(self._post.store.check([self._name + key for key in keys]))
        if not is_there:
            self._ask_in_vain(keys)
        return is_there

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Nobody else is there who has to come."""

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        found = bytes(self._post.store.compare_set(self._name + key, expected, desired))
        return self._answered(key, found)

    def delete_key(self, key: str) -> bool:
        return bool(self._post.store.delete_key(self._name + key))
