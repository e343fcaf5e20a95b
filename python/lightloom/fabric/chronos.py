"""Chronos: crossbars and no packet switch; every NIC has one circuit at a time.

Chronos (NAIC 2025). What is known beforehand (rings, pipeline messages) takes time slots that were
scheduled before the run; a dispatch takes the matchings of a schedule that is found when its gate
is done, and what follows with the same demand (combine, the way back) has it known. NIC i of every
server is on plane i: one crossbar, or tiers of them without oversubscription.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from lightloom.errors import FabricError, HardwareError, InputError
from lightloom.fabric.base import check_layout, circuit_all_to_all, network_of
from lightloom.fabric.bill import Bill, Counting, Line, TreeLinks, merged, nic_lines
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.fabric_options import FabricOptions
from lightloom.fabric.network import Crossbars, Network
from lightloom.fabric.option_types import (
    Count,
    OptionalPositive,
    OptionalQuantity,
    PartNames,
    Quantities,
    Quantity,
    Spares,
    Switch,
)
from lightloom.fabric.tree import Tree, plan_tree, tree_links, tree_switches
from lightloom.hardware import crossbar_names, crossbar_technology, decision_times
from lightloom.inputs.fields import Choices, OneOf
from lightloom.schedule import PERMUTATION_METHODS, Failures
from lightloom.units import show_time, to_ps

#: who finds the matchings: the core's own methods, the paper's, or an ASIC
DECISIONS = ("measured", "paper", "paper-maximal", "asic")
#: the method that stands for whichever ends first
BEST = "best"
#: methods that are not worth their time: they take a slot for about every pair
LAVISH = ("maximal", "open-shop")
#: methods among which the best is: those that take least time come first
METHODS = tuple(name for name in PERMUTATION_METHODS if name not in LAVISH)
#: the one of them that takes long: tried only where crossbars turn slowly
THOROUGH = "critical"
#: time to turn above which crossbars are slow
SLOW_S = 1e-6


class Chronos(FabricOptions):
    """Crossbars alone: time slots known beforehand, matchings on demand for dispatches.

    A slot waits for the latency between servers and the guard time of the crossbars. Collectives
    that share a NIC take turns; rings that nobody waits for stop for the others.
    """

    kind: ClassVar[str] = "chronos"
    title: ClassVar[str] = "chronos"

    technology: Annotated[str, Choices(crossbar_names)] = Field(
        "electronic", description="Technology of the crossbars."
    )
    crossbar_ports: Count | None = Field(
        None, description="Ports of a crossbar; by default those of its technology."
    )
    guard_s: OptionalQuantity = Field(
        None,
        description="Time in which crossbars turn and carry nothing; by default that of their"
        " technology.",
    )
    latency_s: OptionalQuantity = Field(
        None,
        description="Largest one-way latency between servers, which every slot waits for; by"
        " default the delays of the links that a circuit crosses.",
    )
    slot_s: OptionalPositive = Field(
        None,
        description="Length of every time slot; by default each is as long as what it carries"
        " takes.",
    )
    lower_latencies_s: Quantities = Field(
        (),
        description="Latency inside each tier of crossbars below the highest, from the lowest on,"
        " such as 2 us,4 us; by default latency_s.",
    )
    lower_slots_s: Quantities = Field(
        (),
        description="Length of the time slots inside each tier below the highest, from the lowest"
        " on; by default slot_s.",
    )
    sync_error_s: Quantity = Field(
        0.0,
        description="By how much NICs hear too early or too late that a slot begins: the guard time"
        " is longer by twice that.",
    )
    control_share: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = Field(
        0.0, description="Share of every NIC's time that messages of control take."
    )
    aligned: Switch = Field(
        False,
        description="NICs send early by their latency, so that slots of an all-to-all need not"
        " wait for it.",
    )
    held: Switch = Field(
        False, description="A ring turns its crossbars once, not in the slot of every step."
    )
    kept: Annotated[str, OneOf(("no", "needed", "ahead"))] = Field(
        "no",
        description="Whether NICs keep circuits until others are needed, as held and between"
        " collectives; ahead: they turn while they are free, for what is known to come.",
    )
    method: Annotated[str, OneOf((*PERMUTATION_METHODS, "auto", BEST))] = Field(
        BEST,
        description="How the matchings of an all-to-all are found; best: as they end first, with"
        f" the time to decide, by any method but {' and '.join(LAVISH)}, and {THOROUGH} where"
        " crossbars turn within 1 us.",
    )
    decision: Annotated[str, OneOf(DECISIONS)] = Field(
        "measured",
        description="How long that takes for a dispatch: as measured of the method here, as the"
        " paper measured, or below 1 us on the paper's ASIC (up to 64 servers).",
    )
    decision_s: OptionalQuantity = Field(
        None, description="The time that it takes, instead of one by the number of servers."
    )
    straggler_s: Quantity = Field(
        0.0,
        description="Mean of an exponential time by which each member of a collective is late; all"
        " of it waits for the last.",
    )
    delayed: Annotated[str, OneOf(("members", "all"))] = Field(
        "members",
        description="Who waits for a late member: those of its collective, or all, as the next slot"
        " is everybody's.",
    )
    straggler_seed: Annotated[int, Field(ge=0, lt=2**32, strict=True)] = Field(
        1, description="Seed of these times."
    )
    failed: PartNames = Field(
        (),
        description="Parts that are never used, such as nic:2/1 (server/NIC), plane:0 or server:3;"
        " spare planes and servers replace them.",
    )
    spare_planes: Annotated[int, Field(ge=0, le=1000, strict=True)] = Field(
        0, description="Planes that can replace another one, by an optical switch at each NIC."
    )
    spare_servers: Spares = Field(
        0, description="Servers that can replace another one; their NICs and ports are charged."
    )

    @model_validator(mode="after")
    def _parts_are_known(self) -> Self:
        try:
            crossbar_technology(self.technology)
        except InputError as error:
            raise FabricError(str(error)) from None
        failures = self.failures()
        if failures.eps_nics:
            raise FabricError(
                "failed: there are no EPS NICs: expected nic:2/1, plane:0 or server:3"
            )
        failed = len(set(failures.servers))
        if failed > self.spare_servers:
            raise FabricError(
                f"failed: {failed} servers, and {self.spare_servers} spare ones: expected"
                f" spare_servers = {failed} at least"
            )
        if self.delayed == "all" and not self.straggler_s:
            raise FabricError("delayed = all is for members that are late: give straggler_s, too")
        if self.kept != "no" and "held" in self.model_fields_set and not self.held:
            raise FabricError(
                f"held = off: kept = {self.kept} holds circuits of rings as well: expected held ="
                " on, or kept = no"
            )
        for name, is_set in (("held", self.held), ("kept", self.kept != "no")):
            if (self.slot_s is not None or self.lower_slots_s) and is_set:
                text = "is for slots as long as what they carry: leave out slot_s"
                raise FabricError(f"{name} {text}")
        return self

    def without(self, lost: Failures, /) -> Self:
        """Return the fabric without more parts, under its name, and with a server for each lost."""
        servers = len({*self.failures().servers, *lost.servers})
        spares = max(self.spare_servers, servers)
        failed = (*self.failed, *lost.names)
        return self.replace(failed=failed, spare_servers=spares, label=self.name)

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core.

        Raises
        ------
        FabricError
            If a part that has failed does not exist, slots are too short, or nothing is known of
            the time to decide for the groups of the job.
        """
        cluster = self.adapt(cluster)
        check_layout(cluster, context)
        crossbars = self._crossbars(cluster, context)
        return network_of(
            cluster,
            circuit_all_to_all(self.all_to_all),
            parts=(crossbars,),
            notes=tuple(self._notes(cluster, context)),
        )

    def bill_of_materials(
        self,
        cluster: Cluster,
        counting: Counting | None = None,
        _network: Network | None = None,
    ) -> Bill:
        """Return the parts of all planes, counted as those of a fat-tree, and of spare ones.

        Electronic crossbars end every link with a transceiver. Mirrors pass light on, so that only
        NICs have one, of long reach where light crosses several. Gratings choose the output by
        wavelength: every sender has a tunable laser, their ports are passive.
        """
        cluster, counting = self.adapt(cluster), counting or Counting()
        servers, rate = cluster.servers + self.spare_servers, cluster.rate_gbps
        tree = self._tree(cluster, servers)
        links = tree_links(tree, servers, "fit")
        planes = cluster.nics_per_server + self.spare_planes
        plane = self._plane(links, rate, counting)
        port = next(line.component for line in plane if line.component.endswith("_port"))
        lines = [
            *nic_lines(servers * cluster.nics_per_server, rate, counting),
            *(dataclasses.replace(line, count=line.count * planes) for line in plane),
        ]
        if self.spare_planes:
            lines.append(Line("switch_1x2", rate, servers * cluster.nics_per_server))
        crossbar = crossbar_technology(self.technology)
        conventions = {"tiers of crossbars": f"{1 + len(links.fabric)} (as simulated)"}
        if self.spare_planes or self.spare_servers:
            conventions["spare"] = (
                f"{self.spare_planes} planes, NICs and ports of {self.spare_servers} servers"
            )
        return Bill(
            fabric=self.name,
            gpus=cluster.gpus,
            servers=cluster.servers,
            lines=merged(lines),
            switches=(
                dataclasses.replace(
                    tree_switches(dataclasses.replace(tree, planes=planes), servers, rate, port),
                    technology=crossbar.switch or self.technology,
                    availability=crossbar.availability,
                ),
            ),
            fiber_length_m=counting.length_m,
            conventions={**counting.conventions(), **conventions},
        )

    def _plane(self, links: TreeLinks, rate: float, counting: Counting) -> list[Line]:
        above = sum(links.fabric)
        ports, ends = links.hosts + 2 * above, 2 * (links.hosts + above)
        fibers = Line("fiber", rate, links.hosts + above)
        technology = crossbar_technology(self.technology)
        medium = technology.medium
        if medium == "mirrors":
            reach = "long_reach_transceiver" if above else counting.circuit_transceiver
            count = ports * counting.ocs_ports_per_nic
            return [
                Line(reach, rate, links.hosts),
                Line("ocs_port", rate, count, technology.switch),
                fibers,
            ]
        if medium == "grating":
            lasers = Line("tunable_transceiver", rate, links.hosts + 2 * above)
            return [lasers, Line("patch_port", rate, ports), fibers]
        return [Line("transceiver", rate, ends), Line("crossbar_port", rate, ports), fibers]

    def _tree(self, cluster: Cluster, servers: int | None = None) -> Tree:
        return plan_tree(self.name, servers or cluster.servers, 1, self._ports())

    def _ports(self) -> int:
        return self.crossbar_ports or crossbar_technology(self.technology).ports

    def _methods(self) -> tuple[str, ...]:
        if self.method != BEST:
            return (self.method,)
        is_slow = self._guard_s() > SLOW_S
        return tuple(name for name in METHODS if is_slow or name != THOROUGH)

    def _guard_s(self) -> float:
        guard_s = self.guard_s
        turning_s = crossbar_technology(self.technology).guard_s if guard_s is None else guard_s
        return turning_s + 2 * self.sync_error_s

    def _latency_s(self, cluster: Cluster) -> float:
        if self.latency_s is not None:
            return self.latency_s
        return 2 * self._tree(cluster).tiers(cluster.servers) * cluster.link_delay_s

    def _crossbars(self, cluster: Cluster, context: FabricContext | None) -> Crossbars:
        late = (to_ps(self.straggler_s), self.straggler_seed) if self.straggler_s else None
        latency_s, guard_s = self._latency_s(cluster), self._guard_s()
        self._check_slot("slot_s", self.slot_s, latency_s)
        if not (rate_bps := round(cluster.nic_rate_bps * (1 - self.control_share))):
            raise FabricError(f"{self.name}: control_share = {self.control_share:g} leaves no rate")
        return Crossbars(
            nics=cluster.nics_per_server,
            nic_rate_bps=rate_bps,
            latency_ps=to_ps(latency_s),
            guard_ps=to_ps(guard_s),
            methods=tuple(
                (method, self._decisions(method, cluster, context)) for method in self._methods()
            ),
            slot_ps=None if self.slot_s is None else to_ps(self.slot_s),
            aligned=self.aligned,
            held=self.held or self.kept != "no",
            kept=self.kept,
            lateness=late,
            all_wait=self.delayed == "all",
            lower_tiers=self._lower_tiers(cluster),
            failed=self._failed_nics(cluster),
            spare_planes=self.spare_planes,
        )

    def _check_slot(self, name: str, slot_s: float | None, latency_s: float) -> None:
        guard_s = self._guard_s()
        if slot_s is not None and slot_s <= latency_s + guard_s:
            raise FabricError(
                f"{self.name}: {name} = {show_time(slot_s)} is over before data arrives: expected"
                f" more than {show_time(latency_s)} of latency and {show_time(guard_s)} of guard"
                " time"
            )

    def _lower_tiers(self, cluster: Cluster) -> tuple[tuple[int, int, int | None], ...]:
        """Servers, latency and slot of each tier whose slots differ from those of the highest."""
        tree = self._tree(cluster)
        below = tree.tiers(cluster.servers) - 1
        reaches = (tree.servers_per_tor, tree.servers_per_pod)[:below]
        for name in ("lower_latencies_s", "lower_slots_s"):
            if len(given := getattr(self, name)) not in (0, below):
                if not below:
                    raise FabricError(
                        f"{self.name}: {name}: its crossbars have one tier; leave {name} out"
                    )
                tiers = f"{below + 1} tiers"
                raise FabricError(
                    f"{self.name}: {name}: {len(given)} values for crossbars of {tiers}: expected"
                    f" one for each of the {below} below the highest"
                )
        if not (self.lower_latencies_s or self.lower_slots_s):
            return ()
        latencies = self.lower_latencies_s or (self._latency_s(cluster),) * below
        slots = self.lower_slots_s or (self.slot_s,) * below
        for slot_s, latency_s in zip(slots, latencies, strict=True):
            self._check_slot("lower_slots_s", slot_s, latency_s)
        return tuple(
            (reach, to_ps(latency_s), None if slot_s is None else to_ps(slot_s))
            for reach, latency_s, slot_s in zip(reaches, latencies, slots, strict=True)
        )

    def _decisions(
        self, method: str, cluster: Cluster, context: FabricContext | None
    ) -> npt.NDArray[np.uint64]:
        """Time that a method takes by the number of members, up to the largest group of the job."""
        members = _largest_group(cluster, context)
        if self.decision_s is not None:
            return np.full(members + 1, to_ps(self.decision_s), np.uint64)
        times = decision_times(method if self.decision == "measured" else self.decision)
        try:
            lengths_ps = [to_ps(times.time_s(count)) for count in range(members, -1, -1)]
        except HardwareError as error:
            raise FabricError(f"{self.name}: {error}, such as decision_s = 10e-6") from None
        return np.array(lengths_ps[::-1], np.uint64)

    def _failed_nics(self, cluster: Cluster) -> tuple[tuple[int, int], ...]:
        """NICs that nothing replaces: of planes beyond the spare ones, those of all servers."""
        failures, nics = self.failures(), cluster.nics_per_server
        planes = sorted(set(failures.planes))
        named = [(server, 0) for server in failures.servers] + [(0, plane) for plane in planes]
        for server, nic in (*failures.nics, *named):
            if server >= cluster.servers or nic >= nics:
                raise FabricError(
                    f"{self.name}: failed: {failures.parts}: expected parts of {cluster.servers}"
                    f" servers and {nics} planes"
                )
        lost = planes[self.spare_planes :]
        everywhere = [(server, plane) for plane in lost for server in range(cluster.servers)]
        replaced = set(failures.servers)
        local = [part for part in failures.nics if part[0] not in replaced]
        return tuple(sorted({*everywhere, *local}))

    def _notes(self, cluster: Cluster, context: FabricContext | None) -> list[str]:
        tiers = self._tree(cluster).tiers(cluster.servers)
        slots = "slots as long as what they carry"
        if self.slot_s is not None:
            slots = f"slots of {show_time(self.slot_s)}"
        methods = " or ".join(
            f"{method} in {show_time(int(self._decisions(method, cluster, context)[-1]) / 1e12)}"
            for method in self._methods()
        )
        notes = [
            f"{cluster.nics_per_server} planes of {tiers} tier{'s' * (tiers > 1)} of crossbars,"
            f" {slots}, which wait"
            f" {show_time(self._latency_s(cluster))} for data and {show_time(self._guard_s())} for"
            f" crossbars; matchings of a dispatch by {methods}",
        ]
        if self.failed:
            notes.append(f"failed, and replaced where spare parts last: {self.failures().parts}")
        return notes

    def _applied(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        parameters = {
            "crossbar_ports": self._ports(),
            "guard_s": self._guard_s(),
            "latency_s": self._latency_s(cluster),
        }
        return super()._applied(cluster, network) | parameters


def _largest_group(cluster: Cluster, context: FabricContext | None) -> int:
    """Members of the largest group with all-to-alls."""
    if context is None:
        return cluster.servers
    return max((len(group) for group in context.layout.group_servers()), default=1)
