"""TL1 over TCP and over SSH."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from lightloom.control.emulator.device import EmulatedSwitch
from lightloom.control.emulator.ssh import SshService
from lightloom.control.emulator.tl1_server import Tl1Server


class TcpTl1Service:
    """Serves TL1 over TCP."""

    def __init__(self, server: Tl1Server) -> None:
        self._tl1 = server
        self._listener: asyncio.Server | None = None
        self._sessions: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port."""
        self._listener = await asyncio.start_server(self._accept, host, port)
        return int(self._listener.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._sessions.add(task)
        try:
            await self._tl1.serve(reader, writer, writer.transport.abort)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._sessions.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def close(self) -> None:
        """Stop listening and drop all connections."""
        if self._listener is not None:
            self._listener.close()
        for task in tuple(self._sessions):
            task.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)


def ssh_tl1_service(switch: EmulatedSwitch, server: Tl1Server) -> SshService:
    """Return the service of TL1 inside SSH; its users have logged in before the first command."""

    async def handle(process: Any) -> int:
        connection = process.channel.get_connection()
        user = process.get_extra_info("username")
        await server.serve(process.stdin, process.stdout, connection.abort, user)
        return 0

    return SshService(switch, handle)
