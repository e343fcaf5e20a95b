"""What a fabric leaves open, found by simulated time: its all-to-alls' strategy, MixNet's split.

Where the user leaves a setting to the fabric and it has more than one candidate
(:meth:`lightloom.fabric.Fabric.candidates`), each is simulated on the first sample and the fastest
is kept for all samples. So no fabric looks slow, or another fast, because of a rule of thumb. Where
that would take too long, :mod:`.budget` says otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from lightloom.fabric import Fabric, Setting
from lightloom.fabric.network import Network
from lightloom.study.compare.builds import Networks
from lightloom.study.compare.results import Sample
from lightloom.study.compare.runner import Attempt, Done
from lightloom.study.compare.variants import OWN, FabricVariant, Strategy
from lightloom.units import show_time

#: candidates that take longer by more than this share on a short step are not simulated in full;
#: overlap, of which a short step has less, was seen to shift 6 %
MARGIN = 0.08

#: for each fabric how many times longer a short step is with each candidate that it rules out
Slower = Mapping[str, Mapping[FabricVariant, float]]


def candidates(fabric: Fabric, networks: Networks) -> Mapping[Setting, Fabric]:
    """The candidates of a fabric for the job, its estimate first; empty if nothing is open."""
    return fabric.candidates(networks.cluster(fabric), networks.context(fabric))


def trials(
    fabrics: Sequence[Fabric],
    networks: Networks,
    sample: Sample,
    *,
    with_timeline: bool = False,
    imbalance: str = "",
) -> list[Attempt]:
    """Runs of the first sample, one per fabric and candidate, where there is a choice."""
    attempts: list[Attempt] = []
    for fabric in fabrics:
        settings = candidates(fabric, networks)
        if len(settings) > 1:
            attempts += [
                Attempt(candidate, sample, Strategy(setting), with_timeline, imbalance)
                for setting, candidate in settings.items()
            ]
    return attempts


def contenders(trials: Sequence[Attempt], short: Sequence[Done]) -> tuple[list[Attempt], Slower]:
    """Trials that are worth a whole step after those on a short one.

    Returns
    -------
    tuple
        The trials within :data:`MARGIN` of the fastest of their fabric; and for each fabric by how
        many times the short step of each other candidate was longer than that of the fastest.
    """
    times: dict[str, dict[FabricVariant, float]] = {}
    for trial in short:
        times_s = times.setdefault(trial.attempt.fabric.name, {})
        times_s[trial.attempt.variant] = trial.run.step_time_s
    ratios = {
        name: {variant: seconds / min(times_s.values()) for variant, seconds in times_s.items()}
        for name, times_s in times.items()
    }
    slower = {
        name: {variant: ratio for variant, ratio in times_s.items() if ratio > 1 + MARGIN}
        for name, times_s in ratios.items()
    }
    kept = [trial for trial in trials if trial.variant not in slower.get(trial.fabric.name, {})]
    return kept, slower


def fastest(done: Sequence[Done]) -> dict[str, Done]:
    """The fastest of the trials of each fabric, by its name; of equal ones the first."""
    kept: dict[str, Done] = {}
    for trial in done:
        name = trial.attempt.fabric.name
        if name not in kept or trial.run.step_time_s < kept[name].run.step_time_s:
            kept[name] = trial
    return kept


def as_chosen(done: Done, network: Network) -> Done:
    """The run of a trial as that of the fabric itself, whose network says why it was chosen."""
    attempt = dataclasses.replace(done.attempt, variant=OWN)
    return dataclasses.replace(done, attempt=attempt, network=network)


def estimated(fabric: Fabric, networks: Networks) -> Fabric:
    """A fabric with its estimate for the job in the place of what it leaves open."""
    return next(iter(candidates(fabric, networks).values()), fabric)


def reason(chosen: Done, done: Sequence[Done], slower: Mapping[FabricVariant, float]) -> str:
    """How long the step takes with the chosen candidate, and how the others of the fabric did.

    ``slower`` are those that only a short step was simulated with, and its ratios.
    """
    tried = [
        f"{trial.attempt.variant.title} {show_time(trial.run.step_time_s, 4)}"
        for trial in done
        if trial.attempt.fabric.name == chosen.attempt.fabric.name and trial is not chosen
    ]
    ruled_out = [f"{other.title} {100 * (ratio - 1):.0f} %" for other, ratio in slower.items()]
    parts = [f"{show_time(chosen.run.step_time_s, 4)} on the first sample"]
    parts += [", ".join(tried)] if tried else []
    parts += [f"slower on a short step: {', '.join(ruled_out)}"] if ruled_out else []
    return "; ".join(parts)
