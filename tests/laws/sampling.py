"""Which cases a law is checked on, and how a violation is reported.

A law is a function from a case to how far the case misses it, as a share of the step: 0 where it
holds exactly, ``None`` where it does not apply. Cases are numbered by seed, the same in each run;
``LIGHTLOOM_SOAK=N`` checks N times as many.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TypeVar

MULTIPLE = int(os.environ.get("LIGHTLOOM_SOAK", "0")) or 1

AnyCase = TypeVar("AnyCase")
Law = Callable[[AnyCase], float | None]


def seeds(count: int) -> range:
    """Seeds of as many cases as a test takes."""
    return range(count * MULTIPLE)


def hold(law: Law[AnyCase], cases: Iterable[AnyCase], bound: float) -> None:
    """Fail with the case that misses a law by more than a bound, and by the largest share."""
    missed = {case: share for case in cases if (share := law(case)) is not None}
    assert missed, "the law applies to no case of the sample"
    case, share = max(missed.items(), key=lambda item: item[1])
    over = sum(value > bound for value in missed.values())
    # shown by pytest -rP: what is left below a bound
    print(f"worst {share:.3%} of bound {bound:.3%}, {over} of {len(missed)} over: {case}")
    assert share <= bound, (
        f"{over} of {len(missed)} cases; by {share:.2%} (bound {bound:.2%}): {case}"
    )


def longer(after: float, before: float) -> float:
    """How much longer a step became, as a share; 0 where it is shorter."""
    return max(after / before - 1, 0.0)


def shorter(after: float, before: float) -> float:
    """How much shorter a step became, as a share; 0 where it is longer."""
    return max(1 - after / before, 0.0)


def apart(after: float, before: float) -> float:
    """How much a step changed, as a share."""
    return abs(after / before - 1)
