"""A few stages of a pipeline that stand for all of them.

The stage whose experts are the busiest sets the pace of a pipeline, so that a short one needs that
stage to be as slow as the whole one; while the pipeline fills and drains, a micro-batch takes what
the mean stage does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightloom.demand.folding import FoldedTokens, FoldingSource, RankSums
from lightloom.demand.source import Counts, DemandSource, Shape


class SelectedLayers:
    """A source of which some layers are taken, numbered from 0 in their order.

    Parameters
    ----------
    source
        Whose layers are taken; it must fold.
    layers
        Their numbers there.
    """

    def __init__(self, source: FoldingSource, layers: Sequence[int]) -> None:
        self.name = source.name
        self.shape: Shape = source.shape
        self.exact = source.exact
        self.provenance = source.provenance
        self.layers = tuple(layers)
        self._source = source

    def tokens(self, *, group: int, layers: Sequence[int], micro_batches: int, step: int) -> Counts:
        """See :class:`~lightloom.demand.source.DemandSource`."""
        return self._source.tokens(
            group=group, layers=self._there(layers), micro_batches=micro_batches, step=step
        )

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
        """See :class:`~lightloom.demand.folding.FoldingSource`."""
        return self._source.folded(
            group=group,
            layers=self._there(layers),
            micro_batches=micro_batches,
            step=step,
            members=members,
            rank_level=rank_level,
        )

    def summed(
        self, *, group: int, layers: Sequence[int], micro_batches: int, step: int
    ) -> RankSums:
        """See :class:`~lightloom.demand.folding.FoldingSource`."""
        return self._source.summed(
            group=group, layers=self._there(layers), micro_batches=micro_batches, step=step
        )

    def _there(self, layers: Sequence[int]) -> list[int]:
        return [self.layers[layer] for layer in layers]


def few_stages(
    source: DemandSource, stages: Sequence[Sequence[int]], count: int, *, step: int
) -> DemandSource:
    """The layers of some stages alone: the busiest, and others that are as busy as all the rest.

    How busy a stage is is counted in the first micro-batch of the first group: the copies that the
    busiest rank of each layer computes, over its layers. The stages are divided in that order
    into as many parts as are to be taken, and the busiest of each part is taken.

    Parameters
    ----------
    source
        Demand of all layers.
    stages
        MoE layers of each stage. Stages with fewer layers than others are left out.
    count
        How many stages to take.
    step
        When to look.

    Returns
    -------
    The source itself if it does not fold, or has not as many stages of the same size.
    """
    size = max(map(len, stages))
    full = [list(layers) for layers in stages if len(layers) == size]
    if not isinstance(source, FoldingSource) or len(full) < count:
        return source
    layers = [layer for stage in full for layer in stage]
    sums = source.summed(group=0, layers=layers, micro_batches=1, step=step)
    by_rank = sums.by_expert.reshape(len(layers), source.shape.ranks, -1).sum(axis=-1)
    busy = by_rank.max(axis=-1).reshape(len(full), size).sum(axis=-1)
    order = np.argsort(-busy, kind="stable")
    chosen = np.sort(order[[len(full) * part // count for part in range(count)]])
    return SelectedLayers(source, [layer for stage in chosen for layer in full[stage]])
