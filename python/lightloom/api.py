"""The functions of the public API that take plain arguments.

They check what they are given as strictly as the command line does: an unknown or wrong argument
raises a :class:`~lightloom.errors.LightloomError` of one line that says what was expected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand.byte_matrix import check_bytes, read_byte_matrix
from lightloom.demand.load_file import is_load_file, read_load_file
from lightloom.demand.load_history import LoadHistory, history_of_log
from lightloom.demand.log_formats import read_routing_log
from lightloom.demand.predictors import PREDICTORS, DemandPredictor, make_predictor
from lightloom.errors import InputError, did_you_mean, echo
from lightloom.fabric import Fabric
from lightloom.inputs.arguments import function, instance, names, path_of, table
from lightloom.inputs.strict import check
from lightloom.models import Model
from lightloom.models.record import model_record
from lightloom.output.sweep import run_sweep
from lightloom.output.sweep_results import SweepResults
from lightloom.packets import Finished, Flows, PacketRun, read_flows
from lightloom.packets.run import Record
from lightloom.packets.run import simulate_flows as run_flows
from lightloom.packets.scenario import PacketScenario
from lightloom.progress import Monitor, Progress, ProgressMonitor
from lightloom.schedule import ALLOCATION_METHODS, CircuitAllocator, Region
from lightloom.schedule.arrays import flag, optional_seconds
from lightloom.simulate import Plugins, PredictorFactory
from lightloom.study.compare import Comparison, Scenario
from lightloom.study.compare.run import compare as compare_fabrics
from lightloom.study.prediction import Evaluation, Prediction, RegionOptions, score_predictors
from lightloom.study.scheduling import MethodChoice, PortBudget, Problem, ScheduleComparison
from lightloom.study.scheduling import compare_schedules as compare_schedulers
from lightloom.study.scheduling.problem import without_diagonal
from lightloom.study.sweep.call import SweepCallOptions
from lightloom.study.sweep.study import SweepStudy, load_sweep
from lightloom.units import parse_quantity

#: predictors that are slow for many experts, tried only where they are named
_SLOW = ("copilot", "copilot-gradient")
#: allocators that are tried unless others are named: those that take no seconds
_ALLOCATORS = tuple(name for name in ALLOCATION_METHODS if name != "exact")
#: six optical NICs of eight, 400 Gb/s each
_REGION = Region(6, 400.0, 800.0)
#: fields of the options of a region that may be given
_REGION_OPTIONS = {"experts_per_server": 1, "token_bytes": 8192, "method": "best"}


def compare(
    model: str | Path | Model | Scenario,
    *,
    gpus: int | None = None,
    rate: float | str | None = None,
    fabrics: Sequence[str | Path | Fabric] | None = None,
    progress: Progress | None = None,
    allocator: CircuitAllocator | None = None,
    predictor: str | PredictorFactory | None = None,
    **options: Any,
) -> Comparison:
    """Compare fabrics for the training of a model.

    Parameters
    ----------
    model
        A name of ``lightloom models``, the path of a ``config.json``, or a :class:`Model`; or a
        whole :class:`Scenario`, which takes no other settings.
    gpus
        Number of GPUs.
    rate
        Rate of a NIC, Gb/s or text such as ``"400 Gb/s"``.
    fabrics
        Names of ``lightloom fabrics``, TOML files, or fabrics as objects; all by default.
    progress
        Called with the share that is done and what is being done; ``False`` stops.
    allocator
        Chooses circuits wherever they follow the demand, instead of the fabric's own.
    predictor
        Predicts the demand that circuits are requested for before it is known: a name of
        ``lightloom predict``, or a function that makes a :class:`DemandPredictor` for a number of
        members.
    **options
        The other fields of :class:`Scenario`: ``seeds``, ``steps``, ``recompute`` ..., and the
        tables ``cluster``, ``plan``, ``demand``, ``packets``, ``fabric_options`` as mappings.

    Raises
    ------
    InputError
        If an argument is unknown or wrong; nothing has run then.
    KeyboardInterrupt
        If it was interrupted, or ``progress`` returned ``False``.

    Examples
    --------
    >>> import lightloom
    >>> comparison = lightloom.compare(
    ...     "mixtral-8x7b", gpus=128, rate="400 Gb/s", fabrics=["fat-tree", "rail"],
    ...     seeds=1, compute_spread=0.0, plan={"micro_batches": 4},
    ... )
    >>> [result.fabric for result in comparison.results]
    ['fat-tree', 'rail']
    """
    named = {"gpus": gpus, "rate": rate, "fabrics": fabrics}
    forecaster = None
    if isinstance(predictor, str):
        named["predictor"] = predictor
    else:
        forecaster = function(predictor, "compare: predictor", "a name or a function")
    scenario = _scenario(model, named, options)
    return compare_fabrics(
        scenario,
        monitor=ProgressMonitor(function(progress, "progress")),
        plugins=Plugins(function(allocator, "compare: allocator"), forecaster),
    )


def _scenario(
    model: str | Path | Model | Scenario, given: Mapping[str, Any], options: dict[str, Any]
) -> Scenario:
    settings = {name: value for name, value in given.items() if value is not None}
    if isinstance(model, Scenario):
        extra = next(iter({**settings, **options}), None)
        if extra is not None:
            raise InputError(f"compare: {extra} is part of the Scenario; set it there")
        return model
    values: dict[str, Any] = {"model": _text(model), **options}
    if isinstance(model, Model):
        values |= {"model": model.name, "model_shape": model_record(model)}
    values |= {key: settings[key] for key in ("gpus", "predictor") if key in settings}
    if "fabrics" in settings:
        names = settings["fabrics"]
        listed = isinstance(names, Sequence) and not isinstance(names, str)
        values["fabrics"] = tuple(map(_text, names)) if listed else names
    cluster = values.setdefault("cluster", {})
    if "rate" in settings and isinstance(cluster, Mapping):
        values["cluster"] = {"rate_gbps": settings["rate"], **cluster}
    return check(Scenario, values, "compare", _argument)


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _argument(key: str) -> str:
    """What a key of a scenario is called among the arguments."""
    return "rate" if key == "cluster.rate_gbps" else key


def sweep(
    study: str | Path | Mapping[str, object],
    *,
    out: str | Path,
    workers: int | None = None,
    on: str | None = None,
    resume: bool = False,
    budget: float | str | None = None,
    progress: Progress | None = None,
) -> SweepResults:
    """Run a study at many points; rows are in the folder as points finish.

    Parameters
    ----------
    study
        The path of a study (TOML) with a table ``[sweep]``, or its tables as mappings.
    out
        Folder of the results.
    workers
        Processes at once; by default one for each core.
    on
        ``"ray"`` or ``"ray://HOST:PORT"``, the cluster that computes.
    resume
        Whether to go on in a folder with results.
    budget
        Begin no point after this time, seconds or text such as ``"30 min"``.
    progress
        Called with the share that is done and how far it is; ``False`` stops.

    Raises
    ------
    InputError
        If the study or the folder cannot be used; nothing has run then.
    KeyboardInterrupt
        If it was interrupted, or ``progress`` returned ``False``; finished rows are there.

    Examples
    --------
    >>> import lightloom, tempfile
    >>> study = {
    ...     "model": "mixtral-8x7b", "gpus": 32, "fabrics": ["fat-tree"], "seeds": 1,
    ...     "compute_spread": 0.0, "cluster": {"gpu": "h100"},
    ...     "plan": {"tp": 2, "pp": 2, "ep": 8, "micro_batches": 2},
    ...     "sweep": {"axes": {"cluster": {"rate_gbps": [200, 400]}}},
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = lightloom.sweep(study, out=folder, workers=1)
    ...     results.to_polars()["rate_gbps"].to_list()
    [200.0, 400.0]
    """
    given: dict[str, object] = {"study": "given", "out": out, "workers": workers, "on": on}
    given |= {"resume": resume, "budget_s": budget}
    options = check(SweepCallOptions, given, "sweep", lambda key: key.removesuffix("_s"))
    if isinstance(study, Mapping):
        read = SweepStudy.of(study, "sweep", Path())
    else:
        read = load_sweep(study)
    return run_sweep(
        read,
        options.out,
        workers=options.workers,
        on=options.on,
        resume=options.resume,
        budget_s=options.budget_s,
        monitor=ProgressMonitor(function(progress, "progress")),
    )


def compare_schedules(
    demand: npt.ArrayLike | str | Path,
    *,
    fixed_s: float | str | None = None,
    rate: float | str = 400.0,
    ports: int | None = None,
    switches: int | None = None,
    eps_rate: float | str = 0.0,
    progress: Progress | None = None,
    **options: Any,
) -> ScheduleComparison:
    """Compare circuit schedulers on one demand.

    Parameters
    ----------
    demand
        Bytes from source to destination, ``(sources, destinations)``, or a file of them.
    fixed_s
        Time that a reconfiguration takes, seconds or text such as ``"25 ms"``; it must be given.
    rate
        Rate of a circuit, Gb/s or text.
    ports
        Optical ports per server, for circuits under a port budget; without it, schedules of
        permutations alone.
    switches
        Switches that every source and destination has a port at, for schedules of permutations
        and other systems alike; ``ports`` by default, else 1.
    eps_rate
        Rate of a server into the packet fabric, Gb/s or text; 0 for none.
    progress
        Called with the share that is done and what comes next; ``False`` stops.
    **options
        Fields of :class:`~lightloom.study.scheduling.MethodChoice`: ``methods`` (``("auto",)``:
        all), ``allocators`` (all but ``exact``), ``time_limit_s``, ``systems``, ``relay`` and
        ``planes``.

    Raises
    ------
    InputError
        If an argument is unknown or wrong.

    Examples
    --------
    >>> import lightloom
    >>> demand = [[0, 8_000, 1_000], [2_000, 0, 5_000], [3_000, 4_000, 0]]
    >>> lightloom.compare_schedules(demand, fixed_s="1 us", rate="100 Gb/s").winner
    'round-robin'
    """
    choice = [field.name for field in fields(MethodChoice)]
    _refuse_unknown("compare_schedules", options, [*choice, "fixed_s"])
    if fixed_s is None:
        raise InputError("compare_schedules: fixed_s is missing; add it, such as fixed_s='25 ms'")
    whole = {"ports": ports, "switches": switches}
    for key, value in whole.items():
        if value is not None and not isinstance(value, int | np.integer):
            raise InputError(f"compare_schedules: {key} = {echo(value)}: expected a whole number")
    name, matrix = _demand(demand)
    rate_gbps = parse_quantity(rate, "gigabit / second", "rate")
    budget = None
    if ports is not None:
        budget = PortBudget(ports, parse_quantity(eps_rate, "gigabit / second", "eps_rate"))
    sent, _ = without_diagonal(matrix)
    delay_s = parse_quantity(fixed_s, "second", "fixed_s")
    problem = Problem(name, sent, rate_gbps, delay_s, budget=budget, switches=switches)
    return compare_schedulers(problem, _choice(options), progress=function(progress, "progress"))


def _choice(options: Mapping[str, Any]) -> MethodChoice:
    """Which methods are tried; refuses options of a wrong type."""
    values = {"methods": ("auto",), "allocators": _ALLOCATORS, **options}
    for name in ("methods", "allocators", "systems"):
        if name in values:
            values[name] = names(values[name], f"compare_schedules: {name}")
    for name in ("relay", "planes"):
        if name in values:
            values[name] = flag(values[name], f"compare_schedules: {name}")
    limit_s = optional_seconds(values.get("time_limit_s"), "compare_schedules: time_limit_s")
    return MethodChoice(**{**values, "time_limit_s": limit_s})


def _demand(demand: npt.ArrayLike | str | Path) -> tuple[str, npt.NDArray[np.uint64]]:
    if isinstance(demand, str | Path):
        return Path(demand).name, read_byte_matrix(demand)
    try:
        matrix = np.asarray(demand)
    except ValueError:
        raise InputError("demand: expected rows of one length") from None
    return "demand", check_bytes(matrix, "demand")


def _refuse_unknown(function: str, options: Mapping[str, Any], names: Sequence[str]) -> None:
    unknown = next((name for name in options if name not in names), None)
    if unknown is not None:
        hint = did_you_mean(unknown, names)
        raise InputError(
            f"{function}: unknown argument {unknown!r}; known: {', '.join(names)}{hint}"
        )


def simulate_flows(
    flows: Flows | str | Path,
    *,
    hosts: int | None = None,
    rate: float | str | None = None,
    transport: str | Mapping[str, Any] = "dctcp",
    seed: int = 1,
    record: Record | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> PacketRun:
    """Simulate flows packet by packet.

    Parameters
    ----------
    flows
        From :func:`make_flows`, or a table of them.
    hosts, rate
        Hosts of the network and the rate of their links, Gb/s or text.
    transport
        ``roce``, ``dctcp``, ``mptcp``, ``dcqcn``, ``hpcc``, ``swift``, ``ndp``, ``eqds``,
        ``uet-nscc``, ``uet-rccc``, ``ideal``; or a table of its name and its parameters.
    seed
        Of all random choices.
    record
        What is kept in addition to completions.
    progress
        Called with the share that is done; ``False`` stops.
    **options
        Other fields of :class:`~lightloom.packets.Scenario`: ``packet``, ``queue``, ``until_s``,
        and ``network``, a mapping of other fields of :class:`~lightloom.packets.Network`, such as
        ``topology``.

    Raises
    ------
    InputError
        If an argument is unknown or wrong; nothing is simulated then.
    StuckError
        If flows will never finish.

    Examples
    --------
    >>> import lightloom
    >>> flows = lightloom.make_flows([0, 1], [2, 3], 1_000_000)
    >>> run = lightloom.simulate_flows(flows, hosts=16, rate="100 Gb/s", transport="ideal")
    >>> bool((run.slowdown < 1.01).all())
    True
    """
    network = options.pop("network", {})
    table(network, "simulate_flows: network")
    single_switch = {"hosts": hosts, "rate_gbps": rate}
    values: dict[str, Any] = {"transport": transport, "seed": seed, **options}
    values["network"] = {key: value for key, value in single_switch.items() if value is not None}
    values["network"] |= network
    scenario = check(PacketScenario, values, "simulate_flows", _network_argument)
    listed = flows if isinstance(flows, Flows) else read_flows(flows)
    monitor: Monitor[Finished] = ProgressMonitor(function(progress, "progress"))
    kept = Record() if record is None else instance(record, Record, "record", "a Record")
    return run_flows(listed, scenario, record=kept, monitor=monitor)


def _network_argument(key: str) -> str:
    return {"network.hosts": "hosts", "network.rate_gbps": "rate"}.get(key, key)


def predict(
    loads: LoadHistory | str | Path,
    predictors: Sequence[str] | Mapping[str, DemandPredictor] | None = None,
    *,
    region: Region = _REGION,
    window: int = 32,
    top_k: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Prediction:
    """Score predictors of expert loads, and the circuits that are chosen by them.

    Parameters
    ----------
    loads
        Loads of experts over steps and layers; or a file of loads or of routing.
    predictors
        Names, or custom predictors by name (objects with the methods of
        :class:`DemandPredictor`); all that are fast enough by default.
    region
        Ports and rates of the servers whose circuits are chosen.
    window
        Steps over which predictors fit, and before which none is scored.
    top_k
        Busiest experts to be found; a quarter of them by default.
    progress
        Called with the share that is done and what is being done; ``False`` stops.
    **options
        Other fields of :class:`~lightloom.study.prediction.RegionOptions`:
        ``experts_per_server`` (1), ``token_bytes`` (8192) and ``method`` (``"best"``).

    Raises
    ------
    InputError
        If an argument or the loads cannot be used.

    Examples
    --------
    >>> import lightloom
    >>> from lightloom.demand import history_of_source
    >>> source = lightloom.synthetic(
    ...     "volatile", ranks=4, experts=4, tokens_per_rank=4096, top_k=2, seed=1
    ... )
    >>> loads = history_of_source(source, steps=8, layers=2, synthetic=True)
    >>> prediction = lightloom.predict(loads, ["last-step", "ridge"], window=4)
    >>> [score.predictor for score in prediction.scores]
    ['last-step', 'ridge', 'static circuits']
    """
    monitor: Monitor[Any] = ProgressMonitor(function(progress, "progress"))
    history = loads if isinstance(loads, LoadHistory) else _read_loads(loads)
    _refuse_unknown("predict", options, list(_REGION_OPTIONS))
    instance(region, Region, "predict: region", "a Region")
    chosen = RegionOptions(region=region, **{**_REGION_OPTIONS, **options})
    by_name = _predictors(predictors, history, window)
    evaluation = Evaluation(history, top_k=top_k, window=window, options=chosen)
    return score_predictors(evaluation, by_name, window=window, monitor=monitor)


def _predictors(predictors: Any, history: LoadHistory, window: int) -> dict[str, DemandPredictor]:
    """The predictors that are scored, by name."""
    if isinstance(predictors, Mapping):
        for name, item in predictors.items():
            if not callable(getattr(item, "predict", None)):
                shown = f"{echo(name)} = {echo(item)}"
                raise InputError(f"predict: {shown}: expected a DemandPredictor")
        return dict(predictors)
    chosen = [name for name in PREDICTORS if name not in _SLOW]
    if predictors is not None:
        chosen = list(names(predictors, "predict: predictors"))
    return {name: make_predictor(name, history.experts, window=window) for name in chosen}


def _read_loads(given: object) -> LoadHistory:
    path = path_of(given, "predict: loads", "loads, or the path of a file of them")
    if is_load_file(path):
        return read_load_file(path)
    return history_of_log(read_routing_log(path))
