"""Traces on which the right prediction is known."""

import numpy as np
import pytest
from tests.predictor_traces import play, tied_layers

from lightloom.demand.predictors import PREDICTORS, Copilot, Ridge, make_predictor
from lightloom.demand.predictors.ridge import fit
from lightloom.demand.predictors.window import Window


@pytest.mark.parametrize("name", sorted(set(PREDICTORS) - {"uniform", "previous-layer"}))
def test_constant_loads_are_predicted_exactly(name):
    rng = np.random.default_rng(0)
    layers = rng.dirichlet(np.full(6, 1.0), size=3)
    predicted = play(make_predictor(name, 6, window=4), np.tile(layers, (10, 1, 1)))
    # a single pair of loads does not determine P, yet any P that fits it predicts it
    assert predicted[3:] == pytest.approx(np.tile(layers, (7, 1, 1)), abs=2e-3)


@pytest.mark.parametrize("topics", [2, 5, 8])
def test_weak_ridge_recovers_a_linear_relation(topics):
    """Y = P X on `topics` dimensions and more pairs than that: nothing is left to guess."""
    trace = tied_layers(24, 41, topics=topics)
    window = Window(32, 24)
    for pair in trace[:40]:
        window.add(*pair)
    found = fit(window, trace[40, 0], np.array([1e-9]))[0]
    assert found == pytest.approx(trace[40, 1], abs=1e-6)


def test_ridge_comes_close_with_the_strengths_that_it_has():
    trace = tied_layers(24, 120, topics=6)
    gap = np.abs(play(Ridge(24), trace) - trace).sum(axis=-1)[60:, 1].mean()
    between = np.abs(trace[1:] - trace[:-1]).sum(axis=-1)[60:, 1].mean()
    assert gap < 0.15 * between


def test_copilot_recovers_a_permutation_of_experts():
    """P that renames experts: column-stochastic, and found from its vertices."""
    rng = np.random.default_rng(3)
    renamed = rng.permutation(5)
    inputs = rng.dirichlet(np.full(5, 0.3), size=24)
    trace = np.stack([inputs, inputs[:, renamed]], axis=1)
    made = Copilot(5, window=24)
    play(made, trace)
    expected = np.eye(5)[renamed]
    assert made.transition(1) == pytest.approx(expected, abs=2e-3)
