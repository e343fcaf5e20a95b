"""One demand, every scheduler: the portfolio side by side, and whether to reconfigure at all.

A :class:`Question` is a demand with the circuits' rate and delay and, for circuits under a port
budget, a degree. The answer is a :class:`Scheduling`: schedules of permutations, allocations, and
the break-even against the circuits that are held. It leaves out what the simulator is for:
latency, copies inside a server, and whatever else runs at the same time.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import get_args

import numpy as np
import numpy.typing as npt

from lightloom import schedule
from lightloom.demand.unevenness import rank_one_distance, skew
from lightloom.errors import DemandError, InputError, did_you_mean
from lightloom.study.other_systems import Fabric, SystemRow, other_system

#: time that a comparison takes on either part unless it is said
DEFAULT_LIMIT_S = 10.0
#: what auto takes without a limit, in times of all other methods together, measured at 32 to 256
_AUTO_TAKES = 5.0

Bytes = npt.NDArray[np.uint64]
Told = Callable[[float, str], None]


@dataclass(frozen=True)
class Ports:
    """What circuits under a port budget need to know.

    Attributes
    ----------
    degree
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

    degree: int
    eps_gbps: float
    previous: npt.ArrayLike | None = None
    failed: schedule.Failures | None = None
    eps_nics: int | None = None


@dataclass(frozen=True)
class Question:
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
        Whether a reconfiguration stops only the ports that it moves; else all.
    ports
        For circuits under a port budget; the demand must be square.
    """

    name: str
    demand: Bytes
    rate_gbps: float
    delay_s: float
    partial: bool = False
    ports: Ports | None = None


@dataclass(frozen=True)
class Nature:
    """What kind of demand it is.

    Attributes
    ----------
    total_bytes, pairs
        What is sent, and between how many ordered pairs.
    busiest_bytes
        Largest row or column sum: no schedule is shorter than these at line rate.
    line_over_mean, pair_over_mean, pair_cv
        Skew of row and column sums, and of the entries (zeros included).
    rank_one_distance
        See :func:`~lightloom.demand.unevenness.rank_one_distance`.
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


@dataclass(frozen=True)
class AllocationRow:
    """Circuits of one allocator.

    Attributes
    ----------
    split, whole
        With and without spilling to the EPS what a pair's circuits cannot carry.
    changed_pairs
        Port pairs that the switch touches to get from the held circuits to those of ``split``.
    took_s
        Time to compute the circuits of ``split``.
    relayed
        How third servers relay over the circuits of ``split``, if that was asked for.
    """

    method: str
    split: schedule.Allocation
    whole: schedule.Allocation
    changed_pairs: int
    took_s: float
    relayed: schedule.Relayed | None = None


@dataclass
class Scheduling:
    """Everything that was found; what an interrupt or the time limit cut off is missing.

    Attributes
    ----------
    schedules
        Schedules of permutations by their method.
    systems
        What other systems do, by their name.
    not_begun
        Methods and systems that the time limit left out.
    allocations
        Circuits under the port budget.
    held
        The circuits that are there: those given, else the static circulant.
    held_relayed
        How third servers relay over these, if that was asked for.
    made_to_relay
        Circuits that were chosen for relaying, if that was asked for.
    planes
        How the best circuits lie on planes, if that was asked for.
    decision
        Whether to leave them for one of the allocations.
    """

    question: Question
    nature: Nature
    schedules: dict[str, schedule.PermutationSchedule] = field(default_factory=dict)
    systems: dict[str, SystemRow] = field(default_factory=dict)
    not_begun: list[str] = field(default_factory=list)
    allocations: list[AllocationRow] = field(default_factory=list)
    held: schedule.Allocation | None = None
    held_relayed: schedule.Relayed | None = None
    made_to_relay: schedule.RelayedAllocation | None = None
    planes: schedule.PlanePlan | None = None
    decision: schedule.BreakEven | None = None
    interrupted: bool = False

    @property
    def winner(self) -> str | None:
        """The method with the shortest schedule, the fewest configurations among equals."""
        return min(
            self.schedules,
            key=lambda name: (
                self.schedules[name].length_bytes,
                self.schedules[name].configurations,
            ),
            default=None,
        )

    @property
    def best_allocation(self) -> AllocationRow | None:
        """The fastest allocation with split, the fewest changed pairs among equals."""
        return min(
            self.allocations,
            key=lambda row: (row.split.makespan_s, row.changed_pairs),
            default=None,
        )

    @property
    def best_relayed(self) -> AllocationRow | None:
        """The allocation over which relaying is fastest, if it was asked for."""
        rows = [row for row in self.allocations if row.relayed is not None]
        return min(rows, key=_relayed_s, default=None)


def _relayed_s(row: AllocationRow) -> tuple[float, int]:
    assert row.relayed is not None
    return row.relayed.time_s, row.changed_pairs


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


def nature(demand: Bytes, name: str = "demand") -> Nature:
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
    pairs = skew(entries)
    return Nature(
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


@dataclass(frozen=True)
class Choice:
    """Which methods are tried, and for how long.

    Attributes
    ----------
    methods
        Of :func:`lightloom.schedule.decompose`, in this order; ``auto`` is all others and itself.
    allocators
        Of :func:`lightloom.schedule.allocate`; read with ``ports`` only.
    time_limit_s
        Time after which no other schedule of permutations is begun, and likewise no other system,
        and which ``exact`` may take for circuits with split, and as much without;
        ``auto`` searches on until then. Without it, it is :data:`DEFAULT_LIMIT_S` and ``auto``
        searches as long as it needs, if that is likely to be in time.
    systems
        Of :data:`~lightloom.study.other_systems.SYSTEMS`; read for square demand only.
    relay
        Whether third servers may relay; read with ``ports`` only.
    planes
        Whether NIC i of every server is on a switch of its own, plane i; read with ``ports`` only.
    """

    methods: Sequence[str]
    allocators: Sequence[str]
    time_limit_s: float | None = None
    systems: Sequence[str] = ()
    relay: bool = False
    planes: bool = False


def compare_schedules(
    question: Question, choice: Choice, *, told: Told | None = None
) -> Scheduling:
    """Try every scheduler on one demand.

    An interrupt ends the comparison; the answer then says so and has what was finished.

    Parameters
    ----------
    question
        The demand and the switch.
    choice
        Which methods to try.
    told
        Called before each step with the share that is done and what comes next.

    Raises
    ------
    InputError
        If the question or a method cannot be used.
    """
    check(question, choice)
    found = Scheduling(question, nature(question.demand, question.name))
    steps = list(_steps(found, choice))
    try:
        for number, (title, step) in enumerate(steps):
            if told is not None:
                told(number / len(steps), title)
            _interruptibly(step)
    except KeyboardInterrupt:
        found.interrupted = True
    return found


def _interruptibly(step: Callable[[], None]) -> None:
    """Run a step so that an interrupt need not wait for the end of a call of the core.

    The step goes on in its thread, which does not keep the process from ending.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            step()
        except BaseException as error:
            raised.append(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(0.1)  # without a time, an interrupt would wait as well
    if raised:
        raise raised[0]


def check(question: Question, choice: Choice) -> None:
    """Refuse what no scheduler could use.

    Raises
    ------
    InputError
        In one line.
    """
    if not math.isfinite(question.rate_gbps) or question.rate_gbps <= 0:
        raise InputError(f"rate: expected more than 0 Gb/s, got {question.rate_gbps:g}")
    if not math.isfinite(question.delay_s) or question.delay_s < 0:
        raise InputError(f"delay: expected 0 s or more, got {question.delay_s:g} s")
    rows, columns = question.demand.shape
    if choice.time_limit_s is not None and not choice.time_limit_s >= 0:
        raise InputError(f"time limit: expected 0 s or more, got {choice.time_limit_s:g} s")
    permutations = (*schedule.PERMUTATION_METHODS, "auto")
    for what, names, known in (
        ("method", choice.methods, permutations),
        ("circuits", choice.allocators, get_args(schedule.Method)),
    ):
        wrong = next((name for name in names if name not in known), None)
        if wrong is not None:
            hint = did_you_mean(wrong, known)
            raise InputError(f"{what} '{wrong}': expected of {', '.join(known)}{hint}")
    if question.ports is not None and rows != columns:
        raise DemandError(
            f"{question.name}: circuits need a square demand, got {rows} sources and {columns} "
            "destinations; leave --degree out for schedules of permutations"
        )
    if question.ports is not None and question.ports.failed is not None:
        _check_failed(question, question.ports.failed, choice.relay)


def _check_failed(question: Question, failed: schedule.Failures, relay: bool) -> None:
    region = _region(question)
    schedule.port_bound_s(question.demand, region)  # refuses parts that are not there
    if relay and region.eps_gbps and (failed.servers or failed.eps_nics):
        raise InputError(
            f"failed: {failed.parts}: relaying expects one EPS rate for all servers; leave "
            "relaying out"
        )


def _steps(found: Scheduling, choice: Choice) -> Iterator[tuple[str, Callable[[], None]]]:
    question = found.question
    # maximal takes long where there are many ports, and is hardly ever the shortest
    single = sorted(schedule.PERMUTATION_METHODS, key=lambda name: name == "maximal")
    names = [m for name in choice.methods for m in ([*single, name] if name == "auto" else [name])]
    clock = _Clock(choice.time_limit_s)
    for name in dict.fromkeys(names):
        yield f"schedule {name}", partial(_decompose, found, name, clock)
    if question.demand.shape[0] == question.demand.shape[1]:
        clock = _Clock(choice.time_limit_s)
        for name in choice.systems:
            yield name, partial(_try_system, found, name, clock)
    if question.ports is not None and choice.allocators:
        yield "held circuits", partial(_hold, found, choice.relay)
        for name in choice.allocators:
            yield f"circuits {name}", partial(_allocate, found, name, choice)
        if choice.relay:
            yield "circuits for relaying", partial(_make_to_relay, found)
        yield "break-even", partial(_decide, found)
        if choice.planes:
            yield "planes", partial(_assign_planes, found)


class _Clock:
    """Time since the first question, against a limit."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = DEFAULT_LIMIT_S if limit_s is None else limit_s
        self.given = limit_s is not None
        self._started: float | None = None

    def left_s(self, factor: float = 1.0) -> float:
        """Seconds left after ``factor`` times what has passed; 0 or less if there are none."""
        now = time.monotonic()
        self._started = now if self._started is None else self._started
        return self._limit_s - factor * (now - self._started)


def _decompose(found: Scheduling, method: str, clock: _Clock) -> None:
    """The schedule of one method; the first one is begun in any case."""
    long = method == "auto" and not clock.given
    left_s = clock.left_s(1.0 + _AUTO_TAKES if long else 1.0)
    if found.schedules and left_s <= 0:
        found.not_begun.append(method)
        return
    question = found.question
    found.schedules[method] = schedule.decompose(
        question.demand,
        delay_s=question.delay_s,
        rate_gbps=question.rate_gbps,
        method=method,
        time_limit_s=max(0.0, left_s) if clock.given else None,
        partial=question.partial,
    )


def _try_system(found: Scheduling, name: str, clock: _Clock) -> None:
    """What another system does with a switch per port, or a single one."""
    if clock.left_s() <= 0:
        found.not_begun.append(name)
        return
    question = found.question
    switches = 1 if question.ports is None else question.ports.degree
    fabric = Fabric(switches, question.rate_gbps, question.delay_s)
    found.systems[name] = other_system(name, question.demand, fabric)


def _region(question: Question) -> schedule.Region:
    assert question.ports is not None
    ports = question.ports
    return schedule.Region(
        ports.degree,
        question.rate_gbps,
        ports.eps_gbps,
        split=True,
        failed=ports.failed,
        eps_nics=ports.eps_nics,
    )


def _hold(found: Scheduling, relay: bool) -> None:
    """The circuits that are there: those given, else the static circulant."""
    question, region = found.question, _region(found.question)
    assert question.ports is not None
    if question.ports.previous is None:
        found.held = schedule.allocate_region(question.demand, region, method="static")
    else:
        found.held = schedule.route(question.demand, question.ports.previous, region)
    if relay:
        found.held_relayed = schedule.relay(question.demand, found.held.circuits, region)


def _allocate(found: Scheduling, method: str, choice: Choice) -> None:
    assert found.held is not None
    region, demand, held = _region(found.question), found.question.demand, found.held.circuits
    allocate = partial(schedule.allocate_region, method=method)
    if method == "exact":
        limit_s = DEFAULT_LIMIT_S if choice.time_limit_s is None else choice.time_limit_s
        allocate = partial(schedule.allocate_exactly, time_limit_s=max(limit_s, 1e-3))
    started = time.perf_counter()
    split = allocate(demand, region, previous=held)
    took = time.perf_counter() - started
    whole = allocate(demand, replace(region, split=False), previous=held)
    changed = schedule.changed_pairs(held, split.circuits)
    relayed = schedule.relay(demand, split.circuits, region) if choice.relay else None
    found.allocations.append(AllocationRow(method, split, whole, changed, took, relayed))


def _decide(found: Scheduling) -> None:
    """Weigh the circuits held against all that were found, if the delay is not hidden."""
    assert found.held is not None
    found.decision = schedule.break_even(
        found.question.demand,
        found.held.circuits,
        _region(found.question),
        switching=schedule.Switching(found.question.delay_s),
        method=None,
        proposals=[row.split.circuits for row in found.allocations],
    )


def _make_to_relay(found: Scheduling) -> None:
    assert found.held is not None
    found.made_to_relay = schedule.allocate_relayed(
        found.question.demand, _region(found.question), previous=found.held.circuits
    )


def _assign_planes(found: Scheduling) -> None:
    """Put the best circuits on one plane per port, each with the same NIC at both ends."""
    best, ports = found.best_allocation, found.question.ports
    assert best is not None
    assert ports is not None
    found.planes = schedule.assign_planes(
        best.split.circuits, planes=ports.degree, failed=ports.failed
    )
