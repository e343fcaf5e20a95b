"""One cell of Figure 12: a model, a rate, a fabric, under a stated set of assumptions.

A job is prepared once per model and its workload built once per seed; each rate and fabric is then
a network. What a set of assumptions changes of our model it changes here, in the open: the demand,
what happens inside servers, and how long the first all-to-alls wait.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand.matrix_file import MatrixSource, scale_rows
from lightloom.fabric import FabricContext, job_context, load_fabric
from lightloom.fabric.network import Network
from lightloom.simulate import Run, simulate
from lightloom.study.compare.job import Job, demand_source, prepare
from lightloom.study.compare.scenario import Scenario
from lightloom.units import PS_PER_S
from lightloom.workload.build import build
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.task_graph import (
    COLUMNS,
    NO_INDEX,
    Collective,
    Kind,
    Program,
    TaskGraph,
)
from lightloom.workload.tokens import demand_shape

HERE = Path(__file__).parent
GPUS_PER_SERVER = 8

#: ports of the packet switches at every rate
PORTS = 64
#: bandwidth inside servers where a set of assumptions has copies for free, Gb/s per GPU
FREE_GBPS = 1e5

#: tables of the experts' times
_EXPERT_TIMES = ("expert_forward_ps", "expert_backward_ps")
#: ... and of waiting for the busiest of them, which takes no time where all take the same
_STRAGGLERS = ("straggler_forward_ps", "straggler_backward_ps")


@dataclass(frozen=True)
class Assumptions:
    """One set of assumptions, for all models and rates; see ``experiment.toml``."""

    name: str
    demand: str
    mixnet: dict[str, Any]
    links: dict[str, Any]
    uplinks: dict[str, Any]
    tree: dict[str, Any] = field(default_factory=dict)
    local_gbytes_per_s: float | None = None
    first_delay_s: float = 0.0
    even_experts: bool = False

    def options(self, fabric: str) -> dict[str, Any]:
        """Options of a fabric."""
        trees = dict.fromkeys(("fat-tree", "rail", "oversub"), self.tree)
        own = {"mixnet": self.mixnet, **trees}.get(fabric)
        packets = {} if own is None else {"switch_ports": PORTS, **self.uplinks, **own}
        free = {"nvlink_gbps": FREE_GBPS} if self.local_gbytes_per_s else {}
        return {**self.links, **packets, **free}


@dataclass(frozen=True)
class Experiment:
    """The experiment file."""

    values: dict[str, Any]

    @classmethod
    def load(cls) -> Experiment:
        """Read ``experiment.toml``."""
        return cls(tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8")))

    @cached_property
    def assumptions(self) -> dict[str, Assumptions]:
        """All sets of assumptions by name."""
        sets = self.values["assumptions"].items()
        shared = {name: self.values[name] for name in ("links", "uplinks")}
        return {name: Assumptions(name=name, **shared, **values) for name, values in sets}

    @property
    def rates(self) -> list[int]:
        """Link rates, Gb/s."""
        return list(self.values["rates_gbps"])

    def published(self, model: str, fabric: str) -> list[float]:
        """Normalized step times of the authors by rate."""
        return list(self.values["published"][model][fabric])

    @property
    def token_matrix(self) -> npt.NDArray[np.int64]:
        """The public token matrix, ``(8, 8)``."""
        return np.array(self.values["token_matrix"]["rows"], dtype=np.int64)


class Model:
    """A model on the experiment's cluster under one set of assumptions."""

    def __init__(
        self,
        experiment: Experiment,
        name: str,
        assumptions: Assumptions,
        micro_batch_size: int | None = None,
    ) -> None:
        self.experiment = experiment
        self.name = name
        self.assumptions = assumptions
        self.micro_batch_size = micro_batch_size
        self.job = self._prepare()

    @property
    def seeds(self) -> range:
        """Seeds that are worth running: one where nothing is random."""
        if self.assumptions.demand == "matrix":
            return range(1)
        values = self.experiment.values
        return range(values["wide_seeds" if self.name in values["wide_models"] else "seeds"])

    def graph(self, seed: int) -> TaskGraph:
        """The task graph of one step."""
        graph = self._built(seed)
        if self.assumptions.local_gbytes_per_s:
            graph = fixed_local_times(graph, self.assumptions.local_gbytes_per_s * 1e9)
        return graph

    @cached_property
    def context(self) -> FabricContext:
        """What fabrics may know of the job in advance: the mean of the steps."""
        return job_context(self._built(seed) for seed in self.seeds)

    def network(self, fabric: str, rate_gbps: float) -> Network:
        """A fabric's network at a link rate."""
        cluster = dataclasses.replace(self.job.cluster, rate_gbps=float(rate_gbps))
        chosen = load_fabric(fabric, self.assumptions.options(fabric))
        return chosen.network(cluster, self.context)

    def run(self, fabric: str, rate_gbps: float, graph: TaskGraph) -> Run:
        """Simulate one step."""
        if fabric == "mixnet" and self.assumptions.first_delay_s:
            graph = first_delayed(graph, self.assumptions.first_delay_s)
        return simulate(graph, self.network(fabric, rate_gbps))

    def step_times(
        self, fabrics: Sequence[str] = (), rates: Sequence[int] = ()
    ) -> Iterator[tuple[str, int, float]]:
        """Fabric, rate and mean step time of every cell, s; or of some fabrics and rates."""
        graphs = [self.graph(seed) for seed in self.seeds]
        values = self.experiment.values
        wide = self.name in values["wide_models"]
        names = values["wide_fabrics"] if wide else [*values["fabrics"], *values["also"]]
        for fabric in fabrics or names:
            for rate in rates or self.experiment.rates:
                times = [self.run(fabric, rate, graph).step_time_s for graph in graphs]
                yield fabric, rate, float(np.mean(times))

    def _prepare(self) -> Job:
        values = self.experiment.values
        regime = "mixtral" if self.assumptions.demand == "matrix" else self.assumptions.demand
        stated = values["scenario"]
        return prepare(
            Scenario.model_validate(
                {
                    **stated,
                    "model": self.name,
                    "gpus": values["gpus"],
                    "fabrics": ("fat-tree",),
                    "cluster": {"rate_gbps": values["rates_gbps"][0], "gpu": values["gpu"]},
                    "demand": {"source": regime},
                    "plan": {**stated["plan"], "micro_batch_size": self.micro_batch_size},
                    "seeds": len(self.seeds),
                }
            )
        )

    def _built(self, seed: int) -> TaskGraph:
        job = self.job
        if self.assumptions.demand == "matrix":
            demand = self._matrix(self.experiment.token_matrix)
        else:
            demand = demand_source(job.scenario, job.model, job.plan, seed)
        graph = self._build(demand)
        if not self.assumptions.even_experts:
            return graph
        even = self._build(self._even())
        by_name = {table.name: table.values for table in even.tables}
        values = {name: by_name[name] for name in _EXPERT_TIMES}
        values |= {t.name: np.zeros_like(t.values) for t in graph.tables if t.name in _STRAGGLERS}
        tables = [
            dataclasses.replace(table, values=values.get(table.name, table.values))
            for table in graph.tables
        ]
        return dataclasses.replace(graph, tables=tuple(tables))

    def _matrix(self, tokens: npt.NDArray[np.int64]) -> Any:
        shape = demand_shape(self.job.model, self.job.plan)
        counts = scale_rows(tokens, shape.copies_per_rank, "matrix")
        if shape.ranks != len(tokens):
            counts = repeated(counts, shape.ranks, shape.experts)
        return MatrixSource("matrix", counts, shape, provenance={}, exact=False)

    def _even(self) -> Any:
        shape = demand_shape(self.job.model, self.job.plan)
        ones = np.ones((shape.ranks, shape.experts), dtype=np.int64)
        counts = scale_rows(ones, shape.copies_per_rank, "matrix")
        return MatrixSource("matrix", counts, shape, provenance={}, exact=False)

    def _build(self, demand: Any) -> TaskGraph:
        job = self.job
        return build(
            job.model,
            job.plan,
            demand=demand,
            compute=job.compute,
            gpus_per_server=GPUS_PER_SERVER,
            options=WorkloadOptions(rank_level=job.plan.etp < GPUS_PER_SERVER),
        ).graph


def repeated(counts: npt.NDArray[np.int64], ranks: int, experts: int) -> npt.NDArray[np.int64]:
    """The matrix for more ranks than it has, as the public simulator's loader reads it.

    Rank i sends rank j what rank i modulo 8 sends rank j modulo 8, undiminished: in all ranks / 8
    times the copies that it has. A rank's share is divided over its experts.
    """
    size, per_rank = len(counts), experts // ranks
    index = np.arange(ranks) % size
    wide = counts[np.ix_(index, index)]
    # remainders go to a rank's first experts, so that what is sent to a rank is exact
    first = wide[:, :, None] // per_rank + (np.arange(per_rank) < wide[:, :, None] % per_rank)
    return np.asarray(first.reshape(ranks, experts), dtype=np.int64)


def fixed_local_times(graph: TaskGraph, bytes_per_s: float) -> TaskGraph:
    """Collectives inside a server take bytes / rate on every fabric, as computation does.

    Those of routed copies take the time of the mean rank, the same for all workers.
    """
    by_name = {table.name: table.values for table in graph.tables}
    gathered = by_name.get("expert_tp_total_bytes")  # None where an expert is on one GPU
    per_worker = np.zeros(0) if gathered is None else gathered.mean(axis=0)
    per_gpu = per_worker / graph.gpus_per_worker

    def fixed(row: dict[str, int]) -> dict[str, int]:
        if row["kind"] != Kind.COLLECTIVE or row["family"] != NO_INDEX:
            return row
        moved = row["inside"] if row["table"] == NO_INDEX else per_gpu[row["entry"]]
        duration = round(moved / bytes_per_s * PS_PER_S)
        nothing = {"inside": 0, "table": NO_INDEX, "total": NO_INDEX, "collective": 0}
        return {**row, **nothing, "kind": Kind.COMPUTE, "size": duration}

    return _with_rows(graph, lambda rows: [fixed(row) for row in rows])


def first_delayed(graph: TaskGraph, delay_s: float) -> TaskGraph:
    """Every first all-to-all of forward waits, in every layer and micro-batch.

    The wait is put at the end of the gate that comes before it; ``first = "block"`` of the fabric
    waits only where circuits change, which one matrix for all layers never asks for.
    """
    delay = round(delay_s * PS_PER_S)
    gate = [category.name for category in graph.categories].index("gate")

    def delayed(rows: list[dict[str, int]]) -> list[dict[str, int]]:
        for row, following in pairwise(rows):
            is_gate = row["kind"] == Kind.COMPUTE and row["category"] == gate
            moves = following["kind"] == Kind.COLLECTIVE and following["family"] != NO_INDEX
            # after the gate of a backward pass comes none
            if is_gate and moves and following["collective"] == Collective.ALL_TO_ALL:
                row["size"] += delay
        return rows

    return _with_rows(graph, delayed)


def _with_rows(graph: TaskGraph, change: Callable[[Any], Any]) -> TaskGraph:
    """The graph with the tasks of every program changed, given as one dictionary each."""
    roles = []
    for role in graph.roles:
        rows = change([dict(zip(COLUMNS, row, strict=True)) for row in role.program.rows()])
        program = Program.from_rows([tuple(row[name] for name in COLUMNS) for row in rows])
        roles.append(dataclasses.replace(role, program=program))
    return dataclasses.replace(graph, roles=tuple(roles))
