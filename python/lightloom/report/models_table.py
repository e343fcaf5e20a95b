"""Tables of the model catalog, and of one model's parameters by part."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from lightloom.models import Attention, Model, PublishedPlan
from lightloom.models.model import EmbeddingConvention
from lightloom.models.parameters import active_parameters, parameter_parts, total_parameters
from lightloom.report.terminal import plain_table, print_table, print_wrapped
from lightloom.workload.programs.known import known_programs

#: the embedding tables that active parameters include, for every model alike: what is multiplied
_ACTIVE: EmbeddingConvention = "output"
#: what each publisher's convention counts, for the line below a table
_CONVENTIONS = {
    "both": "with both embedding tables",
    "output": "without the input table",
    "none": "without embedding tables",
}


def print_catalog(console: Console, models: dict[str, Model]) -> None:
    """Print the models known by name and where their shapes are from."""
    # as narrow as a terminal of 80 columns
    headers = [
        "name",
        "layers",
        "hidden\n[elem.]",
        "ex-\nperts",
        "top-k",
        "total\n[B]",
        "active\n[B]",
    ]
    plan = "published\nplan"
    table = plain_table("Models known by name", [*headers, plan], left=[plan])
    for name, model in models.items():
        table.add_row(
            name,
            str(model.num_layers),
            str(model.hidden_size),
            str(model.num_experts) if model.num_experts else "dense",
            str(model.experts_per_token) if model.num_experts else "-",
            f"{total_parameters(model) / 1e9:.2f}"[:6],
            f"{active_parameters(model, _ACTIVE) / 1e9:.2f}",
            _short_plan(model.plan) if model.plan else "-",
        )
    print_table(table, console)
    console.print()
    print_wrapped(
        "lightloom compare knows programs that are no language models, too: "
        + "; ".join(f"{names}: {what}" for names, what in known_programs().items())
        + ".",
        console,
    )
    console.print()
    print_wrapped(
        "total: all parameters, with both embedding tables; active: those that one token "
        "goes through, without the input table, for every model alike; B = 10^9; elem. = "
        "elements of a hidden state.",
        console,
    )
    console.print(
        "\nSources of the shapes; published counts that they were checked against\n"
        "(sources of counts and plans: lightloom models NAME)"
    )
    for name, model in models.items():
        source = f"{escape(model.sources['config'])}; {_published_counts(model)}"
        console.print(f"  {name}: {source}", soft_wrap=True)


def _published_counts(model: Model) -> str:
    if not model.published_parameters:
        return "no published counts"
    active = f", {_billions(model.published_active)} active" if model.published_active else ""
    return f"{_billions(model.published_parameters)}{active}"


def _billions(count: float) -> str:
    return f"{count / 1e9:g}B"


def _short_plan(plan: PublishedPlan) -> str:
    return f"TP{plan.tp} PP{plan.pp} EP{plan.ep}"


def print_model(console: Console, model: Model) -> None:
    """Print a model's parameters by part, its notes and its sources."""
    console.print(Text(_headline(model)), soft_wrap=True)
    numbers = ["each\n[parameters]", "copies", "total\n[parameters]", "active\n[parameters]"]
    table = plain_table("", ["part", *numbers])
    for part in parameter_parts(model, _ACTIVE):
        table.add_row(
            part.name,
            f"{part.each:,}",
            f"{part.count:,}",
            f"{part.total:,}",
            f"{part.total_active:,}",
        )
    table.add_section()
    total, active = total_parameters(model), active_parameters(model, _ACTIVE)
    table.add_row("all", "", "", f"{total:,}", f"{active:,}", style="bold")
    print_table(table, console)
    console.print("\nactive: the parameters of one token's path, without the input table")
    if model.published_parameters:
        difference = f"{total / model.published_parameters - 1:+.2%}"
        print_wrapped(
            f"published: {model.published_parameters / 1e9:g} B in total (here {difference})"
            + _published_active(model),
            console,
        )
    _print_details(console, model)


def _published_active(model: Model) -> str:
    """The published active parameters, and how many there are by the publisher's counting."""
    if not model.published_active:
        return ""
    routers = "" if model.active_router or not model.num_moe_layers else " and routers"
    return (
        f", {model.published_active / 1e9:g} B active "
        f"(here {active_parameters(model) / 1e9:.2f} B, counted as there: "
        f"{_CONVENTIONS[model.active_embeddings]}{routers})"
    )


def model_as_json(model: Model) -> dict[str, Any]:
    """A model's shape, its parameters by part, and where they are from, as plain values."""
    parts = parameter_parts(model, _ACTIVE)
    return dataclasses.asdict(model) | {
        "parameters": total_parameters(model),
        "active_parameters": active_parameters(model, _ACTIVE),
        "active_parameters_as_published": active_parameters(model),
        "parts": [dataclasses.asdict(part) | {"total": part.total} for part in parts],
    }


def _headline(model: Model) -> str:
    words = [
        f"{model.name}: {model.family}",
        f"{model.num_layers} layers of {model.hidden_size} elements",
        *(
            _attention_words(one, layers if len(model.attentions) > 1 else 0)
            for one, layers in model.attentions.items()
        ),
    ]
    widths = model.ffn_widths
    if len(widths) > 2:
        narrowest, widest = min(widths), max(widths)
        words.append(f"{sum(widths.values())} dense layers of widths {narrowest} to {widest}")
    else:
        words += [f"{dense} dense layers of width {width}" for width, dense in widths.items()]
    if model.num_moe_layers:
        words.append(
            f"{model.num_moe_layers} layers of {model.num_experts} experts of width "
            f"{model.expert_ffn_size}, {model.experts_per_token} per token"
            + (f", on {model.expert_hidden_size} elements" if model.expert_hidden_size else "")
        )
    if model.shared_expert_ffn_size:
        words.append(f"shared experts of width {model.shared_expert_ffn_size}")
    return "; ".join(words)


def _attention_words(attention: Attention, layers: int) -> str:
    """One kind of attention; ``layers`` that have it, 0 where all do."""
    where = f"{layers} layers of " if layers else ""
    if attention.kind == "none":
        return f"{where}no attention"
    if attention.kind == "mamba":
        return f"{where}Mamba of {attention.num_heads} channels and {attention.qk_dim} states each"
    if attention.kind == "mamba2":
        return (
            f"{where}Mamba-2 of {attention.num_heads} heads of {attention.head_dim} in "
            f"{attention.num_kv_heads} groups of {attention.qk_dim} states"
        )
    kinds = {
        "mla": "latent",
        "csa": "one key for all heads",
        "gqa": f"{attention.num_kv_heads} key-value heads",
        "delta": f"gated delta rule, {attention.num_kv_heads} key heads",
        "kda": "Kimi delta rule",
        "lightning": "lightning",
    }
    words = [kinds[attention.kind]]
    if attention.compress:
        words.append(f"and one per {attention.compress} tokens")
    if attention.span:
        words.append(f"in chunks of {attention.span} tokens")
    if attention.window:
        words.append(f"in windows of {attention.window} tokens")
    if attention.index_top_k:
        chosen = f"{attention.index_top_k} keys per query"
        words.append(chosen if attention.index_heads else f"{chosen}, chosen by an earlier layer")
    name = "linear attention" if attention.linear else "attention"
    return f"{where}{name} of {attention.num_heads} heads ({', '.join(words)})"


def _print_details(console: Console, model: Model) -> None:
    lines = [f"note: {note}" for note in model.notes]
    if model.plan is not None:
        plan = model.plan
        lines.append(
            f"published plan: {_short_plan(plan)}, sequences of {plan.seq_len} tokens, "
            f"{plan.micro_batch_size} per micro-batch"
        )
    lines += [f"source of {what}: {source}" for what, source in model.sources.items()]
    for line in lines:
        console.print(Text(line), soft_wrap=True)
