"""The TL1 commands for the power monitors and the alarms of an emulated Polatis switch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from lightloom.control.emulator.device import EmulatedSession, EmulatedSwitch
from lightloom.control.emulator.tl1_commands import CommandDeniedError, Tl1Command, Tl1Reply

if TYPE_CHECKING:
    from lightloom.control.emulator.polatis import Handler

#: wavelength in nm, offset in dB and averaging time (1 to 8 for 10 ms to 2 s) of a new monitor
_DEFAULTS = ("1550.0", "0.0", "4")
#: wavelengths that the optics pass
_WAVELENGTHS_NM = (1260.0, 1675.0)
_MAX_OFFSET_DB = 60.0
#: alarms of monitors, the worst first
_ALARM_KINDS = ("LOS", "DEGRADED")
#: no power is below this
_LOWEST_DBM = -100.0
_NUMBER = re.compile(r"-?[0-9]{1,6}(\.[0-9]{1,6})?")


PortsOf = Callable[[Tl1Command], list[int]]


class PortCommands:
    """Executes the commands that name ports.

    Parameters
    ----------
    switch
        The switch.
    ports_of
        Returns the ports that a command names.
    """

    def __init__(self, switch: EmulatedSwitch, ports_of: PortsOf) -> None:
        self._switch, self._ports_of = switch, ports_of


class MonitorCommands(PortCommands):
    """Executes the commands of monitors and alarms."""

    def __init__(self, switch: EmulatedSwitch, ports_of: PortsOf) -> None:
        super().__init__(switch, ports_of)
        self._settings: dict[int, tuple[str, str, str]] = {}
        #: power below which there is an alarm, by port and kind
        self._thresholds: dict[tuple[int, str], float] = {}
        self.handlers: dict[str, Handler] = {
            "RTRV-PORT-POWER": self._powers,
            "RTRV-PORT-PMON": self._monitors,
            "SET-PORT-PMON": self._set_monitors,
            "SET-TH-PMON": self._set_thresholds,
            "RTRV-TH-PMON": self._show_thresholds,
            "RTRV-STATE-PMON": self._states,
            "RTRV-ALM-ALL": self._alarms,
            "RTRV-ALM-EQPT": self._alarms,
            "RTRV-ALM-ENV": self._no_alarms,
        }

    async def _powers(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        matrix = self._switch.matrix
        ports = self._monitored(command)
        return Tl1Reply(rows=tuple(f"{port}:{matrix.power_dbm(port):.2f}" for port in ports))

    async def _monitors(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        settings = (
            (port, self._settings.get(port, _DEFAULTS)) for port in self._monitored(command)
        )
        return Tl1Reply(rows=tuple(f"{port}:{','.join(values)}" for port, values in settings))

    async def _set_monitors(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        ports, values = self._monitored(command), command.values
        if unknown := sorted(values.keys() - {"WAVE", "OFFSET", "ATIME"}):
            raise CommandDeniedError("IPNV", f"Unexpected parameter {unknown[0][:20]} in block 2")
        for port in ports:
            wave, offset, averaging = self._settings.get(port, _DEFAULTS)
            self._settings[port] = (
                _number(values.get("WAVE", wave), *_WAVELENGTHS_NM),
                _number(values.get("OFFSET", offset), -_MAX_OFFSET_DB, _MAX_OFFSET_DB),
                str(int(float(_number(values.get("ATIME", averaging), 1, 8)))),
            )
        return Tl1Reply()

    async def _set_thresholds(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        values = command.values
        kind = values.get("TYPE", "").upper()
        if kind not in _ALARM_KINDS or not values.keys() <= {"TYPE", "MODE", "LOW"}:
            raise CommandDeniedError("IPNV", "Parameter not valid")
        mode = values.get("MODE", "CONT").upper()
        if mode not in {"OFF", "SINGLE", "CONT"}:
            raise CommandDeniedError("IPNV", "Parameter not valid")
        for port in self._monitored(command):
            low = self._thresholds.get((port, kind), _LOWEST_DBM)
            low = float(_number(values.get("LOW", str(low)), -100.0, 30.0))
            self._thresholds[port, kind] = _LOWEST_DBM if mode == "OFF" else low
        return Tl1Reply()

    async def _show_thresholds(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        ports = set(self._monitored(command))
        thresholds = sorted((key, low) for key, low in self._thresholds.items() if key[0] in ports)
        return Tl1Reply(rows=tuple(f"{port}:{kind},{low:.1f}" for (port, kind), low in thresholds))

    async def _states(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        states = ((port, self._alarm(port) or "OK") for port in self._monitored(command))
        return Tl1Reply(rows=tuple(f"{port}:{state}" for port, state in states))

    def _alarm(self, port: int) -> str:
        """The worst alarm of a port, empty if there is none."""
        power, limits = self._switch.matrix.power_dbm(port), self._thresholds
        low = [kind for kind in _ALARM_KINDS if power < limits.get((port, kind), _LOWEST_DBM)]
        return low[0] if low else ""

    async def _alarms(self, _: Tl1Command, __: EmulatedSession) -> Tl1Reply:
        failed = [(port, "FAILED") for port in sorted(self._switch.matrix.failed)]
        lost = [(port, self._alarm(port)) for port in sorted(self._switch.monitored_ports)]
        return Tl1Reply(rows=tuple(f"{port}:{alarm}" for port, alarm in failed + lost if alarm))

    async def _no_alarms(self, _: Tl1Command, __: EmulatedSession) -> Tl1Reply:
        return Tl1Reply()

    def _monitored(self, command: Tl1Command) -> list[int]:
        """Return those of a command's ports that have a monitor."""
        monitored = self._switch.monitored_ports
        if not monitored:
            raise CommandDeniedError("IICM", "Unknown command")
        return [port for port in self._ports_of(command) if port in monitored]


def _number(text: str, low: float, high: float) -> str:
    """Return a number with a decimal point."""
    if not _NUMBER.fullmatch(text) or not low <= float(text) <= high:
        raise CommandDeniedError("IPNV", "Parameter not valid")
    return str(float(text))
