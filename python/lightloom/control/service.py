"""The service of a region: demand in, circuits and delegates out.

It listens on a Unix socket or on TCP; beyond this machine only with TLS. The first frame of a
connection must hold the token: without it not a byte is sent. Members of the job may join: a change
that makes circuits of their servers dark waits until each has drained, or is given up.

Requests are of :mod:`lightloom.control.wire`; their header has ``op`` and ``id``, the reply the
same ``id`` and ``ok``.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from lightloom.control.refusals import RegionFileError, RequestError
from lightloom.control.region_file import ServeSection
from lightloom.control.session import RegionSession, ServiceMember
from lightloom.control.token import is_token
from lightloom.control.wire import MAX_HEADER_BYTES, Frame, read_frame
from lightloom.errors import LightloomError
from lightloom.inputs.files import shown_path

_HELLO_BYTES = 1024
#: bytes that may wait in a connection before reading pauses
_BUFFER_BYTES = 1 << 22
_VERSION = 1

Handler = Callable[[ServiceMember, Frame], Awaitable[dict[str, Any]]]


class ControlService:
    """Listens for a region.

    Parameters
    ----------
    session
        What handles requests.
    settings
        Where to listen, and bounds.
    folder
        What paths are relative to.
    token
        What clients have to show.
    """

    def __init__(
        self, session: RegionSession, settings: ServeSection, folder: Path, token: str
    ) -> None:
        self._session, self._settings, self._folder = session, settings, folder
        self._token = token
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        #: where clients reach it: ``unix:PATH`` or ``HOST:PORT``
        self.address = ""

    async def start(self) -> str:
        """Listen, and return the address.

        Raises
        ------
        RegionFileError
            If it may not or cannot listen there.
        """
        tls = self._tls()
        if self._settings.host is None:
            path = self._folder / (self._settings.socket or f"{self._session.name}.sock")
            await self._listen_on_socket(path)
            self.address = f"unix:{path}"
            return self.address
        if tls is None and not _is_loopback(self._settings.host):
            raise RegionFileError(
                f"serve.host {self._settings.host}: beyond this machine, tls_certificate and "
                "tls_key are needed"
            )
        try:
            self._server = await asyncio.start_server(
                self._accept,
                self._settings.host,
                self._settings.port,
                ssl=tls,
                limit=_BUFFER_BYTES,
            )
        except OSError as error:
            raise RegionFileError(
                f"serve: cannot listen on {self._settings.host}:{self._settings.port}: "
                f"{error.strerror or error}"
            ) from None
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"{self._settings.host}:{port}"
        return self.address

    async def _listen_on_socket(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            if path.is_socket() and not await is_served(path):
                path.unlink()  # of a process that has ended
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._accept, path, limit=_BUFFER_BYTES)
        except OSError as error:
            raise RegionFileError(
                f"serve: cannot listen on {shown_path(path)}: {error.strerror or error}"
            ) from None
        finally:
            os.umask(mask)

    def _tls(self) -> ssl.SSLContext | None:
        certificate, key = self._settings.tls_certificate, self._settings.tls_key
        if certificate is None and key is None:
            return None
        if certificate is None or key is None:
            raise RegionFileError("serve: tls_certificate and tls_key belong together")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self._folder / certificate, self._folder / key)
        except OSError as error:
            name = shown_path(self._folder / certificate)
            raise RegionFileError(f"{name}: cannot use it for TLS: {error.strerror}") from None
        return context

    async def close(self) -> None:
        """Stop listening; requests in progress are completed."""
        if self._server is not None:
            self._server.close()
        await self._session.finish()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        if self.address.startswith("unix:"):
            Path(self.address.removeprefix("unix:")).unlink(missing_ok=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= self._settings.max_connections:
            self._session.count("refused-connection")
            writer.close()
            return
        self._open.add(task)
        try:
            await self._converse(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, OSError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not await self._is_admitted(reader):
            self._session.count("unauthorized")
            return
        member = ServiceMember(writer)
        member.send({"ok": True, "id": 0, "version": _VERSION, **self._session.description()})
        tasks: set[asyncio.Task[None]] = set()
        try:
            while True:
                frame = await self._next(reader, member)
                if frame is None:
                    return
                if frame.header.get("op") == "drained":
                    self._session.drained(member, frame.header.get("fence"))
                    continue
                task = asyncio.create_task(self._respond(member, frame))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                if len(tasks) > 1:
                    # one request of a connection at a time; only fences overtake
                    await asyncio.wait(tasks - {task})
        finally:
            self._session.leave(member)
            if tasks:
                await asyncio.wait(tasks)

    async def _is_admitted(self, reader: asyncio.StreamReader) -> bool:
        """Whether the first frame comes in time and holds the token."""
        try:
            async with asyncio.timeout(self._settings.request_timeout_s):
                frame = await read_frame(reader, _HELLO_BYTES, 0)
        except (TimeoutError, LightloomError):
            return False
        if frame is None or frame.header.get("op") != "hello":
            return False
        return is_token(frame.header.get("token"), self._token)

    async def _next(self, reader: asyncio.StreamReader, member: ServiceMember) -> Frame | None:
        try:
            return await read_frame(
                reader,
                MAX_HEADER_BYTES,
                self._session.max_body_bytes,
                self._settings.request_timeout_s,
            )
        except RequestError as error:
            # what follows cannot be told apart from the rest of it
            self._session.count("malformed")
            member.send({"ok": False, "id": None, "error": str(error)})
            return None

    async def _respond(self, member: ServiceMember, frame: Frame) -> None:
        number = frame.header.get("id")
        try:
            reply = await self._session.handle(member, frame)
            member.send({"ok": True, "id": number, **reply})
        except LightloomError as error:
            self._session.count("refused")
            facts = self._session.fallback()
            member.send({"ok": False, "id": number, "error": str(error), **facts})


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def is_served(path: Path) -> bool:
    """Whether a process listens on a socket."""
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    return True
