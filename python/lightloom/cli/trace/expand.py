"""``lightloom trace expand``: the calls of all ranks from one of each role."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lightloom.cli.options import Command, Given, Panel, option
from lightloom.cli.outputs import Outputs, text_outputs
from lightloom.errors import InputError
from lightloom.inputs.strict import File, Name, Strict, Whole

if TYPE_CHECKING:
    from lightloom.trace.expand import Expansion

EXAMPLES = (
    "lightloom trace expand trace.json",
    "lightloom trace expand trace.json --parquet calls.parquet",
    "lightloom trace expand trace.json --chakra traces",
    "lightloom trace expand trace.json --goal step.goal",
    "lightloom trace expand trace.json --only-ranks 5,77 --json some.json",
)
NOTES = (
    "Ranks that hold the same places in pipelines and groups issue the same calls, each on its "
    "groups. Ranks that were recorded in addition to one of each role are compared, call by call. "
    "Sizes that depend on data are those of the recorded rank. --json writes a trace; --chakra "
    "execution traces of schema 0.0.4, --goal programs of sends and receives for lightloom packets "
    "and LogGOPSim, with collectives by rings, trees and pairwise; both without computation."
)

#: calls of all ranks together
MAX_CALLS = 5_000_000


class ExpandOptions(Strict):
    """Which trace, and which ranks."""

    trace: File = Field(description="JSON of lightloom trace record, which may be gzipped.")
    step: Annotated[Whole, Field(ge=0)] | None = Field(
        None, description="Index of the training step."
    )
    chakra: File | None = Field(
        None, description="New folder for Chakra execution traces, a file per rank."
    )
    goal: File | None = Field(
        None, description="File for programs of sends and receives in GOAL, of all ranks."
    )
    only_ranks: Name = Field("all", description="Ranks to write, such as 0,3, or all.")


def command() -> Command:
    """Describe the command."""
    files = (
        option(Outputs, "parquet", common=True, below="output"),
        option(ExpandOptions, "chakra", common=True),
        option(ExpandOptions, "goal", common=True),
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


def _run(given: Given) -> None:
    from lightloom.cli.terminal import remarks_console, results_console
    from lightloom.output.files import ColumnWriter, check_all_writable, write_json
    from lightloom.report.stack_table import print_roles
    from lightloom.trace.expand import Expansion, columns_of
    from lightloom.trace.job import find_job
    from lightloom.trace.record import parse_ranks
    from lightloom.trace.trace import read_trace

    outputs = given.take(Outputs, "output")
    options = given.build(ExpandOptions)
    outputs.check({"trace": options.trace})
    if options.chakra is not None and options.chakra.exists():
        raise InputError(f"--chakra {options.chakra}: is there already; name a new folder")
    if options.goal is not None and options.only_ranks != "all":
        raise InputError("--goal is for all ranks; leave out --only-ranks")
    check_all_writable([path for path in (options.goal,) if path is not None])
    trace = read_trace(options.trace)
    ranks = parse_ranks(options.only_ranks, trace.world_size, "--only-ranks")
    expansion = Expansion(find_job(trace, options.step))
    verified = expansion.verify()
    print_roles(
        expansion.job, verified, remarks_console() if outputs.on_stdout else results_console()
    )
    wanted = (outputs.json_target, outputs.csv_target, outputs.parquet)
    if not any((*wanted, options.chakra, options.goal)):
        return
    number = sum(expansion.count(rank) for rank in ranks)
    if number > MAX_CALLS:
        raise InputError(
            f"{number:,} calls of {len(ranks):,} ranks: expected at most {MAX_CALLS:,}; name some "
            "ranks by --only-ranks"
        )
    if outputs.json_target is not None:
        write_json(expansion.trace(trace, ranks).to_json(), outputs.json_target)
    if options.chakra is not None:
        _write_chakra(options.chakra, expansion, ranks)
    if options.goal is not None:
        _write_goal(options.goal, expansion, ranks)
    writer = ColumnWriter(outputs.csv_target, outputs.parquet)
    try:
        for rank in ranks:
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


def _write_chakra(folder: Path, expansion: Expansion, ranks: list[int]) -> None:
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
