"""``lightloom collective``: one collective alone, on one or several fabrics."""

from __future__ import annotations

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import checked_outputs, text_outputs
from lightloom.cli.settings import apply_settings
from lightloom.cli.terminal import remarks_console, results_console
from lightloom.fabric.fabric_options import FabricOptions
from lightloom.study.collective.scenario import CollectiveScenario

EXAMPLES = (
    "lightloom collective all-to-all --bytes 64MB --gpus 64 --rate 400 --fabrics fat-tree,mixnet",
    "lightloom collective all-to-all --model deepseek-v3 --gpus 64 --rate 400 --gpu h800",
    "lightloom collective all-to-all --bytes 1MB,64MB --gpus 64 --rate 400 --demand skewed",
    "lightloom collective all-reduce --bytes 1GB --gpus 128 --rate 400 --gpu h100 --csv -",
)
NOTES = (
    "With --bytes an all-to-all is balanced unless --demand says otherwise; with --model it has "
    "the published gate. Ring collectives pass all GPUs of a server, then go to the next."
)


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(_collective(), _demand(), _fabrics(), Panel("Output", text_outputs())),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _collective() -> Panel:
    return Panel(
        "Collective",
        (
            option(CollectiveScenario, "collective", "COLLECTIVE", common=True),
            option(CollectiveScenario, "size_bytes", "--bytes", common=True, metavar="SIZE,..."),
            option(CollectiveScenario, "model", common=True),
            option(CollectiveScenario, "tokens", common=True),
            option(CollectiveScenario, "gpus", common=True),
            option(CollectiveScenario, "group_gpus", common=True),
            option(CollectiveScenario, "cluster.gpu", common=True),
            option(CollectiveScenario, "cluster.rate_gbps", common=True),
            option(CollectiveScenario, "cluster.gpus_per_server"),
            option(CollectiveScenario, "cluster.nics_per_server"),
            option(CollectiveScenario, "cluster.link_delay_s"),
        ),
    )


def _demand() -> Panel:
    return Panel(
        "Demand",
        (
            option(
                CollectiveScenario,
                "demand.source",
                "--demand",
                common=True,
                metavar="NAME|X|PATH",
            ),
            option(CollectiveScenario, "demand.dispatcher"),
            option(CollectiveScenario, "demand.capacity_factor"),
            option(CollectiveScenario, "demand.dispatch_element_bytes", "--dispatch-bytes"),
            option(CollectiveScenario, "demand.combine_element_bytes", "--combine-bytes"),
            option(CollectiveScenario, "seed"),
        ),
    )


def _fabrics() -> Panel:
    from lightloom.cli.compare import Settings

    return Panel(
        "Fabrics",
        (
            option(CollectiveScenario, "fabrics", common=True),
            option(Settings, "set", common=True, repeats=True, metavar="KEY=VALUE"),
            option(FabricOptions, "all_to_all", below="fabric_options.all"),
        ),
    )


def scenario_of(call: CommandCall) -> CollectiveScenario:
    """The collective that the options describe.

    Raises
    ------
    InputError
        If an option cannot be used.
    """
    apply_settings(call, {"all": FabricOptions}, "mixnet.ports=4")
    return call.build(CollectiveScenario)


def _run(call: CommandCall) -> None:
    from lightloom.output.progress import TerminalMonitor
    from lightloom.report.collective_table import print_collectives
    from lightloom.study.collective.run import run_collectives

    outputs = checked_outputs(call)
    scenario = scenario_of(call)
    with TerminalMonitor(remarks_console(), lambda _: None) as monitor:
        results = run_collectives(scenario, monitor.progress)
    if not outputs.on_stdout:
        print_collectives(scenario, results, results_console())
    rows = [result.as_row() for result in results]
    content = {"inputs": scenario.model_dump(mode="json"), "collectives": rows}
    outputs.write_all(lambda: rows, lambda: content)
