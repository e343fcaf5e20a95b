"""Polatis switches by TL1, over TCP port 3082 or SSH port 6252.

One session carries commands, one at a time, with reports silenced; :meth:`PolatisTl1.watch` opens
a second one for reports. A change is at most two commands: ``DLT-PATCH`` for circuits whose ports
both become free, then one ``ENT-PATCH`` with lists of ports, which moves circuits of busy ports.
Ports are numbers, ingress 1 to N, egress N + 1 to N + M.

Never met real hardware: everything here. The commands, their replies and error codes are those
that public clients and tests of the vendor use. No source says whether a list of pairs is made as
a whole or up to the first bad one, whether ``COMPLD`` means accepted or settled, how long a
command may be, what a report looks like, or what becomes of the other port of a moved circuit
(here: it is free). The caller therefore reads back. Reply code lines are accepted with any
indentation, an acknowledgment (``IP``) extends the time-out, and ``max_pairs`` and ``moves`` of
the settings cover switches that differ.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache, partial

from lightloom.control.drivers.changes import ChangeCommand, commands_of
from lightloom.control.drivers.options import DriverSettings, SwitchAddress
from lightloom.control.drivers.polatis import port_statuses, sides_of
from lightloom.control.drivers.streams import ByteStream, open_ssh, open_tcp
from lightloom.control.drivers.tl1 import Tl1Message
from lightloom.control.drivers.tl1_driver import Tl1Driver, matched
from lightloom.control.drivers.tl1_session import Tl1Session
from lightloom.control.switch import (
    CrossConnect,
    Port,
    PortStatus,
    Readback,
    SwitchChange,
    SwitchDescription,
    SwitchFeature,
    SwitchProtocolError,
    UnsupportedCommandError,
)
from lightloom.errors import InputError, echo

TCP_PORT = 3082
SSH_PORT = 6252

_PAIR = re.compile(r"(\d+),(\d+)")
_SIZE = re.compile(r"SYSTEM:SIZE=(\d+)x(\d+)")
_SERIAL = re.compile(r"\bSN=(\w+)")
_SHUTTER = re.compile(r"(\d+):(OPEN|CLOSED)")
_POWER = re.compile(r"(\d+):\s*([-+]?\d+(?:\.\d+)?)")
_FEATURES = {
    SwitchFeature.LISTS,
    SwitchFeature.POWER,
    SwitchFeature.SHUTTERS,
    SwitchFeature.EVENTS,
}


class PolatisTl1(Tl1Driver):
    """Driver of one Polatis switch by TL1.

    Parameters
    ----------
    address
        Host, port, user and password.
    settings
        Time-outs and what the switch can do.
    is_encrypted
        Whether the session runs inside SSH.
    """

    harmless = "RTRV-HDR"
    permission = ("RLS-ARC-EQPT", "REPMGR")
    port_in_text = re.compile(r"\bport (\d+)\b", re.IGNORECASE)

    def __init__(
        self, address: SwitchAddress, settings: DriverSettings, *, is_encrypted: bool = False
    ) -> None:
        super().__init__(address, settings, is_encrypted=is_encrypted)
        self._monitors_power = True

    async def read_back(self, *, ports: bool = True) -> Readback:
        """Return all circuits and, on request, shutters and power of all ports."""
        circuits = _circuits_of((await self.session.command("RTRV-PATCH")).rows)
        return Readback(circuits, ports=await self._ports(circuits) if ports else ())

    async def _commands(self, change: SwitchChange) -> list[ChangeCommand]:
        session = self.session

        def delete(batch: Sequence[CrossConnect]) -> Callable[[], Awaitable[object]]:
            return partial(session.command, "DLT-PATCH", _ports_of(batch))

        def create(batch: Sequence[CrossConnect]) -> Callable[[], Awaitable[object]]:
            target = f"{_ports_of(batch)},{'&'.join(connect.egress for connect in batch)}"
            return partial(session.command, "ENT-PATCH", target)

        return commands_of(change, self._settings, delete, create)

    async def set_shutters(self, ports: Iterable[Port], *, is_open: bool) -> None:
        """Open or close the shutters of ports.

        Raises
        ------
        SwitchDeniedError
            If the switch refuses, such as for a port that it does not have.
        """
        sides = self._connected().ports
        ports = tuple(ports)
        if unknown := [port for port in ports if port not in sides]:
            raise InputError(f"shutters: the switch has no port {echo(unknown[0])}")
        verb = "RLS-PORT-SHUTTER" if is_open else "OPR-PORT-SHUTTER"
        await self.session.command(verb, "&".join(ports))

    async def _stream(self) -> ByteStream:
        address, limit_s = self._address, self._settings.connect_timeout_s
        if not self._is_encrypted:
            return await open_tcp(address.host, address.port, limit_s)
        return await open_ssh(
            (address.host, address.port),
            address.credentials,
            known_hosts=self._settings.known_hosts or None,
            timeout_s=limit_s,
        )

    async def _describe(self, session: Tl1Session) -> SwitchDescription:
        await session.command("OPR-ARC-EQPT", "REPMGR", ":IND")
        network_element = _first_row(await session.command("RTRV-NETYPE"))
        vendor, model, _, software = (*map(str.strip, network_element.split(",", 3)), "", "", "")[
            :4
        ]
        inventory = " ".join((await session.command("RTRV-INV", "OCS")).rows)
        serial = _SERIAL.search(inventory)
        size_row = _first_row(await session.command("RTRV-EQPT", "SYSTEM", "::PARAMETER=SIZE"))
        rows, columns = map(int, matched(_SIZE, size_row).groups())
        features = _FEATURES | ({SwitchFeature.MOVES} if self._settings.moves else set())
        return SwitchDescription(
            vendor=vendor,
            model=model,
            serial=serial[1] if serial else "",
            size=(rows, columns),
            ports=sides_of((rows, columns)),
            features=frozenset(features),
            software=software,
            name=session.sid,
        )

    async def _ports(self, circuits: Iterable[CrossConnect]) -> tuple[PortStatus, ...]:
        session, sides = self.session, self._connected().ports
        everything = f"1&&{len(sides)}"
        shutters = {
            match[1]: match[2]
            for row in (await session.command("RTRV-PORT-SHUTTER", everything)).rows
            if (match := _SHUTTER.fullmatch(row.strip()))
        }
        powers = await self._powers(session, everything)
        closed = [port for port, state in shutters.items() if state == "CLOSED"]
        return port_statuses(sides, circuits, powers, closed)

    async def _powers(self, session: Tl1Session, ports: str) -> dict[Port, float]:
        """Return the power of every port with a monitor; none if the switch has no monitors."""
        if not self._monitors_power:
            return {}
        try:
            rows = (await session.command("RTRV-PORT-POWER", ports)).rows
        except UnsupportedCommandError:
            self._monitors_power = False
            return {}
        matches = (_POWER.fullmatch(row.strip()) for row in rows)
        return {match[1]: float(match[2]) for match in matches if match}


@lru_cache(maxsize=64)
def _circuits_of(rows: tuple[str, ...]) -> frozenset[CrossConnect]:
    """Return the circuits of rows; most readings are as the one before."""
    return frozenset(CrossConnect(*matched(_PAIR, row).groups()) for row in rows)


def _ports_of(cross_connects: Iterable[CrossConnect]) -> str:
    """Return the ingress ports as a list."""
    return "&".join(connect.ingress for connect in cross_connects)


def _first_row(message: Tl1Message) -> str:
    if not message.rows:
        raise SwitchProtocolError("the switch sent a reply without its row")
    return message.rows[0]
