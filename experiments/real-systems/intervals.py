"""The factor around a prediction that should hold 80 % of public runs, by families of runs.

Runs of one model on one release of one source share their software and their error: they are a
family, which counts once. The reasons, and how the rule was chosen by runs that calibrate alone:
docs/decisions/0030-intervals-by-families.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from rows import Run
from scipy.stats import binom

#: share of runs that an interval is to hold, and families from which a class has its own
SHARE, FAMILIES = 0.8, 8
#: what chance leaves out on either side
TAIL = 0.05
RELEASE = re.compile(r"\b\d\d\.\d\d(\.\d\d)?\b")


class Sized(Protocol):
    """A run and how far off its prediction is, as a factor of 1 or more."""

    @property
    def run(self) -> Run:
        """The public run."""

    @property
    def size(self) -> float:
        """Predicted over published speed, or the inverse."""


def family(run: Run) -> tuple[str, str, str]:
    """The model, the source and its release, where a run names one."""
    release = RELEASE.search(run.where)
    return run.model, run.source, release.group() if release else ""


def shown(found: Sequence[Sized]) -> list[Sized]:
    """The runs that calibrate, by which intervals are made that the runs that test judge."""
    return [e for e in found if e.run.part == "calibrate"]


def pool(known: Sequence[Sized], group: str) -> Sequence[Sized]:
    """The runs by which the interval of a class is made.

    Its own if there are families enough, else with those in FP8 of its kind, else all.
    """
    near = f"{group.split(maxsplit=1)[0]} FP8"
    for groups in ({group}, {group, near}):
        own = [e for e in known if e.run.group in groups]
        if len({family(e.run) for e in own}) >= FAMILIES:
            return own
    return known


def spread(known: Sequence[Sized], group: str) -> float:
    """The factor within which 80 % of the families of a class were predicted.

    The error at rank 0.8 (n + 1) of n families, straight between errors, each weighted by one over
    the runs of its family: k of n observations have k / (n + 1) of new ones below the k-th, on
    average.
    """
    chosen = pool(known, group)
    members = Counter(family(e.run) for e in chosen)
    wanted = SHARE * (len(members) + 1)
    rank, below = 0.0, 1.0
    for size, weight in sorted((e.size, 1 / members[family(e.run)]) for e in chosen):
        if rank + weight >= wanted:
            return below + (wanted - rank) / weight * (size - below)
        rank, below = rank + weight, size
    return below


def expected(tested: int) -> tuple[int, int]:
    """The numbers of runs held that agree with 80 %: from the 5 % to the 95 % point of chance."""
    low, high = binom.ppf((TAIL, 1 - TAIL), tested, SHARE)
    return int(low), int(high)


def agrees(inside: int, tested: int) -> bool:
    """Whether a number of runs held agrees with 80 %."""
    low, high = expected(tested)
    return low <= inside <= high


def agreement(inside: int, tested: int) -> str:
    """Whether a number of runs held agrees with 80 %, in words."""
    low, high = expected(tested)
    return f"{'yes' if agrees(inside, tested) else '**no**'} ({low} to {high})"
