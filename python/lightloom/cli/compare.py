"""``lightloom compare``: one training job on several fabrics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lightloom.cli.outputs import Outputs
from lightloom.cli.show import run_and_report
from lightloom.demand import REGIMES
from lightloom.errors import InputError
from lightloom.fabric import Counting, MixNet, Oversub
from lightloom.hardware.gpus import gpu_names
from lightloom.inputs.strict import check
from lightloom.packets import TRANSPORTS
from lightloom.schedule import (
    ALL_TO_ALL_STRATEGIES,
    ALLOCATION_METHODS,
    FIRST_ALL_TO_ALL_MODES,
    RECONFIGURE_POLICIES,
    listed,
)
from lightloom.study.compare.scenario import PacketOptions, Scenario

JOB, PLAN, DEMAND = "Job", "Parallelism plan (by default the published one)", "Demand"
FABRICS, COST, STUDY, OUTPUT = "Fabrics", "Cost", "Study", "Output"
PACKETS = "Packets (with --network packet)"

EXAMPLES = """Examples

lightloom compare mixtral-8x22b --gpus 1024 --rate 400 --html report.html

lightloom compare path/to/config.json --gpus 512 --rate 200 --gpu b200 --tp 1 --pp 4 --ep 32

lightloom compare mixtral-8x7b --gpus 128 --rate 100 --fabrics fat-tree,mine.toml --demand pair

lightloom compare mixtral-8x7b --gpus 128 --rate 400 --json - > results.json

More: lightloom models, lightloom fabrics, lightloom fabrics mixnet, lightloom demand mixtral
"""

#: options of one fabric, by the parameter that has them: the fabric, its option
FABRIC_OPTIONS = {
    "ratio": ("oversub", "ratio"),
    "degree": ("mixnet", "degree"),
    "region_servers": ("mixnet", "region_servers"),
    "circuits": ("mixnet", "circuits"),
    "split": ("mixnet", "split"),
    "relay": ("mixnet", "relay"),
    "reconfigure": ("mixnet", "reconfigure"),
    "first": ("mixnet", "first"),
    "reconfig_delay": ("mixnet", "switch_delay_s"),
    "link_up": ("mixnet", "link_up_delay_s"),
}
COUNTING_OPTIONS = {
    "tiers": "tiers",
    "host_links": "host_links",
    "ocs_ports": "ocs_ports_per_nic",
    "nics": "include_nics",
    "fiber_length": "fiber_length_m",
}
#: flags that are not called as the scenario's keys are
FLAGS = {
    "model": "MODEL",
    "cluster.rate_gbps": "--rate",
    "plan.expert_mode": "--ep-mode",
    "demand.source": "--demand",
    "demand.dispatch_element_bytes": "--dispatch-bytes",
    "demand.combine_element_bytes": "--combine-bytes",
    "packets.mtu_bytes": "--mtu",
    "packets.queue_bytes": "--queue",
}


def _option(panel: str, *names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


def _of(panel: str, kind: type[Any], key: str, *names: str, help: str, **more: Any) -> Any:
    """An option whose default is that of a field of ``kind``."""
    default = kind.model_fields[key].default
    if isinstance(default, bool):
        more["show_default"] = "yes" if default else "no"
    elif default is not None:
        more["show_default"] = f"{default:g}" if isinstance(default, float) else str(default)
    return _option(panel, *names, help=help, **more)


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", show_default=False, help="A name of 'lightloom models', or a config.json."
    ),
]
Gpus = Annotated[int, _option(JOB, "--gpus", metavar="N", help="GPUs of the job.")]
Rate = Annotated[
    str, _option(JOB, "--rate", metavar="GBPS", help="Rate of one NIC in Gb/s, per direction.")
]
Gpu = Annotated[
    str, _option(JOB, "--gpu", metavar="NAME", help=f"One of {', '.join(gpu_names())}.")
]
Profile = Annotated[
    Path | None,
    _option(JOB, "--profile", metavar="PATH", help="Your measured operators (TOML or CSV)."),
]
Recompute = Annotated[
    str,
    _option(
        JOB, "--recompute", metavar="WHAT", help="Activations recomputed: none, attention, full."
    ),
]


def _degree(name: str, help: str) -> Any:
    return _option(PLAN, f"--{name}", metavar="N", help=help)


Tp = Annotated[int | None, _degree("tp", "Tensor parallelism.")]
Pp = Annotated[int | None, _degree("pp", "Pipeline stages.")]
Dp = Annotated[
    int | None, _degree("dp", "Replicas of the experts; dense data parallelism is dp x ep.")
]
Ep = Annotated[int | None, _degree("ep", "Expert parallelism.")]
Etp = Annotated[int | None, _degree("etp", "Expert tensor parallelism, folded mode.")]
Cp = Annotated[int | None, _degree("cp", "Context parallelism.")]
Vpp = Annotated[int | None, _degree("vpp", "Model chunks per stage: interleaved 1F1B.")]
MicroBatches = Annotated[
    int | None,
    _option(
        PLAN, "--micro-batches", metavar="N", help="Micro-batches per step.", show_default="4 x pp"
    ),
]
MicroBatchSize = Annotated[
    int | None, _degree("micro-batch-size", "Sequences per micro-batch of a dense rank.")
]
SeqLen = Annotated[int | None, _degree("seq-len", "Tokens per sequence.")]
Zero1 = Annotated[
    bool | None, _option(PLAN, "--zero1/--no-zero1", help="Shard the optimiser (ZeRO-1).")
]
EpMode = Annotated[
    str | None,
    _option(PLAN, "--ep-mode", metavar="MODE", help="EP as its own 'axis', or 'folded' into DP."),
]
PpLayout = Annotated[
    str | None,
    _option(
        PLAN,
        "--pp-layout",
        metavar="N,N,...",
        help="Layers per virtual stage, such as 16,15,15,15.",
        show_default="balanced",
    ),
]
Demand = Annotated[
    str,
    _option(
        DEMAND,
        "--demand",
        metavar="REGIME|PATH",
        help=f"{', '.join(REGIMES)}; a token matrix, or a routing log (.jsonl).",
    ),
]
Resample = Annotated[
    bool, _option(DEMAND, "--resample", help="Draw the tokens of a log with replacement.")
]
Scale = Annotated[
    bool, _option(DEMAND, "--scale", help="Scale a token matrix to the tokens of the job.")
]
Deduplicate = Annotated[
    bool, _option(DEMAND, "--deduplicate", help="One copy of a token per destination server.")
]
DispatchBytes = Annotated[
    float,
    _option(DEMAND, "--dispatch-bytes", metavar="B", help="Bytes per element: FP8 1, BF16 2."),
]
CombineBytes = Annotated[
    float, _option(DEMAND, "--combine-bytes", metavar="B", help="Bytes per element of combine.")
]
Fabrics = Annotated[
    str,
    _option(
        FABRICS,
        "--fabrics",
        metavar="NAME,...",
        help="Names of 'lightloom fabrics', or TOML files of your own.",
        show_default="all of them",
    ),
]
AllToAll = Annotated[
    str,
    _option(
        FABRICS, "--all-to-all", metavar="HOW", help=f"{listed(['best', *ALL_TO_ALL_STRATEGIES])}."
    ),
]
Ratio = Annotated[
    float | None,
    _of(FABRICS, Oversub, "ratio", "--ratio", metavar="R", help="oversub: R to 1 at the ToR."),
]
Degree = Annotated[
    int | None,
    _of(FABRICS, MixNet, "degree", "--degree", metavar="N", help="mixnet: circuits per server."),
]
RegionServers = Annotated[
    int | None,
    _option(
        FABRICS,
        "--region-servers",
        metavar="N",
        help="mixnet: servers per region.",
        show_default="an EP group",
    ),
]
Circuits = Annotated[
    str | None,
    _of(
        FABRICS, MixNet, "circuits", "--circuits", metavar="WHICH",
        help=f"mixnet: {listed(ALLOCATION_METHODS)}.",
    ),
]  # fmt: skip
Split = Annotated[
    bool | None,
    _of(
        FABRICS, MixNet, "split", "--split/--no-split",
        help="mixnet: a pair's excess spills to the packet fabric.",
    ),
]  # fmt: skip
Relay = Annotated[
    bool | None,
    _of(
        FABRICS, MixNet, "relay", "--relay/--no-relay",
        help="mixnet: servers pass bytes of others on where that is faster.",
    ),
]  # fmt: skip
Reconfigure = Annotated[
    str | None,
    _of(
        FABRICS, MixNet, "reconfigure", "--reconfigure", metavar="WHEN",
        help=f"mixnet: {listed(RECONFIGURE_POLICIES)}.",
    ),
]  # fmt: skip
Policies = Annotated[
    bool,
    _option(STUDY, "--policies/--no-policies", help="Try every --reconfigure on the first sample."),
]
First = Annotated[
    str | None,
    _of(
        FABRICS, MixNet, "first", "--first", metavar="HOW",
        help=f"mixnet: the first all-to-all of forward: {listed(FIRST_ALL_TO_ALL_MODES)}.",
    ),
]  # fmt: skip
ReconfigDelay = Annotated[
    str | None,
    _option(
        FABRICS, "--reconfig-delay", metavar="TIME",
        help="mixnet: '25 ms', 'measured' or 'measured-p99'.", show_default="of its technology",
    ),
]  # fmt: skip
LinkUp = Annotated[
    str | None,
    _of(
        FABRICS, MixNet, "link_up_delay_s", "--link-up", metavar="TIME",
        help="mixnet: bring-up of a new link: '1 s' or 'measured'.",
    ),
]  # fmt: skip
Prices = Annotated[
    Path | None,
    _option(COST, "--prices", metavar="PATH", help="Prices (TOML) instead of the built-in."),
]
Power = Annotated[
    Path | None,
    _option(COST, "--power", metavar="PATH", help="Powers (TOML) instead of the built-in."),
]
Tiers = Annotated[
    str | None,
    _of(COST, Counting, "tiers", "--tiers", metavar="N", help="Tiers of switches: 1, 2, 3, fit."),
]
HostLinks = Annotated[
    str | None,
    _of(
        COST, Counting, "host_links", "--host-links", metavar="KIND", help="transceiver, dac, aoc."
    ),
]
OcsPorts = Annotated[
    int | None,
    _of(
        COST, Counting, "ocs_ports_per_nic", "--ocs-ports", metavar="N",
        help="Ports of a circuit switch charged per NIC: 1 or 2.",
    ),
]  # fmt: skip
Nics = Annotated[
    bool | None,
    _of(COST, Counting, "include_nics", "--nics/--no-nics", help="NICs cost, too."),
]
FiberLength = Annotated[
    str | None,
    _option(
        COST, "--fiber-length", metavar="M", help="Mean length of a fiber in meters.",
        show_default="of the prices",
    ),
]  # fmt: skip
NetworkModel = Annotated[
    str,
    _option(STUDY, "--network", metavar="MODEL", help="flow; or packet: phases as packets."),
]
Transport = Annotated[
    str | None,
    _of(
        PACKETS,
        PacketOptions,
        "transport",
        "--transport",
        metavar="NAME",
        help=f"Of packets: {listed(TRANSPORTS)}.",
    ),
]
Mtu = Annotated[
    str | None,
    _option(
        PACKETS, "--mtu", metavar="SIZE", help="Payload of a packet: 4kB.",
        show_default="the transport's",
    ),
]  # fmt: skip
Queue = Annotated[
    str | None,
    _option(
        PACKETS, "--queue", metavar="SIZE", help="Data that a port queues, or 'unlimited'.",
        show_default="the transport's",
    ),
]  # fmt: skip
PhaseSample = Annotated[
    int | None,
    _option(
        PACKETS, "--phases", metavar="N", show_default="all of them",
        help="Distinct phases simulated, of each purpose and fabric.",
    ),
]  # fmt: skip
Full = Annotated[
    bool | None, _option(PACKETS, "--full", help="Go on though it takes over ten minutes.")
]
Steps = Annotated[
    int, _option(STUDY, "--steps", metavar="N", help="Training steps per seed; demand drifts.")
]
Seeds = Annotated[int, _option(STUDY, "--seeds", metavar="N", help="Seeds of the demand.")]
Seed = Annotated[int, _option(STUDY, "--seed", metavar="N", help="The first seed.")]
ComputeSpread = Annotated[
    float,
    _option(STUDY, "--compute-spread", metavar="SHARE", help="By how much compute may be off, +-."),
]
Html = Annotated[Path | None, _option(OUTPUT, "--html", metavar="PATH", help="A page with plots.")]
Json = Annotated[
    str | None, _option(OUTPUT, "--json", metavar="PATH|-", help="All results; - is stdout.")
]
Csv = Annotated[
    str | None, _option(OUTPUT, "--csv", metavar="PATH|-", help="A row per run, as they end.")
]
Parquet = Annotated[
    Path | None, _option(OUTPUT, "--parquet", metavar="PATH", help="The same rows.")
]
Trace = Annotated[
    Path | None,
    _option(OUTPUT, "--trace", metavar="PATH", help="A Perfetto timeline: GPUs and circuits."),
]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(name="compare", epilog=EXAMPLES)(compare)


def compare(  # noqa: PLR0913 - one parameter per option is how typer reads a command line
    model: Model,
    gpus: Gpus,
    rate: Rate,
    gpu: Gpu = "a100",
    profile: Profile = None,
    recompute: Recompute = "none",
    tp: Tp = None,
    pp: Pp = None,
    dp: Dp = None,
    ep: Ep = None,
    etp: Etp = None,
    cp: Cp = None,
    vpp: Vpp = None,
    micro_batches: MicroBatches = None,
    micro_batch_size: MicroBatchSize = None,
    seq_len: SeqLen = None,
    zero1: Zero1 = None,
    ep_mode: EpMode = None,
    pp_layout: PpLayout = None,
    demand: Demand = "mixtral",
    resample: Resample = False,
    scale: Scale = False,
    deduplicate: Deduplicate = False,
    dispatch_bytes: DispatchBytes = 2.0,
    combine_bytes: CombineBytes = 2.0,
    fabrics: Fabrics = "fat-tree,oversub,rail,topoopt,mixnet",
    all_to_all: AllToAll = "best",
    ratio: Ratio = None,
    degree: Degree = None,
    region_servers: RegionServers = None,
    circuits: Circuits = None,
    split: Split = None,
    relay: Relay = None,
    reconfigure: Reconfigure = None,
    first: First = None,
    reconfig_delay: ReconfigDelay = None,
    link_up: LinkUp = None,
    prices: Prices = None,
    power: Power = None,
    tiers: Tiers = None,
    host_links: HostLinks = None,
    ocs_ports: OcsPorts = None,
    nics: Nics = None,
    fiber_length: FiberLength = None,
    network: NetworkModel = "flow",
    transport: Transport = None,
    mtu: Mtu = None,
    queue: Queue = None,
    phases: PhaseSample = None,
    full: Full = None,
    steps: Steps = 1,
    seeds: Seeds = 3,
    seed: Seed = 0,
    compute_spread: ComputeSpread = 0.1,
    policies: Policies = True,
    html: Html = None,
    json: Json = None,
    csv: Csv = None,
    parquet: Parquet = None,
    trace: Trace = None,
) -> None:
    """Compare fabrics for one training job: time, cost, power, and where the time goes."""
    given = dict(locals())
    outputs = Outputs(html=html, json=json, csv=csv, parquet=parquet, trace=trace)
    outputs.check()
    run_and_report(scenario_from_options(given), outputs)


def scenario_from_options(given: dict[str, Any]) -> Scenario:
    """Collect the options of the command line into a scenario.

    Raises
    ------
    InputError
        If a value is of the wrong kind; fabric options are checked by their fabric.
    """
    plan = _present(given, "tp pp dp ep etp cp vpp micro_batches micro_batch_size seq_len zero1")
    if given["ep_mode"] is not None:
        plan["expert_mode"] = given["ep_mode"]
    if given["pp_layout"] is not None:
        plan["pp_layout"] = _whole_numbers(given["pp_layout"])
    fabrics = tuple(part.strip() for part in given["fabrics"].split(",") if part.strip())
    values: dict[str, Any] = {
        **_present(given, "model gpus steps seeds seed compute_spread recompute network policies"),
        **_present(given, "prices power"),
        "fabrics": fabrics,
        "cluster": {
            "gpu": given["gpu"],
            "rate_gbps": given["rate"],
            **_present(given, "profile"),
        },
        "plan": plan,
        "demand": {
            "source": given["demand"],
            **_present(given, "resample scale deduplicate"),
            "dispatch_element_bytes": given["dispatch_bytes"],
            "combine_element_bytes": given["combine_bytes"],
        },
        "fabric_options": _fabric_options(given, fabrics),
        "counting": _counting(given),
    }
    if packets := _packets(given):
        values["packets"] = packets
    return check(Scenario, values, "", call=_flag)


def _present(given: dict[str, Any], names: str) -> dict[str, Any]:
    """The options among ``names`` that were given, or have a default."""
    return {name: given[name] for name in names.split() if given[name] is not None}


def _flag(key: str) -> str:
    """The flag that a key of the scenario comes from."""
    name = FLAGS.get(key)
    # an entry of a list, such as plan.pp_layout.0, is called as the list
    own = key.rstrip("0123456789.").rpartition(".")[2]
    return name or f"--{own.replace('_', '-')}"


def _whole_numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"--pp-layout {text[:60]}: expected numbers of layers such as 16,15,15,15"
        ) from None


def _fabric_options(given: dict[str, Any], fabrics: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Options by fabric, in the form of a study; ``all`` is for every fabric."""
    options: dict[str, dict[str, Any]] = {}
    if given["all_to_all"] != "best":
        options["all"] = {"all_to_all": given["all_to_all"]}
    for parameter, (fabric, option) in FABRIC_OPTIONS.items():
        if given[parameter] is None:
            continue
        if fabric not in fabrics:
            raise InputError(
                f"--{parameter.replace('_', '-')} is for {fabric}, which is not compared; add "
                f"{fabric} to --fabrics (a fabric's own TOML file sets {option} itself)"
            )
        options.setdefault(fabric, {})[option] = given[parameter]
    return options


def _packets(given: dict[str, Any]) -> dict[str, Any]:
    options = {"mtu": "mtu_bytes", "queue": "queue_bytes"}
    options |= {name: name for name in ("transport", "phases", "full")}
    return {key: given[name] for name, key in options.items() if given[name] is not None}


def _counting(given: dict[str, Any]) -> dict[str, Any]:
    found = {
        option: given[parameter]
        for parameter, option in COUNTING_OPTIONS.items()
        if given[parameter] is not None
    }
    if str(found.get("tiers", "")).isdecimal():
        found["tiers"] = int(found["tiers"])
    return found
