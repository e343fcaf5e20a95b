"""A random step on a network, run as it is or with one thing changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal

from tests.laws.graphs import RandomStep, random_step
from tests.laws.networks import PAIRED, network_of, scaled
from tests.laws.sampling import seeds

from lightloom.fabric.network import Network
from lightloom.simulate import Run, simulate


@dataclass(frozen=True)
class Case:
    """Step ``seed`` on the network ``name``, as fluid flows or as packets."""

    name: str
    seed: int
    model: Literal["flow", "packet"] = "flow"

    @cached_property
    def step(self) -> RandomStep:
        """What is run: a smaller step where every packet of it is simulated."""
        step = random_step(self.seed)
        return step if self.model == "flow" else step.small()

    @cached_property
    def network(self) -> Network:
        """What it is run on."""
        return network_of(self.name, self.step.servers, self.step.members)

    @cached_property
    def run(self) -> Run:
        """The run as it is."""
        return simulate(self.step.build(), self.network, network_model=self.model)

    @property
    def time_s(self) -> float:
        """Time of the step as it is."""
        return self.run.step_time_s

    def with_step(self, **changes: Any) -> float:
        """Time of the step with other fields."""
        return self.of(replace(self.step, **changes))

    def with_network(self, **changes: Any) -> float:
        """Time on the network with other rates and latencies."""
        return self.of(self.step, scaled(self.network, **changes))

    def of(self, step: RandomStep, network: Network | None = None) -> float:
        """Time of another step, or on another network."""
        network = self.network if network is None else network
        return simulate(step.build(), network, network_model=self.model).step_time_s


#: laws share the run of what they compare with
case = cache(Case)


def cases(name: str, count: int, model: Literal["flow", "packet"] = "flow") -> Iterator[Case]:
    """Cases of a network; those of another number of servers than it is for are left out."""
    for seed in seeds(count):
        if name not in PAIRED or case(name, seed, model).step.servers % 2 == 0:
            yield case(name, seed, model)
