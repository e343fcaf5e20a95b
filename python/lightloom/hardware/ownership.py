"""What turns what a cluster costs and draws into dollars per year."""

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

PACKAGED = "ownership.toml"
HOURS_PER_YEAR = 365.25 * 24


class OwnershipTable(Table):
    """The values as their file has them."""

    life_years: Value
    electricity_usd_per_kwh: Value
    pue: Value


class OwnershipFile(Table):
    """The file of ownership."""

    sources: dict[str, Source]
    values: OwnershipTable


@dataclass(frozen=True)
class Ownership:
    """How long hardware is used, what electricity costs, and how much more a hall draws.

    ``pue`` is the power of the hall over that of what computes and switches in it.
    """

    life_years: Provenance
    electricity_usd_per_kwh: Provenance
    pue: Provenance

    def yearly_usd(self, cost_usd: float, power_w: float) -> float:
        """Dollars per year: the price over the life of the hardware, and electricity.

        Parameters
        ----------
        cost_usd
            Price of the hardware.
        power_w
            Its own power, drawn all year; cooling comes on top.
        """
        return cost_usd / self.life_years.value + self.electricity_usd(power_w)

    def usd_per_token(self, cost_usd: float, power_w: float, tokens_per_s: float) -> float:
        """Dollars per token of hardware that trains at a pace: price over its life, electricity."""
        return self.yearly_usd(cost_usd, power_w) / (tokens_per_s * HOURS_PER_YEAR * 3600)

    def energy_per_token_j(self, power_w: float, tokens_per_s: float) -> float:
        """Energy of the hall per token, cooling included, of hardware that draws a power, J."""
        return power_w * self.pue.value / tokens_per_s

    def electricity_usd(self, power_w: float) -> float:
        """Dollars per year for electricity alone, that of cooling included."""
        return yearly_kwh(power_w * self.pue.value) * self.electricity_usd_per_kwh.value


def yearly_kwh(power_w: float) -> float:
    """Energy that a constant power takes in a year."""
    return power_w / 1000 * HOURS_PER_YEAR


def load_ownership() -> Ownership:
    """The packaged values."""
    file = read_toml(None, PACKAGED, OwnershipFile)
    return Ownership(**resolve(values_of(file.values), file.sources))
