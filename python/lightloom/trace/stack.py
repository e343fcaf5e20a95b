"""The stack of permutations of a training step: what a crossbar between all ranks does in turn.

Chronos, section 5.2. Calls that the groups of a family issue alike are merged: their rounds are
permutations of the whole job, partial where only some roles take part. Groups that share ranks
cannot send at once; their transfers are colored (König, 1916). A stack has as many slots as its
busiest rank has transfers, or as the longest chain of transfers that wait for each other is long.

Left out: calls of one rank and barriers carry nothing. That calls of different families may be in
flight together is not made use of. Sizes of all-to-alls of experts depend on data; of the recorded
ranks the largest is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.trace.algorithms import IDLE, GroupRound

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SlotBlock:
    """Permutations that are set one after another, as often as repeated.

    Attributes
    ----------
    permutations
        Indices into :attr:`PermutationStack.permutations`; several where groups share ranks.
    repeats
        Of all of them.
    size_bytes
        Of each transfer.
    """

    permutations: tuple[int, ...]
    repeats: int
    size_bytes: int

    @property
    def slots(self) -> int:
        """Permutations that are set."""
        return len(self.permutations) * self.repeats


@dataclass(frozen=True, eq=False)
class StackedCall:
    """A kind of call, merged over the groups that issue it alike.

    Attributes
    ----------
    group, op, phase, algorithm
        What it is.
    groups
        Ranks of each group, ``(groups, size)``; of messages the sender and the receiver.
    roles
        Those that take part.
    size_bytes
        The whole buffer of a group.
    calls
        How often in the step.
    on_demand
        Whether its sizes depend on data.
    rounds
        Of one group.
    blocks
        Of all groups.
    lower_bound_slots
        That no sequence of permutations is shorter than.
    """

    group: str
    op: str
    phase: str
    algorithm: str
    groups: Ints = field(repr=False)
    roles: tuple[int, ...]
    size_bytes: int
    calls: int
    on_demand: bool
    rounds: tuple[GroupRound, ...] = field(repr=False)
    blocks: tuple[SlotBlock, ...] = field(repr=False)
    lower_bound_slots: int

    @property
    def slots(self) -> int:
        """Permutations that one call sets."""
        return sum(block.slots for block in self.blocks)

    @property
    def port_bytes(self) -> int:
        """Bytes that a port is held for, by one call."""
        return sum(block.slots * block.size_bytes for block in self.blocks)


@dataclass(frozen=True, eq=False)
class PermutationStack:
    """Permutations of a step, and in which order each role sets them.

    Attributes
    ----------
    world_size, step
        Ranks, and the training step.
    permutations
        Those that differ: the rank that each rank sends to, or -1, ``(k, world_size)``.
    calls
        Kinds of calls.
    sequences
        Of each role, indices into `calls` in the order in which it issues them.
    role_of_rank
        ``(world_size,)``.
    """

    world_size: int
    step: int
    permutations: npt.NDArray[np.int32] = field(repr=False)
    calls: tuple[StackedCall, ...]
    sequences: tuple[Ints, ...] = field(repr=False)
    role_of_rank: Ints = field(repr=False)

    def slots(self, role: int) -> int:
        """Permutations that a role's ranks see."""
        return sum(self.calls[index].slots for index in self.sequences[role].tolist())

    def lower_bound_slots(self, role: int) -> int:
        """The fewest that could do: the busiest of its ports, and the longest of its calls.

        Calls may share permutations, so that what each needs alone does not add up.
        """
        calls = np.unique(self.sequences[role]).tolist()
        longest = max((self.calls[index].lower_bound_slots for index in calls), default=0)
        return max(longest, int(self._transfers_at[:, self.role_of_rank == role].max(initial=0)))

    @cached_property
    def _transfers_at(self) -> Ints:
        """Transfers that each rank sends and receives in the step, ``(2, world_size)``."""
        transfers = np.zeros((2, self.world_size), dtype=np.int64)
        for call in self.calls:
            for turn in call.rounds:
                sender = np.flatnonzero(turn.destination != IDLE)
                for way, places in enumerate((sender, turn.destination[sender])):
                    ranks = call.groups[:, places].reshape(-1)
                    np.add.at(transfers[way], ranks, call.calls * turn.repeats)
        return transfers

    def check(self) -> int:
        """Check that every transfer of every collective is delivered once, and return how many are.

        It compares the circuits of the permutations of each kind of call, with their sizes and
        repeats, with the transfers of each of its groups. No two circuits of a permutation share a
        rank.

        Raises
        ------
        InputError
            The first thing that is wrong.
        """
        for index, permutation in enumerate(self.permutations):
            ends = permutation[permutation != IDLE]
            if len(np.unique(ends)) != len(ends):
                raise InputError(f"permutation {index}: two ranks send to one")
        return sum(call.calls * self._check_call(call) for call in self.calls)

    def _check_call(self, call: StackedCall) -> int:
        wanted, sent = [], []
        for turn in call.rounds:
            sender = np.flatnonzero(turn.destination != IDLE)
            pair = call.groups[:, sender] * self.world_size
            pair += call.groups[:, turn.destination[sender]]
            wanted.append(_counted(pair.reshape(-1), turn.repeats, turn.size_bytes))
        for block in call.blocks:
            for index in block.permutations:
                permutation = self.permutations[index].astype(np.int64)
                sender = np.flatnonzero(permutation != IDLE)
                pair = sender * self.world_size + permutation[sender]
                sent.append(_counted(pair, block.repeats, block.size_bytes))
        expected, actual = _summed(wanted), _summed(sent)
        if not np.array_equal(expected, actual):
            raise InputError(
                f"{call.op} of {call.group}: its transfers are not what its permutations carry"
            )
        return int(expected[:, 2].sum())


def _counted(pairs: Ints, repeats: int, size_bytes: int) -> Ints:
    """Rows of pair, bytes and how often."""
    rows = np.empty((len(pairs), 3), dtype=np.int64)
    rows[:, 0], rows[:, 1], rows[:, 2] = pairs, size_bytes, repeats
    return rows


def _summed(parts: list[Ints]) -> Ints:
    """Rows of equal pair and bytes added up, in order."""
    rows = np.concatenate(parts) if parts else np.zeros((0, 3), dtype=np.int64)
    if not len(rows):
        return rows
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    first = np.flatnonzero(np.r_[True, (rows[1:, :2] != rows[:-1, :2]).any(axis=1)])
    summed = rows[first]
    summed[:, 2] = np.add.reduceat(rows[:, 2], first)
    return summed
