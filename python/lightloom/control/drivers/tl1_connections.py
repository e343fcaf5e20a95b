"""The sessions of a TL1 driver: one for commands and, on demand, one for reports."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable

from lightloom.control.drivers.options import DriverSettings, SwitchAddress
from lightloom.control.drivers.streams import ByteStream
from lightloom.control.drivers.tl1 import Tl1Message
from lightloom.control.drivers.tl1_session import Tl1Session, log_in, log_out
from lightloom.control.switch import (
    SwitchDescription,
    SwitchDisconnectedError,
    SwitchEvent,
    SwitchEventKind,
)


class Tl1Connections:
    """Opens and closes the sessions of one driver.

    Parameters
    ----------
    address, settings
        Of the driver.
    open_stream
        Connects to the switch.
    harmless
        Verb of a command that keeps a session open.
    ports
        What a port looks like in the text of a report; its first group is the name.
    """

    def __init__(
        self,
        address: SwitchAddress,
        settings: DriverSettings,
        open_stream: Callable[[], Awaitable[ByteStream]],
        *,
        harmless: str,
        ports: re.Pattern[str],
    ) -> None:
        self._address, self._settings = address, settings
        self._open_stream = open_stream
        self._harmless, self._ports = harmless, ports
        self._commands: Tl1Session | None = None
        self._events: Tl1Session | None = None
        #: what the switch said of itself; without it, it is not connected
        self.description: SwitchDescription | None = None

    async def open(self) -> Tl1Session:
        """Return a new session for commands, logged in unless there is no user."""
        await self.close()
        self._commands = await self._log_in()
        return self._commands

    def connected(self) -> tuple[Tl1Session, SwitchDescription]:
        """Return the session for commands, and what the switch says of itself.

        Raises
        ------
        SwitchDisconnectedError
            If there is none.
        """
        session, description = self._commands, self.description
        if session is None or description is None or not session.is_open:
            raise SwitchDisconnectedError(f"switch {self._address}: not connected")
        return session, description

    def keep_alive(self, session: Tl1Session) -> None:
        """Send a harmless command whenever none was sent for a while, if the settings say so."""
        if self._settings.keepalive_s:
            session.keep_alive(self._harmless, self._settings.keepalive_s)

    async def events(self, verb: str, target: str = "") -> AsyncIterator[SwitchEvent]:
        """Yield the reports of a second session, which a command permits, until it is closed."""
        self.connected()
        session = self._events = await self._log_in()
        try:
            await session.command(verb, target)
            self.keep_alive(session)
            async for message in session.reports():
                yield self._event(message)
        finally:
            await session.close()

    def _event(self, message: Tl1Message) -> SwitchEvent:
        """Return what a report says; its form is not documented, so that the text is kept."""
        ports = tuple(self._ports.findall(message.text))
        kind = SwitchEventKind.PORT if ports else SwitchEventKind.OTHER
        if "ALM" in message.code:
            kind = SwitchEventKind.ALARM
        return SwitchEvent(kind, f"{message.code}: {message.text}", ports)

    async def close(self) -> None:
        """Log out and close both sessions."""
        sessions, self._commands, self._events = (self._events, self._commands), None, None
        for session in sessions:
            if session is not None:
                await log_out(session, self._address)

    async def _log_in(self) -> Tl1Session:
        return await log_in(await self._open_stream(), self._address, self._settings)
