"""What the protocols of Polatis switches share: inventory, numbering of ports, light and loss."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lightloom.control.switch import (
    CrossConnect,
    Port,
    PortSide,
    PortState,
    PortStatus,
    SwitchDescription,
    SwitchFeature,
)

_SIZE = re.compile(r"(?<!\d)(\d{1,5})x(\d{1,5})(?!\d)")


def sides_of(size: tuple[int, int]) -> dict[Port, PortSide]:
    """Return all ports: ingress 1 to N, then egress N + 1 to N + M."""
    rows, columns = size
    sides = {str(port): PortSide.INGRESS for port in range(1, rows + 1)}
    return sides | {str(port): PortSide.EGRESS for port in range(rows + 1, rows + columns + 1)}


def size_of(model: str, num_ports: int) -> tuple[int, int]:
    """Return the size that a model's name has, such as ``N-VST-48x48``, else half a side each."""
    match = _SIZE.search(model)
    if match is not None and int(match[1]) + int(match[2]) == num_ports:
        return int(match[1]), int(match[2])
    return num_ports - num_ports // 2, num_ports // 2


def description_of(
    product: Mapping[str, Any], num_ports: int, features: Iterable[SwitchFeature], *, moves: bool
) -> SwitchDescription:
    """Return the inventory that ``product-information`` gives, the same by RESTCONF and NETCONF.

    Parameters
    ----------
    product
        Its leaves by name; what is absent is empty.
    num_ports
        Ports on both sides.
    features
        What the protocol offers.
    moves
        Whether a circuit may be made on busy ports.
    """
    model = str(product.get("model-name", ""))
    size = size_of(model, num_ports)
    return SwitchDescription(
        vendor=str(product.get("manufacturer", "")),
        model=model,
        serial=str(product.get("serial-number", "")),
        size=size,
        ports=sides_of(size),
        features=frozenset({*features, *([SwitchFeature.MOVES] if moves else [])}),
        software=str(product.get("software-version", "")),
    )


def is_closed(status: str) -> bool:
    """Whether no light passes a port of this status; a port without a shutter has another one."""
    return status.removeprefix("PO_") in {"DISABLED", "FAILED"}


def port_statuses(
    sides: Mapping[Port, PortSide],
    circuits: Iterable[CrossConnect],
    powers_dbm: Mapping[Port, float],
    closed: Iterable[Port],
) -> tuple[PortStatus, ...]:
    """Return the status of all ports.

    Parameters
    ----------
    sides
        All ports.
    circuits
        All circuits; the loss of each is the power before it less the power after it.
    powers_dbm
        Measured power of the ports that have a monitor.
    closed
        Ports with a closed shutter, or that are disabled.
    """
    losses_db: dict[Port, float] = {}
    used: set[Port] = set()
    for connect in circuits:
        used |= {connect.ingress, connect.egress}
        if connect.ingress in powers_dbm and connect.egress in powers_dbm:
            loss_db = round(powers_dbm[connect.ingress] - powers_dbm[connect.egress], 3)
            losses_db |= {connect.ingress: loss_db, connect.egress: loss_db}
    closed = frozenset(closed)
    return tuple(
        PortStatus(
            name=port,
            side=side,
            enabled=port not in closed,
            state=PortState.TUNED if port in used - closed else PortState.BLOCKED,
            power_dbm=powers_dbm.get(port),
            loss_db=losses_db.get(port),
        )
        for port, side in sides.items()
    )
