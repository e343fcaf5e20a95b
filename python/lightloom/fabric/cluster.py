"""The machines that a fabric connects.

A server is bought and wired whole: where the GPUs of a job do not fill the last server, all of its
NICs are still connected and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from lightloom.errors import FabricError
from lightloom.fabric.interconnect import Interconnect, cluster_defaults
from lightloom.fabric.network import NvSwitch, StartUp
from lightloom.fabric.option_types import MAXIMUM
from lightloom.hardware import load_gpu
from lightloom.units import to_bps, to_ps

#: what is expected of a count
COUNT = f"a whole number from 1 to {MAXIMUM:.0e}"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Servers of GPUs and NICs.

    Parameters
    ----------
    gpus
        GPUs that the job uses; the last server may be used in part.
    rate_gbps
        Rate of one NIC, per direction.
    gpu
        Name of the GPU in the hardware catalog.
    nvlink_gbps
        Rate of one GPU into the NVSwitch, per direction.
    interconnect
        Which share of these rates is reached, and start-up times.
    gpus_per_server, nics_per_server
        In every server; :meth:`of` takes those that the GPU comes in.
    link_delay_s
        Propagation delay of one link.
    idle_gpus_per_server
        GPUs of every server that the job leaves idle, with their share of its NICs; neither
        counts above.
    gpus_of_job
        What of ``gpus`` the job uses, where those that it leaves idle count above.

    Raises
    ------
    FabricError
        If a count or a rate is not above zero, or a delay is negative.
    """

    gpus: int
    rate_gbps: float
    gpu: str
    nvlink_gbps: float
    interconnect: Interconnect
    gpus_per_server: int = 8
    nics_per_server: int = 8
    link_delay_s: float = 1e-6
    idle_gpus_per_server: int = 0
    gpus_of_job: int | None = None

    def __post_init__(self) -> None:
        for name in ("gpus", "gpus_per_server", "nics_per_server"):
            value = getattr(self, name)
            _require(1 <= value <= MAXIMUM and value == int(value), name, value, COUNT)
        for name in ("rate_gbps", "nvlink_gbps"):
            value = getattr(self, name)
            _require(0 < value <= MAXIMUM, name, value, f"a rate above 0, up to {MAXIMUM:.0e} Gb/s")
        delay_s = self.link_delay_s
        _require(0 <= delay_s <= MAXIMUM, "link_delay_s", delay_s, "a time of 0 s or more")

    @classmethod
    def of(
        cls,
        *,
        gpus: int,
        rate_gbps: float,
        gpu: str,
        profile: Path | None = None,
        **others: Any,
    ) -> Self:
        """Return a cluster of a GPU by name or file, what is not given from its data.

        Parameters
        ----------
        gpus, rate_gbps, gpu
            As for the class.
        profile
            Measurements, whose links replace those of the data.
        **others
            Any other field.

        Raises
        ------
        HardwareError
            If the GPU is unknown, or the profile cannot be used.
        FabricError
            As for the class.
        """
        defaults, model = cluster_defaults(), load_gpu(gpu)
        links = Interconnect.named("measured", model.like or gpu)
        values: dict[str, Any] = {
            "nvlink_gbps": model.nvlink_rate_gbps,
            "interconnect": links.with_profile(profile),
            "link_delay_s": defaults["link_delay_s"].value,
            "gpus_per_server": model.gpus_per_server,
            "nics_per_server": model.nics_per_server,
            **others,
        }
        return cls(gpus=gpus, rate_gbps=rate_gbps, gpu=model.like or gpu, **values)

    def nics_of_used(self, nics_per_server: int) -> int:
        """NICs of the GPUs that are used, of those of a whole server."""
        whole = self.gpus_per_server + self.idle_gpus_per_server
        return share_of_nics(nics_per_server, self.gpus_per_server, whole)

    @property
    def servers(self) -> int:
        """Servers that hold the GPUs, the last one perhaps in part."""
        return -(-self.gpus // self.gpus_per_server)

    @property
    def installed_gpus(self) -> int:
        """GPUs of all servers, those that the job does not use included."""
        return self.servers * (self.gpus_per_server + self.idle_gpus_per_server)

    @property
    def used_gpus(self) -> int:
        """GPUs that the job uses."""
        return self.gpus if self.gpus_of_job is None else self.gpus_of_job

    @property
    def nics(self) -> int:
        """NICs of all servers."""
        return self.servers * self.nics_per_server

    @property
    def nic_rate_bps(self) -> int:
        """Rate that one NIC reaches, in whole bits per second."""
        return self.effective_nic_bps(self.rate_gbps)

    def effective_nic_bps(self, rate_gbps: float) -> int:
        """Return what a NIC of a given rate reaches, in whole bits per second."""
        return to_bps(rate_gbps * self.interconnect.nic_efficiency)

    @property
    def link_delay_ps(self) -> int:
        """Propagation delay of one link in whole picoseconds."""
        return to_ps(self.link_delay_s)

    def nvswitch(self) -> NvSwitch:
        """Return the inside of a server, for the core."""
        links = self.interconnect
        return NvSwitch(
            gpu_rate_bps=to_bps(self.nvlink_gbps * links.nvlink_all_to_all_efficiency),
            latency_ps=to_ps(links.nvlink_all_to_all_start_up_s),
            gather_rate_bps=to_bps(self.nvlink_gbps * links.nvlink_gather_efficiency),
            gather_latency_ps=to_ps(links.nvlink_gather_start_up_s),
            gather_peer_ps=to_ps(links.nvlink_gather_peer_s),
            reduce_rate_bps=to_bps(self.nvlink_gbps * links.nvlink_reduce_efficiency) or None,
            reduce_latency_ps=to_ps(links.nvlink_reduce_start_up_s),
            reduce_channels=round(links.nvlink_reduce_channels),
            reduce_chunk_overhead=round(links.nvlink_reduce_overhead_bytes),
        )

    def start_up(self) -> StartUp:
        """Return what software takes to begin operations between servers, for the core."""
        links = self.interconnect
        return StartUp(
            message_ps=to_ps(links.message_start_up_s),
            all_to_all_ps=to_ps(links.all_to_all_start_up_s),
            peer_ps=to_ps(links.all_to_all_peer_s),
            mixed_ps=to_ps(links.all_to_all_mixed_s),
        )


def share_of_nics(nics: int, gpus: int, gpus_per_server: int) -> int:
    """NICs of some GPUs of a server; all of them where GPUs share them unevenly."""
    share, rest = divmod(nics * gpus, gpus_per_server)
    return nics if rest else share


def _require(condition: bool, name: str, value: float, expected: str) -> None:
    if not condition:
        raise FabricError(f"cluster: {name} = {value:g}: expected {expected}")
