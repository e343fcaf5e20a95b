"""A parallelism plan: how the ranks of a job divide a model, a batch and a sequence.

Two ways to place expert parallelism are known. In ``axis`` mode EP is an axis of its own:
``gpus = tp * cp * ep * dp * pp``, and expert tensor parallelism equals ``tp``. In ``folded`` mode
(Megatron-Core since 0.9) the dense and the expert layers divide the same ranks in two ways:
``gpus / pp = tp * cp * dense_dp = etp * ep * dp``.

``dp`` counts replicas of the experts; :attr:`Plan.dense_dp` counts ranks that train the same dense
parameters on different sequences. What is not here: where ranks sit (:mod:`.grid`) and whether
the model fits (:mod:`.memory`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lightloom.errors import PlanError, echo
from lightloom.models.model import Model
from lightloom.parallel.overlap import impossible, impossible_for
from lightloom.practice import AllToAllOverlap, ContextParallel, PipelineSchedule, PlanStrategy
from lightloom.units import show_things

#: Megatron-Core's default order of ranks: the first axis varies fastest
MEGATRON_ORDER = "tp-cp-ep-dp-pp"
AXES = ("tp", "cp", "ep", "dp", "pp")
NUMBERS = (
    *("gpus", *AXES, "etp", "vpp", "micro_batches", "micro_batch_size", "seq_len"),
    "overlap_chunks",
)
#: micro-batches per step and pipeline stage unless given
MICRO_BATCHES_PER_STAGE = 4
DEFAULT_SEQ_LEN = 4096
#: micro-batches of one step: ten times those of the longest public run, and still simulated
MAX_MICRO_BATCHES = 16_384
#: chunks of ``overlap_all_to_all = "chunks"`` unless given
DEFAULT_CHUNKS = 4


@dataclass(frozen=True)
class Plan:
    """How ``gpus`` ranks share the work of one training step.

    Attributes
    ----------
    gpus
        Ranks of the job.
    tp, pp, ep, cp
        Tensor, pipeline, expert and context parallelism.
    dp
        Replicas of the experts. See :attr:`dense_dp` for dense layers.
    etp
        Tensor parallelism of the experts; 0 means ``tp`` in ``axis`` mode and 1 in ``folded``.
    vpp
        Model chunks per pipeline stage (interleaved schedule when above 1).
    micro_batches
        Micro-batches per step and pipeline; 0 means 4 per pipeline stage.
    micro_batch_size
        Sequences per micro-batch of one dense data-parallel rank.
    seq_len
        Tokens per sequence, before context parallelism.
    zero1
        Shard the optimizer states over the dense data-parallel ranks (Megatron's distributed
        optimizer, ZeRO stage 1).
    sequence_parallel
        Shard activations between tensor-parallel regions over the TP ranks.
    pp_layout
        Layers of each virtual stage in the order in which a token passes them: entry
        ``chunk * pp + stage``. Empty means balanced.
    expert_mode
        ``axis`` or ``folded``, see the module's text.
    order
        Rank order, fastest axis first.
    context_parallel
        ``ring`` (keys and values are passed around) or ``ulysses`` (all-to-alls hand each CP rank
        whole sequences of its share of the heads).
    schedule
        ``1f1b`` (interleaved where ``vpp`` is above 1), ``zero-bubble`` (weight gradients fill the
        bubble) or ``dualpipe`` (micro-batches enter at both ends); see :mod:`.pipeline`.
    overlap_all_to_all
        What hides the all-to-alls of experts: ``none``, ``chunks`` (the tokens of a layer go in
        ``overlap_chunks`` chunks, whose experts run while other chunks are sent) or ``batch``
        (forward and backward passes of two micro-batches alternate).
    overlap_chunks
        Chunks; 0 means 4 where tokens go in chunks.
    strategy
        How token copies get to experts that several TP ranks hold together: ``O1`` (each TP rank
        sends its part, the receivers gather), ``baseline`` (each sends everything), ``O2`` to
        ``O4`` (as O1, in chunks whose gathers and copies run beside the next all-to-all), or
        ``auto`` (what the planner finds fastest for each layer); see :mod:`lightloom.planner`.
    strategy_chunks
        Chunks of ``O2`` to ``O4``; 0 means as many as the planner finds fastest.
    overlap_shared_experts
        Run shared experts during dispatch and combine.
    overlap_tp
        Hide TP collectives behind the matrix products next to them, all but a 1/tp of each.
    communication_sms
        Streaming multiprocessors of a GPU that kernels of communication occupy while computation
        overlaps them.
    overlap_gradients
        Reduce the gradients of a layer as soon as its last micro-batch is through the backward
        pass; if false, all reductions start after the last backward pass.
    overlap_parameters
        With ZeRO-1, gather parameters while the next step's forward passes run; if false, the
        step ends when all are gathered.
    overlap_pipeline
        Go on while messages to other pipeline stages are on their way; if false, 1F1B waits until
        they have arrived (a rendezvous), and sends and receives together where passes turn.
    origin
        Who says the plan: a user, the model's publication or a search.
    provenance
        Where the plan comes from, in words.

    Raises
    ------
    PlanError
        If a degree is not a positive whole number or the degrees do not multiply to ``gpus``.
    """

    gpus: int
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    etp: int = 0
    cp: int = 1
    vpp: int = 1
    micro_batches: int = 0
    micro_batch_size: int = 1
    seq_len: int = DEFAULT_SEQ_LEN
    zero1: bool = False
    sequence_parallel: bool = True
    pp_layout: tuple[int, ...] = ()
    expert_mode: Literal["axis", "folded"] = "axis"
    order: str = MEGATRON_ORDER
    context_parallel: ContextParallel = "ring"
    schedule: PipelineSchedule = "1f1b"
    overlap_all_to_all: AllToAllOverlap = "none"
    overlap_chunks: int = 0
    strategy: PlanStrategy = "O1"
    strategy_chunks: int = 0
    overlap_shared_experts: bool = False
    overlap_tp: bool = False
    communication_sms: int = 0
    overlap_gradients: bool = True
    overlap_parameters: bool = False
    overlap_pipeline: bool = True
    origin: Literal["given", "published", "searched"] = field(default="given", compare=False)
    provenance: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        """Fill defaults that depend on other fields, then refuse what cannot be."""
        for name in ("etp", "micro_batches", "overlap_chunks"):
            if getattr(self, name) == 0 and isinstance(self.pp, int):
                object.__setattr__(self, name, self._default(name))
        object.__setattr__(self, "pp_layout", tuple(self.pp_layout))
        check_numbers(vars(self))
        self._check_order()
        self._check_product()
        self._check_pipeline()
        for _, reason in impossible(vars(self)):
            raise PlanError(reason)

    def _default(self, name: str) -> int:
        if name == "micro_batches":
            return MICRO_BATCHES_PER_STAGE * self.pp
        if name == "overlap_chunks":
            return DEFAULT_CHUNKS if self.overlap_all_to_all == "chunks" else 1
        return self.tp if self.expert_mode == "axis" else 1

    @property
    def dense_dp(self) -> int:
        """Ranks that hold the same dense parameters and read different sequences."""
        if self.expert_mode == "axis":
            return self.dp * self.ep
        return self.gpus // (self.pp * self.tp * self.cp)

    @property
    def groups_per_stage(self) -> int:
        """EP groups per pipeline stage: expert replicas, times CP ranks in ``axis`` mode."""
        return self.gpus // (self.pp * self.etp * self.ep)

    @property
    def virtual_stages(self) -> int:
        """Pipeline stages times chunks."""
        return self.pp * self.vpp

    @property
    def copies(self) -> int:
        """Stages that hold each layer, and whose parameters each GPU holds: 2 with DualPipe."""
        return 2 if self.schedule == "dualpipe" else 1

    def held_stages(self, stage: int) -> tuple[int, ...]:
        """Stages of the model whose layers the GPUs at a place of the pipeline hold.

        With DualPipe those of both directions: the place's own, and that of the opposite place.
        """
        return (stage,) if self.copies == 1 else (stage, self.pp - 1 - stage)

    def held_chunks(self, num_layers: int, stage: int) -> tuple[tuple[int, ...], ...]:
        """Layers, by chunk, that the GPUs at a place of the pipeline hold.

        Raises
        ------
        PlanError
            See :meth:`layers`.
        """
        by_stage = self.layers(num_layers)
        return tuple(chunk for index in self.held_stages(stage) for chunk in by_stage[index])

    @property
    def sequences_per_step(self) -> int:
        """Global batch size: sequences that one step trains on."""
        return self.dense_dp * self.micro_batches * self.micro_batch_size

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one step trains on."""
        return self.sequences_per_step * self.seq_len

    @property
    def tokens_per_ep_rank(self) -> int:
        """Tokens of one micro-batch that one EP rank (``etp`` GPUs) dispatches, before top-k.

        Every GPU holds ``micro_batch_size * seq_len / (tp * cp)`` tokens of its own, since TP
        rank t sends its 1/TP share to TP rank t; an EP rank is ``etp`` such GPUs.
        """
        return self.micro_batch_size * self.seq_len * self.etp // (self.tp * self.cp)

    def layers(self, num_layers: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Layers by ``[stage][chunk]``, in ascending order.

        Raises
        ------
        PlanError
            If the layout does not add up to ``num_layers``, or there are fewer layers than
            virtual stages.
        """
        counts = self.pp_layout or balanced_layout(num_layers, self.virtual_stages)
        if sum(counts) != num_layers:
            raise PlanError(
                f"pp-layout {','.join(map(str, counts))} has {sum(counts)} layers, the model has "
                f"{num_layers}; change the layout, or leave it out for a balanced one"
            )
        starts = [sum(counts[:index]) for index in range(len(counts))]
        chunks = [tuple(range(s, s + n)) for s, n in zip(starts, counts, strict=True)]
        return tuple(
            tuple(chunks[chunk * self.pp + stage] for chunk in range(self.vpp))
            for stage in range(self.pp)
        )

    def describe(self, *, gpus: bool = True) -> str:
        """One line: GPUs, every degree, both kinds of data parallelism, the batch."""
        parts = [*([f"{self.gpus} GPUs:"] if gpus else []), f"TP{self.tp}"]
        if self.cp > 1:
            parts.append(f"CP{self.cp}")
        parts += [f"EP{self.ep}", f"PP{self.pp}"]
        if self.etp != self.tp:
            parts.append(f"expert-TP{self.etp}")
        if self.vpp > 1:
            parts.append(f"{self.vpp} chunks/stage")
        if self.schedule != "1f1b":
            parts.append(self.schedule)
        zero = ", ZeRO-1" if self.zero1 else ""
        return (
            " ".join(parts) + f" DP{self.dp} (dense DP {self.dense_dp}{zero}), "
            f"{show_things(self.micro_batches, 'micro-batch')} x {self.micro_batch_size} x "
            f"{self.seq_len} tokens"
        )

    def _check_order(self) -> None:
        if self.expert_mode not in ("axis", "folded"):
            raise PlanError(f"expert mode {echo(self.expert_mode)}: expected 'axis' or 'folded'")
        if sorted(self.order.split("-")) != sorted(AXES):
            raise PlanError(
                f"rank order {echo(self.order)}: expected each of tp, cp, ep, dp, pp once, such as "
                f"'{MEGATRON_ORDER}'"
            )

    def _check_product(self) -> None:
        if self.expert_mode == "axis":
            if self.etp != self.tp:
                raise PlanError(
                    f"etp = {self.etp} with tp = {self.tp}: they are equal when EP is an axis of "
                    "its own; use expert mode 'folded' for another expert-TP"
                )
            factors = {"tp": self.tp, "cp": self.cp, "ep": self.ep, "dp": self.dp, "pp": self.pp}
        else:
            factors = {"etp": self.etp, "ep": self.ep, "dp": self.dp, "pp": self.pp}
        product = 1
        for degree in factors.values():
            product *= degree
        if product != self.gpus:
            raise PlanError(
                f"{' x '.join(factors)} = {' x '.join(map(str, factors.values()))} = {product}, "
                f"but there are {self.gpus} GPUs; {_advice(self, product)}"
            )
        dense = self.pp * self.tp * self.cp
        if self.gpus % dense:
            raise PlanError(
                f"{self.gpus} GPUs / pp = {self.gpus // self.pp} is not divisible by tp x cp = "
                f"{self.tp} x {self.cp}; lower tp or cp, or raise dp"
            )

    def _check_pipeline(self) -> None:
        if self.vpp > 1 and self.pp == 1:
            raise PlanError(f"vpp = {self.vpp} with pp = 1: chunks interleave stages; set vpp to 1")
        if self.vpp > 1 and self.micro_batches % self.pp:
            raise PlanError(
                f"{self.micro_batches} micro-batches are not divisible by pp = {self.pp}, which "
                "the interleaved schedule needs; change micro-batches, or set vpp to 1"
            )
        if self.pp_layout and len(self.pp_layout) != self.virtual_stages:
            raise PlanError(
                f"pp-layout has {len(self.pp_layout)} entries, expected pp x vpp = {self.pp} x "
                f"{self.vpp} = {self.virtual_stages}"
            )
        if any(not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in self.pp_layout):
            raise PlanError(f"pp-layout {self.pp_layout}: expected layer counts of at least 0")
        share = self.tp * self.cp
        if self.micro_batch_size * self.seq_len % share:
            raise PlanError(
                f"micro-batch size x seq-len = {self.micro_batch_size} x {self.seq_len} tokens "
                f"are not divisible by tp x cp = {self.tp} x {self.cp}; change seq-len"
            )


def check_numbers(values: Mapping[str, Any]) -> None:
    """Refuse degrees and sizes that are not positive whole numbers, and steps without end.

    Raises
    ------
    PlanError
        Naming the first that is wrong.
    """
    for name in NUMBERS:
        value = values.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            flag = name.replace("_", "-")
            raise PlanError(f"{flag} = {echo(value)}: expected a whole number of at least 1")
    if values.get("micro_batches", 1) > MAX_MICRO_BATCHES:
        raise PlanError(
            f"micro-batches = {echo(values['micro_batches'])}: expected at most"
            f" {MAX_MICRO_BATCHES:,}, since each is simulated; larger micro-batches need fewer"
        )


#: what a refusal of axes that need more GPUs ends with
_FOLDING = ", or let experts share the GPUs of TP and CP: --ep-mode folded --etp 1"


def folds(values: Mapping[str, Any]) -> bool:
    """Whether TP x CP and EP, with ETP 1, divide the GPUs of a stage, as folded ranks do."""
    gpus, pp, tp, cp, ep = (int(values.get(name, 1)) for name in ("gpus", "pp", "tp", "cp", "ep"))
    stage, dense = gpus // pp, tp * cp
    return gpus % pp == 0 and min(dense, ep) > 1 and stage % dense == 0 and stage % ep == 0


def _advice(plan: Plan, product: int) -> str:
    gpus, without_dp = plan.gpus, product // plan.dp
    if gpus % without_dp == 0:
        return f"set dp to {gpus // without_dp}"
    shared = plan.expert_mode == "axis" and folds(vars(plan))
    return (
        f"gpus must be a multiple of {without_dp}; use {-(-gpus // without_dp) * without_dp} GPUs "
        "or change a degree" + (_FOLDING if shared else "")
    )


def usual_length(model: Model) -> int:
    """Tokens per sequence unless given or published: no more than the model has positions."""
    positions = model.learned_positions or model.max_positions or DEFAULT_SEQ_LEN
    return min(DEFAULT_SEQ_LEN, positions)


def balanced_layout(num_layers: int, virtual_stages: int) -> tuple[int, ...]:
    """Spread layers over virtual stages so that counts differ by at most one.

    The shorter stages are the last, then the first, and so on inwards: these also hold the output
    projection and the embedding. 94 over 4 is 23, 24, 24, 23. Where each of these two stands for a
    layer, as with Megatron-LM's ``--account-for-loss-in-pipeline-split`` and
    ``--account-for-embedding-in-pipeline-split``, so may it be alone: 94 over 96 is 0, 1, ..., 0.

    Raises
    ------
    PlanError
        If stages would have neither a layer nor one of these.
    """
    if num_layers + 2 < virtual_stages:
        raise PlanError(
            f"{num_layers} layers over pp x vpp = {virtual_stages} stages leaves stages empty, "
            "even if the embedding and the loss have one each; lower pp or vpp, or give the "
            "layers of each stage with --pp-layout, 0 for none"
        )
    short = -num_layers % virtual_stages
    counts = [-(-num_layers // virtual_stages)] * virtual_stages
    for turn in range(short):
        counts[-1 - turn // 2 if turn % 2 == 0 else turn // 2] -= 1
    return tuple(counts)


def check_model(plan: Plan, model: Model) -> None:
    """Refuse a plan that cannot divide the model.

    Raises
    ------
    PlanError
        Naming the divisibility that fails: heads by tp, experts by ep, widths by tp or etp,
        experts against ep, layers against pp x vpp, sequences against learned positions.
    """
    if 0 < model.learned_positions < plan.seq_len:
        raise PlanError(
            f"seq-len = {plan.seq_len}: {model.name} has a learned vector for each of "
            f"{model.learned_positions} positions; use at most seq-len = {model.learned_positions}"
        )
    for attention in model.attentions:
        heads, kv_heads = attention.num_heads, attention.num_kv_heads
        if attention.kind == "none":
            continue
        _divides(heads, plan.tp, f"{model.name}: {heads} attention heads", "tp")
        if attention.kind != "mla" and kv_heads % plan.tp and plan.tp % kv_heads:
            raise PlanError(
                f"{model.name}: {kv_heads} key-value heads and tp = {plan.tp}: one must divide the "
                "other; change tp"
            )
    if model.num_moe_layers:
        experts = f"{model.name}: {model.num_experts} experts"
        _divides(model.num_experts, plan.ep, experts, "ep")
        width = model.expert_ffn_size
        _divides(width, plan.etp, f"{model.name}: expert width {width}", "etp")
    elif plan.ep > 1 or plan.etp != plan.tp:
        raise PlanError(f"{model.name} has no experts, but ep = {plan.ep}; set ep to 1")
    for width in model.ffn_widths:
        _divides(width, plan.tp, f"{model.name}: width {width}", "tp")
    shared = model.shared_expert_ffn_size
    if shared:
        _divides(shared, plan.tp, f"{model.name}: shared-expert width {shared}", "tp")
    plan.layers(model.num_layers)
    for _, reason in impossible_for(model, vars(plan)):
        raise PlanError(reason)


def _divides(value: int, degree: int, what: str, flag: str) -> None:
    if value % degree:
        fits = max(d for d in range(1, degree) if value % d == 0)
        raise PlanError(f"{what} are not divisible by {flag} = {degree}; use {flag} = {fits}")
