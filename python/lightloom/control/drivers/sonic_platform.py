"""What SONiC's commands say of a switch: what it is, its power supplies, fans and temperatures.

The commands are ``show platform summary``, ``psustatus``, ``fan`` and ``temperature``; their lines
and words are those of the scripts that print them and of SONiC's guide for developers of optical
circuit switches. An empty slot is no failure: nobody says whether it should be filled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lightloom.control.drivers.sonic import Row, parse_table
from lightloom.control.switch import EquipmentStatus, SwitchDescription, SwitchProtocolError

SUMMARY = "platform summary"
#: what :func:`equipment_of` takes, in this order
EQUIPMENT = ("platform psustatus", "platform fan", "platform temperature")
_MAX_TEXT = 100
_OK = "ok"
_NOT_KNOWN = {"", "n/a"}


def described(description: SwitchDescription, summary: str) -> SwitchDescription:
    """Return a description with the model and the serial number that a summary says."""
    pairs = (line.partition(":") for line in summary.splitlines())
    facts = {name.strip(): value.strip()[:_MAX_TEXT] for name, colon, value in pairs if colon}

    def fact(name: str) -> str:
        value = facts.get(name, "")
        return "" if value.lower() in _NOT_KNOWN else value

    return replace(description, model=fact("Model Number"), serial=fact("Serial Number"))


def equipment_of(power_supplies: str, fans: str, sensors: str) -> tuple[EquipmentStatus, ...]:
    """Return power supplies, fans and sensors, and what is wrong with each, from their tables."""
    equipment = [
        _status(row, "PSU", "power supply", is_present=row.get("Status", "") != "NOT PRESENT")
        for row in _rows(power_supplies)
    ]
    equipment += [
        _status(row, "FAN", "fan", is_present=row.get("Presence", "").lower() == "present")
        for row in _rows(fans)
    ]
    for row in _rows(sensors):
        name = row.get("Sensor", "")[:_MAX_TEXT]
        is_warm = row.get("Warning", "").lower() == "true"
        problem = f"is at {row.get('Temperature', '?')[:_MAX_TEXT]} °C" if is_warm else ""
        equipment.append(EquipmentStatus(name, "temperature sensor", problem=problem))
    return tuple(equipment)


def _rows(text: str) -> Iterable[Row]:
    """Return the rows of a table; none where a line says that there is nothing to show."""
    try:
        return parse_table(text)
    except SwitchProtocolError:
        return []


def _status(row: Row, column: str, kind: str, *, is_present: bool) -> EquipmentStatus:
    word = row.get("Status", "").lower()
    is_well = not is_present or word in {_OK, *_NOT_KNOWN}
    problem = "" if is_well else f"is {word[:_MAX_TEXT]}"
    return EquipmentStatus(row.get(column, "")[:_MAX_TEXT], kind, is_present, problem)
