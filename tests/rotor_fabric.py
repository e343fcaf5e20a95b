"""A fabric of a user: a rotor switch per circuit NIC, alongside packet NICs if there are any.

All that it takes to add a fabric is such a file; an object of the class is compared as it is.
"""

from typing import ClassVar

import numpy as np

from lightloom.fabric.base import circuit_all_to_all
from lightloom.fabric.bill import Bill, Counting, Line, nic_lines
from lightloom.fabric.fabric_options import FabricOptions
from lightloom.fabric.network import Eps, Network, Scheduled
from lightloom.fabric.option_types import Count, Quantity
from lightloom.units import to_ps


def rounds(servers):
    """Matchings in which every server meets every other one once: the circle method."""
    ring = list(range(1, servers))
    for turn in range(servers - 1):
        order = [0, *ring[turn:], *ring[:turn]]
        yield list(zip(order[: servers // 2], reversed(order[servers // 2 :]), strict=True))


class Rotor(FabricOptions):
    """``uplinks`` rotor switches that all show the same matching; an even number of servers."""

    kind: ClassVar[str] = "rotor"
    title: ClassVar[str] = "rotor"

    uplinks: Count = 1
    hold_s: Quantity = 1e-4
    dark_s: Quantity = 1e-5
    #: transfers of fewer bytes take the packet NICs, if there are any
    min_bytes: int = 0

    def network(self, cluster, context=None):  # noqa: ARG002
        cluster = self.adapt(cluster)
        chosen, reason = circuit_all_to_all(self.all_to_all)
        slots = list(rounds(cluster.servers))
        rotor = Scheduled(
            nic_rate_bps=cluster.nic_rate_bps,
            link_delay_ps=cluster.link_delay_ps,
            circuits=np.array(
                [(slot, a, b, self.uplinks) for slot, pairs in enumerate(slots) for a, b in pairs],
                np.uint32,
            ),
            dark_ps=np.full(len(slots), to_ps(self.dark_s), np.uint64),
            hold_ps=np.full(len(slots), to_ps(self.hold_s), np.uint64),
            min_bytes=self.min_bytes,
        )
        parts = (rotor,) if self.min_bytes == 0 else (self._packet_nics(cluster), rotor)
        return Network(
            servers=cluster.servers,
            gpus_per_server=cluster.gpus_per_server,
            nvswitch=cluster.nvswitch(),
            start_up=cluster.start_up(),
            all_to_all=chosen,
            all_to_all_reason=reason,
            parts=parts,
            notes=(f"{len(slots)} slots",),
        )

    def _packet_nics(self, cluster):
        return Eps(
            nics=cluster.nics_per_server - self.uplinks,
            nic_rate_bps=cluster.nic_rate_bps,
            link_delay_ps=cluster.link_delay_ps,
            servers_per_tor=cluster.servers,
            servers_per_pod=cluster.servers,
        )

    def bill_of_materials(self, cluster, counting=None, network=None):  # noqa: ARG002
        cluster, counting = self.adapt(cluster), counting or Counting()
        nics, rate = cluster.servers * self.uplinks, cluster.rate_gbps
        lines = [*nic_lines(nics, rate, counting), Line("ocs_port", rate, nics)]
        return Bill(
            fabric=self.name,
            gpus=cluster.gpus,
            servers=cluster.servers,
            lines=tuple(lines),
            fiber_length_m=counting.fiber_length_m,
            conventions=counting.conventions(),
        )
