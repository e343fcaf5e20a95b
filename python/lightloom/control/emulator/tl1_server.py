"""The TL1 service of an emulated switch: sessions that take commands and send replies.

A dialect executes the commands; everything that dialects have in common, from splitting the stream
to cutting it on demand, is here.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from lightloom.control.emulator.device import (
    CUTTING,
    EmulatedSession,
    EmulatedSwitch,
    NoReplyError,
)
from lightloom.control.emulator.tl1_commands import (
    CommandDeniedError,
    CommandReader,
    Tl1Command,
    Tl1Reply,
    parse_command,
    refusal,
    render_message,
)

_READ_BYTES = 16 * 1024


class Tl1Dialect(Protocol):
    """The commands of one vendor."""

    #: verbs that create or delete circuits
    changes: frozenset[str]
    #: name of the reports
    report_name: str
    #: whether a command without a tag is refused
    needs_tag: bool

    def report_text(self, text: str) -> str:
        """Return a report with the dialect's names of ports."""
        ...

    async def handle(self, command: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        """Execute a command; raise :class:`CommandDeniedError` to refuse it."""
        ...


def timestamp() -> str:
    """Return date and time as a header has them."""
    return time.strftime("%y-%m-%d %H:%M:%S")


class Tl1Server:
    """Serves sessions of one dialect.

    Parameters
    ----------
    switch
        The switch.
    dialect
        Its commands.
    prompt
        What is sent after every reply, as an SSH session does.
    """

    def __init__(self, switch: EmulatedSwitch, dialect: Tl1Dialect, prompt: bytes = b"") -> None:
        self._switch = switch
        self._dialect = dialect
        self._prompt = prompt
        self._report_tags = itertools.count(1)

    async def serve(
        self, reader: Any, writer: Any, abort: Callable[[], None], user: str = ""
    ) -> None:
        """Serve one session until either side ends it.

        Parameters
        ----------
        reader, writer
            Streams of asyncio, or what has their ``read``, ``write`` and ``drain``.
        abort
            Drops the connection.
        user
            Who is logged in already.
        """

        def send_report(text: str) -> None:
            head = f"A  {next(self._report_tags)} {self._dialect.report_name}"
            lines = [head, f'   "{self._dialect.report_text(text)}"']
            writer.write(render_message(lines, self._switch.sid, timestamp()))

        session = EmulatedSession(abort, send_report, user=user)
        try:
            with self._switch.admitted(session):
                writer.write(self._prompt)
                await self._serve(reader, writer, session)
        except CUTTING:
            abort()

    async def _serve(self, reader: Any, writer: Any, session: EmulatedSession) -> None:
        commands = CommandReader()
        limit_s = self._switch.idle_close_s or None
        while data := await asyncio.wait_for(reader.read(_READ_BYTES), limit_s):
            for text in commands.feed(data):
                await self._reply(text, writer, session)

    async def _reply(self, text: str, writer: Any, session: EmulatedSession) -> None:
        """Execute one command and send its reply."""
        tag = "0"
        is_change = False
        try:
            command = parse_command(text, needs_tag=self._dialect.needs_tag)
            tag, is_change = command.tag, command.verb in self._dialect.changes
            run = self._runner(command, session)
        except CommandDeniedError as error:
            run = _refuser(error)

        async def deny() -> Tl1Reply:
            return refusal(CommandDeniedError("SROF", "Refused on demand"))

        try:
            reply, in_pieces = await self._switch.execute(run, deny, is_change=is_change)
        except NoReplyError:
            return
        message = reply.render(tag, self._switch.sid, timestamp(), self._switch.page_rows)
        message += self._prompt
        size = 1 if in_pieces else len(message)
        for start in range(0, len(message), size):
            writer.write(message[start : start + size])
            await writer.drain()
            await asyncio.sleep(0)

    def _runner(
        self, command: Tl1Command, session: EmulatedSession
    ) -> Callable[[], Awaitable[Tl1Reply]]:
        async def run() -> Tl1Reply:
            try:
                if command.tid and command.tid != self._switch.sid:
                    raise CommandDeniedError("IITA", "Mismatched TID")
                return await self._dialect.handle(command, session)
            except CommandDeniedError as error:
                return refusal(error)

        return run


def _refuser(error: CommandDeniedError) -> Callable[[], Awaitable[Tl1Reply]]:
    async def run() -> Tl1Reply:
        return refusal(error)

    return run
