"""Pages for this machine over HTTP: a few connections, each for one small request.

A request is read within a deadline and a number of bytes, is answered, and the connection ends.
Beyond a number of connections the oldest one goes. There is one thread, that of the event loop.

A site that a browser has open elsewhere cannot read the pages: it is another origin, and a name of
its own that it lets lead to this machine is refused, since ``Host`` says it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from lightloom.control.connections import stop_accepting
from lightloom.control.recording import Listener

#: seconds from a connection to the end of its answer
_REQUEST_S = 5.0
_MAX_CONNECTIONS = 16
_MAX_HEAD_BYTES = 8192
_MAX_UNREAD_BYTES = 1 << 16
_HOST = "127.0.0.1"
#: what ``Host`` may say, before the port
_NAMES = (b"", b"localhost", b"127.0.0.1", b"[::1]")
#: of a page: it asks nobody but this server, and nobody frames it
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


class Page(NamedTuple):
    """What is served: the type of its content, and the content."""

    kind: str
    content: bytes


_TEXT = "text/plain; charset=utf-8"


class LoopbackServer:
    """Serves pages on the loopback address.

    Parameters
    ----------
    pages
        What makes each page, by its path.
    request_s
        Seconds that a request and its answer may take.
    notify
        Called if a page cannot be made, for the log.

    Attributes
    ----------
    pages
        As given; more may be added while it is served.
    """

    def __init__(
        self,
        pages: Mapping[str, Callable[[], Page]],
        request_s: float = _REQUEST_S,
        notify: Listener | None = None,
    ) -> None:
        self.pages, self._request_s = dict(pages), request_s
        self._notify = notify or (lambda _name, _facts: None)
        self._server: asyncio.Server | None = None
        #: oldest first
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def start(self, port: int) -> int:
        """Listen, and return the port; 0 takes a free one.

        Raises
        ------
        OSError
            If the port is taken.
        """
        self._server = await asyncio.start_server(self._accept, _HOST, port, limit=_MAX_HEAD_BYTES)
        number: int = self._server.sockets[0].getsockname()[1]
        return number

    async def close(self) -> None:
        """Stop listening, and end all connections."""
        if self._server is not None:
            await stop_accepting(self._server)
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        if len(self._open) > _MAX_CONNECTIONS:
            oldest = next(iter(self._open))
            self._open.pop(oldest).transport.abort()
            oldest.cancel()
        try:
            async with asyncio.timeout(self._request_s):
                await self._answer(reader, writer)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            self._open.pop(task, None)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            writer.write(_response(431, "Request Header Fields Too Large", body=True))
            return
        except asyncio.IncompleteReadError:
            return
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            writer.write(_response(400, "Bad Request", body=True))
            return
        method = words[0]
        if method not in (b"GET", b"HEAD"):
            writer.write(_response(405, "Method Not Allowed", body=True, allow="GET, HEAD"))
            return
        if not _is_for_this_machine(head):
            writer.write(_response(421, "Misdirected Request", body=True))
            return
        make = self.pages.get(words[1].split(b"?")[0].decode("ascii", "replace"))
        if make is None:
            writer.write(_response(404, "Not Found", body=method == b"GET"))
            return
        writer.transport.set_write_buffer_limits(_MAX_UNREAD_BYTES)
        with contextlib.suppress(ConnectionError):
            writer.write(self._made(make, body=method == b"GET"))

    def _made(self, make: Callable[[], Page], *, body: bool) -> bytes:
        """A page as an answer; what cannot be made ends no service."""
        try:
            page = make()
        except Exception as error:
            self._notify("internal-error", {"place": "page", "trace": repr(error)})
            return _response(500, "Internal Server Error", body=body)
        return _response(200, "OK", page, body=body)


def _is_for_this_machine(head: bytes) -> bool:
    """Whether every ``Host`` of a request names this machine."""
    lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
    hosts = [value.strip().lower() for name, _, value in lines if name.strip().lower() == b"host"]
    return all(re.sub(rb":\d*$", b"", host) in _NAMES for host in hosts)


def _response(
    status: int, reason: str, page: Page | None = None, *, body: bool, allow: str = ""
) -> bytes:
    kind, content = page or Page(_TEXT, f"{reason}\n".encode())
    lines = [
        f"HTTP/1.1 {status} {reason}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(content)}",
        *([f"Allow: {allow}"] if allow else []),
        *([f"Content-Security-Policy: {_POLICY}"] if kind.startswith("text/html") else []),
        "Cache-Control: no-store",
        "Connection: close",
        "X-Content-Type-Options: nosniff",
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (content if body else b"")
