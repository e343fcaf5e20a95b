"""Inventory as OpenConfig models it: what a switch is made of, its power supplies, fans, sensors.

The model is ``openconfig-platform``, of which SONiC's management framework serves chassis, power
supplies and fans ("Platform commands in Management Framework", revision 0.3), and a switch may
serve sensors of temperature. An empty slot is no failure: nobody says whether it should be filled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from lightloom.control.switch import EquipmentStatus, SwitchDescription, SwitchProtocolError

CONTAINER = "openconfig-platform:components"
_KINDS = {"POWER_SUPPLY": "power supply", "FAN": "fan", "SENSOR": "temperature sensor"}
#: leaves that say what a switch is, the best first, by the type of their component
_SAID_BY: dict[str, dict[str, tuple[str, ...]]] = {
    "CHASSIS": {
        "vendor": ("mfg-name",),
        "model": ("model-name", "part-no"),
        "serial": ("serial-no",),
    },
    "OPERATING_SYSTEM": {"software": ("software-version",)},
}
_MAX_COMPONENTS, _MAX_TEXT = 4096, 100

Component = Mapping[str, Any]


def components_of(text: bytes) -> list[Component]:
    """Return the state of each component, by leaves without their modules.

    Raises
    ------
    SwitchProtocolError
        If it is not JSON, or no list of components.
    """
    try:
        data = json.loads(text or b"{}")
    except (ValueError, RecursionError):
        raise SwitchProtocolError("the switch sent components that are not JSON") from None
    for name in ("components", "component"):
        if isinstance(data, dict):
            data = _bare(data).get(name, data)
    if data == {}:
        return []
    if not isinstance(data, list) or len(data) > _MAX_COMPONENTS:
        raise SwitchProtocolError("the switch sent components of unknown form")
    components: list[Component] = []
    for component in data:
        if not isinstance(component, dict) or not isinstance(component.get("state", {}), dict):
            raise SwitchProtocolError("the switch sent a component of unknown form")
        components.append({"name": component.get("name", ""), **_bare(component.get("state", {}))})
    return components


def _bare(table: Mapping[str, Any]) -> dict[str, Any]:
    """Keys without the module before them."""
    return {str(name).rpartition(":")[2]: value for name, value in table.items()}


def _word(value: object) -> str:
    """An identity without the module before it; any other value as a short text."""
    return str(value).rpartition(":")[2][:_MAX_TEXT]


def equipment_of(components: Iterable[Component]) -> tuple[EquipmentStatus, ...]:
    """Return power supplies, fans and temperature sensors, and what is wrong with each."""
    return tuple(
        EquipmentStatus(
            name=str(component["name"])[:_MAX_TEXT],
            kind=_KINDS[_word(component.get("type", ""))],
            is_present=component.get("empty") is not True,
            problem=_problem(component),
        )
        for component in components
        if _word(component.get("type", "")) in _KINDS
        and (_word(component["type"]) != "SENSOR" or _temperature(component))
    )


def _temperature(component: Component) -> Mapping[str, Any]:
    """What a component says of its temperature; nothing if it says none."""
    temperature = component.get("temperature", {})
    return temperature if isinstance(temperature, dict) else {}


def _problem(component: Component) -> str:
    if component.get("empty") is True:
        return ""
    if component.get("equipment-failure") is True:
        return "has failed"
    if _temperature(component).get("alarm-status") is True:
        return f"is at {_word(_temperature(component).get('instant', '?'))} °C"
    status = _word(component.get("oper-status", "ACTIVE"))
    return "" if status == "ACTIVE" else f"is {status.lower()}"


def described(description: SwitchDescription, components: Iterable[Component]) -> SwitchDescription:
    """Return a description with the vendor, model, serial and software that components say."""
    facts: dict[str, Any] = {}
    for component in components:
        kind = _word(component.get("type", ""))
        for fact, leaves in _SAID_BY.get(kind, {}).items():
            text = next(
                (str(component[leaf])[:_MAX_TEXT] for leaf in leaves if component.get(leaf)), ""
            )
            if text:
                facts.setdefault(fact, text)
    return replace(description, **facts)
