"""The time of an all-to-all by each strategy, and the choice among them (MoNTA, arXiv 2411.00662).

Of the ``t`` TP ranks of an EP rank, each sends the ``1/t`` part of its tokens to its like in every
other EP rank, and the TP ranks of a receiver gather what they got. Chunk ``j`` takes ::

    a_j = alpha_1 + between_j / (t beta_1)          all-to-all, within servers beside it
    g_j = alpha_2 + gathered_j (t - 1) / (t beta_2)   all-gather
    d_j = alpha_3 + gathered_j / beta_3               copy to where the tokens belong

:mod:`.pipeline` has what ``N`` chunks take. What is assumed: ranks begin together, or
``late_s`` after the first; stages run beside each other at full rate but for the penalties of the
cluster. What is left out: the experts, which may run beside the chunks as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lightloom.planner.cluster import StrategyCluster
from lightloom.planner.pipeline import best_equal_chunks
from lightloom.planner.scenario import MAX_CHUNKS
from lightloom.planner.strategy import AllToAllStrategy
from lightloom.planner.volume import AllToAllVolume


class Timed(NamedTuple):
    """The time of a strategy, and its chunks."""

    time_s: float
    chunks: int


class BytesMoved(NamedTuple):
    """Bytes of the busiest GPU: to other servers, within its server, and copied."""

    between_bytes: float
    within_bytes: float
    copied_bytes: float


@dataclass(frozen=True)
class Choice:
    """What an all-to-all takes by every strategy, and which ones are the best two.

    ``chosen`` is the fastest of those that the cluster lets choose, the simpler one of equal ones;
    ``next_best`` is ``None`` where there is no other.
    """

    times: Mapping[AllToAllStrategy, Timed]
    chosen: AllToAllStrategy
    next_best: AllToAllStrategy | None

    @property
    def speed_up(self) -> float:
        """How many times faster than the baseline the chosen one is."""
        return self.times[AllToAllStrategy.BASELINE].time_s / self.times[self.chosen].time_s


@dataclass(frozen=True)
class AllToAll:
    """All-to-alls among ``ep`` EP ranks of ``tp`` TP ranks each, on a cluster.

    ``late_s`` is how long after the others the last rank begins: no chunk is whole before that.
    """

    cluster: StrategyCluster
    tp: int
    ep: int
    late_s: float = 0.0

    def time_s(self, strategy: AllToAllStrategy, volume: AllToAllVolume, chunks: int = 1) -> float:
        """Return the time of a strategy with equal chunks; those that have none ignore them."""
        if not strategy.is_chunked or self.tp == 1:
            return self.late_s + sum(self.stages_s(strategy, volume))
        stages = self.stages_s(strategy, volume.part(1 / chunks))
        return self.late_s + sum(stages) + (chunks - 1) * max(stages)

    def stages_s(self, strategy: AllToAllStrategy, volume: AllToAllVolume) -> list[float]:
        """Return what a chunk takes in each stage that runs beside the others."""
        cluster = self.cluster
        if strategy is AllToAllStrategy.BASELINE or self.tp == 1:
            return [self._send_s(volume, 1)]
        send = self._send_s(volume, self.tp)
        kept = volume.gathered_bytes * (self.tp - 1) / self.tp
        gather = cluster.gather.time_s(kept)
        copy = cluster.copy_.time_s(volume.gathered_bytes)
        match strategy:
            case AllToAllStrategy.O1:
                return [send + gather]
            case AllToAllStrategy.O2:
                return [send, gather + copy + self.chunk_s(strategy)]
            case AllToAllStrategy.O3:
                return [send, gather + self.chunk_s(strategy), copy]
            case AllToAllStrategy.O4:
                return [send, gather + self.chunk_s(strategy)]

    def chunk_s(self, strategy: AllToAllStrategy) -> float:
        """Return what each chunk takes beside its operations, in the stage of its gather.

        Kernels that compete, or start-ups of further gathers.
        """
        cluster = self.cluster
        match strategy:
            case AllToAllStrategy.O2:
                return cluster.penalties.copy_s
            case AllToAllStrategy.O3:
                return cluster.penalties.gather_s
            case AllToAllStrategy.O4:
                return cluster.grouped_gather * (self.ep - 1) * cluster.gather.time_s(0)
            case _:
                return 0.0

    def best(
        self, strategy: AllToAllStrategy, volume: AllToAllVolume, maximum: int = MAX_CHUNKS
    ) -> Timed:
        """Return the number of equal chunks with the least time: the smallest of such numbers."""
        if not strategy.is_chunked or self.tp == 1:
            return Timed(self.time_s(strategy, volume), 1)
        if not self._has_closed_form:
            every = range(1, maximum + 1)
            return min(Timed(self.time_s(strategy, volume, chunks), chunks) for chunks in every)
        empty = volume.part(0.0)
        start_up = self.stages_s(strategy, empty)
        # of linear stages, what all bytes add
        whole = [time - start for time, start in
                 zip(self.stages_s(strategy, volume), start_up, strict=True)]  # fmt: skip
        chunks, time_s = best_equal_chunks(start_up, whole, maximum)
        return Timed(self.late_s + time_s, chunks)

    def choose(self, volume: AllToAllVolume, chunks: int | None = None) -> Choice:
        """Return the choice for a volume, with a number of chunks or the best one of each."""
        times = {
            strategy: self.best(strategy, volume)
            if chunks is None
            else Timed(self.time_s(strategy, volume, chunks), self._chunks(strategy, chunks))
            for strategy in AllToAllStrategy
        }
        ranked = sorted(self.cluster.choices, key=lambda strategy: times[strategy].time_s)
        return Choice(times, ranked[0], ranked[1] if len(ranked) > 1 else None)

    def of_tokens(
        self, tokens: npt.NDArray[np.int64], token_bytes: float, chunks: int | None = None
    ) -> Choice:
        """Return the choice for tokens of each pair of EP ranks, ``(ep, ep)``."""
        volume = AllToAllVolume.of(tokens.astype(np.float64), token_bytes, self.ranks_per_server)
        return self.choose(volume, chunks)

    def traffic(self, strategy: AllToAllStrategy, volume: AllToAllVolume) -> BytesMoved:
        """Return the bytes of the busiest GPU by a strategy."""
        if strategy is AllToAllStrategy.BASELINE or self.tp == 1:
            return BytesMoved(volume.between_bytes, volume.within_bytes, 0.0)
        gathered = volume.gathered_bytes * (self.tp - 1) / self.tp
        copied = (
            volume.gathered_bytes if strategy in (AllToAllStrategy.O2, AllToAllStrategy.O3) else 0.0
        )
        within = volume.within_bytes / self.tp + gathered
        return BytesMoved(volume.between_bytes / self.tp, within, copied)

    @property
    def ranks_per_server(self) -> int:
        """EP ranks of a server."""
        return max(1, self.cluster.gpus_per_server // self.tp)

    def _chunks(self, strategy: AllToAllStrategy, chunks: int) -> int:
        return chunks if strategy.is_chunked and self.tp > 1 else 1

    def _send_s(self, volume: AllToAllVolume, parts: int) -> float:
        """The all-to-all of one of so many parts; bytes within servers go beside the others."""
        times = {
            "between": self.cluster.all_to_all.time_s(volume.between_bytes / parts),
            "within": self.cluster.within.time_s(volume.within_bytes / parts),
        }
        return max(times[where] for where in self._ways)

    @property
    def _ways(self) -> tuple[str, ...]:
        """Where EP ranks that send to each other are."""
        members = self.ranks_per_server
        between = ("between",) if members < self.ep else ()
        return (*between, *(("within",) if members > 1 else ()))

    @property
    def _has_closed_form(self) -> bool:
        """Whether every stage is a start-up and a rate."""
        cluster = self.cluster
        senders = {"between": cluster.all_to_all, "within": cluster.within}
        used = [cluster.gather, cluster.copy_, *(senders[way] for way in self._ways)]
        return len(self._ways) == 1 and all(curve.is_affine for curve in used)
