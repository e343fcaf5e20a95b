"""What sharing a cluster costs each job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from lightloom.shown import ShownRows
from lightloom.study.shared_cluster.placement import jain

SCHEMA_VERSION = 1
#: by what share of its speed jobs may differ that are called undisturbed
UNDISTURBED = 0.005


@dataclass(frozen=True)
class JobOutcome:
    """One job of several.

    Attributes
    ----------
    job
        Its name.
    gpus, servers
        Its GPUs, and its servers in the cluster.
    alone_s, together_s
        Its step on these servers: with no other job, and with all; means of steps during which
        every other job trained, over all draws of when jobs begin.
    worst_s
        The longest such mean of a draw.
    best_alone_s
        Its step alone, where of all placements that is shortest.
    steps
        How many steps these are.
    tokens_per_s
        Of the job, with all others; ``None`` where tokens are not known.
    """

    job: str
    gpus: int
    servers: tuple[int, ...]
    alone_s: float
    together_s: float
    worst_s: float
    best_alone_s: float
    steps: int
    tokens_per_s: float | None

    @property
    def slowdown(self) -> float:
        """Its step with all others, over that alone."""
        return self.together_s / self.alone_s

    @property
    def speed(self) -> float:
        """What it reaches of its speed alone, placed best."""
        return self.best_alone_s / self.together_s


@dataclass(frozen=True)
class PlacementOutcome:
    """All jobs, placed in one way on one fabric.

    Attributes
    ----------
    fabric, placement
        Which.
    jobs
        What became of each.
    all_to_all
        How all-to-alls are spread.
    """

    fabric: str
    placement: str
    jobs: tuple[JobOutcome, ...]
    all_to_all: str

    @property
    def speed(self) -> float:
        """Mean of what the jobs reach of their speeds alone, placed best, by their GPUs."""
        gpus = sum(job.gpus for job in self.jobs)
        return sum(job.gpus * job.speed for job in self.jobs) / gpus

    @property
    def fairness(self) -> float:
        """Jain's index of these speeds."""
        return jain([job.speed for job in self.jobs])

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens of all jobs per second; ``None`` where those of one are not known."""
        rates = [job.tokens_per_s for job in self.jobs]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if len(known) == len(rates) else None

    @property
    def worst(self) -> JobOutcome:
        """The job that is slowed the most."""
        return min(self.jobs, key=lambda job: job.speed)


@dataclass(frozen=True, repr=False)
class SharedResult(ShownRows):
    """Several jobs on one cluster, by fabric and placement.

    ``inputs`` has the jobs and the cluster; ``remarks`` what to know of the placements.
    """

    inputs: dict[str, Any]
    placements: tuple[PlacementOutcome, ...]
    summary: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        best = {fabric: self.best(fabric) for fabric in self.fabrics}
        bests = (f"{name} {best[name].placement} {best[name].speed:.3f}" for name in best)
        return f"SharedResult({', '.join(bests)})"

    @property
    def fabrics(self) -> tuple[str, ...]:
        """Names of the fabrics."""
        return tuple(dict.fromkeys(placement.fabric for placement in self.placements))

    def of(self, fabric: str) -> list[PlacementOutcome]:
        """The placements on a fabric."""
        return [placement for placement in self.placements if placement.fabric == fabric]

    def best(self, fabric: str) -> PlacementOutcome:
        """The placement on a fabric with which the jobs train most; the first of several."""
        return max(self.of(fabric), key=lambda placement: placement.speed)

    def rows(self) -> list[dict[str, Any]]:
        """A row per fabric, placement and job."""
        return list(self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        for placement in self.placements:
            for job in placement.jobs:
                yield {
                    "fabric": placement.fabric,
                    "placement": placement.placement,
                    "job": job.job,
                    "gpus": job.gpus,
                    "alone_s": job.alone_s,
                    "together_s": job.together_s,
                    "worst_s": job.worst_s,
                    "slowdown": job.slowdown,
                    "steps": job.steps,
                    "tokens_per_s": job.tokens_per_s,
                    "speed": placement.speed,
                    "fairness": placement.fairness,
                }

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {
            "schema_version": SCHEMA_VERSION,
            "inputs": self.inputs,
            "placements": [
                asdict(placement)
                | {"speed": placement.speed, "fairness": placement.fairness}
                | {"jobs": [asdict(job) | {"slowdown": job.slowdown} for job in placement.jobs]}
                for placement in self.placements
            ],
            "remarks": list(self.remarks),
        }
