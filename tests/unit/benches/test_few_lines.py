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


def test_a_pair_of_a_few_bytes_is_not_left_out(shorter_than):
    """Row 3 has 120 bytes for column 3, less than the tolerance of the solver."""
    random = np.random.default_rng(1)
    demand = importlib.import_module("kept_matchings").draw("sparse", 4, random)
    assert demand[3, 3] == 120
    longest = max(demand.sum(axis=0).max(), demand.sum(axis=1).max())
    found = decompose(demand, delay_s=float(longest * 0.3) * 8 / 400e9)
    other = shorter_than(demand, float(found.delay_bytes), float(found.length_bytes), 60.0)
    assert other == np.inf


@pytest.mark.parametrize("seed", range(6))
def test_no_schedule_of_three_lines_is_shorter_than_that_of_auto(shorter_than, seed):
    demand = np.random.default_rng(seed).integers(0, 1_000, size=(3, 3))
    found = decompose(demand, delay_s=100 * 8 / 400e9)
    assert found.delay_bytes == 100
    assert shorter_than(demand, 100.0, float(found.length_bytes), 30.0) == np.inf


@pytest.mark.usefixtures("shorter_than")
def test_constraints_agree_with_integers():
    """Dividing the pairs of 150 saves a slot: 270 are the least, up to the size of a part."""
    pytest.importorskip("ortools")
    by_constraints = importlib.import_module("few_lines_cp").shorter_than
    demand = 10**6 * np.array([[100, 150, 0], [0, 100, 150], [150, 0, 100]])
    assert 270e6 <= by_constraints(demand, 10e6, 300e6, 30.0) < 300e6
    assert by_constraints(demand, 10e6, 270e6, 30.0) == np.inf
