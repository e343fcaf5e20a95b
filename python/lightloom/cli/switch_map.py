"""``lightloom map``: for which circuit switches a reconfigurable fabric pays."""

from __future__ import annotations

import time
from collections.abc import Callable

from lightloom.cli.compare import Settings
from lightloom.cli.goodput import scenario_of
from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, checked_outputs, text_outputs, write_each
from lightloom.cli.terminal import remarks_console, results_console
from lightloom.study.compare.scenario import Scenario
from lightloom.study.switch_map.options import MapOptions

EXAMPLES = (
    "lightloom map mixtral-8x22b --gpus 1024",
    "lightloom map mixtral-8x22b --gpus 1024 --rates 400,800 --degrees 6 --svg map.svg --csv -",
    "lightloom map deepseek-v3 --gpus 1024 --gpu h200 --no-variants --fabrics fat-tree,mixnet",
)
NOTES = (
    "Few delays are simulated, and steps interpolated between; how far off is printed. Products:"
    " docs/how-to/map-circuit-switches.md."
)


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(
            Panel(
                "Job (the published plan; --set plan.KEY=VALUE for another)",
                (
                    option(Scenario, "model", "MODEL", common=True),
                    option(Scenario, "gpus", common=True),
                    option(Scenario, "cluster.gpu", common=True),
                    option(
                        Scenario, "demand.source", "--demand", common=True, metavar="NAME|X|PATH"
                    ),
                    option(Settings, "set", common=True, repeats=True, metavar="KEY=VALUE"),
                    option(Scenario, "seed"),
                ),
            ),
            Panel(
                "Map",
                (
                    option(MapOptions, "rates", common=True, below="map", metavar="Gb/s,..."),
                    option(MapOptions, "degrees", common=True, below="map", metavar="N,..."),
                    option(MapOptions, "fabrics", common=True, below="map"),
                    option(MapOptions, "variants", common=True, below="map"),
                    option(MapOptions, "tolerance", below="map"),
                ),
            ),
            Panel(
                "Output",
                (option(Outputs, "svg", common=True, below="output"), *text_outputs()),
            ),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
        needed=("model", "gpus"),
    )


def _run(call: CommandCall) -> None:
    from lightloom.output.progress import TerminalMonitor
    from lightloom.report.map_table import print_map
    from lightloom.report.plots_map import write_map_drawing
    from lightloom.study.switch_map import switch_map

    outputs = checked_outputs(call)
    options = call.take(MapOptions, "map")
    # which options of a fabric are for is checked against those that are compared
    call.tables["fabrics"] = options.fabrics
    scenario = scenario_of(call)
    remarks, started = remarks_console(), time.monotonic()
    with TerminalMonitor(remarks, lambda _: None) as monitor:
        mapped = switch_map(scenario, options, monitor=monitor)
    remarks.print(f"simulated in {time.monotonic() - started:.1f} s", style="dim")
    if not outputs.on_stdout:
        print_map(mapped, results_console())
    writers: dict[str, Callable[[], None]] = {}
    if (svg := outputs.svg) is not None:
        writers[str(svg)] = lambda: write_map_drawing(mapped, svg)
    if (csv := outputs.csv_target) is not None:
        writers[csv] = lambda: outputs.write_rows(mapped.rows())
    if (json := outputs.json_target) is not None:
        writers[json] = lambda: outputs.write_json(mapped.to_json())
    write_each(writers)
