"""Compare fabrics for one training job.

Every sample (seed, step, compute speed) is built once and run on every fabric, so that what
differs between fabrics is the fabric alone. Each fabric first finds what it leaves open
(``strategies.py``), then all samples run, then the first one again under other loads
(``imbalance.py``). What is not simulated whole, ``budget.py`` decides. Where a search
finds another plan for some fabrics, each plan is a job with fabrics of its own, and their results
are joined. Runs go in parallel, a core each; the interpreter lock is released while they run. All
fabrics are planned and priced before the first run, so that wrong input is refused before anything
is simulated or written.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lightloom.errors import InputError
from lightloom.fabric import Fabric
from lightloom.fabric.network import Ocs
from lightloom.hardware import load_ownership
from lightloom.progress import Monitor
from lightloom.simulate import Phases, Plugins, PredictorFactory, Run
from lightloom.simulate.plugins import BUILT_IN
from lightloom.simulate.predictor import check_predictor
from lightloom.study.compare import strategies
from lightloom.study.compare.budget import Budget
from lightloom.study.compare.builds import FewReplicas, Networks, Workloads
from lightloom.study.compare.designs import Design, tuned
from lightloom.study.compare.equal_cost import EqualCost, at_equal_cost
from lightloom.study.compare.failed_parts import (
    FabricOfJob,
    Failure,
    check_servers,
    check_switches,
    failures_of,
    named_parts,
)
from lightloom.study.compare.forecast import LONG_S, Requirements, forecast
from lightloom.study.compare.imbalance import LEARNED, is_load_of, other_loads
from lightloom.study.compare.job import Job
from lightloom.study.compare.lost_parts import lacks_packet_links
from lightloom.study.compare.other_strategies import (
    OtherStrategy,
    as_own,
    fastest_strategies,
    other_strategies,
)
from lightloom.study.compare.packets import (
    check_recording,
    check_size,
    instead,
    packets_like,
    phases_by_fabric,
    prediction,
    whole_steps,
)
from lightloom.study.compare.part_step import PartStep
from lightloom.study.compare.plan_search import planned_jobs
from lightloom.study.compare.policies import as_never
from lightloom.study.compare.program_job import given_job
from lightloom.study.compare.results import Comparison, Sample
from lightloom.study.compare.runner import (
    Attempt,
    Done,
    Row,
    Runner,
    RunProgress,
    Tally,
    run_all,
)
from lightloom.study.compare.scenario import PacketOptions, Scenario, packet_options
from lightloom.study.compare.summary import (
    comparison_of,
    joined,
    summary_of_all,
)
from lightloom.study.compare.variants import (
    OWN,
    packaged_links,
    switching_variants,
    traffic_variants,
)


@dataclass
class _Case:
    """The job under one load; ``imbalance`` is empty for the scenario's own.

    A long step has two of them: the whole one has the first sample alone, and that on a part of
    it all samples without variants.
    """

    imbalance: str
    job: Job
    with_timeline: bool = False
    with_samples: bool = True
    with_variants: bool = True
    #: few replicas that are simulated in place of all
    few: FewReplicas | None = None
    #: strategy of the all-to-alls of each fabric, where the plan leaves it open
    taken: dict[str, str] = field(default_factory=dict)
    workloads: Workloads = field(init=False)
    networks: Networks = field(init=False)
    _failures: dict[tuple[Fabric, ...], dict[str, list[Failure]]] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        self.workloads = Workloads(self.job)
        self.networks = Networks(self.job, self.workloads, self.few)

    @cached_property
    def trials(self) -> list[Attempt]:
        """Runs that tell which candidate of each fabric suits the job."""
        if self.imbalance in LEARNED or not Budget(self.job).tries_candidates:
            return []
        return strategies.trials(
            self.job.fabrics,
            self.networks,
            self.job.samples()[0],
            with_timeline=self.with_timeline,
            imbalance=self.imbalance,
        )

    @cached_property
    def other_strategies(self) -> list[OtherStrategy]:
        """Strategies of all-to-alls that are tried, where the plan leaves them open."""
        return other_strategies(self.job)

    def strategy_trials(self) -> list[Attempt]:
        """Runs of the first sample that tell which strategy of all-to-alls suits each fabric."""
        if not self.with_variants or self.imbalance:
            return []
        sample = self.job.samples()[0]
        return [
            Attempt(fabric, sample, strategy, self.with_timeline)
            for fabric in self.job.fabrics
            for strategy in self.other_strategies
        ]

    def workloads_taken(self) -> dict[str, Workloads]:
        """The steps of each fabric with the strategy that it takes."""
        steps = {strategy.strategy: strategy.own for strategy in self.other_strategies}
        return {fabric: steps[strategy] for fabric, strategy in self.taken.items()}

    @property
    def is_packets(self) -> bool:
        """Whether runs are simulated as packets; trials are flows even so."""
        return self.job.scenario.network == "packet"

    def attempts(self) -> Iterator[Attempt]:
        """All samples and, of the first, all variants; of another load the first sample alone."""
        samples = self.job.samples()
        for sample in samples[:1] if self.imbalance or not self.with_samples else samples:
            is_first = sample == samples[0]
            for fabric in self.job.fabrics:
                with_timeline = self.with_timeline and is_first
                yield Attempt(fabric, sample, OWN, with_timeline, self.imbalance)
                if is_first and not self.imbalance and self.with_variants:
                    yield from self._variants(fabric, sample)

    def _variants(self, fabric: Fabric, sample: Sample) -> Iterator[Attempt]:
        scenario = self.job.scenario
        for variant, changed in switching_variants(fabric, scenario.policies).items():
            yield Attempt(changed, sample, variant)
        for variant, changed in packaged_links(fabric, scenario.cluster.profile).items():
            yield Attempt(changed, sample, variant)
        for changed_traffic in traffic_variants(scenario.traffic.priorities):
            yield Attempt(fabric, sample, changed_traffic)
        for strategy in self.other_strategies:
            yield Attempt(fabric, sample, strategy, self.with_timeline)
        if not scenario.fail:
            return
        for failure in self.failures()[fabric.name]:
            if failure.fabric is not None:
                yield Attempt(failure.fabric, sample, failure.variant)

    def failures(self) -> dict[str, list[Failure]]:
        """What each part that fails means for each fabric, by the fabric's name."""
        fabrics, networks = self.job.fabrics, self.networks
        if not self.job.scenario.fail:
            return {fabric.name: [] for fabric in fabrics}
        if fabrics in self._failures:
            return self._failures[fabrics]
        sample = self.job.samples()[0]
        compared = [
            FabricOfJob(
                fabric,
                networks.cluster(fabric),
                networks.get(fabric),
                self.workloads.get(sample, networks.server_size(fabric)).graph,
            )
            for fabric in fabrics
        ]
        self._failures[fabrics] = failures_of(compared, named_parts(self.job.scenario.fail))
        return self._failures[fabrics]

    def check_failures(self) -> None:
        """Refuse parts that no fabric has, and lost NICs where packets are simulated."""
        for fabric in self.job.fabrics:
            if self.is_packets and lacks_packet_links(self.networks.get(fabric)):
                raise InputError(
                    f"{fabric.name}: failed: NICs of packet switches fail in flows only: leave them"
                    " out, or simulate no packets"
                )
        for failure in itertools.chain(*self.failures().values()):
            if failure.fabric is None or not self.is_packets:
                continue
            network = self.networks.get(failure.fabric)
            if lacks_packet_links(network):
                raise InputError(
                    f"fail {failure.part.name}: NICs of packet switches fail in flows only: leave"
                    " out the part, or simulate no packets"
                )

    def choose(self, done: Sequence[Done], slower: strategies.Slower) -> list[Done]:
        """Keep the candidate of the fastest trial of each fabric; its run counts as the fabric's.

        ``slower`` are those that a short step has ruled out. Packets are simulated for
        what was fastest as flows, so that no run is left over then.
        """
        fastest = strategies.fastest(done)
        for name, trial in fastest.items():
            reason = strategies.reason(trial, done, slower.get(name, {}))
            self.networks.explain(trial.attempt.fabric, trial.attempt.variant, reason)
        fabrics = [
            fastest[fabric.name].attempt.fabric if fabric.name in fastest else fabric
            for fabric in self.job.fabrics
        ]
        self.job = dataclasses.replace(self.job, fabrics=tuple(fabrics))
        if self.is_packets:
            return []
        return [
            strategies.as_chosen(trial, self.networks.get(trial.attempt.fabric))
            for trial in fastest.values()
        ]


def compare(
    scenario: Scenario,
    *,
    monitor: Monitor[Row] | None = None,
    with_timeline: bool = False,
    plugins: Plugins = BUILT_IN,
) -> Comparison:
    """Simulate a scenario on all its fabrics.

    Parameters
    ----------
    scenario
        What to compare; its ``seed`` makes the result reproducible.
    monitor
        Takes the job's summary, progress, remarks and the row of each finished run.
    with_timeline
        Keep the timeline of the first sample's runs, for pages and timelines.
    plugins
        What chooses circuits, wherever a fabric's follow the demand, and predicts the demand,
        instead of the fabric's allocator and of the predictor that the scenario names.

    Raises
    ------
    InputError
        If anything in the scenario cannot be used; nothing has run then.
    KeyboardInterrupt
        If it was interrupted, or the monitor returned ``False``; running simulations are stopped
        first.
    """
    watcher: Monitor[Row] = monitor or Monitor()
    named_parts(scenario.fail)
    _begin(watcher, "reading")
    step_job = given_job(scenario, watcher.progress)
    jobs: list[Job] = list(planned_jobs(scenario, watcher)) if step_job is None else [step_job]
    if step_job is not None:
        scenario = step_job.scenario
    tried: list[Design] = []
    if scenario.designs == "tuned":
        jobs, tried = tuned(jobs, watcher)
    equal: list[EqualCost] = []
    if scenario.designs == "equal-cost":
        jobs, equal = at_equal_cost(jobs)
    plugins = Plugins(plugins.allocator, _predictor(scenario, plugins))
    check_recording(scenario, is_written=with_timeline)
    works = [_Work(job, with_timeline) for job in jobs]
    for work in works:
        work.check_servers()
    watcher.begun(
        summary_of_all(jobs), list(dict.fromkeys(text for job in jobs for text in job.warnings()))
    )
    _begin(watcher, "planning fabrics")
    forecasts = [requirements for work in works if (requirements := work.forecast()) is not None]
    if forecasts and (expected := Requirements.of_all(forecasts)).seconds > LONG_S:
        watcher.remark(expected.sentence())
    tally = Tally(sum(work.plan() for work in works))
    comparison = joined([work.run(watcher, tally, plugins) for work in works], jobs)
    designs = {
        "designs": [dataclasses.asdict(design) for design in tried],
        "equal_cost": [dataclasses.asdict(rate) for rate in equal],
    }
    return dataclasses.replace(comparison, inputs=comparison.inputs | designs)


class _Work:
    """All runs of one job."""

    def __init__(self, job: Job, with_timeline: bool) -> None:
        self._budget = Budget(job)
        self._part = self._budget.part
        few = FewReplicas.of(self._budget.played)
        self._case = _Case("", job, with_timeline, with_samples=self._part is None, few=few)
        self._loads = other_loads(job)
        self._expected: Requirements | None = None

    @property
    def _loads_to_run(self) -> dict[str, Scenario]:
        job = self._case.job
        return {name: load for name, load in self._loads.items() if not is_load_of(job, name)}

    def check_servers(self) -> None:
        """Refuse failures of parts that no fabric has whatever the job."""
        case, job = self._case, self._case.job
        clusters = {fabric.name: case.networks.cluster(fabric) for fabric in job.fabrics}
        parts = named_parts(job.scenario.fail)
        check_servers(clusters, parts)
        check_switches(job.fabrics, clusters, parts)

    def forecast(self) -> Requirements | None:
        """What the runs will take; ``None`` for short ones, and for those of a trace."""
        self._expected = forecast(self._budget)
        return self._expected

    def _cost(self, attempt: Attempt) -> float:
        """Seconds that a run takes, as forecast; a unit each where nothing was."""
        if self._expected is None:
            return 1.0
        return self._expected.cost(attempt.fabric.name, attempt.imbalance, attempt.variant)

    def plan(self) -> float:
        """Plan all fabrics, refuse what cannot be run, and add up the costs of the runs."""
        case, job = self._case, self._case.job
        case.check_failures()
        workloads = case.few.workloads if case.few else case.workloads
        self._first = workloads.get(job.samples()[0], case.networks.server_size(job.fabrics[0]))
        attempts = list(case.attempts())
        for attempt in attempts:
            case.networks.get(attempt.fabric)
        if not job.is_drawn:
            # what a recording lacks in a later sample is refused before anything runs
            for fabric in job.fabrics:
                case.networks.context(fabric).mean()
        total = sum(map(self._cost, attempts)) + self._trials_cost("")
        if self._part is not None:
            # every sample, and every load, on a part of the step
            runs = [Attempt(fabric, sample) for fabric in job.fabrics for sample in job.samples()]
            runs += [Attempt(f, job.samples()[0]) for f in job.fabrics for _ in self._loads_to_run]
            return total + self._part.share * sum(map(self._cost, runs))
        sample = job.samples()[0]
        for name in self._loads_to_run:
            runs = [Attempt(fabric, sample, imbalance=name) for fabric in job.fabrics]
            total += sum(map(self._cost, runs)) + self._trials_cost(name)
        return total

    def _trials_cost(self, load: str) -> float:
        """What candidates cost that are tried in vain: the fastest is the first sample, too."""
        if load in LEARNED:
            return 0.0
        trials = [dataclasses.replace(trial, imbalance=load) for trial in self._case.trials]
        cost = sum(map(self._cost, trials))
        if self._case.is_packets:
            return cost
        chosen = {trial.fabric.name: dataclasses.replace(trial, variant=OWN) for trial in trials}
        return max(0.0, cost - sum(map(self._cost, chosen.values())))

    def run(self, watcher: Monitor[Row], tally: Tally, plugins: Plugins) -> Comparison:
        """Run everything, and sum it up."""
        case, phases = self._case, dict[str, Phases]()
        progress = RunProgress(watcher, tally, self._cost)
        if self._part is not None:
            done = _run_divided(case, self._part, self._loads_to_run, progress, plugins)
        else:
            done, phases = _run_loads(case, self._loads_to_run, progress, plugins)
        return comparison_of(
            case.job, done, self._first, phases, tuple(self._loads), case.failures()
        )


def _run_loads(
    case: _Case, loads: Mapping[str, Scenario], progress: RunProgress, plugins: Plugins
) -> tuple[list[Done], dict[str, Phases]]:
    """Run everything of a case, and then of the same job under other loads."""
    # balanced and skewed load choose their own candidates
    job = case.job
    done, phases, whole = _run_case(case, progress, plugins)
    case.workloads.forget()
    for name, load in loads.items():
        fabrics = case.job.fabrics if name in LEARNED else job.fabrics
        there = dataclasses.replace(job, scenario=load, fabrics=fabrics)
        other = _Case(name, there, taken=case.taken)
        done += _run_case(other, progress, plugins, whole=whole)[0]
        other.workloads.forget()
    return done, phases


def _run_case(
    case: _Case, progress: RunProgress, plugins: Plugins, *, whole: bool | None = None
) -> tuple[list[Done], dict[str, Phases], bool]:
    """Run everything of a case; what is done in the order of its attempts.

    Steps of packets are simulated whole if ``whole`` says so, or by their size if it is none; the
    last of what is returned is whether they were.
    """
    watcher = progress.monitor
    runner = Runner(case.workloads, case.networks, progress, plugins)
    chosen, tried = _choose(case, runner)
    chosen, tried = _take_strategies(case, runner, chosen, tried)
    runner = dataclasses.replace(runner, taken=case.workloads_taken())
    attempts = _rest(case, [*chosen, *tried])
    phases = phases_by_fabric(case.job, case.networks)
    flows: dict[Attempt, Run] = {}
    if phases:
        counted = RunProgress(watcher, Tally(len(attempts)))
        survey = dataclasses.replace(runner, progress=counted, phases=phases, is_survey=True)
        flows = {done.attempt: done.run for done in run_all(_of(survey, attempts), counted)}
        if whole is None:
            whole = whole_steps(case.job.scenario, phases)
        options = packet_options(case.job.scenario) or PacketOptions()
        text = prediction(phases, options, whole=whole)
        watcher.remark(text + instead(phases, options, whole=whole))
        check_size(case.job.scenario, phases, whole=whole)
    packets = packets_like(case.job.scenario) if whole else None
    runner = dataclasses.replace(runner, phases=phases, whole=packets)
    done = [*chosen, *tried, *_all(runner, case.job, attempts, flows=flows)]
    return done, phases, bool(whole)


def _choose(case: _Case, runner: Runner) -> tuple[list[Done], list[Done]]:
    """Settle what fabrics leave open; the runs that were chosen, and all tried."""
    trials, slower = _contenders(case, runner)
    tried = _all(runner, case.job, trials, keep_rows=not case.is_packets)
    chosen = case.choose(tried, slower)
    for trial in chosen:
        runner.progress.monitor.finished(_row(case.job, trial))
    return chosen, tried


def _take_strategies(
    case: _Case, runner: Runner, chosen: list[Done], tried: list[Done]
) -> tuple[list[Done], list[Done]]:
    """Settle the strategy of all-to-alls on each fabric, where the plan leaves it open.

    Takes and returns the runs that were chosen, and all others. Packets are simulated with what
    was fastest as flows.
    """
    trials = case.strategy_trials()
    if not trials:
        return chosen, tried
    progress = runner.progress
    progress.tally.total -= sum(progress.cost(each.attempt) for each in chosen)
    done = _all(runner, case.job, trials, keep_rows=not case.is_packets)
    fastest = fastest_strategies(done)
    for fabric, trial in fastest.items():
        assert isinstance(trial.attempt.variant, OtherStrategy)
        case.taken[fabric] = trial.attempt.variant.strategy
    if case.is_packets:
        return [], tried
    own = [as_own(trial) for trial in fastest.values()]
    for trial in own:
        progress.monitor.finished(_row(case.job, trial))
    return own, [*tried, *done]


def _rest(case: _Case, have_run: Sequence[Done]) -> list[Attempt]:
    """What is still to run of a case."""
    have = {done.attempt for done in have_run}
    return [attempt for attempt in case.attempts() if attempt not in have]


def _run_divided(
    case: _Case,
    part: PartStep,
    loads: Mapping[str, Scenario],
    progress: RunProgress,
    plugins: Plugins,
) -> list[Done]:
    """Run the first sample of a case, and meanwhile all others, and loads, on a part of it."""
    runner = Runner(case.workloads, case.networks, progress, plugins, few=case.few)
    chosen, tried = _choose(case, runner)
    chosen, tried = _take_strategies(case, runner, chosen, tried)
    runner = dataclasses.replace(runner, taken=case.workloads_taken())
    whole = _rest(case, [*chosen, *tried])
    work, parts = _of(runner, whole), []
    fabrics = [strategies.estimated(fabric, case.networks) for fabric in case.job.fabrics]
    job = dataclasses.replace(part.job, fabrics=tuple(fabrics))
    for name, scenario in {"": job.scenario, **loads}.items():
        there = dataclasses.replace(job, scenario=scenario)
        other = _Case(name, there, with_variants=False, taken=case.taken)
        on_part = Runner(
            other.workloads,
            other.networks,
            progress.times(part.share),
            plugins,
            taken=other.workloads_taken(),
        )
        parts += _of(on_part, list(other.attempts()))
    ids = {id(attempt) for attempt in whole}
    done: dict[int, Done] = {}
    own_runs = {each.attempt.fabric.name: each for each in chosen}

    def known(attempt: Attempt) -> Done | None:
        never = own_runs.get(attempt.fabric.name)
        if never is None or not as_never(attempt.variant, never.attempt.fabric, never.run):
            return None
        return dataclasses.replace(never, attempt=attempt)

    # other loads and seeds, which are the last, take longer than other speeds of computation
    for finished in run_all([*work, *reversed(parts)], progress, known):
        done[id(finished.attempt)] = finished
        if id(finished.attempt) in ids:
            progress.monitor.finished(_row(case.job, finished))
            if finished.attempt.variant == OWN:
                own_runs[finished.attempt.fabric.name] = finished
    simulated = [*chosen, *tried, *(done[id(attempt)] for _, attempt in work)]
    estimates = part.estimates(simulated, [done[id(attempt)] for _, attempt in parts])
    for estimate in estimates:
        progress.monitor.finished(_row(case.job, estimate))
    return [*simulated, *estimates]


def _contenders(case: _Case, runner: Runner) -> tuple[Sequence[Attempt], strategies.Slower]:
    """Trials that are worth a whole step, and the candidates that a short one rules out."""
    job = Budget(case.job).short if case.trials else None
    if job is None:
        return case.trials, {}
    workloads = Workloads(job)
    short = [dataclasses.replace(trial, with_timeline=False) for trial in case.trials]
    on_short = dataclasses.replace(
        runner,
        workloads=workloads,
        networks=Networks(job, workloads),
        progress=runner.progress.times(0.0),
        few=None,
    )
    kept, slower = strategies.contenders(case.trials, _all(on_short, job, short, keep_rows=False))
    cost = runner.progress.cost
    runner.progress.tally.total -= sum(map(cost, case.trials)) - sum(map(cost, kept))
    return kept, slower


def _of(runner: Runner, attempts: Sequence[Attempt]) -> list[tuple[Runner, Attempt]]:
    return [(runner, attempt) for attempt in attempts]


def _all(
    runner: Runner,
    job: Job,
    attempts: Sequence[Attempt],
    *,
    flows: Mapping[Attempt, Run] | None = None,
    keep_rows: bool = True,
) -> list[Done]:
    """Run attempts; in their order, as that in which they end must not reach a result."""
    done = {}
    for finished in run_all(_of(runner, attempts), runner.progress):
        finished.flows = (flows or {}).get(finished.attempt)
        done[id(finished.attempt)] = finished
        if keep_rows:
            runner.progress.monitor.finished(_row(job, finished))
    return [done[id(attempt)] for attempt in attempts]


def _predictor(scenario: Scenario, plugins: Plugins) -> str | PredictorFactory | None:
    """Name of a predictor or what makes one; an unknown name is refused before anything runs."""
    predictor = plugins.predictor or scenario.predictor
    return None if predictor is None else check_predictor(predictor)


def _begin(monitor: Monitor[Row], activity: str) -> None:
    if monitor.progress(0.0, activity) is False:
        raise KeyboardInterrupt


def _row(job: Job, done: Done) -> Row:
    """One run as a flat row; the keys are the columns of CSV and Parquet files."""
    run, attempt = done.run, done.attempt
    ocs, costs = done.network.part(Ocs), job.costs[attempt.fabric.name]
    rates, power_w = job.training_rates(run.step_time_s), costs.cluster_power.total_w
    return {
        "model": job.name,
        "gpus": job.scenario.gpus,
        "gpu": job.scenario.cluster.gpu,
        "rate_gbps": job.scenario.cluster.rate_gbps,
        **job.plan_columns(),
        "fabric": attempt.fabric.name,
        "fixed_s": ocs and ocs.timing.fixed_s,
        "per_pair_s": ocs and ocs.timing.per_pair_s,
        "link_up_s": ocs and ocs.timing.link_up_s,
        "variant": attempt.variant.key,
        "imbalance": attempt.imbalance,
        "seed": attempt.sample.seed,
        "step": attempt.sample.step,
        "compute_scale": attempt.sample.compute_scale,
        "network": job.scenario.network,
        "is_estimate": done.is_estimate,
        "step_time_s": run.step_time_s,
        **rates,
        **{f"{name}_s": seconds for name, seconds in run.critical_path_s.items()},
        "network_cost_usd": costs.network.total_usd,
        "cluster_cost_usd": costs.cluster.total_usd,
        "power_w": costs.network_power.total_w,
        "cluster_power_w": power_w,
        **_per_token(costs.cluster.total_usd, power_w, rates["tokens_per_s"]),
        "events": run.events,
        "run_hash": run.run_hash,
    }


def _per_token(cost_usd: float, power_w: float, tokens_per_s: float | None) -> Row:
    """Energy and dollars of the cluster per token; ``None`` where tokens are not known."""
    if tokens_per_s is None:
        return {"energy_per_token_j": None, "usd_per_token": None}
    ownership = load_ownership()
    return {
        "energy_per_token_j": ownership.energy_per_token_j(power_w, tokens_per_s),
        "usd_per_token": ownership.usd_per_token(cost_usd, power_w, tokens_per_s),
    }
