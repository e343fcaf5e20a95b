"""Options that every fabric has.

Options are described on the command line before anything is simulated, so that this module imports
no network.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import Field

from lightloom.errors import FabricError, InputError
from lightloom.fabric.interconnect import INTERCONNECTS, Interconnect, uplink_efficiency
from lightloom.fabric.option_types import Count, Label, OptionalPositive, OptionModel, Share
from lightloom.inputs.fields import OneOf
from lightloom.schedule.named_sets import ALL_TO_ALL_STRATEGIES

if TYPE_CHECKING:
    from lightloom.fabric.cluster import Cluster
    from lightloom.fabric.context import FabricContext
    from lightloom.fabric.network import Network
    from lightloom.fabric.reconfiguration import CircuitRegion, Reconfiguration
    from lightloom.schedule import Failures

#: how an all-to-all is spread, or whatever is best
AllToAllChoice = Annotated[str, OneOf(["best", *ALL_TO_ALL_STRATEGIES])]
#: what is assumed of the rates that NVLink and NICs reach
InterconnectChoice = Annotated[str, OneOf(INTERCONNECTS)]


class Setting(NamedTuple):
    """A value of an option that a fabric leaves open."""

    option: str
    value: str

    def __str__(self) -> str:
        return f"{self.option}={self.value}"


class FabricOptions(OptionModel):
    """Options that all fabrics share.

    Those of servers and links replace what the cluster has, so that fabrics with different servers
    or rates can be compared.
    """

    kind: ClassVar[str]

    label: Label | None = Field(None, description="Name in results; by default the fabric's kind.")
    all_to_all: AllToAllChoice = Field(
        "best", description="How all-to-alls of expert parallelism are spread over the NICs."
    )
    gpus_per_server: Count | None = Field(
        None, description="GPUs in a server; by default those of the cluster."
    )
    nics_per_server: Count | None = Field(
        None, description="NICs in a server; by default those of the cluster."
    )
    rate_gbps: OptionalPositive = Field(
        None, description="Rate of a NIC per direction; by default that of the cluster."
    )
    nvlink_gbps: OptionalPositive = Field(
        None,
        description="Rate of a GPU into the NVSwitch per direction; by default that of the GPU.",
    )
    link_delay_s: OptionalPositive = Field(
        None, description="Propagation delay of a link; by default that of the cluster."
    )
    interconnect: InterconnectChoice | None = Field(
        None,
        description="Rates that NVLink and NICs reach, and start-up times: 'measured', or 'ideal'"
        " as in papers' simulations; by default those of the cluster.",
    )
    nic_efficiency: Share | None = Field(
        None, description="Share of a NIC's rate that is reached; by default as measured."
    )

    @property
    def name(self) -> str:
        """What results call this fabric."""
        return self.label or self.kind

    def adapt(self, cluster: Cluster) -> Cluster:
        """Return the cluster with this fabric's own servers, NICs and rates; idempotent."""
        changes: dict[str, Any] = {
            name: value
            for name in (
                "gpus_per_server",
                "nics_per_server",
                "rate_gbps",
                "nvlink_gbps",
                "link_delay_s",
            )
            if (value := getattr(self, name)) is not None
        }
        if self.nics_per_server is not None and self.gpus_per_server is None:
            changes["nics_per_server"] = cluster.nics_of_used(self.nics_per_server)
        if self.interconnect is not None:
            changes["interconnect"] = Interconnect.named(self.interconnect, cluster.gpu)
        if self.nic_efficiency is not None:
            links = changes.get("interconnect", cluster.interconnect)
            changes["interconnect"] = dataclasses.replace(links, nic_efficiency=self.nic_efficiency)
        return dataclasses.replace(cluster, **changes)

    def knobs(self, cluster: Cluster) -> dict[str, Sequence[Any]]:
        """What a buyer may choose about the fabric: values of options by name.

        Parameters
        ----------
        cluster
            As :meth:`adapt` returns it.
        """
        used = cluster.nics_per_server
        whole = cluster.gpus_per_server + cluster.idle_gpus_per_server
        nics = used * whole // cluster.gpus_per_server
        return {"nics_per_server": [nics // part for part in (2, 4) if used % part == 0]}

    def parameters(self) -> dict[str, Any]:
        """Every option and its value."""
        return {"kind": self.kind, **self.model_dump()}

    def effective(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        """Every option and the value that applies, given or not; ``None`` where none does.

        Parameters
        ----------
        cluster
            The servers of the job.
        network
            What :meth:`network` made of the options for them.
        """
        return self.parameters() | self._applied(self.adapt(cluster), network)

    def _applied(self, cluster: Cluster, network: Network) -> dict[str, Any]:
        """What applies where a default depends on the cluster, on built-in data or on the job."""
        from lightloom.fabric.network import Eps

        links = cluster.interconnect
        own_rate = dataclasses.replace(links, nic_efficiency=1.0)
        is_ideal = own_rate == Interconnect.named("ideal", cluster.gpu)
        values: dict[str, Any] = {
            "label": self.name,
            "all_to_all": network.all_to_all,
            "gpus_per_server": cluster.gpus_per_server,
            "nics_per_server": cluster.nics_per_server,
            "rate_gbps": cluster.rate_gbps,
            "nvlink_gbps": cluster.nvlink_gbps,
            "link_delay_s": cluster.link_delay_s,
            "interconnect": "ideal" if is_ideal else "measured",
            "nic_efficiency": links.nic_efficiency,
        }
        parameters = self.parameters()
        if "ecmp" in parameters and parameters["ecmp"] is None:
            values["ecmp"] = uplink_efficiency()
        if (eps := network.part(Eps)) is not None:
            values["servers_per_tor"] = eps.servers_per_tor
        return values

    def reconfiguration(self) -> Reconfiguration | None:
        """Return how circuits follow the demand; ``None`` if none do."""
        return None

    def circuit_region(self, _cluster: Cluster) -> CircuitRegion | None:
        """Return what a controller must know of a region; ``None`` if it could not serve one.

        Raises
        ------
        FabricError
            If the fabric cannot be built of these servers.
        """
        return None

    def candidates(
        self, _cluster: Cluster, _context: FabricContext | None
    ) -> Mapping[Setting, Self]:
        """Return what a setting that is left open may be; none, as none is."""
        return {}

    def failures(self) -> Failures:
        """Return what has failed: nothing, unless there is an option ``failed`` that names parts.

        Raises
        ------
        FabricError
            If a name is no part.
        """
        from lightloom.schedule.failures import parse_failures
        from lightloom.schedule.records import Failures

        names = getattr(self, "failed", ())
        try:
            return parse_failures(",".join(names), "failed") if names else Failures()
        except InputError as error:
            raise FabricError(str(error)) from None

    def without(self, lost: Failures, /) -> Self | None:
        """Return the fabric without more parts, under its name; ``None`` if none can be named."""
        if "failed" not in type(self).model_fields:
            return None
        names = (*self.failures().names, *lost.names)
        return self.replace(failed=names, label=self.name)

    def replace(self, **options: Any) -> Self:
        """Return the fabric with some options changed, all of them checked again."""
        return type(self)(**{**self.model_dump(exclude_unset=True), **options})
