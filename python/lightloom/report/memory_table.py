"""Tables of the memory of a job per GPU: by stage and part, and by recomputation."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich.console import Console
from rich.text import Text

from lightloom.parallel import StageMemory
from lightloom.parallel.memory import ERRORS
from lightloom.report.terminal import plain_table, print_sentence, print_table
from lightloom.study.compare.memory import JobMemory
from lightloom.units import show_bytes, show_number

#: parts of a stage's memory in the order of the columns, and their headers
PARTS = {
    "parameters": "param-\neters",
    "gradients": "gradi-\nents",
    "optimizer": "opti-\nmizer",
    "activations": "activa-\ntions",
    "logits": "logits",
    "workspace": "work-\nspace",
}


def memory_as_json(memory: JobMemory) -> dict[str, Any]:
    """The memory of a job, as plain values."""
    return {
        "model": memory.model.name,
        "gpu": memory.gpu.name,
        "gpus": memory.fitted.plan.gpus,
        "plan": dataclasses.asdict(memory.fitted.plan),
        "options": dataclasses.asdict(memory.fitted.options),
        "memory": memory.fitted.as_dict(memory.gpu),
        "recomputation": [
            {
                "recompute": level,
                "fits": unfit is None,
                "stage": largest.stage,
                "total_bytes": largest.total_bytes,
                "activations_bytes": largest.activations_bytes,
            }
            for level, (largest, unfit) in memory.by_recompute.items()
        ],
        "remedy": memory.remedy,
        "measured_peaks": [dataclasses.asdict(error) for error in ERRORS],
    }


def print_memory(memory: JobMemory, console: Console) -> None:
    """Print the plan, its memory by stage, what recomputation changes, and whether it fits."""
    plan, options = memory.fitted.plan, memory.fitted.options
    lines = [f"{memory.model.name} on {plan.describe()}"]
    if plan.provenance:
        lines.append(f"plan from: {'; '.join(plan.provenance)}")
    lines.append(
        f"{options.precision}; bytes of a parameter {options.parameter_bytes:g}, of a gradient "
        f"{options.gradient_bytes:g}, of the optimizer {options.optimizer_bytes:g}"
        f"{' (sharded)' if plan.zero1 else ''}"
    )
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    _print_stages(memory, console)
    _print_levels(memory, console)
    console.print()
    print_sentence(f"Of measured peaks, {'; '.join(e.text for e in ERRORS)}.", console)
    print_sentence(verdict(memory), console, "bold")


def verdict(memory: JobMemory) -> str:
    """Whether the plan fits, in a sentence."""
    largest, unfit = memory.by_recompute[memory.fitted.options.recompute]
    if unfit is not None:
        return f"The plan does not fit {memory.gpu.title}: {unfit}; {memory.remedy}."
    size, limit = show_number(largest.total_bytes / 1e9, 3), show_bytes(memory.limit_bytes, 3)
    repaired = memory.fitted.repaired
    level = memory.fitted.options.recompute
    how = "" if repaired is None else f" with --recompute {level} (without, {repaired})"
    return (
        f"The plan fits {memory.gpu.title}{how}: stage {largest.stage} needs {size} of "
        f"{limit}, all but {memory.fitted.options.reserve:.0%} of its memory."
    )


def _print_stages(memory: JobMemory, console: Console) -> None:
    plan, limit = memory.fitted.plan, memory.limit_bytes
    headers = ["stage", "layers", *PARTS.values(), "total\n[GB]", "of the\nlimit"]
    level = memory.fitted.options.recompute
    title = f"Peak memory per GPU, in GB; activations recomputed: {level}"
    table = plain_table(title, headers)
    for peak in memory.fitted.memory:
        layers = sum(map(len, plan.held_chunks(memory.model.num_layers, peak.stage)))
        is_over = peak.total_bytes > limit
        table.add_row(
            str(peak.stage),
            str(layers),
            *(f"{_part(peak, name) / 1e9:.2f}" for name in PARTS),
            f"{peak.total_bytes / 1e9:.2f}",
            f"{peak.total_bytes / limit:.0%}",
            style="bold red" if is_over else "",
        )
    print_table(table, console)


def _part(stage: StageMemory, name: str) -> float:
    size: float = getattr(stage, f"{name}_bytes")
    return size


def _print_levels(memory: JobMemory, console: Console) -> None:
    headers = ["recompute", "largest\nstage", "activations\n[GB]", "total\n[GB]", "fits"]
    table = plain_table("What recomputation changes, by the largest stage", headers)
    for level, (largest, unfit) in memory.by_recompute.items():
        table.add_row(
            level,
            str(largest.stage),
            f"{largest.activations_bytes / 1e9:.2f}",
            f"{largest.total_bytes / 1e9:.2f}",
            "yes" if unfit is None else "no",
        )
    print_table(table, console)
