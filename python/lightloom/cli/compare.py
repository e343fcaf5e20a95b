"""``lightloom compare``: one training job on several fabrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import checked_outputs, comparison_outputs
from lightloom.cli.settings import apply_settings
from lightloom.errors import InputError
from lightloom.fabric.fabric_options import FabricOptions
from lightloom.fabric.mixnet_options import MixNetOptions
from lightloom.inputs.strict import Strict
from lightloom.study.compare.scenario import (
    ClusterOptions,
    ComputeOptions,
    DemandOptions,
    KeptOptions,
    OrderOptions,
    PacketOptions,
    PlanOptions,
    ProgramOptions,
    Scenario,
)

EXAMPLES = (
    "lightloom compare mixtral-8x22b --gpus 1024 --rate 400 --html report.html",
    "lightloom compare path/to/config.json --gpus 512 --rate 200 --gpu b200 --tp 1 --pp 4 --ep 32",
    "lightloom compare mixtral-8x7b --gpus 128,256,512 --rate 200,400 --html scaling.html",
    "lightloom compare --workload trace.json --rate 400 --gpu h100 --fabrics fat-tree,mixnet",
)


class Settings(Strict):
    """What ``--set`` gives."""

    set: tuple[str, ...] = Field(
        (),
        description="Option of a fabric (mixnet.split=off) or of a study; repeatable.",
    )


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(_job(), _plan(), _overlap(), _demand(), _fabrics(), _cost(), _simulation(),
                _packets(), comparison_outputs()),
        run=compare,
        examples=EXAMPLES,
        needed=("model", "gpus"),
    )  # fmt: skip


def _job() -> Panel:
    return Panel(
        "Job",
        (
            option(Scenario, "model", "MODEL", common=True),
            option(Scenario, "workload", common=True),
            option(Scenario, "gpus", common=True, metavar="N,..."),
            option(Scenario, "cluster.rate_gbps", common=True, metavar="Gb/s,..."),
            option(Scenario, "cluster.gpu", common=True, metavar="NAME,..."),
            option(Scenario, "cluster.gpus_per_server"),
            option(Scenario, "demand.source", "--demand", common=True, metavar="NAME|X|PATH"),
            option(Scenario, "network", common=True),
            option(Scenario, "seeds"),
            option(Scenario, "step_tokens"),
        ),
    )


def _plan() -> Panel:
    rest = (
        *("dp", "cp", "context_parallel", "etp", "vpp", "micro_batch_size", "seq_len"),
        *("zero1", "pp_layout"),
    )
    return Panel(
        "Parallelism plan (by default the published one, or --plan search)",
        (
            option(Scenario, "plan.source", "--plan"),
            *(option(Scenario, f"plan.{name}", common=True) for name in ("tp", "pp", "ep")),
            option(Scenario, "plan.micro_batches"),
            option(Scenario, "plan.global_batch_size", metavar="N,..."),
            *(option(Scenario, f"plan.{name}") for name in rest),
            option(Scenario, "plan.expert_mode", "--ep-mode"),
        ),
    )


def _overlap() -> Panel:
    names = (
        *("schedule", "overlap_all_to_all", "overlap_chunks", "overlap_shared_experts"),
        *("overlap_tp", "communication_sms", "overlap_gradients", "overlap_parameters"),
    )
    return Panel(
        "Overlap and bytes (by default those of the published run)",
        (
            *(option(Scenario, f"plan.{name}") for name in names),
            option(Scenario, "demand.dispatch_element_bytes", "--dispatch-bytes"),
            option(Scenario, "demand.combine_element_bytes", "--combine-bytes"),
            option(Scenario, "gradient_bytes", "--gradient-bytes"),
            option(Scenario, "parameter_bytes", "--parameter-bytes"),
        ),
    )


def _demand() -> Panel:
    return Panel(
        "Demand",
        (
            option(Scenario, "demand.resample"),
            option(Scenario, "demand.scale"),
            option(Scenario, "demand.capacity_factor"),
            option(Scenario, "demand.dispatcher"),
        ),
    )


def _fabrics() -> Panel:
    mixnet = "fabric_options.mixnet"
    fixed = option(MixNetOptions, "fixed_s", common=True, below=mixnet)
    return Panel(
        "Fabrics",
        (
            option(Scenario, "fabrics", common=True),
            option(Scenario, "designs", common=True),
            option(Settings, "set", common=True, repeats=True, metavar="KEY=VALUE"),
            option(MixNetOptions, "allocator", common=True, below=mixnet),
            option(MixNetOptions, "when", below=mixnet),
            replace(fixed, aliases=("--reconfiguration-delay",)),
            option(MixNetOptions, "relay", below=mixnet),
            option(FabricOptions, "all_to_all", below="fabric_options.all"),
        ),
    )


def _cost() -> Panel:
    return Panel("Cost", (option(Scenario, "prices"), option(Scenario, "power")))


def _simulation() -> Panel:
    return Panel(
        "Compute and samples",
        (
            option(Scenario, "compute.precision"),
            option(Scenario, "compute.permutation"),
            option(Scenario, "compute.cuda_graphs"),
            option(Scenario, "cluster.profile"),
            option(Scenario, "recompute"),
            option(Scenario, "memory_check"),
            option(Scenario, "seed"),
            option(Scenario, "steps"),
            option(Scenario, "predictor"),
            option(Scenario, "policies"),
            option(Scenario, "imbalances"),
            option(Scenario, "whole_steps"),
            option(Scenario, "fail", metavar="PART,..."),
            option(Scenario, "compute_spread"),
        ),
    )


def _packets() -> Panel:
    names = ("transport", "mtu_bytes", "queue_bytes", "phases", "full")
    words = {"phases": "whole|all|N"}
    return Panel(
        "Packets (with --network packet)",
        tuple(option(PacketOptions, n, below="packets", metavar=words.get(n, "")) for n in names),
    )


def compare(call: CommandCall) -> None:
    """Compare fabrics, write the files and print the tables."""
    from lightloom.cli.points import BATCHES, LISTS, given_points, lists_of, run_points
    from lightloom.cli.show import run_and_report

    outputs = checked_outputs(call)
    lists = lists_of(call, LISTS)
    if lists or lists_of(call, [BATCHES]):
        run_points([scenario_from_options(point) for point in given_points(call, lists)], outputs)
    else:
        run_and_report(scenario_from_options(call), outputs)


def scenario_from_options(call: CommandCall, study: Scenario | None = None) -> Scenario:
    """Collect the options of the command line into a scenario.

    Parameters
    ----------
    call
        The options.
    study
        What says everything that they do not.

    Raises
    ------
    InputError
        If a value is of the wrong type; fabric options are checked by their fabric.
    """
    from lightloom.fabric.read import fabric_names

    _apply_settings(call)
    if study is None:
        _check_job(call)
    else:
        _begin_with(call, study)
    fabrics = fabric_names(call.tables.get("fabrics", Scenario.model_fields["fabrics"].default))
    for fabric, options in call.tables.get("fabric_options", {}).items():
        if fabric not in {*fabrics, "all"}:
            name = next(iter(options))
            key = f"fabric_options.{fabric}.{name}"
            called = f"--set {fabric}.{name}" if key in call.settings else call.flag(key)
            raise InputError(
                f"{called} is for {fabric}, which is not compared; add {fabric} to --fabrics "
                f"(a custom fabric sets {name} in its TOML file)"
            )
    return call.build(Scenario)


#: what results record of a file, by what names it
RECORDED = {"model": "model_shape", "prices": "price_list", "power": "power_list"}


def _begin_with(call: CommandCall, study: Scenario) -> None:
    """Add what a study says and the command line does not."""
    from lightloom.fabric.read import fabric_names

    def add(tables: dict[str, Any], more: dict[str, Any]) -> None:
        for key, value in more.items():
            if isinstance(value, dict) and isinstance(tables.get(key, {}), dict):
                add(tables.setdefault(key, {}), value)
            else:
                tables.setdefault(key, value)

    values = study.model_dump(exclude_unset=True)
    if "fabrics" in call.tables:
        kept = {*fabric_names(call.tables["fabrics"]), "all"}
        options = values.get("fabric_options", {})
        values["fabric_options"] = {name: options[name] for name in options if name in kept}
    for file, content in RECORDED.items():
        if call.has(file):
            values.pop(content, None)
    add(call.tables, values)


def _check_job(call: CommandCall) -> None:
    """Say in words of the command line what a scenario would say in those of a file.

    Raises
    ------
    InputError
        If no job is given, or options of packets for flows.
    """
    if not call.has("model") and not call.has("workload"):
        raise InputError(
            "no job is given: expected a model (a name from 'lightloom models', or the path of a "
            f"config.json), or a trace or table of phases with --workload; "
            f"for example: {EXAMPLES[0]}"
        )
    if call.has("model") and not call.has("workload") and not call.has("gpus"):
        raise InputError("--gpus is missing; add it, such as --gpus 1024")
    packets = call.tables.get("packets", {})
    if packets and call.tables.get("network", "flow") == "flow":
        flag = call.flag(f"packets.{next(iter(packets))}")
        raise InputError(f"{flag} is for packets; add --network packet")


def _apply_settings(call: CommandCall) -> None:
    """Add what ``--set`` gives to the tables."""
    from lightloom.fabric import Counting

    study: dict[str, type[Strict]] = {
        "cluster": ClusterOptions,
        "compute": ComputeOptions,
        "memory": KeptOptions,
        "plan": PlanOptions,
        "demand": DemandOptions,
        "counting": Counting,
        "packets": PacketOptions,
        "traffic": OrderOptions,
        "program": ProgramOptions,
    }
    apply_settings(call, {"all": FabricOptions, **study}, "mixnet.ports=4")
