"""RankStreams of frames to ranks of other servers, over circuits, packets and relays.

A stream goes from one rank to another over given NICs. It opens on first use and stays; a thread
sends its frames and counts those that the other end has. A connection that breaks or stalls is
closed, and the stream goes on over other NICs from the first frame that the other end has not: over
packets, over another circuit, or by way of a third server.

Over a circuit no frame begins while its fence is closed or it is dark, and after each change of
circuits one byte goes ahead as a probe.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lightloom.schedule.carrying import JobNics, NicHop, NicPlace
from lightloom.torch.gate import DarkError, Gate
from lightloom.torch.server_memory import ServerMemory
from lightloom.torch.waiting import Watch
from lightloom.torch.wires import (
    COUNT,
    DATA,
    FRAME,
    NEW,
    PING,
    PROBE,
    RESUMED,
    STOP,
    Greeting,
    Wires,
    cut,
    end,
)

#: bytes of a frame at most, and frames that may be on their way
FRAME_BYTES, _WINDOW = 1 << 19, 16
#: seconds that a stream waits for a fence to open before it takes packets
_FENCE_S = 5.0
#: seconds between looks at a fence
_LOOK_S = 0.001

Way = tuple[NicHop, ...]


@dataclass(frozen=True)
class StreamLimits:
    """How long streams wait.

    Attributes
    ----------
    stall_s
        Seconds without any progress after which a connection is given up.
    probe_s
        Seconds in which the other end of a new circuit must answer one byte.
    connect_s
        Seconds in which another server must take a connection.
    """

    stall_s: float = 2.0
    probe_s: float = 0.5
    connect_s: float = 1.0


@dataclass(frozen=True, eq=False)
class _Frame:
    """Bytes for a rank, and where they belong."""

    step: int
    rank: int
    offset: int
    data: memoryview
    kind: int = DATA

    @property
    def header(self) -> bytes:
        return FRAME.pack(self.kind, self.step, self.rank, self.offset, len(self.data))


@dataclass(eq=False)
class _Sent:
    """A frame on its way: since when, and how many bytes of it count as over circuits."""

    frame: _Frame
    began_s: float
    charge: int


@dataclass(frozen=True)
class CircuitFrame:
    """A frame that went over a circuit, and when, by the clock of the machine."""

    way: Way
    began_s: float
    acknowledged_s: float
    size_bytes: int


class RankStream:
    """Frames from this rank to another, in order, over NICs that may change."""

    def __init__(self, streams: RankStreams, number: int, way: Way, peer: int) -> None:
        self._streams, self._number, self.way, self._peer = streams, number, way, peer
        self._queue: deque[_Frame] = deque()
        self._sent: deque[_Sent] = deque()
        self._is_new = threading.Condition()
        self._socket: socket.socket | None = None
        self._acknowledged = 0
        self._answer = bytearray()
        self._probed = -1
        self.is_mended = False
        self._is_closed = self._is_to_probe = False
        threading.Thread(target=self._run, daemon=True, name="lightloom-stream").start()

    @property
    def is_idle(self) -> bool:
        """Whether the other end has everything."""
        with self._is_new:
            return not (self._queue or self._sent)

    def put(self, frames: Iterable[_Frame]) -> None:
        """Send these frames after those that wait."""
        with self._is_new:
            self._queue.extend(frames)
            self._is_new.notify()

    def probe_ahead(self) -> None:
        """Probe the circuit as soon as it is there, before bytes wait for that."""
        with self._is_new:
            self._is_to_probe = self.way[0].sender.is_optical
            self._is_new.notify()

    def close(self) -> None:
        """Send nothing more."""
        with self._is_new:
            self._is_closed = True
            self._is_new.notify()
        if self._socket is not None:
            end(self._socket)

    def _run(self) -> None:
        while True:
            with self._is_new:
                self._is_new.wait_for(lambda: self._queue or self._is_closed or self._is_to_probe)
            if self._is_closed:
                break
            try:
                if self._is_to_probe:
                    self._is_to_probe = False
                    if self._socket is not None and self._streams.gate.state(self.way[0]) == "open":
                        self._has_entered(0)
                self._send_all()
            except OSError as error:
                if self._is_closed:
                    break
                broken = self.way
                self._streams.note_broken(broken)
                if not self._mend():
                    break
                self._streams.note_mended(broken, self._peer, error)
            except Exception as error:
                self._streams.fail(f"a stream failed: {error!r}")
                raise
        if self._socket is not None:
            cut(self._socket)

    def _send_all(self) -> None:
        """Send what waits, until the other end has it."""
        if self._socket is None and not self.way[0].sender.is_optical:
            self._open(self.way, NEW)
        while self._queue or self._sent:
            if self._queue and len(self._sent) < _WINDOW:
                self._begin(self._queue[0])
            if self._sent:
                self._read_counts(is_urgent=not self._queue or len(self._sent) >= _WINDOW)

    def _open(self, way: Way, purpose: int) -> None:
        taker = self._streams.taker(way, self._peer)
        greeting = Greeting(self._streams.rank, self._peer, purpose, self._number, way[1:])
        with self._streams.gate.crossing(way[0], self._streams.memory, 1):
            made, frames = self._streams.wires.connect(way, greeting, taker)
        made.settimeout(self._streams.limits.stall_s)
        self._socket, self._answer = made, bytearray()
        self._forget(frames)  # over the way of before
        self.way = way

    def _begin(self, frame: _Frame) -> None:
        """Send a frame, once its circuit is there; or give all that waits to packets."""
        size = len(frame.data)
        if not self._has_entered(size):
            with self._is_new:
                frames = list(self._queue)
                self._queue.clear()
            self._streams.send_otherwise(frames, self._peer)
            return
        with self._is_new:
            self._queue.popleft()
            self._sent.append(_Sent(frame, time.monotonic(), self._charge_of(size)))
        self._push(frame)

    def _charge_of(self, size: int) -> int:
        return size if self.way[0].sender.is_optical else 0

    def _has_entered(self, size: int) -> bool:
        """Wait for a circuit and count bytes as on their way over it; whether it is there."""
        gate, memory, hop = self._streams.gate, self._streams.memory, self.way[0]
        if not hop.sender.is_optical:
            return True
        deadline = time.monotonic() + _FENCE_S
        while (state := gate.state(hop)) != "dark" and time.monotonic() < deadline:
            changes = gate.changes
            if self._sent and (state == "fenced" or self._probed != changes):
                self._read_counts(is_urgent=True)
            elif state == "fenced":
                time.sleep(_LOOK_S)
            elif self._socket is None:
                self._open(self.way, NEW)
            else:
                charge = size if self._probed == changes else 1
                memory.add_over_circuits(hop.receiver.server, charge)
                # whoever closes the fence looks at the count after that
                is_open = gate.state(hop) == "open" and gate.changes == changes
                if is_open and self._probed == changes:
                    return True
                if is_open:
                    self._probe(changes)
                else:
                    memory.add_over_circuits(hop.receiver.server, -charge)
        return False

    def _probe(self, changes: int) -> None:
        """Send a frame of nothing and wait for its count; the circuit carries bytes then."""
        assert self._socket is not None, "a circuit is probed once it is connected"
        frame = _Frame(0, self._peer, 0, memoryview(b""), PROBE)
        with self._is_new:
            self._sent.append(_Sent(frame, time.monotonic(), 1))
        self._socket.settimeout(self._streams.limits.probe_s)
        self._push(frame)
        while self._sent:
            self._read_counts(is_urgent=True)
        self._socket.settimeout(self._streams.limits.stall_s)
        self._probed = changes

    def _push(self, frame: _Frame) -> None:
        """Send the bytes of a frame; fails if none of them moves for too long."""
        connection = self._socket
        if connection is None:
            raise ConnectionResetError("the connection was closed")
        rest = frame.data
        head = memoryview(frame.header)
        while head:
            count = connection.sendmsg([head, rest])
            rest = rest[max(0, count - len(head)) :]
            head = head[count:]
        while len(rest):
            rest = rest[connection.send(rest) :]

    def _read_counts(self, *, is_urgent: bool) -> None:
        """Read how many frames the other end has; wait for that if it is urgent."""
        connection = self._socket
        if connection is None or connection.fileno() < 0:
            raise ConnectionResetError("the connection was closed")
        if not is_urgent and not select.select([connection], [], [], 0)[0]:
            return
        data = connection.recv(1 << 12)
        if not data:
            raise ConnectionResetError("the connection was closed")
        self._answer += data
        whole = len(self._answer) // COUNT.size * COUNT.size
        if whole:
            (frames,) = COUNT.unpack(self._answer[whole - COUNT.size : whole])
            del self._answer[:whole]
            self._forget(frames)

    def _forget(self, frames: int) -> None:
        """Let go of frames that the other end has."""
        now_s = time.monotonic()
        while self._acknowledged < frames:
            self._acknowledged += 1
            with self._is_new:
                sent = self._sent.popleft()
            self._release(sent)
            self._streams.note_sent(self.way, sent.frame, sent.began_s, now_s)

    def _release(self, sent: _Sent) -> None:
        """Its bytes are no longer on their way over circuits."""
        if sent.charge:
            server = self.way[0].receiver.server
            self._streams.memory.add_over_circuits(server, -sent.charge)
            sent.charge = 0

    def _mend(self) -> bool:
        """Go on over other NICs from what the other end has; whether there are some."""
        if self._socket is not None:
            cut(self._socket)
            self._socket = None
        for sent in self._sent:
            self._release(sent)
        self.is_mended, self._probed = True, -1
        for way in self._streams.detours(self._peer):
            if self._is_closed:
                return False
            with contextlib.suppress(OSError):
                self._open(way, RESUMED)
                with self._is_new:
                    # a probe that was lost is in no count
                    lost = [sent.frame for sent in self._sent if sent.frame.kind == DATA]
                    self._queue.extendleft(reversed(lost))
                    self._sent.clear()
                return True
        self._streams.give_up(self._peer)
        return False


class RankStreams:
    """All streams of a rank.

    Parameters
    ----------
    rank, nics
        The rank, and the NICs of its job.
    wires, memory, gate, watch
        Of the rank and its server.
    limits
        How long streams wait.
    """

    def __init__(
        self,
        rank: int,
        nics: JobNics,
        *,
        wires: Wires,
        memory: ServerMemory,
        gate: Gate,
        watch: Watch,
        limits: StreamLimits,
    ) -> None:
        self.rank, self._nics = rank, nics
        self.wires, self.memory, self.gate, self.limits = wires, memory, gate, limits
        self._watch = watch
        self._server = rank // nics.ranks_per_server
        self._streams: dict[tuple[Way, int], RankStream] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._outstanding = 0
        self._broken: set[NicHop] = set()
        #: bytes over each NIC of the ways of this rank's streams, once acknowledged
        self.sent: Counter[tuple[NicPlace, str]] = Counter()
        #: frames over circuits, where they are recorded
        self.events: list[CircuitFrame] | None = None
        #: streams that went on over other NICs
        self.mended = 0
        #: called with a way that broke where the rank at its end answers over another, and why
        self.on_mended: Callable[[Way, int, OSError], None] = lambda _way, _peer, _error: None

    def send(
        self, way: Way, peer: int, *, step: int, rank: int, offset: int, data: memoryview
    ) -> None:
        """Send bytes for a rank, by way of the rank ``peer`` of its server.

        Parameters
        ----------
        way, peer
            From NIC to NIC, and who takes them at the end.
        step, rank, offset
            Where they belong.
        data
            They must not change before :meth:`flush`.
        """
        frames = [
            _Frame(step, rank, offset + at, data[at : at + FRAME_BYTES])
            for at in range(0, len(data), FRAME_BYTES)
        ]
        with self._lock:
            self._outstanding += len(frames)
        self._put(way, peer, frames)

    def send_otherwise(self, frames: list[_Frame], peer: int) -> None:
        """Send frames over packets whose circuit is not there."""
        way = next((way for way in self.detours(peer) if not way[0].sender.is_optical), None)
        way = next(self.detours(peer), None) if way is None else way
        if way is None:
            self.give_up(peer)
        else:
            self._put(way, peer, frames)

    def _put(self, way: Way, peer: int, frames: list[_Frame]) -> None:
        with self._lock:
            if any(hop in self._broken for hop in way):
                way = next(self.detours(peer), way)
            stream = self._streams.get((way, peer))
            if stream is not None and stream.is_mended and stream.is_idle:
                stream.close()
                stream = None
            if stream is None:
                stream = RankStream(self, next(self._numbers), way, peer)
                self._streams[way, peer] = stream
            stream.put(frames)

    def flush(self) -> None:
        """Wait until the other ends have everything.

        Raises
        ------
        RankError
            If that takes too long, or a rank is gone.
        """
        self._watch.until(
            lambda: self._outstanding == 0,
            lambda: f"{self._outstanding} frames were not acknowledged",
        )

    def all(self) -> list[RankStream]:
        """The streams that there are."""
        with self._lock:
            return list(self._streams.values())

    def probe_ahead(self) -> None:
        """Probe circuits that there are since the latest decision."""
        for stream in self.all():
            stream.probe_ahead()

    def close(self) -> None:
        """Send nothing more."""
        for stream in self.all():
            stream.close()

    def taker(self, way: Way, peer: int) -> int:
        """Who takes the connection at the end of the first hop."""
        return peer if len(way) == 1 else self._nics.delegate(way[0].receiver)

    @property
    def broken(self) -> frozenset[NicHop]:
        """Hops over which a stream broke."""
        return frozenset(self._broken)

    def note_broken(self, way: Way) -> None:
        """A stream broke: nothing takes its hops, in either direction, while there are others."""
        with self._lock:
            for hop in way:
                self._broken |= {hop, NicHop(hop.receiver, hop.sender)}

    def note_mended(self, way: Way, peer: int, error: OSError) -> None:
        """A stream that broke goes on over other NICs."""
        self.mended += 1
        self.on_mended(way, peer, error)

    def works(self, way: Way, peer: int) -> bool | None:
        """Whether a way that broke works again, which is noted; None if it cannot be asked now."""
        answers: bool | None = False
        try:
            self._ask(way, peer, PING, b"")
            answers = True
        except DarkError:
            answers = None  # circuits have changed, and it may be another one next time
        except OSError:
            pass
        if answers is not False:
            with self._lock:
                for hop in way:
                    self._broken -= {hop, NicHop(hop.receiver, hop.sender)}
        return answers

    def note_sent(self, way: Way, frame: _Frame, began_s: float, now_s: float) -> None:
        """The other end has a frame."""
        if frame.kind != DATA:
            return
        with self._lock:
            for hop in way:
                self.sent[hop.sender, "sent"] += len(frame.data)
                self.sent[hop.receiver, "received"] += len(frame.data)
            if self.events is not None and way[0].sender.is_optical:
                self.events.append(CircuitFrame(way, began_s, now_s, len(frame.data)))
            self._outstanding -= 1
            is_last = self._outstanding == 0
        if is_last:
            self._watch.notify()

    def detours(self, peer: int) -> Iterator[Way]:
        """Ways to a rank, best first: packets, circuits, through a third server; broken ones last.

        Over circuits alone that are there and behind no fence.
        """
        server = peer // self._nics.ranks_per_server
        ways = [(hop,) for hop in self._direct(self._server, server)]
        for other in range(self._nics.servers):
            if other not in (self._server, server):
                ways += [
                    (first, second)
                    for first in self._direct(self._server, other)
                    for second in self._direct(other, server)
                ]
        return iter(sorted(ways, key=lambda way: any(hop in self._broken for hop in way)))

    def _direct(self, source: int, destination: int) -> Iterator[NicHop]:
        yield from self._nics.packet_hops(source, destination)
        for a, i, b, j in sorted(self.gate.circuits()):
            ends = NicPlace(a, True, i), NicPlace(b, True, j)
            for hop in (NicHop(*ends), NicHop(*ends[::-1])):
                is_right = (hop.sender.server, hop.receiver.server) == (source, destination)
                if is_right:
                    yield hop

    def fail(self, reason: str) -> None:
        """The job cannot go on."""
        self._watch.on_failure(reason)

    def give_up(self, peer: int) -> None:
        """No way leads to a rank any more."""
        self.fail(f"rank {peer} does not answer")

    def answers(self, peer: int) -> bool:
        """Whether a rank of another server answers over any way."""
        for way in itertools.islice(self.detours(peer), 4):
            with contextlib.suppress(OSError):
                self._ask(way, peer, PING, b"")
                return True
        return False

    def stop(self, peer: int, reason: str) -> bool:
        """Tell a rank of another server why the job stops; whether it took that."""
        for way in itertools.islice(self.detours(peer), 2):
            with contextlib.suppress(OSError):
                self._ask(way, peer, STOP, reason.encode())
                return True
        return False

    def _ask(self, way: Way, peer: int, purpose: int, body: bytes) -> None:
        greeting = Greeting(self.rank, peer, purpose, 0, way[1:])
        with self.gate.crossing(way[0], self.memory, 1):
            made, _ = self.wires.connect(way, greeting, self.taker(way, peer))
            with made:
                made.sendall(body)
