"""A step as predicted and as recorded, term by term."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from lightloom.report.grid import Grid, print_rows
from lightloom.study.calibration.step_error import RecordedPart, StepError
from lightloom.units import show_time

#: what to do about an error of a term
_ADVICE = {
    "computation": "measure this GPU with 'lightloom calibrate gpu'",
    "all-to-alls": "give a table of alltoall_perf to 'lightloom calibrate network', or the load of "
    "the experts with --demand",
    "tensor parallelism": "give a table of all_gather_perf inside a server to 'lightloom calibrate "
    "network', or say what is hidden with --overlap-tp",
    "context parallelism": "see whether its plan is that of the run",
    "pipeline": "see whether schedule, micro-batches and layers of stages are those of the run",
    "gradients, parameters": "give a table of all_reduce_perf to 'lightloom calibrate network', or "
    "say what is hidden with --overlap-gradients",
}
#: an error of the step up to this is none to follow up
GOOD = 0.05


def print_step_error(found: StepError, console: Console) -> None:
    """Print the terms, the step, and where to look."""
    step = found.step
    rows: list[list[str | float]] = [
        [
            row.term,
            show_time(row.predicted_s),
            show_time(row.measured_s),
            f"{100 * row.error_s / step.measured_s:+.1f}",
        ]
        for row in (*found.terms, step)
    ]
    what = "A step" if found.part is None else "A part of a step"
    steps = f"{found.steps} step{'s' * (found.steps > 1)}"
    ranks = f"{found.ranks} rank{'s' * (found.ranks > 1)}"
    print_rows(
        Grid(
            title=f"{what} on {found.fabric} as predicted, and as measured",
            headers=[("", ""), ("predicted", ""), ("measured", ""), ("error", "% of step")],
            rows=rows,
            best=len(rows) - 1,
            caption=f"mean GPU, and mean of {steps} of {ranks}; communication where nothing "
            f"computes; of measured computation {show_time(found.idle_s)} are idle",
        ),
        console,
        best=[len(rows) - 1],
    )
    console.print()
    error, worst = step.error_s / step.measured_s, found.largest
    if found.part is not None:
        console.print(Text(_part_text(found.part)), soft_wrap=True)
    whole = "The step" if found.part is None else "This part of it"
    text = f"{whole} is predicted {abs(error):.1%} too {'long' if error > 0 else 'short'}."
    if abs(worst.error_s) > GOOD * step.measured_s:
        text += f" The largest error is that of {worst.term}: {_ADVICE[worst.term]}."
    console.print(Text(text), soft_wrap=True)


def _part_text(part: RecordedPart) -> str:
    return (
        f"The profile has the all-to-alls of {part.recorded:,.4g} layers x micro-batches with "
        f"experts, of {part.predicted:,.4g} in a step of a GPU: as many of the predicted ones are "
        "beside them, without head, optimizer, bubbles, layers without experts, and messages and "
        "gradients that were not recorded. Predicted all-to-alls include those of the begin and "
        "end of a step, which nothing hides."
    )


def step_error_as_json(found: StepError) -> dict[str, object]:
    """All of it as plain values."""
    return asdict(found)
