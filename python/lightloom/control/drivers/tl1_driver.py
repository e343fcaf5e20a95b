"""What drivers by TL1 do alike: one session for commands and, on demand, one for reports."""

from __future__ import annotations

import abc
import re
from collections.abc import AsyncGenerator
from typing import ClassVar

from lightloom.control.drivers.base import BaseDriver
from lightloom.control.drivers.options import DriverSettings, SwitchAddress
from lightloom.control.drivers.streams import ByteStream
from lightloom.control.drivers.tl1 import Tl1Message
from lightloom.control.drivers.tl1_session import Tl1Session, log_in, log_out
from lightloom.control.switch import (
    SwitchDescription,
    SwitchEvent,
    SwitchEventKind,
    SwitchProtocolError,
)


class Tl1Driver(BaseDriver):
    """Driver of one switch by TL1; parameters as of :class:`BaseDriver`."""

    #: verb of a command that keeps a session open
    harmless: ClassVar[str]
    #: verb and target of the command that permits reports
    permission: ClassVar[tuple[str, str]]
    #: what a port looks like in the text of a report; the first group is its name
    port_in_text: ClassVar[re.Pattern[str]]

    def __init__(
        self, address: SwitchAddress, settings: DriverSettings, *, is_encrypted: bool = False
    ) -> None:
        super().__init__(address, settings, is_encrypted=is_encrypted)
        self._commanding: Tl1Session | None = None
        self._reporting: Tl1Session | None = None

    @abc.abstractmethod
    async def _stream(self) -> ByteStream:
        """Connect to the switch."""

    @abc.abstractmethod
    async def _describe(self, session: Tl1Session) -> SwitchDescription:
        """Silence reports on a session, and ask the switch what it is."""

    @property
    def session(self) -> Tl1Session:
        """The session for commands.

        Raises
        ------
        SwitchDisconnectedError
            If there is none.
        """
        if self._commanding is None or not self._commanding.is_open:
            raise self._not_connected()
        return self._commanding

    async def _open(self) -> SwitchDescription:
        self._commanding = await self._log_in()
        description = await self._describe(self._commanding)
        self._keep_alive(self._commanding)
        return description

    def _is_open(self) -> bool:
        return self._commanding is not None and self._commanding.is_open

    async def watch(self) -> AsyncGenerator[SwitchEvent, None]:
        """Yield reports of a second session, until the driver is closed."""
        self._connected()
        session = self._reporting = await self._log_in()
        try:
            await session.command(*self.permission)
            self._keep_alive(session)
            async for message in session.reports():
                yield self._event(message)
        finally:
            await session.close()

    async def close(self) -> None:
        """Log out and close both sessions."""
        sessions = (self._reporting, self._commanding)
        self._commanding = self._reporting = None
        for session in sessions:
            if session is not None:
                await log_out(session, self._address)

    def _keep_alive(self, session: Tl1Session) -> None:
        """Send a harmless command whenever none was sent for a while, if the settings say so."""
        if self._settings.keepalive_s:
            session.keep_alive(self.harmless, self._settings.keepalive_s)

    def _event(self, message: Tl1Message) -> SwitchEvent:
        """Return what a report says; its form is not documented, so that the text is kept."""
        ports = tuple(self.port_in_text.findall(message.text))
        kind = SwitchEventKind.PORT if ports else SwitchEventKind.OTHER
        if "ALM" in message.code:
            kind = SwitchEventKind.ALARM
        return SwitchEvent(kind, f"{message.code}: {message.text}", ports)

    async def _log_in(self) -> Tl1Session:
        return await log_in(await self._stream(), self._address, self._settings)


def matched(pattern: re.Pattern[str], row: str) -> re.Match[str]:
    """Return how a row of a reply matches a pattern.

    Raises
    ------
    SwitchProtocolError
        If it does not.
    """
    match = pattern.fullmatch(row.strip())
    if match is None:
        raise SwitchProtocolError(f"the switch sent a row of unknown form: {row[:60]!r}")
    return match
