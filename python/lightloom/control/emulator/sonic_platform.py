"""What an emulated SONiC switch is made of, as ``openconfig-platform`` has it.

Names of components, and which leaves there are, are those of SONiC's "Platform commands in
Management Framework", revision 0.3: ``PSU 1``, ``FAN 1``; types and states are the identities of
``openconfig-platform-types``.
"""

from __future__ import annotations

from typing import Any

from lightloom.control.emulator.device import WARM_C, EmulatedSwitch

PLATFORM = "openconfig-platform"
_TYPES = "openconfig-platform-types"


def platform_of(switch: EmulatedSwitch) -> dict[str, Any]:
    """Return the tree of the components of a switch."""
    identity = switch.identity
    chassis = {"mfg-name": identity.vendor, "part-no": identity.model, "serial-no": identity.serial}
    components = [
        _component("Chassis", "CHASSIS", chassis),
        _component("OS", "OPERATING_SYSTEM", {"software-version": identity.software}),
    ]
    for name, problem in switch.equipment.items():
        kind = "POWER_SUPPLY" if name.startswith("PSU") else "FAN"
        is_empty = problem == "empty"
        facts: dict[str, Any] = {"empty": is_empty}
        if not is_empty:
            facts["oper-status"] = f"{_TYPES}:{problem or 'ACTIVE'}"
        components.append(_component(name, kind, facts))
    for name, temperature_c in switch.temperatures_c.items():
        temperature = {"instant": temperature_c, "alarm-status": temperature_c > WARM_C}
        components.append(_component(name, "SENSOR", {"temperature": temperature}))
    return {f"{PLATFORM}:components": {"component": components}}


def _component(name: str, kind: str, facts: dict[str, Any]) -> dict[str, Any]:
    state = {"name": name, "type": f"{_TYPES}:{kind}", **facts}
    return {"name": name, "config": {"name": name}, "state": state}
