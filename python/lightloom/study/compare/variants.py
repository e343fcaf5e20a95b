"""What is run of a fabric in addition to its own settings; each has a key in results."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, get_args

from lightloom.fabric import Fabric, Setting
from lightloom.fabric.fabric_options import FabricOptions
from lightloom.fabric.interconnect import measured_links
from lightloom.fabric.network import Network
from lightloom.practice import Priorities
from lightloom.workload.backup_gpu import BackupGpu, with_backup_gpu
from lightloom.workload.priorities import with_priorities
from lightloom.workload.task_graph import TaskGraph

if TYPE_CHECKING:
    from lightloom.study.compare.builds import Workloads


@dataclass(frozen=True)
class FabricVariant:
    """A fabric with something changed; of this class itself the fabric as it is compared."""

    #: whether it is tried before the fabric's own runs, which are those of the fastest
    is_candidate: ClassVar[bool] = False

    @property
    def key(self) -> str:
        """What files and tables call it."""
        return ""

    @property
    def title(self) -> str:
        """What a sentence calls it, next to others of its kind."""
        return self.key

    @property
    def note(self) -> str:
        """What is changed, to remark how long the step takes then; empty where tables show it."""
        return ""

    def workloads(self, compared: Workloads) -> Workloads:
        """The steps to run, given those that are compared."""
        return compared

    def graph(self, graph: TaskGraph, network: Network) -> TaskGraph:  # noqa: ARG002
        """The task graph of a step on the changed fabric, given that on all parts."""
        return graph

    def explained(self, network: Network, reason: str) -> Network:  # noqa: ARG002
        """The network of the changed fabric, which says why it was changed."""
        return network


#: the fabric as it is compared
OWN = FabricVariant()


@dataclass(frozen=True)
class Strategy(FabricVariant):
    """A candidate for a setting that the fabric leaves open."""

    is_candidate: ClassVar[bool] = True
    setting: Setting

    @property
    def key(self) -> str:
        """Such as ``all_to_all=flat``."""
        return str(self.setting)

    @property
    def title(self) -> str:
        """The value alone."""
        return self.setting.value

    def explained(self, network: Network, reason: str) -> Network:
        """The network with the reason for its all-to-alls, or with a note."""
        if self.setting == ("all_to_all", network.all_to_all):
            return dataclasses.replace(network, all_to_all_reason=reason)
        note = f"{self.setting.option} {self.setting.value}: {reason}"
        return dataclasses.replace(network, notes=(note, *network.notes))


@dataclass(frozen=True)
class OtherPolicy(FabricVariant):
    """Another policy of switching circuits."""

    name: str

    @property
    def key(self) -> str:
        """Such as ``when=never``."""
        return f"when={self.name}"


NEVER = OtherPolicy("never")


@dataclass(frozen=True)
class First(FabricVariant):
    """Other circuits for the first all-to-all of a pass."""

    name: str
    _DOES: ClassVar = {
        "block": "waits until its demand is known",
        "predict": "has its demand predicted",
        "reuse": "reuses the held circuits",
    }

    @property
    def key(self) -> str:
        """Such as ``first=block``."""
        return f"first={self.name}"

    @property
    def note(self) -> str:
        """What the first all-to-all does."""
        return f"the first all-to-all of a pass {self._DOES[self.name]} ({self.key})"


@dataclass(frozen=True)
class LinkUp(FabricVariant):
    """Another bring-up of links."""

    @property
    def key(self) -> str:
        """Always ``link_up``."""
        return "link_up"


@dataclass(frozen=True)
class OtherOrder(FabricVariant):
    """The step whose traffic has other priorities."""

    priorities: Priorities

    @property
    def key(self) -> str:
        """Such as ``priorities=none``."""
        return f"priorities={self.priorities}"

    @property
    def note(self) -> str:
        """What goes first."""
        first = {"none": "no traffic", "monta": "traffic of experts", "pipeline": "the pipeline"}
        return f"{first[self.priorities]} goes first ({self.key})"

    def graph(self, graph: TaskGraph, network: Network) -> TaskGraph:  # noqa: ARG002
        """The task graph with the other priorities."""
        return with_priorities(graph, self.priorities)


@dataclass(frozen=True)
class Failed(FabricVariant):
    """The fabric without a part; ``backup`` replaces a failed GPU over a ``path``, in words."""

    part: str
    backup: BackupGpu | None = None
    path: str = ""

    @property
    def key(self) -> str:
        """Such as ``failed=nic:2/1``."""
        return f"failed={self.part} ({self.path})" if self.path else f"failed={self.part}"

    def graph(self, graph: TaskGraph, network: Network) -> TaskGraph:
        """The task graph with the backup in the place of the GPU."""
        if self.backup is None:
            return graph
        return with_backup_gpu(graph, self.backup, network.nvswitch.collective_rate_bps)


@dataclass(frozen=True)
class PackagedLinks(FabricVariant):
    """The fabric with the packaged efficiencies and start-ups of links, not those of a profile."""

    @property
    def key(self) -> str:
        """Always ``interconnect=measured``."""
        return "interconnect=measured"


PACKAGED = PackagedLinks()


def packaged_links(fabric: Fabric, profile: Path | None) -> dict[FabricVariant, Fabric]:
    """The fabric with packaged links, where a profile has others; none where its own file has."""
    if not isinstance(fabric, FabricOptions) or fabric.interconnect is not None:
        return {}
    if not measured_links(profile):
        return {}
    return {PACKAGED: fabric.model_copy(update={"interconnect": "measured"})}


def traffic_variants(priorities: Priorities) -> list[FabricVariant]:
    """The other orders of traffic, where there is one."""
    if priorities == "none":
        return []
    return [OtherOrder(other) for other in get_args(Priorities) if other != priorities]


def switching_variants(fabric: Fabric, policies: bool) -> dict[FabricVariant, Fabric]:
    """Other ways to switch circuits, each with the fabric that has it.

    The other first all-to-all, where the policy has a choice; the links' bring-up as measured where
    it is left out, and without it where it is not; and all other policies, only ``never`` of them
    without ``policies``. None where circuits do not look at the demand.
    """
    reconfiguration = fabric.reconfiguration()
    if reconfiguration is None:
        return {}
    variants: dict[FabricVariant, Fabric] = {}
    for name, other in reconfiguration.other_first.items():
        variants[First(name)] = other
    if reconfiguration.link_up is not None:
        variants[LinkUp()] = reconfiguration.link_up.other
    for name, other in reconfiguration.other_policies.items():
        if policies or name == NEVER.name:
            variants[OtherPolicy(name)] = other
    return variants
