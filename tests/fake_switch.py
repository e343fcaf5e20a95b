"""A circuit switch in memory, behind the protocol of drivers, with faults on demand."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

from lightloom.control.switch import (
    ChangeOperation,
    CircuitResult,
    CircuitState,
    CrossConnect,
    LoginRefusedError,
    PortSide,
    PortStatus,
    Readback,
    SwitchChange,
    SwitchDescription,
    SwitchDisconnectedError,
    SwitchEvent,
    SwitchTimeoutError,
    SwitchUnreachableError,
)


class FakeSwitch:
    """The ports 1 to ``size`` are ingress, the next ``size`` egress ports.

    Attributes
    ----------
    faults
        One entry per change that is applied, taken from the left: ``ok``, ``deny``,
        ``cut-before``, ``cut-after``, ``cut-half``, ``late`` (done when it is read the second
        time), ``stuck`` (accepted, but the first cross-connect is not made), ``half`` (refused
        after the first cross-connect).
    sides
        Sides of its ports; by default as above.
    """

    def __init__(self, size: int = 24) -> None:
        self.size = size
        self.cross_connects: set[CrossConnect] = set()
        self.states: dict[CrossConnect, CircuitState] = {}
        self.power_dbm: dict[str, float] = {}
        self.faults: deque[str] = deque()
        self.touched: set[str] = set()
        self.commands: list[SwitchChange] = []
        self.is_connected = self.is_down = self.refuses_login = self.swapped = False
        self.unreadable = 0
        self.connects = 0
        self._late: tuple[int, SwitchChange] | None = None

    @property
    def sides(self) -> dict[str, PortSide]:
        both = (PortSide.INGRESS, PortSide.EGRESS)[:: -1 if self.swapped else 1]
        return {str(n + 1): both[n // self.size] for n in range(2 * self.size)}

    async def connect(self) -> SwitchDescription:
        if self.is_down:
            raise SwitchUnreachableError("10.0.0.5:3082: connection refused; is the switch on?")
        if self.refuses_login:
            raise LoginRefusedError("10.0.0.5:3082: the switch refused the login")
        self.is_connected = True
        self.connects += 1
        return SwitchDescription("Fake", "F-1", "7", (self.size, self.size), self.sides)

    def _check(self) -> None:
        if self.is_down or not self.is_connected:
            self.is_connected = False
            raise SwitchDisconnectedError("the connection was cut")

    async def read_back(self, *, ports: bool = True) -> Readback:
        self._check()
        if self.unreadable:
            self.unreadable -= 1
            self.is_connected = False
            raise SwitchTimeoutError("no reply to RTRV-PATCH within 5 s")
        if self._late is not None:
            reads, change = self._late
            self._late = (reads - 1, change) if reads else None
            if not reads:
                self._do(change)
        statuses = tuple(
            PortStatus(name, side, power_dbm=self.power_dbm.get(name))
            for name, side in self.sides.items()
        )
        states = {one: self.states.get(one, CircuitState.CONNECTED) for one in self.cross_connects}
        return Readback(frozenset(self.cross_connects), states, statuses if ports else ())

    async def apply(self, change: SwitchChange) -> tuple[CircuitResult, ...]:
        self._check()
        self.commands.append(change)
        for one in (*change.deletes, *change.creates):
            self.touched |= {one.ingress, one.egress}
        fault = self.faults.popleft() if self.faults else "ok"
        if fault.startswith("cut"):
            self.is_connected = False
            if fault == "cut-after":
                self._do(change)
            elif fault == "cut-half":
                self._do(self._first_half(change))
            raise SwitchDisconnectedError("the connection was cut")
        if fault == "late":
            self._late = (1, change)
            self.is_connected = False
            raise SwitchTimeoutError("no reply to ENT-PATCH within 5 s")
        if fault == "deny":
            return self._results(change, CircuitState.INVALID)
        if fault == "half":
            self._do(self._first_half(change))
            return self._results(change, CircuitState.INVALID)
        if fault == "stuck":
            self._do(SwitchChange(change.deletes, change.creates[1:]))
        else:
            self._do(change)
        return self._results(change, None)

    @staticmethod
    def _first_half(change: SwitchChange) -> SwitchChange:
        deletes, creates = len(change.deletes) // 2, len(change.creates) // 2
        if change.creates:
            return SwitchChange(change.deletes, change.creates[:creates])
        return SwitchChange(change.deletes[:deletes])

    def _do(self, change: SwitchChange) -> None:
        for one in change.deletes:
            self.cross_connects.discard(one)
        for one in change.creates:
            taken = {one.ingress, one.egress}
            self.cross_connects = {
                other for other in self.cross_connects if not taken & {other.ingress, other.egress}
            }
            self.cross_connects.add(one)

    @staticmethod
    def _results(change: SwitchChange, state: CircuitState | None) -> tuple[CircuitResult, ...]:
        code, reason = ("IPNV", "Parameter not valid") if state else ("", "")
        return (
            *(
                CircuitResult(one, ChangeOperation.DELETE, state, code, reason)
                for one in change.deletes
            ),
            *(
                CircuitResult(
                    one, ChangeOperation.CREATE, state or CircuitState.CONNECTED, code, reason
                )
                for one in change.creates
            ),
        )

    async def watch(self) -> AsyncIterator[SwitchEvent]:
        for event in ():
            yield event

    async def close(self) -> None:
        self.is_connected = False
