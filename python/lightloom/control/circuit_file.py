"""Circuits as text that a person writes: ``0/1-3/0``, one or several per line."""

from __future__ import annotations

import re

from lightloom.control.port_map import NicPair, PortMap
from lightloom.errors import InputError, echo

_CIRCUIT = re.compile(r"(\d{1,9})/(\d{1,9})-(\d{1,9})/(\d{1,9})")


def parse_circuits(text: str, name: str, port_map: PortMap) -> frozenset[NicPair]:
    """Parse circuits and check that the region can have them.

    Parameters
    ----------
    text
        Circuits such as ``0/1-3/0``, separated by white space; ``#`` begins a comment.
    name
        What messages begin with.
    port_map
        The NICs of the region.

    Raises
    ------
    InputError
        Naming the line of the first one that is wrong.
    """
    circuits: set[NicPair] = set()
    taken: set[tuple[int, int]] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        place = f"{name}, line {number}"
        for word in line.partition("#")[0].split():
            match = _CIRCUIT.fullmatch(word)
            if match is None:
                raise InputError(f"{place}: {echo(word)}: expected a circuit such as 0/1-3/0")
            ends = [int(group) for group in match.groups()]
            a, b = sorted([(ends[0], ends[1]), (ends[2], ends[3])])
            for server, nic in (a, b):
                if (server, nic) not in port_map.by_nic:
                    raise InputError(f"{place}: {word}: server {server} has no NIC {nic}")
                if (server, nic) in taken:
                    raise InputError(f"{place}: {word}: NIC {server}/{nic} ends two circuits")
                taken.add((server, nic))
            if a[0] == b[0]:
                raise InputError(f"{place}: {word}: a circuit joins two servers")
            circuit = NicPair(*a, *b)
            if any(
                port_map.by_nic[end].ingress.switch != port_map.by_nic[other].egress.switch
                for end, other in ((a, b), (b, a))
            ):
                raise InputError(f"{place}: {word}: these NICs are on different switches")
            circuits.add(circuit)
    return frozenset(circuits)
