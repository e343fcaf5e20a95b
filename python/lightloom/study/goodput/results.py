"""What a job makes of its time on each fabric, given that parts fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lightloom.errors import InputError, echo
from lightloom.shown import ShownRows, views

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA_VERSION = 1
SECONDS_PER_DAY = 86_400


@dataclass(frozen=True)
class KindLoss:
    """What failures of one kind do.

    Attributes
    ----------
    kind
        Such as ``gpu``.
    per_day
        Failures per day, of all such parts.
    longer_share
        By what share a step is longer while one is out; the mean where parts differ.
    shares
        Share of the time that they cost, by what it goes to.
    """

    kind: str
    per_day: float
    longer_share: float
    shares: Mapping[str, float]

    @property
    def lost_share(self) -> float:
        """Share of the time that failures of the kind cost."""
        return sum(self.shares.values())


@dataclass(frozen=True)
class SparesResult:
    """The job with a number of spare servers.

    Attributes
    ----------
    spares, cost_usd
        How many, and what they cost.
    useful_share, useful_steps_per_day
        Useful share of the time, and steps.
    usd_per_gained_step
        Dollars for each further useful step per day, over the number before; ``None`` for the
        first, and where no step is gained.
    pays
        Whether a step gained costs less than one of the whole cluster.
    """

    spares: int
    cost_usd: float
    useful_share: float
    useful_steps_per_day: float
    usd_per_gained_step: float | None
    pays: bool


@dataclass(frozen=True)
class IntervalResult:
    """Useful share of the time with checkpoints at an interval, simulated and in closed form.

    The closed form leaves out that steps are longer and that spares run out.
    """

    interval_s: float
    useful_share: float
    closed_form_share: float


@dataclass(frozen=True)
class FabricGoodput:
    """One fabric's outcome.

    Attributes
    ----------
    fabric, kind
        Its name, and which it is.
    step_time_s
        Step time with all parts.
    useful_share, useful_low, useful_high
        Useful share of the time: mean of the runs, and its 95 % interval.
    run_low, run_high
        The same of single runs: their 5th and 95th percentile.
    useful_steps_per_day, useful_tokens_per_day
        Steps and tokens that count.
    interruptions_per_day, between_s
        Restarts per day, and mean time between failures that interrupt.
    interval_s
        Training time between checkpoints.
    spares
        Spare servers.
    shares
        Share of the time by what it goes to; the sum is 1.
    kinds
        What failures of each kind cost.
    by_spares, by_interval
        The job with other numbers of spare servers, and other intervals.
    usd_per_trillion_tokens, energy_per_token_j
        Of the cluster and its spares, over all of the time, per useful token.
    """

    fabric: str
    kind: str
    step_time_s: float
    useful_share: float
    useful_low: float
    useful_high: float
    run_low: float
    run_high: float
    useful_steps_per_day: float
    useful_tokens_per_day: float
    interruptions_per_day: float
    between_s: float
    interval_s: float
    spares: int
    shares: Mapping[str, float]
    kinds: tuple[KindLoss, ...]
    by_spares: tuple[SparesResult, ...]
    by_interval: tuple[IntervalResult, ...]
    usd_per_trillion_tokens: float
    energy_per_token_j: float

    def row(self) -> dict[str, Any]:
        """The values that are no tables, and the shares."""
        tables = {"shares", "kinds", "by_spares", "by_interval"}
        values = {name: value for name, value in vars(self).items() if name not in tables}
        return values | {f"{name}_share": share for name, share in self.shares.items()}

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {name: value for name, value in asdict(self).items() if name != "kinds"} | {
            "kinds": [asdict(kind) | {"lost_share": kind.lost_share} for kind in self.kinds]
        }


@dataclass(frozen=True, repr=False)
class Goodput(ShownRows):
    """The goodput of a job on several fabrics.

    ``inputs`` has what was assumed, with its sources; ``published`` what training runs reported,
    and what the model says of a job of their size.
    """

    inputs: dict[str, Any]
    results: tuple[FabricGoodput, ...]
    published: tuple[dict[str, Any], ...] = ()
    summary: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shares = ", ".join(f"{r.fabric} {100 * r.useful_share:.3g} %" for r in self.results)
        return f"Goodput({shares})"

    def print(self, console: Console | None = None, *, details: bool = False) -> None:
        """Print the useful share of the time and what the rest goes to; with details by kind."""
        if console is None:
            from rich.console import Console

            console = Console(highlight=False)
        views().show(self, console, details=details)

    def result(self, fabric: str) -> FabricGoodput:
        """The result of one fabric.

        Raises
        ------
        InputError
            If there is none.
        """
        for result in self.results:
            if result.fabric == fabric:
                return result
        known = ", ".join(result.fabric for result in self.results)
        raise InputError(f"fabric {echo(fabric)}: not simulated; expected one of {known}")

    def rows(self) -> list[dict[str, Any]]:
        """A row per fabric."""
        return [result.row() for result in self.results]

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {
            "schema_version": SCHEMA_VERSION,
            "inputs": self.inputs,
            "results": [result.to_json() for result in self.results],
            "published": list(self.published),
            "warnings": list(self.warnings),
        }
