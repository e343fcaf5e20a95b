"""Which NICs the servers of a job have: read from a file, or given."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lightloom.errors import InputError, echo
from lightloom.schedule.carrying import JobNics, NicPlace
from lightloom.torch.wires import NicAddress

_KINDS = ("optical", "packet")


@dataclass(frozen=True)
class ServerNics:
    """The NICs of a server: those on circuits, in the order of the port map, and on packets."""

    optical: Sequence[NicAddress]
    packet: Sequence[NicAddress]


def nics_of(
    servers: Sequence[ServerNics], ranks_per_server: int
) -> tuple[JobNics, list[dict[NicPlace, NicAddress]]]:
    """Return the NICs of a job, and where those of each server are.

    Raises
    ------
    InputError
        If servers have other numbers of NICs on packet switches, or none.
    """
    packet = {len(server.packet) for server in servers}
    if len(packet) != 1 or not min(packet):
        raise InputError(
            "packet: expected one NIC or more on packet switches, as many for each server"
        )
    nics = JobNics(ranks_per_server, tuple(len(s.optical) for s in servers), packet.pop())
    places = [
        dict(zip(nics.all_of(number), [*server.optical, *server.packet], strict=True))
        for number, server in enumerate(servers)
    ]
    return nics, places


def read_nics(path: str | Path) -> list[ServerNics]:
    """Read the NICs of the servers of a job, in the order of their ranks.

    Raises
    ------
    InputError
        If the file cannot be used; one line.
    """
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from None
    rows = content.pop("server", None)
    if content or not isinstance(rows, list) or not rows:
        raise InputError(f"{path}: expected tables [[server]] and nothing else")
    return [_server(row, f"{path}: server {number}") for number, row in enumerate(rows)]


def _server(row: Mapping[str, object], where: str) -> ServerNics:
    if set(row) - set(_KINDS):
        raise InputError(f"{where}: {echo(min(set(row) - set(_KINDS)))}: expected optical, packet")
    lists = []
    for kind in _KINDS:
        entries = row.get(kind, [])
        if not isinstance(entries, list):
            raise InputError(f"{where}: {kind}: expected a list of addresses")
        lists.append([_address(entry, f"{where}: {kind}") for entry in entries])
    return ServerNics(*lists)


def _address(entry: object, where: str) -> NicAddress:
    """``"10.8.0.1"``, or ``{ address = "10.8.0.1", device = "o0" }``."""
    if isinstance(entry, str):
        return NicAddress(entry)
    if isinstance(entry, dict) and set(entry) <= {"address", "device"} and "address" in entry:
        return NicAddress(str(entry["address"]), str(entry.get("device", "")))
    raise InputError(f'{where}: expected "ADDRESS" or {{address = "ADDRESS", device = "NAME"}}')
