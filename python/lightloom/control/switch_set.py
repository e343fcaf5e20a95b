"""The switches of a region: connecting, reading back and applying on all of them at once.

A switch on which a change ended with an unknown state is closed; :meth:`SwitchSet.resync` connects
again and reads back until it does not change any more. A switch that does not answer while others
do is *unreachable*: it is left alone, and nobody knows what it holds, until it is reached again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lightloom.control.port_map import PlacedConnect, PortMap
from lightloom.control.switch import (
    CircuitResult,
    CircuitState,
    CrossConnect,
    LoginRefusedError,
    Readback,
    SwitchChange,
    SwitchDescription,
    SwitchDriver,
    SwitchError,
    SwitchEvent,
    SwitchTimeoutError,
)

#: maximum time between two readings
_MAX_WAIT_S = 1.0
Result = TypeVar("Result")


@dataclass(frozen=True)
class SwitchReplies:
    """What switches replied to a change.

    Attributes
    ----------
    results
        By cross-connect.
    errors
        By switch; a switch that is named here is in an unknown state if its error says so.
    """

    results: Mapping[PlacedConnect, CircuitResult]
    errors: Mapping[str, SwitchError]

    @property
    def state_unknown(self) -> bool:
        """Whether nobody knows what some switch did."""
        return any(error.state_unknown for error in self.errors.values())


class SwitchSet:
    """All switches of a region.

    Parameters
    ----------
    drivers
        By the names of the port map.
    port_map
        The ports of the region.
    timeout_s
        Seconds after which a switch that does not settle, or cannot be reached, has failed.
    quiet_s
        Seconds for which nothing must change before :meth:`resync` believes what it reads.
    """

    def __init__(
        self,
        drivers: Mapping[str, SwitchDriver],
        port_map: PortMap,
        timeout_s: float,
        quiet_s: float,
    ) -> None:
        self.drivers = dict(drivers)
        #: switches that have failed as a whole, and are left alone
        self.excluded: frozenset[str] = frozenset()
        #: why a switch does not answer, where others do
        self.unreachable: dict[str, SwitchError] = {}
        self.descriptions: dict[str, SwitchDescription] = {}
        #: when the latest reading of each switch began: what it says may be as old as that
        self.began_s: dict[str, float] = {}
        self._port_map, self._timeout_s, self._quiet_s = port_map, timeout_s, quiet_s
        self._connected: set[str] = set()

    def count_by(self, port_map: PortMap) -> None:
        """Take the ports of another map as those of the region from now on."""
        self._port_map = port_map

    @property
    def active(self) -> list[str]:
        """Names of the switches that have not failed, and answer as far as is known."""
        left = self.excluded | self.unreachable.keys()
        return [name for name in self.drivers if name not in left]

    @property
    def connected(self) -> frozenset[str]:
        """Names of the switches that are connected."""
        return frozenset(self._connected)

    async def connect(self) -> None:
        """Connect to all switches that are not, and check the port map against them.

        A switch that cannot be reached while others can is unreachable from then on.

        Raises
        ------
        SwitchError
            If none can be reached, or one refuses the login.
        PortMapError
            If the map does not fit a switch.
        """
        names = [name for name in self.active if name not in self._connected]
        await self._each(names, self._connect)

    async def _connect(self, name: str) -> None:
        description = await self.drivers[name].connect()
        self._port_map.check_switch(name, description)
        self.descriptions[name] = description
        self._connected.add(name)

    async def read_back(self, *, ports: bool = True) -> dict[str, Readback]:
        """Read all switches back, and their ports if they are needed.

        Raises
        ------
        SwitchError
            If one does not reply; it is connected again by :meth:`resync`.
        """
        names = self.active
        replies = await asyncio.gather(
            *(self._read_back(name, ports) for name in names), return_exceptions=True
        )
        readbacks: dict[str, Readback] = {}
        for name, reply in zip(names, replies, strict=True):
            if isinstance(reply, BaseException):
                raise reply
            readbacks[name] = reply
        return readbacks

    async def _each(
        self, names: Sequence[str], act: Callable[[str], Awaitable[Result]]
    ) -> dict[str, Result]:
        """Act on each switch; one that does not answer, while others do, is unreachable then."""
        replies = await asyncio.gather(*map(act, names), return_exceptions=True)
        results: dict[str, Result] = {}
        errors: dict[str, SwitchError] = {}
        for name, reply in zip(names, replies, strict=True):
            if isinstance(reply, SwitchError) and not isinstance(reply, LoginRefusedError):
                errors[name] = reply
            elif isinstance(reply, BaseException):
                raise reply
            else:
                results[name] = reply
        if errors and len(errors) == len(self.active):
            raise next(iter(errors.values()))
        self.unreachable |= errors
        return results

    async def reach(self, name: str) -> bool:
        """Try to connect to an unreachable switch; return whether it answers now.

        Raises
        ------
        PortMapError
            If the map does not fit it.
        """
        try:
            await self._connect(name)
        except SwitchError as error:
            self.unreachable[name] = error
            return False
        self.unreachable.pop(name, None)
        return True

    async def _read_back(self, name: str, ports: bool) -> Readback:
        began_s = asyncio.get_running_loop().time()
        try:
            readback = await self.drivers[name].read_back(ports=ports)
        except SwitchError:
            self._connected.discard(name)
            raise
        self.began_s[name] = began_s
        if not self._port_map.is_duplex:
            return readback
        canonical = {pair: self._port_map.canonical(name, pair) for pair in readback.cross_connects}
        states = {canonical.get(pair, pair): state for pair, state in readback.states.items()}
        return replace(readback, cross_connects=frozenset(canonical.values()), states=states)

    async def apply(self, commands: Mapping[str, SwitchChange]) -> SwitchReplies:
        """Send each switch its change; what goes wrong is in the reply."""
        if len(commands) == 1:
            ((name, change),) = commands.items()
            replies = [await self._apply(name, change)]
        else:
            replies = await asyncio.gather(
                *(self._apply(name, change) for name, change in commands.items())
            )
        results: dict[PlacedConnect, CircuitResult] = {}
        errors: dict[str, SwitchError] = {}
        for name, reply in zip(commands, replies, strict=True):
            if isinstance(reply, SwitchError):
                errors[name] = reply
            else:
                # creates come last: of a port that moved, what was created is what counts
                results |= {PlacedConnect(name, result.cross_connect): result for result in reply}
        return SwitchReplies(results, errors)

    async def _apply(
        self, name: str, change: SwitchChange
    ) -> tuple[CircuitResult, ...] | SwitchError:
        try:
            return await self.drivers[name].apply(change)
        except SwitchError as error:
            if error.state_unknown:
                self._connected.discard(name)
            return error

    async def resync(self) -> dict[str, Readback]:
        """Connect again where needed, and read back until nothing changes any more.

        A command that was sent before a connection was cut may still be executed: two equal
        readings are needed, with a quiet time between them and without pending cross-connects. A
        switch that does not settle in time, while others do, is unreachable from then on.

        Raises
        ------
        SwitchError
            If no switch can be reached and settles in time, or one refuses the login.
        PortMapError
            If the map does not fit a switch.
        """
        return await self._each(self.active, self._settled)

    async def _settled(self, name: str) -> Readback:
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        wait_s = self._quiet_s
        before: Readback | None = None
        while True:
            now: Readback | None = None
            problem: SwitchError = SwitchTimeoutError(
                f"the switch does not settle within {self._timeout_s:g} s"
            )
            try:
                if name not in self._connected:
                    await self._connect(name)
                now = await self._read_back(name, ports=True)
            except LoginRefusedError:
                raise
            except SwitchError as error:
                problem = error
            if now and before and _same(before, now):
                return now
            # who answers is read twice, however long that takes
            is_first = now is not None and before is None
            if not is_first and asyncio.get_running_loop().time() + wait_s > deadline:
                self._connected.discard(name)
                raise problem
            await asyncio.sleep(wait_s)
            before, wait_s = now, min(2 * wait_s, _MAX_WAIT_S)

    def watch(self, name: str) -> AsyncIterator[SwitchEvent]:
        """Yield what a switch reports on its own."""
        return self.drivers[name].watch()

    async def close(self) -> None:
        """Close all connections."""
        self._connected.clear()
        await asyncio.gather(
            *(driver.close() for driver in self.drivers.values()), return_exceptions=True
        )


def _same(before: Readback, now: Readback) -> bool:
    is_pending = CircuitState.PENDING in now.states.values()
    return before.cross_connects == now.cross_connects and not is_pending


def present_in(readbacks: Mapping[str, Readback]) -> dict[str, frozenset[CrossConnect]]:
    """Return the cross-connects by switch."""
    return {name: readback.cross_connects for name, readback in readbacks.items()}


def broken_in(readbacks: Mapping[str, Readback]) -> frozenset[PlacedConnect]:
    """Return the cross-connects that the switches have, but that carry no light."""
    return frozenset(
        PlacedConnect(name, connect)
        for name, readback in readbacks.items()
        for connect, state in readback.states.items()
        if state is not CircuitState.CONNECTED
    )


def in_order_of(
    port_map: PortMap,
    present: Mapping[str, frozenset[CrossConnect]],
    broken: frozenset[PlacedConnect],
) -> tuple[dict[str, frozenset[CrossConnect]], frozenset[PlacedConnect]]:
    """Return cross-connects by switch, and broken ones, as a port map orders their ends."""
    canonical = port_map.canonical
    turned = {
        name: frozenset(canonical(name, connect) for connect in connects)
        for name, connects in present.items()
    }
    return turned, frozenset(PlacedConnect(name, canonical(name, pair)) for name, pair in broken)


def has_pending(readbacks: Mapping[str, Readback]) -> bool:
    """Whether a switch is still busy with a cross-connect."""
    return any(CircuitState.PENDING in readback.states.values() for readback in readbacks.values())
