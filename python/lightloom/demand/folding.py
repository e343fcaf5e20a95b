"""Counts folded onto members while they are drawn, for sources that can do so.

A step of a large job has billions of counts per expert, of which a task graph keeps the sums per
pair of members; where each token is sent once, these follow from sums per pair of ranks. A
:class:`FoldingSource` never writes the counts down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from lightloom.demand.placement import along_last, by_rank, fold_ranks, rank_matrix, received
from lightloom.demand.source import Counts, DemandSource, whole
from lightloom.errors import DemandError, echo


@dataclass(frozen=True)
class FoldedTokens:
    """What a task graph needs of one EP group's counts.

    Attributes
    ----------
    tokens
        As :func:`~lightloom.demand.placement.fold` gives them,
        ``(layers, micro_batches, members, members)``.
    rank_tokens
        As :func:`~lightloom.demand.placement.rank_matrix`,
        ``(layers, micro_batches, ranks, ranks)``, if asked for.
    received
        Copies that each rank computes, ``(layers, micro_batches, ranks)``, its own included.
    stayed
        Copies whose expert is on their own rank, which move no bytes, over everything asked for.
    """

    tokens: npt.NDArray[np.uint32]
    rank_tokens: npt.NDArray[np.uint32] | None
    received: npt.NDArray[np.int64]
    stayed: int


@dataclass(frozen=True)
class RankSums:
    """What de-duplication needs of one EP group's counts: sums by rank, their own included.

    Attributes
    ----------
    copies
        Copies from rank to rank, ``(..., ranks, ranks)``.
    largest
        Those of them for the expert with the largest number, ``(..., ranks, ranks)``.
    by_expert
        Copies that each expert computes, ``(..., experts)``.
    """

    copies: npt.NDArray[Any]
    largest: npt.NDArray[Any]
    by_expert: npt.NDArray[np.int64]

    def of_members(self, members: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """``copies`` and ``largest`` for members of consecutive ranks, ``(..., ranks, members)``.

        Raises
        ------
        DemandError
            If the ranks do not fill the members.
        """
        ranks = self.copies.shape[-1]
        ranks_each = ranks_of_member(ranks, members)
        if ranks_each == 1:
            return self.copies, self.largest
        shape = (*self.copies.shape[:-1], members, ranks_each)
        return (
            along_last(np.add, self.copies.reshape(shape)),
            along_last(np.maximum, self.largest.reshape(shape)),
        )


def rank_sums(counts: Counts) -> RankSums:
    """Sums of counts that are there, ``(..., ranks, experts)``."""
    grouped = by_rank(counts)
    return RankSums(
        copies=along_last(np.add, grouped),
        largest=along_last(np.maximum, grouped),
        by_expert=counts.sum(axis=-2),
    )


@runtime_checkable
class FoldingSource(DemandSource, Protocol):
    """A source that folds as it draws; the numbers are those of ``tokens``.

    It is asked for several groups at once, from different threads.
    """

    def folded(
        self,
        *,
        group: int,
        layers: Sequence[int],
        micro_batches: int,
        step: int,
        members: int,
        rank_level: bool = False,
    ) -> FoldedTokens:
        """Counts of ``tokens`` folded onto ``members`` of consecutive ranks.

        Raises
        ------
        DemandError
            If the ranks do not fill the members, or a count exceeds 32 bits.
        """
        ...

    def summed(
        self, *, group: int, layers: Sequence[int], micro_batches: int, step: int
    ) -> RankSums:
        """Counts of ``tokens`` summed by rank, ``(layers, micro_batches, ...)``."""
        ...


def ranks_of_member(ranks: int, members: int) -> int:
    """EP ranks of each member.

    Raises
    ------
    DemandError
        If the ranks do not fill the members.
    """
    if not whole(members) or members < 1 or ranks % members:
        raise DemandError(f"{ranks} EP ranks do not fill {echo(members)} members evenly")
    return ranks // members


def fold_counts(counts: Counts, *, members: int, rank_level: bool = False) -> FoldedTokens:
    """Fold counts that are there, ``(layers, micro_batches, ranks, experts)``, onto members.

    Raises
    ------
    DemandError
        As :meth:`FoldingSource.folded`.
    """
    computed = received(counts).sum(axis=-1)
    return _fold_matrix(rank_matrix(counts), computed, members, rank_level=rank_level)


def fold_sums(sums: RankSums, *, members: int, rank_level: bool = False) -> FoldedTokens:
    """Fold counts of which the sums are there; see :func:`fold_counts`."""
    matrix = sums.copies.astype(np.int64)
    ranks = matrix.shape[-1]
    matrix[..., np.arange(ranks), np.arange(ranks)] = 0
    computed = sums.by_expert.reshape(*sums.by_expert.shape[:-1], ranks, -1).sum(axis=-1)
    return _fold_matrix(matrix, computed, members, rank_level=rank_level)


def _fold_matrix(
    matrix: npt.NDArray[np.int64],
    computed: npt.NDArray[np.int64],
    members: int,
    *,
    rank_level: bool,
) -> FoldedTokens:
    per_member = ranks_of_member(matrix.shape[-1], members)
    return FoldedTokens(
        tokens=fold_ranks(matrix, members=members, ranks_per_member=per_member),
        rank_tokens=matrix.astype(np.uint32) if rank_level else None,
        received=computed,
        stayed=int(computed.sum()) - int(matrix.sum()),
    )
