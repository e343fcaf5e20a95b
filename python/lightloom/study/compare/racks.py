"""Servers of which a job uses some GPUs only: racks of 72, whose groups of experts are of 32 or 64.

Groups of ranks divide servers evenly, or span whole ones. Where a server's GPUs are no power of
two, jobs leave as many idle as exceed one, and these stand by as spares: so were the public runs on
racks of 72 made. Idle GPUs and their NICs are bought and powered, but send nothing.
"""

from __future__ import annotations

import dataclasses

from lightloom.fabric import Cluster
from lightloom.models import Model
from lightloom.study.compare.scenario import ClusterOptions, Scenario


def with_spares(scenario: Scenario, model: Model) -> Scenario:
    """The scenario with the number of GPUs that each server has to spare, if it was not given.

    None where the job fills servers with groups that divide them; else those above a power of two.
    """
    cluster = scenario.cluster
    if cluster.spare_gpus_per_server is not None:
        return scenario
    size = cluster.gpus_per_server
    power = 1 << (size.bit_length() - 1)
    fits = scenario.gpus <= size or (scenario.gpus % size == 0 and _divide(scenario, model, size))
    spares = 0 if fits or scenario.gpus % power else size - power
    cluster = cluster.model_copy(update={"spare_gpus_per_server": spares})
    return scenario.model_copy(update={"cluster": cluster})


def _divide(scenario: Scenario, model: Model, size: int) -> bool:
    """Whether the TP and EP groups that are given or published divide servers, or fill them."""
    given, published = scenario.plan, model.plan
    if scenario.plan.source == "search":
        published = None
    tp = given.tp or (published.tp if published else 1)
    ep = given.ep or (published.ep if published else 1)
    etp = given.etp or (1 if given.expert_mode == "folded" else tp)
    return size % tp == 0 and (size % (ep * etp) == 0 or (ep * etp) % size == 0)


def used_nics(cluster: ClusterOptions) -> int:
    """NICs of the GPUs of a server that are used; all of them where GPUs share them unevenly."""
    nics, rest = divmod(
        cluster.nics_per_server * cluster.used_gpus_per_server, cluster.gpus_per_server
    )
    return cluster.nics_per_server if rest else nics


def installed(used: Cluster, own: ClusterOptions) -> Cluster:
    """The servers of a job with all of their GPUs and NICs."""
    if not own.spare_gpus_per_server:
        return used
    return dataclasses.replace(
        used,
        gpus=used.servers * own.gpus_per_server,
        gpus_per_server=own.gpus_per_server,
        nics_per_server=own.nics_per_server,
    )
