"""TL1 over TCP and over SSH."""

from __future__ import annotations

import asyncio
from typing import Any

from lightloom.control.emulator.device import EmulatedSwitch
from lightloom.control.emulator.ssh import SshService
from lightloom.control.emulator.tcp import TcpService
from lightloom.control.emulator.tl1_server import Tl1Server


class TcpTl1Service(TcpService):
    """Serves TL1 over TCP."""

    def __init__(self, server: Tl1Server) -> None:
        super().__init__()
        self._tl1 = server

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one session."""
        await self._tl1.serve(reader, writer, writer.transport.abort)


def ssh_tl1_service(switch: EmulatedSwitch, server: Tl1Server) -> SshService:
    """Return the service of TL1 inside SSH; its users have logged in before the first command."""

    async def handle(process: Any) -> int:
        connection = process.channel.get_connection()
        user = process.get_extra_info("username")
        await server.serve(process.stdin, process.stdout, connection.abort, user)
        return 0

    return SshService(switch, handle)
