"""``lightloom compare`` with several numbers of GPUs, rates or types of GPU."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightloom.cli.options import CommandCall, put
from lightloom.cli.outputs import Outputs, path_of_point, say_written, write_each
from lightloom.cli.terminal import command_line, remarks_console, results_console
from lightloom.errors import InputError
from lightloom.inputs.fields import split_list
from lightloom.output.files import write_json
from lightloom.output.progress import TerminalMonitor

if TYPE_CHECKING:
    from lightloom.study.compare.results import Comparison
    from lightloom.study.compare.scaling import Scaling, ScalingPoint
    from lightloom.study.compare.scenario import Scenario

#: keys of ``compare`` that take several values, of which each is tried with each
LISTS = ("gpus", "cluster.rate_gbps", "cluster.gpu")
#: one that takes as many values as there are numbers of GPUs, of which each has its own
BATCHES = "plan.global_batch_size"


def lists_of(
    call: CommandCall, keys: Iterable[str], *, with_repeats: bool = False
) -> dict[str, list[Any]]:
    """The values of every key that has several, as they were typed."""
    lists = {}
    for key in keys:
        value: Any = call.tables
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        texts = split_list(value) if isinstance(value, str) and "," in value else []
        if texts:
            texts = texts if with_repeats else list(dict.fromkeys(texts))
            lists[key] = [call.option(key).parsed(text) for text in texts]
    return lists


def given_points(call: CommandCall, lists: dict[str, list[Any]]) -> Iterator[CommandCall]:
    """What was given, with each choice of the values in turn.

    Raises
    ------
    InputError
        If there are several batches, but not one for each number of GPUs.
    """
    gpus = lists.get("gpus", [])
    batches = lists_of(call, [BATCHES], with_repeats=True).get(BATCHES, [])
    if batches and len(batches) != len(gpus):
        raise InputError(
            f"--global-batch-size has {len(batches)} values, --gpus {len(gpus) or 1}: give one"
            " (strong scaling), or one for each number of GPUs (weak scaling)"
        )
    for values in itertools.product(*lists.values()):
        point = copy.copy(call)
        point.tables = copy.deepcopy(call.tables)
        for key, value in zip(lists, values, strict=True):
            put(point.tables, key, value)
        if batches:
            put(point.tables, BATCHES, batches[gpus.index(point.tables["gpus"])])
        yield point


def run_points(scenarios: list[Scenario], outputs: Outputs) -> None:
    """Compare at every point, write what was wanted, and print the table.

    Raises
    ------
    InputError
        If no point can be compared.
    KeyboardInterrupt
        If it was interrupted; finished points are printed and written.
    """
    from lightloom.report.scaling_table import print_scaling
    from lightloom.study.compare.scaling import compare_points

    outputs = outputs.with_page()
    outputs.check()
    if any(each.packets is not None and each.packets.record is not None for each in scenarios):
        raise InputError(
            "packets.record keeps one comparison; give one number of GPUs and one rate"
        )
    if outputs.launch is not None:
        raise InputError("--launch writes one plan; give one number of GPUs, one rate and one GPU")
    remarks, started, rows = remarks_console(), time.monotonic(), outputs.rows()
    points = [_point(scenario, outputs.timeline) for scenario in scenarios]
    try:
        with TerminalMonitor(remarks, rows.write) as monitor:
            scaling = compare_points(points, monitor=monitor, write_timeline=_write_timeline)
    finally:
        rows.close()
    scaling.command = command_line()
    if scaling.results:
        remarks.print(f"compared in {time.monotonic() - started:.1f} s", style="dim")
        print_scaling(scaling, remarks if outputs.on_stdout else results_console())
        say_written([*rows.files, *_timelines(scaling)])
        write_each(_writers(scaling, outputs))
        outputs.show_page()
    if scaling.interrupted:
        raise KeyboardInterrupt


def _point(scenario: Scenario, timeline: Path | None) -> ScalingPoint:
    """A point, whose timeline is in a file of its own."""
    from lightloom.study.compare.scaling import ScalingPoint

    cluster = {"gpus": scenario.gpus, **scenario.cluster.model_dump(include={"rate_gbps", "gpu"})}
    point = ScalingPoint({name: cluster[name] for name in ("gpus", "rate_gbps", "gpu")}, scenario)
    if timeline is None:
        return point
    return replace(point, timeline=path_of_point(timeline, point.title))


def _write_timeline(comparison: Comparison, path: Path) -> None:
    from lightloom.report.timeline import write_timeline

    write_timeline(comparison, path)


def _timelines(found: Scaling) -> list[Path]:
    """Timelines of finished points."""
    timelines = [found.points[number].timeline for number in sorted(found.results)]
    return [path for path in timelines if path is not None]


def _writers(scaling: Scaling, outputs: Outputs) -> dict[str, Callable[[], None]]:
    """What writes each of the other files, by its name."""
    writers: dict[str, Callable[[], None]] = {}
    if (json := outputs.json_target) is not None:
        writers[json] = lambda: write_json(scaling.to_json(), json)
    if (html := outputs.html) is not None:
        writers[str(html)] = lambda: _write_page(scaling, html)
    return writers


def _write_page(scaling: Scaling, path: Path) -> None:
    from lightloom.report.page_scaling import write_scaling_page

    write_scaling_page(scaling, path)
