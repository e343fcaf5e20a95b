"""A TCP listener of an emulated switch: each connection is served by a task of its own."""

from __future__ import annotations

import asyncio
import contextlib

from lightloom.control.connections import stop_accepting
from lightloom.control.emulator.device import CUTTING
from lightloom.control.emulator.tls import Identity


class TcpService:
    """Listens, and cuts the connections that a subclass refuses to serve.

    Parameters
    ----------
    tls
        Certificate and key; by default the connections are plain.
    """

    def __init__(self, tls: Identity | None = None) -> None:
        self._tls = tls.context() if tls is not None else None
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side ends it; a subclass does.

        Raises
        ------
        CUTTING
            If it is to be cut.
        """
        raise NotImplementedError

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port."""
        self._listener = await asyncio.start_server(self._accept, host, port, ssl=self._tls)
        return int(self._listener.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening and drop all connections."""
        if self._listener is not None:
            await stop_accepting(self._listener)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self.serve(reader, writer)
        except CUTTING:
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
