"""``lightloom run``: a comparison from one strict TOML file, or from earlier results."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from lightloom.cli.options import Command, Given, Panel, option
from lightloom.cli.outputs import Outputs, text_outputs
from lightloom.cli.terminal import remarks_console
from lightloom.errors import InputError
from lightloom.inputs.strict import File, Strict, check

EXAMPLES = (
    "lightloom run examples/study.toml",
    "lightloom run examples/study.toml --html report.html --timeline run.pftrace",
    "lightloom run examples/study.toml --json - > results.json",
    "lightloom run results.json",
)
RENAMED = {"--trace": "--timeline"}


class RunOptions(Strict):
    """The file of a study."""

    study: File = Field(
        description="A study (TOML), such as examples/study.toml, with paths relative to it; or"
        " results (JSON), whose run is repeated and compared."
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
            option(Outputs, "launch", below="output"),
        ),
    )


def _run(given: Given) -> None:
    from lightloom.cli.show import run_and_report
    from lightloom.study.compare.scenario import load_study

    outputs = given.take(Outputs, "output")
    outputs.check(given.tables)
    path = given.build(RunOptions).study
    if path.name.endswith((".json", ".json.gz")):
        _repeat(path, outputs)
    else:
        run_and_report(load_study(path), outputs)


def _repeat(path: Path, outputs: Outputs) -> None:
    """Run what made a file of results, and say whether the results are the same."""
    from lightloom.cli.show import run_and_report
    from lightloom.report.explain import read_results
    from lightloom.report.replay import check_repeated
    from lightloom.study.compare.scenario import Scenario

    content = read_results(path)
    scenario = content.get("inputs", {}).get("scenario")
    if not isinstance(scenario, dict):
        raise InputError(f"{path}: no scenario in it; expected a file of compare --json")
    comparison = run_and_report(check(Scenario, scenario, str(path)), outputs)
    remarks_console().print(
        check_repeated(content, comparison, str(path)), soft_wrap=True, markup=False
    )
