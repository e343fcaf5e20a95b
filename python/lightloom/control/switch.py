"""What a driver of an optical circuit switch and its caller share: nouns, errors, one protocol.

The words are those of the switch models of SONiC and of the Open Compute Project: a
*cross-connect* joins an ingress to an egress port; it is connected, pending, failed or invalid; a
port is tuned, tuning, blocked or failed.

A driver translates and nothing else. It has no intent: after a time-out, a cut
connection or a reply that cannot be parsed it raises an error with ``state_unknown``, and the
caller connects again, reads back and decides. No driver sends a change twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

from lightloom.errors import LightloomError

#: name of a port as the switch prints it, normalized by its driver: ``"9"``, ``"1.3.2"``, ``"4A"``
Port: TypeAlias = str


class SwitchError(LightloomError):
    """Base of the errors of a switch or of the connection to it."""

    #: whether a change that was in flight may or may not have been made
    state_unknown: ClassVar[bool] = False


class SwitchUnreachableError(SwitchError):
    """No connection could be made; nothing was sent."""


class LoginRefusedError(SwitchError):
    """The switch refused the user name or the password; the message names neither."""


class SwitchDeniedError(SwitchError):
    """The switch refused a command and said why.

    Parameters
    ----------
    code
        The switch's code of the refusal, such as ``"IDNV"`` or ``"409"``.
    text
        The switch's explanation, one line, perhaps empty.
    command
        The command without its secrets, perhaps empty.
    """

    def __init__(self, code: str, text: str, command: str = "") -> None:
        self.code, self.text, self.command = code, text, command
        where = f" for {command}" if command else ""
        super().__init__(f"the switch refused{where}: {code}{': ' if text else ''}{text}")


class InvalidTargetError(SwitchDeniedError):
    """The command named a port, a user or an equipment that the switch does not have."""


class InvalidParameterError(SwitchDeniedError):
    """The switch has what the command named, but not the value that it should take."""


class UnsupportedCommandError(SwitchDeniedError):
    """The switch does not know the command."""


class PermissionRefusedError(SwitchDeniedError):
    """The user of the session may not do this, or is not logged in."""


class SwitchBusyError(SwitchDeniedError):
    """The switch is in a state that does not permit the command, or has no resource for it."""


class SwitchTimeoutError(SwitchError):
    """No reply came in time: a change in flight may or may not be made, now or later."""

    state_unknown: ClassVar[bool] = True


class SwitchDisconnectedError(SwitchError):
    """The connection was cut: a change in flight may or may not have been made."""

    state_unknown: ClassVar[bool] = True


class SwitchProtocolError(SwitchError):
    """The switch sent what is no reply, a reply to another command, or far too much."""

    state_unknown: ClassVar[bool] = True


class CircuitState(StrEnum):
    """State of a cross-connect."""

    CONNECTED = "connected"
    PENDING = "pending"
    FAILED = "failed"
    INVALID = "invalid"


class PortState(StrEnum):
    """State of a port's mirror or beam."""

    TUNED = "tuned"
    TUNING = "tuning"
    BLOCKED = "blocked"
    FAILED = "failed"
    UNKNOWN = "unknown"


class PortSide(StrEnum):
    """Side of the switch on which a port is; a circuit joins an ingress to an egress port."""

    INGRESS = "ingress"
    EGRESS = "egress"
    ANY = "any"


class SwitchFeature(StrEnum):
    """Something that only some switches, or their drivers, can do."""

    #: a cross-connect may be created on a busy port: the old one is deleted by it
    MOVES = "moves"
    #: one command sets all cross-connects of the switch
    REPLACE_ALL = "replace-all"
    #: one command changes several cross-connects at once
    LISTS = "lists"
    #: the switch measures the light of some ports
    POWER = "power"
    #: ports can be closed
    SHUTTERS = "shutters"
    #: the driver's ``watch`` yields what the switch reports, or what readings of it show
    EVENTS = "events"
    #: the switch says of every cross-connect whether its light is good
    CIRCUIT_STATES = "circuit-states"


class ChangeOperation(StrEnum):
    """What a change does with a cross-connect."""

    CREATE = "create"
    DELETE = "delete"


class SwitchEventKind(StrEnum):
    """What a switch reports on its own."""

    PORT = "port"
    CIRCUIT = "circuit"
    ALARM = "alarm"
    OTHER = "other"


class CrossConnect(NamedTuple):
    """One directed light path through the switch.

    A duplex circuit is two of them, over crossed fibers, or one where every fiber carries both
    directions; the port map says which.
    """

    ingress: Port
    egress: Port

    def __str__(self) -> str:
        return f"{self.ingress}-{self.egress}"


@dataclass(frozen=True, slots=True)
class SwitchChange:
    """Cross-connects to delete and then to create; all others stay untouched.

    A port whose cross-connect is deleted may be used by one that is created: a driver may do both
    by one command where the switch moves circuits.
    """

    deletes: tuple[CrossConnect, ...] = ()
    creates: tuple[CrossConnect, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done."""
        return not self.deletes and not self.creates


@dataclass(frozen=True, slots=True)
class CircuitResult:
    """What the switch acknowledged for one cross-connect of a change.

    An acknowledgment is no proof: whether light passes is what :meth:`SwitchDriver.read_back`, and
    after it the power at the egress port, show.
    """

    cross_connect: CrossConnect
    operation: ChangeOperation
    #: state after the command; None if the cross-connect was deleted
    state: CircuitState | None
    #: the switch's code and explanation, if the command was refused or not sent
    code: str = ""
    reason: str = ""

    @property
    def is_accepted(self) -> bool:
        """Whether the switch accepted the command."""
        return self.state not in {CircuitState.FAILED, CircuitState.INVALID}


@dataclass(frozen=True, slots=True)
class PortStatus:
    """What the switch says of one port."""

    name: Port
    side: PortSide = PortSide.ANY
    enabled: bool = True
    state: PortState = PortState.UNKNOWN
    #: measured power of the light, if the port has a monitor
    power_dbm: float | None = None
    #: measured loss of the port's circuit, if the switch knows it
    loss_db: float | None = None
    alarm: str | None = None


@dataclass(frozen=True, slots=True)
class EquipmentStatus:
    """What the switch says of a power supply, a fan or a temperature sensor."""

    name: str
    #: ``power supply``, ``fan`` or ``temperature sensor``
    kind: str
    #: whether its slot is filled
    is_present: bool = True
    #: what is wrong with it, empty if nothing is
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.problem or ('ok' if self.is_present else 'is not there')}"


@dataclass(frozen=True, slots=True)
class Readback:
    """All cross-connects and ports of a switch, as it reports them now."""

    cross_connects: frozenset[CrossConnect]
    states: Mapping[CrossConnect, CircuitState] = field(default_factory=dict)
    ports: tuple[PortStatus, ...] = ()
    #: power supplies, fans and temperature sensors, if the protocol has them; read with the ports
    equipment: tuple[EquipmentStatus, ...] = ()

    def state_of(self, cross_connect: CrossConnect) -> CircuitState | None:
        """Return a cross-connect's state, None if the switch does not have it."""
        if cross_connect not in self.cross_connects:
            return None
        return self.states.get(cross_connect, CircuitState.CONNECTED)


@dataclass(frozen=True, slots=True)
class SwitchDescription:
    """What a switch says of itself when a driver connects."""

    vendor: str
    model: str
    serial: str
    #: numbers of ingress and egress ports; both are all ports where a port has no side
    size: tuple[int, int]
    #: all ports and their sides, in the switch's order
    ports: Mapping[Port, PortSide]
    features: frozenset[SwitchFeature] = frozenset()
    software: str = ""
    #: name that its operator gave it, empty if none
    name: str = ""


@dataclass(frozen=True, slots=True)
class SwitchEvent:
    """One report that a switch sent on its own."""

    kind: SwitchEventKind
    text: str
    ports: tuple[Port, ...] = ()


@dataclass(frozen=True, slots=True)
class Credentials:
    """User and password of a switch; the password is in no representation of this object."""

    user: str = ""
    password: str = field(default="", repr=False)


class SwitchDriver(Protocol):
    """One connection to one switch.

    Calls must not overlap, but for :meth:`watch`, which may run alongside any of them. Every
    method raises a :class:`SwitchError`; after one with ``state_unknown`` the driver is closed,
    and :meth:`connect` makes it usable again.
    """

    async def connect(self) -> SwitchDescription:
        """Connect, log in and return what the switch says of itself; also after a failure."""
        ...

    async def read_back(self, *, ports: bool = True) -> Readback:
        """Return all cross-connects, and all ports unless they are not needed; change nothing.

        Leaving out the ports saves requests where each of their properties needs one.
        """
        ...

    async def apply(self, change: SwitchChange) -> tuple[CircuitResult, ...]:
        """Delete and create cross-connects; return one result for each, deletes first.

        A refusal is a result with state ``INVALID``, not an error; so are commands that were not
        sent because an earlier one was refused. Whether the switch had made a part of a refused
        command is only known after :meth:`read_back`.
        """
        ...

    def watch(self) -> AsyncIterator[SwitchEvent]:
        """Yield what the switch reports on its own, until the driver is closed.

        Opens another session where the switch has no other means. A driver without the
        feature ``EVENTS`` yields nothing.
        """
        ...

    async def close(self) -> None:
        """Log out and close the connections; does nothing if there are none."""
        ...
