"""A small HTTP/1.1 server for the emulator, with or without TLS."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lightloom.control.drivers.options import optional_import
from lightloom.control.emulator.device import (
    EmulatedSession,
    EmulatedSwitch,
    NoReplyError,
    SessionCutError,
)
from lightloom.control.emulator.tcp import TcpService
from lightloom.control.emulator.tls import Identity

MAX_BODY_BYTES = 1024 * 1024
_READ_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One response."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpApplication:
    """What a server does with requests; a subclass handles them."""

    def is_change(self, request: HttpRequest) -> bool:
        """Whether a request creates or deletes circuits."""
        raise NotImplementedError

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request of a user who is logged in."""
        raise NotImplementedError

    def refuse(self, status: int, text: str) -> HttpResponse:
        """Return the response that refuses a request."""
        raise NotImplementedError


class HttpService(TcpService):
    """Serves an application over HTTP.

    Parameters
    ----------
    switch
        Whose users, sessions and faults apply.
    application
        Handles the requests.
    tls
        Certificate and key, for HTTPS.
    """

    def __init__(
        self,
        switch: EmulatedSwitch,
        application: HttpApplication,
        tls: Identity | None = None,
    ) -> None:
        super().__init__(tls)
        self._h11 = optional_import("h11", "the emulator's RESTCONF")
        self._switch = switch
        self._application = application

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve requests of one connection, one after the other."""
        with self._switch.admitted(EmulatedSession(writer.transport.abort)):
            try:
                await self._serve(reader, writer)
            except self._h11.RemoteProtocolError:
                raise SessionCutError from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = self._h11.Connection(self._h11.SERVER)
        while (request := await self._request(connection, reader)) is not None:
            try:
                response, in_pieces = await self._respond(request)
            except NoReplyError:
                await reader.read()
                return
            headers = {"content-length": str(len(response.body)), **response.headers}
            message = connection.send(
                self._h11.Response(status_code=response.status, headers=list(headers.items()))
            )
            message += connection.send(self._h11.Data(response.body))
            message += connection.send(self._h11.EndOfMessage())
            size = 1 if in_pieces else max(len(message), 1)
            for start in range(0, len(message), size):
                writer.write(message[start : start + size])
                await writer.drain()
            if connection.our_state is self._h11.MUST_CLOSE:
                return
            connection.start_next_cycle()

    async def _request(self, connection: Any, reader: asyncio.StreamReader) -> HttpRequest | None:
        """Return the next request, None at the end of the connection."""
        head: Any = None
        body = bytearray()
        limit_s = self._switch.idle_close_s or None
        while True:
            event = connection.next_event()
            if event is self._h11.NEED_DATA:
                connection.receive_data(await asyncio.wait_for(reader.read(_READ_BYTES), limit_s))
            elif isinstance(event, self._h11.Request):
                head = event
            elif isinstance(event, self._h11.Data):
                body += event.data
                if len(body) > MAX_BODY_BYTES:
                    raise SessionCutError
            elif isinstance(event, self._h11.EndOfMessage):
                headers = {name.decode().lower(): value.decode() for name, value in head.headers}
                return HttpRequest(
                    head.method.decode(),
                    head.target.decode("ascii", "replace"),
                    headers,
                    bytes(body),
                )
            else:
                return None

    async def _respond(self, request: HttpRequest) -> tuple[HttpResponse, bool]:
        application = self._application
        if not self._is_authorized(request):
            return application.refuse(401, "access denied"), False

        async def run() -> HttpResponse:
            return await application.handle(request)

        async def deny() -> HttpResponse:
            return application.refuse(409, "Refused on demand")

        return await self._switch.execute(run, deny, is_change=application.is_change(request))

    def _is_authorized(self, request: HttpRequest) -> bool:
        """Whether a request has the name and the password of a user."""
        scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
        try:
            user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        return scheme.lower() == "basic" and self._switch.is_user(user, password)
