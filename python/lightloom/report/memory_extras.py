"""What published formulas say of a job's memory, and how its cluster grows for long sequences."""

from __future__ import annotations

import dataclasses

from rich.console import Console

from lightloom.planner.expansion import ClusterExpansion
from lightloom.planner.formulas import FormulaJob, FormulaRow
from lightloom.report.terminal import plain_table, print_sentence, print_table

#: the longest sequence of one context-parallel rank, and each longer one
Grown = tuple[int, list[ClusterExpansion]]


def extras_as_json(job: FormulaJob | None, grown: Grown | None) -> dict[str, object]:
    """The same as plain values; keys of what is not asked for are left out."""
    content: dict[str, object] = {}
    if job is not None:
        content["formulas"] = {
            "states": [dataclasses.asdict(row) for row in job.states()],
            "activations": [dataclasses.asdict(row) for row in job.activations()],
        }
    if grown is not None:
        longest, rows = grown
        content["expansion"] = {
            "longest_sequence": longest,
            "rows": [dataclasses.asdict(row) for row in rows],
        }
    return content


def print_extras(job: FormulaJob | None, grown: Grown | None, console: Console) -> None:
    """Print tables of what is asked for."""
    if job is not None:
        _print_formulas("States per GPU by MoNTA's table 3", job.states(), console)
        _print_formulas("Activations of a micro-batch by table 4", job.activations(), console)
        print_sentence(
            "Corrected: experts are sharded over their dp / ep copies; attention's scores are "
            "divided by TP; a rank sends and gets k copies per token, not k / ep. The table of "
            "the plan above is what this tool judges by.",
            console,
        )
    if grown is not None:
        longest, rows = grown
        headers = ["tokens", "CP", "way", "server groups"]
        table = plain_table("How the cluster grows", headers, left=["way"])
        for row in rows:
            table.add_row(f"{row.seq:,}", f"{row.cp}", row.way, f"{row.network:,}")
        print_table(table, console)
        print_sentence(
            f"One context-parallel rank holds up to {longest:,} tokens, all recomputed. "
            "Horizontal: CP ranks beside the EP group, whose servers all talk to each other; "
            "vertical: those of the EP group, one sequence per group.",
            console,
        )


def _print_formulas(title: str, rows: list[FormulaRow], console: Console) -> None:
    table = plain_table(title, ["", "as printed\n[GB]", "corrected\n[GB]"])
    for row in rows:
        table.add_row(
            row.name, f"{row.printed_bytes / 1e9:,.2f}", f"{row.corrected_bytes / 1e9:,.2f}"
        )
    print_table(table, console)
