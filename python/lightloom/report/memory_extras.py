"""What published formulas say of a job's memory, and how its cluster grows for long sequences."""

from __future__ import annotations

import dataclasses

from rich.console import Console

from lightloom.planner.formulas import FormulaJob, FormulaRow
from lightloom.report.terminal import plain_table, print_sentence, print_table
from lightloom.study.compare.expansion import GrownCluster, GrownClusters
from lightloom.units import show_number


def extras_as_json(job: FormulaJob | None, grown: GrownClusters | None) -> dict[str, object]:
    """The same as plain values; keys of what is not asked for are left out."""
    content: dict[str, object] = {}
    if job is not None:
        content["formulas"] = {
            "states": [dataclasses.asdict(row) for row in job.states()],
            "activations": [dataclasses.asdict(row) for row in job.activations()],
        }
    if grown is not None:
        content["expansion"] = {
            "longest_sequence": grown.longest_sequence,
            "rows": [_row(row) for row in grown.rows],
        }
    return content


def print_extras(job: FormulaJob | None, grown: GrownClusters | None, console: Console) -> None:
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
        _print_expansion(grown, console)


def _row(row: GrownCluster) -> dict[str, object]:
    content = dataclasses.asdict(row.rule)
    if row.fitted is None:
        return content | {"plan": None, "reason": row.reason}
    plan = row.fitted.plan
    names = ("gpus", "tp", "pp", "dp", "ep", "etp", "cp", "expert_mode", "micro_batches")
    return content | {
        "plan": {name: getattr(plan, name) for name in names},
        "recompute": row.fitted.options.recompute,
        "peak_memory_bytes": row.peak_bytes,
        "step_time_s": row.step_time_s,
        "step_tokens": plan.tokens_per_step,
    }


def _print_expansion(grown: GrownClusters, console: Console) -> None:
    table = plain_table(
        "How the cluster grows",
        ["tokens\n[1,024]", "way", "server\ngroups", "GPUs", "CP", "recompute", "memory\n[GB]",
         "step\n[s]", "tokens/s"],
        left=["way", "recompute"],
    )  # fmt: skip
    for row in grown.rows:
        cells = [f"{row.rule.seq // 1024:,}", row.rule.way, f"{row.rule.network:,}"]
        if row.fitted is None or row.step_time_s is None or row.peak_bytes is None:
            table.add_row(*cells, "-", f"{row.rule.cp}", *["-"] * 4)
            continue
        plan = row.fitted.plan
        table.add_row(
            *cells, f"{plan.gpus:,}", f"{plan.cp}", row.fitted.options.recompute,
            f"{row.peak_bytes / 1e9:.1f}", show_number(row.step_time_s, 3),
            f"{plan.tokens_per_step / row.step_time_s:,.0f}",
        )  # fmt: skip
    print_table(table, console)
    for seq, reason in ((row.rule.seq, row.reason) for row in grown.rows if row.reason):
        print_sentence(f"No plan for {seq:,} tokens: {reason}.", console)
    print_sentence(
        f"One context-parallel rank holds up to {grown.longest_sequence:,} tokens, all recomputed. "
        "Horizontal: CP ranks beside the EP group, whose servers all talk to each other; "
        "vertical: those of the EP group (--ep-mode folded), one sequence per group. Steps are "
        "estimated on a fat-tree, with the micro-batches of the plan above.",
        console,
    )


def _print_formulas(title: str, rows: list[FormulaRow], console: Console) -> None:
    table = plain_table(title, ["", "as printed\n[GB]", "corrected\n[GB]"])
    for row in rows:
        table.add_row(
            row.name, f"{row.printed_bytes / 1e9:,.2f}", f"{row.corrected_bytes / 1e9:,.2f}"
        )
    print_table(table, console)
