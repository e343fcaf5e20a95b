"""How token copies get to the experts that several TP ranks hold together, layer by layer.

All TP ranks of a receiver need the copies that it receives, and give parts of their results that
have to be added up. With ``O1`` each TP rank of a sender sends its part of the copies, which the
receivers gather before the experts; what the experts give is scattered, and each rank sends its
part back (Megatron-Core). ``O2`` to ``O4`` do so in chunks (:mod:`.chunked_all_to_all`). With
``baseline``, without sequence parallelism, each TP rank has all tokens of its group and sends all
copies to its like: nothing is gathered before the experts, and what they give is added up on all TP
ranks, which moves as many bytes as a scatter and a gather (MoNTA, arXiv 2411.00662).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lightloom.errors import PlanError
from lightloom.models.model import Model
from lightloom.parallel import Plan
from lightloom.parallel.overlap import CHUNKED
from lightloom.practice import PlanStrategy
from lightloom.workload.builder import TaskGraphBuilder
from lightloom.workload.expert_passes import ExpertPasses
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.tokens import (
    Folded,
    by_worker,
    expert_tp_bytes,
    gathers_copies,
    to_ps_array,
)


@dataclass(frozen=True)
class LayerStrategy:
    """How the all-to-alls of a layer run.

    Attributes
    ----------
    strategy
        Any of the plan's but ``auto``.
    chunks
        Into how many an all-to-all is cut; 1 where the strategy has none.
    chunk_s
        What each chunk takes beside its operations: start-ups of further gathers, or what
        kernels lose that compete.
    """

    strategy: PlanStrategy
    chunks: int = 1
    chunk_s: float = 0.0

    @property
    def is_chunked(self) -> bool:
        """Whether it cuts all-to-alls into chunks."""
        return self.strategy in CHUNKED

    @property
    def copies(self) -> bool:
        """Whether what was gathered is copied to where it belongs."""
        return self.strategy in ("O2", "O3")

    def __str__(self) -> str:
        return f"{self.strategy} in {self.chunks} chunks" if self.is_chunked else self.strategy


#: strategies by layer
LayerStrategies = Mapping[int, LayerStrategy]
#: what finds them once the demand is known
ChooseStrategies = Callable[[Folded], LayerStrategies]


@dataclass(frozen=True)
class SentDemand:
    """The demand of a step, and how the all-to-alls of each layer run; neither without experts."""

    folded: Folded | None = None
    strategies: LayerStrategies = field(default_factory=dict)


def layer_strategies(
    model: Model,
    plan: Plan,
    options: WorkloadOptions,
    folded: Folded,
    choose: ChooseStrategies | None,
) -> LayerStrategies:
    """Return the strategy of every MoE layer, found by ``choose`` where the plan leaves it open.

    Raises
    ------
    PlanError
        If something is left open and there is nothing to choose it by, or nothing is gathered.
    """
    layers = [layer for layer, mixes in enumerate(model.moe_layers) if mixes]
    if plan.strategy != "O1" and not gathers_copies(plan, options):
        raise PlanError(
            f"strategy {plan.strategy} with moe-tp = {options.moe_tp}: no copies are gathered; use "
            "moe-tp = dispatched"
        )
    if plan.strategy in ("O1", "baseline"):
        return dict.fromkeys(layers, LayerStrategy(plan.strategy))
    if choose is not None:
        return choose(folded)
    if not plan.strategy_chunks:
        what = "it is chosen" if plan.strategy == "auto" else "its number of chunks is chosen"
        raise PlanError(
            f"strategy {plan.strategy}: {what} for a cluster; give build one of "
            "planner.layers.choose_strategies, or name O2 to O4 with strategy-chunks"
        )
    return dict.fromkeys(layers, LayerStrategy(plan.strategy, plan.strategy_chunks))


@dataclass(frozen=True)
class PieceTables:
    """Tables of a piece of an all-to-all, by index in the task graph.

    ``busiest`` and ``total`` are the bytes of one gather over expert-TP ranks, of each GPU of the
    busiest rank and of all GPUs of the worker; ``copied`` is the time of a copy of what was
    gathered, ``None`` where none is made.
    """

    busiest: int
    total: int
    copied: int | None = None


def add_pieces(
    graph: TaskGraphBuilder,
    passes: ExpertPasses,
    options: WorkloadOptions,
    demand: SentDemand,
) -> dict[int, list[PieceTables]]:
    """Add the tables of pieces of all-to-alls, which add up to the whole.

    Pieces are the chunks of a strategy in each chunk of the tokens, where the plan has these.

    Returns
    -------
    Tables of each piece, by the number of pieces; empty if nothing is gathered in pieces.
    """
    model, plan, folded = passes.model, passes.plan, demand.folded
    if folded is None or not gathers_copies(plan, options):
        return {}
    pieces: dict[int, bool] = {}
    for chosen in demand.strategies.values():
        count = plan.overlap_chunks * chosen.chunks
        if count > 1 or chosen.is_chunked:
            pieces[count] = pieces.get(count, False) or chosen.copies
    gathered = expert_tp_bytes(model, plan, options, folded)
    copy_bytes = folded.slowest * (model.expert_hidden * options.activation_element_bytes)
    found: dict[int, list[PieceTables]] = {}
    for count, copies in pieces.items():
        rest, later = (
            [
                graph.table(f"expert_tp_{name}_of_{count}_{what}_bytes", by_worker(values))
                for what, values in zip(("per_gpu", "total"), split, strict=True)
            ]
            for name, split in (
                ("first", [bytes_ - (count - 1) * (bytes_ // count) for bytes_ in gathered]),
                ("piece", [bytes_ // count for bytes_ in gathered]),
            )
        )
        copied = None
        if copies:
            seconds = passes.scale * passes.compute.copied(copy_bytes / count)
            copied = graph.table(f"copy_of_{count}_ps", by_worker(to_ps_array(seconds)))
        found[count] = [
            PieceTables(rest[0], rest[1], copied),
            *[PieceTables(later[0], later[1], copied)] * (count - 1),
        ]
    return found
