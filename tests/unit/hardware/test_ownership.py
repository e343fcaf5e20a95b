"""Dollars per year, by hand."""

import pytest

from lightloom.hardware import Ownership, yearly_kwh
from lightloom.hardware.values import Provenance


def test_price_over_the_years_and_electricity_around_the_clock():
    years, price, pue = (Provenance(value, "test", "2026-11", True) for value in (4.0, 0.1, 1.5))
    owned = Ownership(life_years=years, electricity_usd_per_kwh=price, pue=pue)
    # 1 kW for 365.25 days
    assert yearly_kwh(1000) == 8766
    assert owned.electricity_usd(1000) == pytest.approx(1.5 * 876.6)
    assert owned.yearly_usd(8000, 1000) == pytest.approx(2000 + 1.5 * 876.6)
    assert owned.yearly_usd(8000, 0) == 2000
