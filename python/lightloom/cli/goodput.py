"""``lightloom goodput``: how much of its time a job trains usefully, given that parts fail."""

from __future__ import annotations

import time
from dataclasses import replace

from lightloom.cli.compare import Settings, scenario_from_options
from lightloom.cli.options import Command, CommandCall, Option, Panel, option, put
from lightloom.cli.outputs import Outputs, checked_outputs, text_outputs
from lightloom.cli.terminal import command_line, remarks_console, results_console, terminal
from lightloom.study.compare.scenario import Scenario
from lightloom.study.goodput.options import RecoveryOptions

EXAMPLES = (
    "lightloom goodput mixtral-8x22b --gpus 8192 --days 30",
    "lightloom goodput deepseek-v3 --gpus 2048 --gpu h800 --fabrics fat-tree,mixnet --spares 8",
    "lightloom goodput mixtral-8x22b --gpus 1024 --survives nic,link --html goodput.html",
)
NOTES = (
    "A step is simulated once without each kind of part, as by compare --fail; failures are then"
    " drawn over many runs. Rates and their sources: docs/explanation/goodput.md."
)
#: rate of a NIC where none is given, Gb/s
RATE_GBPS = 400.0


def command() -> Command:
    """Describe the command."""
    recovery = ("interval_s", "checkpoint_s", "detection_s", "restart_s", "repair_s")
    return Command(
        panels=(
            job_panel(),
            Panel(
                "Failures (a time has a unit)",
                (
                    _recovery("days"),
                    _recovery("spares", "--spares"),
                    _recovery("survives", "--survives", metavar="KIND,..."),
                    *(_recovery(name) for name in recovery),
                    _recovery("runs"),
                    option(Scenario, "seed", common=True),
                ),
            ),
            Panel(
                "Output",
                (option(Outputs, "html", common=True, below="output"), *text_outputs()),
            ),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
        needed=("model", "gpus"),
    )


def job_panel() -> Panel:
    """The options of a job, whose rate may be left out."""
    rate = option(Scenario, "cluster.rate_gbps", common=True)
    return Panel(
        "Job (the published plan; --set plan.KEY=VALUE for another)",
        (
            option(Scenario, "model", "MODEL", common=True),
            option(Scenario, "gpus", common=True),
            replace(rate, optional=True),
            option(Scenario, "cluster.gpu", common=True),
            option(Scenario, "demand.source", "--demand", common=True, metavar="NAME|X|PATH"),
            option(Scenario, "fabrics", common=True),
            option(Settings, "set", common=True, repeats=True, metavar="KEY=VALUE"),
        ),
    )


def _recovery(name: str, flag: str = "", metavar: str = "") -> Option:
    return option(RecoveryOptions, name, flag, common=True, below="recovery", metavar=metavar)


def scenario_of(call: CommandCall) -> Scenario:
    """The scenario that the options of a job say, at 400 Gb/s by default.

    Raises
    ------
    InputError
        If an option cannot be used.
    """
    if not call.has("cluster.rate_gbps"):
        put(call.tables, "cluster.rate_gbps", RATE_GBPS)
    return scenario_from_options(call)


def _run(call: CommandCall) -> None:
    from lightloom.output.progress import TerminalMonitor
    from lightloom.report.goodput_table import print_goodput
    from lightloom.report.page_goodput import write_goodput_page
    from lightloom.study.goodput import goodput

    outputs = checked_outputs(call)
    recovery = call.take(RecoveryOptions, "recovery")
    scenario = scenario_of(call)
    remarks, started = remarks_console(), time.monotonic()
    with TerminalMonitor(remarks, lambda _: None) as monitor:
        result = goodput(scenario, recovery, monitor=monitor)
    more = "" if terminal().verbose or outputs.html else "; --verbose or --html say more"
    remarks.print(f"simulated in {time.monotonic() - started:.1f} s{more}", style="dim")
    if not outputs.on_stdout:
        print_goodput(result, results_console(), details=terminal().verbose)
    outputs.write_all(
        result.rows,
        lambda: result.to_json() | {"command": command_line()},
        lambda page: write_goodput_page(result, page, command_line()),
    )
