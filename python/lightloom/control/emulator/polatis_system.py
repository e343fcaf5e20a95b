"""The TL1 commands of an emulated Polatis switch: login, inventory, reports, restart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lightloom.control.emulator.device import BootMode, EmulatedSession, EmulatedSwitch
from lightloom.control.emulator.tl1_commands import (
    CommandDeniedError,
    Tl1Command,
    Tl1Reply,
    unquoted,
)
from lightloom.control.emulator.tl1_server import timestamp

if TYPE_CHECKING:
    from lightloom.control.emulator.polatis import Handler

MAX_SID = 20
#: longest time without a command, in minutes, that can be set
MAX_TIMEOUT = 60


class SystemCommands:
    """Executes the commands that have nothing to do with circuits."""

    def __init__(self, switch: EmulatedSwitch) -> None:
        self._switch = switch
        self.handlers: dict[str, Handler] = {
            "ACT-USER": self._log_in,
            "CANC-USER": self._log_out,
            "RTRV-HDR": self._header,
            "RTRV-NETYPE": self._network_element,
            "RTRV-INV": self._inventory,
            "RTRV-EQPT": self._equipment,
            "ED-EQPT": self._set_equipment,
            "INIT-SYS": self._restart,
            "SET-SID": self._set_sid,
            "RTRV-TOD": self._time,
            "OPR-ARC-EQPT": self._silence,
            "RLS-ARC-EQPT": self._report,
            "RTRV-ARC-EQPT": self._reporting,
        }

    async def _log_in(self, command: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        user, blocks = unquoted(command.aid), command.blocks
        if not user:
            raise CommandDeniedError("IIAC", "Too few parameters (0/1)")
        password = unquoted(blocks[0]) if blocks else ""
        if len(blocks) > 1:
            raise CommandDeniedError(
                "IICT", f"Parse error at offset {len(command.verb)} in command"
            )
        if not password:
            raise CommandDeniedError("IPMS", "Too few parameters (0/1) in block 1")
        if session.user:
            raise CommandDeniedError("SNVS", "Already logged in")
        if not self._switch.is_user(user, password):
            raise CommandDeniedError("PICC", "Authentication failure")
        session.user = user
        return Tl1Reply()

    async def _log_out(self, command: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        if unquoted(command.aid) != session.user:
            raise CommandDeniedError("PICC", "Permission denied")
        session.user = ""
        return Tl1Reply()

    async def _header(self, _: Tl1Command, __: EmulatedSession) -> Tl1Reply:
        return Tl1Reply()

    async def _network_element(self, _: Tl1Command, __: EmulatedSession) -> Tl1Reply:
        identity = self._switch.identity
        return Tl1Reply(rows=(f"{identity.vendor},{identity.model},OXC,{identity.software}",))

    async def _inventory(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        if command.aid.upper() not in {"OCS", "ALL", ""}:
            raise CommandDeniedError("IIAC", "Invalid access identifier")
        identity = self._switch.identity
        return Tl1Reply(rows=(f"OCS,OCS::PN={identity.model},SN={identity.serial}",))

    async def _equipment(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        if command.aid.upper() == "PMON" and self._switch.monitored_ports:
            modes = (
                (port, "INPUT" if self._switch.matrix.is_ingress(port) else "OUTPUT")
                for port in sorted(self._switch.monitored_ports)
            )
            return Tl1Reply(rows=tuple(f"PMON::PORT={port},MODE={mode}" for port, mode in modes))
        what = (command.aid.upper(), command.values.get("PARAMETER", "").upper())
        rows, columns = self._switch.matrix.size
        values = {
            ("SYSTEM", "SIZE"): f"{rows}x{columns}",
            ("BOOT", "MODE"): self._switch.boot.value.upper(),
            ("ATTEN", "CONFIG"): "ABSOLUTE" if self._switch.monitored_ports else "NONE",
            ("TIMEOUT", "ADMIN"): f"{self._switch.idle_close_s / 60:.0f}",
        }
        if what not in values:
            raise CommandDeniedError("IPNV", "Parameter not valid")
        return Tl1Reply(rows=(f"{what[0]}:{what[1]}={values[what]}",))

    async def _set_equipment(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        values = command.values
        if command.aid.upper() == "BOOT":
            mode = values.get("MODE", "").lower()
            if mode not in set(BootMode):
                raise CommandDeniedError("IPNV", "Parameter not valid")
            self._switch.boot = BootMode(mode)
            return Tl1Reply()
        if command.aid.upper() == "TIMEOUT":
            text = values.get("ADMIN", values.get("USER", ""))
            if not re.fullmatch(r"\d{1,3}", text) or int(text) > MAX_TIMEOUT:
                raise CommandDeniedError("IPNV", "Parameter not valid")
            self._switch.idle_close_s = int(text) * 60.0
            return Tl1Reply()
        raise CommandDeniedError("IIAC", "Invalid access identifier")

    async def _restart(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        if command.aid.upper() == "ALARM":
            return Tl1Reply()
        if command.aid.upper() != "SYSTEM":
            raise CommandDeniedError("IIAC", "Invalid access identifier")
        level = (command.blocks or ("",))[0]
        if level == "10":
            self._switch.lose_power()
        elif level == "1":
            self._switch.reset()
        else:
            raise CommandDeniedError("IPNV", "Parameter not valid")
        return Tl1Reply()

    async def _set_sid(self, command: Tl1Command, _: EmulatedSession) -> Tl1Reply:
        sid = unquoted((command.blocks or ("",))[0])
        if not 0 < len(sid) <= MAX_SID or not sid.isprintable():
            raise CommandDeniedError("IDNV", f"Invalid value {sid[:40]}")
        self._switch.sid = sid
        return Tl1Reply()

    async def _time(self, _: Tl1Command, __: EmulatedSession) -> Tl1Reply:
        date, clock = timestamp().split()
        return Tl1Reply(rows=(",".join((*date.split("-"), *clock.split(":"), "UTC")),))

    async def _silence(self, command: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        self._check_manager(command)
        session.wants_reports = False
        return Tl1Reply()

    async def _report(self, command: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        self._check_manager(command)
        session.wants_reports = True
        return Tl1Reply()

    async def _reporting(self, _: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        return Tl1Reply(rows=() if session.wants_reports else ("REPMGR:IND,,",))

    def _check_manager(self, command: Tl1Command) -> None:
        if command.aid.upper() not in {"REPMGR", "ALL"}:
            raise CommandDeniedError("IIAC", "Invalid access identifier")
