"""``lightloom run`` of a file of several jobs that share a cluster."""

from __future__ import annotations

import copy
import dataclasses
import time
from pathlib import Path

from lightloom.cli.compare import scenario_from_options
from lightloom.cli.options import CommandCall
from lightloom.cli.outputs import Outputs
from lightloom.cli.terminal import command_line, remarks_console, results_console
from lightloom.errors import InputError
from lightloom.study.shared_cluster import SharedCluster, share

#: options of ``run`` that several jobs have no use for
_NOT = {
    "point": "--point is of a sweep",
    "gpus": "--gpus is of one job: say it in the file",
    "network": "several jobs are simulated as flows",
    "seeds": "several jobs run with one seed: leave --seeds out",
}


def run_jobs(call: CommandCall, shared: SharedCluster, path: Path, outputs: Outputs) -> None:
    """Simulate the jobs that a file has, print the tables, then write what was asked for.

    Raises
    ------
    InputError
        If the file or an option cannot be used; nothing is written then.
    OutputError
        If a file cannot be written; the tables are there nevertheless.
    """
    from lightloom.output.progress import TerminalMonitor
    from lightloom.report.shared_table import print_shared

    for key, why in _NOT.items():
        if call.has(key):
            raise InputError(f"{path}: {why}")
    for name in ("html", "timeline", "parquet", "launch"):
        if getattr(outputs, name) is not None:
            raise InputError(f"--{name} is of one job: several write --json and --csv")
    shared = _changed(shared, call)
    remarks, started = remarks_console(), time.monotonic()
    with TerminalMonitor(remarks, lambda _: None) as monitor:
        result = share(shared, monitor=monitor)
    remarks.print(f"simulated in {time.monotonic() - started:.1f} s", style="dim")
    if not outputs.on_stdout:
        print_shared(result, results_console())
    outputs.write_all(result.rows, lambda: result.to_json() | {"command": command_line()})


def _changed(shared: SharedCluster, call: CommandCall) -> SharedCluster:
    """The jobs with what the command line says in place of the file."""
    if not call.tables:
        return shared
    jobs = []
    for job in shared.jobs:
        own = copy.copy(call)
        own.tables, own.settings = copy.deepcopy(call.tables), set(call.settings)
        jobs.append(dataclasses.replace(job, scenario=scenario_from_options(own, job.scenario)))
    return dataclasses.replace(shared, jobs=tuple(jobs))
