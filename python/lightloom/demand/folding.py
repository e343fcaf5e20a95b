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
    """A source that folds as it draws; the numbers are those of ``tokens``."""

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
