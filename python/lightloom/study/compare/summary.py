"""From finished runs to a comparison: intervals, ties, cost, power and every input used."""

from __future__ import annotations

import dataclasses
import statistics as stats
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom import __version__
from lightloom.demand import statistics as skew_statistics
from lightloom.fabric import Fabric
from lightloom.hardware import known_error
from lightloom.models import catalog
from lightloom.models.parameters import active_parameters, total_parameters
from lightloom.models.record import model_record
from lightloom.parallel.grid import RankGrid
from lightloom.simulate import Phases, Run
from lightloom.study.compare.budget import Budget
from lightloom.study.compare.compute_note import compute_line, compute_warning, precision_warning
from lightloom.study.compare.failed_parts import Failure, failures_note
from lightloom.study.compare.job import Job, ModelJob, StepWorkload, load_fabrics
from lightloom.study.compare.packets import packets_note, packets_of
from lightloom.study.compare.policies import (
    link_up_result,
    policies_note,
    policy_results,
    switching_warning,
)
from lightloom.study.compare.repair import repair_of
from lightloom.study.compare.results import (
    Comparison,
    FabricResult,
    FailureResult,
    LoadResult,
    Sample,
)
from lightloom.study.compare.scenario import packet_options
from lightloom.study.compare.supply import supply_of
from lightloom.study.compare.switching import switching_of
from lightloom.study.compare.traced import TraceJob, inputs_of_trace, summary_of_trace
from lightloom.study.compare.variants import OWN, Variant
from lightloom.trace.step.build import TraceWorkload
from lightloom.units import show_count, show_time, show_usd
from lightloom.workload.build import Workload

if TYPE_CHECKING:
    from lightloom.study.compare.runner import Done


def comparison_of(
    job: Job,
    done: Sequence[Done],
    workload: StepWorkload,
    phases: Mapping[str, Phases],
    loads: Sequence[str],
    failures: Mapping[str, Sequence[Failure]],
) -> Comparison:
    """Sum up all runs; ``phases`` by fabric are there if packets were simulated.

    ``loads`` are names of the other loads that the runs have, or that are the scenario's own. How
    fabrics compare is left to :func:`joined`. ``failures`` says what each part that fails means, by
    fabric.
    """
    samples = job.samples()
    runs = {
        (d.attempt.fabric.name, d.attempt.variant, d.attempt.sample): d
        for d in done
        if not d.attempt.imbalance
    }
    results = [
        _result(job, fabric, samples, runs, phases.get(fabric.name), failures[fabric.name])
        for fabric in job.fabrics
    ]
    results = _with_loads(job, results, done, loads)
    pairs = zip(job.fabrics, results, strict=True)
    waiting = (switching_warning(fabric, result) for fabric, result in pairs)
    return Comparison(
        inputs=_inputs(job, samples, workload),
        results=tuple(results),
        demand=_demand(job, workload) | _logged(workload),
        memory=_memory(job),
        traffic_shares=dict(workload.traffic_shares()),
        warnings=(*warnings_of(job), *(one for one in waiting if one)),
        details={
            "runs": {fabric.name: runs[fabric.name, OWN, samples[0]] for fabric in job.fabrics},
            "workload": workload,
            "job": job,
        },
    )


def joined(comparisons: Sequence[Comparison], jobs: Sequence[Job]) -> Comparison:
    """One comparison of the fabrics of several, of the same job under one plan or several.

    Fabrics see the same samples, so that they are compared sample by sample: how fast the GPUs
    really are moves all of them alike, and makes no tie. A fabric is *tied* with the fastest if it
    is no slower on one sample at least, or if their mean times differ by less than a simulation
    resolves (:data:`SAME`). What is of one plan alone, as the demand, is that of the first.
    """
    first = comparisons[0]
    results = {result.fabric: result for one in comparisons for result in one.results}
    names = [fabric.name for fabric in load_fabrics(jobs[0].scenario)]
    ordered = _with_ties([results[name] for name in names])
    owners = {result.fabric: one.details for one in comparisons for result in one.results}
    details = {
        "runs": {name: owners[name]["runs"][name] for name in names},
        "workloads": {name: owners[name]["workload"] for name in names},
        "jobs": {name: owners[name]["job"] for name in names},
    }
    more = [line for job in jobs[1:] for line in plan_lines(job)]
    return dataclasses.replace(
        first,
        inputs=first.inputs | {"summary": [*first.inputs["summary"], *more]},
        results=tuple(_with_load_ratios(ordered)),
        warnings=tuple(dict.fromkeys(text for one in comparisons for text in one.warnings)),
        details=first.details | details,
    )


def warnings_of(job: Job) -> list[str]:
    """What to know before any result of a job is read."""
    if not isinstance(job, ModelJob):
        return []
    warnings = []
    if job.fitted.misfit:
        warnings.append(f"the plan does not fit {job.gpu.title}: {job.fitted.misfit}")
    warnings += [one for one in (compute_warning(job), precision_warning(job)) if one]
    source = job.demand(job.samples()[0])
    if source is not None and (floor := source.provenance.get("imbalance_floor")):
        warnings.append(floor)
    if 0 < job.model.max_positions < job.plan.seq_len:
        warnings.append(
            f"sequences of {job.plan.seq_len:,} tokens are longer than the "
            f"{job.model.max_positions:,} positions of {job.model.name}: as if it had as many"
        )
    return warnings


def _result(
    job: Job,
    fabric: Fabric,
    samples: Sequence[Sample],
    runs: Mapping[tuple[str, Variant, Sample], Done],
    phases: Phases | None,
    failures: Sequence[Failure],
) -> FabricResult:
    mine = [runs[fabric.name, OWN, sample] for sample in samples]
    times = [d.run.step_time_s for d in mine]
    nominal = [d for d in mine if d.attempt.sample.compute_scale == 1.0 and not d.is_estimate]
    step_time = stats.fmean(d.run.step_time_s for d in nominal)
    first, costs = mine[0], job.costs[fabric.name]
    parameters = fabric.effective(job.cluster, first.network)
    bill = fabric.bill_of_materials(job.installed, job.rates.counting, first.network)
    # Sorted, since runs end in any order.
    first_runs = {
        variant: d.run
        for (name, variant, _), d in sorted(runs.items(), key=lambda entry: entry[0][1].key)
        if name == fabric.name and variant != OWN
    }
    variants = {variant: run.step_time_s for variant, run in first_runs.items()}
    failed = tuple(failure.result(first.run.step_time_s, variants) for failure in failures)
    notes = _notes(first, variants, failed)
    if paper := _paper_cost_note(job, fabric):
        notes.append(paper)
    policies = policy_results(fabric, first.run, first_runs)
    if policies:
        notes.append(policies_note(policies))
    as_flows = [d.flows.step_time_s for d in nominal if d.flows is not None]
    packets = packets_of(job.scenario, phases, stats.fmean(as_flows) if as_flows else step_time)
    if packets:
        notes.append(packets_note(packets))
    return FabricResult(
        fabric=fabric.name,
        kind=fabric.kind,
        step_time_s=step_time,
        step_time_low_s=min(times),
        step_time_high_s=max(times),
        sample_step_times_s=tuple(times),
        **job.training_rates(step_time),
        network_cost_usd=costs.network.total_usd,
        cluster_cost_usd=costs.cluster.total_usd,
        network_power_w=costs.network_power.total_w,
        cluster_power_w=costs.cluster_power.total_w,
        critical_path_s=_mean([d.run.critical_path_s for d in nominal]),
        mean_s=_mean([_with_stragglers(d.run) for d in nominal]),
        carried_bytes={
            name: round(size)
            for name, size in _mean([d.run.carried_bytes for d in nominal]).items()
        },
        cost_by_component_usd=dict(costs.network.by_component_usd),
        power_by_component_w=dict(costs.network_power.by_component_w),
        policies=policies,
        link_up=link_up_result(fabric, first.run, first_runs),
        straggler_wait_s=stats.fmean(d.run.straggler_wait_s for d in nominal),
        reconfiguration=_mean([d.run.reconfiguration_summary() for d in nominal]),
        variants_s={variant.key: seconds for variant, seconds in variants.items()},
        failures=failed,
        parameters=parameters | {"conventions": costs.network.conventions},
        notes=tuple(notes),
        packets=packets,
        run_hash=first.run.run_hash,
        events=first.run.events,
        simulation_wall_s=first.wall_s,
        switching=switching_of(bill, fabric, job.installed, job.rates),
        plan=_plan(job) if isinstance(job, ModelJob) else {},
        supply=supply_of(bill, job.rates.prices),
    )


def _with_stragglers(run: Run) -> dict[str, float]:
    """Where the mean GPU's time goes, all waits for the last member of a group together."""
    waited_s, mean_s = run.straggler_wait_s, run.mean_s
    ep_s, straggler_s = mean_s.get("ep", 0.0) - waited_s, mean_s.get("straggler", 0.0) + waited_s
    return mean_s | {"ep": ep_s, "straggler": straggler_s} if waited_s else mean_s


def _notes(
    own: Done, variants: Mapping[Variant, float], failures: Sequence[FailureResult]
) -> list[str]:
    """What to know of a fabric's network, and of the first sample under other settings.

    Other policies and the bring-up of links are elsewhere.
    """
    network = own.network
    notes = [f"all-to-all {network.all_to_all}: {network.all_to_all_reason}", *network.notes]
    others = {variant.note: show_time(s) for variant, s in variants.items() if variant.note}
    if others:
        step = show_time(own.run.step_time_s)
        tried = " and ".join(
            f"{'as long' if other == step else other} if {words}" for words, other in others.items()
        )
        notes.append(f"the first sample takes {step}, and {tried}")
    if failed := failures_note(own.run.step_time_s, failures):
        notes.append(failed)
    return notes


def _paper_cost_note(job: Job, fabric: Fabric) -> str | None:
    """The network's cost as the MixNet paper counts, where that is another one."""
    paper = job.paper_cost_usd(fabric)
    if abs(paper / job.costs[fabric.name].network.total_usd - 1) < 5e-3:
        return None
    return f"by the MixNet paper's counting the network costs {show_usd(paper)}"


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean by name; a name that a row lacks counts as nothing there."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: stats.fmean(row.get(name, 0.0) for row in rows) for name in names}


def _with_ties(results: list[FabricResult]) -> list[FabricResult]:
    fastest = min(results, key=lambda r: r.step_time_s)
    return [
        dataclasses.replace(
            result,
            ratio_to_fastest=result.ratio_to(fastest),
            tied_with_fastest=result.is_as_fast_as(fastest),
        )
        for result in results
    ]


def _with_loads(
    job: Job, results: Sequence[FabricResult], done: Sequence[Done], names: Sequence[str]
) -> list[FabricResult]:
    """Add the steps under other loads, of which one may be the scenario's own."""
    runs = {
        (d.attempt.fabric.name, d.attempt.imbalance): d for d in done if d.attempt.variant == OWN
    }
    loads: dict[str, list[LoadResult]] = {result.fabric: [] for result in results}
    for name in names:
        for result in results:
            step_s, wait_s = result.step_time_s, result.straggler_wait_s
            strategy = result.parameters["all_to_all"]
            if (done_there := runs.get((result.fabric, name))) is not None:
                step_s, wait_s = done_there.run.step_time_s, done_there.run.straggler_wait_s
                strategy = done_there.network.all_to_all
            loads[result.fabric].append(_load_of(job, name, step_s, wait_s, strategy))
    return [dataclasses.replace(result, loads=tuple(loads[result.fabric])) for result in results]


def _with_load_ratios(results: Sequence[FabricResult]) -> list[FabricResult]:
    """Add to each load how much longer the step takes than on the fastest fabric."""
    best = {
        load.imbalance: min(one.step_time_s for r in results if (one := r.load(load.imbalance)))
        for load in results[0].loads
    }

    def compared(load: LoadResult) -> LoadResult:
        ratio = load.step_time_s / best[load.imbalance]
        return dataclasses.replace(load, ratio_to_fastest=ratio)

    return [dataclasses.replace(r, loads=tuple(map(compared, r.loads))) for r in results]


def _load_of(job: Job, name: str, step_time_s: float, wait_s: float, strategy: str) -> LoadResult:
    return LoadResult(
        imbalance=name,
        step_time_s=step_time_s,
        **job.training_rates(step_time_s),
        straggler_wait_s=wait_s,
        all_to_all=strategy,
    )


def _inputs(job: Job, samples: Sequence[Sample], workload: StepWorkload) -> dict[str, Any]:
    prices, powers = job.rates.prices, job.rates.powers
    return {
        "lightloom": __version__,
        "summary": summary_of(job, workload),
        "scenario": _scenario(job),
        **(_model_inputs(job) if isinstance(job, ModelJob) else {}),
        **(inputs_of_trace(job) if isinstance(job, TraceJob) else {}),
        "gpu": job.gpu.name,
        "compute": {"assumed": job.compute.assumed, **job.compute.provenance},
        "demand": dict(workload.provenance),
        "gpu_sources": _sources(job.gpu.provenance),
        "prices": {"file": prices.name, **_sources(prices.provenance())},
        "power": {"file": powers.name, **_sources(powers.provenance())},
        "samples": [dataclasses.asdict(sample) for sample in samples],
    }


def _scenario(job: Job) -> dict[str, Any]:
    """The scenario, with a model that is not in the catalog, and the content of own lists."""
    values = job.scenario.model_dump(mode="json")
    lists = {"price": ("prices", job.rates.prices.file), "power": ("power", job.rates.powers.file)}
    for name, (key, content) in lists.items():
        if values[key] is not None:
            values[f"{name}_list"] = content.model_dump(mode="json", exclude_unset=True)
    if isinstance(job, ModelJob) and job.scenario.model not in catalog():
        values["model_shape"] = model_record(job.model)
    return values


def _model_inputs(job: ModelJob) -> dict[str, Any]:
    plan = job.plan
    return {
        "model": {
            "name": job.model.name,
            "parameters": total_parameters(job.model),
            "active_parameters": active_parameters(job.model, "output"),
            "sources": job.model.sources,
        },
        "plan": _plan(job),
        "plan_candidates": [dataclasses.asdict(one) for one in job.candidates],
        **_known_error(job),
        "sequences_per_step": plan.sequences_per_step,
        "tokens_per_step": plan.tokens_per_step,
    }


def _plan(job: ModelJob) -> dict[str, Any]:
    return dataclasses.asdict(job.plan) | {"dense_dp": job.plan.dense_dp}


def _sources(values: Any) -> dict[str, Any]:
    return {name: dataclasses.asdict(value) for name, value in values.items()}


def summary_of_all(jobs: Sequence[Job]) -> list[str]:
    """The summary of the first of the jobs of a comparison, and the plans of the others."""
    return [*summary_of(jobs[0]), *(line for job in jobs[1:] for line in plan_lines(job))]


def plan_lines(job: Job) -> list[str]:
    """Plan and memory of a job whose fabrics have another plan than those before."""
    assert isinstance(job, ModelJob)
    names = ", ".join(fabric.name for fabric in job.fabrics)
    return [f"{names}: {line}" for line in _plan_summary(job)]


def summary_of(job: Job, workload: StepWorkload | None = None) -> list[str]:
    """Model or program, cluster, plan, memory and demand of a job, a line each.

    What is known once the workload is built is there if that is given.
    """
    if isinstance(job, TraceJob):
        built = workload if isinstance(workload, TraceWorkload) else None
        program, *lines = summary_of_trace(job, built)
        lines = [program, _cluster_line(job), *lines]
        if not job.is_recorded:
            lines.append(_demand_line(job, job.samples()))
    else:
        assert isinstance(job, ModelJob)
        lines = _model_summary(job, workload if isinstance(workload, Workload) else None)
    if (packets := packet_options(job.scenario)) is not None:
        chosen = "each distinct" if packets.phases is None else f"{packets.phases} of each purpose"
        lines.append(
            f"network: packets ({packets.transport}); phases simulated alone, {chosen} once, and"
            " put into a run of flows"
        )
    return lines


def _model_summary(job: ModelJob, workload: Workload | None) -> list[str]:
    """Model, cluster, plan, memory and demand."""
    model, scenario = job.model, job.scenario
    parameters = show_count(total_parameters(model))
    active = show_count(active_parameters(model, "output"))
    experts = f"{model.num_experts} experts, top-{model.experts_per_token}, "
    lines = [
        f"{model.name}: {model.num_layers} layers, {experts if model.num_experts else ''}"
        f"{parameters} parameters, {active} active per token",
        *([f"about the model: {'; '.join(model.notes)}"] if model.notes else []),
        _cluster_line(job),
        *_plan_summary(job),
    ]
    if line := compute_line(job):
        lines.append(line)
    lines.append(_demand_line(job, job.samples()))
    if (part := Budget(job).part) is not None:
        lines.append(part.sentence())
    if workload and workload.folded is not None and workload.folded.dropped_share:
        lines.append(
            f"capacity factor {scenario.demand.capacity_factor:g}: "
            f"{workload.folded.dropped_share:.2%} of the token copies are dropped"
        )
    return lines


def _plan_summary(job: ModelJob) -> list[str]:
    """The plan, where it comes from, and its memory."""
    plan = job.plan
    lines = [
        f"plan: TP{plan.tp} PP{plan.pp} EP{plan.ep} DP{plan.dp}"
        + (f" CP{plan.cp}" if plan.cp > 1 else "")
        + (f" VPP{plan.vpp}" if plan.vpp > 1 else "")
        + (f" ETP{plan.etp}" if plan.etp != plan.tp else "")
        + f" (dense DP {plan.dense_dp}); {plan.micro_batches} micro-batches of "
        f"{plan.micro_batch_size} x {plan.seq_len} tokens; "
        f"{plan.tokens_per_step:,} tokens per step",
    ]
    if (inside := _inside_servers(job)) is not None:
        lines.append(inside)
    if plan.provenance:
        lines.append(f"plan from: {'; '.join(plan.provenance)}")
    by_stage = " ".join(f"{stage.total_bytes / 1e9:.1f}" for stage in job.memory)
    lines.append(
        f"peak memory per GPU by stage [GB]: {by_stage}; "
        f"{job.fitted.limit_bytes(job.gpu) / 1e9:.1f} of "
        f"{job.gpu.hbm_capacity_bytes / 1e9:.0f} GB are for the model"
    )
    recompute = job.fitted.options.recompute
    if job.fitted.repaired:
        lines.append(
            f"activations recomputed so that the plan fits: {recompute}; without, "
            f"{job.fitted.repaired}"
        )
    elif recompute != "none":
        lines.append(f"activations recomputed: {recompute}")
    return lines


def _cluster_line(job: Job) -> str:
    scenario, bought = job.scenario, job.installed
    line = (
        f"{scenario.gpus} {job.gpu.title} GPUs, {bought.nics_per_server} NICs of "
        f"{scenario.cluster.rate_gbps:g} Gb/s per {bought.gpus_per_server}-GPU server"
    )
    if spares := scenario.cluster.spare_gpus_per_server:
        line += (
            f", of which {job.cluster.gpus_per_server} GPUs are used and {spares} are spares: "
            f"{bought.servers} servers, {bought.installed_gpus:,} GPUs bought"
        )
    elif bought.gpus < bought.installed_gpus:
        line += f"; {bought.installed_gpus} GPUs are bought, since servers are bought whole"
    return line


def _inside_servers(job: ModelJob) -> str | None:
    """What it means for a job of several servers that every EP group is inside one of them."""
    size, servers = job.plan.ep * job.plan.etp, job.cluster.servers
    if not job.has_routing or size == 1 or servers == 1:
        return None
    group = RankGrid(job.plan).ep_groups()[0, 0]
    if group[0] // job.cluster.gpus_per_server != group[-1] // job.cluster.gpus_per_server:
        return None
    return f"EP groups of {size} GPUs are inside servers: no all-to-all of experts leaves them"


def _demand_line(job: Job, samples: Sequence[Sample]) -> str:
    """What was sampled, and why there may be less of it than was asked for."""
    scenario = job.scenario
    source = scenario.demand.name if job.has_routing else "none (no experts)"
    seeds = len({sample.seed for sample in samples})
    steps = len({sample.step for sample in samples})
    parts = [f"{seeds} seed{'s' * (seeds > 1)} x {steps} step{'s' * (steps > 1)}"]
    if scenario.compute_spread:
        parts.append(f"compute speed +-{scenario.compute_spread:.0%}")
    if (seeds, steps) != (scenario.seeds, scenario.steps):
        alike = "every seed" if job.changes else "every seed and step"
        parts.append(f"the same for {alike}")
    return f"demand: {source}; {len(samples)} samples per fabric: {', '.join(parts)}"


def _memory(job: Job) -> dict[str, Any]:
    """Peak memory by stage; a trace does not say."""
    if not isinstance(job, ModelJob):
        return {}
    return job.fitted.as_dict(job.gpu) | {"repair": repair_of(job)}


def _demand(job: Job, workload: StepWorkload) -> dict[str, Any]:
    """The experts' first block: member x member dispatch bytes, and their skew."""
    number, experts = next(workload.graph.experts_demands, (-1, None))
    if experts is None or not experts.counts.any():
        return {}
    tokens = experts.counts
    per_token = _bytes_per_count(job, workload, number)
    # A stage of dense layers has no demand: show the first group that has.
    group = int(np.flatnonzero(tokens[:, 0].any(axis=(1, 2)))[0])
    first = tokens[group, 0].astype(np.float64)
    return {
        "server_bytes": (first * per_token).tolist(),
        "skew": dataclasses.asdict(skew_statistics(first)),
        "bytes_per_token": per_token,
    }


def _known_error(job: ModelJob) -> dict[str, Any]:
    """How far predictions of jobs like this one were from public runs."""
    found = known_error(has_experts=job.has_routing, precision=job.fitted.options.precision)
    return {"known_error": dataclasses.asdict(found)}


def _logged(workload: StepWorkload) -> dict[str, float]:
    """What a log that tokens are drawn from has, per layer and expert."""
    folded = workload.folded if isinstance(workload, Workload) else None
    if folded is None or folded.logged_copies is None:
        return {}
    return {"copies_per_expert": folded.logged_copies}


def _bytes_per_count(job: Job, workload: StepWorkload, table: int) -> float:
    """Bytes of a token copy; in a trace of a row of the first all-to-all of a demand table."""
    if isinstance(job, ModelJob):
        return job.model.expert_hidden * job.options.dispatch_element_bytes
    for role in workload.graph.roles:
        program = role.program
        if len(sizes := program.size[program.demand == table]):
            return float(sizes[0])
    return 0.0
