"""Random steps: pipeline stages of EP groups, each worker a server of eight GPUs.

A step is a few numbers (:class:`RandomStep`), so that a law can change one of them and compare.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lightloom.workload import Block, Entry, TaskGraphBuilder
from lightloom.workload.builder import ProgramBuilder
from lightloom.workload.categories import step_categories
from lightloom.workload.task_graph import Collective, TaskGraph

#: rows of the table of durations, for each layer
ATTENTION, EXPERT, OTHER_STREAM = range(3)
PHASES = 3
GPUS = 8


@dataclass(frozen=True, eq=False)
class RandomStep:
    """A step of ``batches`` micro-batches, each of which passes all stages once.

    Attributes
    ----------
    tokens
        ``(stages x replicas, layers, members, members)`` counts, of ``unit_bytes`` each.
    compute_s
        ``(layers, 3)`` seconds: before dispatch, before combine, of the second stream.
    ring_bytes
        Of an all-reduce over all members of a stage that runs alongside; 0 for none.
    second_stream
        Whether the same all-to-alls are made once more, alongside, on another stream.
    barriers
        Whether each layer ends with an all-to-all of no bytes.
    jitter
        Compute times are longer by up to this share, drawn for each worker and phase.
    member_order, server_of_worker
        Permutations, where members or servers are named anew.
    """

    stages: int
    replicas: int
    members: int
    batches: int
    tokens: npt.NDArray[np.int64]
    unit_bytes: int
    compute_s: npt.NDArray[np.float64]
    pipeline_bytes: int = 0
    ring_bytes: int = 0
    second_stream: bool = False
    barriers: bool = False
    jitter: float = 0.0
    member_order: tuple[int, ...] | None = None
    server_of_worker: tuple[int, ...] | None = None

    @property
    def servers(self) -> int:
        """Servers, one for each worker."""
        return self.stages * self.replicas * self.members

    @property
    def layers(self) -> int:
        """MoE layers of each stage."""
        return len(self.compute_s)

    @property
    def equal_members(self) -> bool:
        """Whether all members of all groups send the same to each other."""
        return bool((self.tokens == self.tokens[:1, :, :1, :1]).all())

    def with_noise(self, share: float, seed: int = 1) -> RandomStep:
        """Multiply every token count by up to ``1 + share``, uniformly."""
        noise = 1 + share * np.random.default_rng(seed).uniform(size=self.tokens.shape)
        return replace(self, tokens=np.round(self.tokens * noise).astype(np.int64))

    def doubled(self) -> RandomStep:
        """Twice the replicas, the second half with the tokens of the first."""
        shape = (self.stages, self.replicas, *self.tokens.shape[1:])
        twice = np.concatenate([self.tokens.reshape(shape)] * 2, axis=1)
        return replace(
            self, replicas=2 * self.replicas, tokens=twice.reshape(-1, *self.tokens.shape[1:])
        )

    def small(self) -> RandomStep:
        """A step of two batches with a tenth of the bytes or less, and a quarter of the compute."""
        return replace(
            self,
            batches=min(self.batches, 2),
            unit_bytes=1,
            pipeline_bytes=self.pipeline_bytes // 40,
            ring_bytes=self.ring_bytes // 40,
            compute_s=self.compute_s / 4,
        )

    def expert_bytes(self) -> npt.NDArray[np.int64]:
        """``(2, groups, members)`` bytes that members send to, and receive from other servers."""
        between = self.tokens.sum(axis=1) * (1 - np.eye(self.members, dtype=np.int64))
        out, into = between.sum(axis=2), between.sum(axis=1)
        second = np.array([out, into]) * self.second_stream
        return self.unit_bytes * self.batches * (np.array([out + into, into + out]) + second)

    def compute_bound_s(self) -> float:
        """Compute of the last stage, and of those before it until its first batch arrives."""
        one = float(self.compute_s[:, [ATTENTION, EXPERT]].sum())
        return (self.batches + self.stages - 1) * one

    def build(self) -> TaskGraph:
        """Write the task graph."""
        workers = np.arange(self.servers)
        placed = workers if self.server_of_worker is None else np.array(self.server_of_worker)
        graph = TaskGraphBuilder(placed, GPUS, step_categories())
        order = np.array(self.member_order or range(self.members))
        groups = workers.reshape(-1, self.members)[:, order]
        tokens = self.tokens[:, :, order][:, :, :, order]
        stage_workers = workers.reshape(self.stages, -1)
        experts = graph.family("ep", groups)
        first = Block(graph.demand("tokens", experts, tokens), 0, self.unit_bytes)
        other = graph.family("ep2", groups) if self.second_stream else None
        ring = graph.family("dp", list(stage_workers)) if self.ring_bytes else None
        second = None
        if other is not None:
            second = Block(graph.demand("tokens2", other, tokens), 0, self.unit_bytes)
        table = graph.table("compute", self._durations())
        for stage, own in enumerate(stage_workers):
            program = graph.role(f"stage {stage}", own)
            if ring is not None:
                program.ring(
                    Collective.ALL_REDUCE, ring, self.ring_bytes, "dp", handle=0, asynchronous=True
                )
            for batch in range(self.batches):
                self._write_batch(program, stage, batch, (experts, first, table))
            if other is not None and second is not None:
                self._write_second_stream(program, (other, second, table))
            if ring is not None:
                program.wait(0, "dp")
        return graph.build()

    def _durations(self) -> npt.NDArray[np.uint64]:
        """``(workers, layers x 3)`` picoseconds."""
        shape = (self.servers, *self.compute_s.shape)
        noise = 1 + self.jitter * np.random.default_rng(1).uniform(size=shape)
        return np.round(self.compute_s * noise * 1e12).astype(np.uint64).reshape(self.servers, -1)

    def _write_batch(
        self, program: ProgramBuilder, stage: int, batch: int, places: tuple[int, Block, int]
    ) -> None:
        family, block, table = places
        if stage > 0:
            program.receive(stage - 1, batch, "pp")
        for layer in range(self.layers):
            dispatch = replace(block, block=layer, first=True)
            program.compute("attention", Entry(table, PHASES * layer + ATTENTION))
            program.all_to_all(family, dispatch, "ep")
            program.compute("expert", Entry(table, PHASES * layer + EXPERT))
            program.all_to_all(family, replace(dispatch, first=False, transposed=True), "ep")
            if self.barriers:
                program.all_to_all(family, replace(block, block=layer, unit_bytes=0), "ep")
        if stage < self.stages - 1:
            program.send(stage + 1, batch, self.pipeline_bytes, "pp")

    def _write_second_stream(self, program: ProgramBuilder, places: tuple[int, Block, int]) -> None:
        family, block, table = places
        for _ in range(self.batches):
            for layer in range(self.layers):
                program.compute("expert", Entry(table, PHASES * layer + OTHER_STREAM), stream=1)
                program.all_to_all(family, replace(block, block=layer), "ep", stream=1)


def random_step(seed: int) -> RandomStep:
    """Draw a step of 2 to 24 servers."""
    rng = random.Random(seed)
    stages, replicas, members = (
        rng.choice([1, 2, 2]),
        rng.choice([1, 1, 2]),
        rng.choice([2, 3, 4, 6]),
    )
    layers = rng.choice([1, 2])
    kind = rng.choice(["equal", "equal", "near", "random"])
    means = np.array([[rng.choice([2e5, 2e6])] * layers for _ in range(stages * replicas)])
    if kind == "equal":
        means = np.broadcast_to(means[:1, :1], means.shape)
    draws = np.random.default_rng(seed).uniform(size=(*means.shape, members, members))
    spread = {"equal": np.ones_like(draws), "near": 1 + 0.01 * draws, "random": 4 * draws**3}[kind]
    return RandomStep(
        stages=stages,
        replicas=replicas,
        members=members,
        batches=rng.choice([1, 2, 3, 4]),
        tokens=np.round(means[:, :, None, None] * spread).astype(np.int64),
        unit_bytes=rng.choice([10, 40]),
        compute_s=np.array([[rng.uniform(0, 4e-4) for _ in range(PHASES)] for _ in range(layers)]),
        pipeline_bytes=rng.choice([0, 10**6, 2 * 10**7]),
        ring_bytes=rng.choice([0, 0, 10**7, 10**8]),
        second_stream=rng.random() < 0.4,
    )
