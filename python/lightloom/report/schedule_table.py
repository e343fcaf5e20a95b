"""The schedulers of one demand side by side, as tables and sentences."""

from __future__ import annotations

import math

from rich.console import Console

from lightloom.report.grid import OPTIMAL, Grid, as_rich
from lightloom.report.terminal import print_sentence, print_table
from lightloom.schedule import PlanePlan
from lightloom.schedule.permutations import MAX_LINES, PermutationSchedule
from lightloom.study.scheduling import AllocationRow, Kept, ScheduleComparison, kept_of
from lightloom.study.scheduling.chunked import ChunkTimes
from lightloom.study.scheduling.data import dark_share
from lightloom.study.scheduling.earlier import KEPT
from lightloom.study.scheduling.other_systems import SYSTEMS
from lightloom.units import show_bytes, show_number, show_time, time_unit

#: share of a demand that is not of rank one, from which on its pairs are called skewed
_SKEWED = 0.15

#: a length of so many times the bound is said to be at it
_AT_BOUND = 1.001

#: columns in which the least value is the best: a schedule is not chosen by the time to find it,
#: nor by what it relays or by its share of reconfigurations
LESS_IS_BETTER = (
    *("length", "over bound", "over line rate", "configurations", "late by", "late chunks"),
    *("no split", "split", "pairs changed"),
)


def print_scheduling(comparison: ScheduleComparison, console: Console) -> None:
    """Print the demand's profile, the tables and the conclusions."""
    print_sentence(profile_text(comparison), console)
    for grid in grids(comparison):
        print_table(as_rich(grid), console)
    console.print()
    for sentence in verdict(comparison):
        print_sentence(sentence, console)


def profile_text(comparison: ScheduleComparison) -> str:
    """The demand in one line."""
    of = comparison.profile
    alike = "every source has nearly the same mix"
    kind = alike if of.rank_one_distance < _SKEWED else "each source has a mix of its own"
    return (
        f"{comparison.problem.name}: {of.sources} x {of.destinations}, "
        f"{show_bytes(of.total_bytes)} in {of.pairs:,} pairs; "
        f"busiest port {show_bytes(of.busiest_bytes)}, {of.line_over_mean:.2f} x mean; "
        f"largest pair {of.pair_over_mean:.2f} x mean, CV {of.pair_cv:.2f}; "
        f"{of.rank_one_distance:.1%} of the bytes deviate from one mix for all: {kind}"
    )


def grids(comparison: ScheduleComparison) -> list[Grid]:
    """The tables with content."""
    tables = []
    if comparison.schedules:
        tables.append(_schedules(comparison))
    if comparison.hybrids:
        tables.append(_hybrids(comparison))
    if comparison.chunked:
        tables.append(_chunked(comparison))
    if comparison.systems:
        tables.append(_systems(comparison))
    if comparison.allocations:
        tables.append(_allocations(comparison))
    return tables


def _clock(comparison: ScheduleComparison) -> tuple[float, str]:
    """One unit of time for all tables, so that their numbers can be compared."""
    tables = (comparison.schedules, comparison.hybrids, comparison.chunked, comparison.systems)
    times = [row.length_s for table in tables for row in table.values()]
    times += [row.split.makespan_s for row in comparison.allocations]
    return time_unit(max(filter(math.isfinite, times), default=1.0))


def _schedules(comparison: ScheduleComparison) -> Grid:
    problem = comparison.problem
    unit_s, unit = _clock(comparison)
    switches = problem.switch_count
    stops = "only the ports that it moves" if problem.partial else "all ports"
    if switches > 1:
        stops = "all ports of its switch"
    rows = [
        [
            f"auto ({row.chosen})" if name == "auto" else name,
            _in_unit(row.length_s, unit_s),
            _over_bound(comparison, row),
            f"{row.configurations:,}",
            100 * dark_share(row),
            f"{1e6 * row.time_spent_s:,.0f}",
        ]
        for name, row in comparison.schedules.items()
    ]
    rows += [
        [name, "-", "-", "-", "-", "time limit"]
        for name in comparison.not_begun
        if name not in SYSTEMS
    ]
    rows += [[name, "-", "-", "-", "-", "memory"] for name in comparison.too_large]
    return Grid(
        less_is_better=LESS_IS_BETTER,
        title=f"Schedules of permutations: {switches} switch{'es' * (switches > 1)}, "
        f"{problem.rate_gbps:g} Gb/s per port, "
        f"{show_time(problem.delay_s)} per reconfiguration, which stops {stops}",
        headers=[
            ("schedule by", ""),
            ("length", unit),
            ("over\nbound", ""),
            ("configu-\nrations", ""),
            ("dark", "% of time"),
            ("computed", "us"),
        ],
        rows=rows,
        best=list(comparison.schedules).index(comparison.winner) if comparison.winner else -1,
        caption=f"* shortest; bound: {_bound_text(comparison)}; dark: time in which the mean port "
        "reconfigures",
    )


def _bound_bytes(comparison: ScheduleComparison, row: PermutationSchedule) -> int:
    """The largest bound known; what ``auto`` has proved of few lines is one for all methods."""
    return max(
        plan.lower_bound_bytes
        for plan in comparison.schedules.values()
        if plan.partial == row.partial
    )


def _bound_text(comparison: ScheduleComparison) -> str:
    """How long the bound is, and what it is."""
    problem, switches = comparison.problem, comparison.problem.switch_count
    row = next(plan for plan in comparison.schedules.values())
    bound = _bound_bytes(comparison, row)
    time = show_time(bound * 8 / row.rate_bps)
    if bound > min(plan.lower_bound_bytes for plan in comparison.schedules.values()):
        return f"{time}, which auto has proved that no schedule can beat"
    peers = "each of its peers" if problem.partial else "each peer of the port with most peers"
    shared = f", both divided by {switches} switches" if switches > 1 else ""
    what = f"the busiest port's bytes at line rate plus one reconfiguration for {peers}"
    return f"{time}, {what}{shared}"


def _over_bound(comparison: ScheduleComparison, row: PermutationSchedule) -> str | float:
    """Length over the bound."""
    bound = _bound_bytes(comparison, row)
    return OPTIMAL if row.length_bytes == bound else row.length_bytes / bound


def _hybrids(comparison: ScheduleComparison) -> Grid:
    problem, best = comparison.problem, comparison.best_hybrid
    assert problem.eps_gbps is not None
    assert best is not None
    unit_s, unit = _clock(comparison)
    sent = max(comparison.profile.total_bytes, 1)
    relays = any(row.relays is not None for row in comparison.hybrids.values())
    return Grid(
        less_is_better=LESS_IS_BETTER,
        title=f"Circuits and packets: {problem.rate_gbps:g} Gb/s per circuit, "
        f"{problem.eps_gbps:g} Gb/s of each port into the EPS, "
        f"{show_time(problem.delay_s)} per reconfiguration",
        headers=[
            ("schedule by", ""),
            ("length", unit),
            ("over\nbound", ""),
            ("configu-\nrations", ""),
            ("packets", "% of bytes"),
            *([("relayed", "% of bytes")] if relays else []),
            ("computed", "us"),
        ],
        rows=[
            [
                name,
                _in_unit(row.length_s, unit_s),
                row.over_bound,
                f"{row.configurations:,}",
                100 * int(row.eps_bytes.sum(dtype=object)) / sent,
                *([100 * row.relayed_bytes / sent] if relays else []),
                f"{1e6 * row.time_spent_s:,.0f}",
            ]
            for name, row in comparison.hybrids.items()
        ],
        best=list(comparison.hybrids).index(best),
        caption="* shortest; bound: lines over circuits and the EPS at once, and per number of "
        "configurations what they leave to packets",
    )


def _chunked(comparison: ScheduleComparison) -> Grid:
    problem, best, chunks = comparison.problem, comparison.best_chunked, comparison.problem.chunks
    assert chunks is not None
    assert best is not None
    unit_s, unit = _clock(comparison)
    sent = max(comparison.profile.total_bytes, 1)
    late = chunks.needed_s is not None
    needed = f", needed over {show_time(chunks.needed_s)}" if chunks.needed_s is not None else ""
    eps = f", {problem.eps_gbps:g} Gb/s of each port into the EPS" if problem.eps_gbps else ""
    rows = []
    for name, row in comparison.chunked.items():
        lateness = [
            _in_unit(value_s, unit_s)
            for value_s in (row.lateness_s, row.lateness_bound_s)
            if value_s is not None
        ]
        rows.append(
            [
                name,
                _in_unit(row.length_s, unit_s),
                *([*lateness, f"{len(row.late_chunks):,}"] if late else [row.over_bound]),
                f"{row.configurations:,}",
                *([100 * row.packet_bytes / sent] if eps else []),
                f"{1e6 * row.time_spent_s:,.0f}",
            ]
        )
    headers = [("over\nbound", "")]
    if late:
        headers = [("late by", unit), ("bound", unit), ("late\nchunks", "")]
    return Grid(
        less_is_better=LESS_IS_BETTER,
        title=f"{chunks.count} chunks, {_produced(chunks)}{needed}: "
        f"{problem.rate_gbps:g} Gb/s per circuit{eps}, "
        f"{show_time(problem.delay_s)} per reconfiguration",
        headers=[
            ("schedule by", ""),
            ("length", unit),
            *headers,
            ("configu-\nrations", ""),
            *([("packets", "% of bytes")] if eps else []),
            ("computed", "us"),
        ],
        rows=rows,
        best=list(comparison.chunked).index(best),
        caption=f"* {'least late' if late else 'shortest'}; length: from the start of compute to "
        "the last byte" + ("; late by: compute that begins then never waits" if late else ""),
    )


def _produced(chunks: ChunkTimes) -> str:
    if chunks.released_s is None:
        return f"produced over {show_time(chunks.produced_s)}"
    first, last = min(chunks.released_s), max(chunks.released_s)
    return f"released from {show_time(first)} to {show_time(last)}"


def _systems(comparison: ScheduleComparison) -> Grid:
    problem = comparison.problem
    switches = problem.switch_count
    unit_s, unit = _clock(comparison)
    rows = [
        [
            name,
            _in_unit(row.length_s, unit_s),
            row.over_bound,
            f"{row.slots:,}",
            "-" if row.epoch_s is None else row.epoch_s / unit_s,
            row.relayed_bytes / 1e9 if row.relayed_bytes else "-",
            f"{1e6 * row.time_spent_s:,.0f}",
        ]
        for name, row in comparison.systems.items()
    ]
    rows += [[name, *["-"] * 5, "time limit"] for name in comparison.not_begun if name in SYSTEMS]
    return Grid(
        less_is_better=LESS_IS_BETTER,
        title=f"Other systems: {switches} switch{'es' * (switches > 1)} of "
        f"{problem.rate_gbps:g} Gb/s ports, {show_time(problem.delay_s)} to reconfigure",
        headers=[
            ("system", ""),
            ("length", unit),
            ("over\nline\nrate", ""),
            ("slots", ""),
            ("epoch", unit),
            ("relayed", "GB"),
            ("computed", "us"),
        ],
        rows=rows,
        best=-1,
        caption="over line rate: over the time that the busiest port's bytes take on all of its "
        "links, without a reconfiguration; epoch: the best of five lengths",
    )


def _allocations(comparison: ScheduleComparison) -> Grid:
    budget, best = comparison.problem.budget, comparison.best_allocation
    assert budget is not None
    rows = comparison.allocations
    unit_s, unit = _clock(comparison)
    relayed = rows[0].relayed is not None
    return Grid(
        less_is_better=LESS_IS_BETTER,
        title=f"Circuits: {budget.ports} port{'s' * (budget.ports > 1)} of "
        f"{comparison.problem.rate_gbps:g} Gb/s and "
        f"{budget.eps_gbps:g} Gb/s EPS per server"
        + ("" if budget.failed is None else f"; failed: {budget.failed.parts}"),
        headers=[
            ("circuits by", ""),
            ("number", ""),
            ("no split", unit),
            ("split", unit),
            ("over\nline\nrate", ""),
            ("pairs\nchanged", ""),
            *([("relayed", unit)] if relayed else []),
            ("computed", "us"),
        ],
        rows=[
            [
                row.method,
                f"{row.split.circuit_count:,}",
                _in_unit(row.whole.makespan_s, unit_s),
                _in_unit(row.split.makespan_s, unit_s),
                row.split.over_bound,
                f"{row.changed_pairs:,}",
                *([] if row.relayed is None else [_in_unit(row.relayed.time_s, unit_s)]),
                f"{1e6 * row.took_s:,.0f}",
            ]
            for row in rows
        ],
        best=next((number for number, row in enumerate(rows) if row is best), -1),
        caption="* fastest, at line rate and without the time to switch, which schedules include; "
        "over line rate: split, over the time of the busiest server's bytes on all of its ports; "
        "no split: a "
        "pair with circuits uses only these (MixNet); split: it may send its excess over the EPS; "
        f"pairs changed from {_held(comparison)}"
        + ("; relayed: split, and over third servers where that is faster" if relayed else ""),
    )


def _in_unit(value_s: float, unit_s: float) -> str | float:
    return value_s / unit_s if math.isfinite(value_s) else "never"


def _held(comparison: ScheduleComparison) -> str:
    budget = comparison.problem.budget
    assert budget is not None
    return "the circuits given" if budget.previous is not None else "the static circulant"


def verdict(comparison: ScheduleComparison) -> list[str]:
    """Conclusions, a sentence each, the shortest schedule first."""
    sentences = [] if comparison.winner is None else [_shortest(comparison, comparison.winner)]
    exact = next((row for row in comparison.allocations if row.method == "exact"), None)
    if exact is not None and 0 < exact.split.bound_s <= exact.split.makespan_s < math.inf:
        sentences.append(
            f"No circuits beat {show_time(exact.split.bound_s)} (proved with split); exact is "
            f"within {exact.split.makespan_s / exact.split.bound_s - 1:.2%} of it."
        )
    kept = kept_of(comparison)
    if kept is not None:
        sentences.append(_kept(comparison, kept))
    if comparison.decision is not None:
        sentences.append(_break_even(comparison))
    if comparison.planes is not None:
        sentences.append(_planes(comparison, comparison.planes))
    if comparison.best_relayed is not None:
        sentences.append(_relaying(comparison, comparison.best_relayed))
    if comparison.problem.is_large:
        sentences.append(
            f"Schedules of permutations and other systems have at most {MAX_LINES:,} lines: left "
            "out."
        )
    sentences += [f"Left out: {reason}." for reason in comparison.left_out.values()]
    if comparison.interrupted:
        sentences.append("Interrupted: only finished results are shown.")
    return sentences


def _shortest(comparison: ScheduleComparison, winner: str) -> str:
    row = comparison.schedules[winner]
    bound = _bound_bytes(comparison, row)
    name = winner if row.chosen in {winner, ""} else f"{winner} ({row.chosen})"
    text = f"The shortest schedule of permutations is by {name}: {show_time(row.length_s)}"
    if row.length_bytes <= bound:
        return f"{text}, and none can be shorter."
    over, limit = row.length_bytes / bound, show_time(bound * 8 / row.rate_bps)
    if over < _AT_BOUND:
        return f"{text}, within {_AT_BOUND - 1:.1%} of the bound of {limit}."
    return f"{text}, {show_number(over)} times the bound of {limit}."


def _kept(comparison: ScheduleComparison, reuse: Kept) -> str:
    row = comparison.schedules[KEPT]
    text = (
        f"Kept {reuse.matchings:,} of {reuse.earlier:,} earlier matchings, with {reuse.new:,} new "
        f"ones: {show_time(row.length_s)}"
    )
    if reuse.anew is None:
        return f"{text}."
    assert reuse.length_over_anew is not None
    assert reuse.time_over_anew is not None
    return (
        f"{text}, {reuse.length_over_anew:.3f} x {reuse.anew} anew, found in "
        f"{show_number(reuse.time_over_anew, 3)} x its time."
    )


def _break_even(comparison: ScheduleComparison) -> str:
    best, decision = comparison.best_allocation, comparison.decision
    assert best is not None
    assert decision is not None
    hold_s, switch_s, exposed_s = decision.hold_s, decision.switch_s, decision.exposed_s
    assert hold_s is not None
    assert switch_s is not None
    assert exposed_s is not None
    what = _held(comparison)
    if math.isinf(best.split.makespan_s):
        return (
            "No circuits suffice: without an EPS every pair needs a circuit; "
            "more ports or an EPS rate would help."
        )
    if math.isinf(hold_s):
        return f"Reconfigure: over {what} some pairs have no route at all."
    gain_s = hold_s - switch_s
    if gain_s <= 0:
        return f"Keep {what}: no other circuits are faster for this demand."
    exposed = show_time(exposed_s)
    if decision.reconfigure:
        return (
            f"Reconfigure: {best.method} saves {show_time(gain_s)} against {what}, more than the "
            f"delay of {exposed}."
        )
    return (
        f"Keep {what}: {best.method} saves {show_time(gain_s)} per all-to-all, less than the delay "
        f"of {exposed}. Switching pays if the delay is hidden, or if this demand repeats more than "
        f"{exposed_s / gain_s:,.1f} times."
    )


def _relaying(comparison: ScheduleComparison, row: AllocationRow) -> str:
    relayed, over_held = row.relayed, comparison.held_relayed
    assert relayed is not None
    assert over_held is not None
    if not relayed.pays and not over_held.pays:
        if math.isinf(relayed.one_hop_s):
            return "Relaying does not help: some pairs are more than two circuits apart."
        return f"Relaying does not pay: {relayed.reason}."
    return (
        f"Relaying: {_never(over_held.time_s)} instead of {_never(over_held.one_hop_s)} over "
        f"{_held(comparison)}, {_never(relayed.time_s)} over the circuits of {row.method}, where "
        f"{show_bytes(relayed.relayed_bytes)} take two hops{_made(comparison)}."
    )


def _made(comparison: ScheduleComparison) -> str:
    relaying = comparison.made_to_relay
    if relaying is None:
        return ""
    return (
        f"; {_never(relaying.routing.time_s)} over circuits chosen for relaying ({relaying.origin})"
    )


def _planes(comparison: ScheduleComparison, plan: PlanePlan) -> str:
    best, budget = comparison.best_allocation, comparison.problem.budget
    assert best is not None
    assert budget is not None
    where = f"{budget.ports} plane{'s' * (budget.ports > 1)}, NIC i of every server on plane i"
    if plan.verdict == "assigned":
        return f"Planes: the circuits of {best.method} lie on {where}."
    return f"Planes: the circuits of {best.method} do not lie on {where}: {plan.reason}."


def _never(time_s: float) -> str:
    return show_time(time_s) if math.isfinite(time_s) else "never"
