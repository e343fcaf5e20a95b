"""The TL1 commands for the users of an emulated Polatis switch.

The verbs, the privileges and the error codes are those of public tests. A choice, usual in TL1: the
block of a command is the password, an empty field and the privilege, joined by commas.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from lightloom.control.emulator.device import EmulatedSession, EmulatedSwitch
from lightloom.control.emulator.tl1_commands import (
    CommandDeniedError,
    Tl1Command,
    Tl1Reply,
    unquoted,
)

if TYPE_CHECKING:
    from lightloom.control.emulator.polatis import Handler

MAX_NAME = 20


class Privilege(StrEnum):
    """What a user may do; each may do what those after it may."""

    ADMIN = "admin"
    USER = "user"
    VIEW = "view"


class UserCommands:
    """Executes the commands of users, and says what a user may do."""

    def __init__(self, switch: EmulatedSwitch) -> None:
        self._switch = switch
        #: of users that were entered or edited; the others are administrators
        self._privileges: dict[str, Privilege] = {}
        self.handlers: dict[str, Handler] = {
            "ENT-USER-SECU": self._enter,
            "ED-USER-SECU": self._edit,
            "DLT-USER-SECU": self._delete,
            "RTRV-USER-SECU": self._list,
            "RTRV-USER": self._list,
            "ED-SECU-PID": self._set_password,
        }

    def privilege(self, user: str) -> Privilege:
        """What a user may do."""
        return self._privileges.get(user, Privilege.ADMIN)

    async def _enter(self, command: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        user, password, privilege = self._given(command, session)
        if user in self._switch.users:
            raise CommandDeniedError("IDNV", "User exists")
        if not 0 < len(user) <= MAX_NAME or not user.isalnum() or not password:
            raise CommandDeniedError("IPNV", "Parameter not valid")
        self._switch.users[user] = password
        self._privileges[user] = privilege or Privilege.USER
        return Tl1Reply()

    async def _edit(self, command: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        user, password, privilege = self._given(command, session)
        self._check_known(user)
        if password:
            self._switch.users[user] = password
        if privilege is not None:
            self._privileges[user] = privilege
        return Tl1Reply()

    async def _delete(self, command: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        user, _, _ = self._given(command, session)
        self._check_known(user)
        if user == session.user:
            raise CommandDeniedError("PICC", "Permission denied")
        del self._switch.users[user]
        self._privileges.pop(user, None)
        return Tl1Reply()

    async def _list(self, _: Tl1Command, __: EmulatedSession) -> Tl1Reply:
        users = sorted(self._switch.users)
        return Tl1Reply(rows=tuple(f"{user}:{self.privilege(user).upper()}" for user in users))

    async def _set_password(self, command: Tl1Command, session: EmulatedSession) -> Tl1Reply:
        """Let a user set the password, by the old one and then the new one."""
        user, fields = unquoted(command.aid), _fields(command)
        if user != session.user or not self._switch.is_user(user, fields[0]):
            raise CommandDeniedError("PICC", "Permission denied")
        if not fields[1]:
            raise CommandDeniedError("IPNV", "Parameter not valid")
        self._switch.users[user] = fields[1]
        return Tl1Reply()

    def _given(
        self, command: Tl1Command, session: EmulatedSession
    ) -> tuple[str, str, Privilege | None]:
        """The user, the password and the privilege of a command that only an administrator has."""
        if self.privilege(session.user) is not Privilege.ADMIN:
            raise CommandDeniedError("PICC", "User not in the admin group")
        password, _, privilege = _fields(command)
        if privilege and privilege.lower() not in set(Privilege):
            raise CommandDeniedError("IPNV", "Invalid user access privilege")
        return unquoted(command.aid), password, Privilege(privilege.lower()) if privilege else None

    def _check_known(self, user: str) -> None:
        if user not in self._switch.users:
            raise CommandDeniedError("IDNV", "User does not exist")


def _fields(command: Tl1Command) -> tuple[str, str, str]:
    """The first three fields of the first block after the tag."""
    fields = [unquoted(field.strip()) for field in ",".join(command.blocks[:1]).split(",")]
    return (*fields, "", "", "")[:3]  # type: ignore[return-value]
