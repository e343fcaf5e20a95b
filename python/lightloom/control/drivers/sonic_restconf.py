"""SONiC switches by RESTCONF over HTTPS, as SONiC's management framework serves it.

A change is one ``bulk-update``: it deletes by name and then adds, in one transaction. What stands
on the ports of a new cross-connect is deleted by name in the same request, since a port serves one
cross-connect, and so is an entry of the same name that is not connected: an addition of a name that
is there is skipped, and would leave it as it is.

Never met real hardware: everything here. Paths, wrapped bodies, ``bulk-update`` and what it does
with busy ports are those of SONiC's guide for developers of optical circuit switches, revision 0.2;
where the hardware reports, of that guide or of the design document, revision 0.5; power supplies
and fans, of "Platform commands in Management Framework", revision 0.3. Assumed, since no source
says it: name and password by HTTP's basic scheme, as for SONiC's packet switches; an empty table is
an empty list or not there; ``failed_keys`` are names, of which the rest was done; a reply means
that the configuration is written, not that mirrors have settled. No reports are published:
:meth:`SonicRestconf.watch` compares readings of a second client, ``poll_s`` apart.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from lightloom.control.drivers.changes import ChangeCommand, check_change, run_commands
from lightloom.control.drivers.openconfig_platform import (
    CONTAINER,
    Component,
    components_of,
    described,
    equipment_of,
)
from lightloom.control.drivers.options import DriverSettings, SwitchAddress
from lightloom.control.drivers.polling import polled_events
from lightloom.control.drivers.restconf import RestconfClient
from lightloom.control.drivers.sonic import (
    CONFIG,
    FEATURES,
    MODELS,
    description_of,
    displaced_by,
    entry_of,
    name_of,
    readback_of,
    rows_of,
)
from lightloom.control.drivers.streams import within_connect_time
from lightloom.control.switch import (
    CircuitResult,
    CircuitState,
    Readback,
    SwitchChange,
    SwitchDeniedError,
    SwitchDescription,
    SwitchDisconnectedError,
    SwitchEvent,
    SwitchProtocolError,
)

TLS_PORT = 443
_BULK_UPDATE, _INPUT, _OUTPUT = "sonic-ocs:bulk-update", "sonic-ocs:input", "sonic-ocs:output"
#: answers that say that a model, and a table, is not there
_NO_MODEL, _NO_TABLE = ("400", "404"), ("404",)


class SonicRestconf:
    """Driver of one SONiC switch by RESTCONF over HTTPS.

    Parameters
    ----------
    address
        Host, port, user and password.
    settings
        Time-outs, and the certificates that are trusted.
    """

    def __init__(self, address: SwitchAddress, settings: DriverSettings | None = None) -> None:
        self._address = address
        self._settings = settings or DriverSettings()
        self._client = RestconfClient(address, self._settings, "/restconf/", tls=True)
        self._description: SwitchDescription | None = None
        self._has_platform = True
        self._model = MODELS[0]

    @within_connect_time
    async def connect(self) -> SwitchDescription:
        """Check the login and return the switch's inventory."""
        await self.close()
        self._has_platform = True  # what was refused once may be there since a restart
        self._client.open()
        try:
            for self._model in MODELS:
                if rows := rows_of(await self._body(self._model.ports, _NO_MODEL)):
                    break
            description = description_of(rows, FEATURES)
            self._description = described(description, await self._components())
        except BaseException:
            await self.close()
            raise
        return self._description

    async def read_back(self, *, ports: bool = True) -> Readback:
        """Return all circuits with their states and, on request, all ports."""
        self._connected()
        configured = await self._rows(CONFIG)
        reported = await self._rows(self._model.cross_connects)
        if not ports:
            return readback_of(configured, reported, [])
        readback = readback_of(configured, reported, await self._rows(self._model.ports))
        return replace(readback, equipment=equipment_of(await self._components()))

    async def apply(self, change: SwitchChange) -> tuple[CircuitResult, ...]:
        """Delete and create circuits by one transaction; nothing is sent twice."""
        check_change(change, self._connected().ports)
        if change.is_empty:
            return ()
        failed: set[str] = set()

        async def send() -> None:
            failed.update(await self._update(change))

        command = ChangeCommand(send, deletes=change.deletes, creates=change.creates)
        results = await run_commands(change, [command])
        return tuple(
            replace(
                result,
                state=CircuitState.INVALID,
                code="failed_keys",
                reason="the switch could not process it",
            )
            if name_of(result.cross_connect) in failed
            else result
            for result in results
        )

    async def watch(self) -> AsyncIterator[SwitchEvent]:
        """Yield what differs between readings, until the driver is closed."""
        self._connected()
        other = SonicRestconf(self._address, self._settings)
        async with contextlib.aclosing(
            polled_events(other, self._settings.poll_s, lambda: self._client.is_open)
        ) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    async def _update(self, change: SwitchChange) -> frozenset[str]:
        """Send a change; return the names that the switch could not process."""
        deletes = [*change.deletes]
        if change.creates:
            now = await self.read_back(ports=False)
            deletes += displaced_by(change, now.cross_connects)
            deletes += [
                pair
                for pair in change.creates
                if pair not in change.deletes
                and now.state_of(pair) not in {None, CircuitState.CONNECTED}
            ]
        content = {
            "delete": [name_of(pair) for pair in deletes],
            "add": [entry_of(pair) for pair in change.creates],
        }
        given = {name: rows for name, rows in content.items() if rows}
        reply = await self._client.request(
            "POST", f"operations/{_BULK_UPDATE}", content={_INPUT: given}
        )
        data = reply.parsed() if reply.body else {}
        output = data.get(_OUTPUT, {}) if isinstance(data, dict) else None
        names = output.get("failed_keys", []) if isinstance(output, dict) else None
        if not isinstance(names, list):
            await self.close()
            raise SwitchProtocolError(f"the switch sent an unknown reply to {_BULK_UPDATE}")
        return frozenset(map(str, names))

    async def _rows(self, names: Sequence[str]) -> list[dict[str, str]]:
        """Return the rows of a table; none if it is not there."""
        return rows_of(await self._body(names, _NO_TABLE))

    async def _components(self) -> list[Component]:
        """Return what the switch is made of; nothing if it does not have the model."""
        if not self._has_platform:
            return []
        try:
            return components_of(await self._body([CONTAINER]))
        except SwitchDeniedError:
            self._has_platform = False
            return []

    async def _body(self, names: Sequence[str], absent: Sequence[str] = ()) -> bytes:
        """Return what is below a path of data; empty if the answer is that nothing is there."""
        try:
            return (await self._client.request("GET", f"data/{'/'.join(names)}")).body
        except SwitchDeniedError as error:
            if error.code not in absent:
                raise
            return b""

    def _connected(self) -> SwitchDescription:
        if not self._client.is_open or self._description is None:
            raise SwitchDisconnectedError(f"switch {self._address}: not connected")
        return self._description
