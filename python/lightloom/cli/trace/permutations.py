"""``lightloom trace permutations``: what a crossbar between all ranks does in a step."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lightloom.cli.options import Command, Given, Panel, option
from lightloom.cli.outputs import Outputs, json_output
from lightloom.inputs.strict import File, Number, Strict, Whole, quantity

EXAMPLES = (
    "lightloom trace permutations trace.json",
    "lightloom trace permutations trace.json --algorithm ring --html stack.html",
    "lightloom trace permutations trace.json --leaf 8 --pod 4 --out stack.npz",
)
NOTES = (
    "A trace of one rank of each role is expanded to all ranks by the groups that the recorder has "
    "noted. Every transfer of every collective is checked to be delivered once. --json has kinds "
    "of calls and their order; --out has the permutations too, with --leaf the switches' settings."
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


class FabricSizes(Strict):
    """Circuit switches that permutations are divided among."""

    leaf: Annotated[Whole, Field(le=1 << 20)] | None = Field(
        None, description="Ranks on a leaf switch: settings of the switches of a fabric are made."
    )
    spines: Annotated[Whole, Field(le=1 << 20)] | None = Field(
        None, description="Up-links of a leaf; as many as its ranks by default."
    )
    pod: Annotated[Whole, Field(le=1 << 20)] | None = Field(
        None, description="Leaves of a pod, for three tiers."
    )
    cores: Annotated[Whole, Field(le=1 << 20)] | None = Field(
        None, description="Up-links of a spine; as many as leaves of a pod by default."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.leaf is None and (self.spines or self.pod or self.cores):
            raise ValueError("--spines, --pod and --cores need --leaf")
        if self.pod is None and self.cores:
            raise ValueError("--cores is for three tiers: add --pod")
        return self


def fabric_panel() -> Panel:
    """Sizes of a fabric."""
    names = ("leaf", "spines", "pod", "cores")
    return Panel(
        "Fabric",
        tuple(option(FabricSizes, name, common=True, below="fabric") for name in names),
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
    files = (option(Outputs, name, common=True, below="output") for name in ("out", "html"))
    return Command(
        panels=(stack_options(), fabric_panel(), Panel("Output", (json_output(), *files))),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(given: Given) -> None:
    from lightloom.cli.terminal import remarks_console, results_console
    from lightloom.output.files import write_binary, write_text
    from lightloom.output.progress import TerminalMonitor
    from lightloom.report.stack_table import print_local, print_stack, stack_page
    from lightloom.trace.algorithms import Algorithm
    from lightloom.trace.job import find_job
    from lightloom.trace.local import ClosSizes, route_stack
    from lightloom.trace.stack_build import build_stack
    from lightloom.trace.stack_files import stack_as_json, stack_as_npz
    from lightloom.trace.trace import read_trace

    outputs = given.take(Outputs, "output")
    sizes = given.take(FabricSizes, "fabric")
    options = given.build(StackOptions)
    outputs.check(vars(options))
    job = find_job(read_trace(options.trace), options.step)
    with TerminalMonitor(remarks_console(), lambda _: None) as monitor:
        stack = build_stack(
            job, Algorithm(options.algorithm), local_size=options.local_world_size,
            overhead_bytes=options.overhead_bytes, progress=monitor.progress,
        )  # fmt: skip
    delivered = stack.check()
    local = None
    if sizes.leaf is not None:
        local = route_stack(stack, ClosSizes(sizes.leaf, sizes.spines, sizes.pod, sizes.cores))
        local.check(stack)
    console = remarks_console() if outputs.on_stdout else results_console()
    print_stack(stack, delivered, console)
    if local is not None:
        print_local(stack, local, console)
    outputs.write_json(stack_as_json(stack, delivered, local))
    if outputs.out is not None:
        write_binary(stack_as_npz(stack, local), outputs.out)
    if outputs.html is not None:
        write_text(stack_page(stack), outputs.html)
