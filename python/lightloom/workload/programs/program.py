"""What a program is to a comparison: its step on so many ranks, one of them per GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from lightloom.workload.compute_kernels import Kernels
from lightloom.workload.task_graph import TaskGraph
from lightloom.workload.traffic import Traffic, sent_traffic, traffic_shares


@dataclass(frozen=True)
class ProgramStep:
    """One step of a program on servers of one size, ready to run.

    Attributes
    ----------
    graph
        One role: all ranks run the same program.
    gpus_per_server
        Ranks of a server, in ascending order.
    provenance
        Where bytes and compute times come from, in words.
    """

    graph: TaskGraph
    gpus_per_server: int
    provenance: dict[str, str] = field(default_factory=dict)

    @property
    def traffic(self) -> dict[str, Traffic]:
        """Bytes that are sent, by purpose."""
        return sent_traffic(self.graph)

    def traffic_shares(self, *, network_only: bool = False) -> dict[str, float]:
        """Share of each purpose in the bytes sent."""
        return traffic_shares(self.traffic, network_only=network_only)

    def worker_names(self) -> dict[int, str]:
        """What each worker is, in words."""
        size = self.gpus_per_server
        return {
            worker: f"ranks {worker * size} to {(worker + 1) * size - 1}" if size > 1
            else f"rank {worker}"
            for worker in range(len(self.graph.worker_server))
        }  # fmt: skip


class WorkloadProgram(Protocol):
    """A program whose steps are alike."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def gpus(self) -> int | None:
        """Ranks that it has; ``None`` where it runs on any number that :meth:`check` admits."""

    @property
    def computes(self) -> bool:
        """Whether its step depends on how fast GPUs compute."""

    def check(self, gpus: int) -> None:
        """Refuse a number of ranks that it cannot run on.

        Raises
        ------
        InputError
            One line that says what would do.
        """

    def opening(self, gpus: int) -> list[str]:
        """What it is and what a step of it does, in lines."""

    def step(
        self, gpus: int, gpus_per_server: int, kernels: Kernels, compute_scale: float
    ) -> ProgramStep:
        """The task graph of a step; ``compute_scale`` is a factor on every compute time."""
