"""The service of a region: demand in, circuits and delegates out.

It listens on a Unix socket or on TCP; beyond this machine only with TLS. The first frame of a
connection must hold a token: without it not a byte is sent. Members of the job may join: a change
that makes circuits of their servers dark waits until each has drained, or is given up.

Whatever a client sends or leaves out costs a bounded amount of memory and time. Every request gets
one answer, also one that is malformed or meets a fault of the service.

Requests are of :mod:`lightloom.control.wire`; their header has ``op`` and ``id``, the reply the
same ``id`` and ``ok``.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
import ssl
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from lightloom.control.connections import (
    HELLO_S,
    UnknownConnections,
    notice_silence,
    peer_of,
    stop_accepting,
    tcp_address,
)
from lightloom.control.members import ServiceMember
from lightloom.control.recording import Listener
from lightloom.control.refusals import RegionFileError, RequestError
from lightloom.control.region_file import ServeSection
from lightloom.control.session import RegionSession
from lightloom.control.token import ClientRole, ClientToken, TokenFile
from lightloom.control.wire import MAX_HEADER_BYTES, Frame, read_frame
from lightloom.errors import LightloomError, echo, printable
from lightloom.inputs.files import shown_path

_HELLO_BYTES = 1024
#: bytes that may wait in a connection before reading pauses
_BUFFER_BYTES = 1 << 18
#: connections that may wait to be accepted: a whole job connects at once
_BACKLOG = 1024
#: seconds between looks at the file of tokens
_TOKENS_S = 1.0
_MAX_ID = 200
_VERSION = 1


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
    tokens
        Those that clients have to show.
    notify
        Called with what happens apart from requests, for the log.
    """

    def __init__(
        self,
        session: RegionSession,
        settings: ServeSection,
        folder: Path,
        tokens: TokenFile,
        notify: Listener | None = None,
    ) -> None:
        self._session, self._settings, self._folder = session, settings, folder
        self._tokens, self._notify = tokens, notify or (lambda _name, _facts: None)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._unknown = UnknownConnections(settings.max_connections)
        #: connections that have shown a token
        self._admitted: dict[ServiceMember, ClientToken] = {}
        self._peers: Counter[str] = Counter()
        self._watching: asyncio.Task[None] | None = None
        self._inode = 0
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
        self._watching = asyncio.create_task(self._watch_tokens())
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
                backlog=_BACKLOG,
                **({} if tls is None else _TLS_TIMES),
            )
        except OSError as error:
            raise RegionFileError(
                f"serve: cannot listen on {self._settings.host}:{self._settings.port}: "
                f"{error.strerror or error}"
            ) from None
        port = self._server.sockets[0].getsockname()[1]
        self.address = tcp_address(self._settings.host, port)
        return self.address

    async def _listen_on_socket(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            if path.is_socket() and not await is_served(path):
                path.unlink()  # of a process that has ended
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(
                self._accept, path, limit=_BUFFER_BYTES, backlog=_BACKLOG
            )
            self._inode = path.stat().st_ino
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
            mode = (self._folder / key).stat().st_mode
        except OSError as error:
            name = shown_path(self._folder / certificate)
            raise RegionFileError(f"{name}: cannot use it for TLS: {error.strerror}") from None
        if mode & 0o007:
            name = shown_path(self._folder / key)
            raise RegionFileError(f"{name}: others may read the key; run chmod o= on it")
        return context

    async def close(self) -> None:
        """Stop listening; requests in progress are completed."""
        if self._server is not None:
            await stop_accepting(self._server)
        if self._watching is not None:
            self._watching.cancel()
        await self._session.finish()
        ending = tuple(self._open)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        if self.address.startswith("unix:"):
            path = Path(self.address.removeprefix("unix:"))
            with contextlib.suppress(OSError):
                if path.lstat().st_ino == self._inode:  # else of another service by now
                    path.unlink()

    async def _watch_tokens(self) -> None:
        """Look at the tokens again and again; who shows one that is gone is cut off."""
        problem = ""
        while True:
            await asyncio.sleep(_TOKENS_S)
            self._look_at_tokens()
            if self._tokens.problem != problem:
                problem = self._tokens.problem
                if problem:
                    self._notify("tokens-not-read", {"error": problem})

    def _look_at_tokens(self) -> None:
        if not self._tokens.refresh():
            return
        self._notify("tokens-read", {"clients": [token.name for token in self._tokens.tokens]})
        for member, token in list(self._admitted.items()):
            if token not in self._tokens.tokens:
                self._notify("token-withdrawn", {"member": member.number, "who": member.who})
                member.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        peer = peer_of(writer)
        self._open.add(task)
        for _ in range(self._unknown.add(task, peer)):
            self._session.count("refused-connection")
        try:
            await self._converse(reader, writer, peer)
        except (OSError, asyncio.CancelledError):
            pass
        except Exception as error:
            self._fault("connection", error)
        finally:
            self._unknown.remove(task)
            writer.close()
            with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(HELLO_S):
                    await writer.wait_closed()
            writer.transport.abort()  # what is still unread goes
            self._open.discard(task)

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str
    ) -> None:
        token = await self._admit(reader)
        task = asyncio.current_task()
        assert task is not None
        self._unknown.remove(task)
        if token is None:
            self._session.count("unauthorized")
            return
        notice_silence(writer)
        member = ServiceMember(writer, client=token.name, role=token.role, peer=peer)
        full = self._full(peer)
        if full:
            self._session.count("refused-connection")
            member.send({"ok": False, "id": 0, "error": full})
            return
        self._admitted[member] = token
        self._peers[peer] += 1
        self._session.enter(member)
        tasks: set[asyncio.Task[None]] = set()
        try:
            facts = {"version": _VERSION, "client": token.name, "role": str(token.role)}
            member.send({"ok": True, "id": 0, **facts, **self._session.description()})
            await self._serve(reader, member, tasks)
        finally:
            del self._admitted[member]
            self._peers[peer] -= 1
            self._session.leave(member)
            if tasks:
                await asyncio.wait(tasks)

    async def _serve(
        self, reader: asyncio.StreamReader, member: ServiceMember, tasks: set[asyncio.Task[None]]
    ) -> None:
        """Answer the requests of a connection until it ends."""
        while not member.is_closing:
            frame = await self._next(reader, member)
            if frame is None:
                return
            if frame.header.get("op") == "drained":
                self._drained(member, frame)
                continue
            task = asyncio.create_task(self._respond(member, frame))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            if len(tasks) > 1:
                # one request of a connection at a time; only fences overtake
                await asyncio.wait(tasks - {task})

    def _full(self, peer: str) -> str:
        """Why there is no room for another connection; empty if there is."""
        limit, peer_limit = self._settings.max_connections, self._settings.max_peer_connections
        if len(self._admitted) >= limit:
            return f"{self._session.name}: {limit} connections are open; see serve.max_connections"
        if self._settings.host is not None and self._peers[peer] >= peer_limit:
            return (
                f"{self._session.name}: {peer_limit} connections of {peer} are open; see "
                "serve.max_peer_connections"
            )
        return ""

    async def _admit(self, reader: asyncio.StreamReader) -> ClientToken | None:
        """Whose token the first frame holds, if it comes in time."""
        try:
            async with asyncio.timeout(min(self._settings.request_timeout_s, HELLO_S)):
                frame = await read_frame(reader, _HELLO_BYTES, 0)
        except (TimeoutError, LightloomError):
            return None
        if frame is None or frame.header.get("op") != "hello":
            return None
        self._look_at_tokens()
        return self._tokens.identify(frame.header.get("token"))

    async def _next(self, reader: asyncio.StreamReader, member: ServiceMember) -> Frame | None:
        try:
            return await read_frame(
                reader,
                MAX_HEADER_BYTES,
                self._session.max_body_bytes if member.role >= ClientRole.JOB else 0,
                self._settings.request_timeout_s,
            )
        except RequestError as error:
            # what follows cannot be told apart from the rest of it
            self._session.count("malformed")
            member.send({"ok": False, "id": None, "error": str(error)})
            return None

    def _drained(self, member: ServiceMember, frame: Frame) -> None:
        try:
            self._session.drained(member, frame)
        except RequestError as error:
            self._session.count("malformed")
            number = _number_of(frame)
            member.send({"ok": False, "id": number, "error": f"drained: {error}"})

    async def _respond(self, member: ServiceMember, frame: Frame) -> None:
        """Answer a request, whatever comes of it."""
        number = _number_of(frame)
        try:
            if number is None and frame.header.get("id") is not None:
                raise RequestError(
                    f"id {echo(frame.header['id'])}: expected a whole number, or a text of up to "
                    f"{_MAX_ID} characters"
                )
            reply = await self._session.handle(member, frame)
            member.send({"ok": True, "id": number, **reply})
        except LightloomError as error:
            self._session.count("refused")
            self._refuse(member, number, str(error))
        except Exception as error:
            self._fault("request", error)
            self._refuse(member, number, "internal error of the service; see its log")
        await self._flush(member)

    def _refuse(self, member: ServiceMember, number: int | str | None, error: str) -> None:
        try:
            facts = self._session.fallback()
        except Exception as problem:
            self._fault("fallback", problem)
            facts = {"state": "unknown", "circuits": []}
        member.send({"ok": False, "id": number, "error": printable(error), **facts})

    def _fault(self, place: str, error: Exception) -> None:
        """Note an error that is our own."""
        self._session.count("internal-error")
        trace = traceback.format_exception(error)
        self._notify("internal-error", {"place": place, "trace": "".join(trace)})

    async def _flush(self, member: ServiceMember) -> None:
        """Wait until a client has read most of its replies; cut it off if it does not."""
        try:
            async with asyncio.timeout(self._settings.request_timeout_s):
                assert member.writer is not None
                await member.writer.drain()
        except TimeoutError:
            self._session.count("slow-reader")
            member.abort()
        except OSError:
            pass


_TLS_TIMES: dict[str, Any] = {"ssl_handshake_timeout": HELLO_S, "ssl_shutdown_timeout": HELLO_S}


def _number_of(frame: Frame) -> int | str | None:
    """The ``id`` of a request; None if it has none that can be sent back."""
    number = frame.header.get("id")
    if isinstance(number, bool) or not isinstance(number, int | str):
        return None
    return None if isinstance(number, str) and len(number) > _MAX_ID else number


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


def is_free(host: str, port: int) -> bool:
    """Whether a service could listen at an address: it is this machine's, and nobody does."""
    try:
        for family, kind, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(address)
    except OSError:
        return False
    return True
