"""A step that ran as packets, as operations: what it sent, and what every flow waited for.

Whoever plays the operations over the links of the recording finds the step time again. They are
written as a folder that ``lightloom packets --scenario`` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import InputError
from lightloom.inputs.sizes import UNLIMITED
from lightloom.packets.settings import from_core
from lightloom.simulate.recorded_goal import recorded_goal
from lightloom.simulate.recorded_operations import RecordedRow, rows_of
from lightloom.units import PS_PER_S

#: a size in bytes that stands for no limit, of transports
_ENDLESS = 2**64 - 1
#: names of the files of a recording
SCENARIO, LINKS, OPERATIONS, GOAL = "scenario.toml", "links.csv", "operations.csv", "step.goal"


@dataclass(frozen=True, eq=False)
class RecordedStep:
    """The flows of a step, and what they waited for.

    Attributes
    ----------
    source, destination, size_bytes, start_s, arrived_s, priority
        Of each flow, ``(flows,)``: servers, payload, when it began, when its receiver had
        everything, and the priority of its packets.
    source_nic, destination_nic
        NICs of these servers, from 0 on.
    transfer
        The transfer that it is a part of: one is over when all its flows have arrived.
    operation_transfer
        Of each operation the transfer that it is, -1 where it only joins others, ``(operations,)``.
    wait_starts, waits, later_s
        Operation ``i`` begins ``later_s[j]`` after the end of operation ``waits[j]``, for all ``j``
        from ``wait_starts[i]`` to ``wait_starts[i + 1]``. The last one is the end of the step.
    servers
        Number of servers.
    links
        Ends (servers first, then switches), rate in bits per second and delay in picoseconds of
        each duplex link.
    config, transport
        Parameters of packets, queues and transport, as a scenario of packets has them.
    fitted_delay_ps
        Delay of the longest path of the network whose round trip they hold.
    """

    source: npt.NDArray[np.int64]
    destination: npt.NDArray[np.int64]
    size_bytes: npt.NDArray[np.int64]
    start_s: npt.NDArray[np.float64]
    arrived_s: npt.NDArray[np.float64]
    priority: npt.NDArray[np.int64]
    source_nic: npt.NDArray[np.int64]
    destination_nic: npt.NDArray[np.int64]
    transfer: npt.NDArray[np.int64]
    operation_transfer: npt.NDArray[np.int64]
    wait_starts: npt.NDArray[np.int64]
    waits: npt.NDArray[np.int64]
    later_s: npt.NDArray[np.float64]
    servers: int
    links: tuple[tuple[int, int, int, int], ...]
    config: Mapping[str, Any]
    transport: Mapping[str, Any]
    fitted_delay_ps: int

    def __len__(self) -> int:
        return len(self.source)

    def files(self) -> dict[str, str]:
        """The text of each file of the folder, by its name."""
        return {
            SCENARIO: self.scenario_text(),
            LINKS: self.links_text(),
            OPERATIONS: self.operations_text(),
            GOAL: self.goal_text(),
        }

    def links_text(self) -> str:
        """The links as ``lightloom packets --links`` reads them."""
        rows = []
        for a, b, rate_bps, delay_ps in self.links:
            ends = f"{_node(a, self.servers)},{_node(b, self.servers)}"
            rows.append(f"{ends},{rate_bps / 1e9!r},{_microseconds(delay_ps)}")
        return "\n".join(["a,b,rate_gbps,delay_us", *rows]) + "\n"

    def operations_text(self) -> str:
        """The operations as ``lightloom packets --programs`` reads them."""
        head = "rank,kind,peer,bytes,nic,peer_nic,priority,span_us,after"
        return "\n".join([head, *map(self._row_text, rows_of(self))]) + "\n"

    def goal_text(self) -> str:
        """The operations in GOAL, see :mod:`.recorded_goal`."""
        return recorded_goal(self, rows_of(self))

    def _row_text(self, row: RecordedRow) -> str:
        after, flow = " ".join(map(str, row.after)), row.flow
        if flow < 0:
            return f"0,compute,,,,,,{_microseconds(row.span_ps)},{after}"
        ends = f"{self.source[flow]},send,{self.destination[flow]},{self.size_bytes[flow]}"
        nics = f"{self.source_nic[flow]},{self.destination_nic[flow]},{self.priority[flow]}"
        return f"{ends},{nics},,{after}"

    def scenario_text(self) -> str:
        """The parameters of the run that the transport does not have for this network by itself.

        Those it has are left out, so that another transport has its own.
        """
        changed = self._changes()
        config, rate_gbps = self.config, max(rate_bps for *_, rate_bps, _ in self.links) / 1e9
        network = {"hosts": self.servers, "rate_gbps": rate_gbps, "links": LINKS,
                   "hashing": "ends", "routing": config["routing"],
                   "fitted_delay_s": self.fitted_delay_ps / PS_PER_S}  # fmt: skip
        changed["transport"] = {"name": self.transport["name"], **changed["transport"]}
        changed = {"network": network, **changed, "traffic": {"programs": OPERATIONS}}
        parts = [f"# {len(self):,} flows of a recorded step\nseed = {config['seed']}\n"]
        for head, values in changed.items():
            lines = [f"{key} = {_toml(key, value)}" for key, value in values.items()]
            if lines:
                parts.append("\n".join([f"[{head}]", *lines]) + "\n")
        return "\n".join(parts)

    def _changes(self) -> dict[str, dict[str, object]]:
        """Parameters that differ from what the transport has for such a network."""
        config, own = self.config, dict(self.transport)
        usual, usual_own = self._fitted()
        pairs = {key: (value, usual_own.get(key)) for key, value in own.items() if key != "name"}

        def both(*keys: str) -> dict[str, tuple[object, object]]:
            return {key: (config[key], usual[key]) for key in keys}

        tables = {
            "transport": both("paths") | pairs,
            "packet": both("mtu_bytes", "header_bytes", "control_bytes", "full_tail"),
            "queue": both("size_bytes", "control_size_bytes", "control_priority", "overflow"),
        }
        changed = {head: _changed(values) for head, values in tables.items()}
        for key in ("early_drop", "ecn", "pfc"):
            if config[key] != usual[key]:
                changed[f"queue.{key}"] = {"on": False} if config[key] is None else config[key]
        return changed

    def _fitted(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the transport has: its configuration and its own parameters."""
        rate_bps = max(rate for a, b, rate, _ in self.links if min(a, b) < self.servers)
        network = {
            "hosts": self.servers,
            "rate_bps": rate_bps,
            # paths of a star are two links
            "link_delay_ps": self.fitted_delay_ps // 2,
            "planes": 1,
            "plane_choice": "hash",
            "shape": {"topology": "star"},
        }
        config, own = _core.packet_profile(self.transport["name"], rate_bps, network)
        return from_core(config), from_core(own)


def _node(node: int, servers: int) -> str:
    """What a node is called in a list of links."""
    return str(node) if node < servers else f"switch-{node - servers}"


def _changed(values: Mapping[str, tuple[object, object]]) -> dict[str, object]:
    """Those that differ from what they would be."""
    return {key: value for key, (value, usual) in values.items() if value != usual}


def _toml(key: str, value: object) -> str:
    if value is None:
        return '"auto"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if key.endswith("_bytes") and value in {UNLIMITED, _ENDLESS}:
        return '"unlimited"'
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _microseconds(picoseconds: int) -> str:
    """Exactly."""
    return f"{picoseconds // 10**6}.{picoseconds % 10**6:06d}".rstrip("0").rstrip(".")


def recorded_step(values: Mapping[str, Any] | None) -> RecordedStep | None:
    """What the core recorded.

    Raises
    ------
    InputError
        If the network has circuits, whose changes and routes no recording has, or nothing was sent.
    """
    if values is None:
        return None
    packets = values["packets"]
    hosts = packets["is_host"]
    servers = sum(hosts)
    if packets["routed"] or values["unexplained"] or not all(hosts[:servers]):
        raise InputError(
            "a step over circuits cannot be recorded: expected a fabric of packet switches alone, "
            "such as fat-tree"
        )
    if not len(packets["size_bytes"]):
        raise InputError(
            "a step in which nothing is sent between servers cannot be recorded: expected a fabric "
            "of smaller servers, or a plan that sends from one to another"
        )
    if packets["sprays"]:
        raise InputError(
            "a step over NICs that spray packets over planes cannot be recorded: use a fabric with "
            "one plane, or a transport that keeps each flow on one"
        )
    host = np.array(packets["nic_host"], dtype=np.int64)
    first = np.searchsorted(host, np.arange(servers)) if (np.diff(host) >= 0).all() else None
    assert first is not None, "NICs are in the order of their servers"
    source, destination = (
        packets[key].astype(np.int64) for key in ("source_nic", "destination_nic")
    )
    return RecordedStep(
        source=host[source],
        destination=host[destination],
        size_bytes=packets["size_bytes"].astype(np.int64),
        start_s=packets["start_ps"] / PS_PER_S,
        arrived_s=packets["arrived_ps"] / PS_PER_S,
        priority=packets["priority"].astype(np.int64),
        source_nic=source - first[host[source]],
        destination_nic=destination - first[host[destination]],
        transfer=packets["transfer"].astype(np.int64),
        operation_transfer=values["transfer"],
        wait_starts=values["wait_starts"].astype(np.int64),
        waits=values["waits"].astype(np.int64),
        later_s=values["later_ps"] / PS_PER_S,
        servers=servers,
        links=tuple(packets["links"]),
        config=from_core(packets["config"]),
        transport=from_core(packets["transport"]),
        fitted_delay_ps=packets["fitted_delay_ps"],
    )
