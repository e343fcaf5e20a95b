"""``lightloom memory``: the memory of a job per GPU, by pipeline stage and part."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option, put
from lightloom.cli.outputs import checked_outputs, json_output
from lightloom.cli.settings import apply_settings
from lightloom.errors import InputError
from lightloom.inputs.strict import Strict, Switch, check
from lightloom.study.compare.scenario import (
    ComputeOptions,
    KeptOptions,
    PlanOptions,
    Scenario,
)

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = (
    "lightloom memory mixtral-8x22b --gpus 1024 --gpu h100",
    "lightloom memory deepseek-v3 --tp 1 --pp 16 --ep 64 --gpu h200 --recompute full",
    "lightloom memory deepseek-v3 --gpus 2048 --gpu h800 --formulas --expand",
    "lightloom memory deepseek-v3 --gpus 2048 --gpu h800 --set plan.mtp=1",
    "lightloom memory path/to/config.json --tp 2 --pp 4 --ep 8 --micro-batch-size 2 --json -",
)
NOTES = (
    "Without --gpus it is one replica, of the degrees that are given or published. "
    "The steps of --expand are on a fat-tree of 400 Gb/s, unless --rate says otherwise. "
    "Left out: workspace of kernels and communication libraries, fragmentation, the framework."
)
#: what the memory depends on, of the options of a plan
PLAN = (
    *("dp", "cp", "etp", "vpp", "micro_batches", "seq_len", "zero1", "pp_layout", "schedule"),
)  # fmt: skip


class MemoryExtras(Strict):
    """What is shown beside the memory of the plan."""

    formulas: Switch = Field(
        False, description="Add what MoNTA's formulas say, as printed and corrected."
    )
    expand: Switch = Field(
        False, description="Add how the cluster grows for sequences of up to 1M tokens."
    )


#: tables of a job that its memory depends on
TABLES: dict[str, type[Strict]] = {
    "plan": PlanOptions,
    "compute": ComputeOptions,
    "memory": KeptOptions,
}


def command() -> Command:
    """Describe the command."""
    from lightloom.cli.compare import Settings

    return Command(
        panels=(
            Panel(
                "Job",
                (
                    option(Scenario, "model", "MODEL", common=True),
                    option(Scenario, "gpus", common=True),
                    option(Scenario, "cluster.gpu", common=True),
                    option(Scenario, "recompute", common=True),
                    option(Scenario, "cluster.gpus_per_server"),
                    replace(option(Scenario, "cluster.rate_gbps"), optional=True),
                ),
            ),
            Panel(
                "Parallelism plan (by default the published one)",
                (
                    *(option(Scenario, f"plan.{name}", common=True) for name in ("tp", "pp", "ep")),
                    option(Scenario, "plan.micro_batch_size", common=True),
                    *(option(Scenario, f"plan.{name}") for name in PLAN),
                    option(Scenario, "plan.expert_mode", "--ep-mode"),
                    option(Settings, "set", repeats=True, metavar="KEY=VALUE"),
                ),
            ),
            Panel(
                "Bytes (by default those of the published run)",
                (
                    option(Scenario, "compute.precision"),
                    option(Scenario, "compute.state_precision"),
                    option(Scenario, "gradient_bytes", "--gradient-bytes"),
                    option(Scenario, "parameter_bytes", "--parameter-bytes"),
                    *(option(Scenario, f"memory.{name}") for name in KeptOptions.model_fields),
                ),
            ),
            Panel(
                "Output",
                (
                    option(MemoryExtras, "formulas", common=True, below="shown"),
                    option(MemoryExtras, "expand", common=True, below="shown"),
                    json_output(),
                ),
            ),
        ),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def scenario_of(call: CommandCall) -> Scenario:
    """The scenario whose memory is wanted; without a number of GPUs one replica of its degrees.

    Raises
    ------
    InputError
        If an option cannot be used.
    """
    from lightloom.workload.programs.known import load_layers

    apply_settings(call, TABLES, "plan.mtp=1")
    if call.has("fabric_options"):
        raise InputError("memory depends on no fabric; leave options of fabrics out of --set")
    if not call.has("cluster.rate_gbps"):
        # which nothing here depends on but the steps of an expansion
        put(call.tables, "cluster.rate_gbps", 400.0)
    name = call.tables.get("model")
    if name is None:
        raise InputError("MODEL is missing; add it, such as lightloom memory mixtral-8x22b")
    if call.has("gpus"):
        return call.build(Scenario)
    from lightloom.study.compare.memory import one_replica

    values = call.tables.get("plan", {})
    plan = check(PlanOptions, values, "", call=lambda key: call.flag(f"plan.{key}"))
    gpus, filled = one_replica(load_layers(name), plan)
    put(call.tables, "gpus", gpus)
    return call.build(Scenario).model_copy(update={"plan": filled})


def _run(call: CommandCall) -> None:
    from lightloom.report.memory_extras import extras_as_json, print_extras
    from lightloom.report.memory_table import memory_as_json, print_memory
    from lightloom.study.compare.expansion import expansion
    from lightloom.study.compare.memory import formula_job, job_memory

    outputs = checked_outputs(call)
    shown = call.take(MemoryExtras, "shown")
    memory = job_memory(scenario_of(call))
    job = formula_job(memory) if shown.formulas else None
    grown = expansion(memory) if shown.expand else None

    def show(console: Console) -> None:
        print_memory(memory, console)
        print_extras(job, grown, console)

    outputs.print_and_write(show, lambda: {**memory_as_json(memory), **extras_as_json(job, grown)})
