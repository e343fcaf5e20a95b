"""The emulated switch that all of its protocols share: optics, users, sessions, faults, power."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from lightloom.control.emulator.faults import Fault, FaultKind, FaultScript
from lightloom.control.emulator.matrix import MatrixRefusalError, OpticalMatrix

Reply = TypeVar("Reply")


#: temperature over which an emulated switch warns, that of a board in SONiC's guide
WARM_C = 75.0


class CompletionTime(StrEnum):
    """When a command that changes circuits is completed."""

    ACCEPTED = "accepted"
    SETTLED = "settled"


class BootMode(StrEnum):
    """Which circuits a switch has after a restart."""

    DARK = "dark"
    RESTORE = "restore"


class SessionCutError(Exception):
    """The session is to be cut without another byte."""


class NoReplyError(Exception):
    """The command is to remain without a reply, and the session open."""


class SessionLimitError(Exception):
    """No further session is admitted."""


#: for which a service drops a connection at once
CUTTING = (
    SessionCutError,
    SessionLimitError,
    ValueError,
    OSError,
    TimeoutError,
    asyncio.CancelledError,
)


@dataclass(frozen=True, slots=True)
class SwitchIdentity:
    """What an emulated switch says of itself."""

    vendor: str = "Polatis"
    model: str = "emulated"
    serial: str = "000001"
    software: str = "lightloom"


@dataclass(slots=True, eq=False)
class EmulatedSession:
    """A client's session of any protocol.

    Attributes
    ----------
    cut
        Drops the connection at once.
    send_report
        Sends a report, if the protocol has reports.
    wants_reports
        Whether the client has not silenced them.
    user
        Who is logged in.
    """

    cut: Callable[[], None]
    send_report: Callable[[str], None] | None = None
    wants_reports: bool = True
    user: str = ""


@dataclass(slots=True)
class EmulatedSwitch:
    """State and behavior of one switch, whatever the protocol.

    Attributes
    ----------
    matrix
        Ports, circuits and light.
    faults
        What goes wrong and when.
    users
        Passwords by user name.
    completion
        When a change is completed.
    boot
        Which circuits it has after a restart.
    boot_s
        How long a restart takes.
    max_sessions
        How many sessions are admitted; 0 for any number.
    idle_close_s
        Time without a command after which a session is closed; 0 for never.
    sid
        Name that the operator gave it.
    labels
        Names of ports.
    monitored_ports
        Ports whose power is measured.
    yang_revision
        Revision of the YANG module ``optical-switch``; empty for the newest.
    page_rows
        Rows of a page of a TL1 reply; 0 for one page.
    has_plain_ports
        Whether a Calient switch numbers its ports; else their names are dotted.
    has_state_module
        Whether a SONiC switch reports in a module of its own; else in tables
        of the module of its configuration.
    equipment
        Power supplies and fans, and what is wrong with each: empty if nothing is, ``empty`` where
        the slot is; else an operational status of OpenConfig, such as ``DISABLED``.
    temperatures_c
        What sensors measure, in degrees Celsius; over :data:`WARM_C` is a warning.
    locked_by
        Identifier of the session that has locked the configuration; 0 if none has.
    """

    matrix: OpticalMatrix
    faults: FaultScript
    users: dict[str, str]
    identity: SwitchIdentity = field(default_factory=SwitchIdentity)
    completion: CompletionTime = CompletionTime.SETTLED
    boot: BootMode = BootMode.RESTORE
    boot_s: float = 0.0
    max_sessions: int = 0
    idle_close_s: float = 0.0
    sid: str = "OCS"
    labels: dict[int, str] = field(default_factory=dict)
    monitored_ports: frozenset[int] = frozenset()
    yang_revision: str = ""
    page_rows: int = 0
    has_plain_ports: bool = False
    has_state_module: bool = True
    equipment: dict[str, str] = field(
        default_factory=lambda: dict.fromkeys(("PSU 1", "PSU 2", "FAN 1", "FAN 2"), "")
    )
    temperatures_c: dict[str, float] = field(default_factory=lambda: {"System Board": 35.0})
    locked_by: int = 0
    sessions: set[EmulatedSession] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _up_at_s: float = 0.0

    @property
    def is_up(self) -> bool:
        """Whether it is powered and has started."""
        return self.matrix.now() >= self._up_at_s

    @property
    def up_for_s(self) -> float:
        """For how long it has been up."""
        return self.matrix.now() - self._up_at_s

    @contextlib.contextmanager
    def admitted(self, session: EmulatedSession) -> Iterator[None]:
        """Have a session while the context is open.

        Raises
        ------
        SessionLimitError
            If there are too many, or the switch is starting.
        """
        if not self.is_up or 0 < self.max_sessions <= len(self.sessions):
            raise SessionLimitError
        self.sessions.add(session)
        try:
            yield
        finally:
            self.sessions.discard(session)

    def is_user(self, user: str, password: str) -> bool:
        """Whether a user has this password."""
        return self.users.get(user) == password

    async def change(self, deletes: Iterable[int], creates: Sequence[tuple[int, int]]) -> None:
        """Change circuits and wait until the command is completed.

        Raises
        ------
        MatrixRefusalError
            If a pair is refused.
        """
        settled_at_s = self.matrix.change(deletes, creates)
        if self.completion is CompletionTime.SETTLED:
            await asyncio.sleep(max(settled_at_s - self.matrix.now(), 0))

    async def execute(
        self,
        run: Callable[[], Awaitable[Reply]],
        deny: Callable[[], Awaitable[Reply]],
        *,
        is_change: bool,
    ) -> tuple[Reply, bool]:
        """Execute a command with the faults that are due.

        Parameters
        ----------
        run
            Executes it and returns the reply.
        deny
            Returns the reply that refuses it.
        is_change
            Whether it creates or deletes circuits.

        Returns
        -------
        tuple
            The reply, and whether it is to be sent in pieces.

        Raises
        ------
        SessionCutError, NoReplyError
            If there is none.
        """
        faults = {fault.kind: fault for fault in self.faults.due(is_change=is_change)}
        for fault in faults.values():
            self._inflict(fault)
        if FaultKind.CUT_BEFORE in faults or FaultKind.POWER_LOSS in faults:
            raise SessionCutError
        if FaultKind.LATE in faults:
            self.start(_run_later(run, faults[FaultKind.LATE].seconds))
            raise NoReplyError
        reply = await (deny if FaultKind.DENY in faults else run)()
        if FaultKind.CUT_AFTER in faults:
            raise SessionCutError
        if FaultKind.NO_REPLY in faults:
            raise NoReplyError
        if FaultKind.SLOW in faults:
            await asyncio.sleep(faults[FaultKind.SLOW].seconds)
        return reply, FaultKind.FRAGMENT in faults

    def report(self, text: str, *, to_all: bool = False) -> None:
        """Send a report to every session that wants reports, or even to those that do not."""
        for session in tuple(self.sessions):
            if session.send_report is not None and (session.wants_reports or to_all):
                session.send_report(text)

    def fail_port(self, port: int) -> None:
        """Let a port's mirror fail and report it."""
        self.matrix.failed.add(port)
        self.report(f"Port {port} failed")

    def set_shutters(self, ports: Iterable[int], *, is_open: bool) -> None:
        """Open or close shutters and report it."""
        for port in ports:
            (self.matrix.disabled.discard if is_open else self.matrix.disabled.add)(port)
            self.report(f"Port {port} {'enabled' if is_open else 'disabled'}")

    def lose_power(self) -> None:
        """Cut all sessions and restart; the boot mode decides which circuits remain."""
        circuits = self.matrix.circuits if self.boot is BootMode.RESTORE else {}
        self._up_at_s = self.matrix.now() + self.boot_s
        self.cut_all()
        self.matrix.restore(circuits)

    def reset(self) -> None:
        """Delete all circuits and open all shutters."""
        self.matrix.restore({})
        self.matrix.disabled.clear()

    def cut_all(self) -> None:
        """Cut all sessions."""
        for session in tuple(self.sessions):
            session.cut()

    async def close(self) -> None:
        """Cut all sessions and end what is still to be executed."""
        self.cut_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _inflict(self, fault: Fault) -> None:
        """Make the faults that do not depend on the command."""
        if fault.kind is FaultKind.POWER_LOSS:
            self.lose_power()
        elif fault.kind is FaultKind.REPORT:
            self.report("Self test completed", to_all=True)
        elif fault.kind in {FaultKind.STUCK, FaultKind.FAILED_PORT}:
            port = fault.ports[0] if fault.ports else self.faults.draw(self.matrix.ports)
            if fault.kind is FaultKind.STUCK:
                self.matrix.stuck.add(port)
            else:
                self.fail_port(port)
        elif fault.kind is FaultKind.SECOND_CONTROLLER:
            pair = fault.ports or tuple(
                map(
                    self.faults.draw,
                    (self.matrix.ingress_ports, self.matrix.ports[self.matrix.size[0] :]),
                )
            )
            with contextlib.suppress(MatrixRefusalError):
                self.matrix.change((), [(pair[0], pair[1])])

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Start what goes on beside the commands; it ends with the switch at the latest."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _run_later(run: Callable[[], Awaitable[object]], seconds: float) -> None:
    await asyncio.sleep(seconds)
    await run()
