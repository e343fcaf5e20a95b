"""``lightloom compare``: one training job on several fabrics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lightloom.cli.show import run_and_report
from lightloom.errors import InputError
from lightloom.study.scenario import Scenario, check

JOB, PLAN, DEMAND = "Job", "Parallelism plan", "Demand"
FABRICS, STUDY, OUTPUT = "Fabrics", "Study", "Output"


def _option(panel: str, *names: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        name="compare",
        epilog="Example: lightloom compare mixtral-8x22b --gpus 1024 --rate 400 "
        "--fabrics fat-tree,oversub,rail,topoopt,mixnet --html report.html",
    )(compare)


def compare(  # noqa: PLR0913 - one parameter per option is how typer reads a command line
    model: Annotated[str, typer.Argument(help="Catalogue name, or path to a config.json.")],
    gpus: Annotated[int, _option(JOB, "--gpus", help="GPUs of the job.")],
    rate: Annotated[str, _option(JOB, "--rate", help="Rate of one NIC [Gb/s].", metavar="GBPS")],
    gpu: Annotated[str, _option(JOB, "--gpu", help="GPU: a100, h100, h200, h800, b200.")] = "a100",
    profile: Annotated[
        Path | None, _option(JOB, "--profile", help="Measured operator efficiencies (TOML).")
    ] = None,
    recompute: Annotated[
        str, _option(JOB, "--recompute", help="Activations recomputed: none, attention, full.")
    ] = "none",
    tp: Annotated[int | None, _option(PLAN, "--tp", help="Tensor parallelism.")] = None,
    pp: Annotated[int | None, _option(PLAN, "--pp", help="Pipeline stages.")] = None,
    dp: Annotated[
        int | None,
        _option(PLAN, "--dp", help="Expert replicas; dense data parallelism is dp x ep."),
    ] = None,
    ep: Annotated[int | None, _option(PLAN, "--ep", help="Expert parallelism.")] = None,
    etp: Annotated[
        int | None, _option(PLAN, "--etp", help="Expert tensor parallelism (folded mode).")
    ] = None,
    cp: Annotated[int | None, _option(PLAN, "--cp", help="Context parallelism.")] = None,
    vpp: Annotated[
        int | None, _option(PLAN, "--vpp", help="Model chunks per stage (interleaved 1F1B).")
    ] = None,
    micro_batches: Annotated[
        int | None, _option(PLAN, "--micro-batches", help="Per step; 4 x pp by default.")
    ] = None,
    micro_batch_size: Annotated[
        int | None, _option(PLAN, "--micro-batch-size", help="Sequences per micro-batch.")
    ] = None,
    seq_len: Annotated[int | None, _option(PLAN, "--seq-len", help="Tokens per sequence.")] = None,
    zero1: Annotated[
        bool | None, _option(PLAN, "--zero1/--no-zero1", help="Shard the optimiser (ZeRO-1).")
    ] = None,
    ep_mode: Annotated[
        str | None, _option(PLAN, "--ep-mode", help="EP as its own 'axis', or 'folded' into DP.")
    ] = None,
    pp_layout: Annotated[
        str | None, _option(PLAN, "--pp-layout", help="Layers per stage, such as 16,15,15,15.")
    ] = None,
    demand: Annotated[
        str,
        _option(
            DEMAND,
            "--demand",
            help="mixtral, pair, sparse, uniform; a token matrix (.txt) or routing log (.jsonl).",
        ),
    ] = "mixtral",
    resample: Annotated[
        bool, _option(DEMAND, "--resample", help="Draw tokens from a short log with replacement.")
    ] = False,
    scale: Annotated[
        bool, _option(DEMAND, "--scale", help="Scale a token matrix to the job's tokens.")
    ] = False,
    deduplicate: Annotated[
        bool, _option(DEMAND, "--deduplicate", help="One copy of a token per destination server.")
    ] = False,
    dispatch_bytes: Annotated[
        float, _option(DEMAND, "--dispatch-bytes", help="Bytes per element (FP8: 1, BF16: 2).")
    ] = 2.0,
    combine_bytes: Annotated[
        float, _option(DEMAND, "--combine-bytes", help="Bytes per element of combine.")
    ] = 2.0,
    fabrics: Annotated[
        str, _option(FABRICS, "--fabrics", help="Names or TOML files, separated by commas.")
    ] = "fat-tree,oversub,rail,topoopt,mixnet",
    all_to_all: Annotated[
        str, _option(FABRICS, "--all-to-all", help="best, flat, rail, hierarchical.")
    ] = "best",
    oversubscription: Annotated[
        float | None, _option(FABRICS, "--ratio", help="Oversubscription of 'oversub' [3].")
    ] = None,
    degree: Annotated[
        int | None, _option(FABRICS, "--degree", help="MixNet: optical links per server [6].")
    ] = None,
    region_servers: Annotated[
        int | None, _option(FABRICS, "--region-servers", help="MixNet: servers per region.")
    ] = None,
    circuits: Annotated[
        str | None,
        _option(FABRICS, "--circuits", help="MixNet: paper, reference, best, static [best]."),
    ] = None,
    split: Annotated[
        bool | None,
        _option(FABRICS, "--split/--no-split", help="MixNet: excess spills to the EPS."),
    ] = None,
    reconfigure: Annotated[
        str | None, _option(FABRICS, "--reconfigure", help="MixNet: never, always [always].")
    ] = None,
    first: Annotated[
        str | None,
        _option(FABRICS, "--first", help="MixNet: the first all-to-all: reuse, block [reuse]."),
    ] = None,
    reconfig_delay: Annotated[
        str | None, _option(FABRICS, "--reconfig-delay", help="MixNet: '25 ms', or 'measured'.")
    ] = None,
    link_up: Annotated[
        str | None,
        _option(FABRICS, "--link-up", help="MixNet: bring-up, or 'measured' [0 s]."),
    ] = None,
    network: Annotated[str, _option(STUDY, "--network", help="flow (packet: later).")] = "flow",
    steps: Annotated[int, _option(STUDY, "--steps", help="Training steps per seed.")] = 1,
    seeds: Annotated[int, _option(STUDY, "--seeds", help="Seeds of the demand.")] = 3,
    seed: Annotated[int, _option(STUDY, "--seed", help="The first seed.")] = 0,
    compute_spread: Annotated[
        float, _option(STUDY, "--compute-spread", help="Compute speed is varied by this share.")
    ] = 0.1,
    prices: Annotated[
        Path | None, _option(STUDY, "--prices", help="Price list (TOML) instead of the built-in.")
    ] = None,
    power: Annotated[
        Path | None, _option(STUDY, "--power", help="Power list (TOML) instead of the built-in.")
    ] = None,
    html: Annotated[Path | None, _option(OUTPUT, "--html", help="A page with plots.")] = None,
    json: Annotated[str | None, _option(OUTPUT, "--json", help="Results; - is stdout.")] = None,
    csv: Annotated[Path | None, _option(OUTPUT, "--csv", help="Rows as runs end.")] = None,
    parquet: Annotated[Path | None, _option(OUTPUT, "--parquet", help="The same rows.")] = None,
    trace: Annotated[
        Path | None, _option(OUTPUT, "--trace", help="A Perfetto timeline: GPUs and circuits.")
    ] = None,
) -> None:
    """Compare fabrics for one training job: time, cost, power, and where the time goes."""
    given = dict(locals())
    scenario = scenario_from_options(given)
    run_and_report(scenario, html=html, json_path=json, csv=csv, parquet=parquet, trace=trace)


def scenario_from_options(given: dict[str, Any]) -> Scenario:
    """Collect the options of the command line into a scenario.

    Raises
    ------
    InputError
        If a value is of the wrong kind; fabric options are checked by their fabric.
    """
    plan = {
        name: given[name]
        for name in ("tp", "pp", "dp", "ep", "etp", "cp", "vpp", "micro_batches",
                     "micro_batch_size", "seq_len", "zero1")
        if given[name] is not None
    }  # fmt: skip
    if given["ep_mode"] is not None:
        plan["expert_mode"] = given["ep_mode"]
    if given["pp_layout"] is not None:
        plan["pp_layout"] = _whole_numbers(given["pp_layout"], "--pp-layout")
    values: dict[str, Any] = {
        "model": given["model"],
        "gpus": given["gpus"],
        "fabrics": tuple(part.strip() for part in given["fabrics"].split(",") if part.strip()),
        "cluster": {
            "gpu": given["gpu"],
            "rate_gbps": given["rate"],
            **({"profile": given["profile"]} if given["profile"] else {}),
        },
        "plan": plan,
        "demand": {
            "source": given["demand"],
            "resample": given["resample"],
            "scale": given["scale"],
            "deduplicate": given["deduplicate"],
            "dispatch_element_bytes": given["dispatch_bytes"],
            "combine_element_bytes": given["combine_bytes"],
        },
        "fabric_options": _fabric_options(given),
    }
    for name in ("steps", "seeds", "seed", "compute_spread", "recompute", "network", "prices",
                 "power"):  # fmt: skip
        values[name] = given[name]
    scenario: Scenario = check(Scenario, values, "command line")
    return scenario


def _whole_numbers(text: str, name: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{name}: expected numbers such as 16,15,15,15, got {text!r}") from None


def _fabric_options(given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    mixnet = {
        "degree": given["degree"],
        "region_servers": given["region_servers"],
        "circuits": given["circuits"],
        "split": given["split"],
        "reconfigure": given["reconfigure"],
        "first": given["first"],
        "switch_delay_s": given["reconfig_delay"],
        "link_up_delay_s": given["link_up"],
    }
    options = {
        "mixnet": {name: value for name, value in mixnet.items() if value is not None},
        "oversub": {}
        if given["oversubscription"] is None
        else {"ratio": given["oversubscription"]},
        "all": {} if given["all_to_all"] == "best" else {"all_to_all": given["all_to_all"]},
    }
    return {name: values for name, values in options.items() if values}
