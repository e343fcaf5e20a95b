"""What has failed, as ``lightloom schedule --failed`` names it: ``server:3,nic:2/1,eps:0/1``."""

from __future__ import annotations

from lightloom.errors import InputError, did_you_mean, echo
from lightloom.schedule import Failures

#: numbers that each kind of part is named by
_KINDS = {"server": 1, "nic": 2, "eps": 2, "plane": 1}
_EXPECTED = "expected of server:3, nic:2/1 (server/NIC), eps:0/1, plane:5, joined by commas"


def read_failures(text: str) -> Failures:
    """Return the parts that ``text`` names.

    Raises
    ------
    InputError
        If it names none, or one that is no such part.
    """
    found: dict[str, list[tuple[int, ...]]] = {kind: [] for kind in _KINDS}
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        kind, _, place = part.partition(":")
        numbers = place.split("/")
        if kind not in _KINDS:
            hint = did_you_mean(kind, _KINDS)
            raise InputError(f"--failed {echo(part)}: {_EXPECTED}{hint}")
        if len(numbers) != _KINDS[kind] or not all(_is_number(number) for number in numbers):
            raise InputError(f"--failed {echo(part)}: {_EXPECTED}")
        found[kind].append(tuple(int(number) for number in numbers))
    if not parts:
        raise InputError(f"--failed {echo(text)}: {_EXPECTED}")
    return Failures(
        nics=[(server, nic) for server, nic in found["nic"]],
        eps_nics=[(server, nic) for server, nic in found["eps"]],
        servers=[server for (server,) in found["server"]],
        planes=[plane for (plane,) in found["plane"]],
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
