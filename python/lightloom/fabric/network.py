"""What a fabric hands to the Rust core: the network as plain data.

A network is a list of parts: a packet fabric, which is a tree (:class:`Eps`) or any graph of
switches (:class:`SwitchGraph`), regional circuits (:class:`Ocs`),
fixed circuits with relaying (:class:`Direct`), circuits that follow a periodic schedule
(:class:`Scheduled`), racks whose circuits follow what was measured (:class:`RackCircuits`),
circuits whose ports take turns (:class:`Crossbars`). Each is described in its file of
``crates/execute/src/parts``, which says what its fields mean; the core reads the fields of these
classes by name. Rates are bits per second, times picoseconds, both whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from lightloom.schedule import Failures, SwitchTiming

#: ``regroup_above`` of networks whose flows all stay apart
KEPT_APART = 0xFFFF_FFFF


@dataclass(frozen=True)
class NvSwitch:
    """Inside a server; rates are those that one GPU reaches, per direction.

    The first two are of all-to-alls and copies, ``gather_rate_bps`` and ``gather_latency_ps`` of
    collectives that gather or reduce: the same where not given. ``gather_peer_ps`` is what each
    other GPU that takes part adds to their latency. The last four are of all-reduces where switches
    add up, which they do where there is a rate: in chunks, of which a GPU has one per channel under
    way, each as costly as ``reduce_chunk_overhead`` bytes more.
    """

    gpu_rate_bps: int
    latency_ps: int
    gather_rate_bps: int | None = None
    gather_latency_ps: int | None = None
    gather_peer_ps: int = 0
    reduce_rate_bps: int | None = None
    reduce_latency_ps: int = 0
    reduce_channels: int = 0
    reduce_chunk_overhead: int = 0

    @property
    def collective_rate_bps(self) -> int:
        """Rate of collectives that gather or reduce."""
        return self.gpu_rate_bps if self.gather_rate_bps is None else self.gather_rate_bps


@dataclass(frozen=True)
class StartUp:
    """What software takes to begin operations between servers.

    ``message_ps`` for a message, and for each step of a ring; ``all_to_all_ps`` for an all-to-all,
    ``peer_ps`` more for each rank of other servers that a rank sends to, ``mixed_ps`` more where it
    also sends to ranks of its own server or across rails.
    """

    message_ps: int = 0
    all_to_all_ps: int = 0
    peer_ps: int = 0
    mixed_ps: int = 0


@dataclass(frozen=True)
class Eps:
    """A packet fabric with ``nics`` NICs of each server on it, under ``rails`` ToRs.

    ``planes`` are separate networks that the NICs of a server are dealt out to.

    ``tor_uplink_bps`` is the rate of all uplinks of a ToR, where they can be a bottleneck;
    ``tor_uplink_reached_bps`` what fluid flows reach of it where some collide. ``failed`` NICs, as
    (server, NIC), join nothing; ``replaced`` servers have a spare one under other ToRs. A
    simulation does not see ``shared_planes``, networks that all NICs are on; packets are sprayed
    over ``sprayed_planes`` of these by transports that tolerate overtaking, and flows see one.
    """

    kind: ClassVar[str] = "eps"

    nics: int
    nic_rate_bps: int
    link_delay_ps: int
    servers_per_tor: int
    servers_per_pod: int
    tor_uplink_bps: int | None = None
    rails: int = 1
    tor_uplink_reached_bps: int | None = None
    planes: int = 1
    failed: tuple[tuple[int, int], ...] = ()
    replaced: tuple[int, ...] = ()
    shared_planes: int = 1
    sprayed_planes: int = 1


@dataclass(frozen=True)
class SwitchGraph:
    """Packet switches that are joined in any way, and all NICs of the servers on them.

    A NIC has ``ports`` links of ``port_rate_bps``, over which it spreads its bytes evenly;
    ``switch_of_port`` is the switch of each, server by server and NIC by NIC. ``bundles`` is
    ``(n, 6)`` of (switch, switch, links, rate of each in b/s, delay in ps, layer); ``layers`` are
    names of these, there and back. Fluid flows reach the share ``reached`` of rates between
    switches. ``failed`` links of servers, as (server, link), join nothing. A simulation does not
    see ``tiers``, the name, first switch and number of each kind of switches of a plane, and
    ``planes``.
    """

    kind: ClassVar[str] = "switches"

    nics: int
    ports: int
    port_rate_bps: int
    port_delay_ps: int
    switches: int
    switch_of_port: npt.NDArray[np.uint32]
    bundles: npt.NDArray[np.uint64]
    layers: tuple[tuple[str, str], ...]
    reached: float = 1.0
    failed: tuple[tuple[int, int], ...] = ()
    tiers: tuple[tuple[str, int, int], ...] = ()
    planes: int = 1


@dataclass(frozen=True)
class Ocs:
    """Regional circuit switches, their policy and how long they take.

    ``allocator``, ``when`` and ``first`` are names of ``lightloom.schedule.ALLOCATORS``,
    ``WHEN_POLICIES`` and ``FIRST_ALL_TO_ALL_MODES``; ``relaying`` is the bytes and
    picoseconds of a chunk where servers pass bytes of others on. ``planes``, a name of
    ``lightloom.schedule.PLANES``, says how fibers are laid where NIC i of every server is on a
    switch of its own; without it one switch joins any two ports of a region. ``failures`` are never
    used; a failed server is taken to be replaced by a spare one without circuits.
    ``regions_per_switch`` regions share the ports of one with ``spare_servers`` servers, which a
    simulation does not see.
    """

    kind: ClassVar[str] = "ocs"

    ports: int
    nic_rate_bps: int
    circuit_delay_ps: int
    region_of_server: npt.NDArray[np.uint32]
    allocator: str
    split: bool
    when: str
    first: str
    timing: SwitchTiming
    relaying: tuple[int, int] | None = None
    planes: str | None = None
    failures: Failures | None = None
    regions_per_switch: int = 1
    spare_servers: int = 0


@dataclass(frozen=True)
class Direct:
    """Fixed circuits: ``circuits`` is ``(n, 3)`` of (server, server, count).

    Route ``r`` crosses ``route_servers[route_offsets[r]:route_offsets[r + 1]]``; several routes of
    one ordered pair share its bytes in proportion to the circuits of their narrowest hop. Cycle
    ``c`` is a ring of ``cycle_servers[cycle_offsets[c]:cycle_offsets[c + 1]]``, with
    ``cycle_counts[c]`` circuits of each hop for it: ring collectives among these servers are
    divided over all their cycles, both ways.
    """

    kind: ClassVar[str] = "direct"

    nic_rate_bps: int
    link_delay_ps: int
    relay_delay_ps: int
    circuits: npt.NDArray[np.uint32]
    route_offsets: npt.NDArray[np.uint32]
    route_servers: npt.NDArray[np.uint32]
    cycle_offsets: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(1, np.uint32))
    cycle_servers: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    cycle_counts: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))


@dataclass(frozen=True)
class Scheduled:
    """Circuits that follow the clock: a period of slots, each with a matching of servers.

    ``circuits`` is ``(n, 4)`` of (slot, server, server, count). All circuits are dark for
    ``dark_ps`` of a slot, then those of the slot are lit for its ``hold_ps``. Bytes wait for the
    circuits of their pair; transfers of fewer than ``min_bytes`` take the packet fabric instead.
    """

    kind: ClassVar[str] = "scheduled"

    nic_rate_bps: int
    link_delay_ps: int
    circuits: npt.NDArray[np.uint32]
    dark_ps: npt.NDArray[np.uint64]
    hold_ps: npt.NDArray[np.uint64]
    min_bytes: int = 0


@dataclass(frozen=True)
class EpochRules:
    """What the circuits of racks follow, epoch by epoch.

    ``policy``, ``estimator``, ``reading``, ``rule``, ``turning`` and ``cycling`` are names of the
    sets of the core. ``weight``, of the newest measurement of a smoothed estimate, and
    ``hysteresis``, by which circuits must carry more for switches to turn, are thousandths. Rotors
    with a ``seed`` pass through matchings that are drawn, others through shifts.
    """

    policy: str
    estimator: str = "last"
    weight: int = 250
    hysteresis: int | None = None
    reading: str = "pairings"
    rule: str = "greedy"
    turning: str = "first"
    cycling: str = "fixed"
    seed: int | None = None


@dataclass(frozen=True)
class RackCircuits:
    """Racks of servers, circuit switches among them, and electrical links that are always lit.

    Each of ``banks`` is racks, in the order of ports, and how many switches join just these;
    ``circuit_rate_bps`` is that of a port, all fibers together. ``cables`` join two racks at
    ``cable_rate_bps``; ``core_rate_bps`` is the rate of a rack to a non-blocking electrical core.
    Every ``epoch_ps`` the ``rules`` decide, switches turn ``control_ps`` later and are dark for
    ``dark_ps``. Bytes wait for a circuit to the rack of their destination, or, with ``relay``, take
    two hops (RotorLB); transfers of fewer than ``min_bytes`` take as many circuits as it needs of
    those that are lit. With ``circuits_per_path`` they take paths of so many circuits and any
    electrical links, by tables that are renewed each ``hello_ps``, and go electrically after
    ``patience_ps`` in the dark, if that is not ``None``. Circuits of rotors that are ``averaged``
    are lit at all times, as fast as they are on average.
    """

    kind: ClassVar[str] = "racks"

    nics: int
    nic_rate_bps: int
    link_delay_ps: int
    servers_per_rack: int
    racks: int
    circuit_rate_bps: int
    banks: tuple[tuple[tuple[int, ...], int], ...]
    epoch_ps: int
    dark_ps: int
    rules: EpochRules
    cables: tuple[tuple[int, int], ...] = ()
    cable_rate_bps: int = 0
    core_rate_bps: int | None = None
    control_ps: int = 0
    relay: bool = False
    averaged: bool = False
    min_bytes: int = 0
    circuits_per_path: int | None = None
    hello_ps: int = 0
    patience_ps: int | None = None


@dataclass(frozen=True)
class Crossbars:
    """Nothing but circuits: ``nics`` of each server, each with one circuit at a time.

    A time slot waits ``latency_ps`` and ``guard_ps``; all are ``slot_ps`` long, or as long as what
    they carry takes. ``aligned`` NICs send early by their latency; ``held`` matchings do not turn
    between two slots; ports keep circuits until others are ``needed``, or turn ``ahead`` for these,
    unless ``kept`` is ``no``. Each all-to-all takes the matchings that end first of those that
    ``methods`` find: pairs of a name of ``lightloom.schedule.PERMUTATION_METHODS`` or ``auto``, and
    of the time by members that it takes where demand is not known beforehand, in picoseconds.
    Members are late
    by an exponential time: ``lateness`` is its mean in picoseconds and a seed; all ports wait with
    them if ``all_wait``. Servers that share a lower tier of crossbars have slots of their own:
    ``lower_tiers`` are how many follow each other there, their latency and the length of a slot,
    from the lowest tier on. ``failed`` NICs, as (server, NIC), have no circuits. A simulation does
    not see ``spare_planes``.
    """

    kind: ClassVar[str] = "crossbar"

    nics: int
    nic_rate_bps: int
    latency_ps: int
    guard_ps: int
    methods: tuple[tuple[str, npt.NDArray[np.uint64]], ...]
    slot_ps: int | None = None
    aligned: bool = False
    held: bool = False
    kept: str = "no"
    lateness: tuple[int, int] | None = None
    all_wait: bool = False
    lower_tiers: tuple[tuple[int, int, int | None], ...] = ()
    failed: tuple[tuple[int, int], ...] = ()
    spare_planes: int = 0


#: what a network may consist of, each part once
Part = Eps | SwitchGraph | Ocs | Direct | Scheduled | RackCircuits | Crossbars

AnyPart = TypeVar("AnyPart", Eps, SwitchGraph, Ocs, Direct, Scheduled, RackCircuits, Crossbars)


@dataclass(frozen=True)
class Network:
    """The network that a step runs on.

    ``all_to_all`` is one of ``ALL_TO_ALL_STRATEGIES``, ``all_to_all_reason`` says why; each of the
    ``parts`` may rely on those before it. Without ``delegates`` no GPU gathers or scatters for
    others: links end at all GPUs alike. Where more than ``regroup_above`` groups of a server's NICs
    are told apart, flows from each to each of another server are regrouped to fewer, with the bytes
    over every NIC as they were.
    """

    servers: int
    gpus_per_server: int
    nvswitch: NvSwitch
    all_to_all: str
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = field(default=())
    start_up: StartUp = StartUp()
    all_to_all_reason: str = ""
    regroup_above: int = 8
    delegates: bool = True

    def part(self, kind: type[AnyPart]) -> AnyPart | None:
        """Return the part of this class, if the network has one."""
        return next((part for part in self.parts if isinstance(part, kind)), None)
