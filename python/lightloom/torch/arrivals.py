"""What a rank receives: connections of other servers, whose frames it puts where they belong.

Bytes go from the socket into the receiving segment of the rank that they are for, whichever rank of
the server takes them. A frame counts once all of it has come; the sender learns the count. When a
stream goes on over another connection the old one ends first, so nothing counts twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import selectors
import socket
import struct
import termios
import threading
import time
from collections import Counter
from collections.abc import Callable

from lightloom.schedule.carrying import NicHop, NicPlace
from lightloom.torch.agreement import RankError
from lightloom.torch.gate import Gate
from lightloom.torch.server_memory import ServerMemory
from lightloom.torch.waiting import Watch
from lightloom.torch.wires import (
    COUNT,
    DATA,
    FRAME,
    PING,
    RESUMED,
    STOP,
    Greeting,
    Wires,
    cut,
    end,
    receive_whole,
)

#: seconds that the first words of a connection may take
_GREETING_S = 5.0
#: bytes that a relay takes in before it passes them on
_RELAY_BYTES = 1 << 18
#: seconds that a relay waits for a circuit, and between looks at what the kernel still holds
_FENCE_S, _LOOK_S = 5.0, 0.0005
#: counts go ahead of rows that leave by the same NIC (socket(7): as interactive traffic)
_PRIORITY = 6
#: most bytes of why a job stops
_REASON_BYTES = 1 << 12


class _Stream:
    """How much of a stream has come, and over which connection."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.frames = 0
        self.connection: socket.socket | None = None
        self.ended = threading.Event()
        self.ended.set()


class Arrivals:
    """Takes connections of a rank, each in a thread of its own.

    Parameters
    ----------
    wires, memory, gate, watch
        Of the rank and its server.
    taker
        Returns the rank that takes connections at a NIC.
    """

    def __init__(
        self,
        wires: Wires,
        memory: ServerMemory,
        gate: Gate,
        watch: Watch,
        taker: Callable[[NicPlace], int],
    ) -> None:
        self._wires, self._memory, self._watch, self._taker = wires, memory, watch, taker
        self._gate = gate
        self.listeners = wires.listen()
        self._streams: dict[tuple[int, int], _Stream] = {}
        self._connections: dict[socket.socket, NicPlace] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        #: bytes that came by each NIC of this rank's server
        self.received: Counter[NicPlace] = Counter()
        #: called with why the job stops
        self.on_stop: Callable[[str], None] = lambda _reason: None
        self._selector = selectors.DefaultSelector()
        for nic, listener in self.listeners.items():
            self._selector.register(listener, selectors.EVENT_READ, nic)
        threading.Thread(target=self._accept, daemon=True, name="lightloom-accept").start()

    def close(self) -> None:
        """Take no more, and end all connections."""
        self._closed.set()
        for listener in self.listeners.values():
            listener.close()
        for connection in self.connections():
            end(connection)

    def connections(self) -> list[socket.socket]:
        """Connections that others have made, or that pass their bytes on."""
        return list(self._connections)

    def lose(self, nic: NicPlace) -> None:
        """End what goes over a NIC and take nothing there, as if it had failed."""
        if (listener := self.listeners.pop(nic, None)) is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(listener)
            listener.close()
        for connection, place in list(self._connections.items()):
            if place == nic:
                end(connection)

    def _accept(self) -> None:
        while not self._closed.is_set():
            for key, _ in self._selector.select(timeout=0.5):
                try:
                    connection, _ = key.fileobj.accept()  # type: ignore[union-attr]
                except OSError:
                    continue
                self._connections[connection] = key.data
                threading.Thread(
                    target=self._serve, args=(connection, key.data), daemon=True
                ).start()
        self._selector.close()

    def _serve(self, connection: socket.socket, nic: NicPlace) -> None:
        with contextlib.suppress(OSError, RankError):
            connection.settimeout(_GREETING_S)
            greeting = self._wires.greeting(connection)
            if greeting is not None:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with contextlib.suppress(OSError):
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, _PRIORITY)
                self._do(connection, nic, greeting)
        self._connections.pop(connection, None)
        connection.close()

    def _do(self, connection: socket.socket, nic: NicPlace, greeting: Greeting) -> None:
        """What the greeting asks for."""
        if greeting.hops:
            self._relay(connection, greeting)
        elif greeting.purpose == PING:
            connection.sendall(COUNT.pack(0))
        elif greeting.purpose == STOP:
            connection.sendall(COUNT.pack(0))
            connection.shutdown(socket.SHUT_WR)
            reason = b""
            while len(reason) < _REASON_BYTES and (more := connection.recv(_REASON_BYTES)):
                reason += more
            self.on_stop(reason.decode(errors="replace"))
        else:
            self._receive_stream(connection, nic, greeting)

    def _receive_stream(self, connection: socket.socket, nic: NicPlace, greeting: Greeting) -> None:
        with self._lock:
            key = greeting.sender, greeting.stream
            stream = self._streams.setdefault(key, _Stream())
        if greeting.purpose == RESUMED:
            with stream.lock:
                before, stream.connection = stream.connection, None
            if before is not None:
                end(before)
            if not stream.ended.wait(_GREETING_S):
                return
        with stream.lock:
            stream.connection = connection
            stream.ended.clear()
        try:
            connection.settimeout(None)
            connection.sendall(COUNT.pack(stream.frames))
            while self._receive_frame(connection, nic, stream):
                pass
        finally:
            stream.ended.set()

    def _receive_frame(self, connection: socket.socket, nic: NicPlace, stream: _Stream) -> bool:
        """Receive one frame; whether more may come over this connection."""
        header = bytearray(FRAME.size)
        receive_whole(connection, memoryview(header))
        kind, step, rank, offset, size = FRAME.unpack(header)
        is_counted = False
        if kind == DATA:
            place = self._memory.place(rank, step, offset, size)
            is_counted = place is not None
            receive_whole(connection, memoryview(bytearray(size)) if place is None else place)
        with stream.lock:
            if stream.connection is not connection:
                return False
            stream.frames += 1
            frames = stream.frames
            if is_counted:
                with self._lock:
                    self.received[nic] += size
                self._memory.arrived(rank, size)
        if is_counted:
            self._watch.notify()
        connection.sendall(COUNT.pack(frames))
        return True

    def _relay(self, connection: socket.socket, greeting: Greeting) -> None:
        """Pass bytes on in both directions until one end closes."""
        hop, *left = greeting.hops
        onward = greeting._replace(hops=tuple(left))
        taker = self._taker(hop.receiver) if left else greeting.receiver
        with self._gate.crossing(hop, self._memory, 1):
            further, frames = self._wires.connect((hop,), onward, taker)
        self._connections[further] = hop.sender
        try:
            connection.sendall(COUNT.pack(frames))
            connection.settimeout(None)
            further.settimeout(None)
            back = threading.Thread(target=_pump, args=(further, connection.sendall), daemon=True)
            back.start()
            _pump(connection, lambda data: self._pass_on(further, hop, data))
            end(further)
            back.join(_GREETING_S)
        finally:
            self._connections.pop(further, None)
            cut(further)
            end(connection)

    def _pass_on(self, further: socket.socket, hop: NicHop, data: memoryview) -> None:
        """Send bytes of another server; over a circuit once it is there, until all have come."""
        if not hop.sender.is_optical:
            further.sendall(data)
            return
        deadline = time.monotonic() + _FENCE_S
        while self._gate.state(hop) == "fenced" and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        with self._gate.crossing(hop, self._memory, len(data)):
            further.sendall(data)
            while _unsent(further):
                time.sleep(_LOOK_S)


def _pump(source: socket.socket, send: Callable[[memoryview], object]) -> None:
    """Pass on what comes until there is no more, or it cannot be passed on."""
    buffer = bytearray(_RELAY_BYTES)
    view = memoryview(buffer)
    with contextlib.suppress(OSError):
        while count := source.recv_into(buffer):
            send(view[:count])
    end(source)


def _unsent(connection: socket.socket) -> int:
    """Bytes that the other end has not acknowledged."""
    answer = fcntl.ioctl(connection, termios.TIOCOUTQ, struct.pack("i", 0))
    return int(struct.unpack("i", answer)[0])
