"""``lightloom predict``: how well the loads of experts can be predicted, and what that is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lightloom import demand
from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import Outputs, checked_outputs, say_written, text_outputs, write_each
from lightloom.cli.terminal import remarks_console, results_console, terminal
from lightloom.errors import DemandError, InputError, expected_one_of
from lightloom.inputs.fields import Choices
from lightloom.inputs.strict import File, Name, Number, Strict, Switch, Whole, quantity
from lightloom.output.files import write_json

if TYPE_CHECKING:
    from lightloom.output.progress import TerminalMonitor
    from lightloom.schedule import Region

EXAMPLES = (
    "lightloom predict --synthetic drifting",
    "lightloom predict routing.jsonl --predictors last-step,ewma,ridge --csv scores.csv",
    "lightloom predict --synthetic volatile --experts 128 --ports 4 --nics 8 --rate 400",
)
NOTES = (
    "A synthetic log has 200 steps of 4 layers with 64 experts, 16384 tokens and 2 experts per "
    "token by default."
)

#: what a synthetic log has unless options say otherwise
_DEFAULTS = {"steps": 200, "layers": 4, "experts": 64, "tokens": 16_384, "experts_per_token": 2}

#: largest number of experts for which slow predictors run by default; copilot and copilot-gradient
#: solve one problem, so that the first runs only where it is named
_MAX_EXPERTS = {"copilot": 0, "copilot-gradient": 64}

#: servers of a region unless --experts-per-server says otherwise
_SERVERS = 8


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
    outputs = checked_outputs(call)
    _predict(call.build(PredictOptions), outputs)


def _predict(options: PredictOptions, outputs: Outputs) -> None:
    """Score predictors of expert loads on a multi-step log, and the circuits chosen by them.

    Raises
    ------
    InputError
        If an option or the log cannot be used.
    """
    from lightloom.demand.predictors import make_predictor
    from lightloom.output.progress import TerminalMonitor
    from lightloom.report.prediction_table import print_prediction
    from lightloom.study.prediction import Evaluation, RegionOptions, score_predictors

    window = options.window
    region = _region_of(options)
    size = demand.bytes_per_token(options.hidden, options.element_bytes)
    rows = outputs.rows()
    remarks = remarks_console()
    with TerminalMonitor(remarks, rows.write) as monitor:
        history = _open(options, monitor)
        per_server = _per_server(history.experts, options.experts_per_server)
        by_name = {
            name: make_predictor(name, history.experts, window=window)
            for name in _names(options.predictors, history.experts)
        }
        evaluation = Evaluation(
            history,
            top_k=options.busiest,
            window=window,
            options=RegionOptions(per_server, region, size),
        )
        prediction = score_predictors(evaluation, by_name, window=window, monitor=monitor)
    rows.close()
    console = remarks if outputs.on_stdout else results_console()
    print_prediction(prediction, console, with_sources=terminal().verbose)
    say_written(rows.files)
    if (json := outputs.json_target) is not None:
        write_each({json: lambda: write_json(prediction.to_json(), json)})
    if prediction.interrupted:
        raise KeyboardInterrupt


def _region_of(options: PredictOptions) -> Region:
    from lightloom.schedule import Region

    ports, nics, rate_gbps = options.ports, options.nics, options.rate_gbps
    if not ports <= nics <= 1024:
        raise InputError(
            f"--ports {ports} of --nics {nics}: expected 1 to the number of NICs (at most 1024)"
        )
    return Region(ports, rate_gbps, (nics - ports) * rate_gbps, options.split)


def _per_server(experts: int, per_server: int | None) -> int:
    """Experts of a server: of those that fill servers, what makes about eight of them."""
    if per_server is not None:
        return per_server
    fill = [each for each in range(1, experts // 2 + 1) if experts % each == 0] or [1]
    return min(fill, key=lambda each: abs(experts // each - _SERVERS))


def _names(names: tuple[str, ...] | None, experts: int) -> tuple[str, ...]:
    """The given predictors, or those that are fast enough."""
    from lightloom.demand.predictors import PREDICTORS

    if names is None:
        return tuple(name for name in PREDICTORS if experts <= _MAX_EXPERTS.get(name, experts))
    if not names:
        raise InputError(f"--predictors: {expected_one_of(None, PREDICTORS)}")
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"--predictors: '{name}' is named twice")
    return names


def _open(options: PredictOptions, monitor: TerminalMonitor) -> demand.LoadHistory:
    """The loads that the options name, refusing options that nothing would read."""
    from lightloom.demand.load_file import is_load_file
    from lightloom.demand.tokens_per_expert import tokens_per_expert_files

    if (options.log is None) == (options.synthetic is None):
        raise DemandError("expected either a LOG or --synthetic REGIME")
    if options.synthetic is not None:
        _refuse(options, "a synthetic log", "tokens_per_step", "stages")
        return _draw(options, options.synthetic, monitor)
    assert options.log is not None
    _refuse(options, "a log", "seed", "steps", "layers", "tokens", "experts_per_token")
    if str(options.log) in demand.REGIMES and not options.log.exists():
        raise DemandError(f"{options.log}: no such file; to draw it: --synthetic {options.log}")
    monitor.progress(0.0, f"reading {options.log.name}")
    if is_load_file(options.log):
        ranks = tokens_per_expert_files(options.log)
        _refuse(options, "a table of loads", "tokens_per_step", *(() if ranks else ("stages",)))
        return demand.read_load_file(options.log, experts=options.experts, stages=options.stages)
    return demand.history_of_log(
        demand.read_routing_log(options.log),
        experts=options.experts,
        tokens_per_step=options.tokens_per_step,
        stages=1 if options.stages is None else options.stages,
    )


def _draw(options: PredictOptions, regime: str, monitor: TerminalMonitor) -> demand.LoadHistory:
    from lightloom.demand.source import shown_divisors

    if regime == "uniform":
        raise DemandError("--synthetic uniform: equal loads leave nothing to predict")
    shape = {
        name: default if (value := getattr(options, name)) is None else value
        for name, default in _DEFAULTS.items()
    }
    experts = shape["experts"]
    per_server = _per_server(experts, options.experts_per_server)
    if experts % per_server:
        raise DemandError(
            f"{experts} experts do not fill servers of {per_server} experts each; expected a part "
            f"of them: {shown_divisors(experts)}"
        )
    source = demand.synthetic(
        regime,
        ranks=experts // per_server,
        experts=experts,
        tokens_per_rank=shape["tokens"],
        top_k=shape["experts_per_token"],
        seed=0 if options.seed is None else options.seed,
    )
    return demand.history_of_source(
        source,
        steps=shape["steps"],
        layers=shape["layers"],
        synthetic=True,
        progress=monitor.progress,
    )


def _refuse(options: PredictOptions, kind: str, *names: str) -> None:
    for name in names:
        if getattr(options, name) is not None:
            raise DemandError(f"--{name.replace('_', '-')} does not apply to {kind}")
