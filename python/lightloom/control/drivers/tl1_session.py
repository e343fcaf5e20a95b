"""A TL1 session: one command at a time, each with its reply, and reports as they come.

When no reply comes in time, when the connection is cut and when a command is canceled, the session
ends: its replies could no longer be told apart, and whether the command was executed is unknown.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace

from lightloom.control.drivers.options import DriverSettings, SwitchAddress
from lightloom.control.drivers.streams import ByteStream
from lightloom.control.drivers.tl1 import MessageKind, Tl1Message, Tl1Parser, denial, quote
from lightloom.control.switch import (
    LoginRefusedError,
    SwitchDeniedError,
    SwitchDisconnectedError,
    SwitchError,
    SwitchProtocolError,
    SwitchTimeoutError,
)

#: reports that are kept until someone takes them; older ones are dropped
MAX_REPORTS = 1024
#: how many times its time-out a command may take that the switch has acknowledged
MAX_EXTENSIONS = 4
#: most rows of a response of several pages
MAX_ROWS = 64 * 1024
#: maximum time to log out
_LOGOUT_S = 1.0
_MAX_TAG = 999_999


class Tl1Session:
    """Sends commands over a stream and returns their replies.

    Parameters
    ----------
    stream
        An open connection; the session closes it.
    reply_timeout_s
        Maximum time from a command, from an acknowledgment of it and from a page of its reply to
        what follows; four times as long in all, however often the switch says that it is busy.
    """

    def __init__(self, stream: ByteStream, *, reply_timeout_s: float) -> None:
        self._stream = stream
        self._reply_timeout_s = reply_timeout_s
        self._parser = Tl1Parser()
        self._tags = itertools.cycle(range(1, _MAX_TAG + 1))
        self._turn = asyncio.Lock()
        self._pending: tuple[str, asyncio.Future[Tl1Message]] | None = None
        #: pages of the reply to come
        self._pages: list[Tl1Message] = []
        self._num_rows = 0
        self._last_moment_s = 0.0
        self._sent = ""
        self._deadline: asyncio.Timeout | None = None
        self._reports: asyncio.Queue[Tl1Message | None] = asyncio.Queue()
        self._ended: SwitchError | None = None
        self._last_command_s = asyncio.get_running_loop().time()
        self._reading = asyncio.create_task(self._read())
        self._keeping: asyncio.Task[None] | None = None
        #: name of the switch, from the latest reply; empty if none is set
        self.sid = ""

    @property
    def is_open(self) -> bool:
        """Whether commands can be sent."""
        return self._ended is None

    async def command(
        self, verb: str, target: str = "", parameters: str = "", *, shown: str = ""
    ) -> Tl1Message:
        """Send a command and return its completed response.

        Parameters
        ----------
        verb
            Such as ``RTRV-PATCH``.
        target
            Access identifier: ports, a user, a part of the equipment.
        parameters
            What follows the tag: the general block, and others after colons.
        shown
            What error messages call the command, if it has a secret.

        Raises
        ------
        SwitchDeniedError
            If the switch refuses the command.
        SwitchTimeoutError, SwitchDisconnectedError, SwitchProtocolError
            If there is no proper reply; the session has ended then.
        """
        shown = shown or f"{verb} {target}".strip()
        async with self._turn:
            if self._ended is not None:
                raise SwitchDisconnectedError(f"{shown}: the session has ended; connect again")
            message = await self._request(verb, target, parameters, shown)
        if not message.is_completed:
            raise denial(message, shown if len(shown) <= 60 else f"{shown[:57]}...")
        return message

    async def _request(self, verb: str, target: str, parameters: str, shown: str) -> Tl1Message:
        tag = str(next(self._tags))
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Tl1Message] = loop.create_future()
        self._last_moment_s = loop.time() + MAX_EXTENSIONS * self._reply_timeout_s
        self._pending, self._sent = (tag, reply), f"{verb}::{target}:{tag}:{parameters};"
        try:
            async with asyncio.timeout(self._reply_timeout_s) as self._deadline:
                await self._stream.write(self._sent.encode())
                return await reply
        except TimeoutError:
            waited_s = self._reply_timeout_s
            if loop.time() >= self._last_moment_s:
                waited_s *= MAX_EXTENSIONS
            error = SwitchTimeoutError(f"{verb}: no reply within {waited_s:g} s")
            self._end(error)
            raise error from None
        except SwitchError as error:
            self._end(error)
            raise
        except asyncio.CancelledError:
            self._end(SwitchDisconnectedError(f"{shown} was canceled; its effect is unknown"))
            raise
        finally:
            self._pending, self._sent, self._deadline = None, "", None
            self._pages, self._num_rows = [], 0
            self._last_command_s = loop.time()

    async def _read(self) -> None:
        """Take what the switch sends until the connection ends."""
        try:
            while data := await self._stream.read():
                for message in self._parser.feed(data):
                    self._dispatch(message)
        except SwitchProtocolError as error:
            self._end(error)
        finally:
            self._end(SwitchDisconnectedError("the switch closed the connection"))

    def _dispatch(self, message: Tl1Message) -> None:
        if message.kind is MessageKind.REPORT:
            if self._reports.qsize() >= MAX_REPORTS:
                self._reports.get_nowait()
            self._reports.put_nowait(message)
            return
        tag, reply = self._pending or ("", None)
        if message.kind is MessageKind.UNKNOWN:
            if "".join(message.words).strip("> ") != self._sent.removesuffix(";"):
                raise SwitchProtocolError("the switch sent something that is not TL1")
        elif reply is None or reply.done() or message.tag != tag:
            raise SwitchProtocolError("the switch sent a reply to no command of this session")
        elif message.kind is MessageKind.ACKNOWLEDGMENT:
            self._extend()
        elif message.continues:
            self._pages.append(message)
            self._num_rows += len(message.rows)
            if self._num_rows > MAX_ROWS or len(self._pages) > MAX_ROWS:
                raise SwitchProtocolError(f"the switch sent a reply of over {MAX_ROWS} rows")
            self._extend()
        else:
            self.sid = message.sid
            reply.set_result(_joined([*self._pages, message]))

    def _extend(self) -> None:
        """Wait on for a switch that says that it is at work, but not for ever."""
        if self._deadline is not None and not self._deadline.expired():
            now = asyncio.get_running_loop().time()
            self._deadline.reschedule(min(now + self._reply_timeout_s, self._last_moment_s))

    def keep_alive(self, verb: str, interval_s: float) -> None:
        """Send a harmless command whenever none was sent for a while."""

        async def keep() -> None:
            loop = asyncio.get_running_loop()
            while self.is_open:
                idle_s = loop.time() - self._last_command_s
                if idle_s < interval_s:
                    await asyncio.sleep(interval_s - idle_s)
                    continue
                try:
                    await self.command(verb)
                except SwitchError:
                    self._last_command_s = loop.time()

        self._keeping = asyncio.create_task(keep())

    async def reports(self) -> AsyncIterator[Tl1Message]:
        """Yield the switch's reports until the session ends.

        Raises
        ------
        SwitchDisconnectedError, SwitchProtocolError
            If it did not end by :meth:`close`.
        """
        while (message := await self._reports.get()) is not None:
            yield message
        self._reports.put_nowait(None)
        if self._ended is not None and not isinstance(self._ended, _ClosedError):
            raise self._ended

    def _end(self, error: SwitchError) -> None:
        """End the session; the command in flight fails with the error."""
        if self._ended is not None:
            return
        self._ended = error
        self._stream.abort()
        if self._pending is not None and not self._pending[1].done():
            self._pending[1].set_exception(error)
        self._reports.put_nowait(None)

    async def close(self) -> None:
        """End the session."""
        self._end(_ClosedError("the session was closed"))
        tasks = [task for task in (self._reading, self._keeping) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._stream.close()


def _joined(pages: list[Tl1Message]) -> Tl1Message:
    """Return the response whose pages these are; the last one says how it ended."""
    return replace(
        pages[-1],
        rows=tuple(row for page in pages for row in page.rows),
        words=tuple(word for page in pages for word in page.words),
        comments=tuple(comment for page in pages for comment in page.comments),
    )


class _ClosedError(SwitchDisconnectedError):
    """The session was closed on purpose."""


async def log_in(
    stream: ByteStream, address: SwitchAddress, settings: DriverSettings
) -> Tl1Session:
    """Return a session on a stream, logged in if there is a user.

    Raises
    ------
    LoginRefusedError
        If the switch refuses the user or the password.
    """
    session = Tl1Session(stream, reply_timeout_s=settings.reply_timeout_s)
    user, password = address.credentials.user, address.credentials.password
    try:
        if user:
            await session.command("ACT-USER", quote(user), f":{quote(password)}", shown="ACT-USER")
    except SwitchDeniedError as error:
        if "already logged in" not in error.text.lower():
            await session.close()
            raise LoginRefusedError(f"switch {address}: login refused") from None
    except BaseException:
        await session.close()
        raise
    return session


async def log_out(session: Tl1Session, address: SwitchAddress) -> None:
    """Log out if the session is still open, and end it."""
    try:
        if session.is_open and address.credentials.user:
            async with asyncio.timeout(_LOGOUT_S):
                await session.command("CANC-USER", quote(address.credentials.user))
    except (SwitchError, TimeoutError):
        pass
    finally:
        await session.close()
