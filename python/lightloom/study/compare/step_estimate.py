"""The step of a plan in closed form, for a search that looks at thousands of plans.

Compute times, bytes and paces are those that a simulation has; what follows from them is estimated:

- a layer is its computation, its TP and CP collectives and its all-to-alls, one after another but
  for what the plan overlaps. Its experts take as long as those of the busiest rank, its all-to-alls
  as long as the busiest NIC: both are means over a few layers of the scenario's demand;
- micro-batches follow each other at the pace of the slowest stage, or as fast as one comes back
  from the last stage, divided by how many are in flight; the first of them fills the pipeline;
- gradients are reduced during the last backward pass and parameters gathered during the first
  forward pass, where they share NICs with all-to-alls; what is left is exposed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from lightloom.demand.folding import FoldingSource
from lightloom.demand.open import kind_of, open_demand
from lightloom.demand.source import PerTokenSource
from lightloom.fabric import Cluster
from lightloom.models import Model
from lightloom.parallel import Plan
from lightloom.parallel.memory import (
    embedding_per_gpu,
    layer_parameters,
    layers_by_kind,
    output_per_gpu,
    parameters_by_stage,
)
from lightloom.parallel.overlap import CHUNKED, MAX_CHUNKS
from lightloom.planner.pipeline import best_equal_chunks
from lightloom.practice import Recompute, Sharded
from lightloom.study.compare.estimate_network import (
    GroupLayout,
    GroupLoads,
    NetworkPaces,
    ServerSpan,
)
from lightloom.study.compare.scenario import Scenario
from lightloom.units import PS_PER_S
from lightloom.workload.collectives import shares_embedding
from lightloom.workload.compute import ComputeModel
from lightloom.workload.expert_passes import expert_seconds
from lightloom.workload.expert_tables import taken_share
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.sizes import Sizes, Times, sizes, times
from lightloom.workload.tokens import (
    demand_shape,
    fold_group,
    fold_summed,
    gathers_results,
    moe_layers,
)
from lightloom.workload.weight_gradients import expert_weight_seconds, weight_times

Floats = npt.NDArray[np.float64]
Made = TypeVar("Made")

#: tokens of a rank that a demand is drawn for: the loads of more, and of as few as half of them,
#: are taken to be alike
DRAWN_TOKENS = tuple(4**power for power in range(10, 4, -1))
#: EP ranks up to which all layers are drawn; of more, fewer, but so many
DRAWN_RANKS, MIN_DRAWN_LAYERS = 64, 8
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


class _Rings(NamedTuple):
    """Seconds of the rings of each stage, and of the layer whose rings nothing hides."""

    stages: Floats
    first: float


@dataclass(frozen=True)
class StepEstimate:
    """Seconds of a step: computation of the slowest stage, exposed communication, and the rest.

    ``bubble_s`` is what that stage waits for others.
    """

    compute_s: float
    tp_s: float
    ep_s: float
    cp_s: float
    pp_s: float
    dp_s: float
    bubble_s: float

    @property
    def step_time_s(self) -> float:
        """The step."""
        return float(sum(vars(self).values()))

    @property
    def exposed_s(self) -> float:
        """Communication that nothing hides."""
        return self.tp_s + self.ep_s + self.cp_s + self.pp_s + self.dp_s


@dataclass(frozen=True)
class _Job:
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


@dataclass(frozen=True)
class _Passes:
    """Seconds of one micro-batch, ``(6,)`` for a table and ``(kinds, 6)`` for layers.

    ``together`` are forward and backward passes of two micro-batches that alternate; ``weights``
    what of backward passes is gradients of weights.
    """

    forward: Floats
    backward: Floats
    together: Floats
    weights: Floats
    embedding: tuple[Floats, Floats]
    head: tuple[Floats, Floats]
    send_bytes: float


class StepEstimates:
    """Steps of the plans of one scenario, by :meth:`of`.

    Parameters
    ----------
    scenario, model, options
        What is trained, with what demand, and how much is moved.
    cluster
        The machines.
    compute
        Times of operators for each recomputation.
    drawn
        Demands that are known, which estimates of other ways to send them may share.
    """

    def __init__(
        self,
        scenario: Scenario,
        model: Model,
        options: WorkloadOptions,
        cluster: Cluster,
        compute: Mapping[Recompute, ComputeModel],
        drawn: dict[Hashable, Any] | None = None,
    ) -> None:
        self.model, self.options = model, options
        self.paces = NetworkPaces(cluster)
        self._scenario, self._compute = scenario, compute
        self._gpus_per_server = cluster.gpus_per_server
        self._known: dict[Hashable, Any] = {}
        self._sums = {} if drawn is None else drawn

    def of(self, plan: Plan, recompute: Recompute, sharded: Sharded | None = None) -> StepEstimate:
        """The step of a plan, whose ranks share out what the scenario says unless given.

        Raises
        ------
        PlanError
            If its groups do not align with servers.
        DemandError
            If the demand is of a file, and for another plan.
        """
        sharded = (sharded or self.options.sharded) if plan.zero1 else "states"
        job = _Job(plan, self.layout(plan), self._compute[recompute], sharded)
        passes = self.once(("passes", job.layer_key), lambda: self._passes(job))
        return _Step(self, job, passes).estimate()

    def layout(self, plan: Plan) -> GroupLayout:
        """Where the groups of a plan are; see :meth:`of` for errors."""
        sizes = (plan.gpus, plan.tp, plan.pp, plan.dp, plan.ep, plan.etp, plan.cp)
        key = ("layout", sizes, plan.expert_mode, plan.order, plan.copies)
        return self.once(key, lambda: GroupLayout.of(plan, self._gpus_per_server))

    def times(self, job: _Job) -> tuple[Times, Times]:
        """Computation of one micro-batch but for routed experts, forward and backward."""
        plan, compute = job.plan, job.compute
        shape = (plan.tp, plan.cp, plan.micro_batch_size, plan.seq_len, plan.sequence_parallel)

        def both() -> tuple[Times, Times]:
            forward = times(self.model, plan, compute, 1.0, backward=False)
            return forward, times(self.model, plan, compute, 1.0, backward=True)

        return self.once(("times", shape, compute.recompute), both)

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What was made for a key, or is now."""
        if key not in self._known:
            self._known[key] = make()
        made: Made = self._known[key]
        return made

    def _loads(self, job: _Job) -> GroupLoads | None:
        """What the demand of an EP group is for each token of a rank."""
        plan, layout = job.plan, job.layout
        if not self.model.num_moe_layers:
            return None
        tokens = plan.tokens_per_ep_rank
        if kind_of(self._scenario.demand.name) == "regime":
            tokens = next((drawn for drawn in DRAWN_TOKENS if 2 * tokens >= drawn), tokens)
        key = ("loads", plan.ep, layout.members, tokens)
        return self.once(key, lambda: self._drawn(plan, layout.members, tokens))

    def uneven(self, job: _Job) -> Floats:
        """How much longer the experts of each stage take than those of the mean one, ``(pp,)``."""
        plan, loads = job.plan, self._loads(job)
        if loads is None or plan.pp == 1 or plan.copies > 1:
            return np.ones(plan.pp)
        shape = ("layers", plan.pp, plan.vpp, plan.pp_layout)
        layers = self.once(shape, lambda: moe_layers(self.model, plan))
        means = (loads.by_layer[of_stage].mean() if of_stage else 1.0 for of_stage in layers)
        return np.array(list(means))

    def _drawn(self, plan: Plan, members: int, tokens: int) -> GroupLoads:
        scenario, model, demand = self._scenario, self.model, self._scenario.demand
        shape = dataclasses.replace(demand_shape(model, plan), tokens_per_rank=tokens)
        source = open_demand(
            demand.name,
            shape,
            seed=scenario.seed,
            resample=demand.resample,
            scale=demand.scale,
            capacity_factor=demand.capacity_factor,
        )
        layers = _drawn_layers(model.num_moe_layers, plan.ep)
        index: dict[str, Any] = {"group": 0, "layers": layers, "micro_batches": 1, "step": 0}
        if not isinstance(source, FoldingSource) or isinstance(source, PerTokenSource):
            folded = fold_group(model, source, index, self.options, (members, True))
            return GroupLoads.of(folded, tokens, once=self.options.deduplicate)
        key = (plan.ep, tokens)
        if key not in self._sums:
            self._sums[key] = source.summed(**index)
        folded = fold_summed(model, source, self._sums[key], self.options, (members, True))
        found = GroupLoads.of(folded, tokens, once=self.options.deduplicate)
        by_layer = np.ones(model.num_moe_layers)
        by_layer[layers] = found.by_layer
        return dataclasses.replace(found, by_layer=by_layer)

    def _passes(self, job: _Job) -> _Passes:
        plan, compute, model = job.plan, job.compute, self.model
        layers = _Layers(self, job, self._loads(job))
        kinds, _ = layers_by_kind(model, plan)
        forward = np.array([layers.alone(kind, None) for kind in kinds])
        backward = np.array([layers.alone(kind, "whole") for kind in kinds])
        if compute.recompute == "full":
            backward += forward
        together = forward + backward
        if plan.overlap_all_to_all == "batch":
            together = np.array([layers.together(kind) for kind in kinds])
            together += forward if compute.recompute == "full" else 0.0
        weights = np.zeros_like(forward)
        if plan.schedule != "1f1b":
            weights[:, COMPUTE] = [layers.weights(kind) for kind in kinds]
        return _Passes(forward, backward, together, weights, *layers.tables(), layers.bytes.send)


def _drawn_layers(layers: int, ep: int) -> list[int]:
    """Layers that a demand is drawn for: of large groups, whose ranks are many, not all."""
    count = min(layers, max(MIN_DRAWN_LAYERS, layers * DRAWN_RANKS**2 // ep**2))
    return sorted({number * layers // count for number in range(count)})


class _Layers:
    """Passes of one micro-batch through layers, as :mod:`lightloom.workload.layers` writes them."""

    def __init__(self, estimates: StepEstimates, job: _Job, loads: GroupLoads | None) -> None:
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
            parts[TP] = (parallel + again) * self.gather() + self.gather(1 if parallel else 2)
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
            return self.paces.ring(of.key_value, span, 2 if backward else 1)
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
        leave = self.gather(1.0 if parallel else 2.0)

        def parts(ps: int, tp: float) -> Floats:
            return np.array([ps / PS_PER_S, tp if plan.tp > 1 else 0.0, 0.0, 0.0, 0.0, 0.0])

        return (
            (parts(self.forward.embedding, leave), parts(self.backward.embedding, enter)),
            (parts(self.forward.head, enter), parts(self.backward.head, enter + leave)),
        )


class _Step:
    """From passes of layers to a step."""

    def __init__(self, estimates: StepEstimates, job: _Job, passes: _Passes) -> None:
        self.model, self.plan, self.layout = estimates.model, job.plan, job.layout
        self.paces, self.options = estimates.paces, estimates.options
        self.compute, self.passes = job.compute, passes
        kinds, chunks = layers_by_kind(self.model, self.plan)
        self.kinds, self.counts = kinds, chunks.sum(axis=1)
        self.uneven = estimates.uneven(job)
        self.sharded = job.sharded
        plan = job.plan
        self._once, self._degrees = estimates.once, (plan.tp, plan.ep, plan.etp, plan.cp)
        spans = self.layout.spans
        self._places = (spans["dense-gradient"], spans["expert-dp"])
        self._stages = (plan.pp, plan.vpp, plan.pp_layout)
        waits = self._waits(follows=True)
        #: what passes of stages wait for, forward and backward, ``(pp,)`` each
        self.waits = [self.counts @ each for each in waits]
        self._wait_for_tables(waits)
        lone = self.waits
        if self.sharded != "states":
            # where the pipeline fills and empties, nothing is reduced before a pass
            lone = [self.counts @ each for each in self._waits(follows=False)]
            self.waits[0] = lone[0] + self._steady() * (self.waits[0] - lone[0])
        self.forward = self._by_stage(passes.forward, 0)
        self.backward = self._by_stage(passes.backward, 1)
        self.lone = self.forward + self.backward
        self.lone[:, DP] += sum(lone) - sum(self.waits)

    def _wait_for_tables(self, waits: tuple[Floats, Floats]) -> None:
        """Add what embedding and output projection are waited for with ZeRO-3.

        A pass begins with one of them, and nothing hides it; the other may be gathered, or
        reduced, while a layer computes that waits for nothing.
        """
        if self.sharded != "parameters":
            return
        span, of = self.layout.spans["dense-gradient"], (self.model, self.plan)
        passes = self.passes.forward, self.passes.backward
        computing = [float(each[-1].sum()) for each in passes]
        for stage, table in ((0, embedding_per_gpu), (-1, output_per_gpu)):
            size = table(*of)
            gathered = self._ring(size * self.options.parameter_bytes, span, 1)
            reduced = self._ring(size * self.options.gradient_bytes, span, 1)
            if stage == 0:
                self.waits[0][0] += gathered
                self.waits[1][0] += reduced
                continue
            hidden = computing[0] if not waits[0][-1] else 0.0
            self.waits[0][-1] += max(0.0, gathered - hidden)
            hidden = float(self.counts[-1].sum()) * (computing[1] if not waits[1][-1] else 0.0)
            self.waits[1][-1] += gathered + max(0.0, reduced - hidden)

    def _steady(self) -> Floats:
        """Share of the forward passes of each stage that follow a backward pass, ``(pp,)``."""
        plan = self.plan
        after = np.arange(plan.pp - 1, -1, -1)
        warm_up = after if plan.vpp == 1 else 2 * after + (plan.vpp - 1) * plan.pp
        return np.maximum(0.0, 1 - warm_up / (plan.micro_batches * plan.vpp))

    def _by_stage(self, layers: Floats, direction: int | None) -> Floats:
        """Seconds of the passes of one micro-batch through each stage, ``(pp, 6)``."""
        stages: Floats = self.counts @ layers
        stages[:, (EXPERTS, EP)] *= self.uneven[:, np.newaxis]
        for which in (0, 1) if direction is None else (direction,):
            stages[:, DP] += self.waits[which]
            stages[0] += self.passes.embedding[which]
            stages[-1] += self.passes.head[which]
        return stages

    def estimate(self) -> StepEstimate:
        """The step."""
        plan = self.plan
        both = self.forward + self.backward
        if plan.overlap_all_to_all == "batch":
            both = self._by_stage(self.passes.together, None)
        if plan.copies > 1:
            both = (both + both[::-1]) / 2
        totals = both.sum(axis=1)
        slowest = int(totals.argmax())
        send = 0.0
        if plan.pp > 1:
            send = self.paces.send(self.passes.send_bytes, crosses=self.layout.crosses)
        pipeline, without = self._pipeline(totals, send), self._pipeline(totals, 0.0)
        update, exposed = self._states()
        busy = plan.micro_batches * both[slowest]
        return StepEstimate(
            compute_s=float(busy[COMPUTE] + busy[EXPERTS]) + update,
            tp_s=float(busy[TP]),
            ep_s=float(busy[EP]),
            cp_s=float(busy[CP]),
            pp_s=pipeline - without,
            dp_s=float(busy[DP]) + exposed,
            bubble_s=without - float(busy.sum()),
        )

    def _pipeline(self, both: Floats, send: float) -> float:
        """From the first forward to the last backward pass, if a micro-batch is sent in ``send``.

        ``both`` are seconds of a micro-batch on each stage when the pipeline is full.
        """
        plan = self.plan
        pp, vpp, count = plan.pp, plan.vpp, plan.micro_batches
        forward, backward = self.forward.sum(axis=1), self.backward.sum(axis=1)
        slowest = float(both.max())
        there_and_back = 2 * (pp - 1) * send
        if pp == 1 and plan.overlap_all_to_all != "batch":
            return count * slowest
        if plan.schedule == "zero-bubble":
            weights = (self.counts @ self.passes.weights).sum(axis=1)
            idle = (pp - 1) * float((both - 2 * weights).mean())
            # few micro-batches have too few weight gradients to fill the bubble with
            inputs = both - weights
            few = float(inputs.sum() + (count - 1) * inputs.max() + weights[0])
            return max(count * slowest + idle, few) + there_and_back
        if plan.schedule == "dualpipe":
            weights = (self.counts @ self.passes.weights).sum(axis=1)
            waited = forward + backward - 2 * weights
            if plan.overlap_all_to_all == "batch":
                waited = both + backward - 3 * weights
            idle = (pp / 2 - 1) * float(waited.mean())
            apart = pp * float((forward + backward - both).mean())
            return count * slowest + idle + apart + there_and_back
        if plan.overlap_all_to_all == "batch":
            warm_up = 2 * (pp - 1) + (vpp - 1) * pp + 1
            apart = warm_up / vpp * float((forward + backward - both).mean())
            idle = float(backward.sum() - backward.max()) / vpp
            return count * slowest + apart + idle + there_and_back
        alone = self.lone.sum(axis=1)
        if vpp > 1:
            others = float(alone.sum() - alone.max()) / vpp
            return count * slowest + others + there_and_back + 2 * (vpp - 1) * pp * send
        # a micro-batch comes back after all stages below, with as many as these in flight; the
        # last ones fill the pipeline without waiting for that
        in_flight = np.arange(pp, 0, -1)
        back = alone[::-1].cumsum()[::-1] + 2 * send * (in_flight - 1)
        waiting = np.maximum(count - in_flight, 0) * np.maximum(back / in_flight - slowest, 0.0)
        late = float(waiting.max())
        return float(alone.sum()) + there_and_back + (count - 1) * slowest + late

    # States

    def _waits(self, *, follows: bool) -> tuple[Floats, Floats]:
        """What a forward and a backward pass of each kind of layers wait for with ZeRO-2 and 3.

        The next layer is gathered and the last one reduced while one computes; nothing is reduced
        where no pass ``follows`` another at once.
        """
        nothing = np.zeros(len(self.kinds))
        if self.sharded == "states":
            return nothing, nothing
        reduced = self._of_layers(self.options.gradient_bytes, 1) * follows
        gathered = nothing
        if self.sharded == "parameters":
            gathered = self._of_layers(self.options.parameter_bytes, 1)
        passes = self.passes.forward, self.passes.backward
        forward, backward = (each.sum(axis=1) for each in passes)
        if not self.plan.overlap_parameters:
            return gathered, gathered + np.maximum(reduced - backward - forward, 0.0)
        shares = [each[:, EP] / each.sum(axis=1) for each in passes]
        collides = self.layout.members > 1
        waits = [
            np.minimum(rings, whole) * share * collides
            for rings, whole, share in zip(
                (gathered, gathered + reduced), (forward, backward), shares, strict=True
            )
        ]
        if self.sharded == "gradients":
            # forward passes go on while they are reduced
            waits[1] += np.maximum(reduced - backward - forward, 0.0)
            return waits[0], waits[1]
        # the first layer of a pass has none before it, and the last reduction before it comes first
        alone = 1 / max(1.0, float(self.counts.sum()) / (self.plan.pp * self.plan.vpp))
        late = (gathered - forward, gathered + reduced - backward)
        waits = [
            each + alone * gathered + (1 - alone) * np.maximum(more, 0.0)
            for each, more in zip(waits, late, strict=True)
        ]
        return waits[0] + alone * reduced, waits[1]

    def _states(self) -> tuple[float, float]:
        """Seconds of the optimizer, and of gradients and parameters that nothing hides."""
        plan = self.plan
        key = ("parameters", self._degrees, self._stages)
        parameters = self._once(key, lambda: parameters_by_stage(self.model, plan))
        dense, expert = (
            by_stage + by_stage[::-1] if plan.copies > 1 else by_stage for by_stage in parameters
        )
        if plan.zero1:
            dense = dense / (plan.copies * plan.dense_dp * plan.cp)
            expert = expert / (plan.copies * plan.groups_per_stage)
        update = self.compute.optimizer(float((dense + expert).max()))
        # later stages begin later, and end earlier
        after = self.forward.sum(axis=1) / plan.vpp
        before = self.backward.sum(axis=1) / plan.vpp
        began, ended = (np.cumsum(each) - each for each in (after, before))
        reduced = self._rings(self.options.gradient_bytes, 1 if plan.zero1 else 2)
        if self.sharded == "states":
            exposed = self._exposed(reduced, before if plan.overlap_gradients else None, ended)
        else:
            exposed = reduced[1]
        if plan.zero1 and self.sharded != "parameters":
            gathered = self._rings(self.options.parameter_bytes, 1)
            meanwhile = after if plan.overlap_parameters else None
            exposed += self._exposed(gathered, meanwhile, began)
        if shares_embedding(self.model, plan):
            size = embedding_per_gpu(self.model, plan) * self.options.gradient_bytes
            exposed += self.paces.ring(
                size, ServerSpan(1, 2) if self.layout.crosses else ServerSpan(2, 1), 2
            )
        return update, exposed

    def _ring(self, parameters: float, span: ServerSpan, passes: int) -> float:
        return 0.0 if span == ServerSpan(1, 1) else self.paces.ring(parameters, span, passes)

    def _of_layers(self, element: float, passes: int) -> Floats:
        """Rings of a layer of each kind, dense and expert."""
        key = ("layer rings", element, passes, self._degrees, self._places)
        return self._once(key, lambda: self._made_of_layers(element, passes))

    def _made_of_layers(self, element: float, passes: int) -> Floats:
        spans = self.layout.spans
        parts = (layer_parameters(self.model, self.plan, kind) for kind in self.kinds)
        return np.array(
            [
                self._ring(part.dense * element, spans["dense-gradient"], passes)
                + self._ring(part.expert * element, spans["expert-dp"], passes)
                for part in parts
            ]
        )

    def _rings(self, element: float, passes: int) -> _Rings:
        """Rings of each stage, and the one that begins last or ends first, of a layer."""
        key = ("rings", element, passes, self._degrees, self._places, self._stages)
        return self._once(key, lambda: self._made_rings(element, passes))

    def _made_rings(self, element: float, passes: int) -> _Rings:
        dense = self.layout.spans["dense-gradient"]
        layers = self._of_layers(element, passes)
        stages = self.counts @ layers
        for stage, table in ((0, embedding_per_gpu), (-1, output_per_gpu)):
            stages[stage] += self._ring(table(self.model, self.plan) * element, dense, passes)
        return _Rings(stages, float(layers[0]))

    def _exposed(self, rings: _Rings, passes: Floats | None, slack: Floats) -> float:
        """What rings delay the step by, if they run alongside a pass of each stage.

        They wait for no computation; an all-to-all and a ring slow each other down.
        """
        stages, first = rings
        if passes is None:
            return float(np.maximum(stages - slack, 0.0).max())
        # inside servers, all-to-alls have paths of their own
        both = (self.forward + self.backward)[0]
        share = float(both[EP] / both.sum()) if self.layout.members > 1 else 0.0
        each = stages / self.plan.vpp
        delay = np.minimum(each, passes) * share + np.maximum(each - passes, 0.0)
        return float(np.maximum(delay + first - slack, 0.0).max())
