"""A client of the service, for training code and tests."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lightloom.control.refusals import ServiceError
from lightloom.control.wire import MAX_REPLY_BYTES, encode, read_frame
from lightloom.errors import InputError

#: called with an event's name and facts; for ``drain`` it returns once nothing is sent any more
EventHandler = Callable[[str, dict[str, Any]], Awaitable[None]]


class ControlClient:
    """One connection to the service of a region.

    Parameters
    ----------
    address
        ``unix:PATH`` or ``HOST:PORT``.
    token
        Its token.
    on_event
        Awaited for ``drain`` and ``ready``; without it a member drains at once.
    tls
        For a service beyond this machine.
    """

    def __init__(
        self,
        address: str,
        token: str,
        on_event: EventHandler | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address, self._token, self._tls = address, token, tls
        self._on_event = on_event
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        #: what the service said of its region
        self.region: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        try:
            reader, self._writer = await self._open()
        except OSError as error:
            raise ServiceError(
                f"{self._address}: cannot reach the service: {error.strerror or error}"
            ) from None
        self._writer.write(encode({"op": "hello", "token": self._token}))
        try:
            frame = await read_frame(reader, MAX_REPLY_BYTES, 0)
        except (InputError, ConnectionError):
            frame = None
        if frame is None:
            self._writer.close()
            raise ServiceError(f"{self._address}: the service refused the token")
        self.region = frame.header
        self._task = asyncio.create_task(self._listen(reader))
        return self

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        kind, _, path = self._address.partition(":")
        if kind == "unix":
            return await asyncio.open_unix_connection(path)
        host, _, port = self._address.rpartition(":")
        if not port.isdecimal():
            raise InputError(f"{self._address}: expected unix:PATH or HOST:PORT")
        return await asyncio.open_connection(host, int(port), ssl=self._tls)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(ConnectionError, OSError):
                await self._writer.wait_closed()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        problem = "the service closed the connection"
        try:
            while frame := await read_frame(reader, MAX_REPLY_BYTES, 0):
                header = frame.header
                if "event" in header:
                    await self._handle_event(str(header.pop("event")), header)
                elif header.get("id") in self._waiting:
                    self._waiting.pop(header["id"]).set_result(header)
                else:
                    problem = str(header.get("error", problem))
        except (InputError, ConnectionError) as error:
            problem = str(error)
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ServiceError(f"{self._address}: {problem}"))
            self._waiting.clear()

    async def _handle_event(self, name: str, facts: dict[str, Any]) -> None:
        if self._on_event is not None:
            await self._on_event(name, facts)
        if name == "drain":
            assert self._writer is not None
            self._writer.write(encode({"op": "drained", "fence": facts["fence"]}))

    async def request(self, op: str, body: bytes = b"", **facts: Any) -> dict[str, Any]:
        """Send a request and return the reply; also one that says ``ok`` is false.

        Raises
        ------
        ServiceError
            If the connection is lost.
        """
        if self._writer is None or self._task is None or self._task.done():
            raise ServiceError(f"{self._address}: not connected")
        number = next(self._numbers)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._writer.write(encode({"op": op, "id": number, **facts}, body))
        await self._writer.drain()
        return await future

    async def circuits_for(
        self,
        demand: npt.ArrayLike,
        *,
        job: str | None = None,
        step: int | None = None,
        layer: int | None = None,
        hidden_s: Sequence[float] | None = None,
    ) -> dict[str, Any]:
        """Send the demand of the upcoming all-to-alls; return circuits and delegates.

        Parameters
        ----------
        demand
            Bytes from rank to rank, ``(ranks, ranks)`` or ``(k, ranks, ranks)``.
        job, step, layer
            On whose behalf, for the journal.
        hidden_s
            As ``Decider.decide`` takes it.

        Raises
        ------
        ServiceError
            If the connection is lost.
        """
        values = np.ascontiguousarray(demand, dtype="<u8")
        matrices = values[np.newaxis] if values.ndim == 2 else values
        facts: dict[str, Any] = {
            "upcoming": len(matrices),
            "job": job,
            "step": step,
            "layer": layer,
        }
        if hidden_s is not None:
            facts["hidden_s"] = list(hidden_s)
        known_facts = {name: value for name, value in facts.items() if value is not None}
        return await self.request("demand", matrices.tobytes(), **known_facts)
