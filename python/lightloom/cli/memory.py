"""``lightloom memory``: the memory of a job per GPU, by pipeline stage and part."""

from __future__ import annotations

from lightloom.cli.options import Command, CommandCall, Panel, option, put
from lightloom.cli.outputs import Outputs, json_panel
from lightloom.errors import InputError
from lightloom.inputs.strict import check
from lightloom.study.compare.scenario import KeptOptions, PlanOptions, Scenario

EXAMPLES = (
    "lightloom memory mixtral-8x22b --gpus 1024 --gpu h100",
    "lightloom memory deepseek-v3 --tp 1 --pp 16 --ep 64 --gpu h200 --recompute full",
    "lightloom memory path/to/config.json --tp 2 --pp 4 --ep 8 --micro-batch-size 2 --json -",
)
NOTES = (
    "Without --gpus it is one replica, of the degrees that are given or published. "
    "Left out: workspace of kernels and communication libraries, fragmentation, the framework."
)
#: what the memory depends on, of the options of a plan
PLAN = (
    *("dp", "cp", "etp", "vpp", "micro_batches", "seq_len", "zero1", "pp_layout", "schedule"),
)  # fmt: skip


def command() -> Command:
    """Describe the command."""
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
                ),
            ),
            Panel(
                "Parallelism plan (by default the published one)",
                (
                    *(option(Scenario, f"plan.{name}", common=True) for name in ("tp", "pp", "ep")),
                    option(Scenario, "plan.micro_batch_size", common=True),
                    *(option(Scenario, f"plan.{name}") for name in PLAN),
                    option(Scenario, "plan.expert_mode", "--ep-mode"),
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
            json_panel(),
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

    # which nothing here depends on
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
    from lightloom.report.memory_table import memory_as_json, print_memory
    from lightloom.study.compare.memory import job_memory

    outputs = call.take(Outputs, "output")
    outputs.check(call.tables)
    memory = job_memory(scenario_of(call))
    outputs.print_and_write(
        lambda console: print_memory(memory, console), lambda: memory_as_json(memory)
    )
