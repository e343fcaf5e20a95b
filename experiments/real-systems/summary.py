"""Tables of predicted and published speeds, and what the errors are in sum."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, Protocol

from rows import Run
from scipy.stats import spearmanr

#: errors that are aimed at, by precision
AIM = {"BF16": 0.15, "FP8": 0.20, "NVFP4": 0.20}


class Predicted(Protocol):
    """What the tables need of a prediction."""

    @property
    def run(self) -> Run:
        """The public run."""

    @property
    def predicted(self) -> float:
        """Tokens/s per GPU."""

    @property
    def ratio(self) -> float:
        """Predicted over published."""

    @property
    def shares(self) -> dict[str, float] | None:
        """Shares of the step, by category."""

    @property
    def refused(self) -> str:
        """Why there is no prediction."""

    @property
    def memory(self) -> tuple[float, float]:
        """Peak memory by the model, and what of a GPU's is there for it, GB."""


def tables(found: Sequence[Predicted], sources: dict[str, dict[str, Any]]) -> str:
    """Every run by class, then the sums, then the sources."""
    parts = ["<!-- written by experiments/real-systems/run.py --write -->\n"]
    parts.append("## Errors\n\n" + errors(found))
    parts += [
        f"## {group}\n\n" + group_table([p for p in found if p.run.group == group])
        for group in sorted({p.run.group for p in found})
    ]
    parts.append("## Not modeled, and assumed\n\n" + remarks(found))
    used = {p.run.source for p in found}
    listed = [
        f"- `{name}`: [{source['text']}]({source['url']}) ({source['date']})"
        for name, source in sources.items()
        if name in used
    ]
    parts.append("## Sources\n\n" + "\n".join(listed) + "\n")
    return "\n".join(parts)


def errors(found: Sequence[Predicted]) -> str:
    """Median error, runs within the aim and rank correlation, by class and set."""
    header = "| class | set | runs | median error | worst | within aim | rank correlation |"
    lines = [header, "|---|---|---:|---:|---:|---:|---:|"]
    groups = [*sorted({p.run.group for p in found}), "all"]
    for group in groups:
        for part in ("calibrate", "test", "both"):
            chosen = [
                p
                for p in found
                if not p.refused
                and (group in (p.run.group, "all"))
                and (part in (p.run.part, "both"))
            ]
            if chosen:
                lines.append(error_line(group, part, chosen))
    return "\n".join(lines) + "\n"


def error_line(group: str, part: str, chosen: Sequence[Predicted]) -> str:
    """One line of the table of errors."""
    sizes = [abs(p.ratio - 1) for p in chosen]
    within = sum(size <= AIM[p.run.group.split()[1]] for size, p in zip(sizes, chosen, strict=True))
    rank = "-"
    if len(chosen) > 2:
        published, predicted = [p.run.published for p in chosen], [p.predicted for p in chosen]
        rank = f"{spearmanr(published, predicted).statistic:.3f}"
    return (
        f"| {group} | {part} | {len(chosen)} | {100 * median(sizes):.1f} % | "
        f"{100 * max(sizes):.0f} % | {within} of {len(chosen)} | {rank} |"
    )


def group_table(found: Sequence[Predicted]) -> str:
    """Runs of one class: plan, memory, published, predicted, ratio, set.

    A user is refused where memory does not suffice, unless the check is off.
    """
    lines = [
        "| run | GPUs | plan | memory [GB] | published | predicted | ratio | set |",
        "|---|---|---|---:|---:|---:|---:|---|",
    ]
    for p in found:
        run = p.run
        speeds = f"{p.predicted:,.0f} | {p.ratio:.2f}" if not p.refused else "refused | -"
        peak, room = p.memory
        memory = f"{peak:.0f} of {room:.0f}" + (", refused" if peak > room else "")
        lines.append(
            f"| {run.name} | {run.gpus} {run.gpu.upper()} | {plan_text(run)} | {memory} | "
            f"{run.published:,.0f} | {speeds} | {run.part} |"
        )
    return "\n".join(lines) + "\n"


def plan_text(run: Run) -> str:
    """The plan in one short line."""
    plan = run.plan
    named = [("TP", "tp"), ("CP", "cp"), ("PP", "pp"), ("VP", "vpp"), ("EP", "ep"), ("ETP", "etp")]
    parts = [f"{name}{plan[key]}" for name, key in named if plan.get(key, 1) > 1]
    batch = f"{plan['micro_batches']} x {plan['micro_batch_size']} x {plan['seq_len']}"
    return " ".join([*parts, batch])


def remarks(found: Sequence[Predicted]) -> str:
    """What each run had that is left out, and what was chosen for it."""
    lines = []
    for p in found:
        texts = [f"not modeled: {text}" for text in p.run.not_modeled]
        texts += [f"assumed: {text}" for text in p.run.assumed]
        texts += [f"does not fit by the memory model: {p.run.misfit}"] if p.run.misfit else []
        texts += [f"corrected: {p.run.corrected}"] if p.run.corrected else []
        texts += [f"refused: {p.refused}"] if p.refused else []
        where = f"`{p.run.source}`, {p.run.where}"
        lines.append(f"- {p.run.name} ({where}){': ' if texts else ''}{'; '.join(texts)}")
    return "\n".join(lines) + "\n"
