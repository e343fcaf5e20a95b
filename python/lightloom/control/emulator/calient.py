"""The TL1 commands of an emulated Calient switch.

Port number ``i`` of N is a pair of fibers: ingress ``i`` and egress ``N + i`` of the matrix. A
connection is entered, then activated; it is canceled, then deleted. Codes of refusals are ours: no
source at hand gives them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from lightloom.control.emulator.device import EmulatedSession, EmulatedSwitch
from lightloom.control.emulator.matrix import MatrixRefusalError, Refusal
from lightloom.control.emulator.tl1_commands import (
    CommandDeniedError,
    Tl1Command,
    Tl1Reply,
    unquoted,
)

_PORT = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})")
_CODES = {
    Refusal.NO_SUCH_PORT: "IDNV",
    Refusal.WRONG_SIDE: "IDNV",
    Refusal.REPEATED: "IDNV",
    Refusal.BUSY: "SROF",
    Refusal.DISABLED: "SSTP",
    Refusal.FAILED: "SROF",
}


@dataclass(frozen=True, slots=True)
class _Connection:
    """A connection that was entered."""

    source: int
    destination: int
    is_duplex: bool
    group: str
    label: str


class CalientDialect:
    """Executes the TL1 commands of a Calient switch."""

    changes = frozenset({"ENT-CRS", "ACT-CRS", "CANC-CRS", "DLT-CRS", "DLT-CRS-ALL"})
    report_name = "REPT EVT COM"
    needs_tag = False

    def __init__(self, switch: EmulatedSwitch) -> None:
        self._switch = switch
        self._entered: dict[str, _Connection] = {}
        self._handlers: dict[str, Callable[[Tl1Command, EmulatedSession], Awaitable[Tl1Reply]]] = {
            "ACT-USER": self._log_in,
            "CANC-USER": self._log_out,
            "INH-MSG": self._silence,
            "ALW-MSG": self._report,
            "RTRV-NE": self._network_element,
            "RTRV-PORT": self._ports,
            "RTRV-PORT-SUM": self._summaries,
            "ENT-CRS": self._enter,
            "ACT-CRS": self._activate,
            "CANC-CRS": self._cancel,
            "DLT-CRS": self._delete,
            "DLT-CRS-ALL": self._delete_all,
            "RTRV-CRS": self._connections,
        }

    @property
    def _num_ports(self) -> int:
        return self._switch.matrix.size[0]

    def _port_name(self, port: int) -> str:
        return str(port) if self._switch.has_plain_ports else port_name(port)

    def _name(self, entered: _Connection) -> str:
        direction = "-" if entered.is_duplex else ">"
        ends = map(self._port_name, (entered.source, entered.destination))
        return direction.join(ends)

    def report_text(self, text: str) -> str:
        """Return a report with dotted names of ports."""
        return re.sub(r"(?<=[Pp]ort )\d+", lambda match: self._port_name(int(match[0])), text)

    async def handle(self, command: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        """Execute a command; raise :class:`CommandDeniedError` to refuse it."""
        handler = self._handlers.get(command.verb)
        if handler is None:
            raise CommandDeniedError("IICM", "Input, Invalid Command")
        if not session.user and command.verb != "ACT-USER":
            raise CommandDeniedError("PLNA", "Not logged in")
        return await handler(command, session)

    async def _log_in(self, command: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        password = unquoted(command.blocks[0]) if command.blocks else ""
        if not self._switch.is_user(unquoted(command.aid), password):
            raise CommandDeniedError("PIUI", "Privilege, Illegal User Identity")
        session.user = unquoted(command.aid)
        return Tl1Reply()

    async def _log_out(self, _: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        session.user = ""
        return Tl1Reply()

    async def _silence(self, _: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        session.wants_reports = False
        return Tl1Reply()

    async def _report(self, _: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        session.wants_reports = True
        return Tl1Reply()

    async def _network_element(self, _: Tl1Command, __: EmulatedSession) -> Tl1Reply:
        identity = self._switch.identity
        row = f"{identity.vendor}:MODEL={identity.model},SN={identity.serial}"
        return Tl1Reply(rows=(f"{row},SWVER={identity.software}",))

    async def _ports(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        rows = (f"{self._port_name(port)}:WX,NONE,NONE:INAS=IS" for port in self._selected(command))
        return Tl1Reply(rows=tuple(rows))

    async def _summaries(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        matrix = self._switch.matrix
        rows = []
        for port in self._selected(command):
            power = ""
            if port in self._switch.monitored_ports:
                entering = matrix.power_dbm(port)
                leaving = matrix.power_dbm(port + self._num_ports)
                power = f"INPWR={entering:.2f},OUTPWR={leaving:.2f},"
            used = port in matrix.circuits or matrix.peer_of(port + self._num_ports) is not None
            rows.append(f"{self._port_name(port)}:{power}CONNSTATE1={'ACT' if used else 'NONE'}")
        return Tl1Reply(rows=tuple(rows))

    async def _enter(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        source, destination = self._pair(command)
        group, kind, label, *_rest = (*",".join(command.blocks).split(","), "", "", "")
        if kind.upper() not in {"1WAY", "2WAY"}:
            raise CommandDeniedError("IDNV", "Input, Data Not Valid")
        entered = _Connection(source, destination, kind.upper() == "2WAY", group, label)
        taken = {
            fiber for other in self._present() for pair in self._pairs_of(other) for fiber in pair
        }
        if taken & {fiber for pair in self._pairs_of(entered) for fiber in pair}:
            raise CommandDeniedError("SAOP", f"a port of {self._name(entered)} is in a connection")
        self._entered[self._name(entered)] = entered
        return Tl1Reply()

    async def _activate(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        entered = self._named(command)
        try:
            await self._switch.change([], self._pairs_of(entered))
        except MatrixRefusalError as error:
            port = (error.port - 1) % self._num_ports + 1
            text = f"port {self._port_name(port)} {error.reason}"
            raise CommandDeniedError(_CODES[error.reason], text) from None
        return Tl1Reply()

    async def _cancel(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        entered = self._named(command)
        circuits = self._switch.matrix.circuits
        active = [a for a, b in self._pairs_of(entered) if circuits.get(a) == b]
        if not active:
            raise CommandDeniedError("SNAC", f"{self._name(entered)} is not active")
        await self._switch.change(active, [])
        return Tl1Reply()

    async def _delete(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        entered = self._named(command)
        circuits = self._switch.matrix.circuits
        if any(circuits.get(a) == b for a, b in self._pairs_of(entered)):
            raise CommandDeniedError("SAOP", f"{self._name(entered)} is active")
        self._entered.pop(self._name(entered), None)
        return Tl1Reply()

    async def _delete_all(self, _: Tl1Command, __: EmulatedSession) -> Tl1Reply:
        await self._switch.change(list(self._switch.matrix.circuits), [])
        self._entered.clear()
        return Tl1Reply()

    async def _connections(self, _: Tl1Command, __: EmulatedSession) -> Tl1Reply:
        """List what was entered, and circuits that someone else made."""
        matrix = self._switch.matrix
        circuits = matrix.circuits
        rows = []
        for entered in self._present():
            pairs = self._pairs_of(entered)
            is_active = all(circuits.get(a) == b for a, b in pairs)
            has_failed = bool({port for pair in pairs for port in pair} & matrix.failed)
            rows.append(self._row(entered, is_active, has_failed=has_failed))
        return Tl1Reply(rows=tuple(rows))

    def _present(self) -> list[_Connection]:
        """Return what was entered, and circuits that someone else made."""
        circuits = self._switch.matrix.circuits
        entered = list(self._entered.values())
        for a, b in (pair for connection in entered for pair in self._pairs_of(connection)):
            if circuits.get(a) == b:
                del circuits[a]
        return [*entered, *(self._foreign(a, b) for a, b in circuits.items())]

    def _row(self, entered: _Connection, is_active: bool, *, has_failed: bool) -> str:
        """Return the row of a connection."""
        values = {
            "SRCPORT": self._port_name(entered.source),
            "DSTPORT": self._port_name(entered.destination),
            "GRPNAME": entered.group,
            "CONNNAME": entered.label,
            "CONNTYPE": "2WAY" if entered.is_duplex else "1WAY",
            "AS": "UMA",
            "OS": "RDY" if is_active else "OOS",
            "OC": "FAIL" if has_failed else "OK",
            "PS": "UPR",
            "AL": "CL",
        }
        return (
            f"{self._name(entered)}:{','.join(f'{name}={value}' for name, value in values.items())}"
        )

    def _foreign(self, ingress: int, egress: int) -> _Connection:
        return _Connection(ingress, egress - self._num_ports, False, "OTHER", "")

    def _pairs_of(self, entered: _Connection) -> list[tuple[int, int]]:
        """Return the circuits of a connection as the matrix numbers them."""
        pairs = [(entered.source, entered.destination + self._num_ports)]
        if entered.is_duplex:
            pairs.append((entered.destination, entered.source + self._num_ports))
        return pairs

    def _selected(self, command: Tl1Command) -> list[int]:
        """Return the ports that a command is about; all if it says 0 or nothing."""
        if command.aid.strip() in {"", "0"}:
            return list(range(1, self._num_ports + 1))
        return [self._port(command.aid)]

    def _port(self, text: str) -> int:
        match = _PORT.fullmatch(text.strip())
        if match is not None:
            port = port_number(*map(int, match.groups()))
            if 1 <= port <= self._num_ports and self._port_name(port) == text.strip():
                return port
        if self._switch.has_plain_ports and re.fullmatch(r"[0-9]{1,5}", text.strip()):
            port = int(text)
            if 1 <= port <= self._num_ports:
                return port
        raise CommandDeniedError("IDNV", f"Invalid port {text[:20]}")

    def _pair(self, command: Tl1Command) -> tuple[int, int]:
        source, comma, destination = command.aid.partition(",")
        if not comma:
            raise CommandDeniedError("IIAC", "Input, Invalid Access identifier")
        return self._port(source), self._port(destination)

    def _named(self, command: Tl1Command) -> _Connection:
        """Return the connection that a command names, one that someone else made included."""
        fields = ",".join((command.general, *command.blocks)).split(",")
        name = next(filter(None, map(str.strip, fields)), "")
        if command.aid.strip():
            source, destination = self._pair(command)
        else:
            # a client gives the name alone: ACT-CRS::::1.1.1-1.1.2
            ends = re.split("[->]", name)
            if len(ends) != 2:
                raise CommandDeniedError("IIAC", "Input, Invalid Access identifier")
            source, destination = map(self._port, ends)
        if name in self._entered:
            return self._entered[name]
        if self._switch.matrix.circuits.get(source) == destination + self._num_ports:
            return self._foreign(source, destination + self._num_ports)
        raise CommandDeniedError("IDNV", f"{name[:40]} does not exist")


def port_name(port: int) -> str:
    """Return shelf, card and port of a port's number, eight ports per card, eight cards a shelf."""
    shelf, rest = divmod(port - 1, 64)
    return f"{shelf + 1}.{rest // 8 + 1}.{rest % 8 + 1}"


def port_number(shelf: int, card: int, port: int) -> int:
    """Return the number of a port, the inverse of :func:`port_name`."""
    return (shelf - 1) * 64 + (card - 1) * 8 + port
