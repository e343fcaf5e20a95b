"""``lightloom trace expand``: the calls of all ranks from one of each role."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, text_outputs
from lightloom.errors import InputError
from lightloom.inputs.strict import File, Name, Strict, Whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lightloom.trace.expand import Expansion
    from lightloom.trace.record import Progress
    from lightloom.trace.trace import Trace

EXAMPLES = (
    "lightloom trace expand trace.json",
    "lightloom trace expand trace.json --parquet calls.parquet",
    "lightloom trace expand trace.json --chakra traces",
    "lightloom trace expand trace.json --goal step.goal",
    "lightloom trace expand trace.json --only-ranks roles --csv roles.csv --map ranks.csv",
)
NOTES = (
    "Ranks that hold the same places in pipelines and groups issue the same calls, each on its "
    "groups. Ranks that were recorded in addition to one of each role are compared, call by call. "
    "Sizes that depend on data are those of the recorded rank. --json writes a trace; --chakra "
    "execution traces of schema 0.0.4, --goal programs of sends and receives for lightloom packets "
    "and LogGOPSim, with collectives by rings, trees and pairwise; both without computation."
)

#: calls of all ranks together that are held in memory, and that are written as they come
MAX_CALLS, MAX_STREAMED = 5_000_000, 100_000_000


class ExpandOptions(Strict):
    """Which trace, and which ranks."""

    trace: File = Field(description="A file or a folder, which lightloom or another tool wrote.")
    step: Annotated[Whole, Field(ge=0)] | None = Field(
        None, description="Index of the training step."
    )
    chakra: File | None = Field(
        None, description="New folder for Chakra execution traces, a file per rank."
    )
    goal: File | None = Field(
        None, description="File for programs of sends and receives in GOAL, of all ranks."
    )
    only_ranks: Name = Field(
        "all", description="Ranks to write, such as 0,3; all; or roles: one of each role."
    )
    map: File | None = Field(
        None, description="CSV of the role of each rank, and of the rank that stands for it."
    )


def command() -> Command:
    """Describe the command."""
    files = (
        option(Outputs, "parquet", common=True, below="output"),
        option(ExpandOptions, "chakra", common=True),
        option(ExpandOptions, "goal", common=True),
        option(ExpandOptions, "map", common=True),
    )
    return Command(
        panels=(
            Panel(
                "Arguments",
                (
                    option(ExpandOptions, "trace", "TRACE", common=True),
                    option(ExpandOptions, "step", common=True),
                    option(ExpandOptions, "only_ranks", common=True),
                ),
            ),
            Panel("Output", (*text_outputs(), *files)),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(call: CommandCall) -> None:
    from lightloom.cli.terminal import remarks_console, results_console
    from lightloom.output.files import check_all_writable, write_text
    from lightloom.output.progress import TerminalMonitor
    from lightloom.report.stack_table import print_roles
    from lightloom.trace.expand import Expansion
    from lightloom.trace.importers.open import read_any
    from lightloom.trace.job import find_job

    outputs = call.take(Outputs, "output")
    options = call.build(ExpandOptions)
    outputs.check({"trace": options.trace, "map": options.map})
    if options.chakra is not None and options.chakra.exists():
        raise InputError(f"--chakra {options.chakra}: is there already; name a new folder")
    if options.goal is not None and options.only_ranks != "all":
        raise InputError("--goal is for all ranks; leave out --only-ranks")
    check_all_writable([path for path in (options.goal,) if path is not None])
    with TerminalMonitor(remarks_console(), lambda _: None, patience_s=1.0) as monitor:
        trace = read_any(options.trace, monitor.progress).trace
    expansion = Expansion(find_job(trace, options.step))
    ranks = _ranks(options, expansion)
    verified = expansion.verify()
    print_roles(
        expansion.job, verified, remarks_console() if outputs.on_stdout else results_console()
    )
    if options.map is not None:
        write_text(expansion.job.ranks_as_csv(), options.map)
    _check_number(sum(map(expansion.count, ranks)), len(ranks), outputs, options)
    with TerminalMonitor(remarks_console(), lambda _: None) as monitor:
        _write(expansion, trace, ranks, outputs, options, monitor.progress)


def _ranks(options: ExpandOptions, expansion: Expansion) -> list[int]:
    """The ranks that are written."""
    from lightloom.trace.record import parse_ranks

    if options.only_ranks == "roles":
        return [role.recorded[0] for role in expansion.job.roles]
    return parse_ranks(options.only_ranks, expansion.job.world_size, "--only-ranks")


def _check_number(calls: int, ranks: int, outputs: Outputs, options: ExpandOptions) -> None:
    """Refuse what would not fit into memory, or a disk."""
    whole = bool(outputs.json_target or outputs.parquet or options.goal)
    streamed = bool(outputs.csv_target or options.chakra)
    limit = MAX_CALLS if whole else MAX_STREAMED
    if (whole or streamed) and calls > limit:
        raise InputError(
            f"{calls:,} calls of {ranks:,} ranks: expected at most {limit:,}"
            f"{'; --csv and --chakra take more' if whole and calls <= MAX_STREAMED else ''}; write "
            "one rank of each role by --only-ranks roles, and which ranks it stands for by --map"
        )


def _write(
    expansion: Expansion, trace: Trace, ranks: list[int], outputs: Outputs,
    options: ExpandOptions, progress: Progress,
) -> None:  # fmt: skip
    """Write the calls of ranks."""
    from lightloom.output.files import ColumnWriter, write_json
    from lightloom.trace.expand import columns_of

    def shown(one: list[int]) -> Iterator[int]:
        for number, rank in enumerate(one):
            if progress(number / len(one), f"rank {rank}, {number + 1:,} of {len(one):,}") is False:
                raise KeyboardInterrupt
            yield rank

    if outputs.json_target is not None:
        write_json(expansion.trace(trace, ranks).to_json(), outputs.json_target)
    if options.chakra is not None:
        _write_chakra(options.chakra, expansion, shown(ranks))
    if options.goal is not None:
        _write_goal(options.goal, expansion, ranks)
    if outputs.csv_target is None and outputs.parquet is None:
        return
    writer = ColumnWriter(outputs.csv_target, outputs.parquet)
    try:
        for rank in shown(ranks):
            writer.write(columns_of(rank, list(expansion.calls(rank))))
    finally:
        writer.close()


def _write_goal(path: Path, expansion: Expansion, ranks: list[int]) -> None:
    """What ranks send and receive, and what that waits for."""
    from lightloom.output.files import write_text
    from lightloom.packets import goal_text
    from lightloom.trace.programs import trace_programs

    flows = trace_programs({rank: tuple(expansion.calls(rank)) for rank in ranks}, "the trace")
    write_text(goal_text(flows, len(ranks)), path)


def _write_chakra(folder: Path, expansion: Expansion, ranks: Iterable[int]) -> None:
    """A file per rank, and the groups that they name."""
    from lightloom.errors import OutputError
    from lightloom.output.files import write_binary, write_text
    from lightloom.trace.chakra import GroupNumbers, execution_trace

    try:
        folder.mkdir()
    except OSError as error:
        raise OutputError(f"{folder}: cannot make the folder: {error.strerror}") from None
    groups = GroupNumbers()
    for rank in ranks:
        content = execution_trace(rank, expansion.calls(rank), groups)
        write_binary(content, folder / f"trace.{rank}.et")
    write_text(groups.to_json(), folder / "groups.json")
