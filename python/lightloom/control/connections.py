"""Connections that have not shown a token yet, where connections come from, and how they end.

A connection without a token costs little and lives briefly: beyond a number of them the oldest one
of the peer that has most of them goes, so that idle ones lock nobody out.
"""

from __future__ import annotations

import asyncio
import contextlib
import pwd
import socket
import struct
import time
from collections import Counter

#: seconds in which the token must be there
HELLO_S = 2.0
#: connections without a token that may stay for all that time
_FEW = 32
#: seconds that each of more than these has, so that a whole job may connect at once
_GRACE_S = 0.25
_CREDENTIALS = struct.Struct("3i")
_KEEPALIVE_S, _PROBES = 30, 3
#: turns of the event loop from accepting a connection to serving it, and some to spare
_ACCEPT_TURNS = 8


class UnknownConnections:
    """The connections that have not shown a token yet, oldest first.

    Parameters
    ----------
    limit
        How many there may be at all.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[asyncio.Task[None], tuple[str, float]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, task: asyncio.Task[None], peer: str) -> int:
        """Add a connection, and cancel as many old ones as are too many; return how many."""
        now = time.monotonic()
        self._open[task] = (peer, now)
        count = 0
        while len(self._open) > _FEW:
            oldest = self._oldest()
            is_young = now - self._open[oldest][1] < _GRACE_S
            if is_young and len(self._open) <= self._limit:
                break
            del self._open[oldest]
            oldest.cancel()
            count += 1
        return count

    def remove(self, task: asyncio.Task[None]) -> None:
        """Forget a connection that has shown its token, or has ended."""
        self._open.pop(task, None)

    def _oldest(self) -> asyncio.Task[None]:
        """The oldest connection of the peer that has most."""
        numbers = Counter(peer for peer, _ in self._open.values())
        busiest = max(numbers, key=numbers.__getitem__)
        return next(task for task, (peer, _) in self._open.items() if peer == busiest)


def peer_of(writer: asyncio.StreamWriter) -> str:
    """Return where a connection comes from: the user of a Unix socket, or an address."""
    connection = writer.get_extra_info("socket")
    if connection is None or connection.family != socket.AF_UNIX:
        address = writer.get_extra_info("peername")
        return str(address[0]) if isinstance(address, tuple) else "unknown"
    credentials = getattr(socket, "SO_PEERCRED", None)
    if credentials is None:
        return "local user"
    content = connection.getsockopt(socket.SOL_SOCKET, credentials, _CREDENTIALS.size)
    return user_name(_CREDENTIALS.unpack(content)[1])


def user_name(number: int) -> str:
    """Return the name of a user of this machine; ``user 1000`` where nobody knows it."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def notice_silence(writer: asyncio.StreamWriter) -> None:
    """Have the connections of TCP probed, so that those of a dead peer end."""
    connection = writer.get_extra_info("socket")
    if connection is None or connection.family == socket.AF_UNIX:
        return
    with contextlib.suppress(OSError, AttributeError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_S // _PROBES)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)


async def stop_accepting(server: asyncio.Server) -> None:
    """Stop listening; every connection that was accepted is being served afterwards.

    What serves a connection also closes it. asyncio loses one that was accepted a moment before the
    server is closed, and its socket stays open.
    """
    loop = asyncio.get_running_loop()
    for listener in server.sockets:
        loop.remove_reader(listener)
    for _ in range(_ACCEPT_TURNS):
        await asyncio.sleep(0)
    server.close()


def tcp_address(host: str, port: int) -> str:
    """Return ``HOST:PORT``, and ``[HOST]:PORT`` of IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
