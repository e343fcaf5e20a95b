"""An event loop whose time passes only in waits, and a TCP network in its memory.

What runs in it, drivers and emulators, opens and accepts connections by asyncio as it always does.
Bytes take time and come in pieces; connections are refused, cut before a command, between it and
its reply and within the reply, or go dead without notice; replies come late or never. All of that
is drawn from one generator, so that a seed replays it byte by byte.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import selectors
import socket
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

#: seconds that bytes, and a request for a connection, are under way
_DELAY_S = (0.0002, 0.0015)
#: seconds by which a command may arrive after its connection was cut, and a reply be late
_LATE_S, _STALL_S = (0.0, 0.03), (0.1, 1.0)
#: seconds that a turn of the event loop takes, and most turns without a wait
TURN_S, MAX_TURNS = 1e-7, 20_000


class LinkFault(StrEnum):
    """What goes wrong with a command and its reply."""

    CUT_BEFORE = "cut before the command"
    CUT_AFTER = "cut after the command"
    CUT_LATE = "cut, and the command arrives later"
    CUT_WITHIN = "cut within the reply"
    STALL = "reply comes late"
    LOST = "reply never comes"
    HALF_OPEN = "half open"
    BYTES = "reply comes byte by byte"


class _Idle(selectors.SelectSelector):
    """Nothing is ever waited for: the clock is set forward instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._turns = 0

    def select(self, timeout=None):
        assert timeout is not None, "every task waits for another"
        self._turns = 0 if timeout > TURN_S else self._turns + 1
        assert self._turns < MAX_TURNS, "the tasks go round in circles, and no time passes"
        self.now += max(timeout, TURN_S)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock and a network of its own."""

    def __init__(self) -> None:
        self._idle = _Idle()
        super().__init__(self._idle)
        self.network: SimulatedNetwork | None = None

    def time(self) -> float:
        return self._idle.now

    async def create_server(self, protocol_factory, host=None, _port=None, **_):
        return self.network.listen(protocol_factory, host)

    def remove_reader(self, fd):
        """Nobody looks at a listener any more."""
        fd.close()
        return True

    async def create_connection(self, protocol_factory, _host=None, port=None, **_):
        return await self.network.connect(protocol_factory, port)


@dataclass
class _Listener:
    """What accepts connections at a port; the server of asyncio, and its socket."""

    factory: Callable[[], asyncio.BaseProtocol]
    name: tuple[str, int]
    #: when it answers again, if it is silent
    silent_until: float = 0.0

    @property
    def sockets(self) -> list[_Listener]:
        return [self]

    def getsockname(self) -> tuple[str, int]:
        return self.name

    def close(self) -> None:
        self.silent_until = math.inf


@dataclass
class SimulatedNetwork:
    """Connections from clients that may end at any moment to services that listen.

    Attributes
    ----------
    fault_rate
        Chance of a fault in a command.
    on_send
        Called before and after each write of a client; what it raises, the client raises.
    """

    loop: SimulatedLoop
    rng: random.Random
    fault_rate: float = 0.0
    on_send: Callable[[], None] = lambda: None
    counts: Counter[str] = field(default_factory=Counter)
    listeners: dict[int, _Listener] = field(default_factory=dict)
    clients: list[_End] = field(default_factory=list)

    def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str) -> _Listener:
        port = 1024 + len(self.listeners)
        self.listeners[port] = listener = _Listener(factory, (host, port))
        return listener

    def delay_s(self) -> float:
        return self.rng.uniform(*_DELAY_S)

    async def connect(self, factory: Callable[[], asyncio.BaseProtocol], port: int):
        listener = self.listeners[port]
        await asyncio.sleep(self.delay_s())
        if (silent_s := listener.silent_until - self.loop.time()) > 0:
            if self.rng.random() < 0.3:
                raise ConnectionRefusedError(111, "connection refused")
            await asyncio.sleep(min(silent_s, 1e6))
        if self.rng.random() < self.fault_rate:
            self.counts["link: refused"] += 1
            raise ConnectionRefusedError(111, "connection refused")
        client, server = _End(self, listener), _End(self, listener)
        client.peer, server.peer, client.is_client = server, client, True
        for end, protocol in ((server, listener.factory()), (client, factory())):
            end.protocol = protocol
            protocol.connection_made(end)
        self.clients = [end for end in self.clients if not end.is_over]
        self.clients.append(client)
        return client, client.protocol

    def cut_clients(self) -> None:
        """All processes that have connected end; what they have sent still arrives."""
        for client in self.clients:
            client.abort()

    def silence(self, port: int, until: float) -> None:
        """Nothing reaches a service, or comes from it, for a while."""
        self.listeners[port].silent_until = until


class _Options:
    """Options of a socket, and something to poll: readable once its connection is over."""

    family = socket.AF_UNIX

    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name
        self.dead_s = math.inf
        self._is_over = False
        self._pipe: tuple[int, ...] = ()

    def setsockopt(self, _level: int, option: int, value: int) -> None:
        if option == socket.TCP_USER_TIMEOUT:
            self.dead_s = value / 1000

    def getpeername(self) -> tuple[str, int]:
        return self._name

    def fileno(self) -> int:
        if not self._pipe and not self._is_over:
            self._pipe = os.pipe()
        return self._pipe[0] if self._pipe else -1

    def end(self) -> None:
        self._is_over = True
        while self._pipe:
            os.close(self._pipe[0])
            self._pipe = self._pipe[1:]


class _End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: SimulatedNetwork, listener: _Listener) -> None:
        super().__init__({"socket": _Options(listener.name)})
        self.network, self.listener = network, listener
        self.peer: _End
        self.protocol: asyncio.BaseProtocol
        self.is_client = self.is_over = self._is_closing = False
        #: what becomes of the reply to the latest command
        self.reply_fault: LinkFault | None = None
        self.dead_from = math.inf
        self._last_s = 0.0
        self._under_way: deque[tuple[bytes, bool]] = deque()

    @property
    def _now(self) -> float:
        return self.network.loop.time()

    # what protocols use

    def is_closing(self) -> bool:
        return self._is_closing

    def set_write_buffer_limits(self, high=None, low=None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        if self._is_closing or not data:
            return
        if self.is_client:
            self.network.on_send()
            self._command(bytes(data))
            self.network.on_send()
        else:
            self._reply(bytes(data))

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    # what becomes of what they write

    def _command(self, data: bytes) -> None:
        network, rng, fault = self.network, self.network.rng, None
        if rng.random() < network.fault_rate:
            fault = rng.choice(list(LinkFault))
            network.counts[f"link: {fault}"] += 1
        if fault is LinkFault.HALF_OPEN:
            self.dead_from = self.peer.dead_from = self._now
        if fault is LinkFault.CUT_BEFORE:
            self._cut()
            return
        self.peer.reply_fault = fault
        if fault is LinkFault.CUT_LATE:
            peer = self.peer
            network.loop.call_later(
                rng.uniform(*_LATE_S), lambda: peer.protocol.data_received(data)
            )
            network.loop.call_later(_LATE_S[1], lambda: peer._end(None))
            self._end(ConnectionResetError(104, "connection reset by peer"))
            return
        self._send(data)

    def _reply(self, data: bytes) -> None:
        rng = self.network.rng
        match self.reply_fault:
            case LinkFault.CUT_AFTER:
                self._cut()
            case LinkFault.CUT_WITHIN:
                self._send(data[: rng.randrange(len(data))])
                self.network.loop.call_at(self._last_s, self._cut)
            case LinkFault.LOST:
                pass
            case LinkFault.STALL:
                self.reply_fault = None
                self._last_s = self._now + rng.uniform(*_STALL_S)
                self._send(data)
            case LinkFault.BYTES:
                for index in range(len(data)):
                    self._send(data[index : index + 1], least_s=0.0)
            case _:
                points = sorted(rng.randrange(len(data)) for _ in range(rng.randrange(3)))
                for start, end in zip([0, *points], [*points, len(data)], strict=True):
                    self._send(data[start:end])

    def _send(self, data: bytes, least_s: float | None = None) -> None:
        """Let bytes arrive after those before them, unless the link is dead or silent."""
        delay_s = self.network.delay_s() if least_s is None else least_s
        arrives = max(self._now + delay_s, self._last_s)
        loop, held_until = self.network.loop, self.listener.silent_until
        if self.dead_from <= self._now:
            held_until = math.inf
        is_held = held_until > arrives
        self._last_s = max(arrives, held_until)
        dead_at = self._now + self.get_extra_info("socket").dead_s
        if is_held and dead_at < held_until:
            error = TimeoutError(110, "connection timed out")
            loop.call_at(dead_at, lambda: self._end(error))
        if self._last_s < math.inf and data:
            self._under_way.append((data, is_held))
            loop.call_at(self._last_s, self._arrive)

    def _arrive(self) -> None:
        """Hand bytes to the other end; what a silent network held is dropped with its sender."""
        data, was_held = self._under_way.popleft()
        if not self.peer.is_over and not (was_held and self._is_closing):
            self.peer.protocol.data_received(data)

    def _cut(self) -> None:
        """Cut the connection: both ends notice it at once, and what is under way is lost."""
        error = ConnectionResetError(104, "connection reset by peer")
        self._end(error)
        self.peer._end(error)

    def _end(self, error: Exception | None) -> None:
        """Be over; the other end notices it later, if it is reached."""
        if self._is_closing:
            return
        self._is_closing = True
        self.network.loop.call_soon(self._over, error)
        if self.dead_from > self._now:
            notices = max(self._now + self.network.delay_s(), self._last_s)
            if notices < math.inf:
                self.network.loop.call_at(notices, self.peer._end, None)

    def _over(self, error: Exception | None) -> None:
        self.is_over = True
        self.get_extra_info("socket").end()
        self.protocol.connection_lost(error)
