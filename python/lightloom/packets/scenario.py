"""What a packet simulation is of: network, packets, queues, transport, traffic.

One strict description serves the command line, a scenario file (TOML) and Python. Every field has
a unit in its name; text may carry its own. What is absent is as the transport's reference has it
(:mod:`.settings`). Paths in a file are relative to its folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from lightloom.demand.byte_matrix import read_byte_matrix
from lightloom.errors import InputError
from lightloom.inputs.formats import parse_toml, read_toml
from lightloom.inputs.strict import (
    File,
    Number,
    Strict,
    Switch,
    Whole,
    check,
    quantity,
)
from lightloom.packets import patterns
from lightloom.packets.flows import MAX_SIZE, Flows, read_flows
from lightloom.units import parse_quantity

#: most hosts (routes are numbered in 16 bits), and what stands for a queue without end
MAX_HOSTS, UNLIMITED = 16_384, 2**32 - 1
Pattern = Literal["permutation", "incast", "all-to-all", "matrix"]
Topology = Literal["fat-tree", "leaf-spine", "star", "rail", "links"]


def whole_bytes(value: Any) -> int:
    """Read a size; pydantic makes a message of its ``ValueError``."""
    try:
        size = parse_quantity(value, "byte", "size")
    except InputError as error:
        raise ValueError(str(error).removeprefix("size: ")) from None
    whole = round(size)
    # text such as "1.1 MB" may be off by the rounding of its conversion
    if abs(size - whole) > 1e-9 * abs(size):
        raise ValueError("expected whole bytes")
    return whole


def _queue_bytes(value: Any) -> int:
    return UNLIMITED if value == "unlimited" else whole_bytes(value)


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


Size = Annotated[int, BeforeValidator(whole_bytes), Field(ge=0, le=UNLIMITED)]
Payload = Annotated[int, BeforeValidator(whole_bytes), Field(ge=1, le=MAX_SIZE)]
QueueSize = Annotated[int, BeforeValidator(_queue_bytes), Field(ge=1, le=UNLIMITED)]
Seconds = Annotated[float, quantity("second"), Field(ge=0, le=1)]
Seed = Annotated[int, Field(strict=True, ge=0, lt=2**63)]


class Network(Strict):
    """Hosts, switches and links.

    A fat tree has three tiers of ``radix``-port switches, by default the smallest that fit. A
    leaf-spine network has ``hosts_per_leaf`` hosts on a leaf and a link from every leaf to every
    spine; these links are as fast as ``oversubscription`` to 1 allows. A star is one switch. A
    ``rail`` network is servers of ``hosts_per_server`` hosts on an NVSwitch, and a switch per rail
    that host ``i`` of every server is on. ``links`` are listed in a file; see :mod:`.graph`.
    """

    topology: Topology = "fat-tree"
    hosts: Annotated[Whole, Field(ge=2, le=MAX_HOSTS, examples=[128])]
    #: of every link of a host
    rate_gbps: Annotated[
        float, quantity("gigabit / second"), Field(ge=1e-3, le=1e5, examples=['"100 Gb/s"'])
    ]
    #: propagation over one link
    link_delay_s: Seconds = 1e-6
    radix: Annotated[Whole, Field(le=1024)] | None = None
    hosts_per_leaf: Annotated[Whole, Field(le=MAX_HOSTS)] | None = None
    spines: Annotated[Whole, Field(le=1024)] | None = None
    oversubscription: Annotated[Number, Field(ge=0.01, le=1000)] | None = None
    hosts_per_server: Annotated[Whole, Field(le=MAX_HOSTS)] | None = None
    #: of the links to NVSwitches
    nvlink_gbps: Annotated[float, quantity("gigabit / second"), Field(ge=1e-3, le=1e5)] | None = (
        None
    )
    nvlink_delay_s: Seconds | None = None
    #: a table with the columns a, b, rate_gbps, delay_us
    links: File | None = None
    #: a table with the columns a, b, dark_us, up_us
    circuits: File | None = None

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, values: Any) -> Any:
        """Whoever lists links wants no other topology."""
        if isinstance(values, dict) and values.get("links") is not None:
            return {"topology": "links", **values}
        return values


class Packet(Strict):
    """Sizes of packets."""

    #: payload of a full packet
    mtu_bytes: Size | None = None
    header_bytes: Size | None = None
    #: acknowledgements and all that is no data
    control_bytes: Size | None = None
    #: whether the last packet of a flow is as long as the others
    full_tail: Switch | None = None


class Ecn(Strict):
    """Marking: never up to ``min_bytes``, always above ``max_bytes``, in between with a probability
    that grows to ``probability``; on arrival, or when a packet begins to be sent.
    """

    on: Switch | None = None
    min_bytes: Size | None = None
    max_bytes: Size | None = None
    probability: Annotated[Number, Field(gt=0, le=1)] | None = None
    marking: Literal["arrival", "departure"] | None = None


class Pfc(Strict):
    """Priority flow control: a switch that holds more than ``pause_bytes`` of what came over a link
    pauses its sender until it holds less than ``resume_bytes``.
    """

    on: Switch | None = None
    pause_bytes: Size | None = None
    resume_bytes: Size | None = None


class Queue(Strict):
    """The output queue of a switch port."""

    #: data that it holds, or ``"unlimited"``
    size_bytes: QueueSize | None = None
    #: control packets that it holds
    control_size_bytes: QueueSize | None = None
    #: whether control packets have a queue of their own that is served first
    control_priority: Switch | None = None
    #: what happens to data that does not fit: dropped, or cut down to its header
    overflow: Literal["drop", "trim"] | None = None
    ecn: Ecn = Ecn()
    pfc: Pfc = Pfc()


class Scenario(Strict):
    """A network and its parameters, without traffic.

    ``transport`` is its name, or a table of its name and its own parameters, see
    :func:`~lightloom.packets.settings.profile_of`.
    """

    network: Network = Field(examples=['{ hosts = 128, rate_gbps = "100 Gb/s" }'])
    transport: Annotated[dict[str, Any], BeforeValidator(_named), Field(examples=['"ndp"'])]
    packet: Packet = Packet()
    queue: Queue = Queue()
    #: of all random choices: paths, permutations, marks
    seed: Seed
    #: when to stop, though flows may be unfinished
    until_s: Annotated[float, quantity("second"), Field(gt=0, le=1e6)] | None = None


class Traffic(Strict):
    """Who sends what: a file of flows, or a pattern."""

    #: a table with the columns src, dst, bytes, start_us
    flows: File | None = None
    pattern: Pattern | None = None
    #: bytes of each flow of a pattern
    size_bytes: Payload | None = None
    #: incast: how many send to host 0
    fan_in: Whole | None = None
    #: all-to-all: hosts of a group; all hosts by default
    group: Whole | None = None
    #: matrix: bytes from row to column, as ``lightloom schedule`` reads them
    matrix: File | None = None


class ScenarioFile(Scenario):
    """A scenario with its traffic."""

    seed: Seed = 1
    traffic: Traffic = Field(examples=['{ pattern = "permutation", size_bytes = "2 MB" }'])


#: what each pattern needs and what it may have besides
_READS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "flows": ((), ()),
    "permutation": (("size_bytes",), ()),
    "incast": (("size_bytes", "fan_in"), ()),
    "all-to-all": (("size_bytes",), ("group",)),
    "matrix": (("matrix",), ()),
}


def load_scenario(path: Path) -> ScenarioFile:
    """Read a scenario, one strict TOML file; see ``examples/packets.toml``.

    Raises
    ------
    InputError
        If the file cannot be read, is no TOML, or has a wrong or unknown key.
    """
    return check(ScenarioFile, below(read_toml(path, "scenario"), path.parent), str(path))


def parse_scenario(content: bytes, name: str) -> ScenarioFile:
    """Read the bytes of a scenario; ``name`` begins messages.

    Raises
    ------
    InputError
        As :func:`load_scenario`.
    """
    return check(ScenarioFile, parse_toml(content, name), name)


def below(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The keys of a scenario file with its paths taken relative to ``folder``."""
    placed = dict(values)
    for name, keys in {"traffic": ("flows", "matrix"), "network": ("links", "circuits")}.items():
        table = values.get(name)
        if isinstance(table, dict):
            paths = {key: table[key] for key in keys if isinstance(table.get(key), str)}
            moved = {key: str(folder / path) for key, path in paths.items() if path != "-"}
            placed[name] = {**table, **moved}
    return placed


def flows_of(scenario: ScenarioFile, call: Any = str) -> Flows:
    """The flows that a scenario asks for.

    Parameters
    ----------
    scenario
        Its traffic, hosts and seed are looked at.
    call
        Turns a key of the traffic into what messages call it.

    Raises
    ------
    InputError
        If there is neither a file nor a pattern, or both; if a key is missing or would not be
        read; if the file cannot be used or the pattern is impossible.
    """
    traffic = scenario.traffic
    pattern = traffic.pattern or ("matrix" if traffic.matrix and not traffic.flows else None)
    if (traffic.flows is None) == (pattern is None):
        both = "both are given" if traffic.flows is not None else "there is neither"
        raise InputError(f"expected {call('flows')} FILE or {call('pattern')} NAME, {both}")
    kind = pattern or "flows"
    needed, optional = _READS[kind]
    for key, value in traffic:
        known = key in {"flows", "pattern", *needed, *optional}
        if value is not None and not known:
            raise InputError(f"{call(key)} has no meaning for {_calls(kind, call)}; leave it out")
        if value is None and key in needed:
            raise InputError(f"{call(key)} is missing; {_calls(kind, call)} needs it")
    hosts, size = scenario.network.hosts, traffic.size_bytes or 0
    if traffic.flows is not None:
        return read_flows(traffic.flows)
    if kind == "matrix":
        assert traffic.matrix is not None
        return patterns.from_matrix(read_byte_matrix(traffic.matrix), str(traffic.matrix))
    if kind == "incast":
        return patterns.incast(hosts, traffic.fan_in or 0, size)
    if kind == "all-to-all":
        return patterns.all_to_all(hosts, traffic.group or hosts, size)
    return patterns.permutation(hosts, size, seed=scenario.seed)


def _calls(kind: str, call: Any) -> str:
    return f"{call('flows')} FILE" if kind == "flows" else f"{call('pattern')} {kind}"
