"""The calibrated generator: a gate whose token counts look like those of a trained model.

For each layer and step the experts have a popularity (:mod:`.popularity`). The row of a source
rank is a Dirichlet draw around it, and its token copies are a multinomial draw from the row. With
the concentration of the public Mixtral matrix all sources agree within a few per cent (demand of
nearly rank one); at concentration 1 and below single pairs stand out, which that matrix does not
show: stress regimes. It leaves out how the choices of one token depend on each other, and assumes
that sources differ in their text at random, not by design.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.demand.folding import FoldedTokens, RankSums, ranks_of_member
from lightloom.demand.imbalance_workloads import ImbalanceWorkload
from lightloom.demand.popularity import Popularity
from lightloom.demand.regime import WORKLOADS, Regime, build_regime, check_regime, unread
from lightloom.demand.source import Counts, DemandSource, Shape, check_index
from lightloom.demand.streams import Stream
from lightloom.errors import DemandError


def synthetic(
    regime: str,
    *,
    ranks: int,
    experts: int,
    tokens_per_rank: int,
    top_k: int,
    seed: int,
    **parameters: float,
) -> DemandSource:
    """Make a source of drawn token counts.

    Parameters
    ----------
    regime
        ``auxiliary`` and ``natural`` (trained and balanced by a loss or by biases), ``learned`` (as
        ``natural``, from the first steps of training on), ``mixtral`` (one public matrix, without
        effective balancing), ``pair`` and ``sparse`` (stress), ``calm``, ``volatile``, ``extreme``
        and ``drifting`` (layers tied by topics), or ``uniform`` (forced balance). ``balanced`` and
        ``skewed`` mean ``uniform`` and ``mixtral``. Or of
        :data:`~lightloom.demand.regime.WORKLOADS`, such as ``W5_zero_expert_rank``.
    ranks, experts, tokens_per_rank, top_k
        See :class:`~lightloom.demand.source.Shape`.
    seed
        Same seed and index, same counts.
    **parameters
        Changes to the regime's parameters, see ``regimes.toml``: ``logit_sd``,
        ``logit_sd_start``, ``growth``, ``decay_steps``, ``rho``, ``persistent_share``,
        ``concentration``, ``text_tokens``, ``hold_steps``, ``topics``, ``topic_concentration``,
        ``topic_sd``.

    Raises
    ------
    DemandError
        If the regime, a parameter or the shape cannot be used.

    Examples
    --------
    >>> import lightloom
    >>> source = lightloom.synthetic(
    ...     "mixtral", ranks=8, experts=8, tokens_per_rank=1024, top_k=2, seed=1
    ... )
    >>> source.tokens(group=0, layers=[0], micro_batches=1, step=0).sum().item()
    16384
    """
    regime = check_regime(regime)
    shape = Shape(ranks, experts, tokens_per_rank, top_k)
    if regime == "uniform" or regime in WORKLOADS:
        if parameters:
            what = "is balanced and" if regime == "uniform" else "is as published and"
            raise DemandError(
                f"demand regime '{regime}' {what} has no parameters, "
                f"got '{next(iter(parameters))}'; leave it out"
            )
        return Balanced(shape) if regime == "uniform" else ImbalanceWorkload(regime, shape, seed)
    settings, provenance = build_regime(regime, parameters)
    return Synthetic(shape, settings, seed, name=regime, provenance=provenance)


class Balanced:
    """Every source sends every expert the same number of copies, remainders in rotation."""

    name = "uniform"
    exact = False

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.provenance = {"regime": "uniform: perfectly balanced, nothing drawn"}
        base, rest = divmod(shape.copies_per_rank, shape.experts)
        matrix = np.full((shape.ranks, shape.experts), base, dtype=np.int64)
        # the remainder of rank r goes to the `rest` experts after those of rank r - 1
        places = np.arange(shape.ranks)[:, np.newaxis] * rest + np.arange(rest)[np.newaxis, :]
        np.add.at(matrix, (np.arange(shape.ranks)[:, np.newaxis], places % shape.experts), 1)
        self._matrix = matrix

    def tokens(self, *, group: int, layers: Sequence[int], micro_batches: int, step: int) -> Counts:
        """See :class:`~lightloom.demand.source.DemandSource`."""
        check_index(group, layers, micro_batches, step)
        return np.broadcast_to(
            self._matrix, (len(layers), micro_batches, *self._matrix.shape)
        ).copy()


class Synthetic:
    """Counts drawn from a regime; :func:`synthetic` makes one."""

    exact = False

    def __init__(
        self, shape: Shape, regime: Regime, seed: int, *, name: str, provenance: dict[str, str]
    ) -> None:
        self.name = name
        self.shape = shape
        self.regime = regime
        read = {key: text for key, text in provenance.items() if key not in unread(regime)}
        self.provenance = {"regime": name, "seed": str(seed), **read}
        self.popularity = Popularity(shape.experts, regime, seed)
        self._shares = Stream(seed, "rows")
        self._routing = Stream(seed, "routing")
        self._topics = Stream(seed, "topics")
        self._phases = Stream(seed, "phases")

    def tokens(self, *, group: int, layers: Sequence[int], micro_batches: int, step: int) -> Counts:
        """See :class:`~lightloom.demand.source.DemandSource`."""
        return _core.demand_draw(self._rows(group, layers, micro_batches, step))

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
        ranks = self.shape.ranks
        ranks_of_member(ranks, members)
        rows = self._rows(group, layers, micro_batches, step)
        try:
            folded = _core.demand_fold(rows, int(members), rank_level)
        except ValueError as error:
            raise DemandError(str(error)) from None
        blocks = (len(layers), micro_batches)
        return FoldedTokens(
            tokens=folded["tokens"].reshape(*blocks, members, members),
            rank_tokens=(
                folded["rank_tokens"].reshape(*blocks, ranks, ranks) if rank_level else None
            ),
            received=folded["received"].reshape(*blocks, ranks),
            stayed=folded["stayed"],
        )

    def summed(
        self, *, group: int, layers: Sequence[int], micro_batches: int, step: int
    ) -> RankSums:
        """See :class:`~lightloom.demand.folding.FoldingSource`."""
        sums = _core.demand_sum(self._rows(group, layers, micro_batches, step))
        return RankSums(**sums)

    def _rows(
        self, group: int, layers: Sequence[int], micro_batches: int, step: int
    ) -> dict[str, Any]:
        """What the core is to draw; ``alpha`` is ``(layers, micro-batches or 1, experts)``."""
        check_index(group, layers, micro_batches, step)
        shape = self.shape
        mix = self._topic_mix(group, micro_batches, step)
        alpha = np.empty((len(layers), len(mix), shape.experts))
        for place, layer in enumerate(layers):
            # (micro-batches or 1, experts)
            alpha[place] = mix @ self.popularity.shares(layer, step)
        alpha *= self.regime.row_concentration(shape.experts, shape.tokens_per_rank) * shape.experts
        numbers = np.array(layers, dtype=np.uint64)
        return {
            "ranks": shape.ranks,
            "experts": shape.experts,
            "copies_per_rank": shape.copies_per_rank,
            "tokens_per_rank": shape.tokens_per_rank,
            "shares_key": self._shares.key,
            "routing_key": self._routing.key,
            "group": int(group),
            "step": int(step),
            "layers": numbers,
            "micro_batches": int(micro_batches),
            "spans": self._spans(group, layers, step),
            "alpha": alpha,
        }

    def _spans(self, group: int, layers: Sequence[int], step: int) -> npt.NDArray[np.uint64] | None:
        """The span of steps in which each layer's rows are held; layers change at other steps."""
        hold = self.regime.hold_steps
        if not hold:
            return None
        phases = [int(self._phases.at(layer, group).integers(hold)) for layer in layers]
        return np.array([(int(step) + phase) // hold for phase in phases], dtype=np.uint64)

    def _topic_mix(self, group: int, micro_batches: int, step: int) -> npt.NDArray[np.float64]:
        """Weights of the topics in each micro-batch of a group, shared by all layers."""
        topics = self.regime.topics
        if not topics:
            return np.ones((1, 1))
        weight = np.full(topics, self.regime.topic_concentration / topics)
        # gamma draws by the Dirichlet's definition; a log avoids that all of them vanish
        draw = self._topics.at(group, step)
        size = (micro_batches, topics)
        uniform = self._topics.at(group, step, 1).random(size)
        logs = np.log(draw.standard_gamma(weight + 1, size)) + np.log1p(-uniform) / weight
        mix: npt.NDArray[np.float64] = np.exp(logs - logs.max(axis=1, keepdims=True))
        mix /= mix.sum(axis=1, keepdims=True)
        return mix
