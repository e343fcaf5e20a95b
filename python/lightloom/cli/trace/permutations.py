"""``lightloom trace permutations``: what a crossbar between all ranks does in a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from lightloom.cli.options import Command, CommandCall, Option, Panel, option
from lightloom.cli.outputs import Outputs, json_output
from lightloom.inputs.strict import File, Number, Strict, Whole, quantity

if TYPE_CHECKING:
    from lightloom.trace.local import LocalStack
    from lightloom.trace.stack import PermutationStack

EXAMPLES = (
    "lightloom trace permutations trace.json",
    "lightloom trace permutations trace.json --algorithm ring --html stack.html",
    "lightloom trace permutations trace.json --leaf 8 --pod 4 --out stack.npz",
)
NOTES = (
    "A trace of one rank of each role is expanded to all ranks by the groups that the recorder has "
    "noted; of several steps the last whole one. Every transfer of every collective is checked to "
    "be delivered once. --json has kinds of calls and their order; --out has the permutations too, "
    "with --leaf the switches' settings."
)


class TraceOptions(Strict):
    """Which step of a trace, and how its collectives are carried out."""

    trace: File = Field(description="A file or a folder, which lightloom or another tool wrote.")
    step: Annotated[Whole, Field(ge=0)] | None = Field(
        None, description="Index of the training step."
    )
    algorithm: Literal["auto", "ring", "tree", "hierarchical"] = Field(
        "auto", description="Of collectives, where it is possible; auto takes least time."
    )
    local_world_size: Annotated[Whole, Field(le=1024)] = Field(
        8, description="Ranks of one server."
    )


class StackOptions(TraceOptions):
    """What expands a step."""

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
    up_links: Annotated[Whole, Field(le=1 << 20)] | None = Field(
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
        if self.leaf is None and (self.up_links or self.pod or self.cores):
            raise ValueError("--up-links, --pod and --cores need --leaf")
        if self.pod is None and self.cores:
            raise ValueError("--cores is for three tiers: add --pod")
        return self


def fabric_panel() -> Panel:
    """Sizes of a fabric."""
    names = ("leaf", "up_links", "pod", "cores")
    return Panel(
        "Fabric",
        tuple(option(FabricSizes, name, common=True, below="fabric") for name in names),
    )


def trace_options(table: type[TraceOptions]) -> tuple[Option, ...]:
    """What commands that expand a trace have in common."""
    return (
        option(table, "trace", "TRACE", common=True),
        *(option(table, name, common=True) for name in ("step", "algorithm", "local_world_size")),
    )


def command() -> Command:
    """Describe the command."""
    overhead = option(StackOptions, "overhead_bytes", common=True)
    files = (option(Outputs, name, common=True, below="output") for name in ("out", "html"))
    return Command(
        panels=(
            Panel("Arguments", (*trace_options(StackOptions), overhead)),
            fabric_panel(),
            Panel("Output", (json_output(), *files)),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def expanded(options: TraceOptions, overhead_bytes: float) -> PermutationStack:
    """Read a trace and expand a step of it."""
    from lightloom.cli.terminal import remarks_console
    from lightloom.output.progress import TerminalMonitor
    from lightloom.trace.algorithms import Algorithm
    from lightloom.trace.importers.open import read_any
    from lightloom.trace.job import find_job
    from lightloom.trace.stack_build import build_stack

    with TerminalMonitor(remarks_console(), lambda _: None, patience_s=1.0) as monitor:
        job = find_job(read_any(options.trace, monitor.progress).trace, options.step)
    with TerminalMonitor(remarks_console(), lambda _: None) as monitor:
        return build_stack(
            job, Algorithm(options.algorithm), local_size=options.local_world_size,
            overhead_bytes=overhead_bytes, progress=monitor.progress,
        )  # fmt: skip


def routed(stack: PermutationStack, sizes: FabricSizes) -> LocalStack | None:
    """Route a stack over a fabric, if there is one."""
    from lightloom.trace.local import ClosSizes, route_stack

    if sizes.leaf is None:
        return None
    local = route_stack(stack, ClosSizes(sizes.leaf, sizes.up_links, sizes.pod, sizes.cores))
    local.check(stack)
    return local


def _run(call: CommandCall) -> None:
    from lightloom.cli.terminal import remarks_console, results_console
    from lightloom.output.files import write_binary, write_text
    from lightloom.report.stack_table import print_local, print_stack, stack_page
    from lightloom.trace.stack_files import stack_as_json, stack_as_npz

    outputs = call.take(Outputs, "output")
    sizes = call.take(FabricSizes, "fabric")
    options = call.build(StackOptions)
    outputs.check(vars(options))
    stack = expanded(options, options.overhead_bytes)
    delivered = stack.check()
    local = routed(stack, sizes)
    console = remarks_console() if outputs.on_stdout else results_console()
    print_stack(stack, delivered, console)
    if local is not None:
        print_local(stack, local, console)
    outputs.write_json(stack_as_json(stack, delivered, local))
    if outputs.out is not None:
        write_binary(stack_as_npz(stack, local), outputs.out)
    if outputs.html is not None:
        write_text(stack_page(stack), outputs.html)
