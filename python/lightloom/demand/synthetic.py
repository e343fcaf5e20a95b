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

import numpy as np
import numpy.typing as npt

from lightloom.demand.popularity import Popularity
from lightloom.demand.regime import Regime, build_regime, check_regime, unread
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
        ``mixtral`` (calibrated), ``pair`` and ``sparse`` (stress), or ``uniform`` (balanced).
    ranks, experts, tokens_per_rank, top_k
        See :class:`~lightloom.demand.source.Shape`.
    seed
        Same seed and index, same counts.
    **parameters
        Changes to the regime's parameters, see ``regimes.toml``: ``logit_sd``,
        ``logit_sd_start``, ``decay_steps``, ``rho``, ``persistent_share``, ``concentration``,
        ``hold_steps``, ``topics``, ``topic_concentration``, ``topic_sd``.

    Raises
    ------
    DemandError
        If the regime, a parameter or the shape cannot be used.
    """
    check_regime(regime)
    shape = Shape(ranks, experts, tokens_per_rank, top_k)
    if regime == "uniform":
        if parameters:
            raise DemandError(
                f"demand regime 'uniform' is balanced and has no parameters, "
                f"got '{next(iter(parameters))}'; leave it out"
            )
        return Balanced(shape)
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
        self._rows = Stream(seed, "rows")
        self._routing = Stream(seed, "routing")
        self._topics = Stream(seed, "topics")
        self._phases = Stream(seed, "phases")

    def tokens(self, *, group: int, layers: Sequence[int], micro_batches: int, step: int) -> Counts:
        """See :class:`~lightloom.demand.source.DemandSource`."""
        check_index(group, layers, micro_batches, step)
        shape = self.shape
        counts: Counts = np.empty(
            (len(layers), micro_batches, shape.ranks, shape.experts), dtype=np.int64
        )
        mix = self._topic_mix(group, micro_batches, step)
        for index, layer in enumerate(layers):
            # (micro-batches or 1, experts)
            shares = mix @ self.popularity.shares(layer, step)
            rows = self._row_shares(shares, group, layer, micro_batches, step)
            draw = self._routing.at(layer, group, step)
            counts[index] = draw.multinomial(shape.copies_per_rank, rows)
        return limit_to_tokens(counts, shape.tokens_per_rank)

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

    def _row_shares(
        self,
        shares: npt.NDArray[np.float64],
        group: int,
        layer: int,
        micro_batches: int,
        step: int,
    ) -> npt.NDArray[np.float64]:
        """Dirichlet rows ``(micro_batches, ranks, experts)`` around the popularity."""
        shape, hold = self.shape, self.regime.hold_steps
        alpha = self.regime.concentration * shape.experts * shares[:, np.newaxis, :]
        if hold:
            phase = int(self._phases.at(layer, group).integers(hold))
            rows = np.broadcast_to(
                self._rows.at(layer, group, (step + phase) // hold).standard_gamma(
                    alpha[:1], (1, shape.ranks, shape.experts)
                ),
                (micro_batches, shape.ranks, shape.experts),
            )
        else:
            rows = self._rows.at(layer, group, step).standard_gamma(
                alpha, (micro_batches, shape.ranks, shape.experts)
            )
        # the most popular expert has alpha of at least `concentration`, so no row is all zero
        shares_of_rows: npt.NDArray[np.float64] = rows / rows.sum(axis=-1, keepdims=True)
        return shares_of_rows


def limit_to_tokens(counts: Counts, tokens: int) -> Counts:
    """Move copies from experts that got more than there are tokens to the others.

    A token chooses an expert at most once, so a source cannot send an expert more copies than it
    has tokens. The excess is spread in proportion to what the others have.

    Parameters
    ----------
    counts
        ``(..., experts)``, at most ``tokens * experts`` per row.
    tokens
        Tokens of one source.

    Returns
    -------
    Counts of the same shape and row sums, none above ``tokens``.
    """
    over = (counts > tokens).any(axis=-1)
    if not over.any():
        return counts
    rows = counts[over]
    left = np.maximum(rows - tokens, 0).sum(axis=-1)
    rows = np.minimum(rows, tokens)
    while left.any():
        room = tokens - rows
        weight = np.where(room > 0, rows + 1, 0)
        total = np.maximum(weight.sum(axis=-1, keepdims=True), 1)
        part = np.minimum(left[:, np.newaxis] * weight // total, room)
        # fewer copies are left than experts: one each, the roomiest first
        place = np.argsort(np.argsort(-room, axis=-1, kind="stable"), axis=-1)
        single = ((place < left[:, np.newaxis]) & (room > 0)).astype(np.int64)
        part = np.where(part.any(axis=-1, keepdims=True), part, single)
        rows += part
        left -= part.sum(axis=-1)
    result = counts.copy()
    result[over] = rows
    return result
