"""Passes of one micro-batch through layers, in closed form: what each part of them takes.

They are those that :mod:`lightloom.workload.layers` writes, one part after another but for what the
plan overlaps; all-to-alls in chunks are pipelines of stages with a start-up and a pace.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from lightloom.parallel import Plan
from lightloom.parallel.overlap import CHUNKED, MAX_CHUNKS
from lightloom.planner.pipeline import best_equal_chunks
from lightloom.practice import Sharded
from lightloom.study.compare.estimate_network import GroupLayout, GroupLoads
from lightloom.units import PS_PER_S
from lightloom.workload.compute import ComputeModel
from lightloom.workload.expert_passes import expert_seconds
from lightloom.workload.expert_tables import taken_share
from lightloom.workload.next_tokens import module_collectives
from lightloom.workload.sizes import Sizes, sizes
from lightloom.workload.tokens import gathers_results
from lightloom.workload.weight_gradients import expert_weight_seconds, weight_times

if TYPE_CHECKING:
    from lightloom.study.compare.step_estimate import StepEstimates

Floats = npt.NDArray[np.float64]

#: columns of the seconds of a pass; computation of routed experts is apart, and DP is what passes
#: wait for with ZeRO-2 and 3
COMPUTE, TP, EP, CP, EXPERTS, DP = range(6)


class _End(NamedTuple):
    """Seconds of an all-to-all of experts with what its TP ranks do next to it.

    ``sent`` is what is waited for, ``gathered`` and ``copied`` what no all-to-all hides: the last
    of so many ``chunks``, or all of it.
    """

    sent: float
    gathered: float = 0.0
    copied: float = 0.0
    chunks: int = 1


class _Ends(NamedTuple):
    """To the experts, and back."""

    away: _End
    back: _End


@dataclass(frozen=True)
class EstimatedJob:
    """A plan with where its groups are, what it computes again, and what ranks share out."""

    plan: Plan
    layout: GroupLayout
    compute: ComputeModel
    sharded: Sharded

    @property
    def layer_key(self) -> Hashable:
        """What the passes of a layer depend on."""
        plan, layout = self.plan, self.layout
        degrees = (plan.tp, plan.ep, plan.etp, plan.cp, plan.expert_mode, plan.micro_batch_size)
        where = (layout.members, layout.gpus, layout.spans["cp"])
        overlaps = (plan.overlap_all_to_all, plan.overlap_chunks, plan.overlap_shared_experts)
        strategy = (plan.strategy, plan.strategy_chunks)
        more = (plan.overlap_tp, plan.communication_sms, plan.sequence_parallel, plan.seq_len)
        practice = (plan.context_parallel, plan.schedule, self.compute.recompute)
        return degrees, where, overlaps, strategy, more, practice


class LayerEstimates:
    """Passes of one micro-batch through layers, as :mod:`lightloom.workload.layers` writes them."""

    def __init__(
        self, estimates: StepEstimates, job: EstimatedJob, loads: GroupLoads | None
    ) -> None:
        self.model, self.plan, self.compute = estimates.model, job.plan, job.compute
        self.layout, self.paces, self.loads = job.layout, estimates.paces, loads
        self.options = estimates.options
        self.bytes: Sizes = sizes(self.model, self.plan, self.options, 1)
        self.forward, self.backward = estimates.times(job)
        self.taken = taken_share(self.plan, self.compute)
        self._once = estimates.once
        self._ends: dict[tuple[bool, int], _Ends] = {}

    # Parts of a layer

    def gather(self, passes: float = 1.0) -> float:
        """TP collectives of the hidden states that nothing hides."""
        return self.paces.gather(passes * self.bytes.tp, self.plan.tp - 1)

    def leave(self) -> float:
        """The TP collective that ends a region."""
        if self.plan.sequence_parallel:
            return self.gather()
        return self.paces.add_up(2 * self.bytes.tp, self.plan.tp - 1)

    def region(self, seconds: float, *, backward: bool) -> Floats:
        """Computation between TP collectives."""
        parts = np.zeros(6)
        parts[COMPUTE] = seconds
        plan, whole = self.plan, self.bytes.tp
        if plan.tp == 1:
            return parts
        parallel = plan.sequence_parallel
        again = backward and parallel
        if not plan.overlap_tp:
            parts[TP] = (parallel + again) * self.gather() + self.leave()
            return parts
        shown = whole // plan.tp
        alongside = self.paces.gather(2 * (whole - shown) + again * whole, plan.tp - 1)
        parts[TP] = 2 * self.gather(shown / whole) + max(0.0, alongside - seconds)
        return parts

    def before(self, layer: int, *, backward: bool) -> Floats:
        """Attention, and the gate of a mixture."""
        model, of = self.model, self.backward if backward else self.forward
        parts = np.zeros(6)
        attention = model.attention_index(layer)
        if model.variants[attention].attention.kind != "none":
            parts = self.region(of.attention[attention] / PS_PER_S, backward=backward)
            parts[CP] = self._context(attention, backward)
        if model.moe_layers[layer]:
            parts[COMPUTE] += of.gate / PS_PER_S
        return parts

    def _context(self, attention: int, backward: bool) -> float:
        span, of = self.layout.spans["cp"], self.bytes.context[attention]
        if self.plan.cp == 1:
            return 0.0
        if self.plan.context_parallel == "ring":
            passes = 2 if backward else 1
            if span.servers > 1:
                return passes * self.paces.ring(of.key_value, span, 1)
            return self.paces.ring(of.key_value, span, passes)
        return sum(self.paces.cut_all_to_all(size, span) for size in (of.heads_in, of.heads_out))

    def dense(self, layer: int, *, backward: bool) -> Floats:
        """A dense feed-forward."""
        of = self.backward if backward else self.forward
        if not self.model.ffn_width(layer):
            return np.zeros(6)
        seconds = of.dense_ffn[self.model.ffn_index(layer)] / PS_PER_S
        return self.region(seconds, backward=backward)

    def shared(self, *, backward: bool) -> Floats:
        """Shared experts."""
        of = self.backward if backward else self.forward
        if not of.shared_experts:
            return np.zeros(6)
        return self.region(of.shared_experts / PS_PER_S, backward=backward)

    def experts(self, *, backward: bool, chunks: int = 1) -> Floats:
        """The routed experts of the busiest rank with their TP collectives."""
        assert self.loads is not None
        model, plan = self.model, self.plan
        copies = self._copies()
        tokens = np.array([copies / chunks])
        parts = np.zeros(6)
        again = self.compute.recompute if backward else None
        seconds = self._once(
            ("experts", plan.ep, plan.etp, copies / chunks, again),
            lambda: expert_seconds(model, plan, self.compute, tokens, backward=backward),
        )
        parts[EXPERTS] = chunks * float(seconds[0])
        if self.ends(backward=backward).away.gathered:
            for end in self.ends(backward=backward, parts=chunks):
                parts[TP] += chunks * end.gathered
                parts[COMPUTE] += chunks * end.copied
        elif plan.etp > 1:
            parts[TP] = 2 * chunks * self.paces.gather(self._gathered() / chunks, plan.etp - 1)
        return parts

    def _gathered(self) -> float:
        """Bytes that an expert-TP rank of the busiest EP rank gets from the others."""
        plan, model = self.plan, self.model
        if self.options.moe_tp != "dispatched":
            return float(self.bytes.expert_tp)
        element = model.expert_hidden * self.options.activation_element_bytes
        return self._copies() * element * (plan.etp - 1) / plan.etp

    def _copies(self) -> float:
        """Token copies of the busiest EP rank."""
        assert self.loads is not None
        return self.loads.slowest * self.plan.tokens_per_ep_rank

    def ends(self, *, backward: bool, parts: int = 1) -> _Ends:
        """The two all-to-alls of a mixture, or of one of so many equal parts of its tokens."""
        if self.plan.ep == 1 or self.loads is None:
            return _Ends(_End(0.0), _End(0.0))
        key = backward, parts
        if key not in self._ends:
            self._ends[key] = self._made_ends(*key)
        return self._ends[key]

    def _made_ends(self, backward: bool, parts: int) -> _Ends:
        of = self.bytes
        away, back = (
            (of.combine_gradient, of.dispatch_gradient) if backward else (of.dispatch, of.combine)
        )
        tokens = float(self.plan.tokens_per_ep_rank)
        return _Ends(self._end(tokens * away, parts), self._end(tokens * back, parts))

    def _end(self, moved: float, parts: int) -> _End:
        """An all-to-all of so many bytes, by the strategy of the plan."""
        assert self.loads is not None
        plan, loads, layout = self.plan, self.loads, self.layout
        if plan.strategy == "baseline":
            moved *= plan.etp
        if plan.strategy in ("baseline", "O1") or self.options.moe_tp != "dispatched":
            # chunks of tokens are taken to have no start-ups of their own
            return _End(self.paces.all_to_all(loads, layout, moved) / parts)
        strategies = CHUNKED if plan.strategy == "auto" else (plan.strategy,)
        ends = [self._in_strategy_chunks(name, moved / parts) for name in strategies]
        if plan.strategy == "auto":
            gather = self.paces.gather(self._gathered() / parts, plan.etp - 1)
            ends.append(_End(self.paces.all_to_all(loads, layout, moved / parts), gather))
        return min(ends, key=lambda end: end.sent + end.gathered + end.copied)

    def _in_strategy_chunks(self, name: str, moved: float) -> _End:
        """An all-to-all of so many bytes in chunks, beside which those next to them are gathered.

        Each stage is a start-up and a pace, so that the best number of chunks has a closed form.
        """
        plan, paces, compute, loads = self.plan, self.paces, self.compute, self.loads
        assert loads is not None
        share = moved / (self.plan.tokens_per_ep_rank * float(self.bytes.dispatch))
        gathered, peers = share * self._gathered(), plan.etp - 1
        element = self.model.expert_hidden * self.options.activation_element_bytes
        copy_bytes = np.array([share * self._copies() * element])

        def stages(chunks: float) -> list[float]:
            sent = paces.all_to_all(loads, self.layout, moved / chunks)
            gather = paces.gather(gathered / chunks, peers)
            copied = float(compute.copied(copy_bytes / chunks)[0])
            if name == "O4":
                return [sent, gather + (plan.ep - 1) * paces.gather_start_s(peers)]
            return [sent, gather + copied] if name == "O2" else [sent, gather, copied]

        fine, whole = stages(MAX_CHUNKS), stages(1)
        each = [(a - b) / (1 - 1 / MAX_CHUNKS) for a, b in zip(whole, fine, strict=True)]
        start = [max(0.0, a - more) for a, more in zip(whole, each, strict=True)]
        chunks = plan.strategy_chunks or best_equal_chunks(start, each, MAX_CHUNKS)[0]
        parts = stages(chunks)
        time_s = sum(parts) + (chunks - 1) * max(parts)
        copied = 0.0 if name == "O4" else float(compute.copied(copy_bytes / chunks)[0])
        last = sum(parts[1:]) - copied
        return _End(time_s - last - copied, last, copied, chunks)

    # Whole passes

    def alone(self, layer: int, part: str | None) -> Floats:
        """A pass of a micro-batch that meets no other."""
        backward = part is not None
        total = self.before(layer, backward=backward)
        if not self.model.moe_layers[layer]:
            return total + self.dense(layer, backward=backward)
        return total + self._mixture(backward)

    def _mixture(self, backward: bool) -> Floats:
        parts = self._between(backward)
        if gathers_results(self.plan, self.options):
            parts[TP] += self.gather()
        return parts

    def _between(self, backward: bool) -> Floats:
        """From the gate to the results of the experts."""
        plan = self.plan
        shared = self.shared(backward=backward)
        if plan.overlap_all_to_all == "chunks":
            return self._in_chunks(backward, shared)
        away, back = (end.sent for end in self.ends(backward=backward))
        total = self.experts(backward=backward) + shared
        if not plan.overlap_shared_experts:
            total[EP] += away + back
            return total
        branches = 2 if self.model.gated_ffn else 1
        before = (1 if backward else branches) / (branches + 1)
        for seconds, share in ((away, before), (back, 1 - before)):
            exposed, more = self._hidden(seconds, share * float(shared.sum()))
            total[EP] += exposed
            total[COMPUTE] += more
        return total

    def _hidden(self, communication_s: float, compute_s: float) -> tuple[float, float]:
        """What of communication computation does not hide, and how much slower that is for it."""
        slowed = compute_s / (1 - self.taken)
        if slowed <= communication_s:
            return communication_s - slowed, slowed - compute_s
        return 0.0, communication_s * self.taken

    def _in_chunks(self, backward: bool, shared: Floats) -> Floats:
        """Experts compute a chunk while the next is sent to them and the one before returns."""
        count = self.plan.overlap_chunks
        experts = self.experts(backward=backward, chunks=count)
        away, back = (end.sent for end in self.ends(backward=backward, parts=count))
        each = float(experts.sum()) / count
        total = experts + shared
        meanwhile = [away, *([away + back] * (count - 2)), back] if count > 1 else [0.0]
        total[EP] += away + back
        for seconds in meanwhile:
            exposed, more = self._hidden(seconds, each)
            total[EP] += exposed
            total[COMPUTE] += more
        return total

    def together(self, layer: int) -> Floats:
        """A forward and a backward pass that alternate from all-to-all to all-to-all."""
        first = self.before(layer, backward=False)
        last = self.before(layer, backward=True)
        if not self.model.moe_layers[layer]:
            dense = (self.dense(layer, backward=back) for back in (False, True))
            return first + last + sum(dense)
        middles = [self.experts(backward=b) + self.shared(backward=b) for b in (False, True)]
        total = first + last + middles[0] + middles[1]
        total[TP] += 2 * self.gather() * gathers_results(self.plan, self.options)
        (away, back), (away_again, back_again) = (
            [end.sent for end in self.ends(backward=b)] for b in (False, True)
        )
        # while one pass sends, the other computes
        for seconds, segment in (
            (away_again, first),
            (away, middles[1]),
            (back_again, middles[0]),
            (back, last),
        ):
            exposed, more = self._hidden(seconds, float(segment.sum()))
            total[EP] += exposed
            total[COMPUTE] += more
        return total

    def weights(self, layer: int) -> float:
        """Gradients of weights alone."""
        model, plan = self.model, self.plan
        of = weight_times(model, plan, self.compute, 1.0)
        seconds = of.attention[model.attention_index(layer)]
        if not model.moe_layers[layer]:
            width = model.ffn_width(layer)
            return (seconds + (of.dense_ffn[model.ffn_index(layer)] if width else 0)) / PS_PER_S
        assert self.loads is not None
        tokens = np.array([self.loads.slowest * plan.tokens_per_ep_rank])
        experts = float(expert_weight_seconds(model, plan, self.compute, tokens)[0])
        return (seconds + of.gate + of.shared_experts) / PS_PER_S + experts

    def tables(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Embedding and output projection, forward and backward."""
        plan = self.plan
        parallel = plan.sequence_parallel
        enter = self.gather() if parallel else 0.0
        leave = self.leave()

        def parts(ps: int, tp: float) -> Floats:
            return np.array([ps / PS_PER_S, tp if plan.tp > 1 else 0.0, 0.0, 0.0, 0.0, 0.0])

        ahead, behind = (self._next_tokens(backward=back) for back in (False, True))
        return (
            (parts(self.forward.embedding, leave), parts(self.backward.embedding, enter)),
            (
                parts(self.forward.head, enter + ahead),
                parts(self.backward.head, enter + leave + behind),
            ),
        )

    def _next_tokens(self, *, backward: bool) -> float:
        """TP collectives of modules of multi-token prediction beside those of their layers."""
        again, peers = self.compute.recompute == "full", self.plan.tp - 1
        moved = module_collectives(
            sequence_parallel=self.plan.sequence_parallel, backward=backward, again=again
        )
        each = (
            self.paces.add_up(2 * states * self.bytes.tp, peers) if adds_up else self.gather(states)
            for states, adds_up in moved
        )
        return self.model.mtp_layers * sum(each)
