"""The servers of a job, which its GPU comes in, and those of their GPUs that it uses.

Groups of ranks divide servers evenly, or span whole ones. Where a server's GPUs are no power of
two, as in racks of 72, groups of experts of 32 or 64 do neither. Then jobs leave GPUs of each
server idle: so were the public runs on racks of 72 made, on 64 of each. Idle GPUs and their NICs
are bought and powered, but send nothing.
"""

from __future__ import annotations

import dataclasses

from lightloom.fabric import Cluster
from lightloom.fabric.cluster import share_of_nics
from lightloom.hardware import load_gpu
from lightloom.models import Model
from lightloom.study.compare.scenario import ClusterOptions, Scenario


def with_servers(scenario: Scenario, model: Model | None = None) -> Scenario:
    """The scenario with the servers of its GPU and the idle GPUs of each, what is given as it is.

    A size that is given has NICs in proportion to those of the GPU's own server. No GPU is idle
    where the job is in one server, or fills servers with groups that divide them; else as few of
    each as make it so, half of them at most. ``model`` is ``None`` for a trace.

    Raises
    ------
    InputError
        If no GPU of a server would be left.
    """
    options = scenario.cluster
    size, nics = servers_of(options)
    spares = options.spare_gpus_per_server
    if spares is None:
        spares = size - _used(scenario, model, size)
    servers = {"gpus_per_server": size, "nics_per_server": nics, "spare_gpus_per_server": spares}
    return scenario.model_copy(
        update={"cluster": ClusterOptions(**{**options.model_dump(), **servers})}
    )


def servers_of(options: ClusterOptions) -> tuple[int, int]:
    """GPUs and NICs of a server: as given, else the GPU's own, NICs in proportion."""
    gpu = load_gpu(options.gpu)
    size = options.gpus_per_server or gpu.gpus_per_server
    return size, options.nics_per_server or gpu.nics_of(size)


def _used(scenario: Scenario, model: Model | None, size: int) -> int:
    """GPUs of each server that the job uses; all where nothing else would be better."""
    gpus, power = scenario.gpus, 1 << (size.bit_length() - 1)
    if gpus <= size or power == size:
        return size
    for used in range(size, size // 2 - 1, -1):
        if gpus % used == 0 and (model is None or _divide(scenario, model, used)):
            return used
    return size if gpus % power else power


def _divide(scenario: Scenario, model: Model, size: int) -> bool:
    """Whether the TP and EP groups that are given or published divide servers, or fill them.

    A publication counts where its plan can be scaled to the GPUs.
    """
    options, published = scenario.plan, model.plan
    if published is not None:
        replica = published.pp * published.ep * (published.etp or published.tp)
        if options.source == "search" or scenario.gpus % replica:
            published = None
    tp = options.tp or (published.tp if published else 1)
    ep = options.ep or (published.ep if published else 1)
    etp = (
        options.etp or (1 if options.expert_mode == "folded" else published and published.etp) or tp
    )
    return size % tp == 0 and (size % (ep * etp) == 0 or (ep * etp) % size == 0)


def used_nics(cluster: ClusterOptions) -> int:
    """NICs of the GPUs of a server that are used; all of them where GPUs share them unevenly."""
    assert cluster.nics_per_server is not None
    assert cluster.gpus_per_server is not None
    return share_of_nics(
        cluster.nics_per_server, cluster.used_gpus_per_server, cluster.gpus_per_server
    )


def installed(used: Cluster, options: ClusterOptions) -> Cluster:
    """The servers of a job with all of their GPUs and NICs."""
    if not options.spare_gpus_per_server:
        return used
    assert options.gpus_per_server is not None
    assert options.nics_per_server is not None
    return dataclasses.replace(
        used,
        gpus=used.servers * options.gpus_per_server,
        gpus_per_server=options.gpus_per_server,
        nics_per_server=options.nics_per_server,
        idle_gpus_per_server=0,
        gpus_of_job=used.gpus,
    )
