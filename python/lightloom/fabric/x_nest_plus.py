"""X-NEST+: pods of racks, circuits within and between them, and a few electrical links in each pod.

X-NEST+ (Gu et al.). A pod is k racks (k even), of which each of one half has an electrical link to
each of the other half; r circuit switches join the racks of a pod, and 2q at each position in a pod
the racks at this position of all pods. The paper gives q = k // 4 and leaves r open: r = 2q here.
Every epoch one half of the switches follows what was measured; bytes go over one circuit, over two,
or electrically, by tables that racks renew when they have seen their neighbors.

Two older networks differ, as the paper says, in having circuits between pods alone; all racks of a
pod are joined electrically, here one link for each pair of the same rate. X-NEST (Lu et al., JLT
2021) has the core and the rules of X-NEST+; in Flexfly (Wen et al., SC 2016) the pods are the
groups of a dragonfly, and core switches take any matching, of largest weight for what was measured.
Neither text is at hand.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from lightloom.errors import FabricError
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.network import EpochRules, Network, RackCircuits
from lightloom.fabric.option_types import Count, Quantity, Switch
from lightloom.fabric.racks import (
    MOST_RACKS,
    EstimatorChoice,
    RackFabric,
    RackPorts,
    Thousandths,
)
from lightloom.inputs.fields import OneOf
from lightloom.schedule.named_sets import READINGS, SWITCH_RULES
from lightloom.units import show_time, to_ps

#: the paper's circuits of 100 Gb/s over its NICs and electrical links of 25 Gb/s
_RATIO = 4


class XnestPlus(RackFabric):
    """Circuits within and between pods of racks, by measured demand, and distributed routing."""

    kind: ClassVar[str] = "x-nest-plus"
    title: ClassVar[str] = "x-nest-plus"

    variant: Literal["x-nest-plus", "x-nest", "flexfly"] = Field(
        "x-nest-plus",
        description="X-NEST+, or its predecessor 'x-nest', or 'flexfly': both with electrical links"
        " alone in a pod, the last with any matching between pods.",
    )
    k: Count | None = Field(
        None, description="Pods, and racks of a pod: even, 4 or more. By default the fewest."
    )
    q: Count | None = Field(
        None,
        description="A rack has 2q circuits to other pods; by default k // 4, as in the paper.",
    )
    r: Count | None = Field(
        None, description="Circuit switches of a pod; by default 2q, which the paper leaves open."
    )
    fibers: Count | None = Field(
        None,
        description="Parallel fibers of a circuit; by default so that one is 4 times as fast as a"
        " k-th of a rack's NICs, the paper's 100 to 25 Gb/s.",
    )
    epoch_s: Quantity = Field(
        0.1, description="Time from one decision to the next; the paper's testbed had 300 s."
    )
    control_s: Quantity = Field(
        0.0, description="Time from a decision to the moment at which switches begin to turn."
    )
    halves: Switch = Field(
        True, description="One half of the switches turns at a time, as in the paper."
    )
    reading: Annotated[str, OneOf(READINGS)] = Field(
        "pairings", description="How the traffic matrix is split; the paper can be read both ways."
    )
    rule: Annotated[str, OneOf(SWITCH_RULES)] = Field(
        "greedy",
        description="How many switches a part of the matrix gets: 'paper' rounds shares, which need"
        " not add up; 'hops' makes the busiest circuit carry least, relayed bytes included.",
    )
    hello_s: Quantity = Field(
        0.01, description="Time between two looks of racks at their neighbors; 0 for at once."
    )
    dark: Literal["hold", "fallback"] = Field(
        "hold",
        description="What bytes do whose circuit has gone dark: wait until it is lit or the tables"
        " know another path, or go electrically after patience_s.",
    )
    patience_s: Quantity = Field(0.001, description="How long bytes wait before they fall back.")
    estimator: EstimatorChoice = Field(
        "last",
        description="What an epoch is expected to bring: 'last' and 'smoothed' know what was"
        " measured, 'clairvoyant' what is to come, which no controller does.",
    )
    weight: Thousandths = Field(
        250, description="Weight of the newest measurement of 'smoothed', in thousandths."
    )

    @field_validator("k")
    @classmethod
    def _k_is_even(cls, k: int | None) -> int | None:
        if k is not None and (k < 4 or k % 2):
            raise FabricError(f"k = {k}: expected an even number, 4 or more")
        return k

    @model_validator(mode="after")
    def _circuits_in_pods_are_those_of_x_nest_plus(self) -> Self:
        if self.r is not None and not self._is_plus:
            raise FabricError(f"r = {self.r}: {self.variant} has no circuits within pods")
        return self

    @property
    def _is_plus(self) -> bool:
        return self.variant == "x-nest-plus"

    def _k(self, cluster: Cluster) -> int:
        racks = self._racks(cluster)
        if self.k is None:
            k = 4
            while k * k < racks:
                k += 2
            return k
        if self.k * self.k < racks:
            raise FabricError(
                f"{self.name}: k = {self.k}: {self.k * self.k} racks of {self._per_rack(cluster)}"
                f" servers do not hold {cluster.servers}: expected a larger k or servers_per_rack"
            )
        return self.k

    def _most_racks(self) -> int:
        # a switch joins the racks of a pod, or those at one position of all pods
        return min(self._ocs_ports() ** 2, MOST_RACKS)

    def _ports(self, cluster: Cluster) -> RackPorts:
        k, nics = self._k(cluster), self._rack_nics(cluster)
        core, pod = self._circuits_of_rack(cluster)
        fibers = self.fibers or max(1, _RATIO * nics // k)
        cabled = k // 2 if self._is_plus else k - 1
        return RackPorts(pod + core, fibers, cabled * self._cable_fibers(cluster))

    def _circuits_of_rack(self, cluster: Cluster) -> tuple[int, int]:
        """Circuits of a rack to other pods, 2q, and within its pod, r."""
        core = 2 * (self.q or max(1, self._k(cluster) // 4))
        return core, (self.r or core) if self._is_plus else 0

    def _cable_fibers(self, cluster: Cluster) -> int:
        """Links at the rate of the NICs that an electrical one of the paper stands for."""
        return max(1, self._rack_nics(cluster) // self._k(cluster))

    def _banks(self, cluster: Cluster) -> tuple[tuple[tuple[int, ...], int], ...]:
        """Racks that circuit switches join, and how many, of racks with servers alone."""
        k, racks = self._k(cluster), self._racks(cluster)
        core, pod = self._circuits_of_rack(cluster)
        pods = [(tuple(range(first, min(first + k, racks))), pod) for first in range(0, racks, k)]
        positions = [(tuple(range(place, racks, k)), core) for place in range(k)]
        return tuple(bank for bank in (*pods, *positions) if len(bank[0]) > 1 and bank[1])

    def _cables(self, cluster: Cluster) -> tuple[tuple[int, int], ...]:
        """Pairs of racks with an electrical link: the two halves of each pod, or all of it."""
        k, racks = self._k(cluster), self._racks(cluster)
        places = list(itertools.combinations(range(k), 2))
        if self._is_plus:
            places = list(itertools.product(range(k // 2), range(k // 2, k)))
        pairs = (
            (first + low, first + high) for first in range(0, racks, k) for low, high in places
        )
        return tuple(pair for pair in pairs if max(pair) < racks)

    def _fibers(self, cluster: Cluster) -> int:
        fibers = self._ports(cluster).fibers
        return fibers * sum(len(racks) * count for racks, count in self._banks(cluster))

    def _electrical_links(self, cluster: Cluster) -> int:
        return len(self._cables(cluster)) * self._cable_fibers(cluster)

    def _circuits(self, cluster: Cluster) -> RackCircuits:
        self._check_epoch("epoch_s", self.epoch_s)
        rules = EpochRules(
            "helios" if self.variant == "flexfly" else "x-nest-plus",
            estimator=self.estimator,
            weight=self.weight,
            reading=self.reading,
            rule=self.rule,
            turning="first" if self.halves else "all",
        )
        return self._rack_circuits(
            cluster,
            self.epoch_s,
            rules,
            banks=self._banks(cluster),
            cables=self._cables(cluster),
            cable_rate_bps=self._cable_fibers(cluster) * cluster.nic_rate_bps,
            control_ps=to_ps(self.control_s),
            circuits_per_path=2,
            hello_ps=to_ps(self.hello_s),
            patience_ps=to_ps(self.patience_s) if self.dark == "fallback" else None,
        )

    def _notes(self, cluster: Cluster) -> tuple[str, ...]:
        k, ports = self._k(cluster), self._ports(cluster)
        knows = "what comes" if self.estimator == "clairvoyant" else "what was measured"
        name = "" if self._is_plus else f"{self.variant}: "
        half = ", one half at a time" if self.halves and self.variant != "flexfly" else ""
        return (
            f"{name}k = {k}: {self._racks(cluster)} of {k * k} racks, {ports.switches} circuits of"
            f" {ports.fibers} fibers each; they follow {knows}, each {show_time(self.epoch_s)}"
            f"{half}, and are dark for {show_time(self._dark_s())} when they change",
        )

    def _applied(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        core, pod = self._circuits_of_rack(cluster)
        fibers = self._ports(cluster).fibers
        parameters = {"k": self._k(cluster), "q": core // 2, "r": pod or None, "fibers": fibers}
        return super()._applied(cluster, network) | parameters
