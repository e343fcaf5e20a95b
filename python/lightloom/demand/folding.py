"""Counts folded onto members while they are drawn, for sources that can do so.

A step of a large job has billions of counts per expert, of which a task graph keeps the sums per
pair of members. A :class:`FoldingSource` never writes the former down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from lightloom.demand.placement import fold_ranks, rank_matrix, received
from lightloom.demand.source import Counts, whole
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


@runtime_checkable
class FoldingSource(Protocol):
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
    matrix = rank_matrix(counts)
    per_member = ranks_of_member(matrix.shape[-1], members)
    return FoldedTokens(
        tokens=fold_ranks(matrix, members=members, ranks_per_member=per_member),
        rank_tokens=matrix.astype(np.uint32) if rank_level else None,
        received=received(counts).sum(axis=-1),
        stayed=int(counts.sum()) - int(matrix.sum()),
    )
