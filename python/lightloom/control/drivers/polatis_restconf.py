"""Polatis switches by RESTCONF (RFC 8040), with or without TLS.

A change is a ``DELETE`` per circuit whose ports both become free and one ``PATCH`` with all new
ones; or, with the setting ``replace=yes``, one ``PUT`` of all circuits, on condition that nobody
has changed them since they were read. Reading back sends the entity tag of the last reading, so
that an unchanged list is not sent again. Ports are numbers, ingress 1 to N, egress N + 1 to N + M.

Never met real hardware: everything here. Paths and bodies are those that public clients and the
vendor's web interface use. No source says whether a ``PATCH`` moves the circuits of busy ports
(``moves=no`` deletes first), whether ``If-Match`` is honored, or whether a reply means accepted or
settled. One laboratory reports that circuits made by ``POST`` vanished after seconds; this driver
sends none. No source documents a stream of reports: :meth:`PolatisRestconf.watch` compares readings
of a second client, ``poll_s`` apart.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from lightloom.control.drivers.base import BaseDriver
from lightloom.control.drivers.changes import (
    ChangeCommand,
    creates_in_batches,
    split_deletes,
)
from lightloom.control.drivers.options import DriverSettings, SwitchAddress
from lightloom.control.drivers.polatis import description_of, is_closed, port_statuses
from lightloom.control.drivers.restconf import RestconfClient, RestconfReply
from lightloom.control.switch import (
    CrossConnect,
    Port,
    PortStatus,
    Readback,
    SwitchChange,
    SwitchDeniedError,
    SwitchDescription,
    SwitchFeature,
    SwitchProtocolError,
)

TCP_PORT = 8008
TLS_PORT = 443
_CIRCUITS = "optical-switch:cross-connects"


class PolatisRestconf(BaseDriver):
    """Driver of one Polatis switch by RESTCONF.

    Parameters
    ----------
    address
        Host, port, user and password.
    settings
        Time-outs, what the switch can do, and the certificates that are trusted.
    is_encrypted
        Whether to use HTTPS.
    """

    def __init__(
        self, address: SwitchAddress, settings: DriverSettings, *, is_encrypted: bool = False
    ) -> None:
        super().__init__(address, settings, is_encrypted=is_encrypted)
        self._client = RestconfClient(address, settings, "/api/data/", tls=is_encrypted)
        self._tag = ""
        self._circuits: frozenset[CrossConnect] = frozenset()

    async def _open(self) -> SwitchDescription:
        self._client.open()
        product = _unwrapped(await self._get("optical-switch:product-information"))
        ports = _rows(await self._get("optical-switch:port-config/port"))
        if not isinstance(product, dict):
            raise SwitchProtocolError("product-information is no object")
        features = {
            SwitchFeature.LISTS,
            SwitchFeature.POWER,
            SwitchFeature.REPLACE_ALL,
            SwitchFeature.EVENTS,
        }
        return description_of(product, len(ports), features, moves=self._settings.moves)

    def _is_open(self) -> bool:
        return self._client.is_open

    async def read_back(self, *, ports: bool = True) -> Readback:
        """Return all circuits and, on request, status and power of all ports."""
        self._connected()
        headers = {"if-none-match": self._tag} if self._tag else {}
        reply = await self._client.request("GET", _CIRCUITS, headers=headers)
        if reply.status != 304:
            self._circuits = frozenset(
                CrossConnect(_port(row, "ingress"), _port(row, "egress"))
                for row in _rows(reply.parsed())
            )
            self._tag = reply.headers.get("etag", "")
        return Readback(self._circuits, ports=await self._ports() if ports else ())

    async def _commands(self, change: SwitchChange) -> list[ChangeCommand]:
        if self._settings.replace:
            return [ChangeCommand(lambda: self._replace(change), change.deletes, change.creates)]
        commanded, implied = split_deletes(change, moves=self._settings.moves)
        commands = [ChangeCommand(self._deleter(pair), deletes=(pair,)) for pair in commanded]
        for batch, moved in creates_in_batches(change, implied, self._settings.max_pairs):
            commands.append(ChangeCommand(self._creator(batch), moved, batch))
        return commands

    async def close(self) -> None:
        """Close the connections."""
        self._tag = ""
        await self._client.close()

    async def _get(self, path: str) -> Any:
        return (await self._client.request("GET", path)).parsed()

    def _deleter(self, pair: CrossConnect) -> Callable[[], Coroutine[None, None, RestconfReply]]:
        return lambda: self._client.request("DELETE", f"{_CIRCUITS}/pair={pair.ingress}")

    def _creator(
        self, batch: Sequence[CrossConnect]
    ) -> Callable[[], Coroutine[None, None, RestconfReply]]:
        content = {"pair": [_pair(pair) for pair in batch]}
        return lambda: self._client.request("PATCH", "cross-connects/pair", content=content)

    async def _replace(self, change: SwitchChange) -> None:
        """Put all circuits: the present ones, less the deleted and moved, plus the new ones."""
        await self.read_back(ports=False)
        taken = {port for pair in change.creates for port in (pair.ingress, pair.egress)}
        kept = {
            pair
            for pair in self._circuits - set(change.deletes)
            if not {pair.ingress, pair.egress} & taken
        }
        pairs = [_pair(pair) for pair in sorted(kept | set(change.creates))]
        headers = {"if-match": self._tag} if self._tag else {}
        self._tag = ""
        await self._client.request(
            "PUT", _CIRCUITS, content={_CIRCUITS: {"pair": pairs}}, headers=headers
        )

    async def _ports(self) -> tuple[PortStatus, ...]:
        description = self._connected()
        config = {
            _port(row, "port-id"): row
            for row in _rows(await self._get("optical-switch:port-config/port"))
        }
        try:
            rows = _rows(await self._get("optical-switch:opm-power/port"))
        except SwitchDeniedError:
            rows = []
        powers = {_port(row, "port-id"): _number(row, "power") for row in rows}
        closed = [name for name, row in config.items() if is_closed(str(row.get("status", "")))]
        return port_statuses(description.ports, self._circuits, powers, closed)


def _pair(connect: CrossConnect) -> dict[str, int]:
    return {"ingress": int(connect.ingress), "egress": int(connect.egress)}


def _unwrapped(data: Any) -> Any:
    """Return what objects with one key each contain."""
    while isinstance(data, dict) and len(data) == 1:
        (data,) = data.values()
    return data


def _rows(data: Any) -> list[dict[str, Any]]:
    """Return the list of objects that a reply contains; none if it is empty."""
    rows = _unwrapped(data)
    if rows is None or rows == {}:
        return []
    rows = [rows] if isinstance(rows, dict) else rows
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SwitchProtocolError("the switch sent a reply of unknown form")
    return rows


def _port(row: dict[str, Any], key: str) -> Port:
    value = row.get(key)
    if isinstance(value, bool) or not str(value).isdecimal() or len(str(value)) > 6:
        raise SwitchProtocolError(f"the switch sent {str(value)[:20]!r} as {key}")
    return str(int(str(value)))


def _number(row: dict[str, Any], key: str) -> float:
    try:
        return float(row[key])
    except (KeyError, TypeError, ValueError):
        raise SwitchProtocolError(f"the switch sent no number as {key}") from None
