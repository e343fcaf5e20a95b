"""Several jobs on one cluster, as tables and sentences."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from lightloom.report.grid import Grid, print_rows
from lightloom.report.terminal import print_sentence
from lightloom.study.shared_cluster.results import (
    UNDISTURBED,
    JobOutcome,
    PlacementOutcome,
    SharedResult,
)


def print_shared(result: SharedResult, console: Console) -> None:
    """Print the jobs, what sharing costs each by fabric and placement, and the advice, last."""
    for line in result.summary:
        console.print(Text(line), soft_wrap=True)
    for fabric in result.fabrics:
        print_rows(jobs_grid(result, fabric), console, left=("job", "placement"))
    print_rows(placements_grid(result), console, left=("placement",))
    console.print()
    for sentence in advice(result):
        print_sentence(sentence, console, "bold")


def jobs_grid(result: SharedResult, fabric: str) -> Grid:
    """What each job's step takes on a fabric, alone and beside the others."""
    rows: list[list[str | float]] = [
        [
            placement.placement,
            job.job,
            f"{job.gpus:,}",
            job.alone_s,
            job.together_s,
            _longer(job.together_s, job),
            _longer(job.worst_s, job),
        ]
        for placement in result.of(fabric)
        for job in placement.jobs
    ]
    return Grid(
        f"{fabric}: steps alone and beside the other jobs",
        [
            ("placement", ""),
            ("job", ""),
            ("GPUs", ""),
            ("alone", "s"),
            ("together", "s"),
            ("longer", "%"),
            ("at worst", "%"),
        ],
        rows,
        -1,
        "alone: on the same servers; at worst: of the draws of when in each other's steps jobs"
        " begin",
    )


def _longer(time_s: float, job: JobOutcome) -> str:
    """By how many percent a time is longer than that of a step alone."""
    return f"{round(100 * (time_s / job.alone_s - 1), 2) + 0.0:.2f}"


def placements_grid(result: SharedResult) -> Grid:
    """All jobs together, by fabric and placement."""
    return Grid(
        "All jobs together",
        [
            ("fabric", ""),
            ("placement", ""),
            ("speed", "% of alone"),
            ("together", "tokens/s"),
            ("fairness", ""),
            ("slowed the most", ""),
        ],
        [
            [
                placement.fabric,
                placement.placement,
                f"{100 * placement.speed:.2f}",
                "-" if placement.tokens_per_s is None else f"{placement.tokens_per_s:,.0f}",
                f"{placement.fairness:.4f}",
                placement.worst.job if _is_disturbed(placement) else "none",
            ]
            for placement in result.placements
        ],
        -1,
        "alone: placed best; speed: mean of the jobs by their GPUs; fairness: Jain's index of their"
        " speeds, 1 if all are slowed alike",
    )


def advice(result: SharedResult) -> list[str]:
    """Where to place the jobs on each fabric, and what another placement costs."""
    return [_advice(result, fabric) for fabric in result.fabrics]


def _advice(result: SharedResult, fabric: str) -> str:
    placements = result.of(fabric)
    best, worst = result.best(fabric), min(placements, key=lambda placement: placement.speed)
    if not _is_disturbed(worst):
        where = "wherever they are placed" if len(placements) > 1 else f"placed {best.placement}"
        return f"{fabric}: the jobs do not slow each other, {where}."
    if best is worst:
        return f"{fabric}: {_costs(best)}; no other placement was simulated."
    advice = f"place the jobs {best.placement}, as fast as alone"
    if _is_disturbed(best):
        advice = f"{_costs(best)}, the least"
    return f"{fabric}: {advice}; {_costs(worst)}."


def _costs(placement: PlacementOutcome) -> str:
    """What a placement costs the job that it slows the most."""
    job = placement.worst
    longer, beside = 100 * (1 / job.speed - 1), _longer(job.together_s, job)
    return (
        f"placed {placement.placement}, steps of {job.job} are {longer:.2f} % longer than alone,"
        f" placed best ({beside} % by the other jobs)"
    )


def _is_disturbed(placement: PlacementOutcome) -> bool:
    return placement.worst.speed < 1 / (1 + UNDISTURBED)
