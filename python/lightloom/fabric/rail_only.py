"""Rail-only: NIC i of every server on rail network i, and no spine that joins the rails.

Wang et al., arXiv 2307.12169: a rail network joins GPUs of one position in their servers, the
rack all positions of a server. What is bound for another rail crosses the NVSwitch of
the sending server first (NCCL's PXN), then the rail of its destination. Rails with more NICs than
a switch has ports are trees of their own. It is ``rail`` with as many ``planes`` as NICs.
"""

from __future__ import annotations

from typing import ClassVar

from lightloom.fabric.base import FAILED, PacketTrees
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.option_types import PartNames


class RailOnly(PacketTrees):
    """A network for each rail, and nothing but NVSwitches between rails."""

    kind: ClassVar[str] = "rail-only"
    title: ClassVar[str] = "rail-only"
    by_rail: ClassVar[bool] = True

    failed: PartNames = FAILED

    def planes_of(self, cluster: Cluster) -> int:
        """One for each NIC of a server."""
        return cluster.nics_per_server

    def _notes(self, cluster: Cluster) -> list[str]:
        rails = cluster.nics_per_server
        joined = f"{rails} rails without a spine: bytes for another one cross an NVSwitch"
        return [*super()._notes(cluster), joined]
