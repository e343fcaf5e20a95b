"""How a collective is carried out: rounds, in each of which a rank sends to and receives from one.

=================  ==============================================================================
ring               all-gather, reduce-scatter, all-reduce: each rank passes a chunk to the next,
                   ``n - 1`` times (all-reduce twice)
tree               broadcast and reduce, and with ``tree`` all-reduce: the ranks that hold the data
                   double (or halve) with each round
pairwise           all-to-all: in round d each rank sends to the one d places on
hierarchical       the same over places in a server, then over servers, or the reverse
one by one         gather and scatter: the root's link carries everything
=================  ==============================================================================

A message is one round. Bytes of a chunk are rounded up. Reductions cost no time. A round takes as
long as a port needs for its bytes, and a fixed overhead (latency and guard time, as bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError

Ints = npt.NDArray[np.int64]

#: a place that sends nothing
IDLE = -1

#: what a port could have sent in the latency and guard time of a slot: 10 us at 800 Gb/s
OVERHEAD_BYTES = 10**6


class Algorithm(StrEnum):
    """How collectives are carried out; ``auto`` is the one that takes least time."""

    AUTO = "auto"
    RING = "ring"
    TREE = "tree"
    HIERARCHICAL = "hierarchical"


@dataclass(frozen=True, eq=False)
class GroupRound:
    """To whom each place of a group sends at one time.

    Attributes
    ----------
    destination
        Place that each place sends to, ``(n,)``; ``IDLE`` if to none.
    repeats
        How often, one after another.
    size_bytes
        Of each transfer.
    """

    destination: Ints
    repeats: int
    size_bytes: int


@dataclass(frozen=True)
class SizedCollective:
    """A collective of one group, with its sizes.

    Attributes
    ----------
    op
        Such as ``all_gather``.
    places
        Ranks of the group.
    size_bytes
        The whole buffer: what all ranks put in together (all-gather, gather) or one rank does; of
        an all-to-all with uneven shares, as if all were the largest.
    root
        Place of it.
    """

    op: str
    places: int
    size_bytes: int
    root: int = 0


def rounds_of(
    collective: SizedCollective,
    algorithm: Algorithm,
    servers: Ints | None = None,
    overhead_bytes: float = OVERHEAD_BYTES,
) -> tuple[str, list[GroupRound]]:
    """The rounds of a collective, and what they are called.

    Parameters
    ----------
    collective, algorithm
        What is done, and how.
    servers
        Places by server, ``(servers, ranks of each)``; without, hierarchical is not possible.
    overhead_bytes
        Of each round, by which ``auto`` chooses.

    Raises
    ------
    InputError
        If the operation is not known.
    """
    if algorithm is Algorithm.AUTO:
        others = [rounds_of(collective, way, servers) for way in Algorithm if way is not algorithm]
        return min(others, key=lambda rounds: port_bytes(rounds[1], overhead_bytes))
    levels = servers if algorithm is Algorithm.HIERARCHICAL else None
    op, count = collective.op, collective.places
    if op in ("all_gather", "reduce_scatter", "all_reduce"):
        return _gathering(collective, algorithm, levels)
    if op == "all_to_all":
        if levels is not None:
            return "hierarchical", _two_level_all_to_all(collective, levels)
        return "pairwise", _pairwise(collective)
    if op in ("broadcast", "reduce"):
        rounds = _tree(count, collective.root, collective.size_bytes)
        if op == "reduce":
            rounds = [_reversed(turn) for turn in reversed(rounds)]
        return "tree", rounds
    if op in ("gather", "scatter"):
        return "one by one", _one_by_one(collective)
    raise InputError(f"operation '{op}': how it is carried out is not known")


def _gathering(
    collective: SizedCollective, algorithm: Algorithm, levels: Ints | None
) -> tuple[str, list[GroupRound]]:
    """All-gather; its reverse, reduce-scatter; both, all-reduce."""
    count = collective.places
    if collective.op == "all_reduce" and algorithm is Algorithm.TREE:
        up = _tree(count, 0, collective.size_bytes)
        return "tree", [_reversed(turn) for turn in reversed(up)] + up
    servers = np.arange(count)[None] if levels is None else levels
    gather = _gather_rounds(servers, -(-collective.size_bytes // count))
    scatter = gather[::-1]
    halves = {"all_gather": gather, "reduce_scatter": scatter, "all_reduce": scatter + gather}
    return ("ring" if levels is None else "hierarchical"), halves[collective.op]


def port_bytes(rounds: list[GroupRound], overhead_bytes: float) -> float:
    """What a port could send in the time that rounds take."""
    return sum(turn.repeats * (turn.size_bytes + overhead_bytes) for turn in rounds)


def _gather_rounds(servers: Ints, chunk_bytes: int) -> list[GroupRound]:
    """All-gather: rings over servers, one for each local place, then a ring in each server."""
    count, (among, inside) = servers.size, servers.shape
    rounds = []
    if among > 1:
        across = np.full(count, IDLE)
        across[servers] = np.roll(servers, -1, axis=0)
        rounds.append(GroupRound(across, among - 1, chunk_bytes))
    if inside > 1:
        within = np.full(count, IDLE)
        within[servers] = np.roll(servers, -1, axis=1)
        rounds.append(GroupRound(within, inside - 1, among * chunk_bytes))
    return rounds


def _pairwise(collective: SizedCollective) -> list[GroupRound]:
    count = collective.places
    chunk = -(-collective.size_bytes // count)
    return [
        GroupRound(np.roll(np.arange(count), -distance), 1, chunk) for distance in range(1, count)
    ]


def _two_level_all_to_all(collective: SizedCollective, servers: Ints) -> list[GroupRound]:
    """First to the local place of the destination, inside a server; then over servers."""
    among, inside = servers.shape
    count = collective.places
    chunk = -(-collective.size_bytes // count)
    rounds = []
    for axis, number, size in ((1, inside, among * chunk), (0, among, inside * chunk)):
        for distance in range(1, number):
            destination = np.full(count, IDLE)
            destination[servers] = np.roll(servers, -distance, axis=axis)
            rounds.append(GroupRound(destination, 1, size))
    return rounds


def _tree(count: int, root: int, size_bytes: int) -> list[GroupRound]:
    """Broadcast: with each round twice as many places hold the data."""
    rounds = []
    reached = 1
    while reached < count:
        destination = np.full(count, IDLE)
        senders = np.arange(min(reached, count - reached))
        destination[(root + senders) % count] = (root + senders + reached) % count
        rounds.append(GroupRound(destination, 1, size_bytes))
        reached *= 2
    return rounds


def _reversed(turn: GroupRound) -> GroupRound:
    """The same transfers, from destination to source."""
    destination = np.full(len(turn.destination), IDLE)
    senders = np.flatnonzero(turn.destination != IDLE)
    destination[turn.destination[senders]] = senders
    return GroupRound(destination, turn.repeats, turn.size_bytes)


def _one_by_one(collective: SizedCollective) -> list[GroupRound]:
    count, root = collective.places, collective.root
    rounds = []
    for distance in range(1, count):
        destination = np.full(count, IDLE)
        destination[root] = (root + distance) % count
        turn = GroupRound(destination, 1, -(-collective.size_bytes // count))
        rounds.append(turn if collective.op == "scatter" else _reversed(turn))
    return rounds
