"""What is to be scheduled: a demand, the switch that serves it, and what kind of demand it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom import schedule
from lightloom.demand.imbalance_measures import imbalance_of, rank_one_distance
from lightloom.errors import DemandError
from lightloom.schedule.permutations import MAX_LINES, MAX_SWITCHES
from lightloom.study.scheduling.chunked import ChunkTimes

Bytes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class PortBudget:
    """What circuits under a port budget need to know.

    Attributes
    ----------
    ports
        Optical ports per server.
    eps_gbps
        Rate of one server into, and out of, the EPS.
    previous
        Circuits that are held now, ``(n, n)``; the static circulant by default.
    failed
        What is broken and must not be used.
    eps_nics
        NICs that ``eps_gbps`` is the rate of; needed only if some of them have failed.
    """

    ports: int
    eps_gbps: float
    previous: npt.ArrayLike | None = None
    failed: schedule.Failures | None = None
    eps_nics: int | None = None


@dataclass(frozen=True)
class Problem:
    """A demand and the switch that serves it.

    Attributes
    ----------
    name
        Where the demand is from, for titles.
    demand
        Bytes, ``(sources, destinations)``; see :func:`without_diagonal`.
    rate_gbps
        Rate of one circuit, per direction.
    delay_s
        Time that a reconfiguration takes, in which the ports that it moves carry nothing.
    partial
        Whether a reconfiguration stops only the ports that it moves; else all of its switch.
    budget
        For circuits under a port budget; the demand must be square.
    eps_gbps
        Rate of a port into packet switches alongside the crossbar; ``None`` if there are none.
    switches
        Switches that every source and destination has a port at, for schedules of permutations
        and other systems alike; see :attr:`switch_count`.
    chunks
        Chunks that compute produces and needs one after another, if there are any.
    earlier
        A schedule of one all-stop crossbar whose matchings are to be kept.
    new_slots
        Slots that may be added to those.
    """

    name: str
    demand: Bytes
    rate_gbps: float
    delay_s: float
    partial: bool = False
    budget: PortBudget | None = None
    eps_gbps: float | None = None
    switches: int | None = None
    chunks: ChunkTimes | None = None
    earlier: schedule.PermutationSchedule | None = None
    new_slots: int = 0

    @property
    def switch_count(self) -> int:
        """The switches given, else one per port of the budget; one if changes are partial."""
        if self.switches is not None:
            return self.switches
        if self.budget is None or self.partial:
            return 1
        return min(self.budget.ports, MAX_SWITCHES)

    @property
    def is_large(self) -> bool:
        """Whether it has more lines than schedules of permutations may have."""
        return bool(max(self.demand.shape) > MAX_LINES)


@dataclass(frozen=True)
class DemandProfile:
    """What kind of demand it is.

    Attributes
    ----------
    total_bytes, pairs
        What is sent, and between how many ordered pairs.
    busiest_bytes
        Largest row or column sum: no schedule is shorter than these at line rate.
    line_over_mean, pair_over_mean, pair_cv
        Imbalance of row and column sums, and of the entries (zeros included).
    rank_one_distance
        See :func:`~lightloom.demand.imbalance_measures.rank_one_distance`.
    """

    sources: int
    destinations: int
    total_bytes: int
    pairs: int
    busiest_bytes: int
    line_over_mean: float
    pair_over_mean: float
    pair_cv: float
    rank_one_distance: float


def without_diagonal(demand: Bytes) -> tuple[Bytes, int]:
    """A square demand without what stays inside its server, and how many bytes that is."""
    if demand.shape[0] != demand.shape[1]:
        return demand, 0
    inside = int(np.diagonal(demand).sum(dtype=np.uint64))
    left = demand.copy()
    np.fill_diagonal(left, 0)
    return left, inside


def without_servers(demand: Bytes, servers: Sequence[int]) -> tuple[Bytes, int]:
    """A square demand without what servers send and receive, and how many bytes that is."""
    gone = np.isin(np.arange(len(demand)), servers)
    left = np.where(gone[:, np.newaxis] | gone, np.uint64(0), demand)
    return left, int((demand - left).sum(dtype=object))


def profile_of(demand: Bytes, name: str = "demand") -> DemandProfile:
    """Measure what kind of demand it is; ``name`` begins error messages.

    Raises
    ------
    DemandError
        If there is nothing to send.
    """
    total = int(demand.sum(dtype=object))
    if total == 0:
        raise DemandError(f"{name}: has no bytes to send; nothing to schedule")
    square = demand.shape[0] == demand.shape[1] > 1
    values = demand.astype(np.float64)
    lines = np.concatenate([values.sum(axis=1), values.sum(axis=0)])
    entries = values[~np.eye(len(values), dtype=bool)] if square else values
    pairs = imbalance_of(entries)
    return DemandProfile(
        sources=demand.shape[0],
        destinations=demand.shape[1],
        total_bytes=total,
        pairs=int(np.count_nonzero(demand)),
        busiest_bytes=max(int(demand.sum(axis=axis, dtype=object).max()) for axis in (0, 1)),
        line_over_mean=float(lines.max() / lines.mean()),
        pair_over_mean=pairs.max_over_mean,
        pair_cv=pairs.cv,
        rank_one_distance=rank_one_distance(values, diagonal=not square),
    )
