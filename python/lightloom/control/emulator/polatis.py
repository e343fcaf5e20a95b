"""The TL1 commands of an emulated Polatis switch: circuits, ports and light.

Texts and codes of refusals are those that public clients and tests of the vendor expect; where
they expect none (a repeated port, lists of unequal lengths, two ports of one side, a closed
shutter), the choice here is ours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from lightloom.control.emulator.device import EmulatedSession, EmulatedSwitch
from lightloom.control.emulator.matrix import (
    MatrixRefusalError,
    OpticalMatrix,
    Refusal,
)
from lightloom.control.emulator.polatis_attenuation import AttenuationCommands
from lightloom.control.emulator.polatis_monitors import MonitorCommands
from lightloom.control.emulator.polatis_system import SystemCommands
from lightloom.control.emulator.polatis_users import Privilege, UserCommands
from lightloom.control.emulator.tl1_commands import (
    CommandDeniedError,
    Tl1Command,
    Tl1Reply,
    ports_from,
    unquoted,
)

_ATTENTION = {
    Refusal.NO_SUCH_PORT: ("IDNV", "Invalid OXC port: {port}"),
    Refusal.WRONG_SIDE: ("IDNV", "Invalid OXC port: {port}"),
    Refusal.REPEATED: ("IDNV", "Port {port} repeated"),
    Refusal.BUSY: ("SROF", "Port {port} in use"),
    Refusal.DISABLED: ("SSTP", "Port {port} disabled"),
    Refusal.FAILED: ("SROF", "Port {port} failed"),
}
#: longest label, and the characters that are not letters or digits
_MAX_LABEL = 20
_LABEL_CHARACTERS = set(" _-.")

#: what users may do who may only look
_OF_SESSION = {"ACT-USER", "CANC-USER", "ED-SECU-PID", "OPR-ARC-EQPT", "RLS-ARC-EQPT"}

Handler = Callable[[Tl1Command, EmulatedSession], Awaitable[Tl1Reply]]


class PolatisDialect:
    """Executes the TL1 commands of a Polatis switch."""

    changes = frozenset({"ENT-PATCH", "DLT-PATCH"})
    report_name = "REPT EVT EQPT"
    needs_tag = True

    def __init__(self, switch: EmulatedSwitch) -> None:
        self._switch, self._users = switch, UserCommands(switch)
        self._handlers: dict[str, Handler] = {
            "ENT-PATCH": self._connect,
            "DLT-PATCH": self._disconnect,
            "RTRV-PATCH": self._circuits,
            "OPR-PORT-SHUTTER": self._close_shutters,
            "RLS-PORT-SHUTTER": self._open_shutters,
            "RTRV-PORT-SHUTTER": self._shutters,
            "ED-PORT-LABEL": self._set_labels,
            "DLT-PORT-LABEL": self._delete_labels,
            "RTRV-PORT-LABEL": self._labels,
            **SystemCommands(switch).handlers,
            **self._users.handlers,
            **AttenuationCommands(switch, self._ports).handlers,
            **MonitorCommands(switch, self._ports).handlers,
        }

    @property
    def _matrix(self) -> OpticalMatrix:
        return self._switch.matrix

    def report_text(self, text: str) -> str:
        """Return a report as it is: ports have numbers."""
        return text

    async def handle(self, command: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        """Execute a command; raise :class:`CommandDeniedError` to refuse it."""
        handler = self._handlers.get(command.verb)
        if handler is None:
            raise CommandDeniedError("IICM", "Unknown command")
        if not session.user and command.verb != "ACT-USER":
            raise CommandDeniedError("PLNA", "Not logged in")
        is_reading = command.verb.startswith("RTRV-") or command.verb in _OF_SESSION
        if not is_reading and self._users.privilege(session.user) is Privilege.VIEW:
            raise CommandDeniedError("PICC", "Permission denied")
        return await handler(command, session)

    async def _connect(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        sides = command.aid.split(",")
        if len(sides) != 2 or not all(side.strip() for side in sides):
            raise CommandDeniedError("IIAC", "Empty parameters")
        ingress, egress = map(ports_from, sides)
        if len(ingress) != len(egress):
            raise CommandDeniedError("IIAC", "Unequal port lists")
        pairs = [(min(pair), max(pair)) for pair in zip(ingress, egress, strict=True)]
        return await self._change([], pairs)

    async def _disconnect(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        return await self._change(self._ports(command), [])

    async def _change(self, deletes: list[int], creates: list[tuple[int, int]]) -> Tl1Reply:
        try:
            await self._switch.change(deletes, creates)
        except MatrixRefusalError as error:
            code, text = _ATTENTION[error.reason]
            raise CommandDeniedError(code, text.format(port=error.port)) from None
        return Tl1Reply()

    async def _circuits(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        wanted = set(self._ports(command))
        pairs = self._matrix.circuits.items()
        return Tl1Reply(rows=tuple(f"{a},{b}" for a, b in pairs if a in wanted or b in wanted))

    async def _close_shutters(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        self._switch.set_shutters(self._ports(command), is_open=False)
        return Tl1Reply()

    async def _open_shutters(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        self._switch.set_shutters(self._ports(command), is_open=True)
        return Tl1Reply()

    async def _shutters(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        closed = self._matrix.disabled
        return Tl1Reply(
            rows=tuple(
                f"{port}:{'CLOSED' if port in closed else 'OPEN'}" for port in self._ports(command)
            )
        )

    async def _set_labels(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        labels = [unquoted(label) for label in command.values.get("LABEL", "").split("&")]
        ports = self._ports(command)
        if len(labels) != len(ports):
            raise CommandDeniedError("IPNV", "Parameter not valid")
        for label in labels:
            characters = {character for character in label if not character.isalnum()}
            if not 0 < len(label) <= _MAX_LABEL or not characters <= _LABEL_CHARACTERS:
                raise CommandDeniedError("IPNV", "Parameter not valid")
        self._switch.labels |= dict(zip(ports, labels, strict=True))
        return Tl1Reply()

    async def _delete_labels(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        for port in self._ports(command):
            self._switch.labels.pop(port, None)
        return Tl1Reply()

    async def _labels(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        labels = self._switch.labels
        return Tl1Reply(
            rows=tuple(f"{port}:{labels.get(port, '')}" for port in self._ports(command))
        )

    def _ports(self, command: Tl1Command) -> list[int]:
        """Return the ports that an access identifier names; all if it is empty."""
        aid = command.aid.strip()
        if not aid or aid.upper() == "ALL":
            return list(self._matrix.ports)
        ports = ports_from(aid)
        for port in ports:
            if port not in self._matrix.ports:
                raise CommandDeniedError("IDNV", f"Invalid OXC port: {port}")
        return ports
