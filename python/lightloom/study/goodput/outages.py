"""What fails when, drawn for many runs at once.

Failures of each kind come at random at a constant rate, and a part is out for a random time with
the mean of its kind (both exponential). Nothing depends on what the job does meanwhile, so that all
fabrics, spares and intervals are held against the same draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FailureClass:
    """Failures that do the same to a job.

    Attributes
    ----------
    kind
        What fails, such as ``gpu``; several classes may be of a kind.
    per_s
        Failures per second, of all such parts.
    repair_s
        Mean time until one is repaired; 0 where nothing is out.
    longer_share
        By what share a step is longer until then.
    servers
        Spare servers that take part until then.
    stops
        Whether the job cannot go on until then.
    interrupts
        Whether the job has to restart; if not, it goes on without the part.
    is_planned
        Whether the job is stopped on purpose, right after a checkpoint.
    """

    kind: str
    per_s: float
    repair_s: float = 0.0
    longer_share: float = 0.0
    servers: int = 0
    stops: bool = False
    interrupts: bool = True
    is_planned: bool = False

    @property
    def pace(self) -> float:
        """Pace while such a part is out, over that with all parts."""
        return 1 / (1 + max(0.0, self.longer_share))


@dataclass(frozen=True)
class Outages:
    """What fails in each run, in the order of time.

    Attributes
    ----------
    classes
        What may fail.
    horizon_s
        How long a run is.
    start_s, end_s
        When each part fails, and when it is repaired: (runs, failures), infinity for none.
    class_of
        Number of its class: (runs, failures).
    """

    classes: tuple[FailureClass, ...]
    horizon_s: float
    start_s: Floats
    end_s: Floats
    class_of: Whole

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.start_s)

    def count(self, kind: str) -> Whole:
        """Failures of a kind in each run: (runs,)."""
        is_kind = np.array([class_.kind == kind for class_ in self.classes], dtype=bool)
        there = self.start_s < self.horizon_s
        if not len(self.classes):
            return np.zeros(self.runs, dtype=np.int64)
        return np.asarray((is_kind[self.class_of] & there).sum(axis=1), dtype=np.int64)


def draw_outages(
    classes: Sequence[FailureClass], horizon_s: float, runs: int, seed: int
) -> Outages:
    """Draw what fails.

    A kind has a random stream of its own, and its classes divide what that brings: what fails of a
    kind, and for how long, does not depend on what other kinds there are.

    Parameters
    ----------
    classes
        What may fail.
    horizon_s, runs
        How long, and how often.
    seed
        Of the random numbers.
    """
    kinds = dict.fromkeys(class_.kind for class_ in classes)
    parts: list[tuple[Floats, Floats, Whole]] = []
    for kind in kinds:
        numbers = [n for n, class_ in enumerate(classes) if class_.kind == kind]
        rates = np.array([classes[n].per_s for n in numbers])
        if rates.sum() <= 0:
            continue
        stream = np.random.default_rng([seed, *kind.encode()])
        count = stream.poisson(rates.sum() * horizon_s, runs)
        shape = (runs, int(count.max()))
        at = stream.random(shape) * horizon_s
        pick = stream.choice(np.array(numbers), size=shape, p=rates / rates.sum())
        out = stream.exponential(1.0, shape)
        repair = np.array([class_.repair_s for class_ in classes])
        at[np.arange(shape[1]) >= count[:, None]] = np.inf
        parts.append((at, at + out * repair[pick], pick))
    if not parts:
        none = np.full((runs, 0), np.inf)
        return Outages(tuple(classes), horizon_s, none, none, none.astype(np.int64))
    start, end = (np.concatenate([part[n] for part in parts], axis=1) for n in (0, 1))
    picked = np.concatenate([part[2] for part in parts], axis=1)
    order = np.argsort(start, axis=1, kind="stable")
    rows = np.arange(runs)[:, None]
    return Outages(tuple(classes), horizon_s, start[rows, order], end[rows, order],
                   picked[rows, order])  # fmt: skip
