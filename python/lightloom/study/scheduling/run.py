"""One demand, every scheduler: the portfolio side by side, and whether to reconfigure at all.

A :class:`Problem` is a demand with the circuits' rate and delay and, for circuits, the ports of a
server. The result is a :class:`ScheduleComparison`: schedules of permutations,
allocations, and the break-even against the circuits that are held. It leaves out what the
simulator is for: latency, copies inside a server, and whatever else runs at the same time.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lightloom import plugins, schedule
from lightloom.errors import DemandError, InputError, did_you_mean, echo, expected_one_of
from lightloom.progress import Progress
from lightloom.schedule.allocator import allocate_by_name
from lightloom.schedule.hybrid import MAX_HYBRID_LINES
from lightloom.schedule.permutations import MAX_LINES, MAX_SWITCHES, fits_memory
from lightloom.study.scheduling.earlier import KEPT
from lightloom.study.scheduling.other_systems import SYSTEMS, SystemFabric, other_system
from lightloom.study.scheduling.problem import Problem, profile_of
from lightloom.study.scheduling.results import AllocationRow, ScheduleComparison

#: time that a comparison takes on either part unless it is said
DEFAULT_LIMIT_S = 10.0
#: what auto takes without a limit, in times of all other methods together, measured at 32 to 256
_AUTO_TAKES = 5.0
#: methods that no package has
_METHODS = (*schedule.PERMUTATION_METHODS, "auto", KEPT)
#: part of a limit that is given in which auto searches, before all others
_AUTO_SHARE = 0.5


@dataclass(frozen=True)
class MethodChoice:
    """Which methods are tried, and for how long.

    Attributes
    ----------
    methods
        Of :func:`lightloom.schedule.decompose`, in this order; ``auto`` is all others and itself.
    allocators
        Of :func:`lightloom.schedule.allocate`; read with ``budget`` only.
    time_limit_s
        Time after which no other schedule of permutations is begun, and likewise no other system,
        and which ``exact`` may take for circuits with split, and as much without. ``auto`` begins,
        with half of it; for circuits and packets ``balanced`` searches on until then. Without
        it, it is :data:`DEFAULT_LIMIT_S` and ``auto`` comes last and
        searches as long as it needs, if that is likely to be in time.
    systems
        Of :data:`~lightloom.study.scheduling.other_systems.SYSTEMS`; read for square demand only.
    relay
        Whether third servers may relay; read with ``budget`` and for circuits and packets.
    planes
        Whether NIC i of every server is on a switch of its own, plane i; read with ``budget`` only.
    """

    methods: Sequence[str]
    allocators: Sequence[str]
    time_limit_s: float | None = None
    systems: Sequence[str] = ()
    relay: bool = False
    planes: bool = False


def compare_schedules(
    problem: Problem, choice: MethodChoice, *, progress: Progress | None = None
) -> ScheduleComparison:
    """Try every scheduler on one demand.

    An interrupt ends the comparison; the answer then says so and has what was finished.

    Parameters
    ----------
    problem
        The demand and the switch.
    choice
        Which methods to try.
    progress
        Called before each step with the share that is done and what comes next; the comparison is
        interrupted if it returns ``False``.

    Raises
    ------
    InputError
        If the problem or a method cannot be used.
    """
    check(problem, choice)
    comparison = ScheduleComparison(problem, profile_of(problem.demand, problem.name))
    steps = list(_steps(comparison, choice))
    try:
        for number, (title, step) in enumerate(steps):
            if progress is not None and progress(number / len(steps), title) is False:
                raise KeyboardInterrupt
            _interruptibly(step)
    except KeyboardInterrupt:
        comparison.interrupted = True
    return comparison


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


def check(problem: Problem, choice: MethodChoice) -> None:
    """Refuse what no scheduler could use.

    Raises
    ------
    InputError
        In one line.
    """
    if not math.isfinite(problem.rate_gbps) or problem.rate_gbps <= 0:
        raise InputError(f"rate: expected more than 0 Gb/s, got {problem.rate_gbps:g}")
    if not math.isfinite(problem.delay_s) or problem.delay_s < 0:
        raise InputError(f"delay: expected 0 s or more, got {problem.delay_s:g} s")
    if not 1 <= problem.switch_count <= MAX_SWITCHES:
        raise InputError(f"switches: expected 1 to {MAX_SWITCHES:,}, got {problem.switch_count}")
    if problem.partial and problem.switch_count > 1:
        raise InputError(
            f"partial reconfiguration is for one switch, got {problem.switch_count} switches"
        )
    if problem.earlier is not None and (problem.partial or problem.switch_count > 1):
        raise InputError(
            "an earlier schedule is for one all-stop switch, got "
            + (
                "partial reconfiguration"
                if problem.partial
                else f"{problem.switch_count} switches; give --switches 1"
            )
        )
    rows, columns = problem.demand.shape
    if choice.time_limit_s is not None and not choice.time_limit_s >= 0:
        raise InputError(f"time limit: expected 0 s or more, got {choice.time_limit_s:g} s")
    permutations = (*schedule.PERMUTATION_METHODS, "auto", *plugins.SCHEDULERS.installed())
    allocators = (*schedule.ALLOCATION_METHODS, *plugins.ALLOCATORS.installed())
    for what, names, choices in (
        ("method", choice.methods, permutations),
        ("circuits", choice.allocators, allocators),
    ):
        wrong = next((name for name in names if name not in choices), None)
        if wrong is not None:
            hint = did_you_mean(wrong, choices)
            raise InputError(f"{what} '{wrong}': expected of {', '.join(choices)}{hint}")
    unknown = next((name for name in choice.systems if name not in SYSTEMS), None)
    if unknown is not None:
        raise InputError(f"system {echo(unknown)}: {expected_one_of(unknown, SYSTEMS)}")
    if problem.is_large and problem.budget is None:
        raise DemandError(
            f"{problem.name}: {rows} x {columns}: schedules of permutations have at most "
            f"{MAX_LINES} lines; give --ports for circuits"
        )
    if problem.eps_gbps is not None and max(rows, columns) > MAX_HYBRID_LINES:
        raise DemandError(
            f"{problem.name}: {rows} x {columns}: schedules of circuits and packets have at most "
            f"{MAX_HYBRID_LINES} lines; leave --eps-rate out"
        )
    if problem.eps_gbps is not None and problem.switch_count != 1:
        raise InputError(
            f"switches: circuits and packets share the demand on one switch, got "
            f"{problem.switch_count}; leave --eps-rate out"
        )
    if problem.chunks is not None:
        _check_chunks(problem)
    if problem.budget is not None and rows != columns:
        raise DemandError(
            f"{problem.name}: circuits need a square demand, got {rows} sources and {columns} "
            "destinations; leave --ports out for schedules of permutations"
        )
    if problem.budget is not None and problem.budget.failed is not None:
        _check_failed(problem, problem.budget.failed, choice.relay)


def _check_chunks(problem: Problem) -> None:
    if max(problem.demand.shape) > MAX_HYBRID_LINES:
        rows, columns = problem.demand.shape
        raise DemandError(
            f"{problem.name}: {rows} x {columns}: schedules of chunks have at most "
            f"{MAX_HYBRID_LINES} lines; leave --chunks out"
        )
    if problem.budget is not None or problem.partial or problem.switch_count > 1:
        raise InputError(
            "chunks are for one all-stop crossbar; leave --ports, --partial and --switches out"
        )


def _check_failed(problem: Problem, failed: schedule.Failures, relay: bool) -> None:
    region = _region(problem)
    schedule.port_bound_s(problem.demand, region)  # refuses parts that are not there
    if relay and region.eps_gbps and (failed.servers or failed.eps_nics):
        raise InputError(
            f"failed: {failed.parts}: relaying expects one EPS rate for all servers; leave "
            "relaying out"
        )


def _steps(
    comparison: ScheduleComparison, choice: MethodChoice
) -> Iterator[tuple[str, Callable[[], None]]]:
    problem = comparison.problem
    # maximal takes long where there are many ports, and is hardly ever the shortest
    single = sorted(schedule.PERMUTATION_METHODS, key=lambda name: name == "maximal")
    names = [m for name in choice.methods for m in ([*single, name] if name == "auto" else [name])]
    clock = _Clock(choice.time_limit_s)
    if clock.is_limited:  # within a limit nothing promises as much
        names.sort(key=lambda name: name != "auto")
    if problem.earlier is not None:
        names.insert(0, KEPT)
    for name in () if problem.is_large else dict.fromkeys(names):
        fits = fits_memory(problem.demand, name, partial=problem.partial)
        if not fits and name not in choice.methods:
            comparison.too_large.append(name)
            continue
        step = partial(_decompose, comparison, name, clock)
        if name not in _METHODS:
            step = partial(_unless_it_cannot, comparison, name, choice.methods, step)
        yield f"schedule {name}", step
    if problem.eps_gbps is not None:
        clock = _Clock(choice.time_limit_s)
        # ours searches on until the limit
        for name in (*schedule.HYBRID_METHODS[1:], schedule.HYBRID_METHODS[0]):
            yield (
                f"circuits and packets {name}",
                partial(_divide, comparison, name, clock, choice.relay),
            )
    if problem.chunks is not None:
        clock = _Clock(choice.time_limit_s)
        for name in (*schedule.CHUNK_METHODS[1:], schedule.CHUNK_METHODS[0]):
            yield f"chunks {name}", partial(_pipeline, comparison, name, clock)
    if problem.demand.shape[0] == problem.demand.shape[1] and not problem.is_large:
        clock = _Clock(choice.time_limit_s)
        for name in choice.systems:
            yield name, partial(_try_system, comparison, name, clock)
    if problem.budget is not None and choice.allocators:
        yield "held circuits", partial(_hold, comparison, choice.relay)
        for name in choice.allocators:
            step = partial(_allocate, comparison, name, choice)
            if name not in schedule.ALLOCATION_METHODS:
                step = partial(_unless_it_cannot, comparison, name, choice.allocators, step)
            yield f"circuits {name}", step
        if choice.relay:
            yield "circuits for relaying", partial(_make_to_relay, comparison)
        yield "break-even", partial(_decide, comparison)
        if choice.planes:
            yield "planes", partial(_assign_planes, comparison)


class _Clock:
    """Time since the first problem, against a limit."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = DEFAULT_LIMIT_S if limit_s is None else limit_s
        self.is_limited = limit_s is not None
        self._started: float | None = None

    def left_s(self, factor: float = 1.0) -> float:
        """Seconds left after ``factor`` times what has passed; 0 or less if there are none."""
        now = time.monotonic()
        self._started = now if self._started is None else self._started
        return self._limit_s - factor * (now - self._started)


def _decompose(comparison: ScheduleComparison, method: str, clock: _Clock) -> None:
    """The schedule of one method; the first one is begun in any case."""
    long = method == "auto" and not clock.is_limited
    left_s = clock.left_s(1.0 + _AUTO_TAKES if long else 1.0)
    if comparison.schedules and left_s <= 0:
        comparison.not_begun.append(method)
        return
    problem = comparison.problem
    if method == "auto":
        left_s *= _AUTO_SHARE
    if method not in _METHODS:
        comparison.schedules[method] = _decompose_by_package(problem, method)
        return
    comparison.schedules[method] = schedule.decompose(
        problem.demand,
        delay_s=problem.delay_s,
        rate_gbps=problem.rate_gbps,
        method=method,
        time_limit_s=max(0.0, left_s) if clock.is_limited else None,
        partial=problem.partial,
        switches=problem.switch_count,
        previous=problem.earlier if method == KEPT else None,
        new_slots=problem.new_slots if method == KEPT else 0,
    )
    if "auto" in comparison.schedules:  # shown after those that it is compared with
        comparison.schedules["auto"] = comparison.schedules.pop("auto")


def _unless_it_cannot(
    comparison: ScheduleComparison, name: str, others: Sequence[str], step: Callable[[], None]
) -> None:
    """Leave out what an installed package cannot do, unless nothing is compared with it."""
    try:
        step()
    except InputError as error:
        if list(others) == [name]:
            raise
        comparison.left_out[name] = str(error)


def _decompose_by_package(problem: Problem, method: str) -> schedule.PermutationSchedule:
    if problem.partial or problem.switch_count > 1:
        raise InputError(f"scheduler '{method}': it is for one switch that stops as a whole")
    return schedule.schedule_by_name(
        method, problem.demand, delay_s=problem.delay_s, rate_gbps=problem.rate_gbps
    )


def _divide(comparison: ScheduleComparison, method: str, clock: _Clock, relay: bool) -> None:
    """The schedule of circuits and packets of one method; only ours takes long."""
    problem = comparison.problem
    assert problem.eps_gbps is not None
    left_s = max(0.0, clock.left_s())
    comparison.hybrids[method] = schedule.decompose_hybrid(
        problem.demand,
        eps_gbps=problem.eps_gbps,
        delay_s=problem.delay_s,
        rate_gbps=problem.rate_gbps,
        method=method,
        time_limit_s=left_s if clock.is_limited else None,
        relay=relay,
    )
    comparison.hybrids = {
        name: comparison.hybrids[name]
        for name in schedule.HYBRID_METHODS
        if name in comparison.hybrids
    }


def _pipeline(comparison: ScheduleComparison, method: str, clock: _Clock) -> None:
    """The schedule of chunks of one method; only ours takes long."""
    problem = comparison.problem
    assert problem.chunks is not None
    left_s = max(0.0, clock.left_s())
    comparison.chunked[method] = schedule.decompose_chunks(
        problem.chunks.divide(problem.demand),
        problem.chunks.releases_s,
        deadlines_s=problem.chunks.deadlines_s,
        eps_gbps=problem.eps_gbps or 0.0,
        delay_s=problem.delay_s,
        rate_gbps=problem.rate_gbps,
        method=method,
        time_limit_s=left_s if clock.is_limited else None,
    )
    comparison.chunked = {
        name: comparison.chunked[name]
        for name in schedule.CHUNK_METHODS
        if name in comparison.chunked
    }


def _try_system(comparison: ScheduleComparison, name: str, clock: _Clock) -> None:
    """What another system does with the same switches."""
    if clock.left_s() <= 0:
        comparison.not_begun.append(name)
        return
    problem = comparison.problem
    fabric = SystemFabric(problem.switch_count, problem.rate_gbps, problem.delay_s)
    comparison.systems[name] = other_system(name, problem.demand, fabric)


def _region(problem: Problem) -> schedule.Region:
    assert problem.budget is not None
    budget = problem.budget
    return schedule.Region(
        budget.ports,
        problem.rate_gbps,
        budget.eps_gbps,
        split=True,
        failed=budget.failed,
        eps_nics=budget.eps_nics,
    )


def _hold(comparison: ScheduleComparison, relay: bool) -> None:
    """The circuits that are there: those given, else the static circulant."""
    problem, region = comparison.problem, _region(comparison.problem)
    assert problem.budget is not None
    if problem.budget.previous is None:
        comparison.held = schedule.allocate_region(problem.demand, region, method="static")
    else:
        try:
            comparison.held = schedule.route(problem.demand, problem.budget.previous, region)
        except InputError as error:
            if problem.budget.failed is None:
                raise
            advice = "leave circuits that end at failed parts out of those held"
            raise InputError(f"{error}; {advice}") from None
    if relay:
        comparison.held_relayed = schedule.relay(problem.demand, comparison.held.circuits, region)


def _allocate(comparison: ScheduleComparison, method: str, choice: MethodChoice) -> None:
    assert comparison.held is not None
    region, demand, circuits = (
        _region(comparison.problem),
        comparison.problem.demand,
        comparison.held.circuits,
    )
    allocate = partial(schedule.allocate_region, method=method)
    if method not in schedule.ALLOCATION_METHODS:
        allocate = partial(allocate_by_name, method)
    if method == "exact":
        limit_s = DEFAULT_LIMIT_S if choice.time_limit_s is None else choice.time_limit_s
        allocate = partial(schedule.allocate_exactly, time_limit_s=max(limit_s, 1e-3))
    started = time.perf_counter()
    split = allocate(demand, region, previous=circuits)
    took = time.perf_counter() - started
    whole = allocate(demand, replace(region, split=False), previous=circuits)
    changed = schedule.changed_pairs(circuits, split.circuits)
    relayed = schedule.relay(demand, split.circuits, region) if choice.relay else None
    comparison.allocations.append(AllocationRow(method, split, whole, changed, took, relayed))


def _decide(comparison: ScheduleComparison) -> None:
    """Compare the circuits held with all that were found, if the delay is not hidden."""
    assert comparison.held is not None
    demand = comparison.problem.demand
    decider = schedule.Decider(
        len(demand),
        _region(comparison.problem),
        timing=schedule.SwitchTiming(comparison.problem.delay_s),
    )
    state = decider.hold(comparison.held.circuits)
    proposals = [row.split.circuits for row in comparison.allocations]
    comparison.decision = decider.decide(state, demand, proposals=proposals)


def _make_to_relay(comparison: ScheduleComparison) -> None:
    assert comparison.held is not None
    comparison.made_to_relay = schedule.allocate_relayed(
        comparison.problem.demand, _region(comparison.problem), previous=comparison.held.circuits
    )


def _assign_planes(comparison: ScheduleComparison) -> None:
    """Put the best circuits on one plane per port, each with the same NIC at both ends."""
    best, budget = comparison.best_allocation, comparison.problem.budget
    assert best is not None
    assert budget is not None
    comparison.planes = schedule.assign_planes(
        best.split.circuits, planes=budget.ports, failed=budget.failed
    )
