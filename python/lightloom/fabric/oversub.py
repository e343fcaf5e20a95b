"""Oversubscribed fat-tree: ToRs with ``ratio`` times as much rate down as up, the rest 1:1.

ToRs are filled as evenly as the cluster allows, so that a small cluster does not have one ToR with
hardly any uplinks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from lightloom.fabric.base import PacketSwitched
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.network import Network


class Oversub(PacketSwitched):
    """A fat-tree that is oversubscribed at the ToR."""

    kind: ClassVar[str] = "oversub"
    title: ClassVar[str] = "oversub"

    ratio: Annotated[float, Field(ge=1, allow_inf_nan=False)] = Field(
        3.0, description="Oversubscription of a ToR: its rate down over its rate up."
    )

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core, with the rate of a ToR's uplinks."""
        network, tree = super().network(cluster, context), self.tree(self.adapt(cluster))
        # What oversubscription costs hangs on how many servers of an EP group share a ToR.
        shared = (
            f"each ToR has {tree.nics_per_tor} ports to its {tree.servers_per_tor} servers and "
            f"{tree.uplinks_per_tor} to the spine, which all pairs cross with servers_per_tor = 1"
        )
        return dataclasses.replace(network, notes=(*network.notes, shared))

    def knobs(self, cluster: Cluster) -> dict[str, Sequence[Any]]:
        """Every option of a tree, and its oversubscription."""
        ratios = [ratio for ratio in (1.5, 2.0, 3.0, 4.0, 7.0) if ratio != self.ratio]
        return {"ratio": ratios, **super().knobs(cluster)}

    def oversubscription(self) -> float:
        """Rate down over rate up of a ToR."""
        return self.ratio
