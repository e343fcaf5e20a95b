"""The model of circuits and ports that SONiC has for optical circuit switches, as rows.

Ports are ``1A`` to ``NA`` (ingress) and ``1B`` to ``MB`` (egress); the cross-connect of 1A and 2B
is called ``1A-2B``. What is configured and what the hardware reports are two tables.

Two models are published, and a switch has one of them. By the design document of SONiC for optical
circuit switches, revision 0.5, the hardware reports in a module ``sonic-ocs-states``, a status for
each side of a cross-connect. By its guide for developers, revision 0.2, it reports in tables of the
module ``sonic-ocs`` whose names end in ``_TABLE``, one status for a cross-connect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lightloom.control.switch import (
    CircuitState,
    CrossConnect,
    Port,
    PortSide,
    PortState,
    PortStatus,
    Readback,
    SwitchChange,
    SwitchDescription,
    SwitchFeature,
    SwitchProtocolError,
)

FEATURES = frozenset(
    {
        SwitchFeature.LISTS,
        SwitchFeature.MOVES,
        SwitchFeature.REPLACE_ALL,
        SwitchFeature.CIRCUIT_STATES,
        SwitchFeature.EVENTS,
    }
)
_NAME = re.compile(r"(\d{1,5}A)-(\d{1,5}B)")
_PORT = re.compile(r"\d{1,5}([AB])")
_SIDES = {"A": PortSide.INGRESS, "B": PortSide.EGRESS}

Row = Mapping[str, str]


class SonicModel(NamedTuple):
    """Where cross-connects are configured and reported, and ports: the names of a path of each."""

    configured: tuple[str, str]
    reported: tuple[str, str]
    ports: tuple[str, str]


#: configured cross-connects, in both models
CONFIG = ("sonic-ocs:sonic-ocs", "OCS_CROSS_CONNECT")
LIST, KEY = "OCS_CROSS_CONNECT_LIST", "cross_connect_id"
_STATES = "sonic-ocs-states:sonic-ocs-states"
#: the models that are published, the newest design first
MODELS = (
    SonicModel(CONFIG, (_STATES, "OCS_CROSS_CONNECT"), (_STATES, "OCS_PORT")),
    SonicModel(CONFIG, (CONFIG[0], "OCS_CROSS_CONNECT_TABLE"), (CONFIG[0], "OCS_PORT_TABLE")),
)
#: states of a cross-connect, and of a port, that other models call otherwise
_CIRCUIT_STATES = {"enabled": CircuitState.CONNECTED, "invalid": CircuitState.INVALID}
_PORT_STATES = {"connected": PortState.TUNED, "powered_off": PortState.BLOCKED}


def cross_connect_of(row: Row) -> CrossConnect:
    """Return the cross-connect that a row is about.

    Raises
    ------
    SwitchProtocolError
        If its name is not of the form ``1A-2B``.
    """
    name = row.get("cross_connect_id", row.get("id", ""))
    match = _NAME.fullmatch(name)
    if match is None:
        raise SwitchProtocolError(f"the switch sent {name[:40]!r} as a cross-connect")
    return CrossConnect(match[1], match[2])


def name_of(connect: CrossConnect) -> str:
    """Return the name of a cross-connect."""
    return f"{connect.ingress}-{connect.egress}"


def entry_of(connect: CrossConnect) -> dict[str, str]:
    """Return the row that configures a cross-connect."""
    return {KEY: name_of(connect), "a_side": connect.ingress, "b_side": connect.egress}


def displaced_by(change: SwitchChange, present: Iterable[CrossConnect]) -> tuple[CrossConnect, ...]:
    """Return the cross-connects on the ports of new ones that a change does not delete itself.

    SONiC's interface to switches asks to remove a cross-connect before another one uses its ports;
    one that is not removed stays configured, and stale.
    """
    taken = {port for pair in change.creates for port in (pair.ingress, pair.egress)}
    named = {*change.deletes, *change.creates}
    return tuple(
        sorted(
            pair for pair in present if pair not in named and {pair.ingress, pair.egress} & taken
        )
    )


def ports_of(rows: Iterable[Row]) -> dict[Port, PortSide]:
    """Return the ports of the rows of ports, in their order.

    Raises
    ------
    SwitchProtocolError
        If the name of a port is not of the form ``1A``.
    """
    sides: dict[Port, PortSide] = {}
    for row in rows:
        name = row.get("simplex_port_id", row.get("id", ""))
        match = _PORT.fullmatch(name)
        if match is None:
            raise SwitchProtocolError(f"the switch sent {name[:40]!r} as a port")
        sides[name] = _SIDES[match[1]]
    return sides


def description_of(
    port_rows: Iterable[Row], features: frozenset[SwitchFeature]
) -> SwitchDescription:
    """Return the description of a switch with these ports."""
    sides = ports_of(port_rows)
    counts = [sum(side is kind for kind in sides.values()) for side in _SIDES.values()]
    return SwitchDescription(
        vendor="SONiC",
        model="",
        serial="",
        size=(counts[0], counts[1]),
        ports=sides,
        features=features,
    )


def readback_of(
    configured: Iterable[Row], reported: Iterable[Row], port_rows: Iterable[Row]
) -> Readback:
    """Return what two tables of cross-connects and one of ports say.

    A cross-connect is connected if it is configured and both of its ports are tuned, or the switch
    says that it is enabled; failed if a port has failed; invalid if its ports belong to another;
    else pending: also one that is still reported and no longer configured.
    """
    wanted = {cross_connect_of(row) for row in configured}
    status = {cross_connect_of(row): row for row in reported}
    states = {name: _state(name in wanted, status.get(name, {})) for name in wanted | status.keys()}
    rows = list(port_rows)
    ports = tuple(
        PortStatus(name, side, state=_port_state(row))
        for (name, side), row in zip(ports_of(rows).items(), rows, strict=True)
    )
    return Readback(frozenset(states), states, ports)


def _state(is_wanted: bool, row: Row) -> CircuitState:
    if "status" in row:
        state = _CIRCUIT_STATES.get(row["status"].lower(), CircuitState.PENDING)
        return state if is_wanted or state is CircuitState.INVALID else CircuitState.PENDING
    sides = {row.get("a_side_status", "").lower(), row.get("b_side_status", "").lower()}
    if "failed" in sides:
        return CircuitState.FAILED
    return CircuitState.CONNECTED if is_wanted and sides == {"tuned"} else CircuitState.PENDING


def _port_state(row: Row) -> PortState:
    text = row.get("status", row.get("oper_status", "")).lower()
    if text in _PORT_STATES:
        return _PORT_STATES[text]
    try:
        return PortState(text)
    except ValueError:
        return PortState.UNKNOWN


def rows_of(text: bytes) -> list[dict[str, str]]:
    """Return the rows of a list from its JSON, however it is wrapped.

    Raises
    ------
    SwitchProtocolError
        If it is not JSON, or has no list of objects with text, or lists of it.
    """
    try:
        data = json.loads(text or b"{}")
    except (ValueError, RecursionError):
        raise SwitchProtocolError("the switch sent a value that is not JSON") from None
    while isinstance(data, dict) and len(data) == 1:
        (data,) = data.values()
    if data == {}:
        return []
    rows = [data] if isinstance(data, dict) else data
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and all(isinstance(value, str | list) for value in row.values())
        for row in rows
    ):
        raise SwitchProtocolError("the switch sent a table of unknown form")
    # what is a list is the path of the light inside the switch, which nobody here needs
    return [{name: v for name, v in row.items() if isinstance(v, str)} for row in rows]


def parse_table(text: str) -> list[dict[str, str]]:
    """Return the rows of a table whose columns begin where a line of dashes says.

    Raises
    ------
    SwitchProtocolError
        If there is text and no such line.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if not lines:
        return []
    rulers = [i for i, line in enumerate(lines) if re.fullmatch(r"-+(?: +-+)*", line.strip())]
    if not rulers or rulers[0] == 0:
        raise SwitchProtocolError(f"the switch sent no table: {lines[0][:60]!r}")
    ruler = rulers[0]
    spans = [match.span() for match in re.finditer(r"-+", lines[ruler])]
    starts = [start for start, _ in spans]
    ends: list[int | None] = [*starts[1:], None]

    def cells(line: str) -> list[str]:
        return [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]

    header = cells(lines[ruler - 1])
    return [dict(zip(header, cells(line), strict=True)) for line in lines[ruler + 1 :]]
