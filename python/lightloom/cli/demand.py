"""``lightloom demand``: how skewed a demand is, and a picture of its matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, text_outputs
from lightloom.inputs.fields import Choices
from lightloom.inputs.strict import Name, Number, Strict, Switch, Whole

EXAMPLES = (
    "lightloom demand auxiliary",
    "lightloom demand volatile --ranks 16 --experts 64 --experts-per-token 6 --set rho=0.9",
    "lightloom demand routing.jsonl --layer 3 --view server --ranks-per-server 8",
    "lightloom demand pair --view rank --csv - | lightloom schedule - --reconfiguration-delay 1ms",
)
NOTES = (
    "A regime is drawn for 8 ranks, 8 experts, 16384 tokens and 2 experts per token by default; a "
    "matrix or a log has its own numbers."
)

Index = Annotated[int, Field(strict=True, ge=0, le=10**9)]


def _regimes() -> Sequence[str]:
    from lightloom.demand.regime import ALIASES, REGIMES

    return (*ALIASES, *REGIMES)


class DemandRequest(Strict):
    """A demand and the part of it that is shown."""

    source: Annotated[Name, Choices(_regimes)] = Field(
        description="A regime ({choices}), the load of the busiest EP rank over the mean (1.3), a "
        "token matrix (JSON) or a routing log (JSONL)."
    )
    ranks: Whole | None = Field(None, description="Number of EP ranks of a group.")
    experts: Whole | None = Field(None, description="Number of experts of an MoE layer.")
    tokens: Whole | None = Field(None, description="Tokens per EP rank and micro-batch.")
    experts_per_token: Whole | None = Field(
        None, description="Number of experts that a token is sent to."
    )
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] | None = Field(
        None, description="Seed of the random numbers; the first one where several are used."
    )
    set: tuple[str, ...] = Field(
        (), description="Parameter of the regime, such as rho=0.9; repeatable."
    )
    scale: Switch = Field(
        False, description="Scale a token matrix to the tokens per rank of the job."
    )
    resample: Switch = Field(
        False,
        description="Draw the tokens of a routing log with replacement, for a job larger than it.",
    )
    group: Index = Field(0, description="Index of the EP group.")
    layer: Index = Field(
        0, description="Index of the MoE layer; a regime of no model has any number."
    )
    micro_batch: Index = Field(0, description="Index of the micro-batch.")
    step: Index = Field(0, description="Index of the training step.")
    view: Literal["expert", "rank", "server"] = Field(
        "expert", description="What the columns of the matrix are."
    )
    ranks_per_server: Whole | None = Field(
        None, description="Number of EP ranks on a server, for --view server; 1 by default."
    )
    deduplicate: Switch = Field(
        False, description="Send one copy of a token to each destination server."
    )
    node_limit: Name | None = Field(
        None, description="Node-limited routing, such as 4/8, for --deduplicate."
    )
    hidden: Whole = Field(4096, description="Number of elements of a token's hidden state.")
    element_bytes: Annotated[Number, Field(gt=0)] = Field(
        2.0, description="Bytes per element: 1 for FP8, 2 for BF16."
    )


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(_source(), _view(), Panel("Output", text_outputs())),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _source() -> Panel:
    return Panel(
        "Demand",
        (
            option(DemandRequest, "source", "SOURCE", common=True),
            option(DemandRequest, "ranks", common=True),
            option(DemandRequest, "experts", common=True),
            option(DemandRequest, "tokens", common=True),
            option(DemandRequest, "experts_per_token", common=True),
            option(DemandRequest, "seed", common=True),
            option(DemandRequest, "set", common=True, repeats=True, metavar="NAME=VALUE"),
            option(DemandRequest, "scale"),
            option(DemandRequest, "resample"),
        ),
    )


def _view() -> Panel:
    return Panel(
        "What is shown",
        (
            option(DemandRequest, "view", common=True),
            option(DemandRequest, "group"),
            option(DemandRequest, "layer", common=True),
            option(DemandRequest, "micro_batch"),
            option(DemandRequest, "step", common=True),
            option(DemandRequest, "ranks_per_server", common=True),
            option(DemandRequest, "deduplicate"),
            option(DemandRequest, "node_limit", metavar="TOP/GROUPS"),
            option(DemandRequest, "hidden"),
            option(DemandRequest, "element_bytes", "--element-bytes"),
        ),
    )


def _run(call: CommandCall) -> None:
    from lightloom.cli.demand_run import demand

    outputs = call.take(Outputs, "output")
    outputs.check(call.tables)
    demand(call.build(DemandRequest), outputs)
