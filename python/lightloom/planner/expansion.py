"""How a cluster grows for longer sequences (MoNTA, arXiv 2411.00662, "Cluster ClusterExpansion").

A sequence that is too long for one EP rank is cut over ``cp`` context-parallel ranks. While these
are fewer than EP ranks, they are *beside* the EP group (horizontal): each of ``cp x ep`` servers
talks to others by the same switches, which need so many ports. Otherwise CP ranks are those of the
EP group itself, and the group grows with them (vertical): one sequence per group. The paper leaves
open what happens where switches have too few ports for the first; then it is the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lightloom.errors import PlanError


@dataclass(frozen=True)
class ClusterExpansion:
    """How a sequence is cut.

    ``network`` is how many server groups the fabric joins; ``way`` is ``none`` where one rank holds
    the sequence.
    """

    seq: int
    cp: int
    way: Literal["none", "horizontal", "vertical"]
    network: int


def expand(seq: int, *, longest: int, ep: int, radix: int | None = None) -> ClusterExpansion:
    """Return how a sequence is cut over context-parallel ranks.

    Parameters
    ----------
    seq
        Tokens of the sequence.
    longest
        Tokens that fit with ``cp = 1``.
    ep
        EP degree.
    radix
        Ports of a switch, ``None`` for as many as are needed.

    Raises
    ------
    PlanError
        If a number is below 1.
    """
    for name, value in (("seq", seq), ("longest", longest), ("ep", ep), ("radix", radix or 1)):
        if value < 1:
            raise PlanError(f"expansion: {name} = {value}: expected 1 or more")
    cp = -(-seq // longest)
    if cp == 1:
        return ClusterExpansion(seq, 1, "none", ep)
    if cp < ep and (radix is None or radix >= cp * ep):
        return ClusterExpansion(seq, cp, "horizontal", cp * ep)
    return ClusterExpansion(seq, cp, "vertical", max(ep, cp))
