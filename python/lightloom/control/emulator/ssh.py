"""An SSH server for the services that run inside SSH."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from lightloom.control.drivers.options import optional_import
from lightloom.control.emulator.device import CUTTING, EmulatedSwitch

Handler = Callable[[Any], Awaitable[int]]


class SshService:
    """Serves sessions of SSH; every start makes a new host key.

    Parameters
    ----------
    switch
        Whose users may log in.
    handle
        Serves one session, given asyncssh's process, and returns its exit status.
    subsystem
        The subsystem that clients request; empty for shells and commands.
    """

    def __init__(self, switch: EmulatedSwitch, handle: Handler, subsystem: str = "") -> None:
        self._asyncssh = optional_import("asyncssh", "the emulator's SSH")
        self._switch = switch
        self._handle = handle
        self._subsystem = subsystem
        self._key = self._asyncssh.generate_private_key("ssh-ed25519")
        self._listener: Any = None
        self._sessions: set[asyncio.Task[None]] = set()
        self._connections: set[Any] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port."""
        self._listener = await self._asyncssh.listen(
            host,
            port,
            server_host_keys=[self._key],
            server_factory=self._server,
            process_factory=self._serve,
            encoding=None,
            config=None,
        )
        return int(self._listener.sockets[0].getsockname()[1])

    def known_host(self, host: str, port: int) -> str:
        """Return the line of a ``known_hosts`` file by which clients accept the key."""
        public = self._key.export_public_key().decode().strip()
        return f"[{host}]:{port} {public}\n"

    def _server(self) -> Any:
        service = self
        base: Any = self._asyncssh.SSHServer

        class Server(base):  # type: ignore[misc]
            """Accepts the users of the switch by password."""

            def connection_made(self, conn: Any) -> None:
                """Keep the connection, to drop it when the service is closed."""
                service._connections.add(conn)
                self._connection = conn

            def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
                """Forget the connection."""
                service._connections.discard(self._connection)

            def begin_auth(self, username: str) -> bool:  # noqa: ARG002
                """Require a password of everyone."""
                return True

            def password_auth_supported(self) -> bool:
                """Accept passwords."""
                return True

            def validate_password(self, username: str, password: str) -> bool:
                """Compare the password."""
                return service._switch.is_user(username, password)

        return Server()

    async def _serve(self, process: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._sessions.add(task)
        try:
            is_served = (process.subsystem or "") == self._subsystem
            process.exit(await self._handle(process) if is_served else 1)
        except (*CUTTING, self._asyncssh.Error):
            process.channel.get_connection().abort()
        finally:
            self._sessions.discard(task)

    async def close(self) -> None:
        """Stop listening and drop all connections."""
        for task in tuple(self._sessions):
            task.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        connections = tuple(self._connections)
        for connection in connections:
            connection.abort()
        for connection in connections:
            with contextlib.suppress(OSError):
                await connection.wait_closed()
