"""SNMP of an emulated switch: version 2c over UDP, to read only, for the community ``public``.

Messages are those of pysnmp, which parses and writes them. ``GET``, ``GETNEXT`` and ``GETBULK`` are
answered, ``SET`` is refused with ``noAccess``; other versions, other communities and whatever is no
message get no answer, as RFC 3416 and RFC 1157 have it. A request is one datagram, a reply names at
most :data:`MAX_OBJECTS` objects, and what one asks for is looked up by bisection.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from lightloom.control.drivers.options import optional_import
from lightloom.control.emulator.device import EmulatedSwitch
from lightloom.control.emulator.snmp_objects import Oid, SnmpObject, objects_of

COMMUNITY = b"public"
#: objects of a request, and of a reply
MAX_OBJECTS = 64
#: a request that is longer is none; one of :data:`MAX_OBJECTS` objects is shorter
MAX_REQUEST_BYTES = 8192
_VERSION_2C = 1
_NO_ACCESS, _TOO_BIG = 6, 1


class SnmpService(asyncio.DatagramProtocol):
    """Serves one switch.

    Parameters
    ----------
    switch
        Whose objects are read.
    """

    def __init__(self, switch: EmulatedSwitch) -> None:
        self._switch = switch
        self._api = optional_import("pysnmp.proto.api.v2c", "the emulator's SNMP")
        self._names = optional_import("pysnmp.proto.rfc1902", "the emulator's SNMP")
        self._read = optional_import("pyasn1.codec.ber.decoder", "the emulator's SNMP").decode
        self._write = optional_import("pyasn1.codec.ber.encoder", "the emulator's SNMP").encode
        self._transport: Any = None
        self._began_s = 0.0

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port."""
        loop = asyncio.get_running_loop()
        self._began_s = self._switch.matrix.now()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=(host, port)
        )
        return int(self._transport.get_extra_info("sockname")[1])

    async def close(self) -> None:
        """Stop listening."""
        if self._transport is not None:
            self._transport.close()

    def datagram_received(self, data: bytes, address: object) -> None:
        """Answer a request."""
        reply = self.reply_to(data) if self._switch.is_up else None
        if reply is not None and not self._transport.is_closing():
            self._transport.sendto(reply, address)

    def reply_to(self, data: bytes) -> bytes | None:
        """Return the reply to a datagram, None if it gets none."""
        if len(data) > MAX_REQUEST_BYTES:
            return None
        try:
            message, rest = self._read(data, asn1Spec=self._api.Message())
            if rest or int(message["version"]) != _VERSION_2C:
                return None
            if bytes(message["community"]) != COMMUNITY:
                return None
            return self._answer(message)
        # whatever pyasn1 and pysnmp raise about bytes of others
        except Exception:
            return None

    def _answer(self, message: object) -> bytes | None:
        api, request = self._api, self._api.apiMessage.get_pdu(message)
        reply = api.apiMessage.get_response(message)
        answer = api.apiMessage.get_pdu(reply)
        asked = [tuple(name) for name, _ in api.apiPDU.get_varbinds(request)]
        objects = objects_of(self._switch, self._began_s)
        kind = type(request)
        if len(asked) > MAX_OBJECTS:
            api.apiPDU.set_error_status(answer, _TOO_BIG)
            return bytes(self._write(reply))
        if kind is api.SetRequestPDU:
            api.apiPDU.set_varbinds(answer, api.apiPDU.get_varbinds(request))
            api.apiPDU.set_error_status(answer, _NO_ACCESS)
            api.apiPDU.set_error_index(answer, 1)
            return bytes(self._write(reply))
        if kind is api.GetRequestPDU:
            held_values = [(name, self._value(objects, name)) for name in asked]
        elif kind in (api.GetNextRequestPDU, api.GetBulkRequestPDU):
            num_single, num_repeats = len(asked), 0
            if kind is api.GetBulkRequestPDU:
                num_single = max(int(api.apiBulkPDU.get_non_repeaters(request)), 0)
                num_repeats = max(int(api.apiBulkPDU.get_max_repetitions(request)), 0)
            held_values = list(self._following(objects, asked, num_single, num_repeats))
        else:
            return None
        rows = [(self._names.ObjectName(name), value) for name, value in held_values]
        api.apiPDU.set_varbinds(answer, rows)
        return bytes(self._write(reply))

    def _value(self, objects: Mapping[Oid, SnmpObject], name: Oid) -> Any:
        """Return what an object holds, or that there is none."""
        entry = objects.get(name)
        if entry is not None:
            return getattr(self._api, entry.type)(entry.read())
        is_column = any(other[:-1] == name[:-1] for other in objects)
        return self._api.NoSuchInstance("") if is_column else self._api.NoSuchObject("")

    def _following(
        self,
        objects: Mapping[Oid, SnmpObject],
        asked: list[Oid],
        num_single: int,
        num_repeats: int,
    ) -> Iterator[tuple[Oid, Any]]:
        """Yield the objects that follow each name: the first ones once, the others repeatedly."""
        names = sorted(objects)

        def after(name: Oid) -> tuple[Oid, Any]:
            place = bisect_right(names, name)
            if place == len(names):
                return name, self._api.EndOfMibView("")
            return names[place], self._value(objects, names[place])

        yield from map(after, asked[:num_single])
        repeated = asked[num_single:]
        room = MAX_OBJECTS - min(num_single, len(asked))
        for _ in range(min(num_repeats, room // max(len(repeated), 1))):
            row = [after(name) for name in repeated]
            yield from row
            if repeated == [name for name, _ in row]:
                return
            repeated = [name for name, _ in row]
