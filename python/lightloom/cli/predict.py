"""``lightloom predict``: how well the loads of experts can be predicted, and what that is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, text_outputs
from lightloom.inputs.fields import Choices
from lightloom.inputs.strict import File, Name, Number, Strict, Switch, Whole, quantity

EXAMPLES = (
    "lightloom predict --synthetic drifting",
    "lightloom predict routing.jsonl --predictors last-step,ewma,ridge --csv scores.csv",
    "lightloom predict --synthetic volatile --experts 128 --ports 4 --nics 8 --rate 400",
)
NOTES = (
    "A synthetic log has 200 steps of 4 layers with 64 experts, 16384 tokens and 2 experts per "
    "token by default."
)


def _regimes() -> Sequence[str]:
    from lightloom.demand.regime import REGIMES

    return REGIMES


def _predictors() -> Sequence[str]:
    from lightloom.demand.predictors import predictor_names

    return predictor_names()


class PredictOptions(Strict):
    """A log of expert loads, the predictors that are scored on it, and a region of servers."""

    log: File | None = Field(
        None,
        description="A routing log (JSONL, or a folder of them), or loads by step, layer and "
        "expert (CSV, Parquet or JSONL).",
    )
    synthetic: Annotated[Name, Choices(_regimes)] | None = Field(
        None, description="Regime to draw a synthetic demand from: {choices}."
    )
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] | None = Field(
        None, description="Seed of the random numbers; the first one where several are used."
    )
    steps: Whole | None = Field(
        None, description="Number of training steps; the demand drifts from step to step."
    )
    layers: Whole | None = Field(None, description="Number of MoE layers of a synthetic log.")
    experts: Whole | None = Field(None, description="Number of experts of an MoE layer.")
    tokens: Whole | None = Field(None, description="Tokens per EP rank and micro-batch.")
    experts_per_token: Whole | None = Field(
        None, description="Number of experts that a token is sent to."
    )
    tokens_per_step: Whole | None = Field(
        None, description="Tokens after which a log without steps is cut into the next step."
    )
    stages: Whole | None = Field(
        None, description="Number of pipeline stages in a log with ranks; 1 by default."
    )
    predictors: Annotated[tuple[Name, ...], Choices(_predictors)] | None = Field(
        None, description="Predictors that are scored: {choices}; all that are fast by default."
    )
    window: Whole = Field(32, description="Number of steps that predictors are fitted to.")
    busiest: Whole | None = Field(
        None, description="Number of busiest experts to identify; a quarter of them by default."
    )
    experts_per_server: Whole | None = Field(
        None, description="Number of experts on a server; by default such that 8 servers have all."
    )
    ports: Whole = Field(
        6, description="Number of optical ports of a server, its degree in papers."
    )
    nics: Whole = Field(
        8, description="Number of NICs of a server; those without optical links are on the EPS."
    )
    rate_gbps: Annotated[float, quantity("gigabit / second"), Field(gt=0, le=1e6)] = Field(
        400.0, description="Rate of one NIC and link, per direction."
    )
    hidden: Whole = Field(4096, description="Number of elements of a token's hidden state.")
    element_bytes: Annotated[Number, Field(gt=0)] = Field(
        2.0, description="Bytes per element: 1 for FP8, 2 for BF16."
    )
    split: Switch = Field(
        True,
        description="Let a pair of servers with circuits send its excess over the packet fabric.",
    )


def command() -> Command:
    """Describe the command."""
    return Command(
        panels=(_loads(), _predictors_panel(), _region(), Panel("Output", text_outputs())),
        run=_run,
        examples=EXAMPLES,
        notes=NOTES,
    )


def _loads() -> Panel:
    rest = ("layers", "tokens", "experts_per_token", "tokens_per_step", "stages")
    return Panel(
        "Expert loads",
        (
            option(PredictOptions, "log", "LOG", common=True),
            option(PredictOptions, "synthetic", common=True),
            option(PredictOptions, "seed", common=True),
            option(PredictOptions, "steps", common=True),
            option(PredictOptions, "experts", common=True),
            *(option(PredictOptions, name) for name in rest),
        ),
    )


def _predictors_panel() -> Panel:
    return Panel(
        "Predictors",
        (
            option(PredictOptions, "predictors", common=True),
            option(PredictOptions, "window", common=True),
            option(PredictOptions, "busiest"),
        ),
    )


def _region() -> Panel:
    return Panel(
        "Region",
        (
            replace(option(PredictOptions, "ports", common=True), aliases=("--degree",)),
            option(PredictOptions, "nics", common=True),
            option(PredictOptions, "rate_gbps", common=True),
            option(PredictOptions, "experts_per_server", common=True),
            option(PredictOptions, "split"),
            option(PredictOptions, "hidden"),
            option(PredictOptions, "element_bytes", "--element-bytes"),
        ),
    )


def _run(call: CommandCall) -> None:
    from lightloom.cli.predict_run import predict

    outputs = call.take(Outputs, "output")
    outputs.check(call.tables)
    predict(call.build(PredictOptions), outputs)
