"""What a user calls a part of a testbed: the words of a region (``nic:2/1``), or ``nic:2.1``."""

from __future__ import annotations

from lightloom.control.failures import OPTICAL_PARTS, PartKind, parse_part
from lightloom.errors import echo
from lightloom.testbed.layout import ServerLayout, ServerNic
from lightloom.testbed.refusals import LayoutError

#: the control of the circuit switch
SWITCH = "switch:ocs"


def parts_of(text: str, layout: ServerLayout) -> tuple[ServerNic, ...] | None:
    """Return the NICs that a part takes with it; None for the control of the circuit switch.

    Raises
    ------
    LayoutError
        If the testbed has no such part.
    """
    part = parse_part(text.replace(".", "/"))
    if part.kind is PartKind.SWITCH and str(part) == SWITCH and layout.optical_nics:
        return None
    if part.server >= layout.servers:
        raise LayoutError(f"{part}: expected a server from 0 to {layout.servers - 1}")
    if part.kind is PartKind.SERVER:
        return tuple(layout.nics_of(part.server))
    if part.kind in {*OPTICAL_PARTS, PartKind.EPS_NIC}:
        is_optical = part.kind is not PartKind.EPS_NIC
        nics = [nic for nic in layout.nics_of(part.server) if nic.is_optical is is_optical]
        if part.number < len(nics):
            return (nics[part.number],)
        raise LayoutError(f"{part}: server {part.server} has {len(nics)} such NICs, counted from 0")
    raise LayoutError(
        f"part {echo(text)}: expected of nic:2/1 (server/NIC), eps:2/0, server:2, {SWITCH}"
    )
