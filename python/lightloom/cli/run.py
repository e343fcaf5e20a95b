"""``lightloom run``: a comparison from one strict TOML file."""

from __future__ import annotations

from pydantic import Field

from lightloom.cli.options import Command, Given, Panel, option
from lightloom.cli.outputs import Outputs, text_outputs
from lightloom.inputs.strict import File, Strict

EXAMPLES = (
    "lightloom run examples/study.toml",
    "lightloom run examples/study.toml --html report.html --timeline run.pftrace",
    "lightloom run examples/study.toml --json - > results.json",
)
RENAMED = {"--trace": "--timeline"}


class RunOptions(Strict):
    """The file of a study."""

    study: File = Field(
        description="A study (TOML), such as examples/study.toml; its paths are relative to it."
    )


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(
            Panel("Study", (option(RunOptions, "study", "STUDY", common=True),)),
            output_panel(),
        ),
        run=_run,
        examples=EXAMPLES,
        renamed=RENAMED,
    )


def output_panel() -> Panel:
    """The files that a comparison writes."""
    return Panel(
        "Output",
        (
            option(Outputs, "html", common=True, below="output"),
            option(Outputs, "open", below="output"),
            *text_outputs(),
            option(Outputs, "timeline", common=True, below="output"),
            option(Outputs, "parquet", below="output"),
        ),
    )


def _run(given: Given) -> None:
    from lightloom.cli.show import run_and_report
    from lightloom.study.compare.scenario import load_study

    outputs = given.take(Outputs, "output")
    outputs.check(given.tables)
    run_and_report(load_study(given.build(RunOptions).study), outputs)
