"""``lightloom traffic``: who sends how many bytes to whom in a step of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option, put
from lightloom.cli.outputs import Outputs, checked_outputs, text_outputs, write_each
from lightloom.cli.terminal import remarks_console, results_console
from lightloom.errors import InputError
from lightloom.inputs.strict import Strict
from lightloom.study.compare.scenario import Scenario

EXAMPLES = (
    "lightloom traffic mixtral-8x7b --gpus 128 --svg traffic.svg",
    "lightloom traffic deepseek-v3 --gpus 1024 --kind ep --out traffic.npz",
    "lightloom traffic path/to/config.json --gpus 64 --tp 2 --pp 4 --ep 8 --by server --csv -",
)
NOTES = (
    "Counted from the task graph of the step, and equal to what the model implies. Rings and "
    "pipelines send between GPUs at the same place of their servers; inside a server bytes are "
    "divided evenly."
)


class TrafficOptions(Strict):
    """What is shown of the traffic."""

    by: Literal["gpu", "server"] | None = Field(
        None, description="What rows and columns are; by default GPUs, above 512 of them servers."
    )
    kind: Literal["tp", "ep", "pp", "dp", "cp"] | None = Field(
        None,
        description="Kind of parallelism in the heat map; all that crosses servers by default.",
    )


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(_job(), _plan(), _demand(), _view(), _output()),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _job() -> Panel:
    return Panel(
        "Job",
        (
            option(Scenario, "model", "MODEL", common=True),
            option(Scenario, "gpus", common=True),
            option(Scenario, "cluster.gpu", common=True),
            option(Scenario, "cluster.gpus_per_server"),
            option(Scenario, "recompute"),
            option(Scenario, "memory_check"),
            option(Scenario, "seed"),
        ),
    )


def _plan() -> Panel:
    rest = (
        *("dp", "cp", "context_parallel", "etp", "vpp", "micro_batches", "micro_batch_size"),
        *("seq_len", "zero1", "schedule"),
    )
    return Panel(
        "Parallelism plan (by default the published one)",
        (
            *(option(Scenario, f"plan.{name}", common=True) for name in ("tp", "pp", "ep")),
            *(option(Scenario, f"plan.{name}") for name in rest),
            option(Scenario, "plan.expert_mode", "--ep-mode"),
        ),
    )


def _demand() -> Panel:
    return Panel(
        "Demand",
        (
            option(Scenario, "demand.source", "--demand", common=True, metavar="NAME|X|PATH"),
            option(Scenario, "demand.dispatcher"),
        ),
    )


def _view() -> Panel:
    return Panel(
        "What is shown",
        tuple(option(TrafficOptions, name, common=True, below="view") for name in ("by", "kind")),
    )


def _output() -> Panel:
    drawn = (option(Outputs, name, common=True, below="output") for name in ("svg", "out"))
    return Panel("Output", (*text_outputs(), *drawn))


def _run(call: CommandCall) -> None:
    from lightloom.demand.byte_matrix import write_npz
    from lightloom.output.files import write_binary
    from lightloom.report.plots_traffic import write_traffic_drawing
    from lightloom.report.traffic_table import (
        print_traffic,
        traffic_arrays,
        traffic_as_json,
        traffic_rows,
    )
    from lightloom.study.compare.traffic import job_traffic

    outputs = checked_outputs(call)
    view = call.take(TrafficOptions, "view")
    if "model" not in call.tables:
        raise InputError("MODEL is missing; add it, such as lightloom traffic mixtral-8x7b")
    if "gpus" not in call.tables:
        raise InputError("--gpus is missing; add it, such as --gpus 128")
    # which nothing here depends on
    put(call.tables, "cluster.rate_gbps", 400.0)
    with remarks_console().status("writing the step"):
        traffic = job_traffic(call.build(Scenario), view.by)
    if not outputs.on_stdout:
        print_traffic(traffic, view.kind, results_console())
    writers: dict[str, Callable[[], None]] = {}
    if (rows := outputs.csv_target) is not None:
        writers[rows] = lambda: outputs.write_rows(traffic_rows(traffic))
    if (json := outputs.json_target) is not None:
        writers[json] = lambda: outputs.write_json(traffic_as_json(traffic))
    if (svg := outputs.svg) is not None:
        writers[str(svg)] = lambda: write_traffic_drawing(traffic, svg)
    if (out := outputs.out) is not None:
        writers[str(out)] = lambda: write_binary(write_npz(traffic_arrays(traffic)), out)
    write_each(writers)
