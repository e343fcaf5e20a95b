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

from lightloom.demand.folding import FoldingSource, RankSums
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
from lightloom.practice import Recompute, Sharded
from lightloom.study.compare.estimate_layers import (
    COMPUTE,
    CP,
    DP,
    EP,
    EXPERTS,
    TP,
    EstimatedJob,
    LayerEstimates,
)
from lightloom.study.compare.estimate_network import (
    GroupLayout,
    GroupLoads,
    NetworkPaces,
    ServerSpan,
)
from lightloom.study.compare.scenario import Scenario
from lightloom.workload.collectives import shares_embedding
from lightloom.workload.compute import ComputeModel
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.sizes import Times, times
from lightloom.workload.tokens import (
    demand_shape,
    fold_group,
    fold_summed,
    moe_layers,
)

Floats = npt.NDArray[np.float64]
Made = TypeVar("Made")

#: tokens of a rank that a demand is drawn for: the loads of more, and of as few as half of them,
#: are taken to be alike
DRAWN_TOKENS = tuple(4**power for power in range(10, 4, -1))
#: EP ranks up to which all layers are drawn; of more, fewer, but so many
DRAWN_RANKS, MIN_DRAWN_LAYERS = 64, 8


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
        drawn: dict[Hashable, RankSums] | None = None,
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
        job = EstimatedJob(plan, self.layout(plan), self._compute[recompute], sharded)
        passes = self.once(("passes", job.layer_key), lambda: self._passes(job))
        return _Step(self, job, passes).estimate()

    def layout(self, plan: Plan) -> GroupLayout:
        """Where the groups of a plan are; see :meth:`of` for errors."""
        sizes = (plan.gpus, plan.tp, plan.pp, plan.dp, plan.ep, plan.etp, plan.cp)
        key = ("layout", sizes, plan.expert_mode, plan.order, plan.copies)
        return self.once(key, lambda: GroupLayout.of(plan, self._gpus_per_server))

    def times(self, job: EstimatedJob) -> tuple[Times, Times]:
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

    def _loads(self, job: EstimatedJob) -> GroupLoads | None:
        """What the demand of an EP group is for each token of a rank."""
        plan, layout = job.plan, job.layout
        if not self.model.num_moe_layers:
            return None
        tokens = plan.tokens_per_ep_rank
        if kind_of(self._scenario.demand.name) == "regime":
            tokens = next((drawn for drawn in DRAWN_TOKENS if 2 * tokens >= drawn), tokens)
        key = ("loads", plan.ep, layout.members, tokens)
        return self.once(key, lambda: self._drawn(plan, layout.members, tokens))

    def uneven(self, job: EstimatedJob) -> Floats:
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
        folded = fold_summed(model, source, self._sums[key], self.options, members)
        loads = GroupLoads.of(folded, tokens, once=self.options.deduplicate)
        by_layer = np.ones(model.num_moe_layers)
        by_layer[layers] = loads.by_layer
        return dataclasses.replace(loads, by_layer=by_layer)

    def _passes(self, job: EstimatedJob) -> _Passes:
        plan, compute, model = job.plan, job.compute, self.model
        layers = LayerEstimates(self, job, self._loads(job))
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


class _Step:
    """From passes of layers to a step."""

    def __init__(self, estimates: StepEstimates, job: EstimatedJob, passes: _Passes) -> None:
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
        forward, backward = self._waits(follows=True)
        #: what passes of stages wait for, forward and backward, ``(pp,)`` each
        self.waits = [self.counts @ each for each in (forward, backward)]
        self._wait_for_tables(forward, backward)
        lone = self.waits
        if self.sharded != "states":
            # where the pipeline fills and empties, nothing is reduced before a pass
            lone = [self.counts @ each for each in self._waits(follows=False)]
            steady, behind = self._steady(), self.waits[0] - lone[0]
            self.waits[0] = lone[0] + steady * behind
            if plan.vpp > 1:
                # elsewhere backward passes of chunks follow each other: all but the first
                first = 1 / (plan.micro_batches * plan.vpp)
                self.waits[1] = self.waits[1] + np.maximum(0.0, 1 - steady - first) * behind
        self.forward = self._by_stage(passes.forward, 0)
        self.backward = self._by_stage(passes.backward, 1)
        self.lone = self.forward + self.backward
        self.lone[:, DP] += sum(lone) - sum(self.waits)

    def _wait_for_tables(self, forward: Floats, backward: Floats) -> None:
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
            hidden = computing[0] if not forward[-1] else 0.0
            self.waits[0][-1] += max(0.0, gathered - hidden)
            hidden = float(self.counts[-1].sum()) * (computing[1] if not backward[-1] else 0.0)
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
        if not plan.overlap_pipeline:
            # a message each way at once in every turn, and two of stages between others
            turn = slowest + min(pp - 1, 2) * send
            return float(alone.sum()) + there_and_back + (count - 1) * turn
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

        The next layer is gathered and the last one reduced while one computes, as far as the plan
        overlaps either; nothing is reduced where no pass ``follows`` another at once, unless that
        is waited for. Rings of a layer go one after another, so that what is gathered when it is
        needed waits for the gradients before it, whether or not these were waited for.
        """
        nothing = np.zeros(len(self.kinds))
        if self.sharded == "states":
            return nothing, nothing
        reduced = self._of_layers(self.options.gradient_bytes, 1)
        awaited = not self.plan.overlap_gradients
        passes = self.passes.forward, self.passes.backward
        forward, backward = (each.sum(axis=1) for each in passes)
        shares = [each[:, EP] / each.sum(axis=1) for each in passes]
        if self.sharded == "gradients":
            if awaited:
                return nothing, reduced
            # forward passes go on while they are reduced
            beside = np.minimum(reduced, backward) * shares[1] * (self.layout.members > 1)
            return nothing, (beside + np.maximum(reduced - backward - forward, 0.0)) * follows
        gathered = self._of_layers(self.options.parameter_bytes, 1)
        # the first layer of a pass has none before it, and the last reduction before it comes first
        alone = 1 / max(1.0, float(self.counts.sum()) / (self.plan.pp * self.plan.vpp))
        before = 0.0 if awaited else alone
        if not self.plan.overlap_parameters:
            return gathered + before * follows * reduced, gathered + (1 - before) * reduced
        hidden = 0.0 * reduced if awaited else follows * reduced
        waits = [
            np.minimum(rings, whole) * share * (self.layout.members > 1)
            + alone * gathered
            + (1 - alone) * np.maximum(rings - whole, 0.0)
            for rings, whole, share in zip(
                (gathered, gathered + hidden), (forward, backward), shares, strict=True
            )
        ]
        return waits[0] + before * follows * reduced, waits[1] + awaited * reduced

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
            exposed += self.paces.all_reduce(
                size, ServerSpan(1, 2) if self.layout.crosses else ServerSpan(2, 1)
            )
        return update, exposed

    def _ring(self, parameters: float, span: ServerSpan, passes: int) -> float:
        if span == ServerSpan(1, 1):
            return 0.0
        if passes == 2:
            return self.paces.all_reduce(parameters, span)
        return self.paces.ring(parameters, span, passes)

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
