"""Communication of context parallelism around the scores of a layer's attention.

*Ring*: every rank keeps its queries and is passed the keys and values of all others; backward, they
are passed again together with their gradients. *Ulysses* (DeepSpeed-Ulysses, arXiv 2309.14509;
Megatron-Core's ``cp_comm_type = a2a``): an all-to-all hands every rank whole sequences of its share
of the heads, and another one hands the result back; backward, the gradients go the same paths.
Linear attention passes the states of its heads instead of keys and values. Nothing hides either.
Copies that sort heads before and after an all-to-all are left out.
"""

from __future__ import annotations

from typing import Any

from lightloom.workload.builder import ProgramBuilder
from lightloom.workload.collectives import CONTEXT
from lightloom.workload.recipe import Recipe, placed_at
from lightloom.workload.ring_writer import RingWriter
from lightloom.workload.sizes import ContextSizes
from lightloom.workload.task_graph import NONE, Collective


class ContextWriter:
    """Writes what a pass through attention moves between CP ranks; blocks, unlike gradient rings.

    Parameters
    ----------
    recipe
        Sizes, and how groups lie on servers.
    program
        Where to write.
    rings
        What starts rings there.
    """

    def __init__(self, recipe: Recipe, program: ProgramBuilder, rings: RingWriter) -> None:
        self._recipe, self._program, self._rings = recipe, program, rings
        self._group = recipe.collectives.groups.get(CONTEXT)
        self._is_ring = recipe.plan.context_parallel == "ring"

    def before(self, layer: int, micro_batch: int, *, backward: bool) -> None:
        """What attention needs: keys and values of all ranks, or all of some heads."""
        if self._group is None:
            return
        if self._is_ring:
            self._ring(layer, micro_batch, backward=backward)
            return
        sizes = self._sizes(layer)
        self._all_to_all(sizes.heads_out if backward else sizes.heads_in, layer, micro_batch)

    def after(self, layer: int, micro_batch: int, *, backward: bool) -> None:
        """What attention returns, where heads have been divided."""
        if self._group is None or self._is_ring:
            return
        sizes = self._sizes(layer)
        self._all_to_all(sizes.heads_in if backward else sizes.heads_out, layer, micro_batch)

    def _sizes(self, layer: int) -> ContextSizes:
        return self._recipe.bytes.context[self._recipe.model.attention_index(layer)]

    def _ring(self, layer: int, micro_batch: int, *, backward: bool) -> None:
        """Keys and values around the ring; backward their gradients as well.

        They are as many bytes as an all-reduce, which could be a tree, though.
        """
        group, buffer = self._group, self._sizes(layer).key_value
        assert group is not None
        at = self._at(layer, micro_batch)
        if group.servers == 1:
            ring = Collective.ALL_REDUCE if backward else Collective.ALL_GATHER
            size, peers = group.local(buffer, ring), group.on_server - 1
            self._program.inside(size, "cp", peers=peers, **at)
            return
        rings = [Collective.ALL_GATHER, *([Collective.REDUCE_SCATTER] if backward else [])]
        # rings of all layers belong to no micro-batch
        placed = self._at(layer, NONE)
        for handle in [self._rings.start(CONTEXT, ring, buffer, "cp", placed) for ring in rings]:
            self._program.wait(handle, "cp", **at)

    def _all_to_all(self, buffer_bytes: float, layer: int, micro_batch: int) -> None:
        """An all-to-all of a buffer per GPU.

        Across servers, the share that a GPU keeps counts as moved inside its server, as the copy
        that it is.
        """
        group = self._group
        assert group is not None
        moved = buffer_bytes * group.gpus_per_worker
        if group.servers == 1:
            moved *= (group.on_server - 1) / group.on_server
        family = self._recipe.collectives.index(CONTEXT)
        self._program.all_to_all(family, round(moved), "cp", **self._at(layer, micro_batch))

    def _at(self, layer: int, micro_batch: int) -> dict[str, Any]:
        return placed_at(self._recipe.model, layer, micro_batch)
