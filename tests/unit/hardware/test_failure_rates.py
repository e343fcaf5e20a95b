"""Rates of failures, by hand."""

import pytest

from lightloom.hardware import load_failure_rates


def test_rates_are_those_of_the_published_run():
    rates = load_failure_rates()
    years = 54 / 365.25
    per_year = {name: value.value for name, value in rates.per_year.items()}
    assert per_year["gpu"] == pytest.approx((148 + 72 + 19 + 17 + 6 + 6) / years / 16_384, rel=1e-3)
    assert per_year["server"] == pytest.approx((32 + 3 + 3 + 8) / years / 2_048, rel=1e-3)
    assert per_year["nic"] == pytest.approx(7 / years / 16_384, rel=1e-3)
    assert per_year["link"] == pytest.approx(12 * 0.00057)
    assert per_year["tor"] == pytest.approx(12 * 0.00051)


def test_parts_that_are_out_at_a_time():
    rates = load_failure_rates()
    # 4,096 GPUs: 1.24 failures a day, each out for one
    assert rates.mean_out("gpu", 4_096) == pytest.approx(1.24, abs=0.005)
    assert rates.mean_out("gpu", 0) == 0
    assert rates.mean_out("plane", 8) is None
