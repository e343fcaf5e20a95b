"""Ring collectives over groups of GPUs: each passes the GPUs of a server, then goes to the next.

A group of GPUs that has ``n`` members on each of ``s`` servers has ``n`` rings of all ``N = n s``
of them, as NCCL builds them: each carries ``1/n`` of the buffer and leaves a server over the NIC of
another GPU. So ``(N-1)/N`` of the buffer crosses between a server and the next, and each GPU sends
``(n-1)/n`` of ``(N-1)/N`` of its buffer to the next one inside, at the same time. Rings of the GPUs
of one worker run along the same workers, so the task graph keeps one ring of workers with the sum
of their shares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.errors import PlanError
from lightloom.parallel import Workers
from lightloom.parallel.grid import Ranks, servers_of_groups
from lightloom.workload.task_graph import Collective, GroupFamily


@dataclass(frozen=True)
class RingGroups:
    """How the groups of one kind of collective lie on servers.

    Attributes
    ----------
    family
        Rings of workers across servers, servers ascending.
    on_server
        Members of a group that share a server.
    servers
        Servers that a group spans; 1 if nothing crosses.
    gpus_per_worker
        GPUs whose shares one worker carries.
    """

    family: GroupFamily
    on_server: int
    servers: int
    gpus_per_worker: int

    @property
    def size(self) -> int:
        """GPUs of a group."""
        return self.on_server * self.servers

    def crossing(self, buffer_bytes: float) -> int:
        """Bytes per worker that go round the ring, for a buffer per GPU."""
        if self.servers == 1:
            return 0
        return round(buffer_bytes * self.gpus_per_worker / self.on_server)

    def local(self, buffer_bytes: float, ring: Collective) -> int:
        """Bytes that each GPU moves inside its server."""
        passes = 2 if ring == Collective.ALL_REDUCE else 1
        return round(passes * buffer_bytes * share_inside(self.on_server, self.servers))


def share_inside(on_server: int, servers: int) -> float:
    """Share of a buffer that each GPU sends inside its server as it goes around a ring once."""
    if servers == 1:
        return 1 - 1 / on_server
    return (1 - 1 / on_server) * (1 - 1 / (on_server * servers))


def ring_groups(name: str, groups: Ranks, workers: Workers) -> RingGroups:
    """Lay out the rings of groups of GPUs, ``(groups, GPUs)``.

    Raises
    ------
    PlanError
        If a group covers its servers unevenly, so that there is no such hierarchy.
    """
    groups = np.sort(groups, axis=1)
    on_server, count = servers_of_groups(name, groups, workers.gpus_per_server)
    # rings of GPUs at the same place within their servers, then the workers that they run along
    rings = groups.reshape(len(groups), count, on_server).transpose(0, 2, 1).reshape(-1, count)
    along = workers.worker_of[rings]
    first = np.unique(along[:, 0], return_index=True)[1]
    kept = along[first]
    ring_of = np.full(workers.gpus.shape[0] * workers.server[0].size, -1)
    ring_of[kept.reshape(-1)] = np.repeat(np.arange(len(kept)), count)
    whole = np.unique(kept).size == kept.size
    if not whole or (ring_of[along] != ring_of[along][:, :1]).any():
        raise PlanError(
            f"the GPUs of a worker are in {name} rings along different servers; keep the rank "
            "order 'tp-cp-ep-dp-pp'"
        )
    family = GroupFamily(
        name=name,
        offsets=np.arange(0, kept.size + 1, count, dtype=np.uint32),
        workers=kept.reshape(-1).astype(np.uint32),
    )
    return RingGroups(family, on_server, count, workers.gpus_per_worker)
