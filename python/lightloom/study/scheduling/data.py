"""A comparison of schedulers as plain data: JSON, rows of a table, arrays.

Every number has its unit in its name. JSON and rows leave out slots and circuits, which the
arrays have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lightloom import __version__, schedule
from lightloom.study.scheduling.earlier import kept_of

if TYPE_CHECKING:
    from lightloom.study.scheduling.results import AllocationRow, ScheduleComparison

SCHEMA_VERSION = 1


def dark_share(row: schedule.PermutationSchedule) -> float:
    """Share of the length in which the mean source waits for reconfigurations."""
    if not row.length_bytes:
        return 0.0
    of_all = row.shape[0] if row.partial else row.switches
    each = row.configurations / of_all
    return each * row.delay_bytes / row.length_bytes


def as_json(comparison: ScheduleComparison) -> dict[str, Any]:
    """Everything but slots and circuits."""
    problem = comparison.problem
    inputs: dict[str, Any] = {
        "lightloom": __version__,
        "demand": problem.name,
        "rate_gbps": problem.rate_gbps,
        "delay_s": problem.delay_s,
        "partial": problem.partial,
        "switches": problem.switch_count,
    }
    if problem.chunks is not None:
        inputs |= {
            "chunks": problem.chunks.count,
            "produced_over_s": problem.chunks.produced_s,
            "needed_over_s": problem.chunks.needed_s,
            "releases_s": problem.chunks.releases_s,
        }
    if problem.budget is not None:
        inputs |= {
            "ports": problem.budget.ports,
            "eps_gbps": problem.budget.eps_gbps,
            "held": "static" if problem.budget.previous is None else "given",
            "failed": None if problem.budget.failed is None else vars(problem.budget.failed),
        }
    best, kept = comparison.best_allocation, kept_of(comparison)
    hybrids = {name: _hybrid(row) for name, row in comparison.hybrids.items()}
    chunked = {name: _chunked(row) for name, row in comparison.chunked.items()}
    return {
        "schema_version": SCHEMA_VERSION,
        "inputs": inputs,
        "profile": vars(comparison.profile),
        "schedules": {name: _schedule(row) for name, row in comparison.schedules.items()},
        **({"hybrids": hybrids} if hybrids else {}),
        **({"chunked": chunked} if chunked else {}),
        "systems": {name: vars(row) for name, row in comparison.systems.items()},
        **({} if kept is None else {"kept": vars(kept)}),
        "winner": comparison.winner,
        "not_begun": comparison.not_begun,
        "too_large": comparison.too_large,
        "left_out": comparison.left_out,
        "circuits": {row.method: _allocation(row) for row in comparison.allocations},
        "best_circuits": None if best is None else best.method,
        "break_even": None if comparison.decision is None else _decision(comparison.decision),
        "made_to_relay_s": None
        if comparison.made_to_relay is None
        else comparison.made_to_relay.routing.time_s,
        "planes": None if comparison.planes is None else comparison.planes.verdict,
        "interrupted": comparison.interrupted,
    }


def _schedule(row: schedule.PermutationSchedule) -> dict[str, Any]:
    return {
        "length_s": row.length_s,
        "lower_bound_s": row.lower_bound_s,
        "over_bound": row.over_bound,
        "configurations": row.configurations,
        "dark_share": dark_share(row),
        "time_spent_s": row.time_spent_s,
        **({} if row.new_slots is None else {"new_slots": row.new_slots}),
    }


def _hybrid(row: schedule.HybridSchedule) -> dict[str, Any]:
    kept = int(row.relay_memory_bytes.max(initial=0))
    relayed = {"relayed_bytes": row.relayed_bytes, "relay_memory_bytes": kept}
    return {
        "length_s": row.length_s,
        "lower_bound_s": row.lower_bound_s,
        "over_bound": row.over_bound,
        "configurations": row.configurations,
        "packet_bytes": int(row.eps_bytes.sum(dtype=object)),
        **({} if row.relays is None else relayed),
        "time_spent_s": row.time_spent_s,
    }


def _chunked(row: schedule.ChunkSchedule) -> dict[str, Any]:
    lateness = {
        "lateness_s": row.lateness_s,
        "lateness_bound_s": row.lateness_bound_s,
        "late_chunks": row.late_chunks,
    }
    return {
        "length_s": row.length_s,
        "lower_bound_s": row.lower_bound_s,
        "over_bound": row.over_bound,
        **({} if row.lateness_s is None else lateness),
        "configurations": row.configurations,
        "packet_bytes": row.packet_bytes,
        "time_spent_s": row.time_spent_s,
    }


def _allocation(row: AllocationRow) -> dict[str, Any]:
    relayed = (
        {}
        if row.relayed is None
        else {
            "relayed_s": row.relayed.time_s,
            "relayed_bytes": row.relayed.relayed_bytes,
            "relaying_pays": row.relayed.pays,
        }
    )
    return {
        "circuits": row.split.circuit_count,
        "no_split_s": row.whole.makespan_s,
        "split_s": row.split.makespan_s,
        "port_bound_s": row.split.port_bound_s,
        "bound_s": row.split.bound_s,
        "over_bound": row.split.over_bound,
        "changed_pairs": row.changed_pairs,
        "time_spent_s": row.took_s,
        **relayed,
    }


def _decision(decision: schedule.Decision) -> dict[str, Any]:
    return {
        "hold_s": decision.hold_s,
        "switch_s": decision.switch_s,
        "exposed_s": decision.exposed_s,
        "reconfigure": decision.reconfigure,
    }


def as_rows(comparison: ScheduleComparison) -> list[dict[str, Any]]:
    """One row per method; what a kind of method does not have is empty."""
    best = comparison.best_allocation
    rows: list[dict[str, Any]] = [
        {"kind": "schedule", "method": name, "best": name == comparison.winner} | _schedule(row)
        for name, row in comparison.schedules.items()
    ]
    rows += [
        {"kind": "hybrid", "method": name, "best": name == comparison.best_hybrid} | _hybrid(row)
        for name, row in comparison.hybrids.items()
    ]
    for name, chunked in comparison.chunked.items():
        row = _chunked(chunked)
        if "late_chunks" in row:
            row["late_chunks"] = " ".join(map(str, row["late_chunks"]))
        rows.append(
            {"kind": "chunks", "method": name, "best": name == comparison.best_chunked} | row
        )
    rows += [
        {"kind": "system", "method": name, "best": False} | vars(row)
        for name, row in comparison.systems.items()
    ]
    rows += [
        {"kind": "circuits", "method": row.method, "best": row is best} | _allocation(row)
        for row in comparison.allocations
    ]
    columns = dict.fromkeys(column for row in rows for column in row)
    return [{column: row.get(column, "") for column in columns} for row in rows]


def as_arrays(comparison: ScheduleComparison) -> dict[str, npt.NDArray[Any]]:
    """The demand, the slots of the shortest schedule and the best circuits.

    ``permutations`` ``(k, sources)`` and ``holds_bytes`` ``(k,)`` are those of
    :class:`~lightloom.schedule.PermutationSchedule`; with partial reconfiguration there are
    ``transfers`` ``(m, 4)`` as well, over several switches ``switch_of_slot`` ``(k,)``.
    ``--start-from`` reads these slots, ``--held-circuits`` the ``circuits``; ``nics`` are their
    ends on planes (:class:`~lightloom.schedule.PlanePlan`), if that was asked for.
    """
    arrays: dict[str, npt.NDArray[Any]] = {"demand": comparison.problem.demand}
    if comparison.winner is not None:
        winner = comparison.schedules[comparison.winner]
        arrays |= {"permutations": winner.permutations, "holds_bytes": winner.holds_bytes}
        arrays["delay_bytes"] = np.array(winner.delay_bytes, dtype=np.uint64)
        if winner.switch_of_slot is not None:
            arrays["switch_of_slot"] = winner.switch_of_slot
        if winner.transfers is not None:
            arrays["transfers"] = winner.transfers
    best = comparison.best_allocation
    if best is not None:
        arrays |= {"circuits": best.split.circuits, "eps_bytes": best.split.eps_bytes}
    if comparison.planes is not None and comparison.planes.verdict == "assigned":
        arrays["nics"] = comparison.planes.nics
    return arrays
