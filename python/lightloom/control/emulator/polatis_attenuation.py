"""The TL1 commands for the attenuators and the flaps of an emulated Polatis switch.

An attenuator limits the power that leaves an egress port; a flap is a shutter that blocks the light
of a port for a while, once or again and again. Modes, ranges and fields are those of public clients
and of the published YANG modules; the last field of a flap, its status, is a choice.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightloom.control.emulator.device import EmulatedSession, EmulatedSwitch
from lightloom.control.emulator.matrix import DARK_DBM
from lightloom.control.emulator.polatis_monitors import PortCommands, PortsOf
from lightloom.control.emulator.tl1_commands import (
    CommandDeniedError,
    Tl1Command,
    Tl1Reply,
    ports_from,
)

if TYPE_CHECKING:
    from lightloom.control.emulator.polatis import Handler

#: modes in their short form, and what each begins with
_MODES = {
    "NONE": "NONE",
    "FIX": "FIX",
    "MAX": "MAX",
    "ABS": "ABSOLUTE",
    "CONV": "CONVERGED",
    "REL": "RELATIVE",
}
_WITH_LEVEL = {"ABS", "CONV", "REL"}
_LEVEL = re.compile(r"\(?(-?[0-9]{1,3}(?:\.[0-9]{1,3})?)\)?")
_HIGHEST_DBM = 25.0
#: least and most time for which a flap blocks and restores, in ms, and number of cycles
_RANGES = ((10, 10_000), (500, 30_000), (0, 10**6))


@dataclass(frozen=True, slots=True)
class _Attenuation:
    """What an attenuator is set to."""

    mode: str
    level: float | None = None
    reference: int | None = None

    def row(self, port: int) -> str:
        level = "" if self.level is None else f"{self.level:.1f}"
        return f"{port}:{self.mode},{level},{self.reference or ''}"


class AttenuationCommands(PortCommands):
    """Executes the commands of attenuators and flaps."""

    def __init__(self, switch: EmulatedSwitch, ports_of: PortsOf) -> None:
        super().__init__(switch, ports_of)
        self._attenuations: dict[int, _Attenuation] = {}
        #: blocking and restoring time in ms, and number of cycles, by port
        self._flaps: dict[int, tuple[int, int, int]] = {}
        self._active: dict[int, asyncio.Task[None]] = {}
        self.handlers: dict[str, Handler] = {
            "SET-PORT-ATTEN": self._set,
            "RTRV-PORT-ATTEN": self._show,
            "ENT-PORT-FLAP": self._enter_flap,
            "RTRV-PORT-FLAP": self._show_flaps,
            "OPR-PORT-FLAP": self._start_flap,
            "RLS-PORT-FLAP": self._stop_flap,
        }

    async def _set(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        values, matrix = command.values, self._switch.matrix
        ports = self._ports_of(command)
        if unknown := sorted(values.keys() - {"MODE", "LEVEL", "REFS"}):
            raise CommandDeniedError("IPNV", f"Unexpected parameter {unknown[0][:20]} in block 2")
        mode = _mode_of(values.get("MODE", ""))
        level = _level_of(values.get("LEVEL", "")) if "LEVEL" in values else None
        if (level is not None) != (mode in _WITH_LEVEL) or ("REFS" in values and mode != "REL"):
            raise CommandDeniedError("IPNV", "Parameter not valid")
        references = ports_from(values["REFS"]) if "REFS" in values else []
        if references and len(references) != len(ports):
            raise CommandDeniedError("IPNV", "Parameter not valid")
        for port in ports:
            if matrix.is_ingress(port):
                raise CommandDeniedError("IDNV", f"Invalid OXC port: {port}")
        for index, port in enumerate(ports):
            reference = references[index] if references else matrix.peer_of(port)
            attenuation = _Attenuation(mode, level, reference if mode == "REL" else None)
            self._limit(port, attenuation)
            self._attenuations[port] = attenuation
        return Tl1Reply()

    def _limit(self, port: int, given: _Attenuation) -> None:
        """Limit the power of a port."""
        limits, matrix = self._switch.matrix.limits_dbm, self._switch.matrix
        if given.mode == "NONE":
            limits.pop(port, None)
        elif given.mode == "MAX":
            limits[port] = DARK_DBM
        elif given.mode == "REL":
            entering = matrix.power_dbm(given.reference) if given.reference else DARK_DBM
            limits[port] = entering + (given.level or 0.0)
        elif given.level is not None:
            limits[port] = given.level

    async def _show(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        none = _Attenuation("NONE")
        ports = (p for p in self._ports_of(command) if not self._switch.matrix.is_ingress(p))
        return Tl1Reply(rows=tuple(self._attenuations.get(p, none).row(p) for p in ports))

    async def _enter_flap(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        texts = [text.strip() for text in ",".join(command.blocks[:1]).split(",")]
        if len(texts) > len(_RANGES) or not all(re.fullmatch(r"[0-9]{1,7}", t) for t in texts):
            raise CommandDeniedError("IPNV", "Parameter not valid")
        numbers = [int(text) for text in texts]
        if not all(low <= n <= high for n, (low, high) in zip(numbers, _RANGES, strict=False)):
            raise CommandDeniedError("IPNV", "Parameter not valid")
        blocked_ms, restored_ms, cycles = (*numbers, 500, 1)[:3] if len(numbers) < 3 else numbers
        for port in self._ports_of(command):
            self._flaps[port] = blocked_ms, restored_ms, cycles
        return Tl1Reply()

    async def _show_flaps(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        rows = []
        for port in self._ports_of(command):
            if port in self._flaps:
                is_active = port in self._active and not self._active[port].done()
                values = ",".join(map(str, self._flaps[port]))
                rows.append(f"{port}:{values},{'ACTIVE' if is_active else 'SET'}")
        return Tl1Reply(rows=tuple(rows))

    async def _start_flap(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        ports = self._ports_of(command)
        if missing := [port for port in ports if port not in self._flaps]:
            raise CommandDeniedError("SNVS", f"Port {missing[0]} has no flap")
        for port in ports:
            self._stop(port)
            self._active[port] = self._switch.start(self._flap(port))
        return Tl1Reply()

    async def _stop_flap(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        for port in self._ports_of(command):
            self._stop(port)
        return Tl1Reply()

    def _stop(self, port: int) -> None:
        if port in self._active:
            self._active.pop(port).cancel()
        self._switch.matrix.blocked.discard(port)

    async def _flap(self, port: int) -> None:
        """Block and restore the light of a port, for ever if there are no cycles to count."""
        blocked_ms, restored_ms, cycles = self._flaps[port]
        cycle, blocked = 0, self._switch.matrix.blocked
        while not cycles or cycle < cycles:
            blocked.add(port)
            await asyncio.sleep(blocked_ms / 1000)
            blocked.discard(port)
            await asyncio.sleep(restored_ms / 1000)
            cycle += 1


def _mode_of(text: str) -> str:
    """Return the short form of a mode."""
    for short, long in _MODES.items():
        if text and long.startswith(text.upper()) and text.upper().startswith(short):
            return short
    raise CommandDeniedError("IPNV", "Parameter not valid")


def _level_of(text: str) -> float:
    """Return a level, which clients put into parentheses."""
    match = _LEVEL.fullmatch(text)
    if match is None or float(match[1]) > _HIGHEST_DBM:
        raise CommandDeniedError("IPNV", "Parameter not valid")
    return float(match[1])
