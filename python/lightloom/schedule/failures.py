"""Failed parts of a region, and what they leave.

A failed thing is never used: a failed optical NIC takes a port from its server, a failed plane the
NIC on it from every server (NIC i is on plane i), an EPS NIC its part of the server's EPS rate, a
server all of these. A failed port of a circuit switch is the failure of the NIC behind it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, did_you_mean, echo
from lightloom.inputs.arguments import instance
from lightloom.schedule.arrays import whole_number
from lightloom.schedule.records import Failures

#: indices that each kind of part is named by
_KINDS = {"server": 1, "nic": 2, "eps": 2, "plane": 1}
_EXPECTED = "expected of server:3, nic:2/1 (server/NIC), eps:0/1, plane:5, joined by commas"


def parse_failures(text: str, name: str) -> Failures:
    """Return the parts that ``text`` names: ``server:3,nic:2/1,eps:0/1``.

    Parameters
    ----------
    text
        The parts, joined by commas.
    name
        What the text was given as, for errors.

    Returns
    -------
    Failures
        The parts, by kind; O(length of the text).

    Raises
    ------
    InputError
        If it names none, or one that is no such part.

    Examples
    --------
    >>> from lightloom.schedule import parse_failures
    >>> parse_failures("nic:2/1,server:3", "failed").servers
    (3,)
    """
    numbers_of: dict[str, list[tuple[int, ...]]] = {kind: [] for kind in _KINDS}
    parts = [part.strip() for part in instance(text, str, name, "text").split(",") if part.strip()]
    for part in parts:
        kind, _, place = part.partition(":")
        numbers = place.split("/")
        if kind not in _KINDS:
            hint = did_you_mean(kind, _KINDS)
            raise InputError(f"{name} {echo(part)}: {_EXPECTED}{hint}")
        if len(numbers) != _KINDS[kind] or not all(_is_index(number) for number in numbers):
            raise InputError(f"{name} {echo(part)}: {_EXPECTED}")
        numbers_of[kind].append(tuple(int(number) for number in numbers))
    if not parts:
        raise InputError(f"{name} {echo(text)}: {_EXPECTED}")
    return Failures(
        nics=[(server, nic) for server, nic in numbers_of["nic"]],
        eps_nics=[(server, nic) for server, nic in numbers_of["eps"]],
        servers=[server for (server,) in numbers_of["server"]],
        planes=[plane for (plane,) in numbers_of["plane"]],
    )


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def working_nics(ports: npt.NDArray[np.uint32], failed: Failures | None) -> npt.NDArray[np.bool_]:
    """Return which optical NICs work, ``(n, most ports)``; False where a server has none.

    Raises
    ------
    InputError
        If a server, NIC or plane is named that is not there.
    """
    maximum = int(ports.max(initial=0))
    working: npt.NDArray[np.bool_] = np.arange(maximum) < ports[:, None]
    if failed is None:
        return working
    instance(failed, Failures, "failed", "Failures")
    for server in failed.servers:
        working[_index(server, len(ports), "failed server")] = False
    for server, nic in failed.nics:
        row = _index(server, len(ports), "server of a failed NIC")
        working[row, _index(nic, int(ports[row]), f"failed NIC of server {server}")] = False
    for plane in failed.planes:
        working[:, _index(plane, maximum, "failed plane")] = False
    return working


def check_demand(demand: npt.NDArray[np.uint64], failed: Failures) -> None:
    """Refuse demand from or to a failed server: it could never end."""
    for server in failed.servers:
        row = _index(server, len(demand), "failed server")
        for a, b in [(row, k) for k in range(len(demand))] + [(k, row) for k in range(len(demand))]:
            if a != b and demand[a, b]:
                raise InputError(
                    f"demand[{a}, {b}] is {demand[a, b]}, but server {server} has failed: "
                    "expected 0"
                )


def _index(number: int, size: int, name: str) -> int:
    return whole_number(number, name, 0, size - 1)
