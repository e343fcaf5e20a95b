"""What a failed part costs: the first sample again without it.

A failed optical NIC, link or transceiver takes a NIC from the circuits, whose bytes go over the
EPS and the other circuits; a failed server is replaced by a spare one that the EPS alone reaches. A
failed GPU is not simulated: tensor parallelism over the network, of one group alone, is not
modeled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lightloom.control.failures import PartKind, RegionPart, parse_part
from lightloom.errors import InputError
from lightloom.fabric import Fabric
from lightloom.fabric.mixnet_options import MixNetOptions
from lightloom.units import show_time

_PREFIX = "failed="
_INDEX = re.compile(r"nic:([0-9]{1,9})")
#: how a fabric's option calls a part
_CALLED = {
    PartKind.NIC: "nic",
    PartKind.LINK: "nic",
    PartKind.TRANSCEIVER: "nic",
    PartKind.EPS_NIC: "eps",
    PartKind.SERVER: "server",
}


def parse_parts(texts: Sequence[str], degree: int) -> list[tuple[str, str]]:
    """Return parts that fail, as they were given and as an option of a fabric calls them.

    Parameters
    ----------
    texts
        The parts; ``nic:3`` is the NIC of this index among all optical NICs.
    degree
        Optical NICs of a server.

    Raises
    ------
    InputError
        If one is no part of a job, or its failure is not simulated.
    """
    return [(text, _called(text, parse_part(_placed(text, degree), "fail"))) for text in texts]


def _placed(text: str, degree: int) -> str:
    """A NIC that is named by its index among all, by its server."""
    found = _INDEX.fullmatch(text)
    if found is None:
        return text
    server, nic = divmod(int(found[1]), degree)
    return f"nic:{server}/{nic}"


def _called(text: str, part: RegionPart) -> str:
    if part.kind not in _CALLED:
        raise InputError(
            f"fail {text}: the failure of a {part.kind} is not simulated; expected of nic:2/1 "
            "(server/NIC), link:2/1, transceiver:2/1, eps:0/1, server:3"
        )
    place = f"{part.server}" if part.kind is PartKind.SERVER else f"{part.server}/{part.number}"
    return f"{_CALLED[part.kind]}:{place}"


def failed_variants(fabric: Fabric, texts: Sequence[str]) -> dict[str, Fabric]:
    """Return the fabric without each of the parts, by name; none where it has no circuits."""
    if not isinstance(fabric, MixNetOptions):
        return {}
    return {
        _PREFIX + text: fabric.replace(failed=(*fabric.failed, called), label=fabric.name)
        for text, called in parse_parts(texts, fabric.degree)
    }


def failures_note(step_time_s: float, variants_s: Mapping[str, float]) -> str | None:
    """Return what each failed part adds to the first sample, in words."""
    parts = [
        f"without {name.removeprefix(_PREFIX)} {show_time(seconds)} "
        f"({seconds / step_time_s - 1:+.1%})"
        for name, seconds in variants_s.items()
        if name.startswith(_PREFIX)
    ]
    if not parts:
        return None
    return f"failures: {show_time(step_time_s)} with all parts, {', '.join(parts)}"
