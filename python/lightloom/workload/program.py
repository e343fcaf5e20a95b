"""The program of a pipeline stage: its tasks in the order in which a framework issues them.

Passes of micro-batches through layers (:mod:`.layers`) in the order of the pipeline's schedule; two
that meet in a turn alternate where the plan overlaps all-to-alls so. What data-parallel ranks share
out is gathered before and reduced after passes (:mod:`.states`). Not here: the small all-reduces of
norms, router losses and the gradient norm.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

from lightloom.models.model import Model
from lightloom.parallel.memory import embedding_per_gpu, stage_parameters
from lightloom.parallel.pipeline import Step, Turn, turns
from lightloom.units import to_ps
from lightloom.workload.builder import ProgramBuilder
from lightloom.workload.collectives import DENSE, EMBEDDING, EXPERT, shares_embedding
from lightloom.workload.layers import LayerWriter
from lightloom.workload.passes import Pass
from lightloom.workload.recipe import Recipe, placed_at
from lightloom.workload.states import AT_EMBEDDING, StateWriter
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
        self.states = StateWriter(recipe, program, self.layers.rings, self.held_stages)
        #: the turn after the present one, and a sent message that waits for its receive
        self._following: Turn = ()
        self._sending: int | None = None

    def write(self) -> None:
        """Write the whole step."""
        self.states.begin()
        order = turns(self.plan, self.stage)
        for turn, self._following in zip(order, [*order[1:], ()], strict=True):
            self._turn(turn)
        self.states.reduced()
        self._embedding_all_reduce()
        self._optimizer()
        self.states.end()

    # One pass of a micro-batch through a chunk

    def _turn(self, turn: Turn) -> None:
        """One pass, or two. The backward pass of two goes first: it begins with an all-to-all."""
        passes = [
            self._forward_pass(step) if step.forward else self._backward_pass(step) for step in turn
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

    def _forward_pass(self, step: Step) -> Pass:
        micro_batch, layers = step.micro_batch, self.layers
        is_first, is_last = self._is_first(step.chunk), self._is_last(step.chunk)
        output = self.model.num_layers
        tables = ([AT_EMBEDDING] * is_first, [output] * is_last)
        reach = self.states.along([*tables[0], *self.chunks[step.chunk], *tables[1]])
        if is_first:
            reach(AT_EMBEDDING)
            layers.compute("head", self.recipe.forward.embedding, -1, micro_batch)
            layers.tp_exit(-1, micro_batch)
        else:
            self._receive(step, self._virtual(step.chunk) - 1)
        for layer in self.chunks[step.chunk]:
            reach(layer)
            yield from layers.forward(layer, micro_batch, first=True)
        if is_last:
            reach(output)
            layers.tp_entry(-1, micro_batch)
            layers.next_tokens(micro_batch, backward=False)
            layers.compute("head", self.recipe.forward.head, -1, micro_batch)
        else:
            self._send(step, self._virtual(step.chunk) + 1)

    def _backward_pass(self, step: Step) -> Pass:
        if step.part == "weight":
            self._weight_pass(step)
            return
        micro_batch, layers = step.micro_batch, self.layers
        times = layers.backward_times(step.part)
        reduces = self._reduces(step) and step.part == "whole"
        output = [self.model.num_layers] * self._is_last(step.chunk)
        reach = self.states.along([*output, *reversed(self.chunks[step.chunk])])
        if output:
            reach(*output)
            layers.compute("head", times.head, -1, micro_batch)
            # once more, for the gradients of the weights
            layers.tp_entry(-1, micro_batch)
            layers.tp_exit(-1, micro_batch)
            layers.next_tokens(micro_batch, backward=True)
            if reduces:
                self.states.reduce(self.model.num_layers)
        else:
            self._receive(step, self._virtual(step.chunk) + 1)
        for layer in reversed(self.chunks[step.chunk]):
            reach(layer)
            if self.recomputes:
                yield from layers.forward(layer, micro_batch, first=False)
            is_early = reduces and self.options.early_gradients
            then = functools.partial(self.states.reduce, layer, (EXPERT,)) if is_early else None
            yield from layers.backward(layer, micro_batch, step.part, after_experts=then)
            if reduces:
                self.states.reduce(layer, (DENSE,) if is_early else (DENSE, EXPERT))
        if self._is_first(step.chunk):
            layers.tp_entry(-1, micro_batch)
            layers.compute("head", times.embedding, -1, micro_batch)
            if self._reduces(step):
                self.states.reduce(AT_EMBEDDING)
        else:
            self._send(step, self._virtual(step.chunk) - 1)

    def _weight_pass(self, step: Step) -> None:
        """The gradients of weights alone; those of the embedding came with those of inputs."""
        reduces = self._reduces(step)
        if self._is_last(step.chunk):
            self.layers.compute("head", self.recipe.weights.head, -1, step.micro_batch)
            if reduces:
                self.states.reduce(self.model.num_layers)
        for layer in reversed(self.chunks[step.chunk]):
            self.layers.weights(layer, step.micro_batch)
            if reduces:
                self.states.reduce(layer)

    def _reduces(self, step: Step) -> bool:
        """Whether gradients are reduced: of each micro-batch, or as none goes through this chunk
        later.
        """
        if self.states.reduces_always:
            return True
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
        place, placed = self._place(to, step), {"micro_batch": step.micro_batch}
        if self.plan.overlap_pipeline:
            self.program.send(place, tag, size, "pp", **placed)
            return
        handle = next(self.handles)
        self.program.send(place, tag, size, "pp", handle=handle, **placed)
        if self._turns_after(step):
            self._sending = handle
        else:
            self.program.wait(handle, "pp", **placed)

    def _turns_after(self, step: Step) -> bool:
        """Whether a message to the stage is received together with that of a pass that is sent.

        As in Megatron-Core, that is so between a forward and a backward pass; stages that waited
        for their sends alone there would wait for each other.
        """
        return any(other.forward is not step.forward for other in self._following)

    def _receive(self, step: Step, sender: int) -> None:
        tag = self._tag(sender, step)
        place = self._place(sender, step)
        self.program.receive(place, tag, "pp", micro_batch=step.micro_batch)
        if self._sending is not None:
            self.program.wait(self._sending, "pp", micro_batch=step.micro_batch)
            self._sending = None
        if not self.plan.sequence_parallel:
            # every TP rank needs the whole state, of which each received its share
            self.layers.tp_collective(self.recipe.bytes.tp, -1, step.micro_batch)

    def _at(self, layer: int, micro_batch: int) -> dict[str, Any]:
        return placed_at(self.model, layer, micro_batch)

    # Ends of the step

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


def _moe_index(model: Model, chunks: tuple[tuple[int, ...], ...]) -> dict[int, int]:
    """MoE layers of a stage, numbered from 0."""
    layers = (layer for chunk in chunks for layer in chunk if model.moe_layers[layer])
    return {layer: index for index, layer in enumerate(layers)}
