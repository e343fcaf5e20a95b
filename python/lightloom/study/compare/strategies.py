"""The strategy of each fabric's all-to-alls, found by simulated time.

Where the user leaves the choice to the fabric and there is more than one that differs, each is
simulated on the first sample and the fastest is kept for all samples. So no fabric looks slow, or
another fast, because of a rule of thumb. Those that are clearly slower on a short step
(``short_step.py``) are not simulated in full. Where even that would take many minutes, the fabric's
estimate decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from lightloom.fabric import Cluster, Fabric, FabricContext
from lightloom.fabric.all_to_all import all_to_all_candidates
from lightloom.fabric.fabric_options import FabricOptions
from lightloom.fabric.network import Eps, Network
from lightloom.models import Model
from lightloom.parallel import Plan
from lightloom.schedule import ALL_TO_ALL_STRATEGIES
from lightloom.study.compare.builds import Networks
from lightloom.study.compare.job import ModelJob
from lightloom.study.compare.results import Sample
from lightloom.study.compare.runner import Attempt, Done
from lightloom.units import show_time

#: flows between ranks, in a step of flat all-to-alls, above which strategies are not simulated
MAX_FLOWS = 100_000_000

#: strategies that take longer by more than this share on a short step are not simulated in full;
#: overlap, of which a short step has less, was seen to shift 6 %
MARGIN = 0.08

#: what the name of a run with a certain strategy begins with
PREFIX = "all_to_all="


def candidates(
    network: Network, cluster: Cluster, context: FabricContext | None
) -> tuple[str, ...]:
    """Strategies that differ on a network; those of circuits between servers have one alone."""
    if any(not isinstance(part, Eps) for part in network.parts):
        return (network.all_to_all,)
    return all_to_all_candidates(cluster, context)


def flows_of(model: Model, plan: Plan) -> int:
    """Flows between the ranks of a step whose all-to-alls are flat, four per layer and pass."""
    all_to_alls = 4 * model.num_moe_layers * plan.micro_batches * plan.groups_per_stage
    return all_to_alls * plan.ep * (plan.ep - 1)


def trials(
    fabrics: Sequence[Fabric], networks: Networks, sample: Sample, **more: str | bool
) -> list[Attempt]:
    """Runs of the first sample, one per fabric and strategy, where there is a choice.

    ``more`` are other fields of the attempts.
    """
    attempts: list[Attempt] = []
    job = networks.job
    if isinstance(job, ModelJob) and flows_of(job.model, job.plan) > MAX_FLOWS:
        return attempts
    for fabric in fabrics:
        if not isinstance(fabric, FabricOptions) or fabric.all_to_all != "best":
            continue
        names = candidates(networks.get(fabric), networks.cluster(fabric), networks.context(fabric))
        for name in names if len(names) > 1 else ():
            tried = fabric.replace(all_to_all=name)
            attempts.append(Attempt(tried, sample, PREFIX + name, **more))  # type: ignore[arg-type]
    return attempts


def contenders(
    trials: Sequence[Attempt], short: Sequence[Done]
) -> tuple[list[Attempt], dict[str, dict[str, float]]]:
    """Trials that are worth a whole step after those on a short one.

    Returns
    -------
    tuple
        The trials within :data:`MARGIN` of the fastest of their fabric; and for each fabric by how
        many times the short step of each other strategy was longer than that of the fastest.
    """
    times: dict[str, dict[str, float]] = {}
    for one in short:
        times.setdefault(one.attempt.fabric.name, {})[one.attempt.variant] = one.run.step_time_s
    ratios = {
        name: {variant: seconds / min(own.values()) for variant, seconds in own.items()}
        for name, own in times.items()
    }
    slower = {
        name: {variant: ratio for variant, ratio in own.items() if ratio > 1 + MARGIN}
        for name, own in ratios.items()
    }
    kept = [trial for trial in trials if trial.variant not in slower.get(trial.fabric.name, {})]
    return kept, slower


def fastest(done: Sequence[Done]) -> dict[str, Done]:
    """The fastest of the trials of each fabric, by its name; of equal ones the simplest."""
    order = [PREFIX + name for name in ALL_TO_ALL_STRATEGIES]
    kept: dict[str, Done] = {}
    for one in sorted(done, key=lambda one: order.index(one.attempt.variant)):
        name = one.attempt.fabric.name
        if name not in kept or one.run.step_time_s < kept[name].run.step_time_s:
            kept[name] = one
    return kept


def as_chosen(done: Done, network: Network) -> Done:
    """The run of a trial as that of the fabric itself, whose network says why it was chosen."""
    attempt = dataclasses.replace(done.attempt, variant="")
    return dataclasses.replace(done, attempt=attempt, network=network)


def fixed(fabric: Fabric, network: Network) -> Fabric:
    """A fabric that spreads all-to-alls as its network does, with no more choice."""
    if isinstance(fabric, FabricOptions) and fabric.all_to_all == "best":
        return fabric.replace(all_to_all=network.all_to_all)
    return fabric


def reason(chosen: Done, done: Sequence[Done], slower: Mapping[str, float]) -> str:
    """How long the step takes with the chosen strategy, and how the others of the fabric did.

    ``slower`` are those that only a short step was simulated with, and its ratios.
    """
    others = [
        f"{_name(one.attempt.variant)} {show_time(one.run.step_time_s, 4)}"
        for one in done
        if one.attempt.fabric.name == chosen.attempt.fabric.name and one is not chosen
    ]
    ruled_out = [f"{_name(name)} {100 * (ratio - 1):.0f} %" for name, ratio in slower.items()]
    parts = [f"{show_time(chosen.run.step_time_s, 4)} on the first sample"]
    parts += [", ".join(others)] if others else []
    parts += [f"slower on a short step: {', '.join(ruled_out)}"] if ruled_out else []
    return "; ".join(parts)


def _name(variant: str) -> str:
    return variant.removeprefix(PREFIX)
