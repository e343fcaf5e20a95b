"""What ``lightloom predict`` does: read or draw the loads, score predictors, write and print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightloom.cli.outputs import Outputs, say_written, write_each
from lightloom.cli.terminal import remarks_console, results_console, terminal
from lightloom.demand import REGIMES, bytes_per_token, read_routing_log, synthetic
from lightloom.demand.load_file import is_load_file, read_load_file
from lightloom.demand.load_history import LoadHistory, history_of_log, history_of_source
from lightloom.demand.predictors import PREDICTORS, make_predictor
from lightloom.demand.source import shown_divisors
from lightloom.demand.tokens_per_expert import tokens_per_expert_files
from lightloom.errors import DemandError, InputError, expected_one_of
from lightloom.output.files import write_json
from lightloom.output.progress import TerminalMonitor
from lightloom.report.prediction_table import print_prediction
from lightloom.schedule import Region
from lightloom.study.prediction import Evaluation, RegionOptions, score_predictors

if TYPE_CHECKING:
    from lightloom.cli.predict import PredictOptions

#: what a synthetic log has unless options say otherwise
_DEFAULTS = {"steps": 200, "layers": 4, "experts": 64, "tokens": 16_384, "experts_per_token": 2}

#: largest number of experts for which slow predictors run by default; copilot and copilot-gradient
#: solve one problem, so that the first runs only where it is named
_MAX_EXPERTS = {"copilot": 0, "copilot-gradient": 64}

#: servers of a region unless --experts-per-server says otherwise
_SERVERS = 8


def predict(options: PredictOptions, outputs: Outputs) -> None:
    """Score predictors of expert loads on a multi-step log, and the circuits chosen by them.

    Raises
    ------
    InputError
        If an option or the log cannot be used.
    """
    window = options.window
    region = _region(options)
    size = bytes_per_token(options.hidden, options.element_bytes)
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


def _region(options: PredictOptions) -> Region:
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
    if names is None:
        return tuple(name for name in PREDICTORS if experts <= _MAX_EXPERTS.get(name, experts))
    if not names:
        raise InputError(f"--predictors: {expected_one_of(None, PREDICTORS)}")
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"--predictors: '{name}' is named twice")
    return names


def _open(options: PredictOptions, monitor: TerminalMonitor) -> LoadHistory:
    """The loads that the options name, refusing options that nothing would read."""
    if (options.log is None) == (options.synthetic is None):
        raise DemandError("expected either a LOG or --synthetic REGIME")
    if options.synthetic is not None:
        _refuse(options, "a synthetic log", "tokens_per_step", "stages")
        return _draw(options, options.synthetic, monitor)
    assert options.log is not None
    _refuse(options, "a log", "seed", "steps", "layers", "tokens", "experts_per_token")
    if str(options.log) in REGIMES and not options.log.exists():
        raise DemandError(f"{options.log}: no such file; to draw it: --synthetic {options.log}")
    monitor.progress(0.0, f"reading {options.log.name}")
    if is_load_file(options.log):
        ranks = tokens_per_expert_files(options.log)
        _refuse(options, "a table of loads", "tokens_per_step", *(() if ranks else ("stages",)))
        return read_load_file(options.log, experts=options.experts, stages=options.stages)
    return history_of_log(
        read_routing_log(options.log),
        experts=options.experts,
        tokens_per_step=options.tokens_per_step,
        stages=1 if options.stages is None else options.stages,
    )


def _draw(options: PredictOptions, regime: str, monitor: TerminalMonitor) -> LoadHistory:
    if regime == "uniform":
        raise DemandError("--synthetic uniform: equal loads leave nothing to predict")
    shape = {
        name: default if (given := getattr(options, name)) is None else given
        for name, default in _DEFAULTS.items()
    }
    experts = shape["experts"]
    per_server = _per_server(experts, options.experts_per_server)
    if experts % per_server:
        raise DemandError(
            f"{experts} experts do not fill servers of {per_server} experts each; expected a part "
            f"of them: {shown_divisors(experts)}"
        )
    source = synthetic(
        regime,
        ranks=experts // per_server,
        experts=experts,
        tokens_per_rank=shape["tokens"],
        top_k=shape["experts_per_token"],
        seed=0 if options.seed is None else options.seed,
    )
    return history_of_source(
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
