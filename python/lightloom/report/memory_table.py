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


def memory_as_json(found: JobMemory) -> dict[str, Any]:
    """The memory of a job, as plain values."""
    return {
        "model": found.model.name,
        "gpu": found.gpu.name,
        "gpus": found.fitted.plan.gpus,
        "plan": dataclasses.asdict(found.fitted.plan),
        "options": dataclasses.asdict(found.fitted.options),
        "memory": found.fitted.as_dict(found.gpu),
        "recomputation": [
            {
                "recompute": level,
                "fits": unfit is None,
                "stage": largest.stage,
                "total_bytes": largest.total_bytes,
                "activations_bytes": largest.activations_bytes,
            }
            for level, (largest, unfit) in found.by_recompute.items()
        ],
        "remedy": found.remedy,
        "measured_peaks": [dataclasses.asdict(error) for error in ERRORS],
    }


def print_memory(found: JobMemory, console: Console) -> None:
    """Print the plan, its memory by stage, what recomputation changes, and whether it fits."""
    plan, options = found.fitted.plan, found.fitted.options
    lines = [f"{found.model.name} on {plan.describe()}"]
    if plan.provenance:
        lines.append(f"plan from: {'; '.join(plan.provenance)}")
    lines.append(
        f"{options.precision}; bytes of a parameter {options.parameter_bytes:g}, of a gradient "
        f"{options.gradient_bytes:g}, of the optimizer {options.optimizer_bytes:g}"
        f"{' (sharded)' if plan.zero1 else ''}"
    )
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    _print_stages(found, console)
    _print_levels(found, console)
    console.print()
    print_sentence(f"Of measured peaks, {'; '.join(e.text for e in ERRORS)}.", console)
    print_sentence(verdict(found), console, "bold")


def verdict(found: JobMemory) -> str:
    """Whether the plan fits, in a sentence."""
    largest, unfit = found.by_recompute[found.fitted.options.recompute]
    if unfit is not None:
        return f"The plan does not fit {found.gpu.title}: {unfit}; {found.remedy}."
    size, limit = show_number(largest.total_bytes / 1e9, 3), show_bytes(found.limit_bytes, 3)
    repaired = found.fitted.repaired
    level = found.fitted.options.recompute
    how = "" if repaired is None else f" with --recompute {level} (without, {repaired})"
    return (
        f"The plan fits {found.gpu.title}{how}: stage {largest.stage} needs {size} of "
        f"{limit}, all but {found.fitted.options.reserve:.0%} of its memory."
    )


def _print_stages(found: JobMemory, console: Console) -> None:
    plan, limit = found.fitted.plan, found.limit_bytes
    headers = ["stage", "layers", *PARTS.values(), "total\n[GB]", "of the\nlimit"]
    level = found.fitted.options.recompute
    title = f"Peak memory per GPU, in GB; activations recomputed: {level}"
    table = plain_table(title, headers)
    by_stage = plan.layers(found.model.num_layers)
    for one in found.fitted.memory:
        layers = sum(len(chunk) for held in plan.held_stages(one.stage) for chunk in by_stage[held])
        is_over = one.total_bytes > limit
        table.add_row(
            str(one.stage),
            str(layers),
            *(f"{_part(one, name) / 1e9:.2f}" for name in PARTS),
            f"{one.total_bytes / 1e9:.2f}",
            f"{one.total_bytes / limit:.0%}",
            style="bold red" if is_over else "",
        )
    print_table(table, console)


def _part(stage: StageMemory, name: str) -> float:
    size: float = getattr(stage, f"{name}_bytes")
    return size


def _print_levels(found: JobMemory, console: Console) -> None:
    headers = ["recompute", "largest\nstage", "activations\n[GB]", "total\n[GB]", "fits"]
    table = plain_table("What recomputation changes, by the largest stage", headers)
    for level, (largest, unfit) in found.by_recompute.items():
        table.add_row(
            level,
            str(largest.stage),
            f"{largest.activations_bytes / 1e9:.2f}",
            f"{largest.total_bytes / 1e9:.2f}",
            "yes" if unfit is None else "no",
        )
    print_table(table, console)
