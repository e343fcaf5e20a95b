"""Port maps as files: a CSV table, a cable export of NetBox, or TOML.

The table has one row per NIC, with the columns ``server``, ``nic`` and either ``ingress`` and
``egress`` or, where a fiber carries both directions, ``port``; ``switch`` and ``egress_switch``
name the switch where there are several.

Of a NetBox export, those cables count that are connected and end at one of the switches. The
interfaces of a server are its NICs, in the natural order of their names; a name that ends in
``tx`` or ``rx``, such as ``optical0/tx``, is one direction of a NIC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from lightloom.control.port_map import NicPorts, PortMap, SwitchPort
from lightloom.control.refusals import PortMapError
from lightloom.errors import InputError, echo
from lightloom.inputs.files import MAX_TEXT_BYTES, read_file, shown_path
from lightloom.inputs.formats import parse_toml
from lightloom.inputs.strict import Name, Strict, check
from lightloom.inputs.text_table import Columns, TextTable, parse_table

_COLUMNS = Columns(
    "NICs and switch ports",
    needed=("server", "nic"),
    optional=("switch", "ingress", "egress", "egress_switch", "port"),
)
_SIDES = ("device", "type", "name")
_NETBOX_NOTES = (
    *("id", "type", "label", "color", "length", "length_unit"),
    *("tenant", "tags", "comments", "description"),
)
_NETBOX = Columns(
    "NetBox cables",
    needed=tuple(f"side_{side}_{field}" for side in "ab" for field in _SIDES if field != "type"),
    optional=("side_a_type", "side_b_type", "status"),
    ignored=(*_NETBOX_NOTES, "side_a_site", "side_b_site"),
)
#: name of an interface and, if the interface is one of two fibers, its direction
_DIRECTION = re.compile(r"^(.*?)(?:[/.:_ -]?(tx|rx))?$", re.IGNORECASE)
_MAX_NIC = 4095


class NicEntry(Strict):
    """One NIC of a port map."""

    error_class: ClassVar[type[InputError]] = PortMapError

    server: Name = Field(description="Name of the server.", examples=['"node0"'])
    nic: Annotated[int, Field(strict=True, ge=0, le=_MAX_NIC)] = Field(
        description="Index of the optical NIC in its server, from 0."
    )
    switch: Name | None = Field(None, description="The switch; needed where there are several.")
    ingress: Name | None = Field(None, description="Port that the NIC's light enters.")
    egress: Name | None = Field(None, description="Port that sends light to the NIC.")
    egress_switch: Name | None = Field(
        None, description="The switch of 'egress', if it is another one."
    )
    port: Name | None = Field(None, description="The one port of a fiber with both directions.")


class PortMapTable(Strict):
    """A port map in TOML: one table ``[[nic]]`` per NIC."""

    error_class: ClassVar[type[InputError]] = PortMapError

    nic: tuple[NicEntry, ...] = Field(description="The NICs.")


def read_port_map(path: Path, switches: Sequence[str]) -> PortMap:
    """Read a port map from a file that ends in ``.csv`` or ``.toml``.

    Parameters
    ----------
    path
        The file; a CSV with columns such as ``side_a_device`` is a cable export of NetBox.
    switches
        Names of the region's switches; the only one is that of entries without a switch.

    Raises
    ------
    PortMapError
        If it cannot be read or is no consistent port map.
    """
    content = read_file(path, "port map", MAX_TEXT_BYTES, PortMapError)
    name = shown_path(path)
    if path.suffix == ".toml":
        return parse_toml_map(content, name, switches)
    if path.suffix == ".csv":
        return parse_csv_map(content, name, switches)
    raise PortMapError(f"{name}: expected a port map that ends in .csv or .toml")


def parse_toml_map(content: bytes, name: str, switches: Sequence[str]) -> PortMap:
    """Parse a port map in TOML; ``name`` begins messages."""
    table = check(PortMapTable, parse_toml(content, name, PortMapError), name)
    places = [f"{name}: nic {number}" for number in range(1, len(table.nic) + 1)]
    return _port_map(name, list(zip(places, table.nic, strict=True)), switches)


def parse_csv_map(content: bytes, name: str, switches: Sequence[str]) -> PortMap:
    """Parse a table of NICs, or a cable export of NetBox; ``name`` begins messages."""
    lines = content.lstrip(b"\xef\xbb\xbf").splitlines()
    head = next((line for line in lines if line.strip() and not line.startswith(b"#")), b"")
    if b"side_a_device" in head.lower():
        return _netbox_map(parse_table(content, name, _NETBOX, PortMapError), name, switches)
    table = parse_table(content, name, _COLUMNS, PortMapError)
    nics = table.whole("nic")
    texts = {column: table.texts(column) for column in table.places if column != "nic"}
    entries = []
    for row in range(len(table)):
        values = {column: cells[row] for column, cells in texts.items() if cells[row]}
        place = table.place(row)
        entry = check(NicEntry, {**values, "nic": int(nics[row])}, place)
        entries.append((place, entry))
    return _port_map(name, entries, switches)


def _port_map(
    name: str, entries: Sequence[tuple[str, NicEntry]], switches: Sequence[str]
) -> PortMap:
    servers = tuple(dict.fromkeys(entry.server for _, entry in entries))
    index = {server: number for number, server in enumerate(servers)}
    nics = [
        NicPorts(
            index[entry.server],
            entry.nic,
            *_ports(place, entry, switches),
        )
        for place, entry in entries
    ]
    return PortMap(name, servers, tuple(sorted(nics, key=lambda nic: (nic.server, nic.nic))))


def _ports(place: str, entry: NicEntry, switches: Sequence[str]) -> tuple[SwitchPort, SwitchPort]:
    switch = _switch(place, entry.switch, switches)
    if entry.port is not None:
        if entry.ingress is not None or entry.egress is not None:
            raise PortMapError(f"{place}: expected either port, or ingress and egress")
        both = SwitchPort(switch, entry.port)
        return both, both
    for direction in ("ingress", "egress"):
        if getattr(entry, direction) is None:
            raise PortMapError(
                f"{place}: NIC {entry.nic} of {entry.server} has no {direction} port; a NIC needs "
                "both directions"
            )
    far = switch if entry.egress_switch is None else entry.egress_switch
    assert entry.ingress is not None
    assert entry.egress is not None
    return (
        SwitchPort(switch, entry.ingress),
        SwitchPort(_switch(place, far, switches), entry.egress),
    )


def _switch(place: str, switch: str | None, switches: Sequence[str]) -> str:
    names = ", ".join(switches)
    if switch is None:
        if len(switches) != 1:
            raise PortMapError(f"{place}: switch is missing; expected one of {names}")
        return switches[0]
    if switch not in switches:
        raise PortMapError(f"{place}: switch {echo(switch)}: expected one of {names}")
    return switch


def _netbox_map(table: TextTable, name: str, switches: Sequence[str]) -> PortMap:
    """Combine the cables of each interface; see the module."""
    by_name: dict[tuple[str, str], dict[str, Any]] = {}
    columns = {column: table.texts(column) for column in table.places}
    for row in range(len(table)):
        cells = {column: texts[row] for column, texts in columns.items()}
        if cells.get("status", "connected").lower() not in {"connected", ""}:
            continue
        cable = _cable(cells, switches, table.place(row))
        if cable is None:
            continue
        server, interface, switch, port = cable
        match = _DIRECTION.match(interface)
        assert match is not None
        stem, direction = match.groups()
        entry = by_name.setdefault((server, stem), {"server": server, "place": table.place(row)})
        _join_cable(entry, interface, direction, switch, port)
    if not by_name:
        raise PortMapError(
            f"{name}: no connected cable ends at {' or '.join(switches)}; do the names of the "
            "switches agree with NetBox?"
        )
    entries = [
        (entry.pop("place"), check(NicEntry, {**entry, "nic": nic}, name))
        for nic, entry in _numbered(by_name)
    ]
    return _port_map(name, entries, switches)


def _cable(
    cells: Mapping[str, str], switches: Sequence[str], place: str
) -> tuple[str, str, str, str] | None:
    """Server, interface, switch and port of a cable; None if it ends at no switch."""
    ends = [(cells[f"side_{side}_device"], cells[f"side_{side}_name"]) for side in "ab"]
    at = [device in switches for device, _ in ends]
    if all(at):
        raise PortMapError(f"{place}: the cable joins two circuit switches; expected a server")
    if not any(at):
        return None
    (server, interface), (switch, port) = ends if at[1] else ends[::-1]
    return server, interface, switch, port


def _join_cable(
    entry: dict[str, Any], interface: str, direction: str | None, switch: str, port: str
) -> None:
    keys = {None: "port", "tx": "ingress", "rx": "egress"}
    key = keys[direction.lower() if direction else None]
    if key in entry:
        raise PortMapError(
            f"{entry['place']}: interface {echo(interface)} of {entry['server']} has two cables; "
            "name the two fibers of a NIC with /tx and /rx"
        )
    entry[key] = port
    entry["egress_switch" if key == "egress" else "switch"] = switch


def _numbered(
    by_name: Mapping[tuple[str, str], dict[str, Any]],
) -> list[tuple[int, dict[str, Any]]]:
    """Number the interfaces of each server in the natural order of their names."""
    by_server: dict[str, list[str]] = {}
    for server, stem in by_name:
        by_server.setdefault(server, []).append(stem)
    return [
        (nic, by_name[server, stem])
        for server in sorted(by_server, key=_natural)
        for nic, stem in enumerate(sorted(by_server[server], key=_natural))
    ]


def _natural(text: str) -> list[tuple[int, str]]:
    """Key by which ``eth10`` comes after ``eth9``."""
    parts = re.findall(r"\d+|\D+", text)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
