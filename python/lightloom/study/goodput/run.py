"""The goodput of a job: one step on every fabric, one without each kind of part, then many runs.

What a fabric does without a part is what ``compare --fail`` simulates. A large job is simulated
with all parts, and without parts with fewer replicas, whose step is longer by nearly the same
share: a failed part holds up its own replica, and all others wait.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lightloom.errors import InputError, expected_one_of
from lightloom.fabric import Cluster
from lightloom.hardware import (
    FailureRates,
    Provenance,
    load_failure_rates,
    load_gpu,
    load_ownership,
)
from lightloom.hardware.failure_rates import DAYS_PER_YEAR, published_runs
from lightloom.progress import Monitor
from lightloom.study.compare.job import cluster_of, load_fabrics, model_of
from lightloom.study.compare.plan_candidates import Candidates
from lightloom.study.compare.racks import with_servers
from lightloom.study.compare.results import Comparison, FabricResult
from lightloom.study.compare.run import compare
from lightloom.study.compare.runner import Row
from lightloom.study.compare.scenario import Scenario
from lightloom.study.goodput.closed_forms import daly_interval_s, useful_share
from lightloom.study.goodput.options import SURVIVED, RecoveryOptions
from lightloom.study.goodput.outages import FailureClass, Outages, draw_outages
from lightloom.study.goodput.results import (
    SECONDS_PER_DAY,
    FabricGoodput,
    Goodput,
    IntervalResult,
    KindLoss,
    SparesResult,
)
from lightloom.study.goodput.walk import SPENT, Recovery, TimeSpent, spend

SECONDS_PER_YEAR = DAYS_PER_YEAR * SECONDS_PER_DAY
#: replicas of a job on which failed parts are simulated
REPLICAS = 2
#: spare servers that are tried at most: a server for so many of 8 GPUs
SPARED = 8
#: kinds of interruptions that leave all parts whole, and are on purpose
PLANNED = ("maintenance",)
#: multiples of the interval that are simulated, too
INTERVALS = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class GoodputSetting:
    """What holds for all fabrics of a goodput.

    Attributes
    ----------
    rates
        How often parts fail, and what an interruption takes.
    options
        What the user has said about it.
    gpus
        GPUs of the job.
    checkpoint_s
        Time for which a checkpoint stops the training.
    seed
        Of all draws.
    """

    rates: FailureRates
    options: RecoveryOptions
    gpus: int
    checkpoint_s: float
    seed: int

    @property
    def horizon_s(self) -> float:
        """How long a run is."""
        return self.options.days * SECONDS_PER_DAY

    @property
    def repair_s(self) -> float:
        """Mean time until a part is repaired."""
        repair_s = self.options.repair_s
        return self.rates.repair_days.value * SECONDS_PER_DAY if repair_s is None else repair_s

    def recovery(self, interval_s: float, spares: int) -> Recovery:
        """What the job does about failures, with an interval and spare servers."""
        options = self.options
        return Recovery(
            interval_s,
            self.checkpoint_s,
            self.rates.detection_s.value if options.detection_s is None else options.detection_s,
            self.rates.restart_s.value if options.restart_s is None else options.restart_s,
            spares,
        )

    def interval_s(self, between_s: float) -> float:
        """Training time between checkpoints."""
        if self.options.interval_s is not None:
            return self.options.interval_s
        return max(daly_interval_s(self.checkpoint_s, between_s), 1.0)


def goodput(
    scenario: Scenario,
    options: RecoveryOptions | None = None,
    *,
    monitor: Monitor[Row] | None = None,
) -> Goodput:
    """Simulate how much of its time a job trains usefully, on all fabrics of a scenario.

    Parameters
    ----------
    scenario
        The job, as for a comparison; ``fail`` may name the parts that stand for their kinds.
    options
        What the job does about failures.
    monitor
        Takes the job's summary, progress and remarks.

    Raises
    ------
    InputError
        If anything cannot be used; nothing has run then.
    """
    options = options or RecoveryOptions()
    watcher: Monitor[Row] = monitor or Monitor()
    _check(scenario, options)
    single = scenario.model_copy(
        update={"policies": False, "imbalances": False, "seeds": 1, "compute_spread": 0.0,
                "steps": 1, "fail": ()}
    )  # fmt: skip
    whole, part = _compared(single, scenario.fail, watcher)
    rates = load_failure_rates()
    setting = GoodputSetting(
        rates, options, scenario.gpus, _checkpoint_s(whole, options), scenario.seed
    )
    cases = []
    for number, result in enumerate(whole.results):
        watcher.progress(number / len(whole.results), f"drawing failures: {result.fabric}")
        cases.append(_case(setting, result, part, whole))
    spares = cheapest_spares(cases) if options.spares is None else options.spares
    results = [_of_fabric(setting, case, spares) for case in cases]
    return Goodput(
        _inputs(scenario, setting, part),
        tuple(results),
        tuple(_published(setting)),
        tuple(whole.inputs["summary"]),
        whole.warnings,
    )


def _check(scenario: Scenario, options: RecoveryOptions) -> None:
    if scenario.model is None and scenario.model_shape is None:
        raise InputError("goodput is of a model, whose state is written to checkpoints; give one")
    for kind in options.survives:
        if kind not in SURVIVED:
            raise InputError(f"survives {kind}: {expected_one_of(kind, SURVIVED)}")
    if options.days * options.runs * scenario.gpus > 1e10:
        raise InputError(
            f"{options.runs:,} runs of {options.days:g} days on {scenario.gpus:,} GPUs are more "
            "than can be drawn; expected fewer runs or days"
        )


def _parts(scenario: Scenario) -> tuple[str, ...]:
    """Parts that stand for all of their kind: of servers in the middle of each quarter.

    Stages of a pipeline follow each other in the order of servers, and a part costs more in later
    ones.
    """
    scenario = with_servers(scenario, model_of(scenario))
    cluster = cluster_of(scenario, load_gpu(scenario.cluster.gpu))
    clusters = [fabric.adapt(cluster) for fabric in load_fabrics(scenario)]
    servers = min(cluster.servers for cluster in clusters)
    nics = min(cluster.nics_per_server for cluster in clusters)
    places = [servers * (2 * quarter + 1) // 8 for quarter in range(4)]
    named = [f"{kind}:{place}" for kind in ("server", "gpu") for place in places]
    named = [name + "/0" * name.startswith("gpu") for name in named]
    named += [f"nic:{places[2]}/{number}" for number in (0, nics - 1)]
    return tuple(dict.fromkeys([*named, "tor:0", "ocs:0"]))


def _compared(
    scenario: Scenario, parts: tuple[str, ...], watcher: Monitor[Row]
) -> tuple[Comparison, Comparison]:
    """The job with all parts, and the job without each; fewer replicas of it, if none is named."""
    smaller = None if parts else _smaller(scenario)
    if smaller is None:
        fail = parts or _parts(scenario)
        both = compare(scenario.model_copy(update={"fail": fail}), monitor=watcher)
        return both, both
    whole = compare(scenario, monitor=watcher)
    watcher.remark(f"failed parts: simulated on {smaller.gpus:,} of the {scenario.gpus:,} GPUs")
    quiet = _Quiet(watcher)
    return whole, compare(smaller.model_copy(update={"fail": _parts(smaller)}), monitor=quiet)


class _Quiet(Monitor[Row]):
    """Hands on progress alone: the job has been said."""

    def __init__(self, watcher: Monitor[Row]) -> None:
        self._watcher = watcher

    def progress(self, share: float, activity: str = "", /) -> bool | None:
        return self._watcher.progress(share, activity)


def _smaller(scenario: Scenario) -> Scenario | None:
    """The job with few replicas, if its plan is stated and scaled to the GPUs."""
    model, degrees = model_of(scenario), scenario.plan
    if (
        degrees.source == "search"
        or degrees.dp is not None
        or degrees.global_batch_size is not None
    ):
        return None
    stated = Candidates(with_servers(scenario, model), model, None).stated
    if stated is None or stated.dp <= REPLICAS:
        return None
    return scenario.model_copy(update={"gpus": scenario.gpus // stated.dp * REPLICAS})


def _checkpoint_s(comparison: Comparison, options: RecoveryOptions) -> float:
    """Time for which a checkpoint stops the training: what is kept, over the rate of the GPUs."""
    if options.checkpoint_s is not None:
        return options.checkpoint_s
    job = comparison.details["job"].of_model
    state_bytes = comparison.inputs["model"]["parameters"] * job.fitted.options.optimizer_bytes
    rate = load_failure_rates().checkpoint_bytes_per_s_per_gpu.value
    return float(state_bytes / (rate * job.scenario.gpus))


def classes_of(
    setting: GoodputSetting, failed: FabricResult, cluster: Cluster, scale: float
) -> list[FailureClass]:
    """Return what may fail on a fabric, and what follows.

    Parameters
    ----------
    setting
        What holds for all fabrics.
    failed
        The fabric's step without each part.
    cluster
        Its servers.
    scale
        How many times more parts there are than where that was simulated.
    """
    rates, survives = setting.rates, setting.options.survives
    by_kind: dict[str, list[FailureClass]] = {}
    for kind in dict.fromkeys(str(failure.kind) for failure in failed.failures):
        outcomes = [failure for failure in failed.failures if failure.kind == kind]
        for outcome in outcomes:
            if outcome.is_unaffected or not outcome.mean_out:
                continue
            per_day = scale * outcome.mean_out / rates.repair_days.value / len(outcomes)
            by_kind.setdefault(kind, []).append(
                FailureClass(
                    str(kind),
                    per_day / SECONDS_PER_DAY,
                    setting.repair_s,
                    outcome.longer_share or 0.0,
                    outcome.spare_servers,
                    stops=outcome.step_time_s is None,
                    interrupts=kind not in survives,
                )
            )
    if "link" not in by_kind and "nic" in by_kind:
        ratio = rates.per_year["link"].value / rates.per_year["nic"].value
        by_kind["link"] = [
            dataclasses.replace(failure, kind="link", per_s=ratio * failure.per_s,
                                interrupts="link" not in survives)
            for failure in by_kind["nic"]
        ]  # fmt: skip
    classes = [failure for kind in by_kind.values() for failure in kind]
    return [*classes, *_power(setting, classes, cluster), *_of_job(setting)]


def _power(
    setting: GoodputSetting, classes: Sequence[FailureClass], cluster: Cluster
) -> Iterator[FailureClass]:
    """Racks and rows, all of whose servers fail at once, each as the worst of servers."""
    rates = setting.rates
    longer = max(
        (failure.longer_share for failure in classes if failure.kind == "server"), default=0.0
    )
    sizes = {"rack": rates.servers_per_rack.value, "row": rates.servers_per_row.value}
    # of servers of 8 GPUs
    larger = max(1.0, cluster.gpus_per_server / 8)
    servers = -(-setting.gpus // cluster.gpus_per_server)
    for kind, size in sizes.items():
        each = max(1.0, size / larger)
        per_s = rates.power_per_year[kind].value * servers / each / SECONDS_PER_YEAR
        yield FailureClass(
            kind,
            per_s,
            rates.power_repair_days.value * SECONDS_PER_DAY,
            longer,
            min(round(each), servers),
        )


def _of_job(setting: GoodputSetting) -> Iterator[FailureClass]:
    """What interrupts the job and leaves all parts whole."""
    for kind, per_year in setting.rates.job_per_year.items():
        per_s = setting.gpus * per_year.value / DAYS_PER_YEAR / SECONDS_PER_DAY
        yield FailureClass(kind, per_s, is_planned=kind in PLANNED)


def between_s(classes: Sequence[FailureClass]) -> float:
    """Mean time between failures after which the job computes something again."""
    per_s = sum(class_.per_s for class_ in classes if class_.interrupts and not class_.is_planned)
    return 1 / per_s if per_s else math.inf


@dataclass(frozen=True)
class FabricCase:
    """A fabric, what fails on it, and the job with each number of spare servers.

    ``servers`` are those of the job, and ``server_usd`` what each costs.
    """

    result: FabricResult
    outages: Outages
    interval_s: float
    servers: int
    server_usd: float
    by_spares: tuple[SparesResult, ...]

    def usd_per_step(self, spares: int) -> float:
        """Dollars of cluster and spare servers per useful step a day; infinity for none."""
        case = next(case for case in self.by_spares if case.spares == spares)
        steps = case.useful_steps_per_day
        return (self.result.cluster_cost_usd + case.cost_usd) / steps if steps else math.inf


def _case(
    setting: GoodputSetting, result: FabricResult, part: Comparison, whole: Comparison
) -> FabricCase:
    job = whole.details["jobs"][result.fabric]
    fabric = next(candidate for candidate in job.fabrics if candidate.name == result.fabric)
    cluster = fabric.adapt(job.cluster)
    scale = setting.gpus / part.inputs["scenario"]["gpus"]
    classes = classes_of(setting, part.result(result.fabric), cluster, scale)
    outages = draw_outages(classes, setting.horizon_s, setting.options.runs, setting.seed)
    servers = -(-setting.gpus // cluster.gpus_per_server)
    server_usd = (result.cluster_cost_usd - result.network_cost_usd) / servers
    case = FabricCase(
        result, outages, setting.interval_s(between_s(classes)), servers, server_usd, ()
    )
    most = setting.gpus // 8 // SPARED
    numbers = [0, *(2**power for power in range(20) if 2**power <= max(1, most))]
    return dataclasses.replace(case, by_spares=tuple(_spares(setting, case, numbers)))


def _of_fabric(setting: GoodputSetting, case: FabricCase, spares: int) -> FabricGoodput:
    result, outages = case.result, case.outages
    classes, interval_s = outages.classes, case.interval_s
    mean_s = between_s(classes)
    spent = spend(outages, setting.recovery(interval_s, spares))
    share = spent.useful_share
    error = 1.96 * float(share.std(ddof=1)) / len(share) ** 0.5 if len(share) > 1 else 0.0
    mean = float(share.mean())
    ownership = load_ownership()
    power_w = result.cluster_power_w * (1 + spares / case.servers)
    cost_usd = result.cluster_cost_usd + spares * case.server_usd
    tokens_per_s = (result.tokens_per_s or 0.0) * mean
    low, high = (float(value) for value in np.percentile(share, [5, 95]))
    return FabricGoodput(
        result.fabric,
        result.kind,
        result.step_time_s,
        mean,
        max(0.0, mean - error),
        min(1.0, mean + error),
        low,
        high,
        mean * SECONDS_PER_DAY / result.step_time_s,
        tokens_per_s * SECONDS_PER_DAY,
        float(spent.interruptions.mean()) / setting.options.days,
        mean_s,
        interval_s,
        spares,
        {name: spent.mean_share(name) for name in SPENT},
        tuple(_kinds(setting, classes, outages, spent)),
        case.by_spares,
        tuple(_intervals(setting, outages, interval_s, mean_s, spares)),
        1e12 * ownership.usd_per_token(cost_usd, power_w, tokens_per_s) if mean else math.inf,
        ownership.energy_per_token_j(power_w, tokens_per_s) if mean else math.inf,
    )


def _kinds(
    setting: GoodputSetting, classes: Sequence[FailureClass], outages: Outages, spent: TimeSpent
) -> Iterator[KindLoss]:
    for kind in spent.kinds:
        mine = [class_ for class_ in classes if class_.kind == kind]
        names = [name for name in SPENT if name not in ("useful", "checkpoints")]
        yield KindLoss(
            kind,
            float(outages.count(kind).mean()) / setting.options.days,
            statistics.fmean(class_.longer_share for class_ in mine),
            {name: spent.mean_share(name, kind) for name in names},
        )


def _spares(
    setting: GoodputSetting, case: FabricCase, numbers: Sequence[int]
) -> Iterator[SparesResult]:
    """The job with ever more spare servers."""
    result, before = case.result, None
    for number in numbers:
        spent = spend(case.outages, setting.recovery(case.interval_s, number))
        share = float(spent.useful_share.mean())
        steps = share * SECONDS_PER_DAY / result.step_time_s
        each, pays = None, before is None
        if before is not None:
            gained = steps - before.useful_steps_per_day
            cost = (number - before.spares) * case.server_usd
            each = cost / gained if gained > 0 else None
            pays = each is not None and each < result.cluster_cost_usd / steps
        before = SparesResult(number, number * case.server_usd, share, steps, each, pays)
        yield before


def cheapest_spares(cases: Sequence[FabricCase]) -> int:
    """Return the number of spare servers with which a useful step costs the least.

    It is one for all fabrics, which are compared: the mean of the logarithms of dollars counts.
    """

    def usd(number: int) -> float:
        return sum(math.log(case.usd_per_step(number)) for case in cases)

    return min((case.spares for case in cases[0].by_spares), key=usd)


def _intervals(
    setting: GoodputSetting, outages: Outages, interval_s: float, mean_s: float, spares: int
) -> Iterator[IntervalResult]:
    if mean_s == math.inf:
        return
    for factor in INTERVALS:
        recovery = setting.recovery(factor * interval_s, spares)
        yield IntervalResult(
            recovery.interval_s,
            float(spend(outages, recovery).useful_share.mean()),
            useful_share(
                recovery.interval_s,
                recovery.checkpoint_s,
                recovery.detection_s + recovery.restart_s,
                mean_s,
            ),
        )


def _published(setting: GoodputSetting) -> Iterator[dict[str, Any]]:
    """Published runs, and what the same rates say in closed form of jobs of their size.

    Of parts that every fabric has: GPUs, servers, NICs, links, and what is of the job.
    """
    rates, recovery = setting.rates, setting.recovery(1.0, 0)
    per_gpu = sum(rates.per_year[kind].value for kind in ("gpu", "nic", "link"))
    per_gpu += rates.per_year["server"].value / 8 + rates.job_per_year["software"].value
    planned = rates.job_per_year["maintenance"].value
    for run in published_runs():
        mean_s = SECONDS_PER_YEAR / (run.gpus * per_gpu)
        checkpoint_s = setting.checkpoint_s * setting.gpus / run.gpus
        restart_s = recovery.detection_s + recovery.restart_s
        share = useful_share(daly_interval_s(checkpoint_s, mean_s), checkpoint_s, restart_s, mean_s)
        share *= 1 - run.gpus * planned / SECONDS_PER_YEAR * recovery.restart_s
        per_day = run.gpus * (per_gpu + planned) / DAYS_PER_YEAR
        yield run.model_dump() | {
            "model_share": share,
            "model_interruptions": None if run.days is None else per_day * run.days,
        }


def _inputs(scenario: Scenario, setting: GoodputSetting, part: Comparison) -> dict[str, Any]:
    recovery = setting.recovery(1.0, 0)
    rates = setting.rates

    def sourced(values: Mapping[str, Provenance]) -> dict[str, Any]:
        return {name: asdict(value) for name, value in values.items()}

    return {
        "scenario": scenario.model_dump(mode="json", exclude_defaults=True),
        "recovery": setting.options.model_dump(mode="json"),
        "failed_parts": list(part.inputs["scenario"]["fail"]),
        "failed_parts_gpus": part.inputs["scenario"]["gpus"],
        "checkpoint_s": setting.checkpoint_s,
        "detection_s": recovery.detection_s,
        "restart_s": recovery.restart_s,
        "repair_s": setting.repair_s,
        "rates_per_year": {
            "part": sourced(rates.per_year),
            "power": sourced(rates.power_per_year),
            "gpu_of_the_job": sourced(rates.job_per_year),
        },
    }
