"""From finished runs to a comparison: intervals, ties, cost, power and every input used."""

from __future__ import annotations

import dataclasses
import statistics as stats
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom import __version__
from lightloom.demand import statistics as imbalance_statistics
from lightloom.fabric import Fabric
from lightloom.fabric.interconnect import interconnect_values, measured_links
from lightloom.simulate import Phases, Run
from lightloom.study.compare.budget import Budget
from lightloom.study.compare.failed_parts import Failure, failures_note
from lightloom.study.compare.job import Job, StepWorkload, load_fabrics
from lightloom.study.compare.other_strategies import strategy_results
from lightloom.study.compare.packets import WHOLE_HOPS, packets_note, packets_of
from lightloom.study.compare.policies import (
    link_up_result,
    policies_note,
    policy_results,
    switching_warning,
)
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
from lightloom.study.compare.variants import OWN, FabricVariant
from lightloom.units import show_time, show_usd
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
        demand=_demand(job, workload) | job.logged(workload),
        memory=job.memory_record(),
        traffic_shares=dict(workload.traffic_shares()),
        warnings=(*job.warnings(), *filter(None, waiting)),
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
    results = {result.fabric: result for part in comparisons for result in part.results}
    names = [fabric.name for fabric in load_fabrics(jobs[0].scenario)]
    ordered = _with_ties([results[name] for name in names])
    owners = {result.fabric: part.details for part in comparisons for result in part.results}
    details = {
        "runs": {name: owners[name]["runs"][name] for name in names},
        "workloads": {name: owners[name]["workload"] for name in names},
        "jobs": {name: owners[name]["job"] for name in names},
    }
    more = [line for job in jobs[1:] for line in _plan_lines(job)]
    return dataclasses.replace(
        first,
        inputs=first.inputs | {"summary": [*first.inputs["summary"], *more]},
        results=tuple(_with_load_ratios(ordered)),
        warnings=tuple(dict.fromkeys(text for part in comparisons for text in part.warnings)),
        details=first.details | details,
    )


def _result(
    job: Job,
    fabric: Fabric,
    samples: Sequence[Sample],
    runs: Mapping[tuple[str, FabricVariant, Sample], Done],
    phases: Phases | None,
    failures: Sequence[Failure],
) -> FabricResult:
    mine = [runs[fabric.name, OWN, sample] for sample in samples]
    times = [d.run.step_time_s for d in mine]
    first, costs = mine[0], job.costs[fabric.name]
    nominal = [d for d in mine if d is first or not (d.is_estimate or d.attempt.is_scaled)]
    step_time = stats.fmean(d.run.step_time_s for d in nominal)
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
    flows_s = stats.fmean(as_flows) if as_flows else step_time
    if packets := packets_of(job.scenario, phases, first.run, step_time, flows_s):
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
        strategies=strategy_results(first_runs),
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
        plan=job.plan_record(),
        supply=supply_of(bill, job.rates.prices),
    )


def _with_stragglers(run: Run) -> dict[str, float]:
    """Where the mean GPU's time goes, all waits for the last member of a group together."""
    waited_s, mean_s = run.straggler_wait_s, run.mean_s
    if not waited_s:
        return mean_s
    # where all-to-alls are charged: of experts, or of ranks at large
    purpose = next(name for name in ("ep", "transfers", "dp") if name in mean_s)
    moved = {"straggler": waited_s, purpose: -waited_s}
    return mean_s | {name: mean_s.get(name, 0.0) + change for name, change in moved.items()}


def _notes(
    first: Done, variants: Mapping[FabricVariant, float], failures: Sequence[FailureResult]
) -> list[str]:
    """What to know of a fabric's network, and of the first sample under other settings.

    Other policies and the bring-up of links are elsewhere.
    """
    network = first.network
    notes = [f"all-to-all {network.all_to_all}: {network.all_to_all_reason}", *network.notes]
    others = {variant.note: show_time(s) for variant, s in variants.items() if variant.note}
    if others:
        step = show_time(first.run.step_time_s)
        tried = " and ".join(
            f"{'as long' if other == step else other} if {words}" for words, other in others.items()
        )
        notes.append(f"the first sample takes {step}, and {tried}")
    if failed := failures_note(first.run.step_time_s, failures):
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
        load.imbalance: min(
            loaded.step_time_s for r in results if (loaded := r.load(load.imbalance))
        )
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
        **job.inputs(),
        "gpu": job.gpu.name,
        "compute": {"assumed": job.compute.assumed, **job.compute.provenance},
        "demand": dict(workload.provenance),
        "strategies": _strategies(workload),
        "gpu_sources": _sources(job.gpu.provenance),
        "prices": {"file": prices.name, **_sources(prices.provenance())},
        "power": {"file": powers.name, **_sources(powers.provenance())},
        "samples": [dataclasses.asdict(sample) for sample in samples],
    }


def _strategies(workload: StepWorkload) -> list[dict[str, Any]]:
    """How the all-to-alls of each layer run, where that is not as usual."""
    if not isinstance(workload, Workload) or workload.plan.strategy == "O1":
        return []
    return [
        {"layer": layer, **dataclasses.asdict(strategy)}
        for layer, strategy in sorted(workload.strategies.items())
    ]


def _scenario(job: Job) -> dict[str, Any]:
    """The scenario, with a model that is not in the catalog, and the content of own lists."""
    values = job.scenario.model_dump(mode="json")
    lists = {"price": ("prices", job.rates.prices.file), "power": ("power", job.rates.powers.file)}
    for name, (key, content) in lists.items():
        if values[key] is not None:
            values[f"{name}_list"] = content.model_dump(mode="json", exclude_unset=True)
    return values | job.shape_record()


def _sources(values: Any) -> dict[str, Any]:
    return {name: dataclasses.asdict(value) for name, value in values.items()}


def summary_of_all(jobs: Sequence[Job]) -> list[str]:
    """The summary of the first of the jobs of a comparison, and the plans of the others."""
    return [*summary_of(jobs[0]), *(line for job in jobs[1:] for line in _plan_lines(job))]


def _plan_lines(job: Job) -> list[str]:
    """Plan and memory of a job whose fabrics have another plan than those before."""
    names = ", ".join(fabric.name for fabric in job.fabrics)
    return [f"{names}: {line}" for line in job.plan_summary()]


def summary_of(job: Job, workload: StepWorkload | None = None) -> list[str]:
    """Model or program, cluster, plan, memory and demand of a job, a line each.

    What is known once the workload is built is there if that is given.
    """
    lines = [*job.opening(), _cluster_line(job), *_links_line(job), *job.details(workload)]
    lines.append(job.demand_line())
    budget = Budget(job)
    if budget.part is not None:
        lines.append(budget.part.sentence(budget.played))
    if workload is not None:
        lines += job.losses(workload)
    if (packets := packet_options(job.scenario)) is not None:
        lines.append(f"network: packets ({packets.transport}); {_packets_text(packets.phases)}")
    return lines


def _packets_text(phases: int | str | None) -> str:
    """What is simulated as packets."""
    if phases is None:
        most = f"{WHOLE_HOPS / 1e6:.0f} million packet-hops"
        return f"whole steps up to {most} in all runs, else each distinct phase alone"
    if phases == "whole":
        return "whole steps"
    chosen = "each distinct" if phases == "all" else f"{phases} of each purpose"
    return f"phases simulated alone, {chosen} once, and put into a run of flows"


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


def _links_line(job: Job) -> list[str]:
    """What a profile says of links, and what the packaged values are."""
    profile = job.scenario.cluster.profile
    if not (found := measured_links(profile)):
        return []
    packaged = interconnect_values(job.cluster.gpu)
    parts = [
        f"{name} {value.value:.4g}"
        + (f" (packaged {packaged[name].value:.4g})" if name in packaged else "")
        for name, value in found.items()
    ]
    return [f"links calibrated by {profile}: {', '.join(parts)}"]


def _demand(job: Job, workload: StepWorkload) -> dict[str, Any]:
    """The experts' first block: member x member dispatch bytes, and their imbalance."""
    number, experts = next(workload.graph.experts_demands, (-1, None))
    if experts is None or not experts.counts.any():
        return {}
    tokens = experts.counts
    per_token = job.bytes_per_count(workload, number)
    # A stage of dense layers has no demand: show the first group that has.
    group = int(np.flatnonzero(tokens[:, 0].any(axis=(1, 2)))[0])
    first = tokens[group, 0].astype(np.float64)
    return {
        "server_bytes": (first * per_token).tolist(),
        "imbalance": dataclasses.asdict(imbalance_statistics(first)),
        "bytes_per_token": per_token,
    }
