"""``lightloom sweep``: one study at many points, on this machine or on a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import checked_outputs, json_panel
from lightloom.cli.terminal import confirm, remarks_console
from lightloom.errors import InputError
from lightloom.study.sweep.call import SweepCallOptions

if TYPE_CHECKING:
    from lightloom.study.sweep.study import SweepStudy

EXAMPLES = (
    "lightloom sweep study.toml --out results",
    "lightloom sweep study.toml --out results --resume --workers 8",
    "lightloom sweep study.toml --out results --budget '30 min'",
    "lightloom sweep study.toml --out results --on ray://head:10001",
)
NOTES = (
    "The study has a table [sweep.axes]; 'lightloom example sweep' writes one. Rows are in "
    "results/rows/*.parquet as points finish; what is missing runs with --resume."
)
#: more points than this have to be confirmed
MANY = 100_000


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(
            Panel("Study", (option(SweepCallOptions, "study", "STUDY", common=True),)),
            Panel(
                "Points",
                tuple(
                    option(SweepCallOptions, name, common=True)
                    for name in ("out", "resume", "budget_s", "yes")
                ),
            ),
            Panel(
                "Workers",
                (
                    option(SweepCallOptions, "workers", common=True),
                    option(SweepCallOptions, "on", common=True, metavar="ray[://HOST:PORT]"),
                ),
            ),
            json_panel(),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _run(call: CommandCall) -> None:
    from lightloom.output.progress import TerminalMonitor
    from lightloom.output.sweep import run_sweep
    from lightloom.output.sweep_folder import read_manifest
    from lightloom.report.sweep_table import print_sweep
    from lightloom.study.sweep.study import load_sweep

    outputs = checked_outputs(call)
    options = call.build(SweepCallOptions)
    study = load_sweep(options.study)
    _say_size(study, asks=not options.yes)
    remarks = remarks_console()
    try:
        with TerminalMonitor(remarks, lambda _: None, bar_width=9) as monitor:
            results = run_sweep(
                study,
                options.out,
                workers=options.workers,
                on=options.on,
                resume=options.resume,
                budget_s=options.budget_s,
                monitor=monitor,
            )
    except KeyboardInterrupt:
        done = read_manifest(options.out).get("done", 0)
        text = f"{done:,} points kept in {options.out}; go on with --resume"
        remarks.print(text, soft_wrap=True, markup=False)
        raise
    outputs.print_and_write(lambda console: print_sweep(results, console), results.to_json)
    failed = results.manifest["failed"]
    if failed and not results.manifest["done"]:
        raise InputError(
            f"no point is done, such as point {failed[0]['point']}: {failed[0]['reason']}"
        )
    if results.manifest["open"]:
        text = "the time is up: what is open runs with --resume"
        remarks.print(text, soft_wrap=True, markup=False)


def _say_size(study: SweepStudy, *, asks: bool) -> None:
    """Say how many points there are; ask whether so many are meant."""
    count, size = study.design.count(), study.design.size
    points = f"{size:,} points before conditions" if count is None else f"{count:,} points"
    axes = ", ".join(axis.name for axis in study.design.axes)
    remarks_console().print(f"{points} over {axes}", style="dim", soft_wrap=True, markup=False)
    if asks and size > MANY:
        try:
            confirm(f"{study.name} has {points}. Run them all?", "--yes")
        except InputError as error:
            raise InputError(f"{study.name} has {points}: {error}") from None
