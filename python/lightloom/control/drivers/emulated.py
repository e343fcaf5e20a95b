"""An emulated switch inside this process, for trying things: ``emulator://48x48?seed=1``.

It is a Polatis switch, reached by TL1 over the loopback interface, so that everything but the
hardware is real. Its circuits last as long as the driver, also while it is closed.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import ClassVar

from lightloom.control.drivers.options import DriverSettings, SwitchAddress
from lightloom.control.drivers.polatis_tl1 import PolatisTl1
from lightloom.control.emulator import Emulator
from lightloom.control.emulator.timing import parse_settle_time
from lightloom.control.switch import (
    CircuitResult,
    Credentials,
    Readback,
    SwitchChange,
    SwitchDescription,
    SwitchDisconnectedError,
    SwitchEvent,
)
from lightloom.errors import InputError, echo

_SIZE = re.compile(r"(\d{1,4})x(\d{1,4})")
_USER, _PASSWORD = "admin", "root"


class EmulatedDriver:
    """Driver and switch in one.

    Parameters
    ----------
    size
        Numbers of ingress and egress ports.
    seed
        Of the emulated switch.
    settle_time
        As for the command ``ocs-emulator``.
    settings
        Of the driver.
    """

    #: what the query of a URL may set, in addition to the settings of drivers
    KEYS: ClassVar[frozenset[str]] = frozenset({"seed", "settle_time"})

    def __init__(
        self,
        size: tuple[int, int],
        *,
        seed: int = 0,
        settle_time: str = "measured",
        settings: DriverSettings | None = None,
    ) -> None:
        self._settings = settings or DriverSettings()
        self._driver: PolatisTl1 | None = None
        #: the switch, for whoever wants to break it
        self.emulator = Emulator(size, seed=seed, timing=parse_settle_time(settle_time))

    @classmethod
    def from_url(cls, host: str, query: dict[str, str], settings: DriverSettings) -> EmulatedDriver:
        """Return the driver that the host and the query of a URL describe.

        Raises
        ------
        InputError
            If the host is no size, or the seed no number.
        """
        match = _SIZE.fullmatch(host)
        if match is None:
            raise InputError(
                f"emulator://{echo(host, quoted=False)}: expected a size, such as 48x48"
            )
        seed = query.get("seed", "0")
        if not re.fullmatch(r"[0-9]{1,18}", seed):
            raise InputError(f"switch URL: seed = {echo(seed)}: expected a whole number")
        return cls(
            (int(match[1]), int(match[2])),
            seed=int(seed),
            settle_time=query.get("settle_time", "measured"),
            settings=settings,
        )

    async def connect(self) -> SwitchDescription:
        """Start the switch if it does not listen, and connect to it."""
        if not self.emulator.ports:
            await self.emulator.__aenter__()
        address = SwitchAddress(
            self.emulator.host, self.emulator.ports["tl1"], Credentials(_USER, _PASSWORD)
        )
        if self._driver is not None:
            await self._driver.close()
        self._driver = PolatisTl1(address, self._settings)
        return await self._driver.connect()

    async def read_back(self, *, ports: bool = True) -> Readback:
        """Return all circuits and, on request, the status of all ports."""
        return await self._connected().read_back(ports=ports)

    async def apply(self, change: SwitchChange) -> tuple[CircuitResult, ...]:
        """Delete and create circuits."""
        return await self._connected().apply(change)

    async def watch(self) -> AsyncIterator[SwitchEvent]:
        """Yield reports of a second session, until the driver is closed."""
        async for event in self._connected().watch():
            yield event

    async def close(self) -> None:
        """Disconnect and stop listening; the circuits stay."""
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.close()
        await self.emulator.close()

    def _connected(self) -> PolatisTl1:
        if self._driver is None:
            raise SwitchDisconnectedError("emulated switch: not connected")
        return self._driver
