"""Events of a switch that sends no reports: what differs between two readings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator

from lightloom.control.switch import (
    Port,
    PortStatus,
    Readback,
    SwitchDriver,
    SwitchEvent,
    SwitchEventKind,
)


async def polled_events(
    driver: SwitchDriver, interval_s: float, is_open: Callable[[], bool]
) -> AsyncGenerator[SwitchEvent, None]:
    """Read a switch back every so often, and yield what has changed since.

    Parameters
    ----------
    driver
        A driver of its own; connected here, and closed in the end.
    interval_s
        Time between two readings; 0 for none at all.
    is_open
        Whether events are still wanted, looked at before each reading.

    Raises
    ------
    SwitchError
        If the switch cannot be reached or read.
    """
    if not interval_s:
        return
    try:
        await driver.connect()
        before = await driver.read_back()
        while True:
            await asyncio.sleep(interval_s)
            if not is_open():
                return
            now = await driver.read_back()
            for event in changes_between(before, now):
                yield event
            before = now
    finally:
        await driver.close()


def changes_between(before: Readback, now: Readback) -> Iterator[SwitchEvent]:
    """Yield an event for each cross-connect that came, went or changed, and for each port.

    Measured power is no event: it is never twice the same.
    """
    for connect in sorted(before.cross_connects | now.cross_connects):
        old, new = before.state_of(connect), now.state_of(connect)
        if old is not new:
            text = f"cross-connect {connect}: {old or 'absent'}, now {new or 'absent'}"
            yield SwitchEvent(SwitchEventKind.CIRCUIT, text, (connect.ingress, connect.egress))
    earlier = {port.name: port for port in before.ports}
    for port in now.ports:
        was = earlier.get(port.name, port)
        if _condition(was) != _condition(port):
            yield _port_event(port.name, was, port)


def _condition(port: PortStatus) -> tuple[object, ...]:
    return port.enabled, port.state, port.alarm


def _port_event(name: Port, was: PortStatus, port: PortStatus) -> SwitchEvent:
    kind = SwitchEventKind.PORT if was.alarm == port.alarm else SwitchEventKind.ALARM
    words = [f"port {name}: {was.state}, now {port.state}"]
    if was.enabled != port.enabled:
        words.append("enabled" if port.enabled else "disabled")
    if was.alarm != port.alarm:
        words.append(f"alarm {port.alarm or 'cleared'}")
    return SwitchEvent(kind, ", ".join(words), (name,))
