"""Collectives of what data-parallel ranks share out of a stage (ZeRO-1 to 3), in issue order.

With ZeRO-1 gradients are reduced after the last micro-batch, and parameters gathered once per step.
With ZeRO-2 no rank keeps whole gradients, so that those of every micro-batch are reduced. With
ZeRO-3 (FSDP) no rank keeps whole parameters either: each pass gathers those of a layer while it
computes the one before, and frees them after (FSDP2's ``reshard_after_forward`` and implicit
prefetch; Zhao et al., arXiv 2304.11277). Dense layers and experts each have their own ranks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from lightloom.parallel.memory import embedding_per_gpu, layer_parameters, output_per_gpu
from lightloom.workload.builder import ProgramBuilder
from lightloom.workload.collectives import DENSE, EXPERT
from lightloom.workload.recipe import Recipe, placed_at
from lightloom.workload.ring_writer import RingWriter
from lightloom.workload.task_graph import NONE, Collective

#: where the embedding is, before all layers; the output projection is after them
AT_EMBEDDING = -1
#: handle of a collective, and the layer that it is for
_Pending = tuple[int, int]


class StateWriter:
    """Writes gathers of parameters and reductions of gradients of a stage into its program.

    Parameters
    ----------
    recipe
        Sizes, and how groups lie on servers.
    program, rings
        Where to write, and what starts rings there.
    held_stages
        Stages of the model whose layers are here.
    """

    def __init__(
        self,
        recipe: Recipe,
        program: ProgramBuilder,
        rings: RingWriter,
        held_stages: Sequence[int],
    ) -> None:
        self._recipe, self._program, self._rings = recipe, program, rings
        self._held_stages = held_stages
        plan, sharded = recipe.plan, recipe.options.sharded
        #: whether gradients of every micro-batch are reduced, and parameters gathered by each pass
        self.reduces_always = plan.zero1 and sharded != "states"
        self._gathers_always = plan.zero1 and sharded == "parameters"
        self._gathered: dict[int, list[_Pending]] = {}
        self._reductions: list[int] = []
        #: (scope, bytes per GPU, layer) of reductions put off to the end
        self._delayed: list[tuple[str, float, int]] = []

    # Parameters

    def begin(self) -> None:
        """Start what the step needs at its begin."""
        if self._recipe.plan.overlap_parameters:
            self._gather_all()

    def end(self) -> None:
        """Gather what the next step needs, unless that does so itself."""
        if self._recipe.plan.overlap_parameters:
            return
        self._gather_all()
        for position in list(self._gathered):
            self._await(position)

    def along(self, layers: Sequence[int]) -> Callable[[int], None]:
        """What a pass through layers, in this order, calls when it reaches one of them."""
        if not self._gathers_always:
            return self._await
        following = dict(itertools.pairwise(layers))
        pending: dict[int, list[_Pending]] = {}

        def reach(layer: int) -> None:
            if layer not in pending:
                pending[layer] = self._gather(layer)
            if self._recipe.plan.overlap_parameters and layer in following:
                pending[following[layer]] = self._gather(following[layer])
            self._wait(pending.pop(layer))

        return reach

    def _gather_all(self) -> None:
        """ZeRO-1's and 2's gathers, in forward order, which is that of both places of a stage."""
        if not self._recipe.plan.zero1 or self._gathers_always:
            return
        model, plan = self._recipe.model, self._recipe.plan
        layers = plan.layers(model.num_layers)
        for stage in sorted(self._held_stages):
            positions = list(itertools.chain(*layers[stage]))
            if stage == 0:
                positions.insert(0, AT_EMBEDDING)
            if stage == plan.pp - 1:
                positions.append(model.num_layers)
            for position in positions:
                self._gathered[position] = self._gather(position)

    def _gather(self, position: int) -> list[_Pending]:
        element = self._recipe.options.parameter_bytes
        return [
            (self._ring(scope, Collective.ALL_GATHER, parameters * element, position), position)
            for scope, parameters in self._parameters(position)
        ]

    def _await(self, position: int) -> None:
        self._wait(self._gathered.pop(position, []))

    def _wait(self, pending: Sequence[_Pending]) -> None:
        for handle, layer in pending:
            self._program.wait(handle, "dp", **placed_at(self._recipe.model, layer, NONE))

    # Gradients

    def reduce(self, position: int, scopes: Sequence[str] = (DENSE, EXPERT)) -> None:
        """Reduce the gradients of a layer, dense and of experts, or put that off to the end."""
        plan, element = self._recipe.plan, self._recipe.options.gradient_bytes
        for scope, parameters in self._parameters(position):
            if scope not in scopes:
                continue
            size = parameters * element
            if not plan.overlap_gradients and not self.reduces_always:
                self._delayed.append((scope, size, position))
                continue
            self._reduce_now(scope, size, position)
            if not plan.overlap_gradients:
                self._program.wait(self._reductions.pop(), "dp")

    def reduced(self) -> None:
        """Wait for all gradients."""
        for scope, size, position in self._delayed:
            self._reduce_now(scope, size, position)
        for handle in self._reductions:
            self._program.wait(handle, "dp")

    def _reduce_now(self, scope: str, size_bytes: float, position: int) -> None:
        zero1 = self._recipe.plan.zero1
        ring = Collective.REDUCE_SCATTER if zero1 else Collective.ALL_REDUCE
        self._reductions.append(self._ring(scope, ring, size_bytes, position))

    def _ring(self, scope: str, ring: Collective, buffer_bytes: float, position: int) -> int:
        """Start a ring over a buffer per GPU; return its handle."""
        at = placed_at(self._recipe.model, position, NONE)
        return self._rings.start(scope, ring, buffer_bytes, "dp", at)

    def _parameters(self, position: int) -> list[tuple[str, float]]:
        """Parameters per GPU of a layer or table, by the ranks that share them."""
        model, plan = self._recipe.model, self._recipe.plan
        if position == AT_EMBEDDING:
            parts = [(DENSE, embedding_per_gpu(model, plan))]
        elif position == model.num_layers:
            parts = [(DENSE, output_per_gpu(model, plan))]
        else:
            of = layer_parameters(model, plan, position)
            parts = [(DENSE, of.dense), (EXPERT, of.expert)]
        groups = self._recipe.collectives.groups
        return [part for part in parts if part[0] in groups and part[1]]
