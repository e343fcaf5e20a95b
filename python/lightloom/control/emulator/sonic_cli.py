"""The commands of an emulated SONiC switch, over SSH.

Of what it is made they print what SONiC's scripts do: ``psushow``, ``fanshow``, ``tempershow``.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from typing import Any

from lightloom.control.emulator.device import (
    WARM_C,
    EmulatedSession,
    EmulatedSwitch,
    NoReplyError,
)
from lightloom.control.emulator.matrix import MatrixRefusalError
from lightloom.control.emulator.sonic import AddMode, SonicRefusedError, SonicTables
from lightloom.control.emulator.ssh import SshService

MAX_COMMAND = 64 * 1024


def sonic_cli_service(switch: EmulatedSwitch, tables: SonicTables) -> SshService:
    """Return the service of a switch's commands."""
    shell = SonicShell(switch, tables)

    async def handle(process: Any) -> int:
        with switch.admitted(EmulatedSession(process.channel.get_connection().abort)):
            try:
                return await shell.run(process)
            except NoReplyError:
                await asyncio.Event().wait()
        return 1

    return SshService(switch, handle)


class SonicShell:
    """Runs one command per session."""

    def __init__(self, switch: EmulatedSwitch, tables: SonicTables) -> None:
        self._switch = switch
        self._tables = tables

    async def run(self, process: Any) -> int:
        """Run the command of a session and return its exit status."""
        command = str(process.command or "")
        try:
            words = shlex.split(command[:MAX_COMMAND])
        except ValueError:
            words = []
        words = words[1:] if words[:1] == ["sudo"] else words

        async def execute() -> tuple[int, str]:
            try:
                return 0, await self._execute(words)
            except (SonicRefusedError, MatrixRefusalError) as error:
                return 1, f"Error: {error}\n"

        async def deny() -> tuple[int, str]:
            return 1, "Error: refused on demand\n"

        is_change = words[:1] == ["config"]
        (status, text), in_pieces = await self._switch.execute(execute, deny, is_change=is_change)
        stream = process.stderr if status else process.stdout
        data = text.encode()
        size = 1 if in_pieces else max(len(data), 1)
        for start in range(0, len(data), size):
            stream.write(data[start : start + size])
        return status

    async def _execute(self, words: list[str]) -> str:
        match words:
            case ["show", "ocs", "cross-connect", "config"]:
                return table(["id", "a_side", "b_side"], self._tables.config_rows())
            case ["show", "ocs", "cross-connect", "status"]:
                columns = ["id", "a_side", "b_side", "a_side_status", "b_side_status"]
                return table(columns, self._tables.status_rows())
            case ["show", "ocs", "port", "status"]:
                rows = self._tables.port_rows()
                return table(list(rows[0]), rows)
            case ["show", "ocs", "port", "config"]:
                rows = self._tables.port_config_rows()
                return table(list(rows[0]), rows)
            case ["show", "platform", "summary"]:
                return self._summary()
            case ["show", "platform", "psustatus"]:
                return table(["PSU", "Status", "LED"], self._power_supplies())
            case ["show", "platform", "fan"]:
                columns = ["Drawer", "FAN", "Presence", "Status"]
                return table(columns, self._fans())
            case ["show", "platform", "temperature"]:
                return table(["Sensor", "Temperature", "High TH", "Warning"], self._sensors())
            case ["config", "ocs", "cross-connect", "add", names, *mode] if len(mode) < 2:
                if mode and mode[0] not in set(AddMode):
                    raise SonicRefusedError(f"invalid mode {mode[0][:20]}")
                pairs = self._tables.parse_pairs(names)
                await self._tables.add(pairs, AddMode(*mode) if mode else AddMode.UPDATE)
                return "Adding cross-connect succeeded\n"
            case ["config", "ocs", "cross-connect", "delete", names]:
                await self._tables.delete(self._tables.parse_pairs(names))
                return "Deleting cross-connect succeeded\n"
        raise SonicRefusedError(f"no such command: {' '.join(words)[:60]}")

    def _summary(self) -> str:
        identity = self._switch.identity
        facts = {
            "Platform": "x86_64-emulated-r0",
            "HwSKU": "OCS",
            "ASIC": "emulated",
            "ASIC Count": "1",
            "Serial Number": identity.serial,
            "Model Number": identity.model,
            "Hardware Revision": "N/A",
            "Switch Type": "ocs",
        }
        return "".join(f"{name}: {value}\n" for name, value in facts.items())

    def _parts(self, kind: str) -> list[tuple[str, str]]:
        return [part for part in self._switch.equipment.items() if part[0].startswith(kind)]

    def _power_supplies(self) -> list[dict[str, str]]:
        return [
            {
                "PSU": name,
                "Status": "NOT PRESENT" if problem == "empty" else "NOT OK" if problem else "OK",
                "LED": "red" if problem else "green",
            }
            for name, problem in self._parts("PSU")
        ]

    def _sensors(self) -> list[dict[str, str]]:
        return [
            {
                "Sensor": name,
                "Temperature": f"{temperature_c:g}",
                "High TH": f"{WARM_C:g}",
                "Warning": str(temperature_c > WARM_C),
            }
            for name, temperature_c in self._switch.temperatures_c.items()
        ]

    def _fans(self) -> list[dict[str, str]]:
        return [
            {
                "Drawer": f"drawer{name.split()[-1]}",
                "FAN": name,
                "Presence": "Not Present" if problem == "empty" else "Present",
                "Status": "N/A" if problem == "empty" else "Not OK" if problem else "OK",
            }
            for name, problem in self._parts("FAN")
        ]


def table(columns: Sequence[str], rows: Sequence[dict[str, str]]) -> str:
    """Return a table whose columns are as wide as their widest cell, two blanks apart."""
    widths = [max([len(name), *(len(row[name]) for row in rows)]) for name in columns]

    def line(cells: Sequence[str]) -> str:
        return (
            "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + "\n"
        )

    body = (line([row[name] for name in columns]) for row in rows)
    return line(columns) + line(["-" * width for width in widths]) + "".join(body)
