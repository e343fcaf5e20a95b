"""MixNet with optical I/O: racks of GPUs, each of which has circuits of its own.

MixNet (SIGCOMM 2025), section 8. The bandwidth of a GPU is that of its NIC, and what is left is
half NVLink and half optical ports on the chip, which lead to circuit switches: GPU i of every rack
of a region to switch i. Circuits join racks, all GPUs of a rack alike: a circuit of the simulation
is that of every GPU. So no GPU sends for others, and nothing is gathered or scattered. Bytes for a
GPU in another place are taken to reach it, as in the paper's simulation: that they would cross
NVLink once more is left out, and so is that a GPU with more bytes than others has no more circuits.
What has no circuits, or no room on them, takes the fat-tree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from lightloom.errors import FabricError
from lightloom.fabric.base import circuit_all_to_all, network_of
from lightloom.fabric.bill import Bill, Counting, Line, Switches, merged
from lightloom.fabric.cluster import Cluster
from lightloom.fabric.context import FabricContext
from lightloom.fabric.fabric_options import Setting
from lightloom.fabric.network import Eps, Network, Ocs
from lightloom.fabric.nvl72 import Nvl72
from lightloom.fabric.option_types import OptionalPositive, PartNames, Quantity, parse_named
from lightloom.fabric.regions import plan_regions
from lightloom.hardware import switch_names, switch_technology
from lightloom.inputs.fields import Choices
from lightloom.schedule import Failures, SwitchTiming

#: circuits of a GPU that can be planned
MAX_CIRCUITS = 256
Rate = Annotated[float, BeforeValidator(parse_named), Field(gt=0, le=100_000)]


class MixNetOpticalIo(Nvl72):
    """Racks on a fat-tree, and circuits that end at their GPUs."""

    kind: ClassVar[str] = "mixnet-optical-io"
    title: ClassVar[str] = "mixnet-optical-io"

    nvlink_gbps: OptionalPositive = Field(
        None,
        description="Rate of a GPU into the rack per direction; by default half of what its NIC "
        "leaves of the total.",
    )
    total_gbps: Rate = Field(
        8000.0, description="Rate of a GPU per direction: NIC, NVLink and circuits."
    )
    circuit_gbps: Rate = Field(200.0, description="Rate of a circuit per direction.")
    technology: Annotated[str, Choices(switch_names)] = Field(
        "piezo", description="Technology of the circuit switches."
    )
    link_up_s: Quantity = Field(
        0.0,
        description="Time until a link of optical I/O carries traffic after its circuit has "
        "settled; nobody has published it.",
    )
    failed: PartNames = Field(
        (),
        description="Parts that are never used: nic:2/1 (rack/NIC; after the NICs of a rack come"
        " its circuits, each at all GPUs), or server:3, a rack that a spare one replaces.",
    )

    def adapt(self, cluster: Cluster) -> Cluster:
        """Return the cluster with racks, their NVLink as the total leaves it; idempotent."""
        racks = super().adapt(cluster)
        left = self.total_gbps - racks.rate_gbps
        if left <= 0:
            raise FabricError(
                f"{self.name}: total_gbps = {self.total_gbps:g}: expected more than the"
                f" {racks.rate_gbps:g} Gb/s of a NIC"
            )
        return dataclasses.replace(racks, nvlink_gbps=self.nvlink_gbps or left / 2)

    def circuits(self, cluster: Cluster) -> int:
        """Circuits of a GPU; ``cluster`` as :meth:`adapt` returns it.

        Raises
        ------
        FabricError
            If there is none, or they are too many to plan.
        """
        left = self.total_gbps - cluster.rate_gbps - cluster.nvlink_gbps
        count = int(left / self.circuit_gbps + 1e-9)
        if not 1 <= count <= MAX_CIRCUITS:
            raise FabricError(
                f"{self.name}: {left:g} Gb/s of a GPU are {count} circuits of"
                f" {self.circuit_gbps:g} Gb/s: expected 1 to {MAX_CIRCUITS}; change circuit_gbps"
                " or total_gbps"
            )
        return count

    def candidates(
        self, _cluster: Cluster, _context: FabricContext | None
    ) -> Mapping[Setting, MixNetOpticalIo]:
        """Return nothing: circuits leave one way to spread an all-to-all."""
        return {}

    def _without(self, failures: Failures, eps: Eps, cluster: Cluster) -> Eps:
        """The fat-tree without its NICs that have failed; circuits are numbered after them."""
        nics = [nic for nic in failures.nics if nic[1] < cluster.nics_per_server]
        return super()._without(Failures(nics=nics, servers=failures.servers), eps, cluster)

    def _lost_circuits(self, cluster: Cluster) -> Failures | None:
        """Circuits of racks that have failed, at all of their GPUs, which are set alike."""
        first, lost = cluster.nics_per_server, self.failures()
        circuits = [(rack, nic - first) for rack, nic in lost.nics if nic >= first]
        each = self.circuits(cluster)
        if any(rack >= cluster.servers or circuit >= each for rack, circuit in circuits):
            raise FabricError(
                f"{self.name}: failed: {lost.parts}: expected parts of {cluster.servers} racks with"
                f" {first} NICs and {each} circuits"
            )
        return Failures(nics=circuits) if circuits else None

    def network(self, cluster: Cluster, context: FabricContext | None = None) -> Network:
        """Return the network for the core.

        Raises
        ------
        FabricError
            If there is no context, or a region exceeds its switches.
        """
        if context is None:
            raise FabricError(f"{self.name}: the layout of the job is needed to plan regions")
        eps = super().network(cluster, context).parts
        cluster = self.adapt(cluster)
        circuits = self.circuits(cluster)
        technology = switch_technology(self.technology)
        region = plan_regions(
            self.name, context.layout, cluster.servers, None, technology.ports // circuits
        )
        ocs = Ocs(
            ports=circuits,
            nic_rate_bps=cluster.effective_nic_bps(self.circuit_gbps * cluster.gpus_per_server),
            circuit_delay_ps=cluster.link_delay_ps,
            region_of_server=region,
            allocator="best",
            split=True,
            when="break-even",
            first="predict",
            failures=self._lost_circuits(cluster),
            timing=SwitchTiming(fixed_s=technology.reconfig_delay_s, link_up_s=self.link_up_s),
        )
        network = network_of(
            cluster, circuit_all_to_all(self.all_to_all), (*eps, ocs), self._notes(cluster)
        )
        reason = "a circuit joins two racks, all GPUs of them alike: nothing is gathered"
        return dataclasses.replace(network, delegates=False, all_to_all_reason=reason)

    def bill_of_materials(
        self,
        cluster: Cluster,
        counting: Counting | None = None,
        _network: Network | None = None,
    ) -> Bill:
        """Return a fat-tree, and a switch port, a transceiver and a fiber for each circuit.

        A port on the chip is charged as a transceiver of its rate: none has a published price.
        """
        counting = counting or Counting()
        bill = super().bill_of_materials(cluster, counting)
        cluster = self.adapt(cluster)
        each, technology = self.circuits(cluster), switch_technology(self.technology)
        positions = self.gpus_per_server + self.spare_gpus
        used = cluster.servers * positions * each
        ports = used * counting.ocs_ports_per_nic
        lines = [
            Line(counting.circuit_transceiver, self.circuit_gbps, used),
            Line("ocs_port", self.circuit_gbps, ports, self.technology),
            Line("fiber", self.circuit_gbps, used),
        ]
        switches = Switches(
            component="ocs_port",
            rate_gbps=self.circuit_gbps,
            ports=technology.ports,
            count=positions * -(-cluster.servers // max(1, technology.ports // each)),
            used=used,
            planes=positions,
            technology=self.technology,
            availability=technology.availability,
        )
        return dataclasses.replace(
            bill, lines=merged([*bill.lines, *lines]), switches=(*bill.switches, switches)
        )

    def _notes(self, cluster: Cluster) -> list[str]:
        circuits = f"{self.circuits(cluster)} circuits of {self.circuit_gbps:g} Gb/s at each GPU"
        return [*super()._notes(cluster), circuits]

    def _applied(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        return super()._applied(cluster, network) | {"nvlink_gbps": cluster.nvlink_gbps}
