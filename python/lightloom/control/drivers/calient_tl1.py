"""Calient switches by TL1 over TCP port 3082.

A circuit is a named connection: ``ENT-CRS`` enters it, ``ACT-CRS`` makes it; ``CANC-CRS`` breaks
it, ``DLT-CRS`` removes it. Every port is a pair of fibers, so that any port may be ingress and
egress; its name is dotted, or a plain number: ``2.8.5>2.3.3`` is one directed circuit,
``2.8.5-2.3.3`` both directions. Two crossed cross-connects of one change become one connection of
both directions, and a connection of both directions is read back as two cross-connects, which can
only be deleted together. Commands take one connection each, and a busy port must be freed first.

Never met real hardware: everything here. Commands and rows are those of public clients and of
recorded sessions. No source at hand gives the error codes, the states of a connection (``OS`` other
than ``RDY`` is taken as pending, ``OC`` other than ``OK`` as failed) or the form of reports.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from lightloom.control.drivers.changes import ChangeCommand
from lightloom.control.drivers.streams import ByteStream, open_tcp
from lightloom.control.drivers.tl1_driver import Tl1Driver, matched
from lightloom.control.drivers.tl1_session import Tl1Session
from lightloom.control.switch import (
    CircuitState,
    CrossConnect,
    Port,
    PortSide,
    PortState,
    PortStatus,
    Readback,
    SwitchChange,
    SwitchDeniedError,
    SwitchDescription,
    SwitchFeature,
)
from lightloom.errors import InputError

#: group of the connections that this driver makes
GROUP = "lightloom"
#: shelf, card and port, or a plain number
_PORT = r"\d{1,5}(?:\.\d{1,3}\.\d{1,3})?"
_CONNECTION = re.compile(rf"(?P<a>{_PORT})(?P<direction>[->])(?P<b>{_PORT}):(?P<values>.*)")
_PORT_ROW = re.compile(rf"(?P<port>{_PORT}):.*")
_VALUE = re.compile(r"(?<!\w)(\w+)=([^,:]*)")
_FEATURES = frozenset({SwitchFeature.POWER, SwitchFeature.EVENTS, SwitchFeature.CIRCUIT_STATES})


class CalientTl1(Tl1Driver):
    """Driver of one Calient switch by TL1.

    Parameters
    ----------
    address
        Host, port, user and password.
    settings
        Time-outs.
    """

    harmless = "RTRV-NE"
    permission = ("ALW-MSG", "")
    port_in_text = re.compile(r"\b\d{1,5}\.\d{1,3}\.\d{1,3}\b|(?<=\b[Pp]ort )\d{1,5}\b")

    async def _stream(self) -> ByteStream:
        address = self._address
        return await open_tcp(address.host, address.port, self._settings.connect_timeout_s)

    async def _describe(self, session: Tl1Session) -> SwitchDescription:
        await session.command("INH-MSG")
        identity = (await session.command("RTRV-NE")).rows
        rows = (await session.command("RTRV-PORT", "0")).rows
        ports = {matched(_PORT_ROW, row)["port"]: PortSide.ANY for row in rows}
        values = dict(_VALUE.findall(" ".join(identity)))
        return SwitchDescription(
            vendor="CALIENT",
            model=values.get("MODEL", ""),
            serial=values.get("SN", ""),
            size=(len(ports), len(ports)),
            ports=ports,
            features=_FEATURES,
            software=values.get("SWVER", ""),
            name=session.sid,
        )

    async def read_back(self, *, ports: bool = True) -> Readback:
        """Return all circuits with their states and, on request, the power of all ports."""
        states = await self._states()
        return Readback(frozenset(states), states, await self._ports(states) if ports else ())

    async def _commands(self, change: SwitchChange) -> list[ChangeCommand]:
        session = self.session
        connections = await self._connections() if change.deletes else {}
        commands = []
        for name, deleted in _grouped(change.deletes, connections).items():
            commands.append(ChangeCommand(_breaker(session, name), deletes=deleted))
        remaining = list(change.creates)
        while remaining:
            connect = remaining.pop(0)
            crossed = CrossConnect(connect.egress, connect.ingress)
            circuit = (connect, crossed) if crossed in remaining else (connect,)
            remaining = [other for other in remaining if other not in circuit]
            commands.append(ChangeCommand(_maker(session, circuit), creates=circuit))
        return commands

    async def _connections(self) -> dict[str, tuple[tuple[CrossConnect, ...], CircuitState]]:
        """Return the cross-connects and the state of every connection, by its name."""
        connections = {}
        for row in (await self.session.command("RTRV-CRS", "", ":ALL")).rows:
            match = matched(_CONNECTION, row)
            circuits = [CrossConnect(match["a"], match["b"])]
            if match["direction"] == "-":
                circuits.append(CrossConnect(match["b"], match["a"]))
            values = dict(_VALUE.findall(match["values"]))
            name = f"{match['a']}{match['direction']}{match['b']}"
            connections[name] = (tuple(circuits), _state(values))
        return connections

    async def _states(self) -> dict[CrossConnect, CircuitState]:
        connections = (await self._connections()).values()
        return {connect: state for circuits, state in connections for connect in circuits}

    async def _ports(self, states: dict[CrossConnect, CircuitState]) -> tuple[PortStatus, ...]:
        summaries = {}
        for row in (await self.session.command("RTRV-PORT-SUM", "0")).rows:
            port = matched(_PORT_ROW, row)["port"]
            summaries[port] = dict(_VALUE.findall(row))
        tuned = {port for connect in states for port in (connect.ingress, connect.egress)}
        return tuple(
            PortStatus(
                port,
                side,
                state=PortState.TUNED if port in tuned else PortState.BLOCKED,
                power_dbm=_power(summaries.get(port, {}).get("OUTPWR", "")),
                loss_db=_loss(port, states, summaries),
            )
            for port, side in self._connected().ports.items()
        )


def _state(values: dict[str, str]) -> CircuitState:
    """Return the state that a connection's attributes give."""
    if values.get("OC", "OK") != "OK":
        return CircuitState.FAILED
    return CircuitState.CONNECTED if values.get("OS", "RDY") == "RDY" else CircuitState.PENDING


def _power(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _loss(
    port: Port,
    states: dict[CrossConnect, CircuitState],
    summaries: dict[Port, dict[str, str]],
) -> float | None:
    """Return the loss of the circuit that leaves by a port."""
    for connect in states:
        if connect.egress == port:
            entered = _power(summaries.get(connect.ingress, {}).get("INPWR", ""))
            left = _power(summaries.get(port, {}).get("OUTPWR", ""))
            return None if entered is None or left is None else round(entered - left, 3)
    return None


def _grouped(
    deletes: tuple[CrossConnect, ...],
    connections: dict[str, tuple[tuple[CrossConnect, ...], CircuitState]],
) -> dict[str, tuple[CrossConnect, ...]]:
    """Return the cross-connects to delete by the name of their connection.

    Raises
    ------
    InputError
        If only one direction of a connection of both is to be deleted.
    """
    wanted = set(deletes)
    names = {pair: name for name, (circuits, _) in connections.items() for pair in circuits}
    grouped: dict[str, tuple[CrossConnect, ...]] = {}
    for pair in deletes:
        name = names.get(pair, f"{pair.ingress}>{pair.egress}")
        circuits = connections[name][0] if name in connections else (pair,)
        if not wanted >= set(circuits):
            raise InputError(
                f"cross-connect {pair} is one direction of {name}; delete both directions together"
            )
        grouped[name] = circuits
    return grouped


def _breaker(session: Tl1Session, name: str) -> Callable[[], Awaitable[object]]:
    """Return what breaks and removes a connection; one that is not active is only removed."""
    target = re.sub("[->]", ",", name)

    async def send() -> None:
        try:
            await session.command("CANC-CRS", target, f":{name},{GROUP}")
        except SwitchDeniedError:
            await session.command("DLT-CRS", target, f":{name},{GROUP}")
        else:
            await session.command("DLT-CRS", target, f":{name},{GROUP}")

    return send


def _maker(session: Tl1Session, way: tuple[CrossConnect, ...]) -> Callable[[], Awaitable[object]]:
    """Return what enters and makes a connection of one or both directions."""
    connect, is_duplex = way[0], len(way) == 2
    target = f"{connect.ingress},{connect.egress}"
    name = f"{connect.ingress}{'-' if is_duplex else '>'}{connect.egress}"

    async def send() -> None:
        await session.command("ENT-CRS", target, f":{GROUP},{'2WAY' if is_duplex else '1WAY'}")
        await session.command("ACT-CRS", target, f":{name},{GROUP}")

    return send
