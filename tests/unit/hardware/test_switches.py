import math
import tomllib
from importlib import resources

import numpy as np
import pytest

from lightloom.errors import HardwareError
from lightloom.hardware import (
    measured_turnaround,
    nic_activation,
    switch_names,
    switch_technology,
)

TABLE_2 = {
    "robotic": (1008, 300.0),
    "piezo": (576, 25e-3),
    "mems-3d": (320, 15e-3),
    "rotornet": (128, 10e-6),
    "silicon-photonics": (32, 7e-6),
    "plzt": (16, 10e-9),
}


@pytest.mark.parametrize("name", TABLE_2)
def test_table_2(name):
    technology = switch_technology(name)
    assert (technology.ports, technology.reconfig_delay_s) == TABLE_2[name]
    assert technology.delay_min_s <= technology.delay_max_s


def test_unreported_delay_is_not_made_up():
    palomar = switch_technology("Palomar")
    assert palomar.ports == 136
    assert palomar.delay_max_s is None
    with pytest.raises(HardwareError, match="'palomar': no reconfiguration delay was reported"):
        _ = palomar.reconfig_delay_s


def test_minutes_are_assumed():
    assert switch_technology("robotic").provenance["delay_max_s"].assumed
    assert not switch_technology("piezo").provenance["delay_max_s"].assumed


def test_unknown_technology_suggests():
    with pytest.raises(HardwareError, match=r"'pieso'; did you mean 'piezo'.; known: robotic"):
        switch_technology("pieso")
    assert set(TABLE_2) < set(switch_names())


@pytest.mark.parametrize(
    ("pairs", "mean_ms", "p99_ms"), [(1, 41.44, 60), (4, 42.44, 62), (16, 46.75, 68)]
)
def test_measured_turnaround(pairs, mean_ms, p99_ms):
    """MixNet, Appendix C, within the tolerance of the published figures."""
    delay = measured_turnaround(pairs)
    assert delay.mean_s == pytest.approx(mean_ms * 1e-3, abs=0.5e-3)
    assert delay.p99_s == pytest.approx(p99_ms * 1e-3, abs=2e-3)


def test_log_normal_has_the_published_mean_and_percentile():
    for delay in (measured_turnaround(4), nic_activation()):
        assert math.exp(delay.mu + delay.sigma**2 / 2) == pytest.approx(delay.mean_s)
        p99 = math.exp(delay.mu + 2.3263478740408408 * delay.sigma)
        assert p99 == pytest.approx(delay.p99_s)


def test_log_normal_samples():
    delay = measured_turnaround(16)
    draws = np.random.default_rng(1).lognormal(delay.mu, delay.sigma, 200_000)
    assert draws.mean() == pytest.approx(delay.mean_s, rel=5e-3)
    assert np.quantile(draws, 0.99) == pytest.approx(delay.p99_s, rel=1e-2)


def test_nic_activation():
    assert (nic_activation().mean_s, nic_activation().p99_s) == (5.67, 6.33)


def test_negative_pairs():
    with pytest.raises(HardwareError, match="expected 0 or more, got -1"):
        measured_turnaround(-1)


def test_every_value_of_the_file_names_a_listed_source():
    text = resources.files("lightloom.hardware").joinpath("data", "switches.toml").read_text()
    file = tomllib.loads(text)
    tables = [*file["technologies"].values(), file["turnaround"], file["nic_activation"]]
    values = [value for table in tables for value in table.values() if isinstance(value, dict)]
    assert len(values) >= 15
    assert {value["source"] for value in values} <= file["sources"].keys()
