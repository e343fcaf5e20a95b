"""Crossbars and the time to decide: what their file says, and what lies between."""

import pytest

from lightloom.errors import HardwareError
from lightloom.hardware import (
    crossbar_names,
    crossbar_technology,
    decision_names,
    decision_times,
)
from lightloom.schedule import PERMUTATION_METHODS


def test_guard_times_are_those_of_the_paper():
    guards = {name: crossbar_technology(name).guard_s for name in crossbar_names()}
    assert guards == {"electronic": 10e-9, "tunable-laser": 10e-9, "mems": 1e-3}
    assert crossbar_technology("mems").provenance["guard_s"].source.startswith("Chronos")
    assert crossbar_technology("electronic").provenance["ports"].assumed


def test_an_unknown_technology_is_refused_with_the_known_ones():
    with pytest.raises(HardwareError, match=r"unknown crossbar technology 'mem'.*mems"):
        crossbar_technology("mem")
    with pytest.raises(HardwareError, match=r"unknown decision 'papers'.*paper"):
        decision_times("papers")


def test_the_times_of_table_2():
    paper = decision_times("paper")
    times = [paper.time_s(ports) for ports in (16, 32, 64, 128, 256)]
    assert times == pytest.approx([0.5e-3, 3e-3, 25e-3, 291e-3, 4.45])
    # halfway on a log scale, and beyond both ends with the power of the nearest two
    assert paper.time_s(23) == pytest.approx(0.5e-3 * (23 / 16) ** 2.585, rel=1e-3)
    assert paper.time_s(8) == pytest.approx(0.5e-3 / 6)
    assert paper.time_s(512) == pytest.approx(4.45**2 / 291e-3)
    assert paper.time_s(1) == paper.time_s(0) == 0.0


def test_an_asic_is_known_for_64_ports_and_fewer():
    asic = decision_times("asic")
    assert (asic.time_s(2), asic.time_s(64)) == (1e-6, 1e-6)
    with pytest.raises(HardwareError, match="up to 64 ports, not for 65: give a time"):
        asic.time_s(65)


def test_every_method_was_measured():
    assert {*PERMUTATION_METHODS, "auto", "paper", "paper-maximal", "asic"} == {*decision_names()}
    for method in PERMUTATION_METHODS:
        times = decision_times(method)
        assert 0 < times.time_s(8) < times.time_s(128)
