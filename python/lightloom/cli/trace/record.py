"""``lightloom trace record``: record what ranks of a training program communicate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, json_output
from lightloom.errors import InputError
from lightloom.inputs.strict import File, Name, Number, Strict, Whole, quantity

if TYPE_CHECKING:
    from lightloom.trace.record import Progress, TracedJob
    from lightloom.trace.trace import Trace

EXAMPLES = (
    "lightloom trace record --world-size 16 -- python train.py --layers 8",
    "lightloom trace record --world-size 1024 --rank 0,77 --json trace.json -- python train.py",
    "lightloom trace record --world-size 64 --rank roles --json trace.json -- python train.py",
    "lightloom trace record --world-size 64 --micro-batches 9,10,64 -- python t.py {micro_batches}",
    "lightloom trace record --world-size 8 --rank all --device cpu -- torchrun train.py",
)
NOTES = (
    "The program runs unmodified, without GPUs and without other ranks: tensors have shapes but no "
    "data, collectives are recorded instead of executed. PyTorch has to be installed for the "
    "program's Python, not for Lightloom's. The experts that tokens visit are drawn by --seed and "
    "--skew, the same for all ranks."
)


class RecordOptions(Strict):
    """What is recorded."""

    program: tuple[Name, ...] = Field(
        description="The command to trace, after --: python script.py ..., python -m module ... or "
        "torchrun ... script.py."
    )
    world_size: Annotated[Whole, Field(le=1 << 20)] = Field(description="Ranks of the job.")
    rank: Name = Field(
        "0",
        description="Ranks to record, such as 0,3; all; or roles: one of each role, and "
        "roles,77,random:2 rank 77 and two drawn ones too.",
    )
    micro_batches: Name | None = Field(
        None,
        description="Record a step with few micro-batches, and extend it to many: 9,10,64 records "
        "9 and 10, in place of micro_batches in braces in PROGRAM, and extends to 64; with "
        "9,10,12,64 it is compared at 12.",
    )
    processes: Annotated[Whole, Field(le=1024)] | None = Field(
        None, description="Ranks that run at a time; as many as there are cores and memory for."
    )
    local_world_size: Annotated[Whole, Field(le=1024)] = Field(
        8, description="Ranks of one server."
    )
    device: Literal["cuda", "cpu"] = Field(
        "cuda", description="What the program finds: a GPU that answers, or none."
    )
    seed: Annotated[int, Field(strict=True, ge=0, lt=1 << 63)] = Field(
        0, description="Seed of the random numbers; the first one where several are used."
    )
    skew: Annotated[Number, Field(ge=0, le=4)] = Field(
        0.0,
        description="Standard deviation of the logarithm of expert loads; 0 spreads tokens evenly.",
    )
    routing_log: File | None = Field(
        None,
        description="Load experts as this log does (JSONL, or a folder), not by --skew.",
    )
    timeout_s: Annotated[float, quantity("second"), Field(gt=0, le=10**6)] = Field(
        600.0, description="How long the program may run, all ranks together."
    )
    memory_limit_bytes: Annotated[float, quantity("byte"), Field(ge=1e8, le=1e15)] = Field(
        8e9, description="Memory that each rank may take."
    )
    writable: tuple[File, ...] = Field((), description="Folders that the program may write.")
    connections: bool = Field(False, description="Let the program open connections.")
    strict: bool = Field(False, description="Refuse a trace that rests on an assumption.")


def command() -> Command:
    """Describe the command."""
    names = (
        "world_size", "rank", "micro_batches", "local_world_size", "device", "seed", "skew",
        "routing_log", "processes",
    )  # fmt: skip
    return Command(
        panels=(
            Panel(
                "Arguments",
                (
                    option(RecordOptions, "program", "PROGRAM", common=True, repeats=True),
                    *(option(RecordOptions, name, common=True) for name in names),
                    option(RecordOptions, "timeout_s", common=True),
                    option(RecordOptions, "memory_limit_bytes", common=True),
                    option(RecordOptions, "writable", common=True),
                    option(RecordOptions, "connections", common=True),
                    option(RecordOptions, "strict", common=True),
                ),
            ),
            Panel("Output", (json_output(),)),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(call: CommandCall) -> None:
    from lightloom.cli.terminal import remarks_console, results_console
    from lightloom.output.files import write_json
    from lightloom.output.progress import TerminalMonitor
    from lightloom.report.stack_table import print_roles
    from lightloom.report.trace_table import print_trace
    from lightloom.trace.expand import Expansion
    from lightloom.trace.job import find_job
    from lightloom.trace.record import TracedJob

    outputs = call.take(Outputs, "output")
    outputs.check()
    options = call.build(RecordOptions)
    for folder in options.writable:
        if not folder.is_dir():
            raise InputError(f"--writable {folder}: expected a folder that exists")
    job = TracedJob(
        world_size=options.world_size,
        local_world_size=options.local_world_size,
        device=options.device,
        seed=options.seed,
        skew=options.skew,
        time_limit_s=options.timeout_s,
        memory_limit_bytes=int(options.memory_limit_bytes),
        writable=options.writable,
        network=options.connections,
        processes=options.processes or 0,
        routing=options.routing_log,
    )
    with TerminalMonitor(remarks_console(), lambda _: None) as monitor:
        trace = _recorded(options, job, monitor.progress)
    console = remarks_console() if outputs.on_stdout else results_console()
    print_trace(trace, console)
    if outputs.json_target is not None:
        write_json(trace.to_json(), outputs.json_target)
    _check(trace, strict=options.strict)
    if options.rank.startswith("roles"):
        expansion = Expansion(find_job(trace))
        print_roles(expansion.job, expansion.verify(), console)


def _check(trace: Trace, *, strict: bool) -> None:
    """Refuse a trace that contradicts itself, or rests on assumptions where none may be made."""
    from lightloom.trace.check import disagreements
    from lightloom.trace.record import TraceError

    if wrong := disagreements(trace):
        raise TraceError(
            f"the recorded ranks contradict each other, {len(wrong):,} times: {wrong[0]}"
        )
    assumed = [text for recorded in trace.ranks.values() for text in recorded.assumed]
    if strict and assumed:
        raise TraceError(f"--strict: the trace rests on an assumption: {assumed[0]}")


def _recorded(options: RecordOptions, job: TracedJob, progress: Progress) -> Trace:
    """Record what the options say."""
    from lightloom.trace import record
    from lightloom.trace.extend import extend, micro_batch_programs

    by_role, ranks, random_ranks = record.parse_roles(options.rank, options.world_size)
    if options.micro_batches is None:
        if by_role:
            return record.record_roles([options.program], job, ranks, progress, random_ranks)[0]
        return record.record(options.program, job, ranks, progress)
    numbers = record.parse_numbers(options.micro_batches, "--micro-batches")
    programs = micro_batch_programs(options.program, numbers)
    if by_role:
        traces = record.record_roles(programs[:-1], job, ranks, progress, random_ranks)
    else:
        traces = record.record_programs(programs[:-1], job, ranks, progress)
    return extend(traces, numbers)
