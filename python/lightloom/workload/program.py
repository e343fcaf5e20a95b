"""The program of a pipeline stage: its tasks in the order in which a framework issues them.

Passes of micro-batches through layers (:mod:`.layers`) in the order of the pipeline's schedule; two
that meet in a turn alternate where the plan overlaps all-to-alls so. Gradient rings start after a
layer's last backward pass and are awaited before the optimizer. Not here: the small all-reduces of
norms, router losses and the gradient norm.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

from lightloom.models.model import Model
from lightloom.parallel.memory import (
    embedding_per_gpu,
    layer_parameters,
    output_per_gpu,
    stage_parameters,
)
from lightloom.parallel.pipeline import Step, Turn, turns
from lightloom.units import to_ps
from lightloom.workload.builder import ProgramBuilder
from lightloom.workload.collectives import DENSE, EMBEDDING, EXPERT, shares_embedding
from lightloom.workload.layers import LayerWriter
from lightloom.workload.passes import Pass
from lightloom.workload.recipe import Recipe, placed_at
from lightloom.workload.task_graph import NONE, Collective

#: handle of the tied embedding's all-reduce, which programs of two stages share
EMBEDDING_HANDLE = 0


def write_stage(recipe: Recipe, stage: int, program: ProgramBuilder) -> None:
    """Write the tasks of one stage, in issue order."""
    _Writer(recipe, stage, program).write()


class _Writer:
    """Writes one program; its methods are the parts of a step from the outside in."""

    def __init__(self, recipe: Recipe, stage: int, program: ProgramBuilder) -> None:
        self.recipe = recipe
        self.model, self.plan, self.options = recipe.model, recipe.plan, recipe.options
        self.stage = stage
        self.program = program
        self.held_stages = self.plan.held_stages(stage)
        layers = self.plan.layers(self.model.num_layers)
        #: layers by chunk of a :class:`Step`
        self.chunks = self.plan.held_chunks(self.model.num_layers, stage)
        self.handles = itertools.count(EMBEDDING_HANDLE + 1)
        moe_index: dict[int, int] = {}
        for held_stage in self.held_stages:
            moe_index |= _moe_index(self.model, layers[held_stage])
        self.layers = LayerWriter(recipe, program, moe_index, self.handles)
        self.recomputes = recipe.compute.recompute == "full"
        self.reductions: list[int] = []
        #: (scope, bytes per GPU, layer) of gradient reductions put off to the end
        self.delayed: list[tuple[str, float, int]] = []

    def write(self) -> None:
        """Write the whole step."""
        gathers = self._gather_parameters() if self.plan.overlap_parameters else {}
        for turn in turns(self.plan, self.stage):
            self._turn(turn, gathers)
        for scope, size, layer in self.delayed:
            self._reduce_now(scope, size, layer)
        for handle in self.reductions:
            self.program.wait(handle, "dp")
        self._embedding_all_reduce()
        self._optimizer()
        if not self.plan.overlap_parameters:
            for handle, layer in self._gather_parameters().values():
                self.program.wait(handle, "dp", **self._at(layer, NONE))

    # One pass of a micro-batch through a chunk

    def _turn(self, turn: Turn, gathers: dict[tuple[str, int], tuple[int, int]]) -> None:
        """One pass, or two. The backward pass of two goes first: it begins with an all-to-all."""
        passes = [
            self._forward_pass(step, gathers) if step.forward else self._backward_pass(step)
            for step in turn
        ]
        if len(passes) > 1 and self.plan.overlap_all_to_all == "batch":
            self.layers.all_to_alls.alternate(passes[::-1])
        else:
            for pass_ in passes:
                self.layers.all_to_alls.play(pass_)

    def _virtual(self, chunk: int) -> int:
        """Stage of the model, counted over chunks."""
        return (
            self.held_stages[chunk]
            if len(self.held_stages) > 1
            else chunk * self.plan.pp + self.stage
        )

    def _is_first(self, chunk: int) -> bool:
        return self._virtual(chunk) == 0

    def _is_last(self, chunk: int) -> bool:
        return self._virtual(chunk) == self.plan.virtual_stages - 1

    def _forward_pass(self, step: Step, gathers: dict[tuple[str, int], tuple[int, int]]) -> Pass:
        micro_batch, layers = step.micro_batch, self.layers
        if self._is_first(step.chunk):
            self._await_parameters(gathers, -1)
            layers.compute("head", self.recipe.forward.embedding, -1, micro_batch)
            layers.tp_exit(-1, micro_batch)
        else:
            self._receive(step, self._virtual(step.chunk) - 1)
        for layer in self.chunks[step.chunk]:
            self._await_parameters(gathers, layer)
            yield from layers.forward(layer, micro_batch, first=True)
        if self._is_last(step.chunk):
            self._await_parameters(gathers, self.model.num_layers)
            layers.tp_entry(-1, micro_batch)
            layers.compute("head", self.recipe.forward.head, -1, micro_batch)
        else:
            self._send(step, self._virtual(step.chunk) + 1)

    def _backward_pass(self, step: Step) -> Pass:
        if step.part == "weight":
            self._weight_pass(step)
            return
        micro_batch, layers = step.micro_batch, self.layers
        times = layers.backward_times(step.part)
        reduces = self._is_last_of(step) and step.part == "whole"
        if self._is_last(step.chunk):
            layers.compute("head", times.head, -1, micro_batch)
            # once more, for the gradients of the weights
            layers.tp_entry(-1, micro_batch)
            layers.tp_exit(-1, micro_batch)
            if reduces:
                self._reduce_output()
        else:
            self._receive(step, self._virtual(step.chunk) + 1)
        for layer in reversed(self.chunks[step.chunk]):
            if self.recomputes:
                yield from layers.forward(layer, micro_batch, first=False)
            is_early = reduces and self.options.early_gradients
            then = functools.partial(self._reduce_experts, layer) if is_early else None
            yield from layers.backward(layer, micro_batch, step.part, after_experts=then)
            if reduces:
                self._reduce_layer(layer, has_reduced_experts=is_early)
        if self._is_first(step.chunk):
            layers.tp_entry(-1, micro_batch)
            layers.compute("head", times.embedding, -1, micro_batch)
            if self._is_last_of(step):
                self._reduce(DENSE, embedding_per_gpu(self.model, self.plan), -1)
        else:
            self._send(step, self._virtual(step.chunk) - 1)

    def _weight_pass(self, step: Step) -> None:
        """The gradients of weights alone; those of the embedding came with those of inputs."""
        reduces = self._is_last_of(step)
        if self._is_last(step.chunk):
            self.layers.compute("head", self.recipe.weights.head, -1, step.micro_batch)
            if reduces:
                self._reduce_output()
        for layer in reversed(self.chunks[step.chunk]):
            self.layers.weights(layer, step.micro_batch)
            if reduces:
                self._reduce_layer(layer)

    def _is_last_of(self, step: Step) -> bool:
        """Whether no later micro-batch goes through this chunk."""
        count = self.plan.micro_batches
        if len(self.held_stages) > 1 and step.chunk == 0:
            count //= 2
        return step.micro_batch == count - 1

    def _tag(self, virtual: int, step: Step) -> int:
        return (virtual * self.plan.micro_batches + step.micro_batch) * 2 + (not step.forward)

    def _place(self, virtual: int, step: Step) -> int:
        """The place of the pipeline at which a micro-batch meets a stage of the model."""
        stage = virtual % self.plan.pp
        return self.plan.pp - 1 - stage if len(self.held_stages) > 1 and step.chunk else stage

    def _send(self, step: Step, to: int) -> None:
        tag = self._tag(self._virtual(step.chunk), step)
        size = self.recipe.bytes.send
        place = self._place(to, step)
        self.program.send(place, tag, size, "pp", micro_batch=step.micro_batch)

    def _receive(self, step: Step, sender: int) -> None:
        tag = self._tag(sender, step)
        place = self._place(sender, step)
        self.program.receive(place, tag, "pp", micro_batch=step.micro_batch)
        if not self.plan.sequence_parallel:
            # every TP rank needs the whole state, of which each received its share
            self.layers.tp_collective(self.recipe.bytes.tp, -1, step.micro_batch)

    def _at(self, layer: int, micro_batch: int) -> dict[str, Any]:
        return placed_at(self.model, layer, micro_batch)

    # Gradients, optimizer, parameters

    def _reduce_output(self) -> None:
        self._reduce(DENSE, output_per_gpu(self.model, self.plan), self.model.num_layers)

    def _reduce_layer(self, layer: int, *, has_reduced_experts: bool = False) -> None:
        self._reduce(DENSE, layer_parameters(self.model, self.plan, layer).dense, layer)
        if not has_reduced_experts:
            self._reduce_experts(layer)

    def _reduce_experts(self, layer: int) -> None:
        self._reduce(EXPERT, layer_parameters(self.model, self.plan, layer).expert, layer)

    def _reduce(self, scope: str, parameters: float, layer: int) -> None:
        if scope not in self.recipe.collectives.groups or not parameters:
            return
        size = parameters * self.options.gradient_bytes
        if self.plan.overlap_gradients:
            self._reduce_now(scope, size, layer)
        else:
            self.delayed.append((scope, size, layer))

    def _reduce_now(self, scope: str, size_bytes: float, layer: int) -> None:
        ring = Collective.REDUCE_SCATTER if self.plan.zero1 else Collective.ALL_REDUCE
        self.reductions.append(self._start_ring(scope, ring, size_bytes, layer))

    def _start_ring(self, scope: str, ring: Collective, buffer_bytes: float, layer: int) -> int:
        """Start a ring over a buffer per GPU; return its handle."""
        return self.layers.rings.start(scope, ring, buffer_bytes, "dp", self._at(layer, NONE))

    def _embedding_all_reduce(self) -> None:
        ends = (0, self.plan.pp - 1)
        if shares_embedding(self.model, self.plan) and self.stage in ends:
            size = embedding_per_gpu(self.model, self.plan) * self.options.gradient_bytes
            at, handle = self._at(-1, NONE), EMBEDDING_HANDLE
            self.layers.rings.start(EMBEDDING, Collective.ALL_REDUCE, size, "dp", at, handle)
            self.program.wait(EMBEDDING_HANDLE, "dp")

    def _optimizer(self) -> None:
        parts = [stage_parameters(self.model, self.plan, stage) for stage in self.held_stages]
        dense, expert = sum(part.dense for part in parts), sum(part.expert for part in parts)
        updated = dense + expert
        if self.plan.zero1:
            updated = dense / (self.plan.copies * self.plan.dense_dp * self.plan.cp)
            updated += expert / (self.plan.copies * self.plan.groups_per_stage)
        seconds = self.recipe.compute_scale * self.recipe.compute.optimizer(updated)
        self.program.compute("optimizer", duration_ps=to_ps(seconds))

    def _gather_parameters(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Start gathering ZeRO-1's parameters; handles and layers in forward order."""
        if not self.plan.zero1:
            return {}
        handles = {}
        for scope, layer, parameters in self._sharded():
            size = parameters * self.options.parameter_bytes
            handle = self._start_ring(scope, Collective.ALL_GATHER, size, layer)
            handles[scope, layer] = (handle, layer)
        return handles

    def _sharded(self) -> list[tuple[str, int, float]]:
        """Scope, layer and parameters per GPU of what ZeRO-1 shards, in forward order."""
        parts: list[tuple[str, int, float]] = []
        layers = self.plan.layers(self.model.num_layers)
        # the same order at both places that hold a stage
        for stage in sorted(self.held_stages):
            if stage == 0:
                parts.append((DENSE, -1, embedding_per_gpu(self.model, self.plan)))
            for layer in itertools.chain(*layers[stage]):
                parameters = layer_parameters(self.model, self.plan, layer)
                parts += [(DENSE, layer, parameters.dense), (EXPERT, layer, parameters.expert)]
            if stage == self.plan.pp - 1:
                parts.append((DENSE, self.model.num_layers, output_per_gpu(self.model, self.plan)))
        groups = self.recipe.collectives.groups
        return [part for part in parts if part[0] in groups and part[2]]

    def _await_parameters(
        self, gathers: dict[tuple[str, int], tuple[int, int]], layer: int
    ) -> None:
        for scope in (DENSE, EXPERT):
            gather = gathers.pop((scope, layer), None)
            if gather is not None:
                self.program.wait(gather[0], "dp", **self._at(layer, NONE))


def _moe_index(model: Model, chunks: tuple[tuple[int, ...], ...]) -> dict[int, int]:
    """MoE layers of a stage, numbered from 0."""
    layers = (layer for chunk in chunks for layer in chunk if model.moe_layers[layer])
    return {layer: index for index, layer in enumerate(layers)}
