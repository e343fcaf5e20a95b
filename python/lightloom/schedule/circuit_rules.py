"""What decides on the circuits of a region, as the one record that fabrics and controllers make.

A fabric makes it of its options, and its part of a simulated network of this; a controller makes it
of the tables of its region's file, or takes that of a fabric's file. Whoever has the same rules and
the same demand decides on the same circuits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from lightloom.hardware import measured_turnaround, nic_activation
from lightloom.inputs.strict import quantity
from lightloom.schedule.records import Failures, Policy, Region, SwitchTiming

if TYPE_CHECKING:
    from lightloom.schedule.decider import Decider

#: times of a switch that may be words: the mean that was measured, and its 99th percentile
SWITCHING_WORDS = ("measured", "measured-p99")
LINK_UP_WORDS = ("measured",)

_Time = Annotated[float, Field(ge=0, le=1e6)]
#: what a user may write of them
SwitchingTime = Annotated[
    _Time | Literal["measured", "measured-p99"], quantity("second", SWITCHING_WORDS)
]
LinkUpTime = Annotated[_Time | Literal["measured"], quantity("second", LINK_UP_WORDS)]


@dataclass(frozen=True)
class CircuitRules:
    """Rates, policy and timing of a region.

    Attributes
    ----------
    circuit_gbps
        Rate of a circuit.
    eps_gbps, eps_nics
        Rate of a server on packet switches, and its NICs there.
    split
        Whether a pair with circuits may send its excess over the packet switches.
    policy
        How circuits follow the demand.
    timing
        How long a switch takes.
    numa_nodes
        NUMA nodes of a server.
    """

    circuit_gbps: float
    eps_gbps: float
    eps_nics: int | None
    split: bool
    policy: Policy
    timing: SwitchTiming
    numa_nodes: int = 2

    @property
    def fingerprint(self) -> str:
        """Digest of all of them: equal rules have the same."""
        return sha256(repr(self).encode()).hexdigest()

    def region(self, ports: int | Sequence[int], failed: Failures | None = None) -> Region:
        """Return the region of servers with these optical NICs, less what has failed."""
        return Region(
            ports=ports,
            circuit_gbps=self.circuit_gbps,
            eps_gbps=self.eps_gbps,
            eps_nics=self.eps_nics,
            split=self.split,
            failed=failed,
        )

    def decider(
        self, ports: Sequence[int], planes: str | None, failed: Failures | None = None
    ) -> Decider:
        """Return what decides for servers with these optical NICs.

        Parameters
        ----------
        ports
            Optical NICs of each server.
        planes
            How fibers are laid, as ``Decider`` takes it.
        failed
            What is never used.

        Raises
        ------
        InputError
            If a part that has failed does not exist.
        """
        from lightloom.schedule.decider import Decider

        return Decider(
            len(ports),
            self.region(ports, failed),
            policy=self.policy,
            timing=self.timing,
            planes=planes,
            numa_nodes=self.numa_nodes,
        )


def switching_times_s(fixed_s: float | str, per_pair_s: float | None) -> tuple[float, float]:
    """Return a fixed time and that of each pair in seconds; words are what was measured.

    Parameters
    ----------
    fixed_s
        A time, or one of :data:`SWITCHING_WORDS`.
    per_pair_s
        A time; by default as measured where ``fixed_s`` is a word, and else none.
    """
    if not isinstance(fixed_s, str):
        return fixed_s, per_pair_s or 0.0
    part = "mean_s" if fixed_s == "measured" else "p99_s"
    none_s, one_s = (float(getattr(measured_turnaround(pairs), part)) for pairs in (0, 1))
    return none_s, one_s - none_s if per_pair_s is None else per_pair_s


def link_up_time_s(link_up_s: float | str) -> float:
    """Return the time until a link carries traffic in seconds; a word is what was measured."""
    return nic_activation().mean_s if isinstance(link_up_s, str) else link_up_s
