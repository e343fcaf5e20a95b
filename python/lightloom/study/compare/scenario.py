"""What a comparison is about: model, cluster, plan, demand, fabrics, prices.

One strict description serves the command line, ``lightloom run study.toml`` and Python. Every
field has a unit in its name; text may carry its own unit. Unknown keys are refused with a
suggestion. Paths in a study are relative to the folder of its file, so that a study and what it
needs can be moved together and run from anywhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from lightloom.demand import REGIMES
from lightloom.errors import InputError
from lightloom.inputs.formats import parse_toml, read_toml
from lightloom.inputs.strict import (
    File,
    Name,
    Number,
    Strict,
    Switch,
    Whole,
    check,
    quantity,
)
from lightloom.models import catalog
from lightloom.packets.scenario import QueueSize, whole_bytes


class PlanOptions(Strict):
    """Parallelism; what is absent comes from the model's published plan or from the rule."""

    tp: Whole | None = None
    pp: Whole | None = None
    dp: Whole | None = None
    ep: Whole | None = None
    etp: Whole | None = None
    cp: Whole | None = None
    vpp: Whole | None = None
    micro_batches: Whole | None = None
    micro_batch_size: Whole | None = None
    seq_len: Whole | None = None
    zero1: Switch | None = None
    expert_mode: Literal["axis", "folded"] | None = None
    #: layers of each virtual stage, in the order in which a token passes them
    pp_layout: tuple[Annotated[int, Field(strict=True, ge=0, le=10**6)], ...] | None = None


class DemandOptions(Strict):
    """Who sends how many tokens to whom: a regime of the generator, or a file."""

    source: Name = "mixtral"
    #: draw the tokens of a routing log with replacement, for a job larger than the log
    resample: Switch = False
    #: scale a token matrix to the job's tokens per rank
    scale: Switch = False
    #: one copy of a token per destination server
    deduplicate: Switch = False
    dispatch_element_bytes: Annotated[Number, Field(gt=0, le=8)] = 2.0
    combine_element_bytes: Annotated[Number, Field(gt=0, le=8)] = 2.0


class ClusterOptions(Strict):
    """GPUs, servers and links; a fabric's own file may say otherwise for that fabric."""

    gpu: Name = "a100"
    gpus_per_server: Annotated[Whole, Field(le=1024)] = 8
    nics_per_server: Annotated[Whole, Field(le=1024)] = 8
    rate_gbps: Annotated[
        float, quantity("gigabit / second"), Field(gt=0, le=1e5, examples=['"400 Gb/s"'])
    ]
    link_delay_s: Annotated[float, quantity("second"), Field(ge=0, le=1)] = 1e-6
    #: measured operator efficiencies
    profile: File | None = None


class PacketOptions(Strict):
    """How packets are sent where the network is simulated as packets, and how much of it is."""

    transport: Name = "dctcp"
    #: payload of a full packet; the transport's own if absent
    mtu_bytes: Annotated[int, BeforeValidator(whole_bytes), Field(ge=1, le=65_000)] | None = None
    #: data that a port queues, or ``"unlimited"``; the transport's own if absent
    queue_bytes: QueueSize | None = None
    #: distinct phases of each purpose that are simulated per fabric; all if absent
    phases: Whole | None = None
    #: whether to go on if it takes over ten minutes
    full: Switch = False


class Scenario(Strict):
    """One comparison of fabrics for one training job.

    Examples
    --------
    >>> import lightloom
    >>> lightloom.Scenario(model="mixtral-8x7b", gpus=128, cluster={"rate_gbps": "400 Gb/s"}).seeds
    3
    """

    model: Annotated[Name, Field(examples=['"mixtral-8x22b"'])]
    gpus: Annotated[Whole, Field(le=1_000_000, examples=[1024])]
    #: names of ``lightloom fabrics``, or TOML files
    fabrics: tuple[Name, ...] = ("fat-tree", "oversub", "rail", "topoopt", "mixnet")
    cluster: ClusterOptions = Field(examples=['{ rate_gbps = "400 Gb/s" }'])
    plan: PlanOptions = PlanOptions()
    demand: DemandOptions = DemandOptions()
    #: options of each fabric by its name in ``fabrics``; "all" holds what every fabric is offered
    fabric_options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    #: how parts are counted, see ``docs/explanation/cost.md``
    counting: dict[str, Any] = Field(default_factory=dict)
    steps: Annotated[Whole, Field(le=10_000)] = 1
    seeds: Annotated[Whole, Field(le=10_000)] = 3
    #: the first seed
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = 0
    #: share by which the compute efficiency may be wrong, for the interval of step times
    compute_spread: Annotated[Number, Field(ge=0, lt=1)] = 0.1
    recompute: Literal["none", "full", "attention"] = "none"
    network: Literal["flow", "packet"] = "flow"
    #: of ``network = "packet"`` alone
    packets: PacketOptions | None = None
    #: whether to try every policy of switching circuits on the first sample
    policies: Switch = True
    prices: File | None = None
    power: File | None = None


def packet_options(scenario: Scenario) -> PacketOptions | None:
    """The options of packets, where the network is simulated as packets.

    Raises
    ------
    InputError
        If they are given for flows, which have none.
    """
    if scenario.network == "packet":
        return scenario.packets or PacketOptions()
    if scenario.packets is not None:
        raise InputError("packets are simulated with --network packet (network = 'packet') alone")
    return None


def load_study(path: Path) -> Scenario:
    """Read a study, one strict TOML file; see ``examples/study.toml``.

    Raises
    ------
    InputError
        If the file cannot be read, is no TOML, or has a wrong or unknown key.

    Examples
    --------
    >>> import lightloom
    >>> from pathlib import Path
    >>> lightloom.load_study(Path("examples/study.toml")).model
    'mixtral-8x7b'
    """
    return _below(check(Scenario, read_toml(path, "study"), str(path)), path.parent)


def parse_study(content: bytes, name: str, folder: Path) -> Scenario:
    """Read the bytes of a study; ``name`` begins messages, paths in it are below ``folder``.

    Raises
    ------
    InputError
        As :func:`load_study`.
    """
    values = parse_toml(content, name)
    return _below(check(Scenario, values, name), folder)


def _below(scenario: Scenario, folder: Path) -> Scenario:
    """The scenario with its paths taken relative to ``folder``."""

    def place(path: Path | None) -> Path | None:
        return None if path is None else folder / path

    def text(name: str, known: Any) -> str:
        # what is neither known nor looks like a path stays, so that a misspelt name is called one
        is_path = name not in known and not {"/", "."}.isdisjoint(name)
        return str(folder / name) if is_path else name

    def fabric(name: str) -> str:
        return str(folder / name) if name.endswith(".toml") else name

    source = text(scenario.demand.source, REGIMES)
    return scenario.model_copy(
        update={
            "model": text(scenario.model, catalog()),
            "fabrics": tuple(fabric(name) for name in scenario.fabrics),
            "fabric_options": {fabric(k): v for k, v in scenario.fabric_options.items()},
            "cluster": scenario.cluster.model_copy(
                update={"profile": place(scenario.cluster.profile)}
            ),
            "demand": scenario.demand.model_copy(update={"source": source}),
            "prices": place(scenario.prices),
            "power": place(scenario.power),
        }
    )
