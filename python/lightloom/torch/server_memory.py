"""Memory that the ranks of a server share: what NVLink is between GPUs.

Each rank has two segments that all ranks of its server see: what it *sends*, out of which the
delegates of NICs read (the gather), and what it *receives*, into which they write (the scatter).
A block of numbers says for which step the segments stand, and how many bytes have come for whom.
Each number has one writer. Ranks wake each other by datagrams.

Segments are memory without a name: nothing is left when a rank is killed.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Sequence

import numpy as np
import numpy.typing as npt

from lightloom.torch.waiting import Watch

Octets = npt.NDArray[np.uint8]

#: bytes of a segment are a multiple of this
_PAGE = 1 << 16
#: questions and answers of ranks, with the number of who sends them, and seconds to answer in
_PING, _PONG, _ANSWER_S = "ping ", "pong ", 1.0
#: most bytes of a message between ranks of a server
_MESSAGE_BYTES = 1 << 12
#: process, user and group of who sent a message (unix(7): struct ucred)
_SENDER = struct.Struct("iII")
#: numbers that each rank has of its own, before those of what came for whom
_OWN = 8
_STEP_OUT, _SIZE_OUT, _STEP_IN, _SIZE_IN, _STEP_SUM = range(5)
#: numbers that say which circuits carry traffic
GATE_WORDS = 8_192


class _Segment:
    """Memory of one rank that grows; all ranks of its server map it."""

    def __init__(self, path: str, descriptor: int | None = None) -> None:
        self._path, self._descriptor = path, descriptor
        self._bytes: Octets = np.empty(0, np.uint8)
        self._lock = threading.Lock()

    @classmethod
    def make(cls, name: str) -> _Segment:
        descriptor = os.memfd_create(name)
        return cls(f"/proc/{os.getpid()}/fd/{descriptor}", descriptor)

    @property
    def path(self) -> str:
        return self._path

    def grow(self, size: int) -> int:
        """Make it at least so large; its size."""
        assert self._descriptor is not None, "a segment grows by its owner"
        if size > len(self._bytes) or not len(self._bytes):
            whole = max(_PAGE, -(-size // _PAGE) * _PAGE)
            os.ftruncate(self._descriptor, whole)
            self._map(self._descriptor, whole)
        return len(self._bytes)

    def seen(self, size: int) -> Octets:
        """Its bytes, of which there are at least ``size``."""
        with self._lock:
            if size > len(self._bytes):
                descriptor = os.open(self._path, os.O_RDWR)
                try:
                    self._map(descriptor, os.fstat(descriptor).st_size)
                finally:
                    os.close(descriptor)
            return self._bytes

    def _map(self, descriptor: int, size: int) -> None:
        self._bytes = np.frombuffer(mmap.mmap(descriptor, size), np.uint8)


class ServerMemory:
    """The memory of a server as one of its ranks sees it.

    Parameters
    ----------
    local, count
        The rank's number in the server, and how many there are.
    name
        Of the job and server, by :func:`name_of`; ranks of other servers never see it.
    first, servers
        The first rank of the server, and the servers of the job.
    gather
        Returns what each rank of the server has given it, in their order.
    watch
        What waits.
    """

    def __init__(
        self,
        local: int,
        count: int,
        *,
        name: str,
        first: int,
        servers: int,
        gather: Callable[[object], list[object]],
        watch: Watch,
    ) -> None:
        self.local, self.count, self._name, self._first = local, count, name, first
        self._watch = watch
        self._lock = threading.Lock()
        #: ranks of the server that have answered
        self._heard: set[int] = set()
        #: what comes as a message from a rank of the server
        self.on_message: Callable[[str], None] = lambda _text: None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(self._address(local))
        segments = [_Segment.make(f"lightloom-{kind}") for kind in ("send", "receive", "numbers")]
        rows = _OWN + count + servers
        segments[2].grow(8 * (count * rows + GATE_WORDS))
        told = gather([segment.path for segment in segments])
        paths: list[list[str]] = [list(map(str, row)) for row in told if isinstance(row, list)]
        assert len(paths) == count, "each rank tells its segments"
        self._out = [_Segment(row[0]) for row in paths]
        self._in = [_Segment(row[1]) for row in paths]
        self._out[local], self._in[local] = segments[0], segments[1]
        numbers = segments[2] if local == 0 else _Segment(paths[0][2])
        words = numbers.seen(8 * (count * rows + GATE_WORDS)).view(np.int64)
        self._numbers = words[: count * rows].reshape(count, rows)
        #: which circuits carry traffic; written by the first rank of the server
        self.gate = words[count * rows :][:GATE_WORDS]
        self._came = self._numbers[:, _OWN : _OWN + count]
        self._on_circuits = self._numbers[:, _OWN + count :]
        gather(None)  # nobody goes on before all have mapped what they need
        self._is_closed = False
        self._listener = threading.Thread(target=self._listen, daemon=True, name="lightloom-wake")
        self._listener.start()

    def _address(self, local: int) -> str:
        return f"\0lightloom/{self._name}/{local}"

    def tell(self, local: int, text: str = "") -> bool:
        """Wake a rank of the server, or send it a message; whether it is there."""
        data = text.encode()[:_MESSAGE_BYTES]
        with contextlib.suppress(BlockingIOError):  # it has enough to wake up from
            try:
                self._socket.sendto(data, socket.MSG_DONTWAIT, self._address(local))
            except (ConnectionRefusedError, FileNotFoundError, BrokenPipeError):
                return False
        return True

    def tell_all(self, text: str = "") -> None:
        """Wake all other ranks of the server, or send them a message."""
        for local in range(self.count):
            if local != self.local:
                self.tell(local, text)

    def answers(self, local: int) -> bool:
        """Whether a rank of the server answers."""
        self._heard.discard(local)
        self.tell(local, f"{_PING}{self.local}")
        deadline = time.monotonic() + _ANSWER_S
        with self._watch.changed:
            while local not in self._heard and time.monotonic() < deadline:
                self._watch.changed.wait(deadline - time.monotonic())
        return local in self._heard

    def gone(self) -> list[int]:
        """Ranks of the server that have ended."""
        others = (local for local in range(self.count) if local != self.local)
        return [self._first + local for local in others if not self.tell(local)]

    def _listen(self) -> None:
        while not self._is_closed:
            try:
                data, facts, _, _ = self._socket.recvmsg(
                    _MESSAGE_BYTES, socket.CMSG_SPACE(_SENDER.size)
                )
            except OSError:
                return
            if not _is_own(facts):
                continue
            text = data.decode(errors="replace")
            if text.startswith(_PING):
                self.tell(int(text.removeprefix(_PING)), f"{_PONG}{self.local}")
            elif text.startswith(_PONG):
                self._heard.add(int(text.removeprefix(_PONG)))
            elif text:
                self.on_message(text)
            self._watch.notify()

    def close(self) -> None:
        """Hear no more."""
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)  # closing it would not wake the listener
        self._listener.join(1.0)
        self._socket.close()

    def receive_into(self, step: int, size: int) -> Octets:
        """Open the receiving segment for a step; what is to come into it."""
        row = self._numbers[self.local]
        row[_SIZE_IN] = self._in[self.local].grow(size)
        row[_STEP_IN] = step
        self.tell_all()
        self._watch.notify()
        return self._in[self.local].seen(size)[:size]

    def sending(self, size: int) -> Octets:
        """The sending segment, to be filled; nobody reads it before :meth:`sent_is_ready`."""
        self._numbers[self.local, _SIZE_OUT] = self._out[self.local].grow(size)
        return self._out[self.local].seen(size)[:size]

    def sent_is_ready(self, step: int) -> None:
        """Let others read the sending segment."""
        self._numbers[self.local, _STEP_OUT] = step
        self.tell_all()

    def sent_by(self, local: int, step: int, size: int) -> Octets:
        """What a rank of the server sends in a step, once it is there."""
        self._watch.until(
            lambda: self._numbers[local, _STEP_OUT] >= step,
            lambda: f"rank {self._first + local} has not begun step {step}",
        )
        return self._seen(self._out, local, max(size, int(self._numbers[local, _SIZE_OUT])))[:size]

    def _seen(self, segments: Sequence[_Segment], local: int, size: int) -> Octets:
        """The bytes of a rank's segment, which goes with its process."""
        try:
            return segments[local].seen(size)
        except FileNotFoundError:
            gone = f"rank {self._first + local} does not answer: its process has ended"
            self._watch.on_failure(gone)
            self._watch.check()
            raise

    def place(self, rank: int, step: int, offset: int, size: int) -> memoryview | None:
        """Where bytes for a rank belong, once it is ready; None if the step is over."""
        local = rank - self._first
        row = self._numbers[local]
        self._watch.until(
            lambda: row[_STEP_IN] >= step,
            lambda: f"rank {rank} has not begun step {step}",
        )
        if row[_STEP_IN] > step:
            return None
        whole = self._seen(self._in, local, max(offset + size, int(row[_SIZE_IN])))
        return memoryview(whole)[offset : offset + size]

    def arrived(self, rank: int, size: int) -> None:
        """Note that bytes for a rank are in their place."""
        local = rank - self._first
        with self._lock:
            self._came[self.local, local] += size
        if local != self.local:
            self.tell(local)

    def received(self) -> int:
        """Bytes that have come for this rank since the job began."""
        return int(self._came[:, self.local].sum())

    def sum_is_ready(self, step: int) -> None:
        """Let others read the sums that this rank has added up in its sending segment."""
        self._numbers[self.local, _STEP_SUM] = step
        self.tell_all()

    def summed_by(self, local: int, step: int) -> Octets:
        """The sending segment of a rank once its sums are in it."""
        self._watch.until(
            lambda: self._numbers[local, _STEP_SUM] >= step,
            lambda: f"rank {self._first + local} has not added up in step {step}",
        )
        return self._seen(self._out, local, int(self._numbers[local, _SIZE_OUT]))

    def add_over_circuits(self, server: int, size: int) -> None:
        """Count bytes that are on their way over circuits from this rank to a server."""
        with self._lock:
            self._on_circuits[self.local, server] += size

    def over_circuits(self, servers: Collection[int]) -> int:
        """Bytes on their way over circuits from all ranks of the server to these servers."""
        return int(self._on_circuits[:, list(servers)].sum())


def name_of(secret: bytes, server: int) -> str:
    """The name of a job's server, which any user may read: it does not tell the job's secret."""
    job = hashlib.blake2b(secret, digest_size=8, person=b"name").hexdigest()
    return f"{job}-{server}"


def _is_own(facts: list[tuple[int, int, bytes]]) -> bool:
    """Whether the kernel says that a message comes from this user."""
    return any(
        (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
        and _SENDER.unpack(data[: _SENDER.size])[1] == os.getuid()
        for level, kind, data in facts
    )
