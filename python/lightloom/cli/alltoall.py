"""``lightloom alltoall``: the strategy of an all-to-all, by its volume and the cluster."""

from __future__ import annotations

from collections.abc import Mapping

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, checked_outputs, text_outputs
from lightloom.cli.terminal import command_line, results_console
from lightloom.planner.scenario import AllToAllScenario

EXAMPLES = (
    "lightloom alltoall --cluster a800x16 --hidden 8192 --chunks 4",
    "lightloom alltoall mixtral-8x22b --gpu h100 --rate 400 --tp 8 --ep 8 --seq 4K,32K,128K",
    "lightloom alltoall mixtral-8x7b --gpu h100 --rate 400 --tp 4 --ep 8 --demand 1.5 --json -",
)
NOTES = (
    "For experts that TP ranks hold together. The all-to-all of a chunk runs beside the gather of "
    "the one before; the experts themselves are left out. A file of a cluster has curves, or the "
    "times that you measured."
)


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(
            Panel(
                "All-to-all",
                (
                    option(AllToAllScenario, "model", "MODEL", common=True),
                    option(AllToAllScenario, "seq", common=True, metavar="TOKENS,..."),
                    *(option(AllToAllScenario, name, common=True) for name in ("hidden", "top_k")),
                    option(AllToAllScenario, "bytes_per_token", common=True),
                    option(AllToAllScenario, "demand", common=True, metavar="X|PATH"),
                    *(
                        option(AllToAllScenario, name)
                        for name in ("micro_batch_size", "element_bytes", "padding")
                    ),
                ),
            ),
            Panel(
                "Cluster",
                tuple(
                    option(AllToAllScenario, name, common=True)
                    for name in ("cluster", "gpu", "rate_gbps", "tp", "ep")
                ),
            ),
            Panel(
                "Choice",
                (
                    option(AllToAllScenario, "chunks", common=True, metavar="auto|N"),
                    option(AllToAllScenario, "late_s", "--late"),
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
    )


def _run(call: CommandCall) -> None:
    from lightloom.planner.choose import choose_strategies
    from lightloom.report.page_strategies import write_strategies_page
    from lightloom.report.strategy_table import print_strategies

    outputs = checked_outputs(call)
    scenario = call.build(AllToAllScenario)
    results = choose_strategies(scenario)
    if not outputs.on_stdout:
        print_strategies(scenario, results, results_console())
    rows = [result.as_row() for result in results]
    content = {"inputs": scenario.model_dump(mode="json"), "rows": rows}
    outputs.write_all(
        lambda: (_flat(row) for row in rows),
        lambda: content,
        lambda page: write_strategies_page(scenario, results, page, command_line()),
    )


def _flat(row: Mapping[str, object]) -> dict[str, object]:
    """A row without tables in it: their keys follow their names."""
    flat: dict[str, object] = {}
    for key, value in row.items():
        if key in ("time_s", "chunks_of") and isinstance(value, Mapping):
            flat |= {f"{name}_{key.removesuffix('_of')}": part for name, part in value.items()}
        elif key != "bytes":
            flat[key] = value
    return flat
