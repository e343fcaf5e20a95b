"""``lightloom trace permutations``: what a crossbar between all ranks does in a step."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lightloom.cli.options import Command, Given, Panel, option
from lightloom.cli.outputs import Outputs, json_output
from lightloom.inputs.strict import File, Number, Strict, Whole, quantity

EXAMPLES = (
    "lightloom trace permutations trace.json",
    "lightloom trace permutations trace.json --algorithm ring --out stack.npz",
)
NOTES = (
    "A trace of one rank of each role is expanded to all ranks by the groups that the recorder has "
    "noted. Every transfer of every collective is checked to be delivered once. --json has kinds "
    "of calls and their order; --out has the permutations as well."
)


class StackOptions(Strict):
    """Which trace, and how its collectives are carried out."""

    trace: File = Field(description="JSON of lightloom trace record, which may be gzipped.")
    step: Annotated[Whole, Field(ge=0)] | None = Field(
        None, description="Training step, counted from 0; the last one by default."
    )
    algorithm: Literal["auto", "ring", "tree", "hierarchical"] = Field(
        "auto", description="Of collectives, where it is possible; auto takes least time."
    )
    local_world_size: Annotated[Whole, Field(le=1024)] = Field(
        8, description="Ranks of one server."
    )
    overhead_bytes: Annotated[Number, quantity("byte"), Field(ge=0, le=1e15)] = Field(
        1e6,
        description="What a port could send in the latency and guard time of a slot; "
        "auto chooses by it.",
    )


def stack_options() -> Panel:
    """What commands that expand a trace have in common."""
    return Panel(
        "Arguments",
        (
            option(StackOptions, "trace", "TRACE", common=True),
            option(StackOptions, "step", common=True),
            option(StackOptions, "algorithm", common=True),
            option(StackOptions, "local_world_size", common=True),
            option(StackOptions, "overhead_bytes", common=True),
        ),
    )


def command() -> Command:
    """Describe the command."""
    out = option(Outputs, "out", common=True, below="output")
    return Command(
        panels=(stack_options(), Panel("Output", (json_output(), out))),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(given: Given) -> None:
    from lightloom.cli.terminal import remarks_console, results_console
    from lightloom.output.files import write_binary
    from lightloom.output.progress import TerminalMonitor
    from lightloom.report.stack_table import print_stack
    from lightloom.trace.algorithms import Algorithm
    from lightloom.trace.job import find_job
    from lightloom.trace.stack_build import build_stack
    from lightloom.trace.stack_files import stack_as_json, stack_as_npz
    from lightloom.trace.trace import read_trace

    outputs = given.take(Outputs, "output")
    options = given.build(StackOptions)
    outputs.check(vars(options))
    job = find_job(read_trace(options.trace), options.step)
    with TerminalMonitor(remarks_console(), lambda _: None) as monitor:
        stack = build_stack(
            job, Algorithm(options.algorithm), local_size=options.local_world_size,
            overhead_bytes=options.overhead_bytes, progress=monitor.progress,
        )  # fmt: skip
    delivered = stack.check()
    print_stack(stack, delivered, remarks_console() if outputs.on_stdout else results_console())
    outputs.write_json(stack_as_json(stack, delivered))
    if outputs.out is not None:
        write_binary(stack_as_npz(stack), outputs.out)
