"""How often parts of a cluster fail, how long one is out, and what an interruption costs a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lightloom.hardware.values import (
    Provenance,
    Source,
    Table,
    Value,
    read_toml,
    resolve,
    values_of,
)

PACKAGED = "failures.toml"
DAYS_PER_YEAR = 365.25


class RecoveryTable(Table):
    """What holds for all parts."""

    repair_days: Value
    power_repair_days: Value
    detection_s: Value
    restart_s: Value
    checkpoint_bytes_per_s_per_gpu: Value
    servers_per_rack: Value
    servers_per_row: Value


class PublishedTable(Table):
    """A published training run: how much of its time was useful, or at least so much."""

    title: str
    gpus: int
    days: float | None = None
    interruptions: int | None = None
    share: float | None = None
    least_share: float | None = None
    text: str
    date: str
    is_verified: bool


class FailureFile(Table):
    """The file of failures."""

    sources: dict[str, Source]
    values: RecoveryTable
    parts: dict[str, Value]
    power: dict[str, Value]
    job: dict[str, Value]
    published: dict[str, PublishedTable]


@dataclass(frozen=True)
class FailureRates:
    """Failures per part and year by kind of part, and what follows a failure.

    Attributes
    ----------
    per_year
        Of parts, each.
    power_per_year
        Of a rack and of a row of racks, whose servers fail together.
    job_per_year
        Interruptions of a job per GPU, by what leaves all parts whole.
    repair_days, power_repair_days
        Until a part is repaired, and until power is back.
    detection_s, restart_s
        Until an interruption is noticed and diagnosed, and from there until the job trains again.
    checkpoint_bytes_per_s_per_gpu
        Rate at which the GPUs of a job write their state, each.
    servers_per_rack, servers_per_row
        Servers that lose their power together.
    """

    per_year: Mapping[str, Provenance]
    power_per_year: Mapping[str, Provenance]
    job_per_year: Mapping[str, Provenance]
    repair_days: Provenance
    power_repair_days: Provenance
    detection_s: Provenance
    restart_s: Provenance
    checkpoint_bytes_per_s_per_gpu: Provenance
    servers_per_rack: Provenance
    servers_per_row: Provenance

    def mean_out(self, kind: str, count: int) -> float | None:
        """How many of so many parts are out at a time, on average; ``None`` if no rate is known."""
        if kind not in self.per_year:
            return None
        return count * self.per_year[kind].value * self.repair_days.value / DAYS_PER_YEAR


def load_failure_rates() -> FailureRates:
    """The packaged values."""
    file = read_toml(None, PACKAGED, FailureFile)
    return FailureRates(
        resolve(file.parts, file.sources),
        resolve(file.power, file.sources),
        resolve(file.job, file.sources),
        **resolve(values_of(file.values), file.sources),
    )


def published_runs() -> tuple[PublishedTable, ...]:
    """Published training runs and how much of their time was useful."""
    return tuple(read_toml(None, PACKAGED, FailureFile).published.values())
