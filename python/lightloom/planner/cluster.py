"""What a stage of an all-to-all takes on a cluster: between servers, within them, and in memory.

A cluster is one of ``data/clusters.toml``, a file of a user in the same format, or derived from a
GPU and a NIC by the measured interconnect that simulations use (:func:`derived_cluster`).
"""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from lightloom.errors import HardwareError, InputError
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.interconnect import cluster_defaults
from lightloom.hardware import Gpu, load_gpu
from lightloom.hardware.values import entry_of
from lightloom.inputs import formats
from lightloom.inputs.strict import Name, Number, Strict, Whole, check
from lightloom.planner.curve import Seconds, TimeCurve
from lightloom.planner.strategy import AllToAllStrategy


class Penalties(Strict):
    """What a chunk costs beyond its operations, since kernels compete."""

    error_class: ClassVar[type[InputError]] = HardwareError

    copy_s: Seconds = Field(0.0, description="For each copy that follows its gather, in O2.")
    gather_s: Seconds = Field(0.0, description="For each gather that runs beside a copy, in O3.")
    source: Name = Field("given", description="Where they are from.")


class StrategyCluster(Strict):
    """Servers of GPUs with NVLink, and what the stages of an all-to-all take on them.

    ``all_to_all`` takes the bytes that a GPU sends to other servers, ``within`` those to its own,
    ``gather`` those that a TP rank gets of its peers, and ``copy`` those that a GPU copies.
    """

    error_class: ClassVar[type[InputError]] = HardwareError

    title: Name = Field(description="What the cluster is.")
    gpus: Annotated[Whole, Field(le=10**7)] | None = Field(None, description="How many it has.")
    gpus_per_server: Annotated[Whole, Field(le=1024)] = Field(8, description="GPUs of a server.")
    all_to_all: TimeCurve = Field(description="Between servers.")
    within: TimeCurve = Field(description="All-to-all within a server.")
    gather: TimeCurve = Field(description="All-gather among the TP ranks of a server.")
    copy_: TimeCurve = Field(alias="copy", description="Copies within a GPU.")
    penalties: Penalties = Field(Penalties(), description="Costs of a chunk.")
    grouped_gather: Annotated[Number, Field(ge=0, le=10)] = Field(
        1.0,
        description="Start-ups that each further gather of a chunk adds in O4, which gathers what "
        "each EP rank sent by itself; 1 unless measured.",
    )
    choices: tuple[AllToAllStrategy, ...] = Field(
        tuple(AllToAllStrategy), min_length=1, description="Strategies that are chosen from."
    )
    note: str = Field("", description="What a reader has to know of its values.")


@functools.cache
def _packaged() -> dict[str, StrategyCluster]:
    text = resources.files(__package__).joinpath("data/clusters.toml").read_text(encoding="utf-8")
    return {
        name: check(StrategyCluster, table, f"clusters.toml: {name}")
        for name, table in tomllib.loads(text).items()
    }


def load_cluster(name: str) -> StrategyCluster:
    """Return a cluster by name, or by the path of its file (``.toml``).

    Raises
    ------
    HardwareError
        If the name is unknown, the file cannot be read, or a value of it is wrong.
    """
    if name.endswith(".toml") or "/" in name or "\\" in name:
        path = Path(name)
        table = formats.read_toml(path, "description of a cluster", HardwareError)
        return check(StrategyCluster, table, str(path))
    return entry_of(_packaged(), name.strip().lower(), "cluster", name)


def derived_cluster(*, gpu: str, rate_gbps: float, tp: int, ep: int) -> StrategyCluster:
    """Return a cluster of a GPU and a NIC, with the measured interconnect of simulations.

    Parameters
    ----------
    gpu
        Name or file of the GPU.
    rate_gbps
        Rate of the NIC of one GPU, per direction.
    tp, ep
        Degrees, on whose peers start-ups depend.

    Raises
    ------
    FabricError, HardwareError
        If the rate cannot be, or the GPU is unknown.
    """
    cluster = Cluster.of(gpus=tp * ep, rate_gbps=rate_gbps, gpu=gpu)
    ranks_per_server = max(1, cluster.gpus_per_server // tp)
    return cluster_of(cluster, load_gpu(gpu), tp=tp, ep=ep, ranks_per_server=ranks_per_server)


def cluster_of(
    cluster: Cluster, gpu: Gpu, *, tp: int, ep: int, ranks_per_server: int
) -> StrategyCluster:
    """Return what stages take on the cluster of a simulation.

    Parameters
    ----------
    cluster, gpu
        Its servers and NICs, and its GPUs.
    tp, ep
        Degrees, on whose peers start-ups depend.
    ranks_per_server
        EP ranks of a group that share a server.
    """
    copies = cluster_defaults()["copy_efficiency"]
    links, others = cluster.interconnect, max(0, ep - ranks_per_server)
    mixed_s = links.all_to_all_mixed_s if ranks_per_server > 1 and others else 0.0
    nics = cluster.nics_per_server / cluster.gpus_per_server
    return StrategyCluster(
        title=f"{gpu.title}, {cluster.rate_gbps:g} Gb/s",
        gpus_per_server=cluster.gpus_per_server,
        all_to_all=TimeCurve(
            start_up_s=links.all_to_all_start_up_s + others * links.all_to_all_peer_s + mixed_s,
            rate_gbps=cluster.rate_gbps * links.nic_efficiency * nics,
            source="lightloom/fabric/data/cluster.toml",
        ),
        within=TimeCurve(
            start_up_s=links.nvlink_all_to_all_start_up_s,
            rate_gbps=cluster.nvlink_gbps * links.nvlink_all_to_all_efficiency,
            source="lightloom/fabric/data/cluster.toml",
        ),
        gather=TimeCurve(
            start_up_s=links.nvlink_gather_start_up_s + (tp - 1) * links.nvlink_gather_peer_s,
            rate_gbps=cluster.nvlink_gbps * links.nvlink_gather_efficiency,
            source="lightloom/fabric/data/cluster.toml",
        ),
        copy=TimeCurve(
            # each byte is read and written
            rate_gbps=gpu.hbm_rate_gbps * copies.value / 2,
            source=f"memory rate of the GPU for a read and a write, times {copies}",
        ),
    )
