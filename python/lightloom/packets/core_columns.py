"""What the core is given: each class has the fields of the Rust struct that reads it.

The structs are in ``crates/python/src/packets``. Rates are whole bits per second, times whole
picoseconds, sizes whole bytes, as the unit at the end of each name says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class LinkColumns(NamedTuple):
    """Links between hosts (by index) and ``switches`` (whose indices follow those of hosts)."""

    switches: list[str]
    first: npt.NDArray[np.uint32]
    second: npt.NDArray[np.uint32]
    rates_bps: npt.NDArray[np.uint64]
    delays_ps: npt.NDArray[np.uint64]


class PacketTopologyRequest(NamedTuple):
    """A network to build; what belongs to other topologies is 0, or ``None``."""

    topology: str
    hosts: int
    rate_bps: int
    link_delay_ps: int
    radix: int = 0
    hosts_per_leaf: int = 0
    spines: int = 0
    uplink_rate_bps: int = 0
    hosts_per_server: int = 0
    nvlink_rate_bps: int = 0
    nvlink_delay_ps: int = 0
    hosts_per_switch: int = 0
    switches_per_group: int = 0
    global_links: int = 0
    planes: int = 1
    plane_choice: str = "hash"
    links: LinkColumns | None = None


class FlowColumns(NamedTuple):
    """Flows; the route of flow ``f`` is ``route_links[route_starts[f]:route_starts[f + 1]]``.

    Both are empty where no flow has a route of its own.
    """

    source: npt.NDArray[np.uint32]
    destination: npt.NDArray[np.uint32]
    size_bytes: npt.NDArray[np.uint64]
    start_ps: npt.NDArray[np.uint64]
    route_starts: npt.NDArray[np.uint64]
    route_links: npt.NDArray[np.uint32]


class CircuitColumns(NamedTuple):
    """When links go dark and come up again."""

    time_ps: npt.NDArray[np.uint64]
    link: npt.NDArray[np.uint32]
    is_dark: npt.NDArray[np.bool_]


class FailureColumns(NamedTuple):
    """Failures; those of ``f`` are ``links[starts[f]:starts[f + 1]]``, both ways.

    A failure that is never repaired has 2^64 - 1 as ``repaired_ps``.
    """

    time_ps: npt.NDArray[np.uint64]
    repaired_ps: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.uint64]
    links: npt.NDArray[np.uint32]
    detection_ps: int


class OperationColumns(NamedTuple):
    """Operations of programs; ``i`` waits for ``waits[wait_starts[i]:wait_starts[i + 1]]``.

    ``flow`` and ``unit`` are 2^32 - 1 where there is none; milestones are 0 for begun, 1 for
    received and 2 for ended.
    """

    flow: npt.NDArray[np.uint32]
    span_ps: npt.NDArray[np.uint64]
    unit: npt.NDArray[np.uint32]
    wait_starts: npt.NDArray[np.uint64]
    waits: npt.NDArray[np.uint32]
    milestones: npt.NDArray[np.uint8]


class RunRequest(NamedTuple):
    """How flows are simulated and what is recorded; 0 samples or events are none."""

    until_ps: int | None
    sample_every_ps: int
    max_samples: int
    max_events: int
    traced_flow: int | None
    in_halves: bool = False
    failures: FailureColumns | None = None
    operations: OperationColumns | None = None
