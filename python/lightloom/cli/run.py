"""``lightloom run``: what one strict TOML file describes, or earlier results again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import checked_outputs, comparison_outputs
from lightloom.cli.terminal import remarks_console
from lightloom.errors import InputError
from lightloom.inputs.strict import File, Strict, check

EXAMPLES = (
    "lightloom run examples/study.toml",
    "lightloom run examples/study.toml --html report.html --timeline run.pftrace",
    "lightloom run examples/study.toml --gpus 128,256 --set plan.tp=2",
    "lightloom run results.json",
    "lightloom run jobs.toml --fabrics oversub,mixnet",
)


class RunOptions(Strict):
    """The file of a study, and which of its points."""

    study: File = Field(
        description="A study (TOML), such as examples/study.toml, with paths relative to it; jobs"
        " that share a cluster (lightloom example jobs); or results (JSON), which are repeated."
    )
    point: Annotated[int, Field(strict=True, ge=0)] | None = Field(
        None, description="Number of the point, of a study with many (lightloom sweep)."
    )


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(
            Panel(
                "Study",
                (option(RunOptions, "study", "STUDY", common=True), option(RunOptions, "point")),
            ),
            _changes(),
            comparison_outputs(),
        ),
        run=_run,
        examples=EXAMPLES,
    )


def _changes() -> Panel:
    """The options of ``compare`` that the study also says, each of them optional."""
    from lightloom.cli import compare

    shown = ("gpus", "cluster.rate_gbps", "cluster.gpu", "fabrics", "demand.source", "set")
    options = {option.key: option for panel in compare.command().panels for option in panel.options}
    chosen = [*shown, "network", "seeds"]
    return Panel(
        "In place of what the study says",
        tuple(
            replace(options[key], optional=True, is_typed=True, common=key in shown)
            for key in chosen
        ),
    )


def _run(call: CommandCall) -> None:
    from lightloom.cli.compare import scenario_from_options
    from lightloom.cli.points import LISTS, given_points, lists_of, run_points
    from lightloom.cli.run_jobs import run_jobs
    from lightloom.cli.show import run_and_report
    from lightloom.inputs.formats import read_toml
    from lightloom.report.replay import check_repeated
    from lightloom.study.compare.scenario import Scenario, study_of
    from lightloom.study.shared_cluster.jobs_file import has_jobs, jobs_of
    from lightloom.study.sweep.study import SweepStudy

    outputs = checked_outputs(call)
    given: dict[str, Any] = {
        name: call.tables[name] for name in ("study", "point") if name in call.tables
    }
    options = check(RunOptions, given, "", call.flag)
    path = options.study
    is_repeated = options.point is None and path.name.endswith((".json", ".json.gz"))
    content = _read_record(path) if is_repeated else {}
    values = {} if is_repeated else read_toml(path, "study")
    if has_jobs(values):
        del call.tables["study"]
        run_jobs(call, jobs_of(values, str(path), path.parent), path, outputs)
        return
    for name in given:
        del call.tables[name]
    if content:
        study = check(Scenario, content["inputs"]["scenario"], str(path))
    elif options.point is not None:
        study = SweepStudy.of(values, str(path), path.parent).at(options.point)
    else:
        study = study_of(values, str(path), path.parent)
    lists = lists_of(call, LISTS)
    if lists:
        points = given_points(call, lists)
        run_points([scenario_from_options(point, study) for point in points], outputs)
        return
    is_changed = bool(call.tables)
    scenario = scenario_from_options(call, study) if is_changed else study
    comparison = run_and_report(scenario, outputs)
    if content and not is_changed:
        said = check_repeated(content, comparison, str(path))
        remarks_console().print(said, soft_wrap=True, markup=False)


def _read_record(path: Path) -> dict[str, Any]:
    """Results with the scenario that made them."""
    from lightloom.report.explain import read_results

    content = read_results(path)
    if not isinstance(content.get("inputs", {}).get("scenario"), dict):
        raise InputError(f"{path}: no scenario in it; expected a file of compare --json")
    return content
