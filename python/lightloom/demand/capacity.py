"""Capacity factors: what an expert may take of one source rank, and the copies that are dropped.

An expert of capacity factor ``f`` takes at most ``f`` times its even share of the copies of each
source rank (Switch Transformer, arXiv 2101.03961, section 2.2; Megatron-Core applies it to the
tokens of each rank as well). What exceeds the capacity is dropped before dispatch: it moves no
bytes and is not computed. Padding of experts below their capacity is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lightloom.demand.folding import (
    FoldedTokens,
    RankSums,
    fold_counts,
    rank_sums,
    ranks_of_member,
)
from lightloom.demand.source import Counts, DemandSource, Shape
from lightloom.errors import DemandError


def expert_capacity(shape: Shape, factor: float) -> int:
    """Copies that an expert takes of each source rank.

    Raises
    ------
    DemandError
        If the factor is not a positive number.

    Examples
    --------
    >>> expert_capacity(Shape(ranks=8, experts=64, tokens_per_rank=4096, top_k=6), 1.25)
    480
    """
    if not 0 < factor < float("inf"):
        raise DemandError(f"capacity factor: expected a number above 0, got {factor:g}")
    return math.ceil(shape.copies_per_rank / shape.experts * factor)


class CappedSource:
    """A source whose experts drop what exceeds their capacity.

    Which tokens are dropped is not modeled, so that de-duplication is estimated from counts even
    where the source has every token.

    Parameters
    ----------
    source
        What the gate routes.
    factor
        Capacity of an expert over its even share.
    """

    def __init__(self, source: DemandSource, factor: float) -> None:
        self.name = source.name
        self.shape = source.shape
        self.exact = source.exact
        self.capacity = expert_capacity(source.shape, factor)
        self.provenance = {
            **source.provenance,
            "capacity_factor": f"{factor:g}: an expert takes at most {self.capacity:,} copies of "
            "each source rank, the others are dropped",
        }
        self._source = source

    def tokens(self, *, group: int, layers: Sequence[int], micro_batches: int, step: int) -> Counts:
        """See :class:`~lightloom.demand.source.DemandSource`; rows sum to what is kept."""
        routed = self._source.tokens(
            group=group, layers=layers, micro_batches=micro_batches, step=step
        )
        kept: Counts = np.minimum(routed, self.capacity)
        return kept

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
        """See :class:`~lightloom.demand.folding.FoldingSource`; holds one layer at a time."""
        ranks_of_member(self.shape.ranks, members)
        index = {"group": group, "micro_batches": micro_batches, "step": step}
        parts = [
            fold_counts(
                self.tokens(layers=[layer], **index), members=members, rank_level=rank_level
            )
            for layer in layers
        ]
        fine = [part.rank_tokens for part in parts if part.rank_tokens is not None]
        return FoldedTokens(
            tokens=np.concatenate([part.tokens for part in parts]),
            rank_tokens=np.concatenate(fine) if rank_level else None,
            received=np.concatenate([part.received for part in parts]),
            stayed=sum(part.stayed for part in parts),
        )

    def summed(
        self, *, group: int, layers: Sequence[int], micro_batches: int, step: int
    ) -> RankSums:
        """See :class:`~lightloom.demand.folding.FoldingSource`; holds one layer at a time."""
        index = {"group": group, "micro_batches": micro_batches, "step": step}
        parts = [rank_sums(self.tokens(layers=[layer], **index)) for layer in layers]
        return RankSums(
            copies=np.concatenate([part.copies for part in parts]),
            largest=np.concatenate([part.largest for part in parts]),
            by_expert=np.concatenate([part.by_expert for part in parts]),
        )
