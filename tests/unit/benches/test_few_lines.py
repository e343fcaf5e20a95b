"""The program that seeks shorter schedules of a few lines than those of ``auto``."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from lightloom.schedule import decompose

ROOT = Path(__file__).parents[3]


@pytest.fixture
def shorter_than(monkeypatch):
    pytest.importorskip("scipy")
    monkeypatch.syspath_prepend(ROOT / "benches")
    return importlib.import_module("few_lines").shorter_than


def test_a_shorter_schedule_is_found_down_to_the_optimum(shorter_than):
    demand = np.array([[0, 500], [700, 0]])
    assert 750 <= shorter_than(demand, 50.0, 820.0, 30.0) < 820
    assert shorter_than(demand, 50.0, 750.0, 30.0) == np.inf


def test_a_pair_may_be_divided(shorter_than):
    """Two slots of 100 and one of 50: without dividing, 100 for a pair of 150 is not enough."""
    demand = np.array([[100, 150, 0], [0, 100, 150], [150, 0, 100]])
    assert shorter_than(demand, 10.0, 271.0, 30.0) == pytest.approx(270, abs=1)
    assert shorter_than(demand, 10.0, 270.0, 30.0) == np.inf


@pytest.mark.parametrize("seed", range(6))
def test_no_schedule_of_three_lines_is_shorter_than_that_of_auto(shorter_than, seed):
    demand = np.random.default_rng(seed).integers(0, 1_000, size=(3, 3))
    found = decompose(demand, delay_s=100 * 8 / 400e9)
    assert found.delay_bytes == 100
    assert shorter_than(demand, 100.0, float(found.length_bytes), 30.0) == np.inf
