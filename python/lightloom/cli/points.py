"""``lightloom compare`` with several numbers of GPUs, rates or types of GPU."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Iterable, Iterator
from typing import Any

from lightloom.cli.options import Given, put
from lightloom.cli.outputs import Outputs
from lightloom.cli.terminal import remarks_console, results_console
from lightloom.errors import InputError
from lightloom.inputs.fields import parse
from lightloom.output.files import STDOUT, write_json
from lightloom.output.progress import TerminalMonitor
from lightloom.study.compare.scenario import Scenario

#: keys of ``compare`` that take several values
LISTS = ("gpus", "cluster.rate_gbps", "cluster.gpu")


def lists_of(given: Given, keys: Iterable[str]) -> dict[str, list[Any]]:
    """The values of every key that has several, as they were typed."""
    found = {}
    for key in keys:
        value: Any = given.tables
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, str) and "," in value:
            texts = [text.strip() for text in value.split(",") if text.strip()]
            option = given.option(key)
            found[key] = [parse(option.table, option.name, text) for text in dict.fromkeys(texts)]
    return found


def given_points(given: Given, lists: dict[str, list[Any]]) -> Iterator[Given]:
    """What was given, with each choice of the values in turn."""
    for values in itertools.product(*lists.values()):
        one = copy.copy(given)
        one.tables = copy.deepcopy(given.tables)
        for key, value in zip(lists, values, strict=True):
            put(one.tables, key, value)
        yield one


def run_points(scenarios: list[Scenario], outputs: Outputs) -> None:
    """Compare at every point, write what was wanted, and print the table.

    Raises
    ------
    InputError
        If no point can be compared, or an output is of a single one.
    KeyboardInterrupt
        If it was interrupted; finished points are printed and written.
    """
    from lightloom.report.scaling_table import print_scaling
    from lightloom.study.compare.scaling import ScalingPoint, compare_points

    if outputs.timeline is not None:
        raise InputError("--timeline is of one point; leave out the lists of --gpus, --rate, --gpu")
    outputs = outputs.with_page()
    outputs.check()
    remarks, started, rows = remarks_console(), time.monotonic(), outputs.rows()
    points = [ScalingPoint(_values(scenario), scenario) for scenario in scenarios]
    try:
        with TerminalMonitor(remarks, rows.write) as monitor:
            found = compare_points(points, monitor=monitor)
    finally:
        rows.close()
    if found.results:
        if outputs.json_target not in (None, STDOUT):
            write_json(found.to_json(), str(outputs.json_target))
        if outputs.html is not None:
            from lightloom.report.page_scaling import write_scaling_page

            write_scaling_page(found, outputs.html)
        for path in outputs.files():
            remarks.print(f"wrote {path}", style="dim", soft_wrap=True, markup=False)
        remarks.print(f"compared in {time.monotonic() - started:.1f} s", style="dim")
        print_scaling(found, remarks if outputs.on_stdout else results_console())
        if outputs.json_target == STDOUT:
            write_json(found.to_json(), STDOUT)
        outputs.show_page()
    if found.interrupted:
        raise KeyboardInterrupt


def _values(scenario: Scenario) -> dict[str, Any]:
    own = {"gpus": scenario.gpus, **scenario.cluster.model_dump(include={"rate_gbps", "gpu"})}
    return {name: own[name] for name in ("gpus", "rate_gbps", "gpu")}
