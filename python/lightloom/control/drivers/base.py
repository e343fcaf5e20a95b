"""What all drivers do alike: connect in time, check a change before it is sent, watch by readings.

A driver of one protocol says how it opens a connection and describes the switch, whether the
connection is open, how it reads back and closes, and which commands make a change.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

from lightloom.control.drivers.changes import ChangeCommand, check_change, run_commands
from lightloom.control.drivers.options import DriverSettings, SwitchAddress
from lightloom.control.drivers.polling import polled_events
from lightloom.control.drivers.streams import unreachable
from lightloom.control.switch import (
    CircuitResult,
    Readback,
    SwitchChange,
    SwitchDescription,
    SwitchDisconnectedError,
    SwitchEvent,
    SwitchProtocolError,
    SwitchTimeoutError,
)


class BaseDriver(abc.ABC):
    """Driver of one switch by one protocol.

    Parameters
    ----------
    address
        Host, port, user and password.
    settings
        Time-outs, and what the switch can do.
    is_encrypted
        Whether to speak by TLS, or SSH, where the protocol also has a plain form.
    """

    def __init__(
        self, address: SwitchAddress, settings: DriverSettings, *, is_encrypted: bool = False
    ) -> None:
        self._address, self._settings, self._is_encrypted = address, settings, is_encrypted
        self._description: SwitchDescription | None = None

    async def connect(self) -> SwitchDescription:
        """Connect, log in and return what the switch says of itself.

        Raises
        ------
        SwitchUnreachableError
            If all of that together takes longer than ``connect_timeout_s``: nothing was changed.
        SwitchError
            If the switch refuses the login or a command, or sends no proper reply.
        """
        address, limit_s = self._address, self._settings.connect_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await self.close()
                try:
                    self._description = await self._open()
                except BaseException:
                    await self.close()
                    raise
        except TimeoutError:
            reason = f"no session within {limit_s:g} s"
            raise unreachable(address.host, address.port, reason) from None
        except (SwitchTimeoutError, SwitchDisconnectedError, SwitchProtocolError) as error:
            where = f"switch {address}: "
            raise type(error)(where + str(error).removeprefix(where)) from None
        return self._description

    async def apply(self, change: SwitchChange) -> tuple[CircuitResult, ...]:
        """Delete and create circuits; nothing is sent twice."""
        check_change(change, self._connected().ports)
        if change.is_empty:
            return ()
        return await run_commands(change, await self._commands(change))

    async def watch(self) -> AsyncGenerator[SwitchEvent, None]:
        """Yield what differs between readings of a second connection, until this one is closed."""
        self._connected()
        polled = polled_events(self._another(), self._settings.poll_s, self._is_open)
        async with contextlib.aclosing(polled) as events:
            async for event in events:
                yield event

    def _another(self) -> BaseDriver:
        """Return a second driver of the same switch."""
        return type(self)(self._address, self._settings, is_encrypted=self._is_encrypted)

    def _connected(self) -> SwitchDescription:
        """Return what the switch said of itself.

        Raises
        ------
        SwitchDisconnectedError
            If there is no connection.
        """
        if not self._is_open() or self._description is None:
            raise self._not_connected()
        return self._description

    def _not_connected(self) -> SwitchDisconnectedError:
        return SwitchDisconnectedError(f"switch {self._address}: not connected")

    @abc.abstractmethod
    async def _open(self) -> SwitchDescription:
        """Open a connection, none being open, and ask the switch what it is."""

    @abc.abstractmethod
    def _is_open(self) -> bool:
        """Whether the switch may be asked."""

    @abc.abstractmethod
    async def read_back(self, *, ports: bool = True) -> Readback:
        """Return all circuits and, on request, all ports."""

    @abc.abstractmethod
    async def _commands(self, change: SwitchChange) -> Sequence[ChangeCommand]:
        """Return the commands that make a change, which is not empty."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Log out and close the connections."""
