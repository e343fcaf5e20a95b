"""What an emulated switch tells by SNMP: its objects, as published clients and agents know them.

Of a Polatis switch: the group ``system`` (RFC 3418), product code, serial number and firmware, the
size, and for each port its peer (0 for none), its current state (1 enabled, 2 disabled, 3 failed),
its desired state (1, 2) and, where there is a monitor, its power. Numbers and values are those that
ONOS's driver, the vendor's tests and a laboratory's client use; the modules themselves are not
public. Assumed: power is in thousandths of a dBm, as that laboratory's client scales it (ONOS
gives no unit), and ``sysObjectID`` is the vendor's number. Power supplies, fans and alarms are told
by traps alone, which this emulator does not send.

Of a SONiC switch: the group ``system``, and of what it is made the ``ENTITY-MIB`` (RFC 4133) and
the status of power supplies (``cefcFRUPowerOperStatus``), as SONiC's own SNMP agent numbers them.
That agent knows nothing of circuits. No objects of Calient switches are public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from lightloom.control.emulator.device import EmulatedSwitch

Oid = tuple[int, ...]

_SYSTEM: Oid = (1, 3, 6, 1, 2, 1, 1)
_POLATIS: Oid = (1, 3, 6, 1, 4, 1, 26592)
_PRODUCT, _OXC = (*_POLATIS, 2, 1, 2, 2), (*_POLATIS, 2, 2, 2, 1)
_PORT, _POWER = (*_OXC, 2, 1), (*_POLATIS, 2, 3, 2, 2, 2, 1, 1)
_ENTITY: Oid = (1, 3, 6, 1, 2, 1, 47, 1, 1, 1, 1)
_POWER_STATUS: Oid = (1, 3, 6, 1, 4, 1, 9, 9, 117, 1, 1, 2, 1, 2)
#: columns of the table of entities
_DESCR, _CONTAINED_IN, _CLASS, _POSITION, _NAME = 2, 4, 5, 6, 7
_SERIAL, _MAKER, _MODEL, _IS_FRU = 11, 12, 13, 16
_CHASSIS, _CHASSIS_CLASS, _DRAWER_CLASS, _PSU_CLASS, _FAN_CLASS = 1, 3, 5, 6, 7
#: what SONiC's agent adds up to the index of a part: its kind, its place, and a fan of a drawer
_DRAWERS, _PSUS, _PLACE, _FAN = 500_000_000, 600_000_000, 1_000_000, 20_100
_WORKS, _HAS_FAILED, _IS_MISSING = 2, 7, 8


class SnmpObject(NamedTuple):
    """An object: the name of its type in SMIv2, and what returns its value."""

    type: str
    read: Callable[[], object]


def objects_of(switch: EmulatedSwitch, began_s: float) -> dict[Oid, SnmpObject]:
    """Return the objects of a switch, by identifier.

    Empty slots are not among the entities: read them anew for every request.

    Parameters
    ----------
    switch
        The switch.
    began_s
        When its SNMP agent began, by the clock of the switch.
    """
    vendor = _polatis if switch.identity.vendor == "Polatis" else _sonic
    return dict(_system(switch, began_s)) | dict(vendor(switch))


def _text(value: str) -> SnmpObject:
    return SnmpObject("OctetString", value.encode)


def _number(value: int) -> SnmpObject:
    return SnmpObject("Integer32", lambda: value)


def _system(switch: EmulatedSwitch, began_s: float) -> Iterator[tuple[Oid, SnmpObject]]:
    identity = switch.identity
    # SONiC's is net-snmp's, on Linux
    kind = _POLATIS if identity.vendor == "Polatis" else (1, 3, 6, 1, 4, 1, 8072, 3, 2, 10)

    def ticks() -> int:
        up_for_s = min(switch.up_for_s, switch.matrix.now() - began_s)
        return int(up_for_s * 100) % 2**32

    description = f"{identity.vendor} {identity.model}, software {identity.software}"
    yield (*_SYSTEM, 1, 0), _text(description)
    yield (*_SYSTEM, 2, 0), SnmpObject("ObjectIdentifier", lambda: kind)
    yield (*_SYSTEM, 3, 0), SnmpObject("TimeTicks", ticks)
    yield (*_SYSTEM, 4, 0), _text("")
    yield (*_SYSTEM, 5, 0), _text(switch.sid)
    yield (*_SYSTEM, 6, 0), _text("")
    yield (*_SYSTEM, 7, 0), _number(2 if kind == _POLATIS else 72)


def _polatis(switch: EmulatedSwitch) -> Iterator[tuple[Oid, SnmpObject]]:
    identity, matrix = switch.identity, switch.matrix
    for index, fact in enumerate((identity.model, identity.serial, identity.software), 1):
        yield (*_PRODUCT, index, 0), _text(fact)
    yield (*_OXC, 1, 0), _text("{}x{}".format(*matrix.size))

    def state(port: int) -> int:
        return 3 if port in matrix.failed else 2 if port in matrix.disabled else 1

    def desired(port: int) -> int:
        return 2 if port in matrix.disabled else 1

    def peer(port: int) -> int:
        return matrix.peer_of(port) or 0

    def power(port: int) -> int:
        return round(1000 * matrix.power_dbm(port))

    for column, kind, read in (
        (2, "Unsigned32", peer),
        (3, "Integer32", state),
        (4, "Integer32", desired),
    ):
        for port in matrix.ports:
            yield (*_PORT, column, port), SnmpObject(kind, partial(read, port))
    for port in sorted(switch.monitored_ports):
        yield (*_POWER, port), SnmpObject("Integer32", partial(power, port))


class _Part(NamedTuple):
    """A row of the table of entities."""

    number: int
    kind: int
    name: str
    parent: int
    position: int


def _parts(switch: EmulatedSwitch) -> Iterator[_Part]:
    """Yield what is in its slot."""
    yield _Part(_CHASSIS, _CHASSIS_CLASS, "chassis 1", 0, -1)
    for name, problem in switch.equipment.items():
        place = int(name.split()[-1])
        if problem == "empty":
            continue
        if name.startswith("PSU"):
            yield _Part(_PSUS + place * _PLACE, _PSU_CLASS, name, _CHASSIS, place)
            continue
        drawer = _DRAWERS + place * _PLACE
        yield _Part(drawer, _DRAWER_CLASS, f"drawer{place}", _CHASSIS, place)
        yield _Part(drawer + _FAN, _FAN_CLASS, name, drawer, 1)


def _sonic(switch: EmulatedSwitch) -> Iterator[tuple[Oid, SnmpObject]]:
    for part in _parts(switch):
        columns: dict[int, str | int] = {
            _DESCR: part.name,
            _CONTAINED_IN: part.parent,
            _CLASS: part.kind,
            _POSITION: part.position,
            _NAME: part.name,
            _IS_FRU: 2 if part.number == _CHASSIS else 1,
        }
        if part.number == _CHASSIS:
            identity = switch.identity
            columns |= {
                _SERIAL: identity.serial,
                _MAKER: identity.vendor,
                _MODEL: identity.model,
            }
        for column, value in columns.items():
            shown = _text(value) if isinstance(value, str) else _number(value)
            yield (*_ENTITY, column, part.number), shown
    for name, problem in switch.equipment.items():
        if name.startswith("PSU"):
            status = _IS_MISSING if problem == "empty" else _HAS_FAILED if problem else _WORKS
            yield (*_POWER_STATUS, int(name.split()[-1])), _number(status)
