"""What a packet simulation is of: network, packets, queues, transport, traffic.

One strict description serves the command line, a scenario file (TOML) and Python. Every field has
a unit in its name; text may carry its own. What is absent is as the transport's reference has it
(:mod:`.settings`). Paths in a file are relative to its folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from lightloom.errors import InputError
from lightloom.inputs.fields import Choices, OneOf
from lightloom.inputs.formats import read_toml
from lightloom.inputs.sizes import QueueSize, Size, whole_bytes
from lightloom.inputs.strict import (
    File,
    Name,
    Number,
    Strict,
    Switch,
    Whole,
    check,
    comma_list,
    quantity,
)
from lightloom.packets.htsim_topology import htsim_numbers
from lightloom.schedule.named_sets import choices

#: maximum number of hosts (routes are numbered in 16 bits), and of bytes of a flow
MAX_HOSTS, MAX_GBPS, MAX_SIZE = 16_384, 100_000, 2**42
#: maximum number of planes; hosts times planes are at most :data:`MAX_HOSTS`
MAX_PLANES = 64
#: names of all transports
TRANSPORTS = tuple(choices("transport"))
#: how switches choose among equal paths, and flows among planes
ROUTINGS, PLANE_CHOICES = choices("routing"), choices("plane_choice")
Pattern = Literal["permutation", "incast", "all-to-all", "matrix", "load"]
FlowSizes = Literal["websearch", "hadoop", "storage"]
Topology = Literal["fat-tree", "leaf-spine", "star", "rail", "dragonfly", "links"]


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


Payload = Annotated[int, BeforeValidator(whole_bytes), Field(ge=1, le=MAX_SIZE)]
Seconds = Annotated[float, quantity("second"), Field(ge=0, le=1)]
Seed = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Priority = Annotated[int, Field(strict=True, ge=0, le=7)]
Transport = Annotated[dict[str, Any], BeforeValidator(_named), Choices(lambda: TRANSPORTS)]


class NetworkTable(Strict):
    """Hosts, switches and links.

    A fat tree has three tiers of ``radix``-port switches, by default the smallest that fit. A
    leaf-spine network has ``hosts_per_leaf`` hosts on a leaf and a link from every leaf to every
    spine; these links are as fast as ``oversubscription`` to 1 allows. A star is one switch. A
    ``rail`` network is servers of ``hosts_per_server`` hosts on an NVSwitch, and a switch per rail
    that host ``i`` of every server is on. A dragonfly is groups of ``switches_per_group`` switches
    that are joined pairwise, each with ``hosts_per_switch`` hosts and ``global_links`` links to
    other groups, of which there are as many as hosts need. ``links`` are listed in a file; see
    :mod:`.graph`. With several ``planes`` every host has a NIC of ``rate_gbps`` on each copy of
    the fabric.
    """

    topology: Topology = Field(
        "fat-tree",
        description="Three tiers of switches (fat-tree), leaf-spine, one switch (star), rail, "
        "dragonfly, or the links of a file (links).",
    )
    hosts: Annotated[Whole, Field(ge=2, le=MAX_HOSTS, examples=[128])] = Field(
        description="Number of hosts, each with a NIC on each plane."
    )
    rate_gbps: Annotated[
        float, quantity("gigabit / second"), Field(ge=1e-3, le=MAX_GBPS, examples=['"100 Gb/s"'])
    ] = Field(description="Rate of one NIC and link, per direction.")
    link_delay_s: Seconds = Field(1e-6, description="Propagation delay of one link.")
    fitted_delay_s: Seconds | None = Field(
        None,
        description="Delay one way that queues and windows are fitted to; by default that of the "
        "longest path.",
    )
    radix: Annotated[Whole, Field(le=1024)] | None = Field(
        None, description="fat-tree: ports of a switch; by default the fewest that suffice."
    )
    hosts_per_leaf: Annotated[Whole, Field(le=MAX_HOSTS)] | None = Field(
        None, description="leaf-spine: hosts of a leaf switch; 16 by default."
    )
    spines: Annotated[Whole, Field(le=1024)] | None = Field(
        None,
        description="leaf-spine: spine switches, each linked to every leaf; by default as many as "
        "make uplinks of the hosts' rate.",
    )
    oversubscription: Annotated[Number, Field(ge=0.01, le=1000)] | None = Field(
        None,
        description="leaf-spine: rate of a leaf's hosts over the rate of its uplinks; 1 by "
        "default.",
    )
    hosts_per_server: Annotated[Whole, Field(le=MAX_HOSTS)] | None = Field(
        None,
        description="rail: hosts (GPUs) of a server, each on a rail of its own; 8 by default.",
    )
    nvlink_gbps: Annotated[float, quantity("gigabit / second"), Field(ge=1e-3, le=1e5)] | None = (
        Field(
            None,
            description="rail: rate of a host's link to its NVSwitch; by default that of an H100.",
        )
    )
    nvlink_delay_s: Seconds | None = Field(
        None,
        description="rail: propagation delay of a link to an NVSwitch; by default that of other "
        "links.",
    )
    hosts_per_switch: Annotated[Whole, Field(le=1024)] | None = Field(
        None,
        description="dragonfly: hosts of a switch; by default as many as global links.",
    )
    switches_per_group: Annotated[Whole, Field(le=1024)] | None = Field(
        None,
        description="dragonfly: switches of a group; by default twice as many as hosts of one.",
    )
    global_links: Annotated[Whole, Field(le=1024)] | None = Field(
        None,
        description="dragonfly: links of a switch to other groups; by default the fewest that "
        "suffice.",
    )
    planes: Annotated[Whole, Field(le=MAX_PLANES)] | None = Field(
        None,
        description="Copies of the fabric, on each of which every host has a NIC; 1 by default.",
    )
    plane_choice: Annotated[str, OneOf(tuple(PLANE_CHOICES))] | None = Field(
        None,
        description="How flows choose among planes: {choices}; by hash by default.",
    )
    plane_silence_s: Seconds | None = Field(
        None,
        description="spray: time without an arrival after a loss until a NIC takes a plane for "
        "failed; by default two round trips and what a full queue takes.",
    )
    shared_buffer_bytes: Size | None = Field(
        None,
        description="Data that the ports of a switch queue together, in place of a limit for each.",
    )
    alpha: Annotated[Number, Field(gt=0, le=1e6)] | None = Field(
        None,
        description="A queue holds at most alpha times what is free of a shared buffer; 1 by "
        "default.",
    )
    loss: Annotated[Number, Field(ge=0, lt=1)] = Field(
        0.0, description="Probability that a packet is lost on a link, whatever it carries."
    )
    links: File | None = Field(
        None,
        description="Custom topology: CSV with the columns a, b (host number or switch name), "
        "rate_gbps and delay_us; or a tree of htsim (.topo).",
    )
    routing: Annotated[str, OneOf(ROUTINGS)] = Field(
        "ecmp",
        description="How switches choose among equal paths: by hash (ecmp), each packet to the "
        "link that is free first (adaptive), or so for each flowlet; in a dragonfly also over a "
        "group at random (valiant), or so where queues speak for it (ugal-l, ugal-g).",
    )
    flowlet_gap_s: Seconds | None = Field(
        None,
        description="flowlet: time without a packet after which a flow may change its path; 50 us "
        "by default.",
    )
    hashing: Literal["flow", "ends"] = Field(
        "flow",
        description="What hashes that choose paths are of: the flow, or its ends, so that flows "
        "that follow one another on a connection take one path.",
    )
    outages: File | None = Field(
        None,
        description="Links that are dark for a time: CSV with the columns a, b, dark_us and up_us.",
    )

    failures: Annotated[tuple[str, ...], BeforeValidator(comma_list)] = Field(
        (),
        description="Link or switch that fails, when, and for how long, such as "
        "'leaf-0:spine-1@2ms+5ms' or 'spine-1@2ms' for good; repeatable.",
    )
    detection_s: Seconds = Field(
        1e-3,
        description="Time until all switches know of a failure, or of its end, and choose paths "
        "anew; what is sent to the failed link meanwhile is lost.",
    )

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, values: Any) -> Any:
        """Whoever lists links wants no other topology; a tree of htsim says how large it is."""
        if not isinstance(values, dict) or values.get("links") is None:
            return values
        links, numbers = values["links"], dict[str, int]()
        if isinstance(links, str | Path) and not {"hosts", "rate_gbps"} <= values.keys():
            numbers = htsim_numbers(Path(links))
            _check_size(numbers, str(links))
        return {"topology": "links", **numbers, **values}


def _check_size(numbers: Mapping[str, int], name: str) -> None:
    """Refuse a tree of htsim that is too large or too fast, in words of its file."""
    for key, word, least, most in (
        ("hosts", "Nodes", 2, MAX_HOSTS),
        ("rate_gbps", "Downlink_speed_Gbps of tier 0", 1, MAX_GBPS),
    ):
        if key in numbers and not least <= numbers[key] <= most:
            raise InputError(f"{name}: {word}: {numbers[key]:,}: expected {least} to {most:,}")


class PacketTable(Strict):
    """Sizes of packets."""

    mtu_bytes: Size | None = Field(
        None, description="Payload of a full packet; by default the transport's."
    )
    header_bytes: Size | None = Field(
        None, description="Header of a data packet; by default that of the transport."
    )
    control_bytes: Size | None = Field(
        None, description="Size of an acknowledgment and of every other packet without data."
    )
    full_tail: Switch | None = Field(
        None, description="Make the last packet of a flow as long as the others."
    )


class Ecn(Strict):
    """Marking: never up to ``min_bytes``, always above ``max_bytes``, in between with a probability
    that grows to ``probability``; on arrival, or when a packet begins to be sent.
    """

    on: Switch | None = Field(None, description="Whether packets are marked.")
    min_bytes: Size | None = Field(None, description="Queue from which packets are marked.")
    max_bytes: Size | None = Field(None, description="Queue above which all packets are marked.")
    probability: Annotated[Number, Field(gt=0, le=1)] | None = Field(
        None, description="Probability of a mark just below max_bytes."
    )
    marking: Literal["arrival", "departure"] | None = Field(
        None, description="Whether the queue is read at a packet's arrival or departure."
    )


class EarlyDrop(Strict):
    """Random early drops (RED): a packet that finds more than ``share`` of the queue taken is
    dropped, with a probability that rises to ``probability`` where the queue is full.
    """

    on: Switch | None = Field(None, description="Whether packets are dropped early.")
    share: Annotated[Number, Field(ge=0, lt=1)] | None = Field(
        None, description="Share of the queue up to which no packet is dropped."
    )
    probability: Annotated[Number, Field(gt=0, le=1)] | None = Field(
        None, description="Probability of a drop where the queue is nearly full."
    )


class Pfc(Strict):
    """Priority flow control: a switch that holds more than ``pause_bytes`` of what came over a link
    pauses its sender until it holds less than ``resume_bytes``.
    """

    on: Switch | None = Field(None, description="Whether links are paused.")
    pause_bytes: Size | None = Field(
        None, description="Buffered bytes of a link above which its sender is paused."
    )
    resume_bytes: Size | None = Field(
        None, description="Buffered bytes of a link below which its sender resumes."
    )


class Queue(Strict):
    """The output queue of a switch port."""

    size_bytes: QueueSize | None = Field(
        None,
        description="Capacity of a port's queue, or 'unlimited'; by default the transport's.",
    )
    control_size_bytes: QueueSize | None = Field(
        None, description="Capacity for packets without data, or 'unlimited'."
    )
    control_priority: Switch | None = Field(
        None, description="Give packets without data a separate queue that is served first."
    )
    overflow: Literal["drop", "trim"] | None = Field(
        None, description="Whether data that does not fit is dropped or trimmed to its header."
    )
    early_drop: EarlyDrop = Field(
        EarlyDrop(), description="Random drops before the queue is full (RED)."
    )
    ecn: Ecn = Field(Ecn(), description="Explicit congestion notification.")
    pfc: Pfc = Field(Pfc(), description="Priority flow control.")


class TrafficTable(Strict):
    """Who sends what: a file of flows, a pattern, or programs of ranks."""

    flows: File | None = Field(
        None,
        description="CSV of src,dst,bytes,start_us,route,after,delay_us,priority,class; "
        "'-': stdin.",
    )
    programs: File | None = Field(
        None,
        description="Programs in GOAL, or a table of operations; rank i is host i.",
    )
    pattern: Pattern | None = Field(
        None,
        description="A permutation (one cycle), incast (to host 0), all-to-all, matrix or load.",
    )
    size_bytes: Payload | None = Field(
        None, description="Size of each flow of a pattern, such as 2MB."
    )
    fan_in: Whole | None = Field(None, description="incast: number of hosts that send.")
    group: Whole | None = Field(
        None, description="all-to-all: number of hosts in a group; all hosts by default."
    )
    matrix: File | None = Field(
        None,
        description="matrix: bytes from row to column (.npy, .npz, .csv or .parquet).",
    )
    load: Annotated[Number, Field(gt=0, le=10)] | None = Field(
        None, description="load: share of every host's link that payload takes in the mean."
    )
    flow_sizes: FlowSizes | None = Field(
        None, description="load: published distribution of flow sizes."
    )
    load_time_s: Annotated[float, quantity("second"), Field(gt=0, le=100)] | None = Field(
        None, description="load: time within which flows begin, such as '1 ms'."
    )


class FlowClassTable(Strict):
    """Flows with a transport, packets and queues of their own: those of ``traffic``, and those
    that name the class.
    """

    name: Name | None = Field(
        None, description="What flows call the class; by default the name of its transport."
    )
    transport: Transport = Field(
        examples=['"dctcp"'], description="Transport protocol of the class: {choices}."
    )
    priority: Priority = Field(
        0, description="Priority of its flows, 0 to 7: ports send packets of higher ones first."
    )
    packet: PacketTable = Field(PacketTable(), description="Sizes of packets.")
    queue: Queue = Field(Queue(), description="The queues of its priority at a switch port.")
    traffic: TrafficTable | None = Field(
        None, description="Who sends what, beside what the rest of the scenario says."
    )


class PacketScenario(Strict):
    """A network and its parameters, without traffic.

    ``transport`` is its name, or a table of its name and its own parameters, see
    :func:`~lightloom.packets.settings.profile_of`.
    """

    network: NetworkTable = Field(
        examples=['{ hosts = 128, rate_gbps = "100 Gb/s" }'],
        description="Hosts, switches and links.",
    )
    transport: Transport = Field(examples=['"ndp"'], description="Transport protocol: {choices}.")
    packet: PacketTable = Field(PacketTable(), description="Sizes of packets.")
    queue: Queue = Field(Queue(), description="The output queue of a switch port.")
    priority: Priority | None = Field(
        None,
        description="Priority of flows that are of no other class, 0 to 7; by default 0, or as "
        "the flows say.",
    )
    classes: tuple[FlowClassTable, ...] = Field(
        (), description="Flows with transports of their own ([[classes]])."
    )
    seed: Seed = Field(
        description="Seed of the random numbers; the first one where several are used."
    )
    until_s: Annotated[float, quantity("second"), Field(gt=0, le=1e6)] | None = Field(
        None, description="Simulated time at which to stop, such as '10 ms', finished or not."
    )
    threads: Annotated[int, Field(strict=True, ge=1, le=2)] = Field(
        1,
        description="Threads of a run: 2 simulate half of the switches each, with the same "
        "results. One does it alone, and says so, where that is not possible.",
    )


class SeriesTable(Strict):
    """How closely a run is looked at over time."""

    period_s: Annotated[float, quantity("second"), Field(ge=1e-9, le=1)] = Field(
        1e-6,
        description="Length of a period of series and plots over time, which doubles as long as "
        "there are too many.",
    )


class ScenarioFile(PacketScenario):
    """A scenario with its traffic."""

    seed: Seed = Field(
        1, description="Seed of the random numbers; the first one where several are used."
    )
    traffic: TrafficTable = Field(
        examples=['{ pattern = "permutation", size_bytes = "2 MB" }'],
        description="Who sends what: a file of flows, or a pattern.",
    )
    series: SeriesTable = Field(
        SeriesTable(), description="How closely a run is looked at over time."
    )


def load_scenario(path: Path) -> ScenarioFile:
    """Read a scenario, one strict TOML file; see ``examples/packets.toml``.

    Raises
    ------
    InputError
        If the file cannot be read, is no TOML, or has a wrong or unknown key.
    """
    return check(ScenarioFile, below(read_toml(path, "scenario"), path.parent), str(path))


def below(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The keys of a scenario file with its paths taken relative to ``folder``."""
    placed = dict(values)
    if isinstance(classes := values.get("classes"), list):
        placed["classes"] = [
            below(table, folder) if isinstance(table, dict) else table for table in classes
        ]
    for name, keys in {
        "traffic": ("flows", "matrix", "programs"),
        "network": ("links", "outages"),
    }.items():
        table = values.get(name)
        if isinstance(table, dict):
            paths = {key: table[key] for key in keys if isinstance(table.get(key), str)}
            moved = {key: str(folder / path) for key, path in paths.items() if path != "-"}
            placed[name] = {**table, **moved}
    return placed
