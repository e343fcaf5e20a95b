"""Streams of bytes to a switch: plain TCP, and a shell session of SSH."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass
from typing import Any, Protocol

from lightloom.control.drivers.options import optional_import
from lightloom.control.switch import (
    Credentials,
    LoginRefusedError,
    SwitchDisconnectedError,
    SwitchUnreachableError,
)

_READ_BYTES = 64 * 1024
#: how long the other end of a TCP connection may leave bytes unacknowledged before it is cut
_DEAD_LINK_S = 2.0


class ByteStream(Protocol):
    """Bytes in order, both directions."""

    async def read(self) -> bytes:
        """Return what has arrived, nothing at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        ...

    def abort(self) -> None:
        """Drop the connection at once."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(slots=True)
class TcpStream:
    """A TCP connection; asyncio sets ``TCP_NODELAY``."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def read(self) -> bytes:
        """Return what has arrived, nothing at the end."""
        try:
            return await self.reader.read(_READ_BYTES)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except OSError as error:
            raise SwitchDisconnectedError("the connection to the switch is cut") from error

    def abort(self) -> None:
        """Drop the connection at once."""
        self.writer.transport.abort()

    async def close(self) -> None:
        """Close the connection."""
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


async def open_tcp(host: str, port: int, timeout_s: float) -> TcpStream:
    """Connect by TCP.

    Raises
    ------
    SwitchUnreachableError
        If the switch does not accept the connection in time.
    """
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        raise unreachable(host, port, f"no connection within {timeout_s:g} s") from None
    except OSError as error:
        raise unreachable(host, port, error.strerror or str(error)) from error
    cut_when_dead(writer.get_extra_info("socket"))
    return TcpStream(reader, writer)


def cut_when_dead(connection: socket.socket) -> None:
    """Let the system cut a connection whose other end is gone, long before a reply is overdue."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(_DEAD_LINK_S * 1000))


def unreachable(host: str, port: int, reason: str) -> SwitchUnreachableError:
    """Return the error of a switch that does not accept a connection."""
    return SwitchUnreachableError(
        f"switch {host}:{port}: {reason}; check the address and that the service is enabled"
    )


@dataclass(slots=True)
class SshStream:
    """A shell session of SSH without a terminal, so that nothing is echoed."""

    connection: Any
    process: Any
    errors: type[Exception]

    async def read(self) -> bytes:
        """Return what has arrived, nothing at the end."""
        try:
            data: bytes = await self.process.stdout.read(_READ_BYTES)
        except (OSError, self.errors):
            return b""
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        try:
            self.process.stdin.write(data)
            await self.process.stdin.drain()
        except (OSError, self.errors) as error:
            raise SwitchDisconnectedError("the connection to the switch is cut") from error

    def abort(self) -> None:
        """Drop the connection at once."""
        self.connection.abort()

    async def close(self) -> None:
        """Close the connection."""
        self.connection.close()
        await self.connection.wait_closed()


async def connect_ssh(
    address: tuple[str, int],
    credentials: Credentials,
    *,
    known_hosts: str | None,
    timeout_s: float,
) -> Any:
    """Connect and log in by SSH; return asyncssh's connection.

    Parameters
    ----------
    address
        Host and port.
    credentials
        User and password.
    known_hosts
        Path of the file with the accepted host keys; by default the user's.
    timeout_s
        Maximum time to connect and to log in.

    Raises
    ------
    SwitchUnreachableError
        If the switch does not accept the connection, or its host key is not known.
    LoginRefusedError
        If it refuses the user or the password.
    """
    asyncssh = optional_import("asyncssh", "SSH")
    host, port = address
    hosts = {} if known_hosts is None else {"known_hosts": known_hosts}
    try:
        return await asyncssh.connect(
            host,
            port,
            username=credentials.user,
            password=credentials.password,
            client_keys=None,
            agent_path=None,
            config=None,
            login_timeout=timeout_s,
            connect_timeout=timeout_s,
            **hosts,
        )
    except asyncssh.PermissionDenied:
        raise LoginRefusedError(f"switch {host}:{port}: SSH login refused") from None
    except asyncssh.HostKeyNotVerifiable:
        raise unreachable(host, port, "its SSH host key is not in known_hosts") from None
    except (TimeoutError, asyncssh.Error, OSError) as error:
        raise unreachable(host, port, f"no SSH connection ({error})") from error


async def open_ssh(
    address: tuple[str, int],
    credentials: Credentials,
    *,
    known_hosts: str | None,
    timeout_s: float,
) -> SshStream:
    """Connect by SSH and open a session; parameters and errors as for :func:`connect_ssh`."""
    connection = await connect_ssh(
        address, credentials, known_hosts=known_hosts, timeout_s=timeout_s
    )
    errors = optional_import("asyncssh", "SSH").Error
    try:
        process = await connection.create_process(encoding=None, term_type=None)
    except (OSError, errors) as error:
        connection.abort()
        raise unreachable(*address, f"no session of SSH ({error})") from None
    except BaseException:
        connection.abort()
        raise
    return SshStream(connection, process, errors)
