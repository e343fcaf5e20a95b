"""What a plan hides behind what: the alternatives, and which of them cannot be combined.

Everything here is a choice of the training framework, the same on every fabric. The reasons are
given field by field, so that a published choice that does not suit a scaled plan can be left out
while the choice of a user is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from lightloom.errors import echo, expected_one_of
from lightloom.models.model import Model
from lightloom.practice import AllToAllOverlap, ContextParallel, PipelineSchedule, PlanStrategy

#: strategies that cut an all-to-all into chunks, and the most chunks
CHUNKED, MAX_CHUNKS = ("O2", "O3", "O4"), 64
#: a field of the plan, and why its value is impossible
Reason = tuple[str, str]


def impossible(plan: Mapping[str, Any]) -> Iterator[Reason]:
    """Fields that the rest of a plan rules out, whatever the model, each with one line."""
    for name, words in (
        ("schedule", get_args(PipelineSchedule)),
        ("overlap_all_to_all", get_args(AllToAllOverlap)),
        ("context_parallel", get_args(ContextParallel)),
        ("strategy", get_args(PlanStrategy)),
    ):
        if plan[name] not in words:
            flag = name.replace("_", "-")
            yield name, f"{flag} = {echo(plan[name])}: {expected_one_of(plan[name], words)}"
    sms = plan["communication_sms"]
    if not isinstance(sms, int) or isinstance(sms, bool) or sms < 0:
        yield (
            "communication_sms",
            f"communication-sms = {echo(sms)}: expected a whole number of at least 0",
        )
    if plan["context_parallel"] != "ring" and plan["cp"] == 1:
        yield (
            "context_parallel",
            f"context-parallel {plan['context_parallel']} with cp = 1: sequences are not divided; "
            "raise cp, or leave it out",
        )
    yield from _schedule(plan)
    yield from _all_to_all(plan)
    yield from _strategy(plan)
    if plan["overlap_tp"] and plan["tp"] == 1:
        yield "overlap_tp", "overlap-tp with tp = 1: there are no TP collectives; leave it out"
    if plan["overlap_tp"] and not plan["sequence_parallel"]:
        yield "overlap_tp", "overlap-tp without sequence parallelism: turn that on, or leave it out"
    if plan["overlap_parameters"] and not plan["zero1"]:
        yield (
            "overlap_parameters",
            "overlap-parameters without zero1: no parameters are gathered; set zero1",
        )
    if not plan["overlap_pipeline"]:
        yield from _blocking(plan)
    hides = plan["overlap_all_to_all"] != "none" or plan["overlap_shared_experts"]
    if plan["communication_sms"] and not hides:
        yield (
            "communication_sms",
            f"communication-sms = {sms}: nothing overlaps an all-to-all; set overlap-all-to-all "
            "or overlap-shared-experts",
        )


def _blocking(plan: Mapping[str, Any]) -> Iterator[Reason]:
    """What cannot be where stages wait for their messages."""
    for name, usual in (("schedule", "1f1b"), ("vpp", 1), ("overlap_all_to_all", "not batch")):
        value = plan[name]
        if value == "batch" if name == "overlap_all_to_all" else value != usual:
            yield (
                "overlap_pipeline",
                f"overlap-pipeline off with {name.replace('_', '-')} = {value}: its stages wait "
                "for messages of several passes; turn overlap-pipeline on, or use 1f1b with "
                "vpp = 1",
            )
            return
    if plan["pp"] == 1:
        yield (
            "overlap_pipeline",
            "overlap-pipeline off with pp = 1: there are no pipeline messages; leave it out",
        )


def _schedule(plan: Mapping[str, Any]) -> Iterator[Reason]:
    kind, pp, vpp, count = (plan[name] for name in ("schedule", "pp", "vpp", "micro_batches"))
    if kind == "1f1b":
        return
    if vpp > 1:
        yield "schedule", f"schedule {kind} with vpp = {vpp}: its stages are whole; set vpp to 1"
    if kind == "zero-bubble" and pp == 1:
        yield "schedule", "schedule zero-bubble with pp = 1: there is no bubble; use 1f1b"
    if kind == "dualpipe" and pp % 2:
        yield (
            "schedule",
            f"schedule dualpipe with pp = {pp}: micro-batches from both ends meet in the middle; "
            f"use an even pp such as {pp + 1}",
        )
    if kind == "dualpipe" and (count < 2 * pp or count % 2):
        yield (
            "schedule",
            f"schedule dualpipe with {count} micro-batches: expected an even number of at least "
            f"2 x pp = {2 * pp}; change micro-batches",
        )


def _all_to_all(plan: Mapping[str, Any]) -> Iterator[Reason]:
    kind, chunks = plan["overlap_all_to_all"], plan["overlap_chunks"]
    if kind != "chunks" and chunks > 1:
        yield (
            "overlap_chunks",
            f"overlap-chunks = {chunks} with overlap-all-to-all {kind}: only 'chunks' has chunks",
        )
    if kind == "chunks":
        tokens = plan["micro_batch_size"] * plan["seq_len"] * plan["etp"]
        tokens //= plan["tp"] * plan["cp"]
        if chunks < 2:
            yield "overlap_chunks", f"overlap-chunks = {chunks}: expected at least 2"
        elif tokens % chunks:
            yield (
                "overlap_chunks",
                f"overlap-chunks = {chunks} does not divide the {tokens} tokens of an EP rank; "
                "use a divisor",
            )
    if kind != "batch":
        return
    if plan["schedule"] == "zero-bubble":
        yield (
            "overlap_all_to_all",
            "overlap-all-to-all batch with schedule zero-bubble: use dualpipe or 1f1b, or chunks",
        )
    pp, vpp, count = (plan[name] for name in ("pp", "vpp", "micro_batches"))
    if plan["schedule"] == "1f1b" and count * vpp <= (vpp - 1) * pp + 1:
        yield (
            "overlap_all_to_all",
            f"overlap-all-to-all batch with {count} micro-batches: no two of them meet; use at "
            f"least {((vpp - 1) * pp + 1) // vpp + 1}",
        )


def _strategy(plan: Mapping[str, object]) -> Iterator[Reason]:
    kind, chunks, etp = (plan[name] for name in ("strategy", "strategy_chunks", "etp"))
    if not isinstance(chunks, int) or isinstance(chunks, bool) or not 0 <= chunks <= MAX_CHUNKS:
        yield (
            "strategy_chunks",
            f"strategy-chunks = {echo(chunks)}: expected a whole number from 1 to {MAX_CHUNKS}, "
            "or 0 for the fastest",
        )
    elif chunks and kind not in (*CHUNKED, "auto"):
        yield (
            "strategy_chunks",
            f"strategy-chunks = {chunks} with strategy {kind}: only {', '.join(CHUNKED)} have "
            "chunks of their own",
        )
    if kind == "O1":
        return
    if etp == 1:
        what = "tp" if plan["expert_mode"] == "axis" else "etp"
        yield (
            "strategy",
            f"strategy {kind} with {what} = 1: no TP ranks share an expert, so that there is "
            f"nothing to gather; raise {what}, or leave it out",
        )
    if kind == "baseline" and plan["sequence_parallel"]:
        yield (
            "strategy",
            "strategy baseline with sequence parallelism: each TP rank has tokens of its own "
            "then; turn that off, or use O1",
        )
    if kind != "baseline" and plan["communication_sms"]:
        yield (
            "strategy",
            f"strategy {kind} with communication-sms: what its chunks take of a GPU is not "
            "known; leave one of them out",
        )


def impossible_for(model: Model, plan: Mapping[str, Any]) -> Iterator[Reason]:
    """Fields that the model rules out, each with one line."""
    if plan["context_parallel"] == "ulysses":
        yield from _divided_heads(model, plan)
    for name, enabled in (
        ("overlap_all_to_all", plan["overlap_all_to_all"] != "none"),
        ("overlap_shared_experts", plan["overlap_shared_experts"]),
        ("strategy", plan["strategy"] != "O1"),
    ):
        flag = name.replace("_", "-")
        if not enabled:
            continue
        if not model.num_moe_layers:
            yield name, f"{flag}: {model.name} has no experts; leave it out"
        elif plan["ep"] == 1:
            yield name, f"{flag} with ep = 1: there is no all-to-all; raise ep, or leave it out"
        elif name == "overlap_shared_experts" and not model.shared_expert_ffn_size:
            yield name, f"{flag}: {model.name} has no shared experts; leave it out"


def _divided_heads(model: Model, plan: Mapping[str, Any]) -> Iterator[Reason]:
    """Ulysses hands out whole heads, of keys and values as well."""
    parts = plan["tp"] * plan["cp"]
    counts: dict[tuple[str, int], None] = {}
    for attention in model.attentions:
        if attention.kind == "none":
            continue
        counts["attention heads", attention.num_heads] = None
        if attention.kind != "mla":
            counts["key-value heads", attention.num_kv_heads] = None
    for name, count in counts:
        if count % parts:
            yield (
                "context_parallel",
                f"context-parallel ulysses: {model.name} has {count} {name}, which tp x cp = "
                f"{plan['tp']} x {plan['cp']} does not divide; lower one of them, or use ring",
            )
