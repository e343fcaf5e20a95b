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

from collections.abc import Sequence
from dataclasses import replace

from lightloom.control.drivers.changes import ChangeCommand
from lightloom.control.drivers.options import DriverSettings, SwitchAddress
from lightloom.control.drivers.restconf import RestconfClient
from lightloom.control.drivers.sonic import displaced_by, entry_of, name_of
from lightloom.control.drivers.sonic_driver import SonicTreeDriver
from lightloom.control.switch import (
    CircuitResult,
    CircuitState,
    SwitchChange,
    SwitchProtocolError,
)

TLS_PORT = 443
_BULK_UPDATE, _INPUT, _OUTPUT = "sonic-ocs:bulk-update", "sonic-ocs:input", "sonic-ocs:output"


class SonicRestconf(SonicTreeDriver):
    """Driver of one SONiC switch by RESTCONF over HTTPS.

    Parameters
    ----------
    address
        Host, port, user and password.
    settings
        Time-outs, and the certificates that are trusted.
    """

    def __init__(
        self, address: SwitchAddress, settings: DriverSettings, *, is_encrypted: bool = True
    ) -> None:
        super().__init__(address, settings, is_encrypted=is_encrypted)
        self._client = RestconfClient(address, settings, "/restconf/", tls=is_encrypted)
        #: names in the latest change that the switch could not process
        self._failed_keys: frozenset[str] = frozenset()

    async def _dial(self) -> None:
        self._client.open()

    def _is_open(self) -> bool:
        return self._client.is_open

    async def apply(self, change: SwitchChange) -> tuple[CircuitResult, ...]:
        """Delete and create circuits by one transaction; nothing is sent twice."""
        self._failed_keys = frozenset()
        results = await super().apply(change)
        return tuple(
            replace(
                result,
                state=CircuitState.INVALID,
                code="failed_keys",
                reason="the switch could not process it",
            )
            if name_of(result.cross_connect) in self._failed_keys
            else result
            for result in results
        )

    async def _commands(self, change: SwitchChange) -> list[ChangeCommand]:
        return [ChangeCommand(lambda: self._update(change), change.deletes, change.creates)]

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    async def _update(self, change: SwitchChange) -> None:
        """Send a change, and note the names that the switch could not process."""
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
        self._failed_keys = frozenset(map(str, names))

    async def _values(self, names: Sequence[str]) -> list[bytes]:
        return [(await self._client.request("GET", f"data/{'/'.join(names)}")).body]
