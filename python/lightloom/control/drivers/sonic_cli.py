"""SONiC switches by their commands, over SSH port 22.

A change is at most two commands, each with a list: ``config ocs cross-connect delete``, then
``config ocs cross-connect add``, as SONiC's interface to switches asks: a cross-connect is removed
before another one uses its ports, also one of somebody else (with the setting ``moves=no`` that one
stays, and the mode ``safe`` refuses its ports). On a real switch, public tests saw that a
cross-connect whose ports are only taken from it stays configured. Reading back compares what is
configured with what the hardware reports; a cross-connect is connected when both of its ports are
``tuned``. Model, serial number, power supplies, fans and temperatures are read where the commands
know them.

Never met real hardware: everything here. The commands, their tables and the word ``succeeded`` are
those of the design document and of public tests. Unknown: the length of a list, whether a refused
list is made in part, and whether a command returns before the ports are tuned (the public tests
poll for up to a minute). The commands report nothing: :meth:`SonicCli.watch` compares readings of a
second connection, ``poll_s`` apart.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from lightloom.control.drivers.changes import ChangeCommand, in_batches
from lightloom.control.drivers.options import DriverSettings, SwitchAddress, optional_import
from lightloom.control.drivers.sonic import SonicModel, displaced_by, name_of, parse_table
from lightloom.control.drivers.sonic_driver import SonicDriver
from lightloom.control.drivers.sonic_platform import (
    EQUIPMENT,
    SUMMARY,
    described,
    equipment_of,
)
from lightloom.control.drivers.streams import connect_ssh
from lightloom.control.switch import (
    CrossConnect,
    EquipmentStatus,
    SwitchChange,
    SwitchDeniedError,
    SwitchDescription,
    SwitchDisconnectedError,
    SwitchProtocolError,
    SwitchTimeoutError,
)

MAX_OUTPUT_BYTES = 4 * 1024 * 1024


class SonicCli(SonicDriver):
    """Driver of one SONiC switch by its commands.

    Parameters
    ----------
    address
        Host, port, user and password.
    settings
        Time-outs, what the switch can do, and accepted host keys.
    """

    models = (
        SonicModel(("cross-connect", "config"), ("cross-connect", "status"), ("port", "status")),
    )

    def __init__(
        self, address: SwitchAddress, settings: DriverSettings, *, is_encrypted: bool = True
    ) -> None:
        super().__init__(address, settings, is_encrypted=is_encrypted)
        self._asyncssh = optional_import("asyncssh", "SSH")
        self._connection: Any = None
        self._parts: tuple[EquipmentStatus, ...] = ()
        self._parts_due_s = 0.0

    async def _dial(self) -> None:
        self._parts_due_s = 0.0
        settings, address = self._settings, self._address
        self._connection = await connect_ssh(
            (address.host, address.port),
            address.credentials,
            known_hosts=settings.known_hosts or None,
            timeout_s=settings.connect_timeout_s,
        )
        if settings.keepalive_s:
            self._connection.set_keepalive(settings.keepalive_s)

    def _is_open(self) -> bool:
        return self._connection is not None

    async def _described(self, description: SwitchDescription) -> SwitchDescription:
        return described(description, await self._shown(SUMMARY))

    async def _commands(self, change: SwitchChange) -> list[ChangeCommand]:
        displaced: tuple[CrossConnect, ...] = ()
        if self._settings.moves and change.creates:
            present = (await self.read_back(ports=False)).cross_connects
            displaced = displaced_by(change, present)
        mode = "update" if self._settings.moves else "safe"
        commands = [
            ChangeCommand(self._sender("delete", batch), deletes=batch)
            for batch in in_batches((*change.deletes, *displaced), self._settings.max_pairs)
        ]
        commands += [
            ChangeCommand(self._sender("add", batch, mode), creates=batch)
            for batch in in_batches(change.creates, self._settings.max_pairs)
        ]
        return commands

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            with contextlib.suppress(OSError, self._asyncssh.Error):
                await connection.wait_closed()

    def _sender(
        self, verb: str, batch: Sequence[CrossConnect], mode: str = ""
    ) -> Callable[[], Awaitable[object]]:
        names = ",".join(map(name_of, batch))
        command = f"sudo config ocs cross-connect {verb} {names} {mode}".rstrip()

        async def send() -> None:
            output = await self._run(command)
            if "succeeded" not in output:
                reason = " ".join(output.split())[:200] or "no confirmation"
                raise SwitchDeniedError("refused", reason, f"{verb} {names[:40]}")

        return send

    async def _rows(self, names: Sequence[str]) -> list[dict[str, str]]:
        return parse_table(await self._run(f"show ocs {' '.join(names)}"))

    async def _equipment(self) -> tuple[EquipmentStatus, ...]:
        """Return power supplies, fans and sensors, at most ``poll_s`` old.

        A command takes SONiC most of a second, and a change reads the ports back.
        """
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._parts_due_s:
            self._parts = equipment_of(*[await self._shown(what) for what in EQUIPMENT])
            self._parts_due_s = now_s + self._settings.poll_s
        return self._parts

    async def _shown(self, what: str) -> str:
        """Return what a command shows; nothing if the switch does not know it."""
        try:
            return await self._run(f"show {what}")
        except SwitchDeniedError:
            return ""

    async def _run(self, command: str) -> str:
        """Run a command on the switch and return its output; a failed one is a refusal."""
        if self._connection is None:
            raise self._not_connected()
        try:
            async with asyncio.timeout(self._settings.reply_timeout_s):
                process = await self._connection.create_process(command, encoding=None)
                output = await process.stdout.read(MAX_OUTPUT_BYTES + 1)
                errors = await process.stderr.read(MAX_OUTPUT_BYTES + 1)
                if max(len(output), len(errors)) > MAX_OUTPUT_BYTES:
                    raise SwitchProtocolError(
                        f"the switch sent over {MAX_OUTPUT_BYTES} bytes for one command"
                    )
                await process.wait_closed()
                status = process.exit_status
        except TimeoutError:
            await self._abort()
            limit_s = self._settings.reply_timeout_s
            raise SwitchTimeoutError(f"{command[:60]}: no reply within {limit_s:g} s") from None
        except (OSError, self._asyncssh.Error):
            await self._abort()
            raise SwitchDisconnectedError("the connection to the switch is cut") from None
        except BaseException:
            await self._abort()
            raise
        if status is None:
            await self._abort()
            raise SwitchDisconnectedError("the connection to the switch is cut")
        text = str(output.decode("utf-8", "replace"))
        if status != 0:
            reason = " ".join((errors.decode("utf-8", "replace") or text).split())[:200]
            raise SwitchDeniedError(str(status), reason, command[:60])
        return text

    async def _abort(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
