"""``lightloom predict``: how well the loads of experts can be predicted, and what that is worth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from lightloom.cli.outputs import Outputs
from lightloom.demand import REGIMES, bytes_per_token, read_routing_log, synthetic
from lightloom.demand.load_file import is_load_file, read_load_file
from lightloom.demand.load_trace import LoadTrace, trace_of_log, trace_of_source
from lightloom.demand.predictors import PREDICTORS, make_predictor
from lightloom.errors import DemandError, InputError
from lightloom.output.files import write_json
from lightloom.output.progress import TerminalMonitor
from lightloom.report.prediction_table import print_prediction
from lightloom.schedule import Region
from lightloom.study.prediction import Evaluation, RegionOptions, score_predictors
from lightloom.units import parse_quantity

#: what a generated trace has unless options say otherwise
_DEFAULTS = {"steps": 200, "layers": 4, "experts": 64, "tokens": 16_384, "experts_per_token": 2}

#: largest number of experts for which slow predictors run without being asked for; at 8 experts
#: one prediction of copilot takes 0.1 s and more, and copilot-gradient solves the same problem
_UNASKED = {"copilot": 0, "copilot-gradient": 64}

#: servers of a region unless --experts-per-server says otherwise
_SERVERS = 8

_TRACE = "Trace"
_REGION = "Region"
_OUTPUT = "Output"


def _option(panel: str, *names: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


Log = Annotated[
    Path | None,
    typer.Argument(
        metavar="LOG",
        help="A routing log (JSONL, or a folder of them), or loads by step, layer and expert "
        "(CSV, Parquet, JSONL).",
    ),
]
Synthetic = Annotated[
    str | None,
    _option(_TRACE, "--synthetic", metavar="REGIME", help="Draw a trace: calm, volatile, extreme, "
            "drifting (layers tied by topics), or another regime."),
]  # fmt: skip
Seed = Annotated[int | None, _option(_TRACE, "--seed", help="Seed of a drawn trace; default 0.")]
Steps = Annotated[int | None, _option(_TRACE, "--steps", help="Steps to draw; default 200.")]
Layers = Annotated[int | None, _option(_TRACE, "--layers", help="Layers to draw; default 4.")]
Experts = Annotated[
    int | None,
    _option(_TRACE, "--experts", help="Experts: to draw (default 64), or of a log that does not "
            "say."),
]  # fmt: skip
Tokens = Annotated[
    int | None,
    _option(_TRACE, "--tokens", help="Tokens per server and step to draw; default 16384."),
]
ExpertsPerToken = Annotated[
    int | None,
    _option(_TRACE, "--experts-per-token", help="Experts that a drawn token chooses; default 2."),
]
TokensPerStep = Annotated[
    int | None,
    _option(_TRACE, "--tokens-per-step", help="Cut a log without steps every so many tokens."),
]
Stages = Annotated[
    int | None, _option(_TRACE, "--stages", help="Pipeline stages in a log with ranks; default 1.")
]
Predictors = Annotated[
    str | None,
    typer.Option(
        "--predictors",
        metavar="NAMES",
        help=f"Some of {', '.join(PREDICTORS)}; by default all that are fast enough.",
    ),
]
Window = Annotated[int, typer.Option("--window", help="Steps over which predictors fit.")]
TopK = Annotated[
    int | None,
    typer.Option("--top-k", help="Busiest experts to be found.", show_default="a quarter"),
]
ExpertsPerServer = Annotated[
    int | None,
    _option(_REGION, "--experts-per-server", help="Experts on a server; by default 8 servers."),
]
Degree = Annotated[int, _option(_REGION, "--degree", help="Optical links per server.")]
Nics = Annotated[int, _option(_REGION, "--nics", help="NICs per server; the rest are on the EPS.")]
Rate = Annotated[
    str, _option(_REGION, "--rate", metavar="GB/S", help="Rate of a NIC, such as 400 or 1.6Tb/s.")
]
Hidden = Annotated[int, _option(_REGION, "--hidden", help="Elements of a token.")]
ElementBytes = Annotated[
    float, _option(_REGION, "--element-bytes", help="Bytes per element: FP8 1, BF16 2.")
]
NoSplit = Annotated[
    bool, _option(_REGION, "--no-split", help="A pair with circuits uses only these.")
]
Csv = Annotated[
    str | None, _option(_OUTPUT, "--csv", metavar="PATH|-", help="Write one row per predictor.")
]
Json = Annotated[
    str | None, _option(_OUTPUT, "--json", metavar="PATH|-", help="Write everything as JSON.")
]


@dataclass(frozen=True)
class _TraceOptions:
    """Where the trace comes from; ``None`` where an option was not given."""

    log: Path | None
    regime: str | None
    seed: int | None
    steps: int | None
    layers: int | None
    experts: int | None
    tokens: int | None
    experts_per_token: int | None
    tokens_per_step: int | None
    stages: int | None


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("predict")(predict)


def predict(  # noqa: PLR0913 - one parameter per option of the command line
    log: Log = None,
    synthetic_regime: Synthetic = None,
    seed: Seed = None,
    steps: Steps = None,
    layers: Layers = None,
    experts: Experts = None,
    tokens: Tokens = None,
    experts_per_token: ExpertsPerToken = None,
    tokens_per_step: TokensPerStep = None,
    stages: Stages = None,
    predictors: Predictors = None,
    window: Window = 32,
    top_k: TopK = None,
    experts_per_server: ExpertsPerServer = None,
    degree: Degree = 6,
    nics: Nics = 8,
    rate: Rate = "400",
    hidden: Hidden = 4096,
    element_bytes: ElementBytes = 2,
    no_split: NoSplit = False,
    csv_path: Csv = None,
    json_path: Json = None,
) -> None:
    """Score predictors of expert loads on a multi-step log, and the circuits chosen by them."""
    outputs = Outputs(csv=csv_path, json=json_path)
    outputs.check()
    options = _TraceOptions(
        log,
        synthetic_regime,
        seed,
        steps,
        layers,
        experts,
        tokens,
        experts_per_token,
        tokens_per_step,
        stages,
    )
    region = _region(degree, nics, rate, split=not no_split)
    size = bytes_per_token(hidden, element_bytes)
    rows = outputs.rows()
    remarks = Console(stderr=True)
    with TerminalMonitor(remarks, rows.write) as monitor:
        trace = _open(options, experts_per_server, monitor)
        per_server = _per_server(trace.experts, experts_per_server)
        made = {
            name: make_predictor(name, trace.experts, window=window)
            for name in _names(predictors, trace.experts)
        }
        evaluation = Evaluation(
            trace, top_k=top_k, window=window, options=RegionOptions(per_server, region, size)
        )
        found = score_predictors(evaluation, made, window=window, monitor=monitor)
    rows.close()
    print_prediction(found, remarks if outputs.on_stdout else Console(highlight=False))
    if json_path is not None:
        write_json(found.to_json(), json_path)
    if found.interrupted:
        raise KeyboardInterrupt


def _region(degree: int, nics: int, rate: str, *, split: bool) -> Region:
    rate_gbps = parse_quantity(rate, "gigabit / second", "--rate")
    if not 0 < rate_gbps <= 1e6:
        raise InputError(f"--rate: expected above 0 and up to 1,000,000 Gb/s, got {rate}")
    if not 1 <= degree <= nics <= 1024:
        raise InputError(
            f"--degree {degree} of --nics {nics}: expected 1 to the number of NICs (at most 1024)"
        )
    return Region(degree, rate_gbps, (nics - degree) * rate_gbps, split)


def _per_server(experts: int, given: int | None) -> int:
    return max(1, experts // _SERVERS) if given is None else given


def _names(given: str | None, experts: int) -> list[str]:
    """The predictors asked for, or those that are fast enough."""
    if given is None:
        return [name for name in PREDICTORS if experts <= _UNASKED.get(name, experts)]
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise InputError(f"--predictors {given}: expected some of {', '.join(PREDICTORS)}")
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InputError(f"--predictors: '{name}' is named twice")
    return names


def _open(
    options: _TraceOptions, experts_per_server: int | None, monitor: TerminalMonitor
) -> LoadTrace:
    """The trace that the options name, refusing those that it would not read."""
    if (options.log is None) == (options.regime is None):
        raise DemandError("expected either a LOG or --synthetic REGIME")
    if options.regime is not None:
        _refuse(options, "a drawn trace", "tokens_per_step", "stages")
        return _draw(options, options.regime, experts_per_server, monitor)
    assert options.log is not None
    _refuse(options, "a log", "seed", "steps", "layers", "tokens", "experts_per_token")
    if str(options.log) in REGIMES and not options.log.exists():
        raise DemandError(f"{options.log}: no such file; to draw it: --synthetic {options.log}")
    monitor.progress(0.0, f"reading {options.log.name}")
    if is_load_file(options.log):
        _refuse(options, "a table of loads", "tokens_per_step", "stages")
        return read_load_file(options.log, experts=options.experts)
    return trace_of_log(
        read_routing_log(options.log),
        experts=options.experts,
        tokens_per_step=options.tokens_per_step,
        stages=1 if options.stages is None else options.stages,
    )


def _draw(
    options: _TraceOptions, regime: str, experts_per_server: int | None, monitor: TerminalMonitor
) -> LoadTrace:
    if regime == "uniform":
        raise DemandError("--synthetic uniform: equal loads leave nothing to predict")
    shape = {
        name: default if (given := getattr(options, name)) is None else given
        for name, default in _DEFAULTS.items()
    }
    experts = shape["experts"]
    per_server = _per_server(experts, experts_per_server)
    if per_server < 1 or experts < 1 or experts % per_server:
        raise DemandError(f"{experts} experts do not fill servers of {per_server} experts each")
    source = synthetic(
        regime,
        ranks=experts // per_server,
        experts=experts,
        tokens_per_rank=shape["tokens"],
        top_k=shape["experts_per_token"],
        seed=0 if options.seed is None else options.seed,
    )
    return trace_of_source(
        source,
        steps=shape["steps"],
        layers=shape["layers"],
        synthetic=True,
        progress=monitor.progress,
    )


def _refuse(options: _TraceOptions, kind: str, *names: str) -> None:
    for name in names:
        if getattr(options, name) is not None:
            raise DemandError(f"--{name.replace('_', '-')} has no meaning for {kind}")
