"""Replay of a per-token routing log into a job: exact where it fits, resampled if asked.

A log fits a job when it has the job's ranks, layers, steps, micro-batches and tokens; what it
lacks is refused. With ``resample`` every source rank instead draws its tokens with replacement
from all tokens of the layer. A drawn token keeps its choices in all layers, so that layers stay
tied as in the log; what is lost is how ranks and steps differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand.log_formats import Choices, RoutingLog, read_routing_log
from lightloom.demand.source import Counts, Shape, check_index
from lightloom.demand.streams import Stream
from lightloom.errors import DemandError

#: pools up to this size are drawn as multiplicities of their tokens, larger ones token by token
_SMALL_POOL = 4096


@dataclass(frozen=True)
class LogLayout:
    """How the ranks of a Megatron log are arranged.

    ``ranks_per_source`` consecutive ranks together hold the tokens of one EP rank (tensor-parallel
    ranks under sequence parallelism). ``stages`` is the number of pipeline stages in the log: the
    ranks are those of one stage after the other, and number their layers from their stage's first.
    """

    ranks_per_source: int = 1
    stages: int = 1


def from_routing_log(
    path: Path | str,
    shape: Shape,
    *,
    resample: bool = False,
    seed: int | None = None,
    layout: LogLayout = LogLayout(),
) -> ReplaySource | ResampledSource:
    """Make a source of a routing log.

    Parameters
    ----------
    path
        A file, or a folder with one file per rank; see :mod:`.log_formats`.
    shape
        The job; experts and top-k must be those of the log.
    resample
        Whether tokens may be drawn with replacement; the source is then marked as not exact.
    seed
        Required with ``resample``, unused and refused without.
    layout
        How the log's ranks are arranged (exact replay of Megatron logs).

    Raises
    ------
    DemandError
        If the log cannot be read or does not fit the job.
    """
    return replay(read_routing_log(path), shape, resample=resample, seed=seed, layout=layout)


def replay(
    log: RoutingLog,
    shape: Shape,
    *,
    resample: bool = False,
    seed: int | None = None,
    layout: LogLayout = LogLayout(),
) -> ReplaySource | ResampledSource:
    """Make a source of a log that was read; see :func:`from_routing_log`."""
    experts = log.experts if log.experts is not None else log.largest_expert + 1
    # a log without a count of experts may happen not to use the last ones
    if experts > shape.experts or (log.experts is not None and experts != shape.experts):
        raise DemandError(
            f"{log.name}: a log of {experts} experts does not fit a job of {shape.experts}"
        )
    if log.top_k != shape.top_k:
        raise DemandError(
            f"{log.name}: a log of top-{log.top_k} routing does not fit a job of top-{shape.top_k}"
        )
    if not resample:
        if seed is not None:
            raise DemandError("a seed is given, but an exact replay draws nothing; leave it out")
        return ReplaySource(log, shape, layout)
    if seed is None:
        raise DemandError(f"{log.name}: resampling draws tokens; give a seed")
    if layout.ranks_per_source != 1:
        raise DemandError(
            f"{log.name}: resampling draws from all ranks; ranks_per_source has no effect"
        )
    return ResampledSource(log, shape, seed, layout)


class _LogSource:
    """What both kinds of replay share."""

    def __init__(self, log: RoutingLog, shape: Shape, layout: LogLayout) -> None:
        self.name = Path(log.name).name
        self.shape = shape
        self.provenance = {"log": log.name, **log.notes}
        self._log = log
        self._layout = layout
        self._ranks = log.ranks
        if log.streamed and layout != LogLayout():
            raise DemandError(f"{log.name}: the log has no ranks to lay out")
        if min(layout.ranks_per_source, layout.stages) < 1:
            raise DemandError("a layout of ranks has numbers above 0 only")
        if len(self._ranks) % layout.stages:
            raise DemandError(
                f"{log.name}: {len(self._ranks)} ranks in the log are not of {layout.stages} stages"
            )
        # the log's number of each MoE layer, with its stage
        self._layers = [
            (stage, number)
            for stage in range(layout.stages)
            for number in self._numbers(self._stage_ranks(stage))
        ]

    def _stage_ranks(self, stage: int) -> list[int]:
        """The log's ranks of a stage."""
        size = len(self._ranks) // self._layout.stages
        return self._ranks[stage * size : (stage + 1) * size]

    def _numbers(self, ranks: list[int]) -> list[int]:
        """The layers of some ranks, as numbered in the log."""
        wanted = set(ranks)
        return sorted({layer for _, rank, layer in self._log.calls if rank in wanted})

    def check_node_limit(self, num_groups: int, top_groups: int) -> None:
        """Refuse a log whose tokens reach more expert groups than the model allows.

        Raises
        ------
        DemandError
            Naming the first token.
        """
        size = self.shape.experts // num_groups
        for (step, rank, layer), calls in self._log.calls.items():
            for call in calls:
                touched = _touched(call, size, num_groups).sum(axis=1)
                if (touched > top_groups).any():
                    token = int(np.argmax(touched > top_groups))
                    raise DemandError(
                        f"{self._log.name}: step {step}, rank {rank}, layer {layer}: token "
                        f"{token} reaches {touched[token]} of {num_groups} expert groups, the "
                        f"model's routing allows {top_groups}"
                    )


class ReplaySource(_LogSource):
    """The tokens of the log themselves, in order."""

    exact = True

    def __init__(self, log: RoutingLog, shape: Shape, layout: LogLayout) -> None:
        super().__init__(log, shape, layout)
        self._steps = log.steps
        self._groups = 1 if log.streamed else self._count_groups()

    def _count_groups(self) -> int:
        """EP groups in each stage of the log."""
        layout, ranks = self._layout, len(self._ranks)
        size = self.shape.ranks * layout.ranks_per_source * layout.stages
        groups, rest = divmod(ranks, size)
        if rest or not groups:
            raise DemandError(
                f"{self._log.name}: {ranks} ranks in the log do not make {layout.stages} "
                f"stage(s) of EP groups of {self.shape.ranks} ranks x {layout.ranks_per_source}; "
                "use a log of this size or resample"
            )
        return groups

    def tokens(self, *, group: int, layers: Sequence[int], micro_batches: int, step: int) -> Counts:
        """See :class:`~lightloom.demand.source.DemandSource`.

        Raises
        ------
        DemandError
            If the log has no such group, layer, micro-batch or step, or other token counts.
        """
        size = self.shape.experts
        shape = (len(layers), micro_batches, self.shape.ranks, size)
        counts = np.zeros(shape, dtype=np.int64)
        for index, call in self._calls(group, layers, micro_batches, step):
            counts[index] = np.bincount(call.ravel(), minlength=size)
        return counts

    def distinct(
        self, *, group: int, layers: Sequence[int], micro_batches: int, step: int, members: int
    ) -> Counts:
        """See :class:`~lightloom.demand.source.PerTokenSource`."""
        shape = (len(layers), micro_batches, self.shape.ranks, members)
        counts = np.zeros(shape, dtype=np.int64)
        size = self.shape.experts // members
        for index, call in self._calls(group, layers, micro_batches, step):
            counts[index] = _touched(call, size, members).sum(axis=0)
        return counts

    def _calls(
        self, group: int, layers: Sequence[int], micro_batches: int, step: int
    ) -> list[tuple[tuple[int, int, int], Choices]]:
        """The tokens of each (layer, micro-batch, rank) asked for."""
        check_index(group, layers, micro_batches, step)
        for what, value, number in (
            ("step", step, len(self._steps)),
            ("EP group", group, self._groups),
            *(("MoE layer", layer, len(self._layers)) for layer in layers),
        ):
            if value >= number:
                raise DemandError(
                    f"{self._log.name}: {what} {value} of a log of {number}; use a log of this job "
                    "or resample"
                )
        calls = []
        for place, layer in enumerate(layers):
            for micro_batch, rank in np.ndindex(micro_batches, self.shape.ranks):
                call = self._call(self._steps[step], group, layer, (micro_batch, rank))
                calls.append(((place, micro_batch, rank), call))
        return calls

    def _call(self, step: int, group: int, layer: int, place: tuple[int, int]) -> Choices:
        """The tokens of one (micro-batch, rank)."""
        wanted = self.shape.tokens_per_rank
        micro_batch, rank = place
        stage, number = self._layers[layer]
        if self._log.streamed:
            stream = self._log.calls[0, 0, number][0]
            start = (micro_batch * self.shape.ranks + rank) * wanted
            part = stream[start : start + wanted]
            if len(part) < wanted:
                raise DemandError(
                    f"{self._log.name}: {len(stream):,} tokens in the log are too few for "
                    f"micro-batch {micro_batch} of {self.shape.ranks} EP ranks x {wanted:,} "
                    "tokens; use a longer log or resample"
                )
            return part
        count = self._layout.ranks_per_source
        first = (group * self.shape.ranks + rank) * count
        parts = []
        for source in self._stage_ranks(stage)[first : first + count]:
            calls = self._log.calls.get((step, source, number), [])
            if micro_batch >= len(calls):
                raise DemandError(
                    f"{self._log.name}: rank {source} has {len(calls)} router call(s) of layer "
                    f"{number} in step {step}, the job needs micro-batch {micro_batch}; use a "
                    "longer log or resample"
                )
            parts.append(calls[micro_batch])
        call = np.concatenate(parts)
        if len(call) != wanted:
            raise DemandError(
                f"{self._log.name}: {len(call):,} tokens of EP rank {rank} in the log, the job "
                f"routes {wanted:,}; match the micro-batch or resample"
            )
        return call


class ResampledSource(_LogSource):
    """Tokens drawn with replacement from all tokens of a layer.

    ``logged_copies`` are those per expert, of the layer that has the fewest.
    """

    exact = False

    def __init__(self, log: RoutingLog, shape: Shape, seed: int, layout: LogLayout) -> None:
        super().__init__(log, shape, layout)
        self._draws = Stream(seed, "resample")
        self._pools: dict[int, Choices] = {}
        sizes = {len(self._pool(place)) for place in range(len(self._layers))}
        if min(sizes) == 0:
            raise DemandError(f"{log.name}: a layer without tokens has nothing to draw from")
        self.logged_copies = min(sizes) * shape.top_k / shape.experts
        self.provenance["resampled"] = (
            f"{shape.tokens_per_rank:,} tokens per EP rank drawn with replacement from "
            f"{' to '.join(f'{size:,}' for size in sorted({min(sizes), max(sizes)}))} logged "
            f"tokens per layer; layers beyond {len(self._layers)} repeat"
        )
        self.provenance["seed"] = str(seed)

    def tokens(self, *, group: int, layers: Sequence[int], micro_batches: int, step: int) -> Counts:
        """See :class:`~lightloom.demand.source.DemandSource`."""
        size = self.shape.experts

        def table(call: Choices) -> npt.NDArray[np.bool_]:
            return _touched(call, 1, size)

        return self._count((group, layers, micro_batches, step), table, size)

    def distinct(
        self, *, group: int, layers: Sequence[int], micro_batches: int, step: int, members: int
    ) -> Counts:
        """See :class:`~lightloom.demand.source.PerTokenSource`."""
        size = self.shape.experts // members

        def table(call: Choices) -> npt.NDArray[np.bool_]:
            return _touched(call, size, members)

        return self._count((group, layers, micro_batches, step), table, members)

    def _count(self, index: tuple[int, Sequence[int], int, int], table: Any, width: int) -> Counts:
        """Sum the rows of ``table(pool)`` over the tokens drawn."""
        group, layers, micro_batches, step = index
        check_index(group, layers, micro_batches, step)
        shape = (len(layers), micro_batches, self.shape.ranks, width)
        counts = np.zeros(shape, dtype=np.int64)
        pools = [self._pool(layer % len(self._layers)) for layer in layers]
        for size in sorted({len(pool) for pool in pools}):
            places = [place for place, pool in enumerate(pools) if len(pool) == size]
            draw = self._draws.at(group, step, size)
            if size <= _SMALL_POOL:
                chance = np.full(size, 1 / size)
                copies = draw.multinomial(self.shape.tokens_per_rank, chance, shape[1:3]).astype(
                    np.float64
                )
                for place in places:
                    counts[place] = np.rint(copies @ table(pools[place]).astype(np.float64))
                continue
            for micro_batch in range(micro_batches):
                for rank in range(self.shape.ranks):
                    chosen = draw.integers(size, size=self.shape.tokens_per_rank)
                    for place in places:
                        rows = table(pools[place][chosen])
                        counts[place, micro_batch, rank] = rows.sum(axis=0)
        return counts

    def _pool(self, place: int) -> Choices:
        """All tokens of a layer of the log, in the order of steps and ranks."""
        if place not in self._pools:
            stage, number = self._layers[place]
            ranks = set(self._stage_ranks(stage))
            keys = sorted(k for k in self._log.calls if k[2] == number and k[1] in ranks)
            self._pools[place] = np.concatenate(
                [call for key in keys for call in self._log.calls[key]]
            )
        return self._pools[place]


def _touched(call: Choices, size: int, parts: int) -> npt.NDArray[np.bool_]:
    """Whether each token reaches each part of ``size`` experts, ``(tokens, parts)``."""
    touched = np.zeros((len(call), parts), dtype=bool)
    touched[np.arange(len(call))[:, np.newaxis], call // size] = True
    return touched
