"""A client of the service, for training code and tests."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from lightloom.control.documents import Document
from lightloom.control.refusals import ServiceError
from lightloom.control.wire import MAX_REPLY_BYTES, Frame, encode, read_frame
from lightloom.errors import InputError

#: seconds that each step of a connection and each request may take
TIMEOUT_S = 10.0
#: seconds in which a handler must have drained: more than a service waits for it
DRAIN_TIMEOUT_S = 30.0
#: called with an event's name and facts; for ``drain`` it returns once nothing is sent any more
EventHandler = Callable[[str, Document], Awaitable[None]]
#: seconds that closing may take
_CLOSE_S = 1.0


class _Event(NamedTuple):
    name: str
    facts: Document


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
    timeout_s
        Seconds in which the service must admit the client, and answer each request.
    drain_timeout_s
        Seconds in which the handler of an event must return. If it does not, or raises, the service
        is told that this member cannot drain, and makes no circuit dark.
    """

    def __init__(
        self,
        address: str,
        token: str,
        on_event: EventHandler | None = None,
        tls: ssl.SSLContext | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        drain_timeout_s: float = DRAIN_TIMEOUT_S,
    ) -> None:
        self._address, self._token, self._tls = address, token, tls
        self._on_event = on_event
        self._timeout_s, self._drain_timeout_s = timeout_s, drain_timeout_s
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Document]] = {}
        self._events: asyncio.Queue[_Event] = asyncio.Queue()
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: list[asyncio.Task[None]] = []
        #: what the service said of its region
        self.region: Document = {}
        #: why there is no connection any more; empty while nobody has ended it
        self._problem = ""

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.timeout(self._timeout_s):
                reader, self._writer = await self._open()
                self._writer.write(encode({"op": "hello", "token": self._token}))
                frame = await self._greeting(reader)
        except TimeoutError:
            self._abort()
            raise ServiceError(
                f"{self._address}: the service did not answer within {self._timeout_s:g} s"
            ) from None
        except OSError as error:
            self._abort()
            raise ServiceError(
                f"{self._address}: cannot reach the service: {error.strerror or error}"
            ) from None
        except BaseException:
            self._abort()
            raise
        if frame is None or not frame.header.get("ok", False):
            self._abort()
            problem = None if frame is None else frame.header.get("error")
            raise ServiceError(f"{self._address}: {problem or self._refusal()}")
        self.region = frame.header
        self._tasks = [
            asyncio.create_task(self._listen(reader)),
            asyncio.create_task(self._handle_events()),
        ]
        return self

    def _refusal(self) -> str:
        """Why a service may close a connection without a word: it says nothing to strangers."""
        if self._tls is None and not self._address.startswith("unix:"):
            return (
                "the service closed the connection: it refused the token, or expects TLS (tls=, or "
                "tls_certificate in the region's file)"
            )
        return "the service refused the token"

    async def _greeting(self, reader: asyncio.StreamReader) -> Frame | None:
        try:
            return await read_frame(reader, MAX_REPLY_BYTES, 0)
        except (InputError, ConnectionError):
            return None

    def _abort(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        kind, _, path = self._address.partition(":")
        if kind == "unix":
            return await asyncio.open_unix_connection(path)
        host, _, port = self._address.rpartition(":")
        if not port.isdecimal():
            raise InputError(f"{self._address}: expected unix:PATH or HOST:PORT")
        return await asyncio.open_connection(host.strip("[]"), int(port), ssl=self._tls)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._give_up("the client was closed")
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            # a handler that does not let itself be canceled is left behind
            await asyncio.wait(self._tasks, timeout=_CLOSE_S)
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await self._writer.wait_closed()
            self._abort()

    def _give_up(self, problem: str) -> None:
        """Fail every request that waits, and those that follow."""
        self._problem = self._problem or problem
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ServiceError(f"{self._address}: {problem}"))
        self._waiting.clear()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        problem = "the service closed the connection"
        try:
            while frame := await read_frame(reader, MAX_REPLY_BYTES, 0):
                header = frame.header
                number = header.get("id")
                if "event" in header:
                    self._events.put_nowait(_Event(str(header.pop("event")), header))
                elif isinstance(number, int) and number in self._waiting:
                    future = self._waiting.pop(number)
                    if not future.done():
                        future.set_result(header)
                elif number is None:
                    problem = str(header.get("error", problem))
        except (InputError, ConnectionError) as error:
            problem = str(error)
        finally:
            self._give_up(problem)

    async def _handle_events(self) -> None:
        """Handle events one after the other; replies overtake them."""
        while True:
            event = await self._events.get()
            problem = await self._handle(event)
            if event.name == "drain" and self._writer is not None:
                facts: Document = {"op": "drained", "fence": event.facts.get("fence")}
                if problem:
                    facts["problem"] = problem
                self._writer.write(encode(facts))

    async def _handle(self, event: _Event) -> str:
        """Call the handler; why it has not done its work, or nothing."""
        if self._on_event is None:
            return ""
        task = asyncio.create_task(_call(self._on_event, event))
        try:
            await asyncio.wait({task}, timeout=self._drain_timeout_s)
        finally:
            if not task.done():
                task.cancel()
        if not task.done() or task.cancelled():
            return f"its handler did not return within {self._drain_timeout_s:g} s"
        error = task.exception()
        if error is None:
            return ""
        context = {"message": f"the handler of {event.name}", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
        return f"its handler raised {type(error).__name__}"

    async def closed(self) -> str:
        """Wait until the service has closed the connection, or it was lost; return why."""
        if self._tasks:
            await asyncio.wait(self._tasks[:1])
        return self._problem

    async def request(self, op: str, body: bytes = b"", **facts: Any) -> Document:
        """Send a request and return the reply; also one that says ``ok`` is false.

        Raises
        ------
        ServiceError
            If the connection is lost, or no reply comes in time.
        """
        if self._writer is None or not self._tasks or self._tasks[0].done():
            problem = ": ".join(filter(None, ("not connected", self._problem)))
            raise ServiceError(f"{self._address}: {problem}")
        number = next(self._numbers)
        future: asyncio.Future[Document] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            async with asyncio.timeout(self._timeout_s):
                self._writer.write(encode({"op": op, "id": number, **facts}, body))
                return await future
        except TimeoutError:
            raise ServiceError(
                f"{self._address}: no reply to {op} within {self._timeout_s:g} s; use the packet "
                "network (EPS)"
            ) from None
        finally:
            self._waiting.pop(number, None)

    async def circuits_for(
        self,
        demand: npt.ArrayLike,
        *,
        job: str | None = None,
        step: int | None = None,
        layer: int | None = None,
        hidden_s: Sequence[float] | None = None,
    ) -> Document:
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
        facts: Document = {
            "upcoming": len(matrices),
            "job": job,
            "step": step,
            "layer": layer,
        }
        if hidden_s is not None:
            facts["hidden_s"] = list(hidden_s)
        known_facts = {name: value for name, value in facts.items() if value is not None}
        return await self.request("demand", matrices.tobytes(), **known_facts)


async def _call(handler: EventHandler, event: _Event) -> None:
    await handler(event.name, event.facts)
