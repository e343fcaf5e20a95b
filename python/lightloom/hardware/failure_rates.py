"""How often parts of a cluster fail, and how long one is out."""

from __future__ import annotations

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


class RepairTable(Table):
    """What holds for all parts."""

    repair_days: Value


class FailureFile(Table):
    """The file of failures."""

    sources: dict[str, Source]
    values: RepairTable
    parts: dict[str, Value]


@dataclass(frozen=True)
class FailureRates:
    """Failures per part and year by kind of part, and days until one is repaired."""

    per_year: dict[str, Provenance]
    repair_days: Provenance

    def mean_out(self, kind: str, count: int) -> float | None:
        """How many of so many parts are out at a time, on average; ``None`` if no rate is known."""
        if kind not in self.per_year:
            return None
        return count * self.per_year[kind].value * self.repair_days.value / DAYS_PER_YEAR


def load_failure_rates() -> FailureRates:
    """The packaged values."""
    file = read_toml(None, PACKAGED, FailureFile)
    return FailureRates(
        resolve(file.parts, file.sources), **resolve(values_of(file.values), file.sources)
    )
