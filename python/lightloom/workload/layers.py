"""The tasks of a layer, in the order in which a framework issues them.

Forward of an MoE layer: attention, gate, dispatch, experts, shared experts, combine; backward in
reverse, where the gradient of combine has the pattern of dispatch and vice versa. A layer may have
attention alone, or none. TP collectives are local to a server. What the plan overlaps:

- *chunks of an all-to-all*, beside gathers over the TP ranks of an expert: :mod:`.strategies`.
- *chunks* of tokens: while the experts compute one, the next is dispatched and the one before is
  combined (Tutel, arXiv 2206.03382, section 4.3; MoNTA, arXiv 2411.00662). The chunks of a layer
  are equal: each moves its share of every token's bytes.
- *shared experts*: their first products run during dispatch, the last one during combine
  (Megatron-Core, ``moe_shared_expert_overlap``).
- *TP*: collectives are cut into TP steps that run alongside the product next to them, so that of
  each only one step, the first or the last, is exposed (Transformer Engine's userbuffers,
  Megatron-Core's ``tp_comm_overlap``); the second gather of a backward pass is hidden as a whole.
  Here the hidden steps run alongside the whole of attention or feed-forward, not only its first
  and last product; those of the embedding, the output projection and the routed experts remain
  exposed, as there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lightloom.parallel.pipeline import Part
from lightloom.units import to_ps
from lightloom.workload.builder import Block, Entry, ProgramBuilder
from lightloom.workload.chunked_all_to_all import Chunked, Piece
from lightloom.workload.collectives import TENSOR
from lightloom.workload.context import ContextWriter
from lightloom.workload.expert_tables import Variant
from lightloom.workload.next_tokens import module_collectives
from lightloom.workload.passes import AllToAllRequest, AllToAlls, Pass
from lightloom.workload.recipe import Recipe, placed_at
from lightloom.workload.ring_writer import RingWriter
from lightloom.workload.sizes import Times
from lightloom.workload.strategies import LayerStrategy
from lightloom.workload.task_graph import Collective
from lightloom.workload.tokens import gathers_copies, gathers_results


@dataclass(frozen=True)
class _Mixture:
    """One pass through the experts of a layer; ``part`` is ``None`` for a forward pass."""

    layer: int
    micro_batch: int
    part: Part | None
    first: bool
    #: what follows the experts, alongside the all-to-all back
    after_experts: Callable[[], None] | None = None


class LayerWriter:
    """Writes passes through layers into a program.

    Parameters
    ----------
    recipe
        Sizes and times.
    program
        Where to.
    moe_index
        MoE layers of the stage that a layer belongs to, numbered from 0.
    handles
        Numbers of handles that are free.
    """

    def __init__(
        self,
        recipe: Recipe,
        program: ProgramBuilder,
        moe_index: dict[int, int],
        handles: Iterator[int],
    ) -> None:
        self.recipe, self.program = recipe, program
        self.model, self.plan = recipe.model, recipe.plan
        self.all_to_alls = AllToAlls(program, recipe.tables.family, handles, recipe.taken)
        self.rings = RingWriter(program, recipe.collectives, handles)
        self._context = ContextWriter(recipe, program, self.rings)
        self._moe_index = moe_index
        size = recipe.bytes.tp
        #: bytes of a TP collective that run alongside computation
        self._hidden_tp = size - size // self.plan.tp if self.plan.overlap_tp else 0

    # Passes

    def forward(self, layer: int, micro_batch: int, *, first: bool) -> Pass:
        """A layer's forward pass; ``first`` unless it is computed again."""
        times, at = self.recipe.forward, (layer, micro_batch)
        if self._mixes(layer):
            self._region("attention", self._attention(times, layer), at)
        if not self.model.moe_layers[layer]:
            if self.model.ffn_width(layer):
                self._region("dense_ffn", self._dense_ffn(times, layer), at)
            return
        self.compute("gate", times.gate, layer, micro_batch)
        yield from self._mixture(_Mixture(layer, micro_batch, None, first))

    def backward(
        self,
        layer: int,
        micro_batch: int,
        part: Part,
        after_experts: Callable[[], None] | None = None,
    ) -> Pass:
        """A layer's backward pass, all of it or for the gradients of its inputs.

        ``after_experts`` writes what follows its experts before their all-to-all back.
        """
        times, at = self.backward_times(part), (layer, micro_batch)
        if self.model.moe_layers[layer]:
            mix = _Mixture(layer, micro_batch, part, False, after_experts)
            yield from self._mixture(mix)
            self.compute("gate", times.gate, layer, micro_batch)
        elif self.model.ffn_width(layer):
            self._region("dense_ffn", self._dense_ffn(times, layer), at, backward=True)
        if self._mixes(layer):
            self._region("attention", self._attention(times, layer), at, backward=True)

    def weights(self, layer: int, micro_batch: int) -> None:
        """The gradients of a layer's weights; they need no communication."""
        times = self.recipe.weights
        if self.model.moe_layers[layer]:
            self._experts(_Mixture(layer, micro_batch, "weight", first=False))
            if self.model.shared_expert_ffn_size:
                self.compute("expert", times.shared_experts, layer, micro_batch)
            self.compute("gate", times.gate, layer, micro_batch)
        elif self.model.ffn_width(layer):
            self.compute("dense_ffn", self._dense_ffn(times, layer), layer, micro_batch)
        if self._mixes(layer):
            self.compute("attention", self._attention(times, layer), layer, micro_batch)

    def _mixes(self, layer: int) -> bool:
        """Whether a layer has attention, and is not a feed-forward alone."""
        attentions = self.model.attention_by_layer
        return not attentions or attentions[layer].kind != "none"

    def _dense_ffn(self, times: Times, layer: int) -> int:
        return times.dense_ffn[self.model.ffn_index(layer)]

    def _attention(self, times: Times, layer: int) -> int:
        return times.attention[self.model.attention_index(layer)]

    def backward_times(self, part: Part) -> Times:
        """Times of a backward pass, or of a part of it."""
        recipe = self.recipe
        return {"whole": recipe.backward, "input": recipe.inputs, "weight": recipe.weights}[part]

    # Experts

    def _mixture(self, mix: _Mixture) -> Pass:
        """The experts of a layer between their two all-to-alls."""
        if self.plan.overlap_all_to_all == "chunks":
            self._in_chunks(mix)
        else:
            yield from self._whole(mix)
        if gathers_results(self.plan, self.recipe.options):
            self.tp_collective(self.recipe.bytes.tp, mix.layer, mix.micro_batch)

    def _whole(self, mix: _Mixture) -> Pass:
        """All tokens at once."""
        (away,), (back,) = self._ends(mix)
        if self.plan.overlap_shared_experts:
            yield self._request(mix, away, meanwhile=0)
            self._expert_part(mix)
            self._follow_experts(mix)
            yield self._request(mix, back, meanwhile=1)
            return
        if self.plan.ep > 1:
            yield self._request(mix, away)
        if mix.part is None:
            self._expert_part(mix)
            self._shared_experts(mix)
        else:
            self._shared_experts(mix)
            self._expert_part(mix)
        self._follow_experts(mix)
        if self.plan.ep > 1:
            yield self._request(mix, back)

    def _in_chunks(self, mix: _Mixture) -> None:
        """Dispatch, compute and combine chunks of the tokens, a step of each at a time."""
        count = self.plan.overlap_chunks
        away, back = ([self._request(mix, part) for part in end] for end in self._ends(mix))
        start, wait = self.all_to_alls.start, self.all_to_alls.wait
        pending = [start(away[0])]
        self._shared_half(mix, 0)
        for index in range(count):
            for started in pending:
                wait(*started, slows=started is pending[-1])
            pending = [start(away[index + 1])] if index + 1 < count else []
            pending += [start(back[index - 1])] if index else []
            self._expert_part(mix, chunk=index)
        self._follow_experts(mix)
        if not self.plan.overlap_shared_experts:
            self._shared_experts(mix)
        for started in pending:
            wait(*started, slows=started is pending[-1])
        started = start(back[-1])
        self._shared_half(mix, 1)
        wait(*started)

    def _follow_experts(self, mix: _Mixture) -> None:
        if mix.after_experts is not None:
            mix.after_experts()

    def _ends(self, mix: _Mixture) -> tuple[Sequence[Block | Chunked], Sequence[Block | Chunked]]:
        """What goes to the experts and what comes back, by chunk of the tokens."""
        size = self.recipe.bytes
        sizes = (size.dispatch, size.combine)
        if mix.part is not None:
            sizes = (size.combine_gradient, size.dispatch_gradient)
        demand, block = self.recipe.tables.demand, self._block(mix)
        strategy = self._strategy(mix)
        if strategy.strategy == "baseline":
            # every TP rank sends all copies
            sizes = (sizes[0] * self.plan.etp, sizes[1] * self.plan.etp)
        ends = (
            Block(demand, block, sizes[0], first=mix.first),
            Block(demand, block, sizes[1], transposed=True),
        )
        parts = [_split(whole, self.plan.overlap_chunks * strategy.chunks) for whole in ends]
        if not strategy.is_chunked:
            return parts[0], parts[1]
        return self._chunked(mix, parts[0], arrives=True), self._chunked(
            mix, parts[1], arrives=False
        )

    def _strategy(self, mix: _Mixture) -> LayerStrategy:
        return self.recipe.experts.strategies[mix.layer]

    def _chunked(self, mix: _Mixture, parts: list[Block], *, arrives: bool) -> list[Chunked]:
        """The chunks of an all-to-all with what TP ranks do, by chunk of the tokens."""
        strategy, block = self._strategy(mix), self._block(mix)
        tables = self.recipe.experts.pieces[len(parts)]
        pieces = [
            Piece(
                part,
                Entry(table.busiest, block),
                Entry(table.total, block),
                Entry(table.copied, block)
                if strategy.copies and table.copied is not None
                else None,
            )
            for part, table in zip(parts, tables, strict=True)
        ]
        beside, chunk_ps = strategy.strategy == "O3", to_ps(strategy.chunk_s)
        return [
            Chunked(pieces[at : at + strategy.chunks], arrives, beside, chunk_ps, self.plan.etp - 1)
            for at in range(0, len(pieces), strategy.chunks)
        ]

    def _request(
        self, mix: _Mixture, demand: Block | Chunked, meanwhile: int | None = None
    ) -> AllToAllRequest:
        """An all-to-all, alongside which a half of the shared experts may run."""
        placed = self._at(mix.layer, mix.micro_batch)
        if meanwhile is None:
            return AllToAllRequest(demand, placed)
        return AllToAllRequest(demand, placed, lambda: self._shared_half(mix, meanwhile))

    def _expert_part(self, mix: _Mixture, *, chunk: int | None = None) -> None:
        """The routed experts with their TP collectives, of all tokens or of a chunk.

        Chunks of an all-to-all have these with them. Where every TP rank has all copies nothing is
        gathered, and a scatter and a gather add up what the experts give.
        """
        strategy = self._strategy(mix)
        if strategy.strategy == "O1":
            self._expert_tp(mix, chunk)
        self._experts(mix, chunked=chunk is not None)
        if not strategy.is_chunked:
            self._expert_tp(mix, chunk)
        if strategy.strategy == "baseline":
            self._expert_tp(mix, chunk)

    def _experts(self, mix: _Mixture, *, chunked: bool = False) -> None:
        table = self.recipe.experts.times[Variant(mix.part, chunked)]
        block, placed = self._block(mix), self._at(mix.layer, mix.micro_batch)
        self.program.compute("expert", Entry(table.computation, block), **placed)
        if table.stragglers is not None:
            self.program.compute("straggler", Entry(table.stragglers, block), **placed)

    def _expert_tp(self, mix: _Mixture, chunk: int | None) -> None:
        """Gather what the experts need, or scatter what they give, over expert-TP ranks."""
        tables, whole = self.recipe.tables, self.recipe.bytes.expert_tp
        if not gathers_copies(self.plan, self.recipe.options):
            count = self.plan.overlap_chunks
            size = whole if chunk is None else _shares(whole, count)[chunk]
            self.inside("tp", size, mix.layer, mix.micro_batch, peers=self.plan.etp - 1)
            return
        pair = tables.gathered
        if chunk is not None:
            piece = self.recipe.experts.pieces[self.plan.overlap_chunks][chunk]
            pair = (piece.busiest, piece.total)
        busiest, total = (Entry(table, self._block(mix)) for table in pair)
        placed = self._at(mix.layer, mix.micro_batch)
        peers = self.plan.etp - 1
        self.program.inside(busiest, "tp", total=total, peers=peers, **placed)

    def _shared_experts(self, mix: _Mixture) -> None:
        """Shared experts where nothing hides them."""
        if self.model.shared_expert_ffn_size:
            at, backward = (mix.layer, mix.micro_batch), mix.part is not None
            self._region("expert", self._shared_time(mix), at, backward=backward)

    def _shared_half(self, mix: _Mixture, half: int) -> None:
        """The products of shared experts before or after their activation, if they are hidden."""
        if not self.plan.overlap_shared_experts:
            return
        whole = self._shared_time(mix)
        branches = 2 if self.model.gated_ffn else 1
        # forward, the products before the activation come first; backward, the one after it
        before = branches if mix.part is None else 1
        first = whole * before // (branches + 1)
        duration = whole - first if half else first
        at, backward = (mix.layer, mix.micro_batch), mix.part is not None
        last = bool(half)
        self._region("expert", duration, at, entry=not last, exit_=last, backward=backward and last)

    def _shared_time(self, mix: _Mixture) -> int:
        times = self.recipe.forward if mix.part is None else self.backward_times(mix.part)
        return int(times.shared_experts)

    def _block(self, mix: _Mixture) -> int:
        return self._moe_index[mix.layer] * self.plan.micro_batches + mix.micro_batch

    # Regions of tensor parallelism

    def _region(
        self,
        category: str,
        duration_ps: int,
        at: tuple[int, int],
        *,
        entry: bool = True,
        exit_: bool = True,
        backward: bool = False,
    ) -> None:
        """Computation between the TP collectives that begin and end it.

        With sequence parallelism, a backward pass gathers the input of the region once more, for
        the gradients of the weights.
        """
        hidden = self._hidden_tp
        again = self.recipe.bytes.tp if backward and self.plan.sequence_parallel else 0
        if entry:
            self.tp_entry(*at, hidden=hidden)
        if category == "attention":
            self._context.before(*at, backward=backward)
        if not hidden:
            self.tp_collective(again, *at)
        handle = self._alongside((entry + exit_) * hidden + again, at) if hidden else None
        self.compute(category, duration_ps, *at)
        if handle is not None:
            self.program.wait(handle, "tp", **self._at(*at))
        if category == "attention":
            self._context.after(*at, backward=backward)
        if exit_:
            self.tp_exit(*at, hidden=hidden)

    def _alongside(self, size_bytes: int, at: tuple[int, int]) -> int:
        """Start the hidden steps of TP collectives."""
        return self.rings.start_inside(TENSOR, size_bytes, "tp", self._at(*at))

    def tp_entry(self, layer: int, micro_batch: int, *, hidden: int = 0) -> None:
        """Gather hidden states over TP ranks, but for bytes that are hidden."""
        if self.plan.sequence_parallel:
            self.tp_collective(self.recipe.bytes.tp - hidden, layer, micro_batch)

    def tp_exit(self, layer: int, micro_batch: int, *, hidden: int = 0) -> None:
        """Add up hidden states over TP ranks, but for bytes that are hidden."""
        if self.plan.sequence_parallel:
            self.tp_collective(self.recipe.bytes.tp - hidden, layer, micro_batch)
            return
        self._add_up(self.recipe.bytes.tp, layer, micro_batch, hidden=hidden)

    def _add_up(self, size_bytes: int, layer: int, micro_batch: int, *, hidden: int = 0) -> None:
        """An all-reduce among TP ranks of what one gather of so many bytes gives, if of any."""
        size, placed = 2 * size_bytes - hidden, self._at(layer, micro_batch)
        if size:
            peers, kind = self.plan.tp - 1, Collective.ALL_REDUCE
            self.program.inside(size, "tp", peers=peers, collective=kind, **placed)

    def tp_collective(self, size_bytes: int, layer: int, micro_batch: int) -> None:
        """A collective among TP ranks that nothing hides, if it moves anything."""
        self.inside("tp", size_bytes, layer, micro_batch, peers=self.plan.tp - 1)

    def next_tokens(self, micro_batch: int, *, backward: bool) -> None:
        """TP collectives of modules of multi-token prediction beside those of their layers."""
        plan, again = self.plan, self.recipe.compute.recompute == "full"
        moved = module_collectives(
            sequence_parallel=plan.sequence_parallel, backward=backward, again=again
        )
        for states, adds_up in moved * self.model.mtp_layers:
            if adds_up:
                self._add_up(states * self.recipe.bytes.tp, -1, micro_batch)
            else:
                self.tp_collective(states * self.recipe.bytes.tp, -1, micro_batch)

    # Single tasks

    def compute(self, category: str, duration_ps: int, layer: int, micro_batch: int) -> None:
        """Computation."""
        self.program.compute(category, duration_ps=duration_ps, **self._at(layer, micro_batch))

    def inside(
        self, category: str, size_bytes: int, layer: int, micro_batch: int, *, peers: int
    ) -> None:
        """A collective inside the server, if it moves anything."""
        if size_bytes:
            placed = self._at(layer, micro_batch)
            self.program.inside(size_bytes, category, peers=peers, **placed)

    def _at(self, layer: int, micro_batch: int) -> dict[str, Any]:
        return placed_at(self.model, layer, micro_batch)


def _shares(whole: int, count: int) -> list[int]:
    """Split whole bytes as evenly as possible."""
    return [whole // count + (index < whole % count) for index in range(count)]


def _split(whole: Block, count: int) -> list[Block]:
    """Equal chunks of an all-to-all; the demand is known once the first is reached."""
    return [
        dataclasses.replace(whole, unit_bytes=size, first=whole.first and index == 0)
        for index, size in enumerate(_shares(whole.unit_bytes, count))
    ]
