"""How fast NVLink and NICs really are, and what it takes to begin.

A vendor's rate is reached by no collective. Its time is modeled as a start-up plus its bytes over a
share of that rate, the *efficiency*, both from measurements of NCCL (``data/cluster.toml``; the fit
and its errors are in ``experiments/interconnect``). The same values hold for every fabric: a
circuit ends at the same NICs as a packet network.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Self

from pydantic import ConfigDict, Field

from lightloom.errors import FabricError, HardwareError, did_you_mean, expected_one_of
from lightloom.hardware.values import (
    Provenance,
    Source,
    Table,
    Value,
    parse_table,
    read_toml,
    resolve,
    values_of,
)

#: begin of names of what switches that add up reach, beside those of ``InsideServerTable``
REDUCE = "reduce_"

#: channels, and bytes of a chunk, at most
_MAX_COUNT = 1 << 20
#: ways to describe the interconnect
INTERCONNECTS = ("measured", "ideal")


class LinkTable(Table):
    """Defaults of links, and the share of a GPU's memory rate that copies reach."""

    link_delay_s: Value
    relay_delay_s: Value
    copy_efficiency: Value
    ideal_nvlink_latency_s: Value


class InsideServerTable(Table):
    """Efficiencies and start-up times of collectives inside a server."""

    all_to_all_efficiency: Value
    all_to_all_start_up_s: Value
    gather_efficiency: Value
    gather_start_up_s: Value
    gather_peer_s: Value


class ReductionTable(Table):
    """Switches inside a server that add up what they pass on (NVLink SHARP), in chunks."""

    efficiency: Value
    start_up_s: Value
    channels: Value
    overhead_bytes: Value


class BetweenServersTable(Table):
    """Efficiency of NICs, and start-up times of operations between servers."""

    nic_efficiency: Value
    message_start_up_s: Value
    all_to_all_start_up_s: Value
    all_to_all_peer_s: Value
    all_to_all_mixed_s: Value


class SwitchTable(Table):
    """What flows reach of the uplinks of packet switches."""

    uplink_efficiency: Value


class ClusterFile(Table):
    """The file; a GPU without a table of its own in ``nvlink`` has ``nvlink.default``.

    Switches of a GPU without one in ``reduction`` add up nothing.
    """

    sources: dict[str, Source]
    cluster: LinkTable
    nvlink: dict[str, InsideServerTable]
    reduction: dict[str, ReductionTable]
    network: BetweenServersTable
    switches: SwitchTable


class LinkProfile(Table):
    """What a profile may say of links; it has tables of operators beside them."""

    model_config = ConfigDict(extra="ignore")

    sources: dict[str, Source] = Field(default_factory=dict)
    nvlink: dict[str, Value] = Field(default_factory=dict)
    network: dict[str, Value] = Field(default_factory=dict)


@functools.cache
def _file() -> ClusterFile:
    text = resources.files(__package__).joinpath("data/cluster.toml").read_text(encoding="utf-8")
    return parse_table(text, ClusterFile, "cluster.toml")


@functools.cache
def cluster_defaults() -> dict[str, Provenance]:
    """Return each assumption about links by its name, with its source."""
    file = _file()
    return resolve(values_of(file.cluster), file.sources)


@functools.cache
def interconnect_values(gpu: str) -> dict[str, Provenance]:
    """Return efficiencies and start-up times for a GPU by name, with their sources."""
    file = _file()
    nvlink = values_of(file.nvlink.get(gpu, file.nvlink["default"]))
    named = {f"nvlink_{name}": value for name, value in nvlink.items()}
    if gpu in file.reduction:
        reduction = values_of(file.reduction[gpu])
        named |= {f"nvlink_{REDUCE}{name}": value for name, value in reduction.items()}
    return resolve({**named, **values_of(file.network)}, file.sources)


def measured_links(profile: Path | None) -> dict[str, Provenance]:
    """Return the efficiencies and start-ups that a profile has, by their names in `Interconnect`.

    Raises
    ------
    HardwareError
        If the profile cannot be read, or a value is none of links.
    """
    if profile is None or profile.suffix.lower() == ".csv":
        return {}
    return links_of(read_toml(profile, "", LinkProfile), str(profile))


def links_of(file: LinkProfile, name: str) -> dict[str, Provenance]:
    """Return the same of a profile that was read; ``name`` begins messages.

    Raises
    ------
    HardwareError
        If a value is none of links, or its source is not listed.
    """
    inside = [*InsideServerTable.model_fields]
    inside += [f"{REDUCE}{name}" for name in ReductionTable.model_fields]
    tables: dict[str, tuple[dict[str, Value], list[str], str]] = {
        "nvlink": (file.nvlink, inside, "nvlink_"),
        "network": (file.network, [*BetweenServersTable.model_fields], ""),
    }
    values = {}
    for table, (entries, known, prefix) in tables.items():
        for key, value in entries.items():
            if key not in known:
                hint = did_you_mean(key, known)
                names = ", ".join(known)
                raise HardwareError(f"{name}: unknown {table}.{key}{hint}; known: {names}")
            values[f"{prefix}{key}"] = value
    if not file.sources:
        # values of a profile without sources say themselves where they are from
        return {key: Provenance(v.value, v.source, "", v.assumed) for key, v in values.items()}
    return resolve(values, file.sources)


@functools.cache
def uplink_efficiency() -> float:
    """Return the share of a ToR's uplinks that flows reach."""
    file = _file()
    return resolve(values_of(file.switches), file.sources)["uplink_efficiency"].value


@dataclass(frozen=True)
class Interconnect:
    """Efficiencies, as shares of the vendor's rate, and start-up times.

    Attributes
    ----------
    nvlink_all_to_all_efficiency, nvlink_all_to_all_start_up_s
        Of all-to-alls and copies inside a server.
    nvlink_gather_efficiency, nvlink_gather_start_up_s, nvlink_gather_peer_s
        Of collectives that gather or reduce inside a server; the last one for each other GPU that
        takes part.
    nvlink_reduce_efficiency, nvlink_reduce_start_up_s
        Of all-reduces inside a server by switches that add up; 0: they do not, and rings do.
    nvlink_reduce_channels, nvlink_reduce_overhead_bytes
        Chunks that a GPU has under way through them, and what a chunk costs beyond its bytes.
    nic_efficiency
        Of a NIC, whatever it is connected to.
    message_start_up_s
        Of a message between servers, and of each step of a ring.
    all_to_all_start_up_s, all_to_all_peer_s, all_to_all_mixed_s
        Of an all-to-all between servers, for each rank of other servers that a rank sends to, and
        where it sends to its own server or across rails as well.
    """

    nvlink_all_to_all_efficiency: float = 1.0
    nvlink_all_to_all_start_up_s: float = 0.0
    nvlink_gather_efficiency: float = 1.0
    nvlink_gather_start_up_s: float = 0.0
    nvlink_gather_peer_s: float = 0.0
    nvlink_reduce_efficiency: float = 0.0
    nvlink_reduce_start_up_s: float = 0.0
    nvlink_reduce_channels: float = 0.0
    nvlink_reduce_overhead_bytes: float = 0.0
    nic_efficiency: float = 1.0
    message_start_up_s: float = 0.0
    all_to_all_start_up_s: float = 0.0
    all_to_all_peer_s: float = 0.0
    all_to_all_mixed_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse efficiencies that are no share, and times below zero.

        Raises
        ------
        FabricError
            Naming the value.
        """
        for name, value in vars(self).items():
            if name == "nvlink_reduce_efficiency" and value == 0:
                continue
            if name.endswith("efficiency") and not 0 < value <= 1:
                raise FabricError(f"{name} = {value:g}: expected a share above 0, up to 1")
            if name.endswith("_s") and not 0 <= value <= 1:
                raise FabricError(f"{name} = {value:g}: expected a time from 0 to 1 s")
            if name.endswith(("_channels", "_bytes")) and not 0 <= value <= _MAX_COUNT:
                raise FabricError(f"{name} = {value:g}: expected a number from 0 to {_MAX_COUNT}")

    @classmethod
    def named(cls, name: str, gpu: str) -> Self:
        """Return the measured one for a GPU, or the ideal one: vendors' rates, no start-up.

        The ideal one has the latency of a local operation alone, as the simulations of
        published papers assume.

        Raises
        ------
        FabricError
            If the name is unknown.
        """
        if name == "measured":
            return cls(**{key: value.value for key, value in interconnect_values(gpu).items()})
        if name != "ideal":
            raise FabricError(f"interconnect: {expected_one_of(name, INTERCONNECTS)}")
        latency_s = cluster_defaults()["ideal_nvlink_latency_s"].value
        return cls(nvlink_all_to_all_start_up_s=latency_s, nvlink_gather_start_up_s=latency_s)

    def with_profile(self, profile: Path | None) -> Self:
        """Return it with what a profile says of links in place of its own.

        Raises
        ------
        HardwareError, FabricError
            If the profile cannot be used.
        """
        measured = measured_links(profile)
        return replace(self, **{name: value.value for name, value in measured.items()})
