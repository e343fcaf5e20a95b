"""The program of a pipeline stage: its tasks in the order in which a framework issues them.

Forward of an MoE layer: attention, gate, dispatch, experts, shared experts, combine; backward in
reverse, where the gradient of combine has the pattern of dispatch and the other way round. TP
collectives are local to a server. Gradient rings start after a layer's last backward pass and are
awaited before the optimizer. Not here: the small all-reduces of norms, router losses and the
gradient norm, and communication that frameworks hide behind a matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lightloom.models.model import Model
from lightloom.parallel import Plan
from lightloom.parallel.memory import (
    embedding_per_gpu,
    layer_parameters,
    output_per_gpu,
    stage_parameters,
)
from lightloom.parallel.pipeline import Step, schedule
from lightloom.units import to_ps
from lightloom.workload.builder import Block, Entry, ProgramBuilder
from lightloom.workload.collectives import (
    CONTEXT,
    DENSE,
    EMBEDDING,
    EXPERT,
    Collectives,
    shares_embedding,
)
from lightloom.workload.compute import ComputeModel
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.sizes import Sizes, Times, sizes, times
from lightloom.workload.task_graph import NONE, Collective
from lightloom.workload.tokens import Tables, gathers_copies

#: handle of the tied embedding's all-reduce, which programs of two stages share
EMBEDDING_HANDLE = 0


@dataclass(frozen=True)
class Recipe:
    """What the programs of all stages have in common."""

    model: Model
    plan: Plan
    options: WorkloadOptions
    compute: ComputeModel
    compute_scale: float
    collectives: Collectives
    tables: Tables
    bytes: Sizes
    forward: Times
    backward: Times


def recipe(
    model: Model,
    plan: Plan,
    options: WorkloadOptions,
    compute: ComputeModel,
    compute_scale: float,
    placed: tuple[Collectives, Tables, int],
) -> Recipe:
    """Compute every size and time once.

    ``placed`` is how groups lie on servers, where the numbers of each worker are, and the GPUs of a
    worker.
    """
    collectives, tables, gpus_per_worker = placed
    return Recipe(
        model,
        plan,
        options,
        compute,
        compute_scale,
        collectives,
        tables,
        sizes(model, plan, options, gpus_per_worker),
        times(model, plan, compute, compute_scale, backward=False),
        times(model, plan, compute, compute_scale, backward=True),
    )


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
        self.chunks = self.plan.layers(self.model.num_layers)[stage]
        self.moe_index = {
            layer: index
            for index, layer in enumerate(
                layer for chunk in self.chunks for layer in chunk if self.model.moe_layers[layer]
            )
        }
        self.recomputes = recipe.compute.recompute == "full"
        self.next_handle = EMBEDDING_HANDLE + 1
        self.reductions: list[int] = []
        #: (scope, bytes per GPU, layer) of gradient reductions put off to the end
        self.delayed: list[tuple[str, float, int]] = []

    def write(self) -> None:
        """Write the whole step."""
        gathers = self._gather_parameters() if self.options.overlap_parameters else {}
        for step in schedule(self.plan, self.stage):
            if step.forward:
                self._forward_pass(step, gathers)
            else:
                self._backward_pass(step)
        for scope, size, layer in self.delayed:
            self._reduce_now(scope, size, layer)
        for handle in self.reductions:
            self.program.wait(handle, "dp")
        self._embedding_all_reduce()
        self._optimizer()
        if not self.options.overlap_parameters:
            for handle, layer in self._gather_parameters().values():
                self.program.wait(handle, "dp", **self._at(layer, NONE))

    # One pass of a micro-batch through a chunk

    def _virtual(self, chunk: int) -> int:
        return chunk * self.plan.pp + self.stage

    def _is_first(self, chunk: int) -> bool:
        return self._virtual(chunk) == 0

    def _is_last(self, chunk: int) -> bool:
        return self._virtual(chunk) == self.plan.virtual_stages - 1

    def _forward_pass(self, step: Step, gathers: dict[tuple[str, int], tuple[int, int]]) -> None:
        micro_batch = step.micro_batch
        if self._is_first(step.chunk):
            self._await_parameters(gathers, -1)
            self._compute("head", self.recipe.forward.embedding, -1, micro_batch)
            self._tp_exit(-1, micro_batch)
        else:
            self._receive(step, self._virtual(step.chunk) - 1)
        for layer in self.chunks[step.chunk]:
            self._await_parameters(gathers, layer)
            self._forward_layer(layer, micro_batch, first=True)
        if self._is_last(step.chunk):
            self._await_parameters(gathers, self.model.num_layers)
            self._tp_entry(-1, micro_batch)
            self._compute("head", self.recipe.forward.head, -1, micro_batch)
        else:
            self._send(step, self._virtual(step.chunk) + 1)

    def _backward_pass(self, step: Step) -> None:
        micro_batch = step.micro_batch
        last = micro_batch == self.plan.micro_batches - 1
        if self._is_last(step.chunk):
            self._compute("head", self.recipe.backward.head, -1, micro_batch)
            self._tp_exit(-1, micro_batch)
            if last:
                self._reduce(DENSE, output_per_gpu(self.model, self.plan), self.model.num_layers)
        else:
            self._receive(step, self._virtual(step.chunk) + 1)
        for layer in reversed(self.chunks[step.chunk]):
            if self.recomputes:
                self._forward_layer(layer, micro_batch, first=False)
            self._backward_layer(layer, micro_batch)
            if last:
                parameters = layer_parameters(self.model, self.plan, layer)
                self._reduce(DENSE, parameters.dense, layer)
                self._reduce(EXPERT, parameters.expert, layer)
        if self._is_first(step.chunk):
            self._tp_entry(-1, micro_batch)
            self._compute("head", self.recipe.backward.embedding, -1, micro_batch)
            if last:
                self._reduce(DENSE, embedding_per_gpu(self.model, self.plan), -1)
        else:
            self._send(step, self._virtual(step.chunk) - 1)

    def _tag(self, virtual: int, step: Step) -> int:
        return (virtual * self.plan.micro_batches + step.micro_batch) * 2 + (not step.forward)

    def _send(self, step: Step, to: int) -> None:
        tag = self._tag(self._virtual(step.chunk), step)
        size = self.recipe.bytes.send
        self.program.send(to % self.plan.pp, tag, size, "pp", micro_batch=step.micro_batch)

    def _receive(self, step: Step, sender: int) -> None:
        tag = self._tag(sender, step)
        self.program.receive(sender % self.plan.pp, tag, "pp", micro_batch=step.micro_batch)
        if not self.plan.sequence_parallel:
            # every TP rank needs the whole state, of which each received its share
            self._inside("tp", self.recipe.bytes.tp, -1, step.micro_batch)

    # Layers

    def _forward_layer(self, layer: int, micro_batch: int, *, first: bool) -> None:
        times = self.recipe.forward
        self._tp_entry(layer, micro_batch)
        self._context(Collective.ALL_GATHER, layer, micro_batch)
        self._compute("attention", times.attention, layer, micro_batch)
        self._tp_exit(layer, micro_batch)
        if not self.model.moe_layers[layer]:
            self._tp_entry(layer, micro_batch)
            self._compute("dense_ffn", times.dense_ffn, layer, micro_batch)
            self._tp_exit(layer, micro_batch)
            return
        self._compute("gate", times.gate, layer, micro_batch)
        size = self.recipe.bytes
        self._all_to_all(layer, micro_batch, size.dispatch, first=first)
        self._experts(layer, micro_batch, backward=False)
        self._shared_experts(times.shared_experts, layer, micro_batch)
        self._all_to_all(layer, micro_batch, size.combine, transposed=True)

    def _backward_layer(self, layer: int, micro_batch: int) -> None:
        times = self.recipe.backward
        if self.model.moe_layers[layer]:
            size = self.recipe.bytes.backward
            self._all_to_all(layer, micro_batch, size)
            self._shared_experts(times.shared_experts, layer, micro_batch)
            self._experts(layer, micro_batch, backward=True)
            self._all_to_all(layer, micro_batch, size, transposed=True)
            self._compute("gate", times.gate, layer, micro_batch)
        else:
            self._tp_entry(layer, micro_batch)
            self._compute("dense_ffn", times.dense_ffn, layer, micro_batch)
            self._tp_exit(layer, micro_batch)
        self._tp_entry(layer, micro_batch)
        # keys and values again, and their gradients back: as many bytes as an all-reduce
        self._context(Collective.ALL_REDUCE, layer, micro_batch)
        self._compute("attention", times.attention, layer, micro_batch)
        self._tp_exit(layer, micro_batch)

    def _experts(self, layer: int, micro_batch: int, *, backward: bool) -> None:
        tables = self.recipe.tables
        table = tables.backward if backward else tables.forward
        self._expert_tp(layer, micro_batch)
        duration = Entry(table, self._block(layer, micro_batch))
        self.program.compute("expert", duration, **self._at(layer, micro_batch))
        if tables.stragglers is not None:
            excess = Entry(tables.stragglers[backward], self._block(layer, micro_batch))
            self.program.compute("straggler", excess, **self._at(layer, micro_batch))
        self._expert_tp(layer, micro_batch)

    def _expert_tp(self, layer: int, micro_batch: int) -> None:
        """Gather what the experts need, or scatter what they give, over expert-TP ranks."""
        if not gathers_copies(self.plan, self.options):
            self._inside("tp", self.recipe.bytes.expert_tp, layer, micro_batch)
            return
        busiest, total = (
            Entry(table, self._block(layer, micro_batch)) for table in self.recipe.tables.gathered
        )
        self.program.inside(busiest, "tp", total=total, **self._at(layer, micro_batch))

    def _shared_experts(self, duration_ps: int, layer: int, micro_batch: int) -> None:
        if self.model.shared_expert_ffn_size:
            self._tp_entry(layer, micro_batch)
            self._compute("expert", duration_ps, layer, micro_batch)
            self._tp_exit(layer, micro_batch)

    def _block(self, layer: int, micro_batch: int) -> int:
        return self.moe_index[layer] * self.plan.micro_batches + micro_batch

    # Single tasks

    def _compute(self, category: str, duration_ps: int, layer: int, micro_batch: int) -> None:
        self.program.compute(category, duration_ps=duration_ps, **self._at(layer, micro_batch))

    def _inside(self, category: str, size_bytes: int, layer: int, micro_batch: int) -> None:
        if size_bytes:
            self.program.inside(size_bytes, category, **self._at(layer, micro_batch))

    def _at(self, layer: int, micro_batch: int) -> dict[str, Any]:
        """Where in the model and the step a task belongs."""
        known = 0 <= layer < self.model.num_layers
        return {"layer": layer if known else NONE, "micro_batch": micro_batch}

    def _tp_entry(self, layer: int, micro_batch: int) -> None:
        if self.plan.sequence_parallel:
            self._inside("tp", self.recipe.bytes.tp, layer, micro_batch)

    def _tp_exit(self, layer: int, micro_batch: int) -> None:
        passes = 1 if self.plan.sequence_parallel else 2
        self._inside("tp", passes * self.recipe.bytes.tp, layer, micro_batch)

    def _all_to_all(
        self,
        layer: int,
        micro_batch: int,
        size_bytes: int,
        *,
        transposed: bool = False,
        first: bool = False,
    ) -> None:
        if self.plan.ep > 1:
            tables = self.recipe.tables
            block = self._block(layer, micro_batch)
            demand = Block(tables.demand, block, size_bytes, transposed, first)
            self.program.all_to_all(tables.family, demand, "ep", **self._at(layer, micro_batch))

    def _context(self, ring: Collective, layer: int, micro_batch: int) -> None:
        """Pass keys and values between CP ranks; blocks, unlike gradient rings."""
        group = self.recipe.collectives.groups.get(CONTEXT)
        if group is None:
            return
        buffer = self.recipe.bytes.key_value
        if group.servers == 1:
            self._inside("cp", group.local(buffer, ring), layer, micro_batch)
            return
        handle = self._ring(CONTEXT, buffer, ring, layer, "cp")
        self.program.wait(handle, "cp", **self._at(layer, micro_batch))

    # Gradients, optimizer, parameters

    def _reduce(self, scope: str, parameters: float, layer: int) -> None:
        if scope not in self.recipe.collectives.groups or not parameters:
            return
        size = parameters * self.options.gradient_bytes
        if self.options.overlap_dp:
            self._reduce_now(scope, size, layer)
        else:
            self.delayed.append((scope, size, layer))

    def _reduce_now(self, scope: str, size_bytes: float, layer: int) -> None:
        ring = Collective.REDUCE_SCATTER if self.plan.zero1 else Collective.ALL_REDUCE
        self.reductions.append(self._ring(scope, size_bytes, ring, layer, "dp"))

    def _ring(
        self, scope: str, buffer_bytes: float, ring: Collective, layer: int, category: str
    ) -> int:
        """Start a ring over a buffer per GPU; return its handle."""
        handle = self.next_handle
        self.next_handle += 1
        self._add_ring(scope, buffer_bytes, ring, layer, (category, handle))
        return handle

    def _add_ring(
        self,
        scope: str,
        buffer_bytes: float,
        ring: Collective,
        layer: int,
        named: tuple[str, int],
    ) -> None:
        group = self.recipe.collectives.groups[scope]
        category, handle = named
        self.program.ring(
            ring,
            self.recipe.collectives.index(scope),
            group.crossing(buffer_bytes),
            category,
            inside=group.local(buffer_bytes, ring),
            handle=handle,
            asynchronous=True,
            **self._at(layer, NONE),
        )

    def _embedding_all_reduce(self) -> None:
        ends = (0, self.plan.pp - 1)
        if shares_embedding(self.model, self.plan) and self.stage in ends:
            size = embedding_per_gpu(self.model, self.plan) * self.options.gradient_bytes
            named = ("dp", EMBEDDING_HANDLE)
            self._add_ring(EMBEDDING, size, Collective.ALL_REDUCE, -1, named)
            self.program.wait(EMBEDDING_HANDLE, "dp")

    def _optimizer(self) -> None:
        held = stage_parameters(self.model, self.plan, self.stage)
        updated = held.dense + held.expert
        if self.plan.zero1:
            updated = held.dense / (self.plan.dense_dp * self.plan.cp)
            updated += held.expert / self.plan.groups_per_stage
        seconds = self.recipe.compute_scale * self.recipe.compute.optimizer(updated)
        self.program.compute("optimizer", duration_ps=to_ps(seconds))

    def _gather_parameters(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Start gathering ZeRO-1's parameters; handles and layers in forward order."""
        if not self.plan.zero1:
            return {}
        handles = {}
        for scope, layer, parameters in self._sharded():
            size = parameters * self.options.parameter_bytes
            handle = self._ring(scope, size, Collective.ALL_GATHER, layer, "dp")
            handles[scope, layer] = (handle, layer)
        return handles

    def _sharded(self) -> list[tuple[str, int, float]]:
        """Scope, layer and parameters per GPU of what ZeRO-1 shards, in forward order."""
        parts: list[tuple[str, int, float]] = []
        if self.stage == 0:
            parts.append((DENSE, -1, embedding_per_gpu(self.model, self.plan)))
        for chunk in self.chunks:
            for layer in chunk:
                held = layer_parameters(self.model, self.plan, layer)
                parts += [(DENSE, layer, held.dense), (EXPERT, layer, held.expert)]
        if self.stage == self.plan.pp - 1:
            parts.append((DENSE, self.model.num_layers, output_per_gpu(self.model, self.plan)))
        known = self.recipe.collectives.groups
        return [part for part in parts if part[0] in known and part[2]]

    def _await_parameters(
        self, gathers: dict[tuple[str, int], tuple[int, int]], layer: int
    ) -> None:
        for scope in (DENSE, EXPERT):
            found = gathers.pop((scope, layer), None)
            if found is not None:
                self.program.wait(found[0], "dp", **self._at(layer, NONE))
